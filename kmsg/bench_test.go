package kmsg

import (
	"bytes"
	"testing"
	"time"
)

// megabyte repeats a recorded log.
func megabyte(b *testing.B, file string) []byte {
	one := recorded(b, "client-link-cut")[file]
	return bytes.Repeat(one, 1<<20/len(one)+1)
}

func BenchmarkParseKmsg(b *testing.B) {
	log := megabyte(b, "kmsg_raw")
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		ParseKmsg(log)
	}
}

func BenchmarkParseDmesg(b *testing.B) {
	log := megabyte(b, "dmesg_x")
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		ParseDmesg(log, nil)
	}
}

func BenchmarkParseSyslog(b *testing.B) {
	line := []byte("Jun 25 23:57:24 lustre-oss1 kernel: [ 1965.994953] Lustre: MGC10.77.0.1@o2ib: Connection restored to 10.77.0.1@o2ib (at 10.77.0.1@o2ib)\n")
	log := bytes.Repeat(line, 1<<20/len(line)+1)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		ParseSyslog(log, time.Unix(1403733444, 0))
	}
}

func BenchmarkParseJournal(b *testing.B) {
	line := []byte(`{"MESSAGE":"infiniband rxe0: set down","PRIORITY":"6","_TRANSPORT":"kernel","_SOURCE_MONOTONIC_TIMESTAMP":"1965994953","__REALTIME_TIMESTAMP":"1795242636005293"}` + "\n")
	log := bytes.Repeat(line, 1<<20/len(line)+1)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		ParseJournal(log)
	}
}

func BenchmarkClassify(b *testing.B) {
	log := megabyte(b, "kmsg_raw")
	messages, _ := ParseKmsg(log)
	b.SetBytes(int64(len(log)))
	b.ReportAllocs()
	for b.Loop() {
		Classify(messages)
	}
}

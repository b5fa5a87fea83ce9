package lfs_test

import (
	"bytes"
	"testing"

	"ioguard/lfs"
	"ioguard/lfs/lfstest"
)

// BenchmarkJobStats decodes a warm OST job_stats: 10,000 jobs in the form of 2.17
// (22 MB), and 15,000 in the form of 2.12 (13 MB), whose lines are half as long.
func BenchmarkJobStats(b *testing.B) {
	for _, s := range []lfstest.Stats{{Jobs: 10_000, Seed: 4711, Form: lfstest.Form217}, {Jobs: 15_000, Seed: 4711, Form: lfstest.Form212}} {
		text := s.Text()
		b.Run(string(s.Form), func(b *testing.B) {
			var d lfs.JobStatsDecoder
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				d.Reset(bytes.NewReader(text))
				n := 0
				for d.Next() {
					n += len(d.Decode().Counters)
				}
				if n == 0 || d.Err() != nil || d.Skipped().Lines > 0 {
					b.Fatal(n, d.Err(), d.Skipped())
				}
			}
		})
	}
}

// BenchmarkJobStatsScan only finds the entries, as for jobs that did not change.
func BenchmarkJobStatsScan(b *testing.B) {
	text := lfstest.JobStats(10_000, 4711)
	var d lfs.JobStatsDecoder
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		d.Reset(bytes.NewReader(text))
		n := 0
		for d.Next() {
			n += len(d.Block())
		}
		if n == 0 {
			b.Fatal(n)
		}
	}
}

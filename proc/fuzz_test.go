package proc

import (
	"bytes"
	"io/fs"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// seed gives a fuzz target the recorded forms of a file and pieces of it.
func seed(f *testing.F, name string) {
	f.Helper()
	for _, a := range []struct{ archive, name string }{
		{"randwrite.txtar", "1795243967.749/" + name}, {"zfs-server.txtar", name},
	} {
		if b, err := fs.ReadFile(archive(f, a.archive), a.name); err == nil {
			f.Add(b)
			f.Add(b[:len(b)/2])
			f.Add([]byte(strings.ReplaceAll(string(b), " ", "  18446744073709551615 ")))
		}
	}
	f.Add([]byte("\x00\n\n - -1 1e309 NaN"))
}

func FuzzParseStat(f *testing.F) {
	seed(f, "proc/stat")
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseStat(b)
		if s.CPU == nil && err == nil {
			t.Error("neither CPU time nor an error")
		}
	})
}

func FuzzParseLoadAvg(f *testing.F) {
	seed(f, "proc/loadavg")
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLoadAvg(b)
		if err == nil && !(l.Load1 >= 0 && l.Load1 < math.Inf(1)) {
			t.Errorf("load %v", l.Load1)
		}
	})
}

func FuzzParseUptime(f *testing.F) {
	seed(f, "proc/uptime")
	f.Add([]byte("9223372036.85"))
	f.Add([]byte("9223372036.8547758"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if up, err := ParseUptime(b); err == nil && up < 0 {
			t.Errorf("uptime %v", up)
		}
	})
}

func FuzzParsePressure(f *testing.F) {
	seed(f, "proc/pressure/io")
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ParsePressure(b); err == nil && p.Some == nil {
			t.Error("neither pressure nor an error")
		}
	})
}

// FuzzDiff feeds two diskstats files through the whole way: nothing may be
// negative, infinite or NaN, and no device may be told twice as often as it stands.
func FuzzDiff(f *testing.F) {
	fsys := archive(f, "randwrite.txtar")
	var files [][]byte
	for _, dir := range []string{"1795243945.733", "1795243967.749", "1795243969.751"} {
		b, err := fs.ReadFile(fsys, dir+"/proc/diskstats")
		if err != nil {
			f.Fatal(err)
		}
		// Two devices and a partition: the fuzzer is slow on long inputs.
		files = append(files, bytes.Join(bytes.SplitAfter(b, []byte("\n"))[:3], nil))
	}
	f.Add(files[0], files[1])
	f.Add(files[2], files[1])
	f.Add([]byte("8 0 sda 1 2 3 4 5 6 7 4294967295 9 10 11"), []byte("8 0 sda 1 2 3 4 5 6 7 1 9 18446744073709551615 11\n8 0 sda 1 2 3 4 5 6 7 1 9 18446744073709551615 11"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		sample := func(b []byte) *Sample {
			s, err := ReadHostSample(fstest.MapFS{"proc/diskstats": &fstest.MapFile{Data: b}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		prev, cur := sample(a), sample(b)
		h, left := Diff(prev, cur, 2*time.Second)
		if len(h.Devices)+len(left) > len(cur.Disks) {
			t.Errorf("%d devices and %d left out of %d", len(h.Devices), len(left), len(cur.Disks))
		}
		for _, d := range h.Devices {
			for _, v := range []float64{
				d.ReadsPerSecond, d.WritesPerSecond, d.ReadBytesPerSecond, d.WriteBytesPerSecond,
				d.Await, d.ReadAwait, d.WriteAwait, d.QueueSize, d.Util,
			} {
				if !(v >= 0) || math.IsInf(v, 0) {
					t.Fatalf("%+v", d)
				}
			}
			if d.Util > 1 {
				t.Fatalf("%+v", d)
			}
		}
	})
}

func FuzzMapTargets(f *testing.F) {
	fsys := archive(f, "zfs-server.txtar")
	zpool, _ := fs.ReadFile(fsys, "zpool_status")
	mounts, _ := fs.ReadFile(fsys, "proc/mounts")
	f.Add(zpool, mounts)
	f.Add(zpool[:100], mounts[:100])
	f.Add([]byte("pool: a\n\ta\n\t  /dev/disk/by-id/x-part1\n\t\t\tz"), []byte(`/dev/\777 / lustre svname=x,osd= 0 0`))
	f.Add([]byte("pool: a\n\ta\n\t  vda"), []byte(`a/\040\ / lustre svname=x,osd= 0 0`))
	f.Fuzz(func(t *testing.T, zpool, mounts []byte) {
		targets, err := MapTargets(fstest.MapFS{
			"proc/mounts":          &fstest.MapFile{Data: mounts},
			"sys/block/vda/serial": &fstest.MapFile{Data: []byte("ost0")},
		}, zpool)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range targets {
			if m.Target == "" || (len(m.Devices) > 0 && m.Device() != "vda") {
				t.Errorf("%+v", m)
			}
		}
	})
}

package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"ioguard"
)

// tenMillion is a month of a site, no row dropped: 10 million windows.
var tenMillion = site{start: epoch, days: 30, jobsPerDay: 3000, meanMinutes: 67, system: 20}

// benchStore gives the file that IOGUARD_BENCH_DB names, filled at first use
// (some minutes), or a tenth of it in a temporary folder.
func benchStore(b *testing.B) *Store {
	path, c := os.Getenv("IOGUARD_BENCH_DB"), tenMillion
	if path == "" {
		path = filepath.Join(b.TempDir(), "records.db")
		c.meanMinutes, c.system = 2, 2 // the same jobs, which is what Top's time depends on
	}
	if _, err := os.Stat(path); err != nil {
		s, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		t0 := time.Now()
		n := c.load(b, s)
		b.Logf("%d windows in %s", n, time.Since(t0))
		s.Close()
	}
	s, err := OpenReadOnly(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkTop asks as `ioguard top` does: a new process opens the file and asks
// once. Budget: 100 ms for a month.
func BenchmarkTop(b *testing.B) {
	s := benchStore(b)
	end := epoch.AddDate(0, 0, tenMillion.days)
	for _, days := range []float64{1, 7, 29.7, 30} {
		for _, group := range Groups() {
			q := TopQuery{Since: end.Add(-time.Duration(days * float64(dayLength))), Until: end, GroupBy: group}
			b.Run(fmt.Sprintf("days=%g/by=%s", days, group), func(b *testing.B) {
				before := cpuTime()
				for b.Loop() {
					r, err := OpenReadOnly(s.Path())
					if err != nil {
						b.Fatal(err)
					}
					rows, err := r.Top(context.Background(), q)
					if err != nil || len(rows) == 0 {
						b.Fatal(len(rows), err)
					}
					r.Close()
				}
				// on a busy machine the wall clock says little
				b.ReportMetric(float64((cpuTime()-before).Microseconds())/1e3/float64(b.N), "cpu-ms/op")
			})
		}
	}
}

func BenchmarkOpenReadOnly(b *testing.B) {
	s := benchStore(b)
	for b.Loop() {
		r, err := OpenReadOnly(s.Path())
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// BenchmarkWrite writes a minute of a busy site: 500 jobs on 1.5 pools each.
func BenchmarkWrite(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "records.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c := site{start: epoch, days: 1, jobsPerDay: 500 * 1440, meanMinutes: 0}
	var minute Batch
	stop := fmt.Errorf("enough")
	_ = c.each(func(hour int, w []ioguard.Window, o []ioguard.Owner) error {
		minute = Batch{Windows: w[:750], Owners: o[:500]}
		return stop
	})
	for i := 0; b.Loop(); i++ {
		for j := range minute.Windows {
			minute.Windows[j].Start = epoch.Add(time.Duration(i) * time.Minute)
		}
		if err := s.Write(context.Background(), minute); err != nil {
			b.Fatal(err)
		}
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

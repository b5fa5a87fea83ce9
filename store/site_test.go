package store

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"ioguard"
)

// site makes the windows of a cluster in the order of time.
type site struct {
	start       time.Time
	days        int
	jobsPerDay  int
	meanMinutes float64 // of a job
	system      int     // ids outside of Slurm that are always busy
	fraction    bool    // counters are not whole numbers
}

type siteJob struct {
	id    string
	user  int
	end   int // minute
	pools int
	scale float64
	md    bool
}

// each calls f with the windows and new owners of every hour.
func (c site) each(f func(hour int, windows []ioguard.Window, owners []ioguard.Owner) error) error {
	r := rand.New(rand.NewPCG(1, 2))
	var running []siteJob
	for i := range c.system {
		running = append(running, siteJob{id: "rsync." + strconv.Itoa(1000+i), end: math.MaxInt, pools: 1, scale: 1e5})
	}
	next, made := 4_000_000, 0
	for hour := range c.days * 24 {
		var windows []ioguard.Window
		var owners []ioguard.Owner
		for m := range 60 {
			minute := hour*60 + m
			for made < (minute+1)*c.jobsPerDay/1440 {
				made++
				next++
				u := int(float64(300) * r.Float64() * r.Float64())
				j := siteJob{id: strconv.Itoa(next), user: u, pools: 1 + r.IntN(2), scale: 1e6 * math.Exp(3*r.NormFloat64()), md: r.IntN(4) == 0}
				j.end = minute + 1 + int(r.ExpFloat64()*c.meanMinutes)
				running = append(running, j)
				owners = append(owners, ioguard.Owner{JobID: j.id, Name: fmt.Sprintf("app%d", u%97), User: fmt.Sprintf("user%03d", u),
					Account: fmt.Sprintf("acc%02d", u%40), Partition: "batch", Nodes: "n[1-4]", State: "RUNNING"})
			}
			kept := running[:0]
			for _, j := range running {
				for p := range j.pools {
					windows = append(windows, c.window(r, &j, minute, p))
				}
				if j.end > minute {
					kept = append(kept, j)
				}
			}
			running = kept
		}
		if err := f(hour, windows, owners); err != nil {
			return err
		}
	}
	return nil
}

func (c site) window(r *rand.Rand, j *siteJob, minute, pool int) ioguard.Window {
	amount := func(scale float64) float64 {
		x := scale * r.ExpFloat64()
		if c.fraction {
			return x
		}
		return math.Floor(x)
	}
	w := ioguard.Window{Start: c.start.Add(time.Duration(minute) * time.Minute), Seconds: 60, FS: "scratch", JobID: j.id, Targets: 1 + r.IntN(8)}
	if pool == 1 || !j.md {
		w.Pool = []string{"flash", "disk"}[pool]
		w.ReadBytes, w.WriteBytes = amount(j.scale*60), amount(j.scale*90)
		w.ReadOps, w.WriteOps = math.Ceil(w.ReadBytes/1e6), math.Ceil(w.WriteBytes/1e6)
		w.ReadUsec, w.WriteUsec = w.ReadOps*900, w.WriteOps*1500
		w.PeakReadBytes, w.PeakWriteBytes = amount(j.scale*2), amount(j.scale*3)
		return w
	}
	w.Opens, w.Getattrs, w.Creates = amount(j.scale/1e3), amount(j.scale/2e3), amount(j.scale/1e4)
	w.Closes, w.MetaUsec, w.PeakMetaOps = w.Opens, amount(j.scale/10), amount(j.scale/1e4)
	return w
}

// load writes the site hour by hour and returns the number of windows.
func (c site) load(tb testing.TB, s *Store) int {
	tb.Helper()
	n := 0
	err := c.each(func(hour int, windows []ioguard.Window, owners []ioguard.Owner) error {
		n += len(windows)
		b := Batch{Agent: "site", Seq: int64(hour), Windows: windows, Owners: owners}
		if hour%5 == 0 && len(owners) > 0 {
			f := ioguard.Finding{Rule: "metadata-flood", Subject: "job", JobID: owners[0].JobID, FS: "scratch",
				Severity: ioguard.Warning, Start: windows[0].Start, Evidence: map[string]float64{"share": 0.5}}
			b.Findings = []FindingUpdate{{f, nil}}
		}
		return s.Write(context.Background(), b)
	})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

var epoch = time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)

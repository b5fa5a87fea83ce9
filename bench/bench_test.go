package main

import (
	"fmt"
	"math"
	"os/exec"
	"testing"
	"time"

	"ioguard"
	"ioguard/bench/nodetest"
	"ioguard/engine"
	"ioguard/policy"
	"ioguard/series"
)

// The packages of pure code have no file that is large enough to read in a
// benchmark of their own; what a busy server asks of them is made up here.

// busyInterval is five seconds of a server on which every job works, few much
// and most a little.
func busyInterval(jobs, round int, at time.Time) *ioguard.Interval {
	iv := &ioguard.Interval{Server: "oss1", Start: at.Add(-interval), End: at, Elapsed: interval, Kind: ioguard.DeltaValue,
		Host: &ioguard.HostDelta{CPUs: 32, User: 0.2, System: 0.3, IOWait: 0.1, Idle: 0.4, PSISome: math.NaN(), PSIFull: math.NaN()}}
	for n := range sampleOSTs {
		t := ioguard.TargetDelta{Target: fmt.Sprintf("lustre-OST%04x", n), Elapsed: interval, Kind: ioguard.DeltaValue}
		total := 0.0
		for j := range jobs {
			ops := float64(1 + (j+n+round)%9 + 5000/(1+j))
			total += ops
			t.Jobs = append(t.Jobs, ioguard.JobDelta{JobID: fmt.Sprint(4_000_000 + j), Kind: ioguard.DeltaValue, Ops: []ioguard.OpDelta{
				{Op: ioguard.OpReadBytes, Samples: ops, Sum: ops * (1 << 20)},
				{Op: ioguard.OpRead, Samples: ops, Sum: ops * 3000, Timed: true},
				{Op: ioguard.OpWriteBytes, Samples: ops, Sum: ops * (1 << 20)},
				{Op: ioguard.OpWrite, Samples: ops, Sum: ops * 3000, Timed: true},
			}})
		}
		t.Totals = []ioguard.OpDelta{{Op: ioguard.OpReadBytes, Samples: total, Sum: total * (1 << 20)}, {Op: ioguard.OpWriteBytes, Samples: total, Sum: total * (1 << 20)}}
		iv.Targets = append(iv.Targets, t)
	}
	return iv
}

// BenchmarkEngine judges an interval of a server with eight OSTs on which every job works.
func BenchmarkEngine(b *testing.B) {
	for _, jobs := range []int{100, 1000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			e := engine.New(engine.Config{Policy: policy.Default(), Interval: interval})
			now := time.Unix(1795243700, 0)
			rounds := []*ioguard.Interval{busyInterval(jobs, 0, now), busyInterval(jobs, 1, now)}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now = now.Add(interval)
				iv := rounds[i%2]
				iv.Start, iv.End = now.Add(-interval), now
				e.Feed(iv, now)
				if r := e.Step(now); len(r.Subjects) < 2 { // the server and the largest job at least
					b.Fatal(len(r.Subjects))
				}
				if i%12 == 11 {
					e.Drain() // once a minute, as the agent does
				}
			}
		})
	}
}

// BenchmarkDiff is the difference of two readings of a counter.
func BenchmarkDiff(b *testing.B) {
	var sum, prev uint64
	for i := uint64(0); b.Loop(); i += 3 {
		d, _ := series.Diff(prev, i, 64)
		sum, prev = sum+d, i
	}
	if sum == 0 && prev > 0 {
		b.Fatal("nothing counted")
	}
}

// BenchmarkBursts observes an interval of a job that writes in bursts.
func BenchmarkBursts(b *testing.B) {
	var s series.Bursts
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		rate := 1e3
		if i%12 < 2 {
			rate = 1e9
		}
		s.Observe(rate, 5, 1e6)
	}
}

func TestMedian(t *testing.T) {
	of := func(v int64) int64 { return v }
	for _, tt := range []struct {
		in   []int64
		want int64
	}{{nil, 0}, {[]int64{3}, 3}, {[]int64{9, 1, 5}, 5}, {[]int64{4, 1, 9, 2}, 4}} {
		if got := median(tt.in, of); got != tt.want {
			t.Errorf("median %v = %d, want %d", tt.in, got, tt.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	values := []time.Duration{9, 1, 5, 3, 7, 2, 8, 4, 6, 10}
	for _, tt := range []struct {
		share float64
		want  time.Duration
	}{{0, 1}, {0.5, 5}, {0.9, 9}, {0.91, 10}, {1, 10}} {
		if got := quantile(values, tt.share); got != tt.want {
			t.Errorf("quantile %v = %d, want %d", tt.share, got, tt.want)
		}
	}
	if got := quantile(nil, 1); got != 0 {
		t.Errorf("quantile of nothing = %d", got)
	}
}

// TestShellMethod holds the peer to its task: it must tell a healthy node from one
// whose server is away.
func TestShellMethod(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for _, away := range []string{"", awayTarget} {
		n := nodetest.Large()
		n.Away = away
		root, err := n.Write(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), bash, "-c", shellMethod, "bash", root).CombinedOutput()
		if want := map[string]string{"": "", awayTarget: "unhealthy: imports\n"}[away]; string(out) != want || (err != nil) != (away != "") {
			t.Errorf("away %q: %v, %q", away, err, out)
		}
	}
}

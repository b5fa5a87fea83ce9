package engine

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ioguard"
	"ioguard/policy"
)

var start = time.Unix(1795243600, 0).UTC()

// step feeds one server's interval and judges.
func step(e *Engine, n int, targets []ioguard.TargetDelta, h *ioguard.HostDelta) Result {
	now := start.Add(time.Duration(n) * 5 * time.Second)
	e.Feed(&ioguard.Interval{Server: "oss1", Start: now.Add(-5 * time.Second), End: now, Elapsed: 5 * time.Second,
		Kind: ioguard.DeltaValue, Targets: targets, Host: h}, now)
	return e.Step(now)
}

func ops(kv ...any) (out []ioguard.OpDelta) {
	for i := 0; i+2 < len(kv); i += 3 {
		op := kv[i].(ioguard.Op)
		out = append(out, ioguard.OpDelta{Op: op, Samples: float64(kv[i+1].(int)), Sum: float64(kv[i+2].(int)), Timed: !op.Bytes()})
	}
	return out
}

func did(id string, o []ioguard.OpDelta) ioguard.JobDelta {
	return ioguard.JobDelta{JobID: id, Kind: ioguard.DeltaValue, Ops: o}
}

func events(r Result) (out []string) {
	for _, ev := range r.Events {
		out = append(out, fmt.Sprintf("%s %s %s%s %s", ev.Kind, ev.Finding.Rule, ev.Finding.JobID, ev.Finding.Target, ev.Finding.Severity))
	}
	return out
}

func TestFullOSTBlamesNoJob(t *testing.T) {
	e := New(Config{Policy: policy.Default(), Interval: 5 * time.Second})
	full := &ioguard.Capacity{TotalBytes: 100 << 30, FreeBytes: 6 << 30, AvailableBytes: 6 << 30, TotalInodes: 1000, FreeInodes: 900}
	half := &ioguard.Capacity{TotalBytes: 100 << 30, FreeBytes: 50 << 30, AvailableBytes: 50 << 30, TotalInodes: 1000, FreeInodes: 900}
	var got []string
	for n := range 4 {
		r := step(e, n, []ioguard.TargetDelta{
			{Target: "fs-OST0000", Kind: ioguard.DeltaValue, Pools: []string{"hdd"}, Space: full, Jobs: []ioguard.JobDelta{did("4711", ops(ioguard.OpWriteBytes, 10, 10<<20, ioguard.OpWrite, 10, 1000))}},
			{Target: "fs-OST0001", Kind: ioguard.DeltaValue, Pools: []string{"hdd"}, Space: half},
		}, nil)
		got = append(got, events(r)...)
	}
	if diff := cmp.Diff([]string{"opened ost-full fs-OST0000 warning"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestHiddenGetattrs(t *testing.T) {
	mdt := func(nid string, jobs ...ioguard.JobDelta) []ioguard.TargetDelta {
		return []ioguard.TargetDelta{{Target: "fs-MDT0000", Kind: ioguard.DeltaValue, Jobs: jobs, Totals: ops(ioguard.OpGetattr, 5000, 250000),
			Exports: []ioguard.ExportDelta{{NID: nid, Kind: ioguard.DeltaValue, Ops: ops(ioguard.OpGetattr, 4900, 0)}, {NID: "10.0.0.9@o2ib", Kind: ioguard.DeltaValue, Ops: ops(ioguard.OpGetattr, 100, 0)}}}}
	}
	scan, quiet := did("1", ops(ioguard.OpGetattr, 90, 900)), did("2", ops(ioguard.OpGetattr, 10, 100, ioguard.OpOpen, 5, 500))
	describe := func(r Result) (out []string) {
		for _, u := range r.Unaccounted {
			out = append(out, fmt.Sprintf("%s %s %.0f/s %.2f %s %.2f %s", u.Target, u.Kind, u.PerSecond, u.Share, u.NID, u.NIDShare, strings.Join(u.Jobs, ",")))
		}
		for _, s := range r.Subjects {
			if s.Kind == policy.JobSubject {
				out = append(out, fmt.Sprintf("%s %.0f inferred=%v", s.JobID, s.Facts.Number(vHidden), s.Inferred))
			}
		}
		return out
	}
	e := New(Config{Policy: &policy.Policy{}})
	step(e, 0, mdt("10.0.0.1@o2ib", scan, quiet), nil)
	got := describe(step(e, 1, mdt("10.0.0.1@o2ib", scan, quiet), nil))
	want := []string{"fs-MDT0000 getattr 980/s 0.98 10.0.0.1@o2ib 0.98 1,2", "1 882 inferred=true", "2 98 inferred=true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in proportion to what is visible:\n%s", diff)
	}
	// Slurm says that only job 2 runs on the node that does it
	e.SetClientJobs(map[string][]string{"10.0.0.1@o2ib": {"2"}})
	got = describe(step(e, 2, mdt("10.0.0.1@o2ib", scan, quiet), nil))
	want = []string{"fs-MDT0000 getattr 980/s 0.98 10.0.0.1@o2ib 0.98 2", "1 0 inferred=false", "2 980 inferred=true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("by the client's node:\n%s", diff)
	}
	// what every job accounts for hides nothing
	fair := []ioguard.TargetDelta{{Target: "fs-MDT0000", Kind: ioguard.DeltaValue, Jobs: []ioguard.JobDelta{did("1", ops(ioguard.OpGetattr, 4990, 900))}, Totals: ops(ioguard.OpGetattr, 5000, 250000)}}
	for n := 3; n < 6; n++ {
		if r := step(e, n, fair, nil); n == 5 && len(r.Unaccounted) > 0 {
			t.Errorf("unaccounted: %+v", r.Unaccounted)
		}
	}
}

// A client without jobid_var works in no job's name: that is told, with the client.
func TestUntaggedClient(t *testing.T) {
	e := New(Config{Policy: policy.Default()})
	ost := []ioguard.TargetDelta{{Target: "fs-OST0000", Kind: ioguard.DeltaValue, Totals: ops(ioguard.OpWriteBytes, 200, 200<<20, ioguard.OpWrite, 200, 9000, ioguard.OpStatfs, 900, 1),
		Jobs:    []ioguard.JobDelta{did("1", ops(ioguard.OpWriteBytes, 20, 20<<20, ioguard.OpWrite, 20, 900))},
		Exports: []ioguard.ExportDelta{{NID: "10.0.0.7@tcp", Kind: ioguard.DeltaValue, Ops: ops(ioguard.OpWriteBytes, 180, 180<<20)}, {NID: "10.0.0.1@tcp", Kind: ioguard.DeltaValue, Ops: ops(ioguard.OpWriteBytes, 20, 20<<20)}}}}
	e.SetClientJobs(map[string][]string{"10.0.0.7@tcp": {"4711"}})
	var r Result
	for n := range 3 {
		r = step(e, n, ost, nil)
	}
	want := []Unaccounted{{Target: "fs-OST0000", Kind: "data", PerSecond: 36, Share: 0.9, NID: "10.0.0.7@tcp", NIDShare: 0.9, Jobs: []string{"4711"}}}
	if diff := cmp.Diff(want, r.Unaccounted); diff != "" {
		t.Error(diff)
	}
}

// The minute's windows hold exactly what the jobs did, whoever the servers were.
func TestWindowsConserve(t *testing.T) {
	e := New(Config{Policy: &policy.Policy{}})
	var want, got float64
	collect := func(rows []ioguard.Window) {
		for _, w := range rows {
			got += w.WriteBytes + w.Opens + w.HiddenGetattrs
			if w.JobID != "4711" {
				t.Errorf("job %q: two ids of one job are one", w.JobID)
			}
		}
	}
	for n := range 40 {
		bytes, opens := 1000*(n+1), n
		want += float64(2*bytes + opens)
		now := start.Add(time.Duration(n) * 5 * time.Second)
		for _, s := range []string{"oss1", "oss2"} {
			targets := []ioguard.TargetDelta{{Target: "fs-OST0000-" + s, Kind: ioguard.DeltaValue}}
			targets[0].Target = map[string]string{"oss1": "fs-OST0000", "oss2": "fs-OST0001"}[s]
			targets[0].Jobs = []ioguard.JobDelta{did(map[string]string{"oss1": "4711:2001:n01", "oss2": "4711"}[s], ops(ioguard.OpWriteBytes, 1, bytes, ioguard.OpWrite, 1, 10))}
			if s == "oss1" {
				targets = append(targets, ioguard.TargetDelta{Target: "fs-MDT0000", Kind: ioguard.DeltaValue, Jobs: []ioguard.JobDelta{did("4711:2001:n01", ops(ioguard.OpOpen, opens, 10))}})
			}
			e.Feed(&ioguard.Interval{Server: s, Start: now, End: now, Elapsed: 5 * time.Second, Kind: ioguard.DeltaValue, Targets: targets}, now)
		}
		r := e.Step(now)
		collect(r.Windows)
	}
	rows, _ := e.Drain()
	collect(rows)
	if got != want {
		t.Errorf("windows hold %v, the jobs did %v", got, want)
	}
}

// A neighbour that becomes slow is harm; one that turns to larger writes is not.
func TestHarmIsMeasuredAgainstOnesOwnCalm(t *testing.T) {
	worst := ""
	storm := func(n int) ioguard.JobDelta {
		return did("1", ops(ioguard.OpWriteBytes, n, n<<20, ioguard.OpWrite, n, n*400_000))
	}
	small := func(usec int) ioguard.JobDelta {
		return did("2", ops(ioguard.OpWriteBytes, 20, 20<<12, ioguard.OpWrite, 20, 20*usec))
	}
	large := did("2", ops(ioguard.OpWriteBytes, 20, 20<<20, ioguard.OpWrite, 20, 20*25_000))
	ratio := func(neighbour ioguard.JobDelta) float64 {
		e := New(Config{Policy: &policy.Policy{}})
		var r Result
		for n := range 10 {
			r = step(e, n, []ioguard.TargetDelta{{Target: "fs-OST0000", Kind: ioguard.DeltaValue, Jobs: []ioguard.JobDelta{small(500)}}}, nil)
		}
		for n := 10; n < 13; n++ {
			r = step(e, n, []ioguard.TargetDelta{{Target: "fs-OST0000", Kind: ioguard.DeltaValue, Jobs: []ioguard.JobDelta{storm(150), neighbour}}}, nil)
		}
		for _, s := range r.Subjects {
			if s.JobID == "1" {
				worst = s.Facts.Text(vHarmWorst)
				return s.Facts.Number(vHarmRatio)
			}
		}
		t.Fatal("the storm was not judged")
		return 0
	}
	if r := ratio(small(5000)); r < 8 || r > 12 || worst != "2" {
		t.Errorf("a neighbour ten times slower gives a harm of %v, to %q", r, worst)
	}
	if r := ratio(small(550)); r != 1 || worst != "" {
		t.Errorf("a neighbour within its own noise gives a harm of %v", r)
	}
	if r := ratio(large); r > 1 {
		t.Errorf("a neighbour with larger writes gives a harm of %v", r)
	}
}

// While a target recovers everybody waits, and nobody is blamed for it.
func TestRecoveryBlamesNoJob(t *testing.T) {
	run := func(recovering bool) (out []string) {
		e := New(Config{Policy: policy.Default(), Interval: 5 * time.Second})
		for n := range 16 {
			writes := 20
			usec := 25_000
			if n >= 8 && n < 12 {
				writes, usec = 300, 400_000
			}
			target := ioguard.TargetDelta{Target: "fs-OST0000", Kind: ioguard.DeltaValue, Recovering: recovering && n >= 8 && n < 12, Jobs: []ioguard.JobDelta{
				did("1", ops(ioguard.OpWriteBytes, writes, writes<<20, ioguard.OpWrite, writes, writes*usec)),
				did("2", ops(ioguard.OpWriteBytes, 20, 20<<20, ioguard.OpWrite, 20, 20*usec))}}
			out = append(out, events(step(e, n, []ioguard.TargetDelta{target}, nil))...)
		}
		return out
	}
	if got := run(false); len(got) == 0 {
		t.Error("the storm is not found without recovery: this test shows nothing")
	}
	if got := run(true); len(got) > 0 {
		t.Errorf("blamed in recovery: %q", got)
	}
}

func TestServersComeAndGo(t *testing.T) {
	e := New(Config{Policy: policy.Default(), Interval: 5 * time.Second})
	target := func(name string) []ioguard.TargetDelta {
		return []ioguard.TargetDelta{{Target: name, Kind: ioguard.DeltaValue, Jobs: []ioguard.JobDelta{did("1", ops(ioguard.OpWriteBytes, 1, 1<<20, ioguard.OpWrite, 1, 10))}}}
	}
	feed := func(s, name string, n int) bool {
		now := start.Add(time.Duration(n) * 5 * time.Second)
		return e.Feed(&ioguard.Interval{Server: s, Elapsed: 5 * time.Second, End: now, Targets: target(name)}, now)
	}
	feed("a", "fs-OST0000", 0)
	if !feed("b", "fs-OST0001", 0) {
		t.Error("both reported: the round is complete")
	}
	e.Step(start)
	if feed("a", "fs-OST0000", 1) {
		t.Error("b is alive and has not reported")
	}
	if !e.Reported("a") || e.Reported("b") {
		t.Error("who reported?")
	}
	e.Step(start.Add(5 * time.Second))
	for n := 2; n < 20; n++ { // b died, and its target failed over to a
		feed("a", "fs-OST0001", n)
		e.Step(start.Add(time.Duration(n) * 5 * time.Second))
	}
	if len(e.servers) != 1 || len(e.targets) != 1 {
		t.Errorf("%d servers and %d targets are remembered, want one each", len(e.servers), len(e.targets))
	}
	if !feed("a", "fs-OST0001", 20) {
		t.Error("a dead server holds up the rounds")
	}
}

// FuzzFeed: whatever an agent sends, no panic, and no finding without a subject.
func FuzzFeed(f *testing.F) {
	f.Add("fs-OST0000", "4711", int64(5e9), 10.0, 1e6, uint16(3))
	f.Add("", "", int64(-1), math.Inf(1), math.NaN(), uint16(900))
	f.Add("x", "\x00\xff", int64(0), -1.0, -1e300, uint16(0))
	f.Fuzz(func(t *testing.T, target, id string, elapsed int64, samples, sum float64, op uint16) {
		e := New(Config{Policy: policy.Default()})
		for n := range 4 {
			now := start.Add(time.Duration(n) * time.Second)
			d := []ioguard.OpDelta{{Op: ioguard.Op(op), Samples: samples, Sum: sum, Timed: n%2 == 0}, {Op: ioguard.OpWrite, Samples: sum, Sum: samples}}
			e.Feed(&ioguard.Interval{Server: target, Elapsed: time.Duration(elapsed), Targets: []ioguard.TargetDelta{
				{Target: target, Jobs: []ioguard.JobDelta{{JobID: id, Kind: ioguard.DeltaKind(n), Ops: d}}, Totals: d, Exports: []ioguard.ExportDelta{{NID: id, Ops: d}}},
				{Target: target + "-MDT0000", Jobs: []ioguard.JobDelta{{JobID: id, Kind: ioguard.DeltaValue, Ops: d}}, Totals: d},
			}, Host: &ioguard.HostDelta{System: samples, IOWait: sum, Devices: []ioguard.DeviceDelta{{Util: samples}}, Services: []ioguard.ServiceDelta{{Service: id, Requests: samples, WaitUsec: sum}}}}, now)
			for _, ev := range e.Step(now).Events {
				if ev.Finding.Rule == "" || ev.Finding.Subject == "" {
					t.Errorf("%+v", ev)
				}
			}
		}
		e.Drain()
	})
}

func TestVarsAreSet(t *testing.T) {
	// every variable of jobs that the policy documents must be set by someone
	e := New(Config{Policy: &policy.Policy{}})
	spin := true
	h := &ioguard.HostDelta{CPUs: 2, System: 0.3, Idle: 0.7, PSISome: 0.1, Devices: []ioguard.DeviceDelta{{Device: "sda", Util: 0.5, QueueSize: 1}},
		Services: []ioguard.ServiceDelta{{Service: "ost/OSS/ost_io", Requests: 100, WaitUsec: 1000}}}
	space := &ioguard.Capacity{TotalBytes: 100, FreeBytes: 50, AvailableBytes: 50, TotalInodes: 10, FreeInodes: 5}
	set := map[string]bool{}
	for n := range 60 {
		bytes := 20 << 20
		if n%6 > 2 {
			bytes = 4096
		}
		w := ops(ioguard.OpWriteBytes, 20, bytes, ioguard.OpWrite, 20, 20000, ioguard.OpReadBytes, 5, 5<<20, ioguard.OpRead, 5, 5000, ioguard.OpSync, 1, 10)
		m := ops(ioguard.OpOpen, 10, 100, ioguard.OpMknod, 10, 100, ioguard.OpUnlink, 5, 50, ioguard.OpGetattr, 10, 10)
		r := step(e, n, []ioguard.TargetDelta{
			{Target: "fs-OST0000", Pools: []string{"p"}, Spin: &spin, Space: space, Jobs: []ioguard.JobDelta{did("python.1001", w), did("2", w)}},
			{Target: "fs-OST0001", Pools: []string{"p"}, Spin: &spin, Space: space, Jobs: []ioguard.JobDelta{did("2", w)}},
			{Target: "fs-MDT0000", Totals: ops(ioguard.OpGetattr, 5000, 5000), Jobs: []ioguard.JobDelta{did("python.1001", m), did("2", m)}}}, h)
		for _, s := range r.Subjects {
			for _, v := range policy.Vars() {
				if v.Type == policy.String {
					set[v.Name] = set[v.Name] || s.Facts.Text(policy.MustText(v.Name)) != ""
				} else {
					set[v.Name] = set[v.Name] || !math.IsNaN(s.Facts.Number(policy.MustNumber(v.Name)))
				}
			}
		}
	}
	var missing []string
	for _, v := range policy.Vars() {
		if !set[v.Name] && v.Name != "job.account" && v.Name != "job.partition" && v.Name != "harm.worst" { // Slurm's; nobody is hurt
			missing = append(missing, v.Name)
		}
	}
	sort.Strings(missing)
	if len(missing) > 0 {
		t.Errorf("documented and never set: %v", missing)
	}
}

// What a target tells late is of a longer span: it is no burst.
func TestLateTargetIsNoBurst(t *testing.T) {
	e := New(Config{Policy: &policy.Policy{}})
	rate := func(n int, bytes int, elapsed time.Duration) float64 {
		r := step(e, n, []ioguard.TargetDelta{{Target: "fs-OST0000", Kind: ioguard.DeltaValue, Elapsed: elapsed,
			Jobs: []ioguard.JobDelta{did("1", ops(ioguard.OpWriteBytes, 10, bytes, ioguard.OpWrite, 10, 100))}}}, nil)
		return r.Subjects[0].Facts.Number(vWriteBytes)
	}
	if got := rate(0, 5<<20, 5*time.Second); got != 1<<20 {
		t.Errorf("rate %v", got)
	}
	if got := rate(1, 20<<20, 20*time.Second); got != 1<<20 {
		t.Errorf("20 MiB over 20 s: rate %v, want 1 MiB/s", got)
	}
	rows, _ := e.Drain()
	if rows[0].WriteBytes != 25<<20 || rows[0].PeakWriteBytes != 1<<20 {
		t.Errorf("records: %v bytes, peak %v", rows[0].WriteBytes, rows[0].PeakWriteBytes)
	}
}

// Work is not called unaccounted because our own reading failed.
func TestUnreadJobsHideNothing(t *testing.T) {
	e := New(Config{Policy: &policy.Policy{}})
	for n := range 3 {
		r := step(e, n, []ioguard.TargetDelta{{Target: "fs-OST0000", Kind: ioguard.DeltaGap, Totals: ops(ioguard.OpWriteBytes, 500, 500<<20)}}, nil)
		if len(r.Unaccounted) > 0 {
			t.Fatalf("%+v", r.Unaccounted)
		}
	}
}

// A busy disk under somebody else's OST is not this job's.
func TestPressureOfOnesOwnDevices(t *testing.T) {
	e := New(Config{Policy: &policy.Policy{}})
	disk := func(util float64) *ioguard.DeviceDelta {
		return &ioguard.DeviceDelta{Device: "sd", Util: util, QueueSize: 10 * util}
	}
	h := &ioguard.HostDelta{Devices: []ioguard.DeviceDelta{*disk(0.9), *disk(0.1)}}
	write := ops(ioguard.OpWriteBytes, 10, 10<<20, ioguard.OpWrite, 10, 1000)
	r := step(e, 0, []ioguard.TargetDelta{
		{Target: "fs-OST0000", Kind: ioguard.DeltaValue, Busiest: disk(0.9), Jobs: []ioguard.JobDelta{did("1", write)}},
		{Target: "fs-OST0001", Kind: ioguard.DeltaValue, Busiest: disk(0.1), Jobs: []ioguard.JobDelta{did("2", write)}}}, h)
	got := map[string]float64{}
	for _, s := range r.Subjects {
		if s.Kind == policy.JobSubject {
			got[s.JobID] = s.Facts.Number(vUtil)
		}
	}
	if got["1"] != 0.9 || got["2"] != 0.1 {
		t.Errorf("utilisation by job: %v", got)
	}
}

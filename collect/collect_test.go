package collect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"ioguard"
	"ioguard/host"
)

const ostStats = "snapshot_time             %d.000000000 secs.nsecs\nstart_time                1795240000.000000000 secs.nsecs\nelapsed_time              10.0 secs.nsecs\nwrite_bytes               %d samples [bytes] 4096 1048576 %d 1\nwrite                     %d samples [usecs] 10 100 %d 1\n"

// server is a small OSS after n units of work, sec seconds after t0.
func server(n, sec int) fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text), Mode: 0o644} }
	return fstest.MapFS{
		"proc/fs/lustre/obdfilter/fs-OST0000/job_stats":      file("job_stats:\n" + entry("4711", float64(t0.Unix()-100), n, 10*n)),
		"sys/kernel/debug/lustre/obdfilter/fs-OST0000/stats": file(fmt.Sprintf(ostStats, int(t0.Unix())+sec, n, n<<20, n, 50*n)),
		"sys/kernel/debug/lustre/ost/OSS/ost_io/stats":       file(fmt.Sprintf("snapshot_time             1.0 secs.nsecs\nreq_waittime              %d samples [usecs] 1 2 %d 4\nost_write                 %d samples [usecs] 1 2 %d 4\n", n, 100*n, n, 300*n)),
		"sys/fs/lustre/obdfilter/fs-OST0000/kbytestotal":     file("1000\n"),
		"sys/fs/lustre/obdfilter/fs-OST0000/kbytesfree":      file("100\n"),
		"sys/fs/lustre/obdfilter/fs-OST0000/kbytesavail":     file("90\n"),
		"sys/fs/lustre/obdfilter/fs-OST0000/filestotal":      file("1000\n"),
		"sys/fs/lustre/obdfilter/fs-OST0000/filesfree":       file("500\n"),
		"proc/uptime":    file(fmt.Sprintf("%d.00 1.00\n", 1000+sec)),
		"proc/stat":      file(fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\nprocs_blocked 0\n", 100*sec, 100*sec)),
		"proc/diskstats": file(""),
		"proc/loadavg":   file("0.1 0.2 0.3 1/100 4711\n"),
	}
}

func sample(t *testing.T, c *Collector, fsys fs.FS, at time.Time) *ioguard.Interval {
	t.Helper()
	iv, err := c.Sample(context.Background(), &host.Host{Name: "oss1", FS: fsys, Run: noCommands}, at)
	if err != nil {
		t.Fatal(err)
	}
	return iv
}

func noCommands(context.Context, string, ...string) ([]byte, error) { return nil, fs.ErrNotExist }

func TestSample(t *testing.T) {
	c := &Collector{Interval: 5 * time.Second}
	first := sample(t, c, server(10, 0), t0)
	if first.Kind != ioguard.DeltaFirst || first.Elapsed != 0 || len(first.Targets[0].Jobs) != 0 || first.Host != nil {
		t.Errorf("the first sample has nothing to compare with: %+v", first)
	}
	iv := sample(t, c, server(14, 5), t0.Add(5*time.Second))
	d := &iv.Targets[0]
	if iv.Kind != ioguard.DeltaValue || iv.Elapsed != 5*time.Second || d.Elapsed != 5*time.Second {
		t.Errorf("%v, elapsed %v, the target's %v", iv.Kind, iv.Elapsed, d.Elapsed)
	}
	if got := fmt.Sprintf("%+v", d.Jobs); got != "[{JobID:4711 Kind:value Ops:[{Samples:4 Sum:40 Op:open Timed:true}]}]" {
		t.Errorf("jobs: %s", got)
	}
	if got := fmt.Sprintf("%+v", d.Totals); got != "[{Samples:4 Sum:4.194304e+06 Op:write_bytes Timed:false} {Samples:4 Sum:200 Op:write Timed:true}]" {
		t.Errorf("totals: %s", got)
	}
	if d.Space == nil || d.Space.UsedFraction() < 0.90 || d.Space.UsedFraction() > 0.92 {
		t.Errorf("space: %+v", d.Space)
	}
	s := iv.Host.Services[0]
	if s.Requests != 4 || s.WaitUsec != 400 || s.Writes != 4 || s.WriteUsec != 1200 {
		t.Errorf("service: %+v", s)
	}
	if iv.Host.Idle < 0.49 || iv.Host.Idle > 0.51 {
		t.Errorf("idle: %v", iv.Host.Idle)
	}
	// 20 s without a sample
	if iv = sample(t, c, server(20, 25), t0.Add(25*time.Second)); iv.Kind != ioguard.DeltaGap || iv.Elapsed != 20*time.Second {
		t.Errorf("after missed samples: %v %v", iv.Kind, iv.Elapsed)
	}
	// the clock is set back an hour; uptime tells the time that passed
	if iv = sample(t, c, server(21, 30), t0.Add(-time.Hour)); iv.Elapsed != 5*time.Second {
		t.Errorf("across a clock jump: elapsed %v", iv.Elapsed)
	}
}

func TestSampleWithoutAFile(t *testing.T) {
	for name := range server(0, 0) {
		t.Run(name, func(t *testing.T) {
			c := &Collector{}
			before, after := server(10, 0), server(14, 5)
			sample(t, c, before, t0)
			delete(after, name)
			iv := sample(t, c, after, t0.Add(5*time.Second))
			if iv.Elapsed != 5*time.Second {
				t.Errorf("elapsed %v", iv.Elapsed)
			}
			if !strings.HasSuffix(name, "job_stats") && len(iv.Targets[0].Jobs) != 1 {
				t.Errorf("without %s the job is lost", name)
			}
			if strings.HasSuffix(name, "job_stats") && len(iv.Problems) == 0 {
				t.Error("a target without job_stats is no problem?")
			}
		})
	}
}

func TestSampleTruncatedAndGarbage(t *testing.T) {
	whole := server(14, 5)
	for name := range whole {
		for what, text := range map[string][]byte{"cut": whole[name].Data[:len(whole[name].Data)*2/3], "garbage": []byte("\x00\xff\xfe binary\n\x80: { } :\n")} {
			c := &Collector{}
			sample(t, c, server(10, 0), t0)
			broken := server(14, 5)
			broken[name] = &fstest.MapFile{Data: text, Mode: 0o644}
			sample(t, c, broken, t0.Add(5*time.Second))
			iv := sample(t, c, server(18, 10), t0.Add(10*time.Second))
			if len(iv.Targets) != 1 || iv.Elapsed <= 0 {
				t.Errorf("%s %s: the next sample is %+v", what, name, iv)
			}
		}
	}
}

func TestSampleInRecovery(t *testing.T) {
	c := &Collector{}
	sample(t, c, server(10, 0), t0)
	busy := server(14, 5)
	busy["sys/kernel/debug/lustre/obdfilter/fs-OST0000/recovery_status"] = &fstest.MapFile{Data: []byte("status: RECOVERING\nrecovery_start: 1795243600\ntime_remaining: 100\nconnected_clients: 1/2\n")}
	busy["sys/fs/lustre/health_check"] = &fstest.MapFile{Data: []byte("NOT HEALTHY\n")}
	iv := sample(t, c, busy, t0.Add(5*time.Minute))
	if !iv.Targets[0].Recovering || !strings.Contains(strings.Join(iv.Problems, "\n"), "fs-OST0000: in recovery") || !strings.Contains(strings.Join(iv.Problems, "\n"), "not healthy") {
		t.Errorf("recovering %v, problems %q", iv.Targets[0].Recovering, iv.Problems)
	}
	if iv = sample(t, c, server(18, 310), t0.Add(310*time.Second)); iv.Targets[0].Recovering {
		t.Error("recovery never ends")
	}
}

// denied is a file system of which one file may not be read.
type denied struct {
	fs.FS
	name string
}

func (d denied) Open(name string) (fs.File, error) {
	if name == d.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

func TestSamplePermissionDenied(t *testing.T) {
	c := &Collector{}
	job := "proc/fs/lustre/obdfilter/fs-OST0000/job_stats"
	sample(t, c, server(10, 0), t0)
	iv := sample(t, c, denied{server(14, 5), job}, t0.Add(5*time.Second))
	if !strings.Contains(strings.Join(iv.Problems, "\n"), "fs-OST0000: open "+job+": permission denied") {
		t.Errorf("problems: %q", iv.Problems)
	}
	// and nothing is counted twice when it may be read again
	iv = sample(t, c, server(15, 10), t0.Add(10*time.Second))
	if got := fmt.Sprintf("%+v", iv.Targets[0].Jobs); got != "[{JobID:4711 Kind:value Ops:[{Samples:5 Sum:50 Op:open Timed:true}]}]" {
		t.Errorf("jobs: %s", got)
	}
}

func TestSampleNoServer(t *testing.T) {
	var c Collector
	_, err := c.Sample(context.Background(), &host.Host{Name: "login1", FS: fstest.MapFS{"proc/stat": {Data: []byte("cpu 1 2 3 4\n")}}}, t0)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// manyJobs is a job_stats of n small entries, made as it is read.
type manyJobs struct {
	n, i int
	buf  []byte
}

func (m *manyJobs) Read(p []byte) (int, error) {
	for len(m.buf) < len(p) && m.i < m.n {
		m.buf = fmt.Appendf(m.buf, "- job_id:          job%d.1001\n  snapshot_time:   1795243600.5 secs.nsecs\n  open:            { samples: %d, unit: usecs, min: 1, max: 9, sum: 90, sumsq: 1 }\n", m.i, 1+m.i%7)
		m.i++
	}
	if len(m.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(p, m.buf)
	m.buf = append(m.buf[:0], m.buf[n:]...)
	return n, nil
}

// TestMillionJobIDs: a million ids cost memory in proportion, and are forgotten
// with their entries.
func TestMillionJobIDs(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 150 MB")
	}
	const n = 1_000_000
	tr := newJobTracker()
	if got, err := tr.read(&manyJobs{n: n}, t0); err != nil || got.jobs != n {
		t.Fatal(got.jobs, err)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if per := m.HeapAlloc / n; per > 400 {
		t.Errorf("%d bytes per job", per)
	}
	if got, err := tr.read(&manyJobs{n: 1}, t0.Add(time.Second)); err != nil || got.jobs != 1 || len(tr.jobs) != 1 {
		t.Errorf("%d jobs, %d remembered, %v", got.jobs, len(tr.jobs), err)
	}
}

// endless repeats a text up to a size.
type endless struct {
	text []byte
	left int64
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	e.left -= int64(n)
	return n, nil
}

// TestHugeJobStats reads 1 GB in bounded memory.
func TestHugeJobStats(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 1 GB")
	}
	text := []byte(entry("4711", 1795243600, 5, 50) + entry("4712", 1795243600, 5, 50))
	tr := newJobTracker()
	if _, err := tr.read(&endless{text: text, left: 1 << 30}, t0); err != nil {
		t.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if len(tr.jobs) != 2 || m.HeapSys > 256<<20 {
		t.Errorf("%d jobs, %d MiB of heap", len(tr.jobs), m.HeapSys>>20)
	}
}

// stuck is a file system of which one file's reading hangs until it is let go.
type stuck struct {
	fs.FS
	name string
	free chan struct{}
}

func (s stuck) Open(name string) (fs.File, error) {
	if name == s.name {
		<-s.free
	}
	return s.FS.Open(name)
}

// TestSampleOfAHangingTarget: the others are read in time, the one that hangs is
// told and not asked again, and nothing of what it did is lost.
func TestSampleOfAHangingTarget(t *testing.T) {
	two := func(n, sec int) fstest.MapFS {
		m := server(n, sec)
		for name, f := range server(n, sec) {
			m[strings.Replace(name, "fs-OST0000", "fs-OST0001", 1)] = f
		}
		return m
	}
	const job = "proc/fs/lustre/obdfilter/fs-OST0001/job_stats"
	c := &Collector{Interval: 5 * time.Second, Timeout: 50 * time.Millisecond}
	sample(t, c, two(10, 0), t0)
	free := make(chan struct{})
	for i := 1; i <= 2; i++ {
		iv := sample(t, c, stuck{two(10+4*i, 5*i), job, free}, t0.Add(time.Duration(5*i)*time.Second))
		if len(iv.Targets) != 1 || iv.Targets[0].Target != "fs-OST0000" || len(iv.Targets[0].Jobs) != 1 {
			t.Fatalf("sample %d: %+v", i, iv.Targets)
		}
		if !strings.Contains(strings.Join(iv.Problems, "\n"), "fs-OST0001: reading it hangs") {
			t.Errorf("sample %d: problems %q", i, iv.Problems)
		}
	}
	close(free)
	c.Timeout = 10 * time.Second
	var got, seconds float64
	for i := 3; i <= 4; i++ {
		iv := sample(t, c, two(10+4*i, 5*i), t0.Add(time.Duration(5*i)*time.Second))
		if len(iv.Targets) != 2 {
			t.Fatalf("sample %d: %+v", i, iv.Targets)
		}
		got += iv.Targets[1].Jobs[0].Ops[0].Samples
		seconds += iv.Targets[1].Elapsed.Seconds()
	}
	if got != 16 || seconds != 20 {
		t.Errorf("%v operations over %v s, want 16 over 20", got, seconds)
	}
}

// A target that could not be read for a while tells over how long its deltas are,
// and no reading that failed is taken for work in no job's name.
func TestSampleAfterAGap(t *testing.T) {
	c := &Collector{Interval: 5 * time.Second}
	sample(t, c, server(10, 0), t0)
	iv := sample(t, c, denied{server(100, 5), "proc/fs/lustre/obdfilter/fs-OST0000/job_stats"}, t0.Add(5*time.Second))
	if d := &iv.Targets[0]; d.Kind != ioguard.DeltaGap {
		t.Errorf("unread job_stats: kind %v, want gap", d.Kind)
	}
	iv = sample(t, c, server(101, 10), t0.Add(10*time.Second))
	if d := &iv.Targets[0]; d.Kind != ioguard.DeltaValue || d.Elapsed != 10*time.Second {
		t.Errorf("kind %v, elapsed %v, want a value over 10s", d.Kind, d.Elapsed)
	}
}

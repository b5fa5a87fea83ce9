package watch

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ioguard"
	"ioguard/collect"
	"ioguard/engine"
	"ioguard/host"
	"ioguard/policy"
)

var recordings = filepath.Join("..", "testdata", "recordings")

func openRecording(t *testing.T, name string) *host.Recording {
	t.Helper()
	r, err := host.OpenRecording(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func replay(t *testing.T, r *host.Recording) *Summary {
	t.Helper()
	p := Replay{Recording: r, Engine: engine.New(engine.Config{Policy: policy.Default()})}
	s, err := p.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func labelsOf(t *testing.T, r *host.Recording) *Labels {
	t.Helper()
	text, err := r.Labels()
	if err != nil {
		t.Fatal(err)
	}
	l, err := ParseLabels(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// maxDelay is how many samples after an offender's start its finding may begin.
const maxDelay = 3

// wantAllRight fails for every job that is not judged as its label says.
func wantAllRight(t *testing.T, v *Verdict, s *Summary) {
	t.Helper()
	for _, j := range v.Jobs {
		late := j.Role == "offender" && j.Samples != nil && *j.Samples > maxDelay
		if !j.RightRule || late {
			t.Errorf("job %s (%s, %s): flagged by %v, %v samples after its start", j.JobID, j.Role, j.Kind, j.Rules, deref(j.Samples))
		}
	}
	if t.Failed() {
		for _, f := range s.Findings {
			t.Logf("%s %s%s %s %v", f.Rule, f.JobID, f.Target, f.Severity, f.Evidence)
		}
	}
}

func deref(n *int) any {
	if n == nil {
		return "no"
	}
	return *n
}

// TestRecordings is the detection quality on real Lustre: every offender by the
// right rule and in time, no benign job at all.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(recordings, "*.tar.zst"))
	if err != nil || len(files) < 11 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".tar.zst"), func(t *testing.T) {
			t.Parallel()
			r := openRecording(t, f)
			s := replay(t, r)
			wantAllRight(t, Judge(labelsOf(t, r), s.Findings, s.Interval), s)
			for _, p := range s.Problems {
				t.Errorf("problem: %s", p)
			}
		})
	}
}

// place is where a file goes in a rewritten recording.
type place struct {
	host string
	at   time.Time
}

// rewrite makes another recording of a server's: where gives each file its new
// places, none to leave it out; edit may change its text.
func rewrite(t *testing.T, r *host.Recording, where func(i int, at time.Time, name string) []place, edit func(name string, b []byte) []byte) *host.Recording {
	t.Helper()
	out := filepath.Join(t.TempDir(), "rewritten.tar")
	f, err := os.Create(out)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for i, s := range r.Snapshots("server") {
		m := r.Machine(s)
		err := fs.WalkDir(m.FS, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(m.FS, name)
			if err != nil {
				return err
			}
			if edit != nil {
				b = edit(name, b)
			}
			for _, p := range where(i, s.Time, name) {
				h := tar.Header{Name: fmt.Sprintf("%s/%.3f/%s", p.host, float64(p.at.UnixMilli())/1000, name), Mode: 0o644, Size: int64(len(b))}
				if err := w.WriteHeader(&h); err != nil {
					return err
				}
				if _, err := w.Write(b); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return openRecording(t, out)
}

// same leaves files where they are.
func same(_ int, at time.Time, _ string) []place { return []place{{"server", at}} }

// targetIn is the target in a parameter's path, "" where it has none.
func targetIn(name string) string {
	for _, part := range strings.Split(name, "/") {
		if strings.HasPrefix(part, "lustre-OST") || strings.HasPrefix(part, "lustre-MDT") {
			return part[:len("lustre-OST0000")]
		}
	}
	return ""
}

// skews are the clocks of eight servers with a target each.
var skews = map[string]time.Duration{
	"lustre-MDT0000": 0, "lustre-MDT0001": 2300 * time.Millisecond, "lustre-OST0000": -5 * time.Second,
	"lustre-OST0001": 700 * time.Millisecond, "lustre-OST0002": 40 * time.Second, "lustre-OST0003": -900 * time.Millisecond,
	"lustre-OST0004": 11 * time.Second, "lustre-OST0005": 100 * time.Millisecond,
}

// split gives every target a server of its own, with a copy of what is the
// host's. Services of the OSS go with OSTs, those of the MDS with MDTs.
func split(_ int, at time.Time, name string) []place {
	var out []place
	own := targetIn(name)
	for target, skew := range skews {
		service := strings.Contains(name, "/ost/") && strings.Contains(target, "MDT") || strings.Contains(name, "/mds/") && strings.Contains(target, "OST")
		if own == target || own == "" && !service {
			out = append(out, place{"server-" + target, at.Add(skew)})
		}
	}
	return out
}

// TestSplitServers judges a recording that is split by target into eight servers
// whose clocks differ: the offender must be found all the same, and only it.
func TestSplitServers(t *testing.T) {
	for _, name := range []string{"01_benign_only", "1_checkpoint_storm", "2_smallfile_flood", "3_read_storm", "4_randwrite_hdd", "5_scan_flood"} {
		t.Run(name, func(t *testing.T) {
			r := openRecording(t, filepath.Join(recordings, name+".tar.zst"))
			s := replay(t, rewrite(t, r, split, nil))
			if len(s.Servers) != 8 {
				t.Fatalf("servers: %v", s.Servers)
			}
			v := Judge(labelsOf(t, r), s.Findings, s.Interval)
			if v.Precision != 1 || v.Recall != 1 {
				t.Errorf("precision %v, recall %v", v.Precision, v.Recall)
				for _, f := range s.Findings {
					t.Logf("%s %s%s %s %v", f.Rule, f.JobID, f.Target, f.Severity, f.Evidence)
				}
			}
		})
	}
}

// TestSlowerSampling judges every second and third snapshot: 4 and 6 s apart.
func TestSlowerSampling(t *testing.T) {
	for _, every := range []int{2, 3} {
		for _, name := range []string{"1_checkpoint_storm", "2_smallfile_flood", "3_read_storm", "4_randwrite_hdd", "5_scan_flood", "6_benign_seqwriter"} {
			t.Run(fmt.Sprintf("%s every %d", name, every), func(t *testing.T) {
				r := openRecording(t, filepath.Join(recordings, name+".tar.zst"))
				thin := rewrite(t, r, func(i int, at time.Time, name string) []place {
					if i%every != 0 {
						return nil
					}
					return same(i, at, name)
				}, nil)
				s := replay(t, thin)
				wantAllRight(t, Judge(labelsOf(t, r), s.Findings, s.Interval), s)
			})
		}
	}
}

// TestCompoundJobIDs judges a recording in which each job's ids are as
// jobid_name=%j:%u:%h writes them, quoted, with a process of root beside them.
func TestCompoundJobIDs(t *testing.T) {
	r := openRecording(t, filepath.Join(recordings, "3_read_storm.tar.zst"))
	compound := rewrite(t, r, same,
		func(name string, b []byte) []byte {
			if filepath.Base(name) != "job_stats" {
				return b
			}
			for _, id := range []string{"1301", "1310", "1311", "1312"} {
				b = []byte(strings.ReplaceAll(string(b), "job_id:          "+id+"\n", `job_id:          "`+id+`:2001:client"`+"\n"))
			}
			return b
		})
	s := replay(t, compound)
	wantAllRight(t, Judge(labelsOf(t, r), s.Findings, s.Interval), s)
}

// TestTargetsComeAndGo takes two OSTs away for a while, as in a failover.
func TestTargetsComeAndGo(t *testing.T) {
	r := openRecording(t, filepath.Join(recordings, "2_smallfile_flood.tar.zst"))
	gone := rewrite(t, r, func(i int, at time.Time, name string) []place {
		target := targetIn(name)
		if i > 15 && i < 25 && (target == "lustre-OST0002" || target == "lustre-OST0003") {
			return nil
		}
		return same(i, at, name)
	}, nil)
	s := replay(t, gone)
	wantAllRight(t, Judge(labelsOf(t, r), s.Findings, s.Interval), s)
}

// TestClockJumps sets the server's clock an hour back and then two forward in
// the middle of a recording; uptime tells the true time that passed.
func TestClockJumps(t *testing.T) {
	r := openRecording(t, filepath.Join(recordings, "3_read_storm.tar.zst"))
	n := 0
	p := Replay{Recording: r, Engine: engine.New(engine.Config{Policy: policy.Default()})}
	snapshots := r.Snapshots("server")
	findings := map[string]*ioguard.Finding{}
	c := newJumpy(p.Engine)
	for i, s := range snapshots {
		at := s.Time
		switch {
		case i >= 40:
			at = at.Add(time.Hour)
		case i >= 20:
			at = at.Add(-time.Hour)
		}
		n += c.step(t, r.Machine(s), at, findings)
	}
	if n == 0 {
		t.Fatal("no round was judged")
	}
	var list []ioguard.Finding
	for _, f := range findings {
		list = append(list, *f)
	}
	v := Judge(labelsOf(t, r), list, 2*time.Second)
	if v.Precision != 1 || v.Recall != 1 {
		t.Errorf("precision %v, recall %v: %+v", v.Precision, v.Recall, list)
	}
}

// jumpy feeds an engine with samples at times of the test's choice.
type jumpy struct {
	c *collect.Collector
	e *engine.Engine
}

func newJumpy(e *engine.Engine) *jumpy {
	return &jumpy{&collect.Collector{Interval: 2 * time.Second}, e}
}

func (j *jumpy) step(t *testing.T, m *host.Host, at time.Time, findings map[string]*ioguard.Finding) int {
	t.Helper()
	iv, err := j.c.Sample(context.Background(), m, at)
	if err != nil {
		t.Fatal(err)
	}
	if iv.Kind != ioguard.DeltaFirst && (iv.Elapsed < time.Second || iv.Elapsed > 4*time.Second) {
		t.Errorf("elapsed %v across a clock jump", iv.Elapsed)
	}
	if !j.e.Feed(iv, at) {
		return 0
	}
	track(findings, j.e.Step(at).Events)
	return 1
}

// TestOldRelease judges recordings as a server before 2.14 would tell them:
// operations are counted, not timed, in whole seconds.
func TestOldRelease(t *testing.T) {
	for _, name := range []string{"01_benign_only", "1_checkpoint_storm", "2_smallfile_flood", "3_read_storm", "4_randwrite_hdd", "5_scan_flood", "6_benign_seqwriter", "7_benign_slowreads"} {
		t.Run(name, func(t *testing.T) {
			r := openRecording(t, filepath.Join(recordings, name+".tar.zst"))
			s := replay(t, rewrite(t, r, same, untimed))
			v := Judge(labelsOf(t, r), s.Findings, s.Interval)
			if v.Precision != 1 || v.Recall != 1 {
				t.Errorf("precision %v, recall %v", v.Precision, v.Recall)
				for _, f := range s.Findings {
					t.Logf("%s %s%s %s %v", f.Rule, f.JobID, f.Target, f.Severity, f.Evidence)
				}
			}
		})
	}
}

// untimed rewrites job_stats and md_stats in the form of 2.12.
func untimed(name string, b []byte) []byte {
	base := filepath.Base(name)
	if base != "job_stats" && base != "md_stats" && !strings.Contains(name, "obdfilter") {
		return b
	}
	var out strings.Builder
	for _, line := range strings.SplitAfter(string(b), "\n") {
		switch i := strings.Index(line, ", unit: usecs"); {
		case i > 0 && (strings.HasPrefix(line, "  read:") || strings.HasPrefix(line, "  write:")):
		case i > 0:
			out.WriteString(line[:i] + ", unit:  reqs }\n")
		case strings.HasPrefix(line, "  start_time") || strings.HasPrefix(line, "  elapsed_time"):
		case strings.Contains(line, " samples [usecs]"):
			if !strings.HasPrefix(line, "read ") && !strings.HasPrefix(line, "write ") {
				out.WriteString(line[:strings.Index(line, "[usecs]")] + "[reqs]\n")
			}
		case strings.HasPrefix(line, "  snapshot_time:"):
			out.WriteString(line[:strings.IndexByte(line, '.')] + "\n")
		case strings.Contains(line, ", sumsq:"):
			out.WriteString(line[:strings.Index(line, ", sumsq:")] + " }\n")
		default:
			out.WriteString(line)
		}
	}
	return []byte(out.String())
}

package collect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ioguard/lfs/lfstest"
)

var t0 = time.Unix(1795243600, 0)

func entry(id string, start float64, open, usec int) string {
	return fmt.Sprintf("- job_id:          %s\n  snapshot_time:   %.3f secs.nsecs\n  start_time:      %.3f secs.nsecs\n  open:            { samples: %d, unit: usecs, min: 1, max: 9, sum: %d, sumsq: 1 }\n  read:            { samples: 0, unit: usecs, min: 0, max: 0, sum: 0, sumsq: 0 }\n",
		id, start+1, start, open, usec)
}

// readJobs gives a reading's deltas in short form.
func readJobs(t *testing.T, tr *jobTracker, text string, now time.Time) []string {
	t.Helper()
	got, err := tr.read(strings.NewReader(text), now)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, d := range got.deltas {
		for _, op := range d.Ops {
			lines = append(lines, fmt.Sprintf("%s %v %s %v %v", d.JobID, d.Kind, op.Op, op.Samples, op.Sum))
		}
	}
	return lines
}

func TestJobTracker(t *testing.T) {
	start := float64(t0.Unix())
	tr := newJobTracker()
	steps := []struct {
		what, text string
		want       []string
	}{
		{"the first reading has nothing to compare with", entry("1", start-50, 10, 100), nil},
		{"a value", entry("1", start-50, 13, 160), []string{"1 value open 3 60"}},
		{"no change", entry("1", start-50, 13, 160), nil},
		{"a new job counts in full", entry("1", start-50, 13, 160) + entry("2", start+5, 4, 40), []string{"2 value open 4 40"}},
		{"an entry that the last reading missed is no new work", entry("1", start-50, 13, 160) + entry("2", start+5, 4, 40) + entry("3", start-500, 1000, 9999), nil},
		{"start_time moved: reset", entry("1", start+7, 20, 200) + entry("2", start+5, 4, 40) + entry("3", start-500, 1001, 9999), []string{"1 reset open 20 200", "3 value open 1 0"}},
		{"a counter fell: reset", entry("1", start+7, 2, 20) + entry("2", start+5, 5, 50), []string{"1 reset open 2 20", "2 value open 1 10"}},
		{"gone", "", nil},
		{"expired and came back", entry("1", start+14, 6, 60), []string{"1 value open 6 60"}},
	}
	for i, s := range steps {
		got := readJobs(t, tr, s.text, t0.Add(time.Duration(2*i)*time.Second))
		if s.want == nil {
			s.want = []string{}
		}
		if diff := cmp.Diff(s.want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", s.what, diff)
		}
	}
	if len(tr.jobs) != 1 {
		t.Errorf("%d jobs remembered, want 1", len(tr.jobs))
	}
}

func TestJobTrackerOldByteCounters(t *testing.T) {
	tr := newJobTracker()
	text := "- job_id: dd.0\n  snapshot_time: 1384531124\n  read: { samples: %d, unit: bytes, min: 4096, max: 4096, sum: %d }\n"
	readJobs(t, tr, fmt.Sprintf(text, 2, 8192), t0)
	got := readJobs(t, tr, fmt.Sprintf(text, 5, 20480), t0.Add(time.Second))
	if diff := cmp.Diff([]string{"dd.0 value read_bytes 3 12288"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestJobTrackerForgetsNothingAfterAnError(t *testing.T) {
	tr := newJobTracker()
	start := float64(t0.Unix())
	readJobs(t, tr, entry("1", start, 1, 1)+entry("2", start, 1, 1), t0)
	_, err := tr.read(io.MultiReader(strings.NewReader(entry("1", start, 2, 2)), iotest.ErrReader(errors.New("gone"))), t0.Add(time.Second))
	if err == nil {
		t.Fatal("no error")
	}
	got := readJobs(t, tr, entry("1", start, 2, 2)+entry("2", start, 9, 9), t0.Add(2*time.Second))
	if diff := cmp.Diff([]string{"2 value open 8 8"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestJobTrackerSecondEntryOfOneID(t *testing.T) {
	tr := newJobTracker()
	start := float64(t0.Unix())
	readJobs(t, tr, entry("1", start, 5, 5)+entry("1", start, 1, 1), t0)
	got := readJobs(t, tr, entry("1", start, 6, 6)+entry("1", start, 1, 1), t0.Add(time.Second))
	if diff := cmp.Diff([]string{"1 value open 1 1"}, got); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkSampleUnchanged is a sample of 10,000 jobs of which none did anything.
func BenchmarkSampleUnchanged(b *testing.B) {
	text := lfstest.JobStats(10_000, 1)
	tr := newJobTracker()
	if _, err := tr.read(bytes.NewReader(text), t0); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if got, err := tr.read(bytes.NewReader(text), t0); err != nil || got.jobs != 10_000 {
			b.Fatal(got.jobs, err)
		}
	}
}

// BenchmarkSampleChanged is a sample of 10,000 jobs that all worked.
func BenchmarkSampleChanged(b *testing.B) {
	texts := [][]byte{lfstest.JobStats(10_000, 1), lfstest.JobStats(10_000, 2)}
	tr := newJobTracker()
	b.SetBytes(int64(len(texts[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if got, err := tr.read(bytes.NewReader(texts[i%2]), t0); err != nil || got.jobs != 10_000 {
			b.Fatal(got.jobs, err)
		}
	}
}

package lfs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func gotSum(c CounterSum) string {
	return fmt.Sprintf("%s %d %s %d %d %d", c.Op, c.Samples, c.Unit, c.Min, c.Max, c.Sum)
}

func TestJobTotals(t *testing.T) {
	const named = `obdfilter.fs-OST0000.job_stats=
job_stats:
- job_id:          4711
  write_bytes:     { samples: 3, unit: bytes, min: 4096, max: 8192, sum: 20480, sumsq: 1 }
  write:           { samples: 3, unit: usecs, min: 5, max: 9, sum: 21, sumsq: 1 }
  sync:            { samples: 0, unit: usecs, min: 0, max: 0, sum: 0, sumsq: 0 }
obdfilter.fs-OST0001.job_stats=
job_stats:
- job_id:          "4711"
  write_bytes:     { samples: 1, unit: bytes, min: 1024, max: 1024, sum: 1024, sumsq: 1 }
  write:           { samples: 1, unit: usecs, min: 90, max: 90, sum: 90, sumsq: 1 }
mdt.fs-MDT0000.job_stats=
job_stats:
- job_id:          4711
  open:            { samples: 12, unit:  reqs }
- job_id:          dd.0
  open:            { samples: 1, unit:  reqs }
`
	var totals JobTotals
	// a second file repeats a target; two bare ones are two more targets
	for _, text := range []string{named, "obdfilter.fs-OST0000.job_stats=\n- job_id: 4711\n  sync: { samples: 2, unit: reqs }\n",
		"job_stats:\n- job_id: dd.0\njob_stats:\n- job_id: dd.0\n"} {
		if skipped, err := totals.Add(strings.NewReader(text)); err != nil || skipped.Lines > 0 {
			t.Fatal(skipped, err)
		}
	}
	var got []string
	for _, j := range totals.Jobs() {
		r, w := j.Bytes()
		got = append(got, fmt.Sprintf("%s targets=%d ops=%d read=%d written=%d usec=%d", j.ID, j.Targets, j.Ops(), r, w, j.Usec()))
		for _, c := range j.Counters {
			got = append(got, "  "+gotSum(c))
		}
	}
	want := []string{
		"4711 targets=3 ops=18 read=0 written=21504 usec=111",
		"  write_bytes 4 bytes 1024 8192 21504",
		"  write 4 usecs 5 90 111",
		"  open 12 reqs 0 0 0",
		"  sync 2 reqs 0 0 0",
		"dd.0 targets=3 ops=1 read=0 written=0 usec=0",
		"  open 1 reqs 0 0 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

// A file read in parts gives what it gives as a stream, wherever it is cut.
func TestJobTotalsParts(t *testing.T) {
	var b strings.Builder
	for target := range 40 {
		switch {
		case target%3 == 0:
			fmt.Fprintf(&b, "obdfilter.fs-OST%04x.job_stats=\njob_stats:\n", target)
		case target > 30: // a dump without names
			b.WriteString("job_stats:\n")
		default:
			fmt.Fprintf(&b, "obdfilter.fs-OST%04x.job_stats=job_stats:\n", target)
		}
		for job := range 2000 + 100*target {
			fmt.Fprintf(&b, "- job_id:          %d\n  open:            { samples: %d, unit: usecs, min: 1, max: %d, sum: %d, sumsq: 1 }\n", job*7%2500, job%5, target, job)
			if job%997 == 0 {
				b.WriteString("  odd line\n")
			}
		}
	}
	text := b.String()
	sum := func(read func(*JobTotals) (Skipped, error)) (string, Skipped) {
		var totals JobTotals
		skipped, err := read(&totals)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for _, j := range totals.Jobs() {
			fmt.Fprintf(&out, "%s %d", j.ID, j.Targets)
			for _, c := range j.Counters {
				out.WriteString(" " + gotSum(c))
			}
			out.WriteByte('\n')
		}
		return out.String(), skipped
	}
	want, wantSkipped := sum(func(j *JobTotals) (Skipped, error) { return j.Add(strings.NewReader(text)) })
	for _, procs := range []int{2, 3, 8} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		if n := int64(len(text)); len(cutAtJobs(strings.NewReader(text), n, min(int64(procs), n/partMin))) < 3 {
			t.Fatalf("%d bytes are not cut", n)
		}
		got, skipped := sum(func(j *JobTotals) (Skipped, error) { return j.AddFile(strings.NewReader(text), int64(len(text))) })
		if got != want {
			t.Errorf("in %d parts: %s", procs, cmp.Diff(strings.Split(want, "\n")[:20], strings.Split(got, "\n")[:20]))
		}
		if diff := cmp.Diff(wantSkipped, skipped); diff != "" {
			t.Errorf("skipped in %d parts:\n%s", procs, diff)
		}
	}
}

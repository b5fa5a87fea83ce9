package lfs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
			got = append(got, "  "+gotCounter(c))
		}
	}
	want := []string{
		"4711 targets=3 ops=18 read=0 written=21504 usec=111",
		"  write_bytes 4 bytes 1024 8192 21504 2",
		"  write 4 usecs 5 90 111 2",
		"  open 12 reqs 0 0 0 0",
		"  sync 2 reqs 0 0 0 0",
		"dd.0 targets=3 ops=1 read=0 written=0 usec=0",
		"  open 1 reqs 0 0 0 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

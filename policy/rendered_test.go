package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ioguard"
)

// recorded are figures of each rule's offender, as measured where there is a
// recording of one.
var recorded = map[string]map[string]any{
	"checkpoint-storm": {
		"job.write_bytes_per_second": 3.297e7, "job.osts": 4.0, "job.burst_ratio": 2.372, "job.period_seconds": 25.14, "job.bursts": 3.0,
		"job.data_in_flight": 12.397, "share.write": 0.953, "share.time": 0.957, "pressure.util": 0.1876, "pressure.queue": 0.41,
		"pressure.wait_usec": 2879.0, "pressure.wait_ratio": 3.212, "pressure.cpu": 0.718, "harm.ratio": 8.64, "harm.victims": 1.0,
	},
	"hot-ost": {
		"job.top_ost_share": 0.998, "job.osts": 2.0, "job.top_ost": "lustre-OST0002", "job.peer_load": 0.0421, "job.write_bytes_per_second": 2.1e7,
		"job.read_bytes_per_second": 0.0, "job.data_in_flight": 14.2, "share.ost": 0.934, "share.time": 0.88, "pressure.util": 0.994,
		"pressure.queue": 11.7, "pressure.wait_usec": 812.0, "pressure.wait_ratio": 1.31, "pressure.cpu": 0.31, "harm.ratio": 5.2, "harm.victims": 2.0,
	},
	"metadata-flood": {
		"job.create_per_second": 22.277, "job.unlink_per_second": 0.0, "job.bytes_per_create": 1790.2, "job.meta_in_flight": 0.1668,
		"share.create": 1.0, "share.meta": 0.9645, "share.meta_time": 0.9835, "pressure.cpu": 0.6311, "pressure.cpu_ratio": 4.3435,
		"pressure.wait_usec": 1503.0, "pressure.wait_ratio": 1.5035, "harm.ratio": 1.0, "harm.victims": 0.0,
	},
	"metadata-scan": {
		"job.getattr_per_second": 1380.4, "job.hidden_getattr_per_second": 1350.4, "share.getattr": 0.9794, "share.meta": 0.9795,
		"pressure.cpu": 0.6647, "pressure.cpu_ratio": 5.5976, "pressure.wait_usec": 2234.0, "pressure.wait_ratio": 2.339, "harm.ratio": 3.28, "harm.victims": 1.0,
	},
	"ost-full": {
		"ost.name": "lustre-OST0004", "ost.index": 4.0, "ost.used": 0.913, "ost.inodes_used": 0.0031, "ost.pool": "ssd_pool", "pool.osts": 2.0,
		"ost.share_of_pool_load": 0.62,
	},
	"pool-full": {"pool.name": "ssd_pool", "pool.osts": 2.0, "pool.used": 0.874, "pool.max_used": 0.952},
	"random-io": {
		"job.write_ops_per_second": 14.21, "job.mean_write_bytes": 32768.0, "job.read_ops_per_second": 0.0, "job.sync_per_second": 16.24,
		"job.small_io_share": 1.0, "job.spinning_share": 0.93, "job.data_in_flight": 4.904, "share.data": 0.6087, "share.time": 0.968,
		"pressure.util": 0.6619, "pressure.queue": 1.2538, "pressure.wait_usec": 1742.0, "pressure.wait_ratio": 2.381, "pressure.cpu": 0.56,
		"harm.ratio": 3.0986, "harm.victims": 1.0,
	},
	"read-storm": {
		"job.read_bytes_per_second": 3.5996e7, "job.osts": 4.0, "job.mean_read_bytes": 1048576.0, "job.data_in_flight": 6.7692, "share.read": 0.9997,
		"share.time": 0.9334, "pressure.cpu": 0.6012, "pressure.util": 0.15, "pressure.queue": 0.29, "pressure.wait_usec": 2041.0,
		"pressure.wait_ratio": 2.535, "harm.worst": "1312", "harm.ratio": 5.987, "harm.victims": 1.0,
	},
}

// What people read of every built-in rule, so that a change of it is seen: with
// real figures, with all numbers 1 and 0, and with no number known.
func TestRendered(t *testing.T) {
	const golden = "testdata/rendered.golden"
	var b strings.Builder
	for _, r := range Default().Rules {
		values, ok := recorded[r.Code]
		if !ok {
			t.Errorf("%s: no figures to show it with", r.Code)
			continue
		}
		real := factsOf(t, values)
		f := render(r, real)
		fmt.Fprintf(&b, "== %s: %s\n%s\n\n%s\n", r.Code, f.Title, strings.Join(f.Facts, "\n"), f.Advice)
		if strings.Contains(f.Advice, "unknown") || len(f.Facts) == 0 {
			t.Errorf("%s: the figures leave something out", r.Code)
		}
		for _, v := range []float64{1, 0} {
			all := real.Clone()
			for i := range all.numbers {
				all.numbers[i] = v
			}
			fmt.Fprintf(&b, "\n-- all numbers %v\n%s\n", v, strings.Join(render(r, all).Facts, "\n"))
		}
		nothing := NewFacts()
		copy(nothing.texts, real.texts)
		f = render(r, nothing)
		fmt.Fprintf(&b, "\n-- no number known\n%s\n\n", strings.Join(f.Facts, "\n"))
		if r.Subject == JobSubject && strings.Contains(f.Advice, "unknown") {
			t.Errorf("%s: advice that rests on a number: %s", r.Code, f.Advice)
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s has changed; read it and run: go test ./policy -run TestRendered -update\n%s", golden, diff)
	}
}

func render(r *Rule, f Facts) ioguard.Finding {
	var st state
	st.take(r, &Subject{Kind: r.Subject, Facts: f}, ioguard.Warning)
	return st.worst
}

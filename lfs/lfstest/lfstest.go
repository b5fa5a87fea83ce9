// Package lfstest makes large job_stats texts for benchmarks and load tests. Only
// tests and the benchmark tool import it.
package lfstest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// JobStats writes an OST's job_stats of n jobs in the form of 2.17, for
// benchmarks and load tests: about 1.6 KB a job, half of the metadata counters
// at zero, as on busy servers. The same seed gives the same text.
func JobStats(n int, seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	b.WriteString("job_stats:\n")
	for i := range n {
		t := 1795243608 + rnd.Float64()*100
		fmt.Fprintf(&b, "- job_id:          %d\n  snapshot_time:   %.9f secs.nsecs\n  start_time:      %.9f secs.nsecs\n  elapsed_time:    500.000000000 secs.nsecs\n",
			4_000_000+i, t, t-500)
		reads, writes := uint64(rnd.IntN(100_000)), uint64(rnd.IntN(100_000))
		writeBytes(&b, "read_bytes", reads)
		writeBytes(&b, "write_bytes", writes)
		writeUsecs(&b, "read", reads)
		writeUsecs(&b, "write", writes)
		for _, name := range []string{"getattr", "setattr", "punch", "sync", "destroy", "create", "statfs", "get_info", "set_info", "quotactl", "prealloc"} {
			v := uint64(0)
			if rnd.IntN(10) < 4 {
				v = 1 + uint64(rnd.IntN(5000))
			}
			writeUsecs(&b, name, v)
		}
	}
	return []byte(b.String())
}

func writeBytes(b *strings.Builder, name string, v uint64) {
	hist := ""
	lo, hi := uint64(0), uint64(0)
	if v > 0 {
		hist, lo, hi = fmt.Sprintf("4K: %d, 1M: %d", v/2, v-v/2), 4096, 1<<20
	}
	fmt.Fprintf(b, "  %-16s { samples: %11d, unit: bytes, min: %8d, max: %8d, sum: %16d, sumsq: %18d, hist: { %s } }\n",
		name+":", v, lo, hi, v<<19, v<<38, hist)
}

func writeUsecs(b *strings.Builder, name string, v uint64) {
	lo, hi := uint64(0), uint64(0)
	if v > 0 {
		lo, hi = 4, 99_999
	}
	fmt.Fprintf(b, "  %-16s { samples: %11d, unit: usecs, min: %8d, max: %8d, sum: %16d, sumsq: %18d }\n",
		name+":", v, lo, hi, v*3000, v*9_000_000)
}

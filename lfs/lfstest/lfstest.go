// Package lfstest makes large job_stats texts for benchmarks and load tests. Only
// tests and the benchmark tool import it.
package lfstest

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Form is the release whose way of printing a text follows.
type Form string

// The forms differ most of what releases 2.5 to 2.17 print.
const (
	Form217 Form = "2.17" // 2.3 KB a job: times with fractions, latencies, histograms
	Form212 Form = "2.12" // 0.8 KB a job: whole seconds, counts only
)

// Stats says what job_stats of an OST to write. The same Stats give the same text.
type Stats struct {
	Jobs int
	Seed uint64
	Form Form // "" is Form217
	// Round and Share move the counters on: in each round that share (0 to 1) of
	// the jobs, other ones each time, did some more of what they do.
	Round int
	Share float64
}

// JobStats is the text of n jobs in the form of 2.17, half of the counters at
// zero, as on busy servers.
func JobStats(n int, seed uint64) []byte {
	return Stats{Jobs: n, Seed: seed}.Text()
}

var metadata = []string{"getattr", "setattr", "punch", "sync", "destroy", "create", "statfs", "get_info", "set_info", "quotactl", "prealloc"}

// Text writes the file.
func (s Stats) Text() []byte {
	rnd := rand.New(rand.NewPCG(s.Seed, 1))
	var b strings.Builder
	b.WriteString("job_stats:\n")
	for i := range s.Jobs {
		t := 1795243608 + rnd.Float64()*100
		more, last := s.worked(i)
		s.writeTimes(&b, 4_000_000+i, t, t+2*float64(last))
		count := func(n int) uint64 { return uint64(rnd.IntN(n)) }
		reads, writes := count(100_000)+more, count(100_000)+more
		s.writeBytes(&b, "read_bytes", reads)
		s.writeBytes(&b, "write_bytes", writes)
		if s.Form != Form212 {
			writeUsecs(&b, "read", reads)
			writeUsecs(&b, "write", writes)
		}
		for _, name := range metadata {
			v := uint64(0)
			if rnd.IntN(10) < 4 {
				v = 1 + count(5000) + more
			}
			s.writeCount(&b, name, v)
		}
	}
	return []byte(b.String())
}

// worked gives what a job added to each of its counters, and in which round the last.
func (s Stats) worked(job int) (more uint64, last int) {
	for r := 1; r <= s.Round; r++ {
		if float64((job+37*r)%100) < s.Share*100 {
			more, last = more+uint64(10+job%7), r
		}
	}
	return more, last
}

func (s Stats) writeTimes(b *strings.Builder, id int, start, last float64) {
	if s.Form == Form212 {
		fmt.Fprintf(b, "- job_id:          %d\n  snapshot_time:   %d\n", id, int(last))
		return
	}
	fmt.Fprintf(b, "- job_id:          %d\n  snapshot_time:   %.9f secs.nsecs\n  start_time:      %.9f secs.nsecs\n  elapsed_time:    %.9f secs.nsecs\n",
		id, last, start-500, 500+last-start)
}

func (s Stats) writeBytes(b *strings.Builder, name string, v uint64) {
	hist := ""
	lo, hi := uint64(0), uint64(0)
	if v > 0 {
		hist, lo, hi = fmt.Sprintf("4K: %d, 1M: %d", v/2, v-v/2), 4096, 1<<20
	}
	if s.Form == Form212 {
		fmt.Fprintf(b, "  %-16s { samples: %11d, unit: bytes, min: %7d, max: %7d, sum: %15d }\n", name+":", v, lo, hi, v<<19)
		return
	}
	fmt.Fprintf(b, "  %-16s { samples: %11d, unit: bytes, min: %8d, max: %8d, sum: %16d, sumsq: %18d, hist: { %s } }\n",
		name+":", v, lo, hi, v<<19, v<<38, hist)
}

func (s Stats) writeCount(b *strings.Builder, name string, v uint64) {
	if s.Form == Form212 {
		fmt.Fprintf(b, "  %-16s { samples: %11d, unit:  reqs }\n", name+":", v)
		return
	}
	writeUsecs(b, name, v)
}

func writeUsecs(b *strings.Builder, name string, v uint64) {
	lo, hi := uint64(0), uint64(0)
	if v > 0 {
		lo, hi = 4, 99_999
	}
	fmt.Fprintf(b, "  %-16s { samples: %11d, unit: usecs, min: %8d, max: %8d, sum: %16d, sumsq: %18d }\n",
		name+":", v, lo, hi, v*3000, v*9_000_000)
}

package main

import (
	"bufio"
	"bytes"
	"io"
	"testing"

	"ioguard/lfs"
	"ioguard/lfs/lfstest"
)

// BenchmarkTopStatsfile is what `ioguard top --statsfile` does in its process,
// cold, but for the reading: 10,000 jobs of one OST.
func BenchmarkTopStatsfile(b *testing.B) {
	text := lfstest.JobStats(10_000, 4711)
	value, err := totalBy("ops")
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var totals lfs.JobTotals
		if _, err := totals.Add(bytes.NewReader(text)); err != nil {
			b.Fatal(err)
		}
		out := bufio.NewWriter(io.Discard)
		if err := totalsTable(firstJobs(totals.Jobs(), value, 20), "ops", value, false).Write(out, 0); err != nil {
			b.Fatal(err)
		}
	}
}

package lfs

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"
)

// Sizes for reading one file in parts: smaller files are not worth a second
// goroutine, and a job's entry is looked for this far behind a cut.
const (
	partMin    = 1 << 20
	partWindow = 1 << 16
)

// AddFile sums a file of known size like Add, in as many parts as there are
// processors. A part starts at a job's entry; entries before its first target
// prefix or header belong to the target that the part before it ended with.
func (t *JobTotals) AddFile(f io.ReaderAt, size int64) (Skipped, error) {
	cuts := cutAtJobs(f, size, min(int64(runtime.GOMAXPROCS(0)), size/partMin))
	if len(cuts) == 2 {
		return t.Add(io.NewSectionReader(f, 0, size))
	}
	parts := make([]JobTotals, len(cuts)-1)
	skipped := make([]Skipped, len(parts))
	errs := make([]error, len(parts))
	part := func(i int) {
		n := cuts[i+1] - cuts[i]
		parts[i].expect(n)
		skipped[i], errs[i] = parts[i].add(io.NewSectionReader(f, cuts[i], n), i > 0)
	}
	var wg sync.WaitGroup
	for i := 1; i < len(parts); i++ {
		wg.Go(func() { part(i) })
	}
	part(0) // here: waking a thread takes as long as reading a megabyte
	wg.Wait()
	var all Skipped
	line := 0
	for i := range parts {
		t.merge(&parts[i])
		all.Lines += skipped[i].Lines
		for _, l := range skipped[i].First {
			if len(all.First) < jobStatsMaxKeep {
				l.Line += line
				all.First = append(all.First, l)
			}
		}
		line += parts[i].dec.line
	}
	return all, errors.Join(errs...)
}

// cutAtJobs gives the offsets between n parts of about one size, 0 and size
// included. A cut that finds no entry nearby is left out.
func cutAtJobs(f io.ReaderAt, size, n int64) []int64 {
	cuts := []int64{0}
	window := make([]byte, partWindow)
	for i := int64(1); i < n; i++ {
		at := size / n * i
		k, _ := f.ReadAt(window, at)
		j := bytes.Index(window[:k], []byte("\n- job_id:"))
		if j >= 0 && at+int64(j)+1 > cuts[len(cuts)-1] {
			cuts = append(cuts, at+int64(j)+1)
		}
	}
	return append(cuts, size)
}

// inherited stands for the target that the part before ended with; numbers just
// below it for what follows the next headers without a name: the same target
// where it has one (2.17 may repeat the header in mid-file), else others.
const (
	inherited    int32 = 1<<31 - 1
	inheritedMin int32 = 1 << 30
)

// merge takes in another's jobs, as if what it read had been read next.
func (t *JobTotals) merge(o *JobTotals) {
	if t.jobs == nil {
		*t = *o
		return
	}
	names := make(map[int32]int32, len(o.targets)+1)
	names[inherited] = t.current
	for name, n := range o.targets {
		names[n] = t.target([]byte(name))
	}
	rename := func(n int32) int32 {
		to, ok := names[n]
		if !ok && n >= inheritedMin && names[inherited] > 0 {
			to, ok = names[inherited], true
		}
		if !ok { // a target without a name is a new one
			t.unnamed--
			to = t.unnamed
			names[n] = to
		}
		return to
	}
	for _, p := range o.order {
		p.lastTarget = rename(p.lastTarget)
		for i := range p.targets {
			p.targets[i] = rename(p.targets[i])
		}
		j := t.jobs[p.ID]
		if j == nil {
			t.jobs[p.ID] = p
			t.order = append(t.order, p)
			continue
		}
		j.absorb(p)
	}
	if o.current != 0 {
		t.current = rename(o.current)
	}
}

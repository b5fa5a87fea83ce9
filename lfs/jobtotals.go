package lfs

import (
	"io"

	"ioguard"
)

// JobTotals sums job_stats over targets: what `ioguard top --statsfile` and
// lljobstat do. The zero value is ready.
type JobTotals struct {
	jobs    map[string]*JobTotal
	order   []*JobTotal
	targets map[string]int32 // name -> number
	unnamed int32            // targets without a name, numbered downwards
	current int32            // target of the last entry; 0 before any
	dec     JobStatsDecoder
	slab    []CounterSum
	fresh   []JobTotal // not yet given out
}

// CounterSum is a counter summed over targets. Fields that the release does not
// print are zero.
type CounterSum struct {
	Samples uint64
	Min     uint64
	Max     uint64
	Sum     uint64
	Op      ioguard.Op
	Unit    CounterUnit
}

// JobTotal is one job's counters over all targets. Counters without samples are
// left out.
type JobTotal struct {
	ID       string // decoded
	Targets  int    // targets on which the job has an entry
	Counters []CounterSum

	lastTarget int32
	targets    []int32 // beyond one
}

// Jobs lists the jobs in the order in which they were met.
func (t *JobTotals) Jobs() []*JobTotal { return t.order }

// Add sums one file: a job_stats file, or an `lctl get_param` dump of several
// targets, with or without names. It returns the lines that were not understood.
// Entries of a named target count for that target; each header of a dump
// without names starts another target. After an error what was read is kept.
func (t *JobTotals) Add(r io.Reader) (Skipped, error) { return t.add(r, false) }

// expect makes room for the jobs of a text of that size.
func (t *JobTotals) expect(size int64) {
	if t.jobs != nil {
		return
	}
	const perJob = 1500 // bytes of text, as releases print it on the whole
	n := int(min(size/perJob, 1<<20))
	t.jobs = make(map[string]*JobTotal, n)
	t.order = make([]*JobTotal, 0, n)
	t.targets = make(map[string]int32)
}

// add sums one file, or a part of one that continues with the target of the
// part before.
func (t *JobTotals) add(r io.Reader, continues bool) (Skipped, error) {
	t.expect(0)
	t.dec.Reset(r)
	headers := -1
	var name []byte
	for t.dec.Next() {
		if h := t.dec.headers; h != headers || string(name) != string(t.dec.Target()) {
			headers, name = h, append(name[:0], t.dec.Target()...)
			if continues && len(name) == 0 {
				t.current = inherited - int32(h)
			} else {
				t.current = t.target(name)
			}
		}
		t.entry(t.dec.Decode(), t.current)
	}
	return t.dec.Skipped(), t.dec.Err()
}

// target numbers the target of that name; every one without a name is another.
func (t *JobTotals) target(name []byte) int32 {
	if len(name) == 0 {
		t.unnamed--
		return t.unnamed
	}
	n, ok := t.targets[string(name)]
	if !ok {
		n = int32(len(t.targets)) + 1
		t.targets[string(name)] = n
	}
	return n
}

func (t *JobTotals) entry(e *JobEntry, target int32) {
	j := t.jobs[string(e.ID)]
	if j == nil {
		if len(t.fresh) == 0 {
			t.fresh = make([]JobTotal, 512)
		}
		j, t.fresh = &t.fresh[0], t.fresh[1:]
		j.ID, j.Targets, j.lastTarget = string(e.ID), 1, target
		t.jobs[j.ID] = j
		t.order = append(t.order, j)
		t.first(j, e)
		return
	}
	j.seenOn(target)
	for i := range e.Counters {
		if e.Counters[i].Samples > 0 {
			c := sumOf(&e.Counters[i])
			j.add(&c, i)
		}
	}
}

// first copies the counters of a job's first entry, out of one slab for many jobs.
func (t *JobTotals) first(j *JobTotal, e *JobEntry) {
	n := 0
	for i := range e.Counters {
		if e.Counters[i].Samples > 0 {
			n++
		}
	}
	if cap(t.slab)-len(t.slab) < n {
		t.slab = make([]CounterSum, 0, max(n, 4096))
	}
	from := len(t.slab)
	for i := range e.Counters {
		if c := &e.Counters[i]; c.Samples > 0 {
			t.slab = append(t.slab, sumOf(c))
		}
	}
	j.Counters = t.slab[from:len(t.slab):len(t.slab)]
}

func (j *JobTotal) seenOn(target int32) {
	if j.lastTarget == target {
		return
	}
	if len(j.targets) == 0 {
		j.targets = append(j.targets, j.lastTarget)
	}
	j.lastTarget = target
	for _, n := range j.targets {
		if n == target {
			return
		}
	}
	j.targets = append(j.targets, target)
	j.Targets = len(j.targets)
}

// absorb adds another's targets and counters.
func (j *JobTotal) absorb(o *JobTotal) {
	if len(o.targets) == 0 {
		j.seenOn(o.lastTarget)
	}
	for _, n := range o.targets {
		j.seenOn(n)
	}
	for i := range o.Counters {
		j.add(&o.Counters[i], i)
	}
}

// add sums a counter; one of another unit is another counter (an OST of 2.5
// counts bytes under the names that later releases use for times).
func (j *JobTotal) add(c *CounterSum, hint int) {
	for i := range j.Counters {
		k := &j.Counters[(i+hint)%len(j.Counters)]
		if k.Op != c.Op || k.Unit != c.Unit {
			continue
		}
		k.Samples += c.Samples
		k.Min = min(k.Min, c.Min)
		k.Max = max(k.Max, c.Max)
		k.Sum += c.Sum
		return
	}
	j.Counters = append(j.Counters, *c)
}

func sumOf(c *JobCounter) CounterSum {
	return CounterSum{Samples: c.Samples, Min: c.Min, Max: c.Max, Sum: c.Sum, Op: c.Op, Unit: c.Unit}
}

// Counter gives the sum of a counter, nil where the job has none.
func (j *JobTotal) Counter(op ioguard.Op) *CounterSum {
	for i := range j.Counters {
		if j.Counters[i].Op == op {
			return &j.Counters[i]
		}
	}
	return nil
}

// Bytes are the bytes read and written, by whatever name the release counts them.
func (j *JobTotal) Bytes() (read, written uint64) {
	for i := range j.Counters {
		c := &j.Counters[i]
		if c.Unit != UnitBytes {
			continue
		}
		switch c.Op {
		case ioguard.OpReadBytes, ioguard.OpRead:
			read += c.Sum
		case ioguard.OpWriteBytes, ioguard.OpWrite:
			written += c.Sum
		}
	}
	return read, written
}

// Ops is the number of operations. Reads and writes are counted once, though
// 2.14 and later count them in two counters each.
func (j *JobTotal) Ops() (n uint64) {
	var read, readBytes, write, writeBytes uint64
	for i := range j.Counters {
		c := &j.Counters[i]
		switch c.Op {
		case ioguard.OpRead:
			read = max(read, c.Samples)
		case ioguard.OpReadBytes:
			readBytes += c.Samples
		case ioguard.OpWrite:
			write = max(write, c.Samples)
		case ioguard.OpWriteBytes:
			writeBytes += c.Samples
		default:
			n += c.Samples
		}
	}
	return n + max(read, readBytes) + max(write, writeBytes)
}

// Usec is the time in service over all timed counters, in microseconds.
func (j *JobTotal) Usec() (n uint64) {
	for i := range j.Counters {
		if c := &j.Counters[i]; c.Unit == UnitUsecs {
			n += c.Sum
		}
	}
	return n
}

// MergeJobs sums jobs whose ids name one job by the site's format: all hosts,
// processes and steps of a Slurm job, under its key.
func MergeJobs(jobs []*JobTotal, f JobIDFormat) []*JobTotal {
	byKey := make(map[string]*JobTotal, len(jobs))
	var out []*JobTotal
	for _, j := range jobs {
		id := f.Parse(j.ID)
		key := id.Key()
		m := byKey[key]
		if m == nil {
			m = &JobTotal{ID: key, Targets: j.Targets, Counters: append([]CounterSum(nil), j.Counters...),
				lastTarget: j.lastTarget, targets: append([]int32(nil), j.targets...)}
			byKey[key] = m
			out = append(out, m)
			continue
		}
		m.absorb(j)
	}
	return out
}

package collect

import (
	"hash/maphash"
	"io"
	"time"

	"ioguard"
	"ioguard/lfs"
	"ioguard/series"
)

// jobTracker turns readings of one target's job_stats into deltas. It keeps one
// small state per job that the target holds and decodes only entries whose text
// changed.
type jobTracker struct {
	dec   lfs.JobStatsDecoder
	seed  maphash.Seed
	jobs  map[string]*jobState // by raw id
	round uint32
	last  time.Time // of the last complete reading; zero before the first

	deltas []ioguard.JobDelta // of the last result, reused
	ops    []ioguard.OpDelta
	ends   []int32 // where each delta's ops end
}

type jobState struct {
	id    string // decoded
	hash  uint64
	round uint32
	start lfs.JobTime
	ops   []opState
}

// opState is the last value of a counter. Counters at zero have none.
type opState struct {
	samples uint64
	sum     uint64
	op      ioguard.Op
}

// jobReading is what one reading of job_stats gave.
type jobReading struct {
	deltas  []ioguard.JobDelta
	jobs    int // entries in the file
	skipped lfs.Skipped
}

func newJobTracker() *jobTracker {
	return &jobTracker{seed: maphash.MakeSeed(), jobs: make(map[string]*jobState)}
}

// read takes the target's job_stats as it is at now and gives what every job
// did since the last reading; nothing for the first one. The deltas are valid
// until the next reading, which reuses their memory: a busy server's sample has
// 100,000 of them. After an error the
// deltas of the entries that were read are good, and no job is forgotten.
//
// An entry that was not there before began since then, so all it counts is the
// delta, unless its start_time says that the last reading missed it. An entry
// whose start_time moved or whose counters fell was reset: what it counts since
// is the delta, and a lower bound.
func (t *jobTracker) read(r io.Reader, now time.Time) (jobReading, error) {
	t.dec.Reset(r)
	t.round++
	out := jobReading{deltas: t.deltas[:0]}
	ops := t.ops[:0]
	t.ends = t.ends[:0]
	for t.dec.Next() {
		out.jobs++
		hash := maphash.Bytes(t.seed, t.dec.Block())
		s := t.jobs[string(t.dec.RawID())]
		if s != nil && (s.hash == hash || s.round == t.round) { // unchanged, or a second entry of one id
			s.round = t.round
			continue
		}
		e := t.dec.Decode()
		if s == nil {
			s = &jobState{id: string(e.ID), start: e.StartTime}
			t.jobs[string(t.dec.RawID())] = s
			kind := ioguard.DeltaValue
			if t.last.IsZero() || startedBefore(e.StartTime, t.last) {
				kind = ioguard.DeltaFirst
			}
			ops = t.delta(&out, s, ops, e, kind)
		} else {
			kind := ioguard.DeltaValue
			if s.wasReset(e) {
				kind = ioguard.DeltaReset
				s.ops = s.ops[:0]
			}
			ops = t.delta(&out, s, ops, e, kind)
		}
		s.hash, s.round, s.start = hash, t.round, e.StartTime
	}
	out.skipped = t.dec.Skipped()
	t.deltas, t.ops = out.deltas, ops
	// only now do the ops stay where they are: a delta must not keep an array
	// alive that was outgrown
	from := int32(0)
	for i, end := range t.ends {
		out.deltas[i].Ops = ops[from:end:end]
		from = end
	}
	if err := t.dec.Err(); err != nil {
		return out, err
	}
	if len(t.jobs) > out.jobs {
		for id, s := range t.jobs {
			if s.round != t.round {
				delete(t.jobs, id)
			}
		}
	}
	t.last = now
	return out, nil
}

// startedBefore reports whether the target says that a job began clearly before
// t. The boot clock of 2.15.0 and a missing start_time say nothing.
func startedBefore(start lfs.JobTime, t time.Time) bool {
	return !start.IsZero() && !start.BootClock() && start.Seconds() < float64(t.UnixNano())/1e9-1
}

// wasReset reports whether the counters began anew since the last reading.
func (s *jobState) wasReset(e *lfs.JobEntry) bool {
	if e.StartTime != s.start && !e.StartTime.IsZero() && !s.start.IsZero() {
		return true
	}
	next := 0
	for i := range e.Counters {
		c := &e.Counters[i]
		k := findOp(s.ops, next, operation(c))
		if k < 0 {
			continue
		}
		if _, kind := series.Diff(s.ops[k].samples, c.Samples, 64); kind == ioguard.DeltaReset {
			return true
		}
		next = k + 1
	}
	return false
}

// findOp gives the place of a counter's state, -1 where it has none. Files keep
// their order, so it mostly stands where it is expected.
func findOp(ops []opState, expected int, op ioguard.Op) int {
	if expected < len(ops) && ops[expected].op == op {
		return expected
	}
	for i := range ops {
		if ops[i].op == op {
			return i
		}
	}
	return -1
}

// operation is the counter's meaning: 2.5 and 2.6 call byte counters read and write.
func operation(c *lfs.JobCounter) ioguard.Op {
	if c.Unit == lfs.UnitBytes {
		switch c.Op {
		case ioguard.OpRead:
			return ioguard.OpReadBytes
		case ioguard.OpWrite:
			return ioguard.OpWriteBytes
		}
	}
	return c.Op
}

// delta appends what the entry's counters gained and keeps their values.
func (t *jobTracker) delta(out *jobReading, s *jobState, ops []ioguard.OpDelta, e *lfs.JobEntry, kind ioguard.DeltaKind) []ioguard.OpDelta {
	from, next := len(ops), 0
	for i := range e.Counters {
		c := &e.Counters[i]
		op := operation(c)
		k := findOp(s.ops, next, op)
		if k < 0 {
			if c.Samples == 0 {
				continue
			}
			if s.ops == nil {
				s.ops = make([]opState, 0, counted(e.Counters[i:]))
			}
			k = len(s.ops)
			s.ops = append(s.ops, opState{op: op})
		}
		p := &s.ops[k]
		next = k + 1
		samples, sum := c.Samples-p.samples, c.Sum-p.sum
		if c.Sum < p.sum {
			sum = 0 // the counters of one entry are not read at one instant
		}
		p.samples, p.sum = c.Samples, c.Sum
		if samples > 0 && kind != ioguard.DeltaFirst {
			ops = append(ops, ioguard.OpDelta{Op: op, Samples: float64(samples), Sum: float64(sum), Timed: c.Unit == lfs.UnitUsecs})
		}
	}
	if len(ops) > from {
		out.deltas = append(out.deltas, ioguard.JobDelta{JobID: s.id, Kind: kind})
		t.ends = append(t.ends, int32(len(ops)))
	}
	return ops
}

// counted is how many counters are not at zero.
func counted(counters []lfs.JobCounter) (n int) {
	for i := range counters {
		if counters[i].Samples > 0 {
			n++
		}
	}
	return n
}

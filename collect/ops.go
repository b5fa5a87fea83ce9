package collect

import (
	"ioguard"
	"ioguard/lfs"
	"ioguard/series"
)

// opTracker turns readings of one stats file into deltas.
type opTracker struct {
	known bool
	start lfs.StatsTime
	ops   []opState
}

// delta gives what the counters gained since the last reading, nil for the
// first one. A file whose start_time moved or of which a counter fell was
// reset; then what it counts since is the delta.
func (t *opTracker) delta(s *lfs.Stats) []ioguard.OpDelta {
	first := !t.known
	if t.known && t.wasReset(s) {
		t.ops = t.ops[:0]
	}
	t.known, t.start = true, s.Start
	var out []ioguard.OpDelta
	for i := range s.Counters {
		c := &s.Counters[i]
		p, inc, sum := t.step(i, c)
		if inc > 0 && !first {
			out = append(out, ioguard.OpDelta{Op: p.op, Samples: float64(inc), Sum: float64(sum), Timed: c.Timed()})
		}
	}
	return out
}

// service gives a service's interval.
func (t *opTracker) service(s *lfs.Stats) (d ioguard.ServiceDelta) {
	first := !t.known
	if t.known && t.wasReset(s) {
		t.ops = t.ops[:0]
	}
	t.known, t.start = true, s.Start
	for i := range s.Counters {
		c := &s.Counters[i]
		_, inc, sum := t.step(i, c)
		if inc == 0 || first {
			continue
		}
		switch c.Name {
		case "req_waittime":
			d.Requests, d.WaitUsec = float64(inc), float64(sum)
		case "req_qdepth":
			d.QueueDepth = float64(sum) / float64(inc)
		case "req_active":
			d.Active = float64(sum) / float64(inc)
		case "ost_read":
			d.Reads, d.ReadUsec = timed(c, inc, sum)
		case "ost_write":
			d.Writes, d.WriteUsec = timed(c, inc, sum)
		case "ost_sync":
			d.Syncs, d.SyncUsec = timed(c, inc, sum)
		}
	}
	return d
}

// timed gives a counter's operations and time, nothing where it only counts.
func timed(c *lfs.Counter, inc, sum uint64) (n, usec float64) {
	if !c.Timed() {
		return 0, 0
	}
	return float64(inc), float64(sum)
}

// step takes a counter's new value: its state, the operations and the sum gained.
func (t *opTracker) step(hint int, c *lfs.Counter) (p *opState, inc, sum uint64) {
	op := ioguard.RegisterOp([]byte(c.Name))
	switch { // 2.5 and 2.6 call byte counters read and write
	case c.Unit == "bytes" && op == ioguard.OpRead:
		op = ioguard.OpReadBytes
	case c.Unit == "bytes" && op == ioguard.OpWrite:
		op = ioguard.OpWriteBytes
	}
	k := findOp(t.ops, hint, op)
	if k < 0 {
		k = len(t.ops)
		t.ops = append(t.ops, opState{op: op})
	}
	p = &t.ops[k]
	inc, _ = series.Diff(p.samples, c.Samples, 64)
	if c.Sum >= p.sum {
		sum = c.Sum - p.sum
	}
	p.samples, p.sum = c.Samples, c.Sum
	return p, inc, sum
}

func (t *opTracker) wasReset(s *lfs.Stats) bool {
	if s.Start.Known && t.start.Known && s.Start != t.start {
		return true
	}
	for i := range s.Counters {
		c := &s.Counters[i]
		if k := findOp(t.ops, i, ioguard.RegisterOp([]byte(c.Name))); k >= 0 && c.Samples < t.ops[k].samples {
			return true
		}
	}
	return false
}

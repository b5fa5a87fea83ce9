package engine

import (
	"math"
	"time"

	"ioguard"
)

// minute gathers the windows and pressure of the current minute for the records.
type minute struct {
	start    time.Time
	number   int // of minutes so far: rows of another one are over
	rows     map[minuteKey]*minuteRow
	touched  []*minuteRow // in this round
	pressure map[string]*minutePressure
}

type minuteKey struct{ fs, pool, job string }

type minuteRow struct {
	ioguard.Window
	of                  int       // number of its minute
	targets             []*target // touched
	inRound             bool
	read, written, meta float64 // of this round
	seconds             float64 // longest interval of this round
}

type minutePressure struct {
	ioguard.Pressure
	rounds float64
}

// add takes the work of a job on a target in one interval.
func (m *minute) add(t *target, j *job, w *work, seconds float64) {
	pool := ""
	if t.kind == ioguard.OST && len(t.pools) > 0 {
		pool = t.pools[0]
	}
	r := j.row
	if r == nil || r.of != m.number || r.Pool != pool {
		r = m.row(minuteKey{t.fs, pool, j.key})
		j.row = r
	}
	r.on(t)
	fill(&r.Window, w)
	if !r.inRound {
		r.inRound = true
		m.touched = append(m.touched, r)
	}
	r.read += w.bytes[0]
	r.written += w.bytes[1]
	r.meta += w.meta()
	r.seconds = max(r.seconds, seconds)
}

// on notes that the job touched a target, mostly the one after the last.
func (r *minuteRow) on(t *target) {
	for i := len(r.targets) - 1; i >= 0; i-- {
		if r.targets[i] == t {
			return
		}
	}
	r.targets = append(r.targets, t)
}

func (m *minute) row(k minuteKey) *minuteRow {
	r := m.rows[k]
	if r == nil {
		if m.rows == nil {
			m.rows = make(map[minuteKey]*minuteRow)
		}
		r = &minuteRow{Window: ioguard.Window{FS: k.fs, Pool: k.pool, JobID: k.job}, of: m.number}
		m.rows[k] = r
	}
	return r
}

// flush ends the round and, when now lies in another minute, gives the rows of
// the minute that ended.
func (m *minute) flush(e *Engine, r *round, now time.Time) ([]ioguard.Window, []ioguard.Pressure) {
	for j, perSecond := range r.hidden {
		row := m.row(minuteKey{j.fs, "", j.key})
		row.HiddenGetattrs += perSecond * e.interval().Seconds()
	}
	for _, row := range m.touched {
		row.PeakReadBytes = max(row.PeakReadBytes, row.read/row.seconds)
		row.PeakWriteBytes = max(row.PeakWriteBytes, row.written/row.seconds)
		row.PeakMetaOps = max(row.PeakMetaOps, row.meta/row.seconds)
		row.inRound, row.read, row.written, row.meta, row.seconds = false, 0, 0, 0, 0
	}
	m.touched = m.touched[:0]
	for _, s := range r.servers {
		m.press(s)
	}
	start := now.Truncate(time.Minute)
	if m.start.IsZero() {
		m.start = start
	}
	if start.Equal(m.start) {
		return nil, nil
	}
	windows, pressure := m.drain()
	m.start = start
	return windows, pressure
}

func (m *minute) press(s *serverNow) {
	if m.pressure == nil {
		m.pressure = make(map[string]*minutePressure)
	}
	p := m.pressure[s.name]
	if p == nil {
		nan := math.NaN()
		p = &minutePressure{Pressure: ioguard.Pressure{Server: s.name, Util: nan, QueueSize: nan, Score: nan, PSISome: nan, WaitUsec: nan, Busy: nan, IOWait: nan}}
		m.pressure[s.name] = p
	}
	p.rounds++
	n := p.rounds
	p.Busy = mean(p.Busy, s.now.cpu, n)
	p.IOWait = mean(p.IOWait, s.now.iowait, n)
	p.PSISome = mean(p.PSISome, s.now.psi, n)
	p.WaitUsec = mean(p.WaitUsec, s.now.waitUsec, n)
	p.Util = larger(p.Util, s.now.util)
	p.QueueSize = larger(p.QueueSize, s.now.queue)
	p.Score = larger(p.Score, s.now.score)
}

// mean takes the n-th value into a running mean; unknown values are left out.
func mean(m, v, n float64) float64 {
	if math.IsNaN(m) {
		return v
	}
	if math.IsNaN(v) {
		return m
	}
	return m + (v-m)/n
}

// drain gives the rows gathered so far and starts anew.
func (m *minute) drain() ([]ioguard.Window, []ioguard.Pressure) {
	windows := make([]ioguard.Window, 0, len(m.rows))
	for _, r := range m.rows {
		r.Start, r.Seconds, r.Targets = m.start, 60, len(r.targets)
		windows = append(windows, r.Window)
	}
	pressure := make([]ioguard.Pressure, 0, len(m.pressure))
	for _, p := range m.pressure {
		p.Start, p.Seconds = m.start, 60
		pressure = append(pressure, p.Pressure)
	}
	m.rows, m.pressure, m.touched = nil, nil, m.touched[:0]
	m.number++
	return windows, pressure
}

// JobWindows gives what a job did in the last few intervals, oldest first, over
// all servers and pools: the windows that prove a finding.
func (e *Engine) JobWindows(fs, key string, now time.Time) []ioguard.Window {
	j := e.jobs[jobKey{fs, key}]
	if j == nil {
		return nil
	}
	var out []ioguard.Window
	start := now
	for back := range keepFrames {
		var w work
		seconds := 0.0
		for _, s := range e.servers {
			sj := s.jobs[j]
			if sj == nil {
				continue
			}
			for i := range sj.frames {
				if f := &sj.frames[i]; f.seconds > 0 && f.seq == s.seq-back {
					w.add(&f.work)
					seconds = max(seconds, f.seconds)
				}
			}
		}
		if seconds == 0 {
			continue
		}
		start = start.Add(-time.Duration(seconds * float64(time.Second)))
		row := ioguard.Window{Start: start, Seconds: seconds, FS: fs, JobID: key}
		fill(&row, &w)
		out = append([]ioguard.Window{row}, out...)
	}
	return out
}

// fill adds work to a window's sums.
func fill(r *ioguard.Window, w *work) {
	r.ReadBytes += w.bytes[0]
	r.WriteBytes += w.bytes[1]
	r.ReadOps += w.n[classRead]
	r.WriteOps += w.n[classWrite]
	r.ReadUsec += w.usec[classRead]
	r.WriteUsec += w.usec[classWrite]
	r.Opens += w.n[classOpen]
	r.Closes += w.n[classClose]
	r.Creates += w.n[classCreate]
	r.Unlinks += w.n[classUnlink]
	r.Getattrs += w.n[classGetattr]
	r.Setattrs += w.n[classSetattr]
	r.Syncs += w.n[classSync]
	r.OtherOps += w.n[classOther]
	r.MetaUsec += w.metaUsec() + w.usec[classSync]
}

package watch

import (
	"context"

	"fmt"
	"io/fs"
	"sort"
	"time"

	"ioguard"
	"ioguard/engine"
	"ioguard/store"
)

// recordsServer stands for all servers in a replay of records: windows are kept
// summed over servers.
const recordsServer = "records"

// ReplayRecords judges the windows that a database keeps between since and
// until (zero: no bound). Its minutes stand for intervals of a single server
// that holds all targets; a pool's work is spread evenly over as many OSTs as
// the job touched.
func ReplayRecords(ctx context.Context, s *store.Store, cfg engine.Config, since, until time.Time) (*Summary, error) {
	cfg.Interval = time.Minute
	pressure, err := s.Pressure(ctx, since, until)
	if err != nil {
		return nil, err
	}
	r := &recordsReplay{engine: engine.New(cfg), pressure: worstByMinute(pressure),
		sum: &Summary{Servers: []string{recordsServer}, Interval: time.Minute}, findings: map[string]*ioguard.Finding{}}
	err = s.Windows(ctx, since, until, func(w ioguard.Window) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if minute := w.Start.Truncate(time.Minute); !minute.Equal(r.minute) {
			r.flush()
			r.minute = minute
		}
		r.windows = append(r.windows, w)
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.flush()
	if r.sum.Snapshots == 0 {
		return nil, fmt.Errorf("replay: no windows in that span: %w", fs.ErrNotExist)
	}
	r.sum.finish(r.findings)
	return r.sum, nil
}

type recordsReplay struct {
	engine   *engine.Engine
	pressure map[time.Time]ioguard.Pressure
	minute   time.Time
	windows  []ioguard.Window
	sum      *Summary
	findings map[string]*ioguard.Finding
}

// flush judges the minute that was gathered.
func (r *recordsReplay) flush() {
	if len(r.windows) == 0 {
		return
	}
	end := r.minute.Add(time.Minute)
	iv := &ioguard.Interval{Server: recordsServer, Start: r.minute, End: end, Elapsed: time.Minute, Kind: ioguard.DeltaValue,
		Targets: targetsOf(r.windows)}
	if p, ok := r.pressure[r.minute]; ok {
		iv.Host = hostOf(&p)
	}
	r.engine.Feed(iv, end)
	res := r.engine.Step(end)
	track(r.findings, res.Events)
	if r.sum.Start.IsZero() {
		r.sum.Start = r.minute
	}
	r.sum.End = end
	r.sum.Snapshots++
	r.windows = r.windows[:0]
}

// maxSpread bounds the targets that a window is spread over.
const maxSpread = 64

func targetsOf(windows []ioguard.Window) []ioguard.TargetDelta {
	targets := map[string]*ioguard.TargetDelta{}
	add := func(name, pool string, job ioguard.JobDelta) {
		if len(job.Ops) == 0 {
			return
		}
		t := targets[name]
		if t == nil {
			t = &ioguard.TargetDelta{Target: name, Elapsed: time.Minute, Kind: ioguard.DeltaValue}
			if pool != "" {
				t.Pools = []string{pool}
			}
			targets[name] = t
		}
		t.Jobs = append(t.Jobs, job)
	}
	pools := map[string]int{}
	for i := range windows {
		w := &windows[i]
		key := w.FS + "." + w.Pool
		if _, ok := pools[key]; !ok {
			pools[key] = len(pools)
		}
		add(w.FS+"-MDT0000", "", ioguard.JobDelta{JobID: w.JobID, Kind: ioguard.DeltaValue, Ops: metaOps(w)})
		n := min(max(w.Targets, 1), maxSpread)
		for k := range n {
			ost := fmt.Sprintf("%s-OST%04x", w.FS, pools[key]*maxSpread+k)
			add(ost, w.Pool, ioguard.JobDelta{JobID: w.JobID, Kind: ioguard.DeltaValue, Ops: dataOps(w, float64(n))})
		}
	}
	out := make([]ioguard.TargetDelta, 0, len(targets))
	for _, t := range targets {
		out = append(out, *t)
	}
	sort.Slice(out, func(a, b int) bool { return out[a].Target < out[b].Target })
	return out
}

func metaOps(w *ioguard.Window) []ioguard.OpDelta {
	var ops []ioguard.OpDelta
	total := w.MetaOps()
	for _, c := range []struct {
		op ioguard.Op
		n  float64
	}{{ioguard.OpOpen, w.Opens}, {ioguard.OpClose, w.Closes}, {ioguard.OpMkdir, w.Creates}, {ioguard.OpUnlink, w.Unlinks},
		{ioguard.OpGetattr, w.Getattrs + w.HiddenGetattrs}, {ioguard.OpSetattr, w.Setattrs}} {
		if c.n > 0 {
			ops = append(ops, ioguard.OpDelta{Op: c.op, Samples: c.n, Sum: w.MetaUsec * min(1, c.n/max(total, 1)), Timed: w.MetaUsec > 0})
		}
	}
	return ops
}

func dataOps(w *ioguard.Window, n float64) []ioguard.OpDelta {
	var ops []ioguard.OpDelta
	add := func(op ioguard.Op, samples, sum float64, timed bool) {
		if samples > 0 {
			ops = append(ops, ioguard.OpDelta{Op: op, Samples: samples / n, Sum: sum / n, Timed: timed})
		}
	}
	add(ioguard.OpReadBytes, w.ReadOps, w.ReadBytes, false)
	add(ioguard.OpWriteBytes, w.WriteOps, w.WriteBytes, false)
	add(ioguard.OpRead, w.ReadOps, w.ReadUsec, w.ReadUsec > 0)
	add(ioguard.OpWrite, w.WriteOps, w.WriteUsec, w.WriteUsec > 0)
	return ops
}

func worstByMinute(rows []ioguard.Pressure) map[time.Time]ioguard.Pressure {
	m := make(map[time.Time]ioguard.Pressure, len(rows))
	for _, p := range rows {
		k := p.Start.Truncate(time.Minute)
		if old, ok := m[k]; !ok || p.Score > old.Score {
			m[k] = p
		}
	}
	return m
}

// hostOf makes a pressure row look like a server's interval.
func hostOf(p *ioguard.Pressure) *ioguard.HostDelta {
	const requests = 1000 // enough for the mean wait to count
	return &ioguard.HostDelta{
		System: p.Busy, IOWait: p.IOWait, PSISome: p.PSISome,
		Devices:  []ioguard.DeviceDelta{{Device: "busiest", Util: p.Util, QueueSize: p.QueueSize}},
		Services: []ioguard.ServiceDelta{{Service: "all", Requests: requests, WaitUsec: requests * p.WaitUsec}},
	}
}

// Package collect runs the readers side by side and turns what one server's
// files say into intervals: what happened there between two samples. It only
// reads; a file that is missing, cut or unknown is reported and costs nothing
// but itself. The agent (package watch) calls it, on a living server and on
// recorded ones alike.
package collect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sort"
	"strings"
	"time"

	"ioguard"
	"ioguard/host"
	"ioguard/lfs"
	"ioguard/proc"
)

// Collector turns samples of one server into intervals. It is not safe for
// concurrent use.
type Collector struct {
	// Interval is the nominal time between samples; a sample that comes more
	// than two and a half of it late is a gap. Zero knows no gaps.
	Interval time.Duration
	// Refresh is how long what rarely changes (devices, pools, settings) is
	// believed; zero is a minute.
	Refresh time.Duration
	// Timeout is how long the targets' readings may take together, by the wall
	// clock. One that hangs is told, left alone until it is over, and then taken
	// in. Zero waits for ever, as on recordings.
	Timeout time.Duration

	clock    time.Duration // passed over all samples, by a clock that does not jump
	host     *proc.Sample
	last     time.Time
	targets  map[string]*targetTracker
	services map[string]*opTracker

	slowAt   time.Time
	devices  map[string]proc.TargetDevices
	pools    map[string][]string
	jobName  string
	slowErrs []string
}

// targetTracker holds the previous readings of one target. While it is being
// read it belongs to the goroutine that reads.
type targetTracker struct {
	jobs    *jobTracker
	totals  opTracker
	header  lfs.StatsTime // when stats was read, by the target
	parser  lfs.StatsParser
	buf     lfs.FileBuffer
	clients map[string]*opTracker
	reader  lfs.ExportReader
	hiding  bool          // it did more than its jobs account for: the clients are asked
	at      time.Duration // the collector's clock when job_stats was last read

	reading bool // the collector's: a reading is under way
	result  chan targetReading
}

// targetReading is one reading of a target.
type targetReading struct {
	delta    ioguard.TargetDelta
	problems []string
}

// Sample reads the server and gives what happened since the last Sample, of
// which the first has no time and no deltas. The jobs' deltas are valid until the
// next Sample. A server without any Lustre target
// gives an error that wraps fs.ErrNotExist.
func (c *Collector) Sample(ctx context.Context, h *host.Host, now time.Time) (*ioguard.Interval, error) {
	infos, err := lfs.Targets(h.FS)
	if err != nil {
		return nil, fmt.Errorf("sample %s: %w", h.Name, err)
	}
	c.refresh(ctx, h, infos, now)
	iv := &ioguard.Interval{Server: h.Name, Start: c.last, End: now, Kind: ioguard.DeltaFirst, JobIDName: c.jobName}
	iv.Problems = append(iv.Problems, c.slowErrs...)
	if !c.last.IsZero() {
		iv.Kind, iv.Elapsed = ioguard.DeltaValue, now.Sub(c.last)
	}
	c.sampleHost(h, iv)
	if c.Interval > 0 && iv.Elapsed > c.Interval*5/2 {
		iv.Kind = ioguard.DeltaGap
	}
	c.sampleServices(h, iv)
	c.clock += iv.Elapsed
	c.sampleTargets(ctx, h, infos, iv)
	c.last = now
	return iv, nil
}

// sampleHost reads /proc. Its uptime is the clock that does not jump.
func (c *Collector) sampleHost(h *host.Host, iv *ioguard.Interval) {
	cur, err := proc.ReadHostSample(h.FS)
	if err != nil {
		iv.Problems = append(iv.Problems, err.Error())
		c.host = nil
		return
	}
	for _, p := range cur.Problems {
		iv.Problems = append(iv.Problems, p.Error())
	}
	prev := c.host
	c.host = cur
	if prev == nil || c.last.IsZero() {
		return
	}
	if prev.Uptime != nil && cur.Uptime != nil && *cur.Uptime > *prev.Uptime {
		iv.Elapsed = *cur.Uptime - *prev.Uptime
	}
	d, problems := proc.Diff(prev, cur, iv.Elapsed)
	iv.Host = &d
	iv.Problems = append(iv.Problems, problems...)
}

func (c *Collector) sampleServices(h *host.Host, iv *ioguard.Interval) {
	services, err := lfs.Services(h.FS)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			iv.Problems = append(iv.Problems, "service stats are open to root only: request wait times are unknown")
		}
		return
	}
	if c.services == nil {
		c.services = make(map[string]*opTracker)
	}
	var parser lfs.StatsParser
	var buf lfs.FileBuffer
	for _, s := range services {
		if s.Stats == "" {
			continue
		}
		st, err := lfs.ReadStats(h.FS, s.Stats, &parser, &buf)
		if err != nil {
			iv.Problems = append(iv.Problems, err.Error())
			continue
		}
		t := c.services[s.Name]
		if t == nil {
			t = &opTracker{}
			c.services[s.Name] = t
		}
		d := t.service(st)
		d.Service = s.Name
		if s.NRSPolicies != "" {
			if p, err := lfs.ReadNRSPolicies(h.FS, s.NRSPolicies); err == nil {
				queued, active := p.Totals()
				d.NRSQueued, d.NRSActive = float64(queued), float64(active)
			}
		}
		if iv.Host != nil {
			iv.Host.Services = append(iv.Host.Services, d)
		}
	}
}

// sampleTargets reads the targets side by side.
func (c *Collector) sampleTargets(ctx context.Context, h *host.Host, infos []lfs.TargetInfo, iv *ioguard.Interval) {
	if c.targets == nil {
		c.targets = make(map[string]*targetTracker)
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	here := make(map[string]bool, len(infos))
	slots := make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))
	for i := range infos {
		here[infos[i].Name] = true
		c.start(ctx, h, infos[i], iv.End, slots)
	}
	for i := range infos {
		t := c.targets[infos[i].Name]
		select {
		case r := <-t.result:
			t.reading = false
			r.delta.Pools = c.pools[infos[i].Name]
			c.setDevice(&r.delta, iv.Host)
			iv.Targets = append(iv.Targets, r.delta)
			iv.Problems = append(iv.Problems, r.problems...)
		case <-ctx.Done():
			iv.Problems = append(iv.Problems, infos[i].Name+": reading it hangs; it is left out until that ends")
		}
	}
	for name := range c.targets {
		if !here[name] { // stopped, or failed over to the other server
			delete(c.targets, name)
		}
	}
}

// start begins a target's reading, unless the last one is still under way. One
// that finds no slot in time, since others hang in them, gives up.
func (c *Collector) start(ctx context.Context, h *host.Host, info lfs.TargetInfo, now time.Time, slots chan struct{}) {
	t := c.targets[info.Name]
	if t == nil {
		t = &targetTracker{jobs: newJobTracker(), result: make(chan targetReading, 1), at: c.clock}
		c.targets[info.Name] = t
	}
	if t.reading {
		return
	}
	t.reading = true
	clock := c.clock
	go func() {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			t.result <- targetReading{ioguard.TargetDelta{Target: info.Name, Kind: ioguard.DeltaGap}, []string{info.Name + ": not read in time"}}
			return
		}
		r := t.sample(h, &info, now, clock)
		<-slots
		t.result <- r
	}()
}

// setDevice tells the busiest block device of a target, where the system maps them.
func (c *Collector) setDevice(d *ioguard.TargetDelta, h *ioguard.HostDelta) {
	devices, ok := c.devices[d.Target]
	if !ok {
		return
	}
	if d.Spin == nil {
		d.Spin = devices.Spin
	}
	if h == nil {
		return
	}
	if busiest, ok := devices.Busiest(h.Devices); ok {
		d.Busiest = &busiest
	}
}

// plausible reports whether the target's own clock agrees with the server's to
// a factor of two: a clock that was set says nothing about the time that passed.
func plausible(own, server time.Duration) bool {
	return own > server/2 && own < server*2
}

// sample reads one target, at now by the server's clock and clock by the
// collector's.
func (t *targetTracker) sample(h *host.Host, info *lfs.TargetInfo, now time.Time, clock time.Duration) targetReading {
	d := ioguard.TargetDelta{Target: info.Name, Kind: ioguard.DeltaValue, Elapsed: clock - t.at}
	var problems []string
	problem := func(err error) {
		problems = append(problems, info.Name+": "+err.Error())
		d.Kind = ioguard.DeltaGap
	}
	first := t.jobs.last.IsZero()
	if first {
		d.Kind = ioguard.DeltaFirst
	}
	switch {
	case info.JobStats != "":
		if err := t.sampleJobs(h, info, now, &d, &problems); err != nil {
			problem(err)
		} else {
			t.at = clock
		}
	case len(info.Denied) > 0:
		problem(fmt.Errorf("job_stats: %w", fs.ErrPermission))
	default:
		problem(fmt.Errorf("job_stats: %w", fs.ErrNotExist))
	}
	if info.Stats != "" {
		st, err := lfs.ReadStats(h.FS, info.Stats, &t.parser, &t.buf)
		if err != nil {
			problems = append(problems, info.Name+": "+err.Error())
		} else {
			if own := st.Snapshot.Sub(t.header); t.header.Known && st.Snapshot.Known && plausible(own, d.Elapsed) {
				d.Elapsed = own
			}
			t.header = st.Snapshot
			d.Totals = t.totals.delta(st)
			if d.Totals == nil && !first {
				d.Totals = []ioguard.OpDelta{} // known, and nothing happened
			}
		}
	}
	if space, err := lfs.ReadCapacity(h.FS, *info); err == nil {
		d.Space = &space
	}
	if info.RecoveryStatus != "" {
		if r, err := lfs.ReadRecovery(h.FS, info.RecoveryStatus); err == nil && r.Busy() {
			d.Recovering = true
			problems = append(problems, fmt.Sprintf("%s: in recovery (%s): no job is judged by its server", info.Name, r.Status))
		}
	}
	if rotates, err := lfs.ReadNonRotational(h.FS, *info); err == nil {
		spin := !rotates
		d.Spin = &spin
	}
	t.sampleClients(h, info, &d)
	return targetReading{d, problems}
}

func (t *targetTracker) sampleJobs(h *host.Host, info *lfs.TargetInfo, now time.Time, d *ioguard.TargetDelta, problems *[]string) error {
	f, err := h.FS.Open(info.JobStats)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := t.jobs.read(f, now)
	d.Jobs = got.deltas
	if n := got.skipped.Lines; n > 0 {
		l := got.skipped.First[0]
		*problems = append(*problems, fmt.Sprintf("%s:%d: %s (%d such lines): %q", info.JobStats, l.Line, l.Why, n, l.Text))
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", info.JobStats, err)
	}
	return nil
}

// Clients are asked only while a target does clearly more than its jobs
// account for: there is a file per client, and there may be thousands.
const (
	hidingShare = 0.3
	hidingOps   = 10
)

func (t *targetTracker) sampleClients(h *host.Host, info *lfs.TargetInfo, d *ioguard.TargetDelta) {
	if info.Exports == "" || d.Totals == nil || d.Kind != ioguard.DeltaValue {
		return
	}
	total := loadsOf(d.Totals)
	for i := range d.Jobs {
		for k, n := range loadsOf(d.Jobs[i].Ops) {
			total[k] -= n
		}
	}
	hiding := false
	for k, all := range loadsOf(d.Totals) {
		hiding = hiding || total[k] > hidingShare*all && total[k] > hidingOps
	}
	if !hiding && !t.hiding {
		t.clients = nil
		return
	}
	t.hiding = hiding
	known := t.clients != nil
	if !known {
		t.clients = make(map[string]*opTracker)
	}
	_ = t.reader.Read(h.FS, info.Exports, func(nid string, s *lfs.Stats) {
		c := t.clients[nid]
		if c == nil {
			c = &opTracker{}
			t.clients[strings.Clone(nid)] = c
		}
		if ops := c.delta(s); len(ops) > 0 {
			d.Exports = append(d.Exports, ioguard.ExportDelta{NID: strings.Clone(nid), Kind: ioguard.DeltaValue, Ops: ops})
		}
	})
	sort.Slice(d.Exports, func(a, b int) bool { return d.Exports[a].NID < d.Exports[b].NID })
}

// loadsOf counts getattr, other metadata operations, and reads and writes: what
// jobs do. A target counts more, on its servers' behalf.
func loadsOf(ops []ioguard.OpDelta) (n [3]float64) {
	for i := range ops {
		switch ops[i].Op {
		case ioguard.OpGetattr:
			n[0] += ops[i].Samples
		case ioguard.OpOpen, ioguard.OpMknod, ioguard.OpUnlink, ioguard.OpMkdir, ioguard.OpRmdir, ioguard.OpRename:
			n[1] += ops[i].Samples
		case ioguard.OpReadBytes, ioguard.OpWriteBytes:
			n[2] += ops[i].Samples
		}
	}
	return n
}

// refresh reads what rarely changes.
func (c *Collector) refresh(ctx context.Context, h *host.Host, infos []lfs.TargetInfo, now time.Time) {
	every := c.Refresh
	if every == 0 {
		every = time.Minute
	}
	if since := now.Sub(c.slowAt); !c.slowAt.IsZero() && since >= 0 && since < every && len(c.targets) == len(infos) {
		return
	}
	c.slowAt, c.slowErrs = now, nil
	c.devices = make(map[string]proc.TargetDevices)
	var zpool []byte
	for i := range infos {
		if strings.Contains(infos[i].OSD, "zfs") {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
			zpool, _ = h.Run(ctx, "zpool", "status", "-P")
			cancel()
			break
		}
	}
	if devices, err := proc.MapTargets(h.FS, zpool); err == nil {
		for _, d := range devices {
			c.devices[d.Target] = d
		}
	}
	pools, err := lfs.ReadPools(h.FS)
	if err == nil {
		c.pools = lfs.PoolsByTarget(pools)
	}
	if health, err := lfs.ReadHealth(h.FS); err == nil && health.Healthy != nil && !*health.Healthy {
		c.slowErrs = append(c.slowErrs, strings.TrimSpace("health_check: not healthy "+strings.Join(health.Devices, ", ")))
	}
	c.jobName = ""
	if s, err := lfs.ReadJobSettings(h.FS, infos); err == nil {
		if s.Name != nil && strings.Contains(*s.Name, "%") && *s.Name != defaultJobIDName {
			c.jobName = *s.Name
		}
	}
}

// defaultJobIDName is what a server that is no client has in jobid_name. It says
// nothing about the clients, whose setting it is that counts.
const defaultJobIDName = "%e.%u"

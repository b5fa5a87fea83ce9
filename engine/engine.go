// Package engine turns servers' intervals into windows, windows into facts, and
// facts, through the policy, into findings. It is pure: it reads no clock and no
// machine, so that a recording and a living cluster are judged alike.
//
// Servers' clocks are never compared. Each server's last intervals are its
// present, whatever it calls that time; the caller's now, which stamps findings,
// is the only time that crosses servers.
package engine

import (
	"math"
	"time"

	"ioguard"
	"ioguard/lfs"
	"ioguard/policy"
	"ioguard/series"
)

// Spans, in intervals of a server.
const (
	span     = 1   // what a job does "now"; a rule's `for` asks for more
	lateSpan = 1.5 // times the interval, from which on a target's delta is a late one
	harmSpan = 2   // over which a victim's latency is taken: few operations, more noise
	forget   = 12  // intervals without news after which a server or target is gone
)

// Config is what an Engine needs to know of the site.
type Config struct {
	Policy    *policy.Policy
	JobIDName string        // overrides what the servers say of jobid_name
	Interval  time.Duration // nominal time between samples
}

// Engine holds the present of all servers and the state of all findings.
type Engine struct {
	cfg      Config
	format   lfs.JobIDFormat
	formatOf string // the jobid_name that format was made from
	tracker  *policy.Tracker
	servers  map[string]*server
	targets  map[string]*target
	jobs     map[jobKey]*job
	ids      map[rawKey]*job // by the id as job_stats has it
	owners   map[string]ioguard.Owner
	// clientJobs are the jobs on a client's node, by NID
	clientJobs map[string][]string
	minute     minute
	subjects   []policy.Subject // reused
	facts      []policy.Facts   // reused
	round      int
}

// jobKey names a job: one Slurm number may work on two file systems.
type jobKey struct{ fs, key string }

type rawKey struct{ fs, raw string }

type job struct {
	jobKey
	row       *minuteRow // the last one it added to
	id        lfs.JobID
	first     time.Time // when it was first seen
	lastRound int
	writes    series.Bursts
	roundData float64 // bytes moved in this round, for the bursts
	roundSecs float64
}

type target struct {
	name    string
	fs      string
	kind    ioguard.TargetKind
	server  *server
	pools   []string
	spin    *bool
	device  *ioguard.DeviceDelta // its busiest, in the newest interval; nil where unknown
	space   *ioguard.Capacity
	jobs    map[*job]*touched
	totals  ring             // of the whole target, by its own counters
	counted bool             // totals are known
	clients map[string]light // work by client NID in the last interval, where it was asked for
	lastSeq int
}

type server struct {
	name      string
	seq       int
	fed       bool // reported in this round
	missed    int  // rounds without a report
	recovered int  // seq of the last interval in which a target was in recovery
	seconds   [keepFrames]float64
	host      [keepFrames]*ioguard.HostDelta
	jobs      map[*job]*serverJob
	busy      series.Calm
	wait      map[string]*series.Calm // by service
	serve     [serveKinds]series.Calm // mean time in service of reads and writes, whoever's
	means     [classes]float64        // of the newest interval, microseconds; 0 where unknown
	score     float64                 // pressure at the last round
}

// recovering reports whether a target was in recovery within the span over which
// jobs are judged: what is slow then is no job's doing, and not calm either.
func (s *server) recovering() bool {
	return s.recovered > 0 && s.seq-s.recovered <= harmSpan
}

// serverJob is a job's work on one server, and what is normal for it there.
type serverJob struct {
	ring
	calm [latencies]series.Calm
}

// New makes an engine. The policy must be valid.
func New(cfg Config) *Engine {
	e := &Engine{
		cfg:     cfg,
		tracker: policy.NewTracker(cfg.Policy),
		servers: make(map[string]*server),
		targets: make(map[string]*target),
		jobs:    make(map[jobKey]*job),
		ids:     make(map[rawKey]*job),
		owners:  make(map[string]ioguard.Owner),

		clientJobs: make(map[string][]string),
	}
	e.setFormat(cfg.JobIDName)
	return e
}

// setFormat takes a jobid_name; one that does not parse is as good as none.
func (e *Engine) setFormat(name string) {
	if name == e.formatOf {
		return
	}
	e.formatOf = name
	e.format, _ = lfs.ParseJobIDFormat(name)
	clear(e.ids)
}

// SetClientJobs tells which jobs run on the node of a client, by its NID. Work
// of that client which no job accounts for is then attributed among them.
func (e *Engine) SetClientJobs(jobs map[string][]string) {
	for nid, ids := range jobs {
		e.clientJobs[nid] = ids
	}
}

// Owner is what Slurm told of a job; the zero value where it told nothing.
func (e *Engine) Owner(jobID string) ioguard.Owner { return e.owners[jobID] }

// SetOwners tells the engine what Slurm knows of jobs, by job id.
func (e *Engine) SetOwners(owners map[string]ioguard.Owner) {
	for id, o := range owners {
		e.owners[id] = o
	}
}

// Feed takes one server's interval. It reports whether a round is complete:
// every server that is alive has reported since the last Step. A server that
// reports a second time before the others ends the round as well; then Step is
// to be called first and the interval fed after it.
func (e *Engine) Feed(iv *ioguard.Interval, now time.Time) (complete bool) {
	s := e.servers[iv.Server]
	if s == nil {
		s = &server{name: iv.Server, jobs: make(map[*job]*serverJob), wait: make(map[string]*series.Calm)}
		e.servers[iv.Server] = s
	}
	if e.cfg.JobIDName == "" && iv.JobIDName != "" {
		e.setFormat(iv.JobIDName)
	}
	s.fed, s.missed = true, 0
	s.seq++
	seconds := max(0, iv.Elapsed.Seconds())
	s.seconds[s.seq%keepFrames], s.host[s.seq%keepFrames] = seconds, iv.Host
	if seconds > 0 {
		s.means = meansOf(iv.Host)
		for i := range iv.Targets {
			e.feedTarget(s, &iv.Targets[i], seconds, now)
			if iv.Targets[i].Recovering {
				s.recovered = s.seq
			}
		}
		if !s.recovering() {
			e.observeHost(s, iv.Host)
			e.observeCalm(s)
		}
	}
	return e.complete()
}

// Reported reports whether a server has already been fed in this round.
func (e *Engine) Reported(server string) bool {
	s := e.servers[server]
	return s != nil && s.fed
}

func (e *Engine) complete() bool {
	for _, s := range e.servers {
		if !s.fed && s.missed < 3 {
			return false
		}
	}
	return true
}

func (e *Engine) feedTarget(s *server, d *ioguard.TargetDelta, seconds float64, now time.Time) {
	t := e.targets[d.Target]
	if t == nil {
		t = &target{name: d.Target, fs: ioguard.FSName(d.Target), kind: ioguard.KindOfTarget(d.Target), jobs: make(map[*job]*touched)}
		e.targets[d.Target] = t
	}
	if t.server != s { // new, or failed over
		t.server = s
		clear(t.jobs)
		t.totals = ring{}
	}
	t.lastSeq = s.seq
	if len(d.Pools) > 0 {
		t.pools = d.Pools
	}
	t.spin, t.space, t.device = d.Spin, d.Space, d.Busiest
	// what is told late is of a longer span than the interval: it is judged by its
	// rate, and recorded whole
	scale := 1.0
	own := seconds
	if d.Elapsed > 0 {
		own = d.Elapsed.Seconds()
	}
	if own > lateSpan*seconds {
		scale = seconds / own
	}
	for i := range d.Jobs {
		jd := &d.Jobs[i]
		if jd.Kind == ioguard.DeltaFirst {
			continue
		}
		w := workOf(t.kind, jd.Ops)
		if t.kind == ioguard.OST {
			w.estimate(&s.means)
		}
		j := e.job(t.fs, jd.JobID, now)
		e.minute.add(t, j, &w, own)
		w.scale(scale)
		f := frame{s.seq, seconds, w}
		t.touch(j, &f)
		sj := s.jobs[j]
		if sj == nil {
			sj = &serverJob{}
			s.jobs[j] = sj
		}
		sj.merge(f)
		j.lastRound = e.round
		j.roundData += w.bytes[1]
		j.roundSecs = max(j.roundSecs, seconds)
	}
	// without the jobs' side there is nothing to compare the totals with
	t.counted = d.Totals != nil && d.Kind != ioguard.DeltaGap
	if t.counted {
		w := workOf(t.kind, d.Totals)
		w.scale(scale)
		t.totals.push(frame{s.seq, seconds, w})
	}
	t.clients = byClient(t.kind, d.Exports)
}

// merge adds to the newest frame when it is of the same interval (a job has
// many targets on a server), else pushes a new one.
func (r *ring) merge(f frame) {
	last := &r.frames[(r.next+keepFrames-1)%keepFrames]
	if last.seconds > 0 && last.seq == f.seq {
		last.work.add(&f.work)
		return
	}
	r.push(f)
}

// job finds the job of a raw id. Several raw ids may be one job.
func (e *Engine) job(fs, raw string, now time.Time) *job {
	rk := rawKey{fs, raw}
	if j := e.ids[rk]; j != nil {
		return j
	}
	id := e.format.Parse(raw)
	k := jobKey{fs, id.Key()}
	j := e.jobs[k]
	if j == nil {
		j = &job{jobKey: k, id: id, first: now}
		e.jobs[k] = j
	}
	e.ids[rk] = j
	return j
}

func byClient(kind ioguard.TargetKind, exports []ioguard.ExportDelta) map[string]light {
	if len(exports) == 0 {
		return nil
	}
	m := make(map[string]light, len(exports))
	for i := range exports {
		w := workOf(kind, exports[i].Ops)
		m[exports[i].NID] = lightOf(&w)
	}
	return m
}

// Result is what a Step found.
type Result struct {
	Events      []policy.Event
	Problems    []error            // rules that could not be evaluated
	Windows     []ioguard.Window   // of the minute that ended, if one did
	Pressure    []ioguard.Pressure // likewise
	Unaccounted []Unaccounted
	Subjects    []policy.Subject // what was judged; valid until the next Step
}

// Unaccounted is work of a target that its job_stats do not show.
type Unaccounted struct {
	Target    string
	Kind      string  // of operation: "getattr", "metadata" (others), "data" (reads and writes)
	PerSecond float64 // operations
	Share     float64 // of all such operations of the target
	NID       string  // the client that did most of all of them, "" where unknown
	NIDShare  float64
	Jobs      []string // the jobs it was attributed to, most first; inferred
}

// Step ends a round: it judges every subject by what the servers last said.
func (e *Engine) Step(now time.Time) Result {
	for _, s := range e.servers {
		if !s.fed {
			s.missed++
		}
		s.fed = false
	}
	e.observeBursts()
	r := &round{engine: e, now: now, hidden: make(map[*job]float64)}
	r.build()
	var out Result
	out.Subjects = r.subjects()
	out.Events = e.tracker.Step(now, e.interval(), out.Subjects)
	out.Problems = e.tracker.Problems()
	out.Unaccounted = r.unaccounted
	out.Windows, out.Pressure = e.minute.flush(e, r, now)
	e.prune()
	e.round++
	return out
}

// Open are the findings that hold now.
func (e *Engine) Open() []ioguard.Finding { return e.tracker.Open() }

// Drain gives the windows and pressure of the minute that is under way, as at
// the end of a recording.
func (e *Engine) Drain() ([]ioguard.Window, []ioguard.Pressure) { return e.minute.drain() }

// interval is what the policy's "samples" mean.
func (e *Engine) interval() time.Duration {
	if e.cfg.Interval > 0 {
		return e.cfg.Interval
	}
	longest := 0.0
	for _, s := range e.servers {
		longest = max(longest, s.seconds[s.seq%keepFrames])
	}
	return time.Duration(math.Round(longest*1000)) * time.Millisecond
}

func (e *Engine) observeBursts() {
	for _, j := range e.jobs {
		seconds := j.roundSecs
		if seconds == 0 {
			seconds = e.interval().Seconds()
		}
		j.writes.Observe(j.roundData/seconds, seconds, burstFloor)
		j.roundData, j.roundSecs = 0, 0
	}
}

// burstFloor keeps a trickle of writes from being called bursts, in bytes per second.
const burstFloor = 1 << 20

// prune forgets what is gone: jobs that did nothing for an hour's worth of
// rounds, targets and servers that ceased to report.
func (e *Engine) prune() {
	for name, s := range e.servers {
		if s.missed > forget {
			delete(e.servers, name)
			continue
		}
		if e.round%64 == 0 {
			for j, sj := range s.jobs {
				if s.seq-sj.lastSeq() > 512 {
					delete(s.jobs, j)
				}
			}
		}
	}
	for name, t := range e.targets {
		if t.server.seq-t.lastSeq > forget || t.server.missed > forget {
			delete(e.targets, name)
			continue
		}
		if e.round%16 == 0 {
			for j, w := range t.jobs {
				if t.server.seq-w.seq > keepFrames {
					delete(t.jobs, j)
				}
			}
		}
	}
	if e.round%64 == 0 {
		for k, j := range e.jobs {
			if e.round-j.lastRound > 512 {
				delete(e.jobs, k)
				delete(e.owners, k.key)
			}
		}
		clear(e.ids) // only a short cut
	}
	if e.round%64 == 63 {
		clear(e.clientJobs) // jobs move on; they are asked for again while it matters
	}
}

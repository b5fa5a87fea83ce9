package engine

import (
	"sort"
	"time"

	"ioguard/policy"
	"ioguard/series"
)

// round is one Step's view of the present: every server's pressure, victims and
// totals, and every busy job's sums over the servers it uses.
type round struct {
	engine      *Engine
	now         time.Time
	servers     map[*server]*serverNow
	jobs        map[*job]*jobNow
	hidden      map[*job]float64 // getattr per second that job_stats do not show, inferred
	unaccounted []Unaccounted
	moved       map[*target]float64 // bytes, of the OSTs that were asked for
	meanBusy    map[string]float64  // mean time in service of a job, by file system
}

// serverNow is a server over the last span intervals.
type serverNow struct {
	name    string
	seconds float64
	total   work    // all jobs
	hidden  float64 // getattr beyond those of the jobs
	now     pressure
	victims []victim
}

// jobNow is a job over the last span intervals.
type jobNow struct {
	job     *job
	seconds float64 // longest span of its servers
	work    work    // everywhere
	around  work    // of all jobs on the servers it uses
	hidden  float64 // unaccounted getattr on the servers it uses
	servers []part
	one     [1]part // where servers mostly lies
}

// part is a job's part in a server.
type part struct {
	server *server
	time   float64 // its share of the time in service there
}

func (r *round) build() {
	e := r.engine
	r.servers = make(map[*server]*serverNow, len(e.servers))
	r.jobs = make(map[*job]*jobNow)
	r.meanBusy = make(map[string]float64)
	r.moved = make(map[*target]float64)
	for _, s := range e.servers {
		n := &serverNow{name: s.name, seconds: s.spanSeconds(), now: s.pressure(), victims: s.victims()}
		r.servers[s] = n
		s.score = n.now.score
		for j, sj := range s.jobs {
			if s.seq-sj.lastSeq() >= span {
				continue
			}
			w := sj.sum(s.seq, span)
			n.total.add(&w)
			jn := r.jobs[j]
			if jn == nil {
				jn = &jobNow{job: j}
				jn.servers = jn.one[:0]
				r.jobs[j] = jn
			}
			jn.work.add(&w)
			jn.seconds = max(jn.seconds, n.seconds)
			jn.servers = append(jn.servers, part{s, w.busyUsec()})
		}
	}
	for _, t := range e.targets {
		if t.counted && t.server.seq-t.lastSeq < span {
			r.findHidden(t)
		}
	}
	busy := map[string]int{}
	for _, jn := range r.jobs {
		for i := range jn.servers {
			p := &jn.servers[i]
			n := r.servers[p.server]
			jn.around.add(&n.total)
			jn.hidden += n.hidden
			p.time = series.Share(p.time, n.total.busyUsec())
		}
		r.meanBusy[jn.job.fs] += jn.work.busyUsec()
		busy[jn.job.fs]++
	}
	for fs, n := range busy {
		r.meanBusy[fs] /= float64(n)
	}
}

func (s *server) spanSeconds() float64 {
	var sum float64
	for back := range span {
		if s.seq-back > 0 {
			sum += s.seconds[(s.seq-back)%keepFrames]
		}
	}
	return sum
}

// subjects lists what the policy is to judge. Jobs with no share worth naming
// of any server are left out: no rule blames them, and there may be thousands.
func (r *round) subjects() []policy.Subject {
	e := r.engine
	e.subjects = e.subjects[:0]
	used := 0
	next := func() policy.Facts {
		if used == len(e.facts) {
			e.facts = append(e.facts, policy.NewFacts())
		}
		f := e.facts[used]
		f.Reset()
		used++
		return f
	}
	for _, jn := range r.jobs {
		if r.worthJudging(jn) {
			e.subjects = append(e.subjects, r.jobSubject(jn, next()))
		}
	}
	e.subjects = append(e.subjects, r.storageSubjects(next)...)
	for s, n := range r.servers {
		f := next()
		setPressure(f, &n.now)
		f.SetText(vServerName, s.name)
		f.Set(vServerJobs, float64(len(n.victims)))
		f.Set(vServerTargets, float64(e.targetsOf(s)))
		e.subjects = append(e.subjects, policy.Subject{Kind: policy.ServerSubject, Target: s.name, Server: s.name, Facts: f})
	}
	sort.Slice(e.subjects, func(a, b int) bool { // one order whatever the maps' order
		x, y := &e.subjects[a], &e.subjects[b]
		if x.Kind != y.Kind {
			return x.Kind < y.Kind
		}
		if x.FS != y.FS {
			return x.FS < y.FS
		}
		return x.JobID+x.Target < y.JobID+y.Target
	})
	return e.subjects
}

func (e *Engine) targetsOf(s *server) (n int) {
	for _, t := range e.targets {
		if t.server == s {
			n++
		}
	}
	return n
}

// judgeShare is the share of a server's time or operations from which on a job is judged.
const judgeShare = 0.05

func (r *round) worthJudging(jn *jobNow) bool {
	if jn.work.ops() >= judgeShare*jn.around.ops() || r.hidden[jn.job] > 0 {
		return true
	}
	for _, p := range jn.servers {
		if p.time >= judgeShare {
			return true
		}
	}
	return false
}

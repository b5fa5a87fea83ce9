package engine

import (
	"math"
	"sort"
	"strconv"
	"time"

	"ioguard"
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

// Hidden getattr are believed when they are a good part of the target's and
// more than the skew of two files read one after the other can make.
const (
	hiddenShare     = 0.3
	hiddenPerSecond = 5
)

// counts are the kinds of operation of which a target's own number is compared
// with the sum over its jobs. What else it counts is its servers' business.
var counts = []struct {
	name string
	on   ioguard.TargetKind
	of   func(*light) float64
}{
	{"getattr", ioguard.MDT, func(l *light) float64 { return l.getattrs }},
	{"metadata", ioguard.MDT, func(l *light) float64 { return l.meta }},
	{"data", ioguard.OST, func(l *light) float64 { return l.data }},
}

// findHidden compares a target's own counters with the sums over its jobs. Two
// things hide work: clients from 2.16 on batch the getattr of a directory scan
// (statahead), and job_stats count a batch of them as few or none; and a client
// without jobid_var does everything in no job's name.
func (r *round) findHidden(t *target) {
	s := t.server
	total, accounted := light{}, light{}
	w := t.totals.sum(s.seq, harmSpan)
	total = lightOf(&w)
	for _, touched := range t.jobs {
		l := touched.sum(s.seq, harmSpan)
		accounted.add(&l)
	}
	var seconds float64
	for back := range harmSpan {
		if s.seq-back > 0 {
			seconds += s.seconds[(s.seq-back)%keepFrames]
		}
	}
	for _, c := range counts {
		all := c.of(&total)
		hidden := all - c.of(&accounted)
		if c.on != t.kind || seconds == 0 || hidden < hiddenShare*all || hidden < hiddenPerSecond*seconds {
			continue
		}
		u := Unaccounted{Target: t.name, Kind: c.name, PerSecond: hidden / seconds, Share: hidden / all}
		u.NID, u.NIDShare = t.busiestClient(c.of)
		if c.name == "getattr" {
			r.attribute(t, &u)
			r.servers[s].hidden += hidden * r.servers[s].seconds / seconds
		} else if u.NIDShare >= nidShare {
			u.Jobs = r.engine.clientJobs[u.NID]
		}
		r.unaccounted = append(r.unaccounted, u)
	}
}

// busiestClient is the client that did most, and its share; "" where no client
// was asked for.
func (t *target) busiestClient(of func(*light) float64) (nid string, share float64) {
	var all, most float64
	for name, l := range t.clients {
		n := of(&l)
		all += n
		if n > most || n == most && name < nid {
			nid, most = name, n
		}
	}
	return nid, series.Share(most, all)
}

// nidShare is the share of a target's getattr from which on one client's node
// decides whose they are.
const nidShare = 0.8

// attribute divides hidden getattr among the jobs whose visible ones show that
// they scan, in proportion; that is an inference, and marked as one. Where one client does nearly all of them and Slurm tells which
// jobs run there, only those are asked; when none of them shows on the target,
// they share evenly.
func (r *round) attribute(t *target, u *Unaccounted) {
	seen := make(map[*job]float64)
	for j, w := range t.jobs {
		if n := w.sum(t.server.seq, harmSpan).getattrs; n > 0 {
			seen[j] = n
		}
	}
	if ids := r.engine.clientJobs[u.NID]; len(ids) > 0 && u.NIDShare >= nidShare {
		here := make(map[*job]float64, len(ids))
		for _, id := range ids {
			if j := r.engine.jobs[jobKey{t.fs, id}]; j != nil {
				here[j] = seen[j]
			}
		}
		if len(here) > 0 {
			seen = here
		}
	}
	var all float64
	for _, n := range seen {
		all += n
	}
	type portion struct {
		j *job
		n float64
	}
	var parts []portion
	for j, n := range seen {
		if all == 0 {
			n = 1 / float64(len(seen))
		} else {
			n /= all
		}
		parts = append(parts, portion{j, n})
	}
	sort.Slice(parts, func(a, b int) bool {
		return parts[a].n > parts[b].n || parts[a].n == parts[b].n && parts[a].j.key < parts[b].j.key
	})
	for _, p := range parts {
		r.hidden[p.j] += u.PerSecond * p.n
		if p.n >= 0.05 {
			u.Jobs = append(u.Jobs, p.j.key)
		}
	}
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

// blameShare is the share of a server's time in service from which on its
// pressure, and its other jobs' harm, are looked at for a job.
const blameShare = 0.2

func (r *round) jobSubject(jn *jobNow, f policy.Facts) policy.Subject {
	j, w, sec := jn.job, &jn.work, jn.seconds
	rate := func(n float64) float64 { return series.Rate(n, sec) }
	o := r.engine.owners[j.key]
	f.SetText(vJobID, j.key)
	f.SetText(vJobUser, userOf(j, &o))
	f.SetText(vJobAccount, o.Account)
	f.SetText(vJobPartition, o.Partition)
	f.SetText(vJobProcess, j.id.Process)
	began := j.first
	if !o.Start.IsZero() {
		began = o.Start
	}
	f.Set(vJobAge, r.now.Sub(began).Seconds())
	f.Set(vReadBytes, rate(w.bytes[0]))
	f.Set(vWriteBytes, rate(w.bytes[1]))
	f.Set(vReadOps, rate(w.n[classRead]))
	f.Set(vWriteOps, rate(w.n[classWrite]))
	f.Set(vMeanRead, ratio(w.bytes[0], w.n[classRead]))
	f.Set(vMeanWrite, ratio(w.bytes[1], w.n[classWrite]))
	f.Set(vSmallIO, ratio(w.small, w.data()))
	hidden := r.hidden[j]
	f.Set(vMetaOps, rate(w.meta())+hidden)
	f.Set(vCreate, rate(w.n[classCreate]))
	f.Set(vOpen, rate(w.n[classOpen]))
	f.Set(vUnlink, rate(w.n[classUnlink]))
	f.Set(vGetattr, rate(w.n[classGetattr])+hidden)
	f.Set(vHidden, hidden)
	f.Set(vSync, rate(w.n[classSync]))
	f.Set(vBytesPerCreate, ratio(w.bytes[1], w.n[classCreate]))
	f.Set(vInFlight, inFlight(w.busyUsec(), w.ops(), sec))
	f.Set(vDataInFlight, inFlight(w.dataUsec(), w.data(), sec))
	f.Set(vMetaInFlight, inFlight(w.metaUsec(), w.meta(), sec))
	r.setTargets(jn, f)
	f.Set(vDuty, j.writes.DutyCycle())
	f.Set(vPeriod, j.writes.Period())
	f.Set(vBursts, float64(j.writes.Count()))
	f.Set(vBurstRatio, j.writes.Ratio(rate(w.bytes[1])))
	f.Set(vRisk, ratio(w.busyUsec(), r.meanBusy[j.fs]))

	a := &jn.around
	f.Set(vShareRead, series.Share(w.bytes[0], a.bytes[0]))
	f.Set(vShareWrite, series.Share(w.bytes[1], a.bytes[1]))
	f.Set(vShareData, series.Share(w.data(), a.data()))
	f.Set(vShareMeta, series.Share(w.meta()+hidden*sec, a.meta()+jn.hidden))
	if u := a.metaUsec(); u > 0 {
		f.Set(vShareMetaTime, w.metaUsec()/u)
	}
	f.Set(vShareCreate, series.Share(w.n[classCreate]+w.n[classUnlink], a.n[classCreate]+a.n[classUnlink]))
	f.Set(vShareGetattr, series.Share(w.n[classGetattr]+hidden*sec, a.n[classGetattr]+jn.hidden))
	f.Set(vShareTime, series.Share(w.busyUsec(), a.busyUsec()))

	nan := math.NaN()
	h := harm{ratio: nan, mean: nan}
	var worst *serverNow
	server := ""
	waitRatio := nan
	for _, p := range jn.servers {
		s, n := p.server, r.servers[p.server]
		if s.recovering() {
			continue
		}
		if p.time < blameShare && series.Share(w.meta()+hidden*sec, a.meta()+jn.hidden) < 0.5 {
			continue
		}
		h.add(j, n.victims)
		if len(n.victims) == 0 {
			h.ratio = larger(h.ratio, s.servedHarm(w, &n.total))
		}
		waitRatio = larger(waitRatio, n.now.waitRatio)
		if worst == nil || n.now.score > worst.now.score {
			worst, server = n, s.name
		}
	}
	if worst != nil {
		setPressure(f, &worst.now)
	}
	f.Set(vHarmRatio, h.ratio)
	f.Set(vHarmMean, h.mean)
	if h.ops > 0 { // else no job's own latency is known
		f.Set(vHarmVictims, float64(h.victims))
	}
	f.Set(vHarmWait, waitRatio)
	return policy.Subject{Kind: policy.JobSubject, FS: j.fs, JobID: j.key, Server: server, Inferred: hidden > rate(w.n[classGetattr]), Facts: f}
}

// inFlight is the mean number of RPCs in service (Little's law); unknown where
// there were operations of which neither the job nor the server tells the time.
func inFlight(usec, ops, seconds float64) float64 {
	if usec == 0 && ops > 0 {
		return math.NaN()
	}
	return series.Rate(usec/1e6, seconds)
}

// ratio is a/b, unknown where b is nothing.
func ratio(a, b float64) float64 {
	if b <= 0 {
		return math.NaN()
	}
	return a / b
}

func userOf(j *job, o *ioguard.Owner) string {
	switch {
	case o.User != "":
		return o.User
	case j.id.UID == 0:
		return "root"
	case j.id.UID > 0:
		return strconv.Itoa(j.id.UID)
	}
	return ""
}

// setTargets sets what the targets tell: how many, how concentrated, on what
// devices, and how idle the rest of the busiest OST's pool is.
func (r *round) setTargets(jn *jobNow, f policy.Facts) {
	var bytes, top, spinning, known, rpcs float64
	var busiest *target
	osts, mdts := 0, 0
	for _, t := range r.engine.targets {
		touched := t.jobs[jn.job]
		if touched == nil || t.server.seq-touched.seq >= span {
			continue
		}
		if t.kind == ioguard.MDT {
			mdts++
			continue
		}
		w := touched.sum(t.server.seq, span)
		if w.data == 0 {
			continue
		}
		osts++
		bytes += w.bytes
		rpcs += w.data
		if w.bytes > top || busiest == nil || w.bytes == top && t.name < busiest.name {
			busiest, top = t, w.bytes
		}
		if t.spin != nil {
			known += w.data
			if *t.spin {
				spinning += w.data
			}
		}
	}
	f.Set(vMDTs, float64(mdts))
	f.Set(vOSTs, float64(osts))
	f.Set(vTopOST, ratio(top, bytes))
	if busiest != nil {
		f.SetText(vTopOSTName, busiest.name)
	}
	if known == rpcs {
		f.Set(vSpinning, ratio(spinning, known))
	}
	if busiest == nil {
		return
	}
	all := r.ostWork(busiest)
	f.Set(vShareOST, series.Share(top, all))
	peers, load := 0, 0.0
	for _, t := range r.engine.targets {
		if t != busiest && t.fs == busiest.fs && t.kind == ioguard.OST && samePool(t, busiest) {
			peers++
			load = max(load, r.ostWork(t))
		}
	}
	f.Set(vPeerOSTs, float64(peers))
	if peers > 0 {
		f.Set(vPeerLoad, ratio(load, all))
	}
}

// ostWork is the bytes that all jobs moved on an OST.
func (r *round) ostWork(t *target) (bytes float64) {
	if b, ok := r.moved[t]; ok {
		return b
	}
	if t.counted {
		w := t.totals.sum(t.server.seq, span)
		bytes = w.bytes[0] + w.bytes[1]
	} else {
		for _, w := range t.jobs {
			bytes += w.sum(t.server.seq, span).bytes
		}
	}
	r.moved[t] = bytes
	return bytes
}

// samePool reports whether two OSTs share a pool, or are both in none that is known.
func samePool(a, b *target) bool {
	if len(a.pools) == 0 && len(b.pools) == 0 {
		return true
	}
	for _, p := range a.pools {
		for _, q := range b.pools {
			if p == q {
				return true
			}
		}
	}
	return false
}

// storageSubjects are the OSTs and pools whose space is known.
func (r *round) storageSubjects(next func() policy.Facts) []policy.Subject {
	type poolKey struct{ fs, name string }
	type poolSum struct {
		space ioguard.Capacity
		osts  int
		max   float64
		bytes float64
	}
	pools := map[poolKey]*poolSum{}
	for _, t := range r.engine.targets {
		if t.kind != ioguard.OST {
			continue
		}
		w := r.ostWork(t)
		for _, name := range t.pools {
			k := poolKey{t.fs, name}
			p := pools[k]
			if p == nil {
				p = &poolSum{}
				pools[k] = p
			}
			p.osts++
			p.bytes += w
			if t.space != nil {
				p.space.TotalBytes += t.space.TotalBytes
				p.space.FreeBytes += t.space.FreeBytes
				p.space.AvailableBytes += t.space.AvailableBytes
				p.max = max(p.max, t.space.UsedFraction())
			}
		}
	}
	var out []policy.Subject
	for _, t := range r.engine.targets {
		if t.kind != ioguard.OST || t.space == nil {
			continue
		}
		f := next()
		f.SetText(vOSTName, t.name)
		if i, ok := ioguard.TargetIndex(t.name); ok {
			f.Set(vOSTIndex, float64(i))
		}
		f.Set(vOSTUsed, t.space.UsedFraction())
		if t.space.TotalInodes > 0 {
			f.Set(vOSTInodes, 1-float64(t.space.FreeInodes)/float64(t.space.TotalInodes))
		}
		if len(t.pools) > 0 {
			p := pools[poolKey{t.fs, t.pools[0]}]
			f.SetText(vOSTPool, t.pools[0])
			f.SetText(vPoolName, t.pools[0])
			f.Set(vPoolOSTs, float64(p.osts))
			w := r.ostWork(t)
			f.Set(vOSTLoad, ratio(w, p.bytes))
		}
		setPressure(f, &r.servers[t.server].now)
		out = append(out, policy.Subject{Kind: policy.OSTSubject, FS: t.fs, Target: t.name, Server: t.server.name, Facts: f})
	}
	for k, p := range pools {
		if p.space.TotalBytes == 0 {
			continue
		}
		f := next()
		f.SetText(vPoolName, k.name)
		f.Set(vPoolOSTs, float64(p.osts))
		f.Set(vPoolUsed, p.space.UsedFraction())
		f.Set(vPoolMaxUsed, p.max)
		out = append(out, policy.Subject{Kind: policy.PoolSubject, FS: k.fs, Target: k.fs + "." + k.name, Facts: f})
	}
	return out
}

func setPressure(f policy.Facts, p *pressure) {
	f.Set(vPressure, p.score)
	f.Set(vCPU, p.cpu)
	f.Set(vCPURatio, p.cpuRatio)
	f.Set(vSystem, p.system)
	f.Set(vIOWait, p.iowait)
	f.Set(vPSI, p.psi)
	f.Set(vUtil, p.util)
	f.Set(vQueue, p.queue)
	f.Set(vWaitRatio, p.waitRatio)
	f.Set(vWaitUsec, p.waitUsec)
	f.Set(vNRSQueued, p.nrsQueued)
	f.SetBool(vRising, p.rising)
}

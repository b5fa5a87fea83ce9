package engine

import (
	"math"
	"strconv"

	"ioguard"
	"ioguard/policy"
	"ioguard/series"
)

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
	r.setOwnDevices(j, f)
	f.Set(vHarmRatio, h.ratio)
	f.Set(vHarmMean, h.mean)
	if h.worst != nil && h.ratio >= 2 {
		f.SetText(vHarmWorst, h.worst.key)
	}
	if h.ops > 0 { // else no job's own latency is known
		f.Set(vHarmVictims, float64(h.victims))
	}
	f.Set(vHarmWait, waitRatio)
	return policy.Subject{Kind: policy.JobSubject, FS: j.fs, JobID: j.key, Server: server, Inferred: hidden > rate(w.n[classGetattr]), Facts: f}
}

// setOwnDevices narrows the devices' pressure down to those under the job's own
// OSTs, where the system tells which these are: a busy disk under another OST is
// not its doing. Where one of them is unknown the server's busiest stands.
func (r *round) setOwnDevices(j *job, f policy.Facts) {
	util, queue := math.NaN(), math.NaN()
	for _, t := range r.engine.targets {
		touched := t.jobs[j]
		if t.kind != ioguard.OST || touched == nil || t.server.seq-touched.seq >= span {
			continue
		}
		if t.device == nil {
			return
		}
		util, queue = larger(util, t.device.Util), larger(queue, t.device.QueueSize)
	}
	if !math.IsNaN(util) {
		f.Set(vUtil, util)
		f.Set(vQueue, queue)
	}
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

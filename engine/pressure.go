package engine

import (
	"math"

	"ioguard"
	"ioguard/series"
)

// observeHost keeps what is normal for a server: how busy its CPUs are and how
// long requests wait in each service.
func (e *Engine) observeHost(s *server, h *ioguard.HostDelta) {
	if h == nil {
		return
	}
	s.busy.Observe(h.Busy())
	for i := range h.Services {
		d := &h.Services[i]
		if d.Requests < 1 {
			continue
		}
		c := s.wait[d.Service]
		if c == nil {
			c = &series.Calm{}
			s.wait[d.Service] = c
		}
		c.Observe(d.WaitUsec / d.Requests)
	}
	reads, writes := served(h)
	s.serve[serveRead].Observe(reads.mean())
	s.serve[serveWrite].Observe(writes.mean())
}

// The kinds of operation whose time in service a whole server tells.
const (
	serveRead = iota
	serveWrite
	serveKinds
)

// served sums the reads and writes of all services.
func served(h *ioguard.HostDelta) (reads, writes latency) {
	for i := range h.Services {
		d := &h.Services[i]
		reads.n, reads.usec = reads.n+d.Reads, reads.usec+d.ReadUsec
		writes.n, writes.usec = writes.n+d.Writes, writes.usec+d.WriteUsec
	}
	return reads, writes
}

// mean is the latency, unknown where there were too few operations.
func (l latency) mean() float64 {
	if l.n < victimOps {
		return math.NaN()
	}
	return l.usec / l.n
}

// meansOf are the mean times in service of a server's operations in an interval.
func meansOf(h *ioguard.HostDelta) (means [classes]float64) {
	if h == nil {
		return means
	}
	reads, writes := served(h)
	var syncs latency
	for i := range h.Services {
		syncs.n, syncs.usec = syncs.n+h.Services[i].Syncs, syncs.usec+h.Services[i].SyncUsec
	}
	for c, l := range map[class]latency{classRead: reads, classWrite: writes, classSync: syncs} {
		if l.n > 0 {
			means[c] = l.usec / l.n
		}
	}
	return means
}

// pressure is how near a server is to its limits, over the last span intervals.
type pressure struct {
	score, cpu, cpuRatio, system, iowait, psi float64
	util, queue                               float64
	waitRatio, waitUsec, nrsQueued            float64
	rising                                    bool
}

// minRequests is how many requests a service must take up before its mean wait
// says something.
const minRequests = 10

func (s *server) pressure() pressure {
	nan := math.NaN()
	p := pressure{nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, false}
	var n float64
	util, queue := map[string]float64{}, map[string]float64{}
	services := map[string]ioguard.ServiceDelta{}
	for back := range span {
		i := (s.seq - back + keepFrames) % keepFrames
		h := s.host[i]
		if h == nil || s.seq-back <= 0 || s.seconds[i] <= 0 {
			continue
		}
		w := s.seconds[i]
		n += w
		p.cpu = plus(p.cpu, w*h.Busy())
		p.system = plus(p.system, w*(h.System+h.IRQ))
		p.iowait = plus(p.iowait, w*h.IOWait)
		p.psi = plus(p.psi, w*h.PSISome)
		for _, d := range h.Devices {
			util[d.Device] += w * d.Util
			queue[d.Device] += w * d.QueueSize
		}
		for _, d := range h.Services {
			sum := services[d.Service]
			sum.Requests += d.Requests
			sum.WaitUsec += d.WaitUsec
			sum.NRSQueued = max(sum.NRSQueued, d.NRSQueued)
			services[d.Service] = sum
		}
	}
	if n == 0 {
		return p
	}
	p.cpu, p.system, p.iowait, p.psi = p.cpu/n, p.system/n, p.iowait/n, p.psi/n
	p.cpuRatio = s.busy.Ratio(p.cpu)
	for d := range util {
		p.util = larger(p.util, util[d]/n)
		p.queue = larger(p.queue, queue[d]/n)
	}
	for name, d := range services {
		p.nrsQueued = larger(p.nrsQueued, d.NRSQueued)
		if d.Requests < minRequests {
			continue
		}
		p.waitUsec = larger(p.waitUsec, d.WaitUsec/d.Requests)
		if c := s.wait[name]; c != nil {
			p.waitRatio = larger(p.waitRatio, c.Ratio(d.WaitUsec/d.Requests))
		}
	}
	p.score = larger(larger(p.cpu, p.util), p.waitRatio/waitLimit)
	p.rising = p.score > s.score*1.1
	return p
}

// waitLimit is the wait, relative to calm, at which a service counts as at its limit.
const waitLimit = 20

// plus adds, unknown and known making known.
func plus(a, b float64) float64 {
	if math.IsNaN(a) {
		return b
	}
	if math.IsNaN(b) {
		return a
	}
	return a + b
}

// larger is the larger of two of which either may be unknown.
func larger(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

package engine

import "math"

// The operations of which a job's latency is watched. Reads and writes are kept
// apart by size: a job that turns from small to large writes is not slower.
const (
	latReadSmall = iota
	latReadLarge
	latWriteSmall
	latWriteLarge
	latOpen
	latGetattr
	latUnlink
	latSetattr
	latencies
)

// latency is how many operations of a kind there were and how long they took.
type latency struct{ n, usec float64 }

// latencyOf splits work into the kinds whose latency is watched.
func latencyOf(w *work) (l [latencies]latency) {
	sized := func(c class, bytes float64, small, large int) {
		if w.n[c] == 0 {
			return
		}
		k := large
		if bytes/w.n[c] <= smallIO {
			k = small
		}
		l[k] = latency{w.timed[c], w.usec[c]}
	}
	sized(classRead, w.bytes[0], latReadSmall, latReadLarge)
	sized(classWrite, w.bytes[1], latWriteSmall, latWriteLarge)
	l[latOpen] = latency{w.timed[classOpen], w.usec[classOpen]}
	l[latGetattr] = latency{w.timed[classGetattr], w.usec[classGetattr]}
	l[latUnlink] = latency{w.timed[classUnlink], w.usec[classUnlink]}
	l[latSetattr] = latency{w.timed[classSetattr], w.usec[classSetattr]}
	return l
}

// observeCalm takes the latencies of the newest interval into every job's baseline.
func (e *Engine) observeCalm(s *server) {
	for _, sj := range s.jobs {
		if sj.lastSeq() != s.seq {
			continue
		}
		w := sj.sum(s.seq, 1)
		l := latencyOf(&w)
		for k := range l {
			if l[k].n >= 2 {
				sj.calm[k].Observe(l[k].usec / l[k].n)
			}
		}
	}
}

// victimOps is how many operations a latency must rest on.
const victimOps = 4

// victim is a job on a server and how slow it is there against its own calm.
type victim struct {
	job   *job
	ratio float64 // worst of its kinds that is more than its own noise; 1 where none is
	ops   float64 // operations that all its ratios rest on
	sum   float64 // ratio times operations, over all kinds
}

// victims judges every job of a server that did enough to be judged.
func (s *server) victims() []victim {
	var out []victim
	for j, sj := range s.jobs {
		if s.seq-sj.lastSeq() >= harmSpan {
			continue
		}
		w := sj.sum(s.seq, harmSpan)
		l := latencyOf(&w)
		v := victim{job: j, ratio: 1}
		for k := range l {
			if l[k].n < victimOps {
				continue
			}
			r := sj.calm[k].Ratio(l[k].usec / l[k].n)
			if math.IsNaN(r) {
				continue
			}
			v.ops += l[k].n
			v.sum += r * l[k].n
			if r > sj.calm[k].Steady() {
				v.ratio = max(v.ratio, r)
			}
		}
		if v.ops > 0 {
			out = append(out, v)
		}
	}
	return out
}

// harm is what a job's neighbours suffer; unknown where none can be judged.
type harm struct {
	ratio, mean float64
	victims     int
	ops, sum    float64
	worst       *job
}

// add takes in the victims of a server that is shared with j.
func (h *harm) add(j *job, victims []victim) {
	for i := range victims {
		v := &victims[i]
		if v.job == j {
			continue
		}
		if !(v.ratio <= h.ratio) {
			h.ratio, h.worst = v.ratio, v.job
		}
		if v.ratio >= 2 {
			h.victims++
		}
		h.ops += v.ops
		h.sum += v.sum
		h.mean = h.sum / h.ops
	}
}

// servedHarm stands in where no job's latency is known (releases before 2.14):
// the server's own reads or writes against their calm. Only the kind of which
// the job does less than half counts: of the other it would suffer itself.
func (s *server) servedHarm(w, all *work) float64 {
	worst := math.NaN()
	for kind, c := range [serveKinds]class{serveRead: classRead, serveWrite: classWrite} {
		if all.n[c] == 0 || w.n[c] > all.n[c]/2 {
			continue
		}
		var sum latency
		for back := range harmSpan {
			i := (s.seq - back + keepFrames) % keepFrames
			if h := s.host[i]; h != nil && s.seq-back > 0 {
				reads, writes := served(h)
				l := [serveKinds]latency{serveRead: reads, serveWrite: writes}[kind]
				sum.n, sum.usec = sum.n+l.n, sum.usec+l.usec
			}
		}
		if r := s.serve[kind].Ratio(sum.mean()); r > s.serve[kind].Steady() {
			worst = larger(worst, r)
		}
	}
	return worst
}

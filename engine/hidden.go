package engine

import (
	"sort"

	"ioguard"
	"ioguard/series"
)

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

package gate

import (
	"fmt"
	"slices"
	"strings"

	"ioguard/ib"
)

var ibCodes = []string{"ib-gone", "ib-port", "ib-rate", "ib-flap", "ib-errors"}

// ib judges adapters and ports.
func (j *judge) ib() {
	a := &j.seen.IB
	if unread(j, a, len(a.Value) > 0, ibCodes...) {
		return
	}
	j.gone()
	j.wantedPorts()
	if len(a.Value) == 0 {
		j.without(Skipped, "no InfiniBand, Omni-Path or RoCE adapter", ibCodes...)
		return
	}
	var up, idle []string
	for i := range a.Value {
		if d := &a.Value[i]; d.Err != nil && len(d.Ports) == 0 {
			j.without(Unknown, d.Name+": "+d.Err.Error(), "ib-port")
		}
		for k := range a.Value[i].Ports {
			p := &a.Value[i].Ports[k]
			switch {
			case p.Up():
				up = append(up, portText(p))
				j.rate(p)
			case j.portCounts(p):
				j.portDown(p)
			default:
				idle = append(idle, fmt.Sprintf("%s %s (not in use)", p, portState(p)))
			}
		}
	}
	j.rises()
	j.ok("ib-gone", "%s", plural(len(a.Value), "adapter", "adapters"))
	j.ok("ib-port", "%s", list(append(up, idle...), 6))
	j.ok("ib-rate", "%s", list(rates(a.Value), 6))
	if !j.ran() {
		j.without(Skipped, "nothing to compare with: this is the first run since boot", "ib-flap", "ib-errors")
		return
	}
	j.ok("ib-flap", "no link lost since %s", clock(j.last.Time, j.seen.Now))
	j.ok("ib-errors", "none since %s", clock(j.last.Time, j.seen.Now))
}

// portText is a port and the network devices on it, as ibdev2netdev maps them.
func portText(p *ib.Port) string {
	text := p.String() + " " + portState(p)
	if p.RateGbps != nil && p.Up() {
		text += fmt.Sprintf(" %g Gb/s", *p.RateGbps)
	}
	for i, n := range p.NetDevs {
		if i == 0 {
			text += " => " + n.Name
		} else {
			text += "," + n.Name
		}
	}
	return text
}

func rates(devices []ib.Device) []string {
	var all []string
	for i := range devices {
		for k := range devices[i].Ports {
			if p := &devices[i].Ports[k]; p.Up() && p.RateGbps != nil {
				all = append(all, fmt.Sprintf("%s %g Gb/s (%s)", p, *p.RateGbps, strings.TrimSpace(p.Width+" "+p.Speed)))
			}
		}
	}
	return all
}

// stateWords are the kernel's words as ibstat prints them.
var stateWords = map[string]string{"ACTIVE": "Active", "DOWN": "Down", "INIT": "Initialize", "ARMED": "Armed", "ACTIVE_DEFER": "ActiveDefer"}

func portState(p *ib.Port) string { return stateText(p.State, p.PhysState) }

func stateText(state, phys string) string {
	if w, ok := stateWords[state]; ok {
		state = w
	}
	if state == "" {
		state = "unknown"
	}
	if phys == "" {
		return state
	}
	return state + "/" + phys
}

func (j *judge) gone() {
	if !j.ran() {
		return
	}
	for _, name := range ib.Gone(j.last.IB, j.seen.IB.Value) {
		j.found(Finding{Check: "ib-gone", Subject: name, Seen: "gone", Expected: "there, as at the last run", Shared: []string{"fabric"}, brief: "ib " + name + " gone"})
	}
}

// wantedPorts looks for ports that the configuration names and nobody has.
func (j *judge) wantedPorts() {
	for _, want := range j.site.Ports {
		has := slices.ContainsFunc(j.seen.IB.Value, func(d ib.Device) bool {
			return d.Name == want || slices.ContainsFunc(d.Ports, func(p ib.Port) bool { return p.String() == want })
		})
		if !has && !slices.ContainsFunc(j.out["ib-gone"].Findings, func(f Finding) bool { return f.Subject == want }) {
			j.found(Finding{Check: "ib-port", Subject: want, Seen: "not there", Expected: "Active/LinkUp: it is in gate.ports", Shared: []string{"fabric"}, brief: "ib " + want + " not there"})
		}
	}
}

// portCounts tells whether a port that is not up should be. A configured list says
// it alone. Else it counts when it sees a signal, was up before, carries an
// interface of LNet, or when the node has no port that is up. One that an
// administrator switched off does not.
func (j *judge) portCounts(p *ib.Port) bool {
	if len(j.site.Ports) > 0 {
		return slices.Contains(j.site.Ports, p.String()) || slices.Contains(j.site.Ports, p.Device)
	}
	if p.State == "" || p.SwitchedOff() {
		return false
	}
	m, known := j.last.IB.Port(p.Device, p.Number)
	return p.Cabled() || known && !m.LastUp.IsZero() || j.carriesLNet(p) || !j.anyPortUp()
}

func (j *judge) carriesLNet(p *ib.Port) bool {
	for _, ni := range j.seen.LNet.Value.NIs {
		for _, dev := range p.NetDevs {
			if slices.Contains(ni.Interfaces, dev.Name) {
				return true
			}
		}
	}
	return false
}

func (j *judge) anyPortUp() bool {
	for i := range j.seen.IB.Value {
		if slices.ContainsFunc(j.seen.IB.Value[i].Ports, func(p ib.Port) bool { return p.Up() }) {
			return true
		}
	}
	return false
}

func (j *judge) portDown(p *ib.Port) {
	f := Finding{Check: "ib-port", Subject: p.String(), Seen: portState(p), Expected: "Active/LinkUp", Shared: []string{"fabric"}}
	m, known := j.last.IB.Port(p.Device, p.Number)
	if known {
		switch {
		case m.State == p.State && m.PhysState == p.PhysState:
			f.Since = m.Since
			f.Seen += sinceText(m.Since, j.seen.Now)
			if !m.LastUp.IsZero() {
				f.Evidence = append(f.Evidence, "last seen up at "+clock(m.LastUp, j.seen.Now))
			}
		default:
			f.Since = j.seen.Now
			f.Seen += sinceText(j.seen.Now, j.seen.Now) + "; was " + stateText(m.State, m.PhysState)
		}
	}
	if p.State == "INIT" {
		f.Evidence = append(f.Evidence, "the link is there, but no subnet manager has set the port up")
	}
	for _, n := range p.NetDevs {
		f.Evidence = append(f.Evidence, "carries "+n.Name)
	}
	f.brief = "ib " + f.Subject + " " + f.Seen
	j.found(f)
}

func (j *judge) rate(p *ib.Port) {
	if p.RateGbps == nil {
		return
	}
	f := Finding{Check: "ib-rate", Subject: p.String(), Seen: fmt.Sprintf("%g Gb/s (%s)", *p.RateGbps, strings.TrimSpace(p.Width+" "+p.Speed)), Shared: []string{"fabric"}}
	m, known := j.last.IB.Port(p.Device, p.Number)
	switch {
	case j.site.RateGbps > 0 && *p.RateGbps < j.site.RateGbps:
		f.Expected = fmt.Sprintf("%g Gb/s, by gate.rate_gbps", j.site.RateGbps)
	case known && m.Slower(p):
		f.Expected = fmt.Sprintf("%g Gb/s (%s), its own best", *m.BestRateGbps, strings.TrimSpace(m.BestWidth+" "+m.BestSpeed))
	default:
		return
	}
	j.found(f)
}

// enough is how far a counter may rise between two runs before it says something.
// Links have a bit error rate that is never zero, and transports lose a packet now
// and then; a request that was given up is always news.
func enough(m ib.Metric) uint64 {
	switch {
	case strings.Contains(m.Name, "exceeded"), m.Name == "link_error_recovery", m.Name == "local_link_integrity_errors":
		return 1
	case m.Class == ib.Link:
		return 10
	case m.Class == ib.Loss:
		return 100
	}
	return 0 // congestion is the fabric's daily life: told by others
}

func (j *judge) rises() {
	if !j.ran() {
		return
	}
	perPort := map[string][]string{}
	for _, r := range ib.Diff(j.last.IB, j.seen.IB.Value) {
		if r.By == nil {
			continue
		}
		port := fmt.Sprintf("%s/%d", r.Device, r.Port)
		if r.Metric.Class == ib.Flap {
			j.found(Finding{Check: "ib-flap", Subject: port, Seen: fmt.Sprintf("link lost %s", plural(int(min(*r.By, 1<<31)), "time", "times")), Expected: "never",
				Since: j.last.Time, Shared: []string{"fabric"}, Evidence: []string{fmt.Sprintf("%s %d -> %d since %s", r.Metric.Name, r.Prev, r.Cur, clock(j.last.Time, j.seen.Now))}})
			continue
		}
		if least := enough(r.Metric); least > 0 && *r.By >= least {
			perPort[port] = append(perPort[port], fmt.Sprintf("%s +%d: %s", r.Metric.Name, *r.By, r.Metric.Doc))
		}
	}
	for _, port := range sortedKeys(perPort) {
		first, _, _ := strings.Cut(perPort[port][0], ":")
		j.found(Finding{Check: "ib-errors", Subject: port, Seen: first + " since " + clock(j.last.Time, j.seen.Now), Expected: "no rise", Since: j.last.Time,
			Shared: []string{"fabric"}, Evidence: perPort[port]})
	}
}

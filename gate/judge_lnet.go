package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"ioguard/lfs"
	"ioguard/lnet"
)

var lnetCodes = []string{"lnet-down", "lnet-nid", "lnet-ni", "lnet-rail", "lnet-health"}

// lnet judges LNet's interfaces, routes, peers and parameters.
func (j *judge) lnet() {
	j.interfaces()
	j.routes()
	j.peers()
	j.stats()
	j.params()
}

func (j *judge) interfaces() {
	a := &j.seen.LNet
	nis := slices.DeleteFunc(slices.Clone(a.Value.NIs), func(n lnet.NI) bool { return n.NID.IsLoopback() })
	wanted := j.seen.Lustre || len(j.seen.lustreMounts()) > 0 || len(j.site.NIDs) > 0
	if errors.Is(a.Err, lnet.ErrDown) {
		if !wanted {
			j.without(Skipped, "LNet is not up, and nothing here wants it", lnetCodes...)
			return
		}
		j.found(Finding{Check: "lnet-down", Subject: "lnet", Seen: "not up", Expected: "up", Shared: []string{"fabric"},
			Evidence: []string{a.Err.Error()}, brief: "lnet not up"})
		return
	}
	if unread(j, a, len(nis) > 0, lnetCodes...) {
		return
	}
	if len(nis) == 0 && len(a.Value.NIs) > 0 && wanted {
		j.found(Finding{Check: "lnet-down", Subject: "lnet", Seen: "no network but loopback", Expected: "a network", Shared: []string{"fabric"},
			brief: "lnet has no network"})
	}
	j.wantedNIDs(nis)
	for _, net := range netsOf(nis) {
		j.rails(net, slices.DeleteFunc(slices.Clone(nis), func(n lnet.NI) bool { return n.NID.Net != net }))
	}
	j.health(nis)
	names := make([]string, len(nis))
	for i := range nis {
		names[i] = nis[i].NID.String()
	}
	j.ok("lnet-down", "%s by %s", plural(len(nis), "interface", "interfaces"), a.Value.Source)
	j.ok("lnet-ni", "%s up", list(names, 4))
	if !a.Value.Source.ProvesHealth() {
		j.without(Unknown, "only "+string(a.Value.Source)+" answers, which says up with the cable out", "lnet-ni", "lnet-rail", "lnet-health")
	}
}

func netsOf(nis []lnet.NI) []lnet.Net {
	var nets []lnet.Net
	for i := range nis {
		if !slices.Contains(nets, nis[i].NID.Net) {
			nets = append(nets, nis[i].NID.Net)
		}
	}
	return nets
}

// wantedNIDs compares with the configuration, else with the last run.
func (j *judge) wantedNIDs(nis []lnet.NI) {
	for _, text := range j.site.NIDs {
		w, err := parseWanted(text)
		if err != nil {
			continue // Site.Check says so
		}
		have := 0
		for i := range nis {
			if nis[i].NID.Net == w.net && (w.nid == (lnet.NID{}) || nis[i].NID == w.nid) {
				have++
			}
		}
		if have < w.count {
			j.found(Finding{Check: "lnet-nid", Subject: w.String(), Seen: "missing", Expected: "configured: it is in gate.nids", Shared: []string{"fabric"},
				brief: "lnet " + w.String() + " missing"})
		}
	}
	if len(j.site.NIDs) > 0 || !j.ran() {
		return
	}
	for _, nid := range j.last.NIDs {
		if !slices.ContainsFunc(nis, func(n lnet.NI) bool { return n.NID.String() == nid }) {
			j.found(Finding{Check: "lnet-rail", Subject: nid, Seen: "gone", Expected: "there, as at the last run", Shared: []string{"fabric"}})
		}
	}
}

// rails judges the interfaces of one net: one of several down leaves the node slow,
// all down cut it off, if any server is reached through the net.
func (j *judge) rails(net lnet.Net, nis []lnet.NI) {
	var down []lnet.NI
	for _, n := range nis {
		if n.Status != "" && n.Status != "up" || n.FatalError != nil && *n.FatalError {
			down = append(down, n)
		}
	}
	code := "lnet-ni"
	if len(down) < len(nis) || !j.used(net) {
		code = "lnet-rail"
	}
	for i := range down {
		n := &down[i]
		f := Finding{Check: code, Subject: n.NID.String(), Seen: niSeen(n), Expected: "up, health 1000", Shared: []string{"fabric"}, Evidence: niEvidence(n)}
		f.brief = "lnet " + f.Subject + " " + f.Seen
		switch {
		case code == "lnet-ni":
		case len(down) < len(nis):
			f.Evidence = append(f.Evidence, fmt.Sprintf("%d of %d interfaces of %s carry on", len(nis)-len(down), len(nis), net))
		default:
			f.Evidence = append(f.Evidence, "no server is reached through "+net.String())
		}
		j.found(f)
	}
}

// used tells whether a server or a gateway is reached through a net; where no
// import tells, all nets count.
func (j *judge) used(net lnet.Net) bool {
	nids := importNIDs(j.seen.Imports.Value)
	for _, r := range j.seen.Routes.Value {
		nids = append(nids, r.Gateway)
	}
	return len(nids) == 0 || slices.ContainsFunc(nids, func(n lnet.NID) bool { return n.Net == net })
}

func importNIDs(imports []lfs.Import) []lnet.NID {
	var nids []lnet.NID
	for i := range imports {
		for _, text := range append([]string{imports[i].Connection}, imports[i].FailoverNIDs...) {
			if n, err := lnet.ParseNID(text); err == nil && !slices.Contains(nids, n) {
				nids = append(nids, n)
			}
		}
	}
	return nids
}

func niSeen(n *lnet.NI) string {
	seen := n.Status
	if n.FatalError != nil && *n.FatalError {
		seen += ", fatal error"
	}
	if n.Health != nil {
		seen += fmt.Sprintf(", health %d", *n.Health)
	}
	return seen
}

func niEvidence(n *lnet.NI) []string {
	if len(n.Interfaces) == 0 {
		return nil
	}
	return []string{"over " + strings.Join(n.Interfaces, ", ")}
}

// fullHealth is LNET_MAX_HEALTH_VALUE.
const fullHealth = 1000

// manyFailures of a local interface since the last run count though its health value
// is full: newer releases leave it alone where a node has but one rail.
const manyFailures = 10

func failures(rises []lnet.Rise, nid lnet.NID) (n uint64) {
	for _, r := range rises {
		if r.NID == nid && r.Class == lnet.LocalInterface {
			n += r.Count
		}
	}
	return n
}

// health judges the health value of interfaces that are up.
func (j *judge) health(nis []lnet.NI) {
	rises := lnet.Classify(j.last.LNet, nis, nil)
	if !j.ran() {
		rises = nil
	}
	lowest, known := int64(fullHealth), false
	for i := range nis {
		n := &nis[i]
		if n.Health == nil {
			continue
		}
		known = true
		lowest = min(lowest, *n.Health)
		if *n.Health >= fullHealth && failures(rises, n.NID) < manyFailures || n.Status != "up" || n.FatalError != nil && *n.FatalError {
			continue
		}
		f := Finding{Check: "lnet-health", Subject: n.NID.String(), Seen: fmt.Sprintf("health %d", *n.Health), Expected: "1000",
			Shared: []string{"fabric"}, Evidence: risesOf(rises, n.NID)}
		if len(f.Evidence) == 0 {
			f.Evidence = totals(lnet.LocalInterface, lnet.Classify(lnet.Memory{NIs: map[lnet.NID][]*uint64{}}, []lnet.NI{*n}, nil))
		}
		f.brief = "lnet " + f.Subject + " " + f.Seen
		j.found(f)
	}
	if !known {
		j.without(Skipped, "this release has no health values", "lnet-health")
		return
	}
	j.ok("lnet-health", "health %d", lowest)
}

// risesOf says which counters of an interface rose since the last run, by LNet's
// own classes.
func risesOf(rises []lnet.Rise, nid lnet.NID) []string {
	var out []string
	for _, r := range rises {
		if r.NID == nid {
			out = append(out, fmt.Sprintf("%s: %s +%d since the last run", r.Class, r.Counter, r.Count))
		}
	}
	return out
}

func totals(class lnet.Class, rises []lnet.Rise) []string {
	var parts []string
	for _, r := range rises {
		parts = append(parts, fmt.Sprintf("%s %d", r.Counter, r.Count))
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s, in all", class, strings.Join(parts, ", "))}
}

func (j *judge) routes() {
	if unread(j, &j.seen.Routes, len(j.seen.Routes.Value) > 0, "lnet-route", "lnet-routes") {
		return
	}
	if len(j.seen.Routes.Value) == 0 {
		j.without(Skipped, "no routes", "lnet-route", "lnet-routes")
		return
	}
	up, down := map[string]int{}, map[string][]string{}
	var nets []string
	for _, r := range j.seen.Routes.Value {
		net := r.Net.String()
		if !slices.Contains(nets, net) {
			nets = append(nets, net)
		}
		if r.State == "down" {
			down[net] = append(down[net], r.Gateway.String())
		} else {
			up[net]++
		}
	}
	for _, net := range nets {
		if len(down[net]) == 0 {
			continue
		}
		f := Finding{Check: "lnet-route", Subject: net, Seen: list(down[net], 4) + " down", Expected: "up",
			Evidence: []string{fmt.Sprintf("%d of %d gateways of %s are up", up[net], up[net]+len(down[net]), net)}}
		if up[net] == 0 {
			f.Check = "lnet-routes"
		}
		f.Shared = append([]string{"net:" + net}, down[net][:min(4, len(down[net]))]...)
		f.brief = "route to " + net + ": " + f.Seen
		j.found(f)
	}
	j.ok("lnet-route", "%s up", plural(len(j.seen.Routes.Value), "route", "routes"))
	j.ok("lnet-routes", "%s reached", list(nets, 4))
}

// peers judges how LNet sees the servers. A peer's health is no proof of life: one
// never heard of has 1000. So only what is lowered counts, and only of servers.
func (j *judge) peers() {
	a := &j.seen.Peers
	if errors.Is(a.Err, lnet.ErrDown) {
		j.without(Skipped, "LNet is not up", "lnet-peer", "lnet-credits")
		return
	}
	if unread(j, a, len(a.Value) > 0, "lnet-peer", "lnet-credits") {
		return
	}
	servers := importNIDs(j.seen.Imports.Value)
	var rises []lnet.Rise
	if j.ran() {
		rises = lnet.Classify(j.last.LNet, nil, a.Value)
	}
	count := 0
	for _, p := range a.Value {
		for i := range p.NIs {
			if n := &p.NIs[i]; len(servers) == 0 || slices.Contains(servers, n.NID) {
				count++
				j.peer(n, rises)
			}
		}
	}
	j.ok("lnet-peer", "%s at health 1000", plural(count, "server interface", "server interfaces"))
	j.ok("lnet-credits", "none waits for credits")
}

func (j *judge) peer(n *lnet.PeerNI, rises []lnet.Rise) {
	nid := n.NID.String()
	shared := []string{nid}
	if n.Health != nil && *n.Health < fullHealth {
		j.found(Finding{Check: "lnet-peer", Subject: nid, Seen: fmt.Sprintf("health %d", *n.Health), Expected: "1000", Shared: shared,
			Evidence: risesOf(rises, n.NID), brief: fmt.Sprintf("peer %s health %d", nid, *n.Health)})
	}
	lower := j.ran() && !j.last.Peers.IsZero() && n.MinTxCredits != nil && *n.MinTxCredits < 0 && *n.MinTxCredits < j.last.minCredits(nid)
	if n.AvailableTxCredits != nil && *n.AvailableTxCredits < 0 || lower {
		f := Finding{Check: "lnet-credits", Subject: nid, Expected: "0 or more", Shared: shared}
		if n.AvailableTxCredits != nil {
			f.Seen = fmt.Sprintf("tx credits %d now", *n.AvailableTxCredits)
		}
		if n.MinTxCredits != nil {
			f.Seen = strings.TrimPrefix(f.Seen+fmt.Sprintf(", lowest %d", *n.MinTxCredits), ", ")
		}
		if n.TxQueue != nil {
			f.Evidence = append(f.Evidence, fmt.Sprintf("%d bytes wait to be sent", *n.TxQueue))
		}
		j.found(f)
	}
}

// lostMessages are LNet's counters of messages that did not get through, by class
// (lnet/lnet/lib-msg.c, lnet_incr_hstats).
var lostMessages = []struct {
	class    lnet.Class
	counters []string
}{
	{lnet.LocalInterface, []string{"local_interrupt_count", "local_dropped_count", "local_aborted_count", "local_no_route_count", "local_timeout_count", "local_error_count"}},
	{lnet.RemoteInterface, []string{"remote_dropped_count", "remote_error_count", "remote_timeout_count"}},
	{lnet.NetworkTimeout, []string{"network_timeout_count"}},
}

// stats judges the node's own counters against the last time they were asked for.
func (j *judge) stats() {
	a := &j.seen.Stats
	if errors.Is(a.Err, lnet.ErrDown) {
		j.without(Skipped, "LNet is not up", "lnet-stats")
		return
	}
	if unread(j, a, len(a.Value) > 0, "lnet-stats") {
		return
	}
	if !j.ran() || len(j.last.LNetStats) == 0 {
		j.without(Skipped, "nothing to compare with yet", "lnet-stats")
		return
	}
	for _, c := range lostMessages {
		for _, name := range c.counters {
			before, known := j.last.LNetStats[name]
			now, told := a.Value[name]
			if known && told && now > before {
				j.found(Finding{Check: "lnet-stats", Subject: string(c.class), Seen: fmt.Sprintf("%s +%d", name, now-before), Expected: "no rise"})
			}
		}
	}
	j.ok("lnet-stats", "none lost since the last time")
}

// lost picks the counters of lost messages.
func lost(all lnet.Values) map[string]int64 {
	kept := map[string]int64{}
	for _, c := range lostMessages {
		for _, name := range c.counters {
			if v, ok := all[name]; ok {
				kept[name] = v
			}
		}
	}
	return kept
}

func (j *judge) params() {
	if len(j.site.Modules) == 0 {
		j.without(Skipped, "gate.modules names none", "lnet-params")
		return
	}
	if unread(j, &j.seen.Params, len(j.seen.Params.Value) > 0, "lnet-params") && !errors.Is(j.seen.Params.Err, fs.ErrNotExist) {
		return
	}
	for _, d := range j.seen.Params.Value.Differ(j.site.Modules) {
		seen := fmt.Sprintf("%q", d.Have)
		if d.Missing {
			seen = "missing"
		}
		j.found(Finding{Check: "lnet-params", Subject: d.Module + "/" + d.Param, Seen: seen, Expected: fmt.Sprintf("%q", d.Want)})
	}
	j.ok("lnet-params", "as gate.modules says")
}

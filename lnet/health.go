package lnet

import (
	"cmp"
	"slices"

	"ioguard"
	"ioguard/series"
)

// Class says on whom LNet lays a failed message.
type Class string

// The classes of lnet/lnet/lib-msg.c, lnet_health_check. A network timeout is laid
// on both ends: the message left and nothing came back.
const (
	LocalInterface  Class = "local interface"
	RemoteInterface Class = "remote interface"
	NetworkTimeout  Class = "network timeout"
)

// Rise is a health counter that went up between two readings.
type Rise struct {
	NID     NID               `json:"nid"` // this node's, or the peer's
	Class   Class             `json:"class"`
	Counter string            `json:"counter"` // as lnetctl names it: "no route"
	Count   uint64            `json:"count"`
	Kind    ioguard.DeltaKind `json:"-"` // DeltaReset: Count is a lower bound
}

// counterBits is the width of the health counters in the kernel.
const counterBits = 32

// localCounters and remoteCounters are the counters in the order in which Memory
// keeps them. An order once written to a state file must stay.
var (
	localCounters  = [...]string{"interrupts", "dropped", "aborted", "no route", "timeouts", "error"}
	remoteCounters = [...]string{"dropped", "timeout", "error", "network timeout"}
)

func (c *LocalCounters) list() []*uint64 {
	return []*uint64{c.Interrupts, c.Dropped, c.Aborted, c.NoRoute, c.Timeouts, c.Errors}
}

func (c *RemoteCounters) list() []*uint64 {
	return []*uint64{c.Dropped, c.Timeout, c.Error, c.NetworkTimeout}
}

// Memory is what is kept of a reading for the next one, small enough for a state
// file: an interface whose counters are all 0 is left out. nil lists come from a
// reading that told no counters, and nothing is compared with them.
type Memory struct {
	NIs     map[NID][]*uint64 `json:"nis"`   // interrupts, dropped, aborted, no route, timeouts, error
	PeerNIs map[NID][]*uint64 `json:"peers"` // dropped, timeout, error, network timeout
}

// Remember keeps the counters of a reading. Loopback is left out.
func Remember(nis []NI, peers []Peer) Memory {
	var m Memory
	for i := range nis {
		if !nis[i].NID.IsLoopback() {
			keep(&m.NIs, nis[i].NID, nis[i].Local.list())
		}
	}
	for i := range peers {
		for j := range peers[i].NIs {
			ni := &peers[i].NIs[j]
			keep(&m.PeerNIs, ni.NID, ni.Remote.list())
		}
	}
	return m
}

func keep(in *map[NID][]*uint64, nid NID, counters []*uint64) {
	if !slices.ContainsFunc(counters, func(c *uint64) bool { return c != nil }) {
		return
	}
	if *in == nil {
		*in = map[NID][]*uint64{}
	}
	if slices.ContainsFunc(counters, func(c *uint64) bool { return c == nil || *c != 0 }) {
		(*in)[nid] = counters
	}
}

// Classify tells which health counters rose since a former reading of the same
// boot. One that is new since then has counted all that it shows since then; what
// an empty memory does not know is not compared. Each of both sides is in the order
// of its NIDs, then as lnetctl prints the counters. A peer that a ping of a dead
// NID left behind has network timeouts too: look at the NIDs that matter.
func Classify(before Memory, nis []NI, peers []Peer) []Rise {
	now := Remember(nis, peers)
	local := rises(before.NIs, now.NIs, func(i int) (string, Class) { return localCounters[i], LocalInterface })
	remote := rises(before.PeerNIs, now.PeerNIs, func(i int) (string, Class) {
		if name := remoteCounters[i]; name != "network timeout" {
			return name, RemoteInterface
		}
		return remoteCounters[i], NetworkTimeout
	})
	return append(local, remote...)
}

func rises(before, now map[NID][]*uint64, name func(i int) (string, Class)) []Rise {
	if before == nil {
		return nil
	}
	var out []Rise
	for nid, counters := range now {
		old, seen := before[nid]
		for i, c := range counters {
			prev := new(uint64)
			if seen {
				prev = nil
				if i < len(old) {
					prev = old[i]
				}
			}
			if c == nil || prev == nil {
				continue
			}
			count, kind := series.Diff(*prev, *c, counterBits)
			if count == 0 {
				continue
			}
			counter, class := name(i)
			out = append(out, Rise{nid, class, counter, count, kind})
		}
	}
	slices.SortStableFunc(out, func(a, b Rise) int {
		x, y := a.NID, b.NID
		return cmp.Or(cmp.Compare(x.Addr, y.Addr), cmp.Compare(x.Net.Type, y.Net.Type), cmp.Compare(x.Net.Number, y.Net.Number))
	})
	return out
}

package gate

import (
	"slices"
	"time"

	"ioguard/ib"
	"ioguard/kmsg"
	"ioguard/lnet"
	"ioguard/proc"
)

// Memory is what a node keeps from one run to the next, as JSON. The zero value is
// that of a node that never ran.
type Memory struct {
	Time    time.Time        `json:"time"`
	Boot    string           `json:"boot,omitempty"`
	IB      ib.Memory        `json:"ib,omitzero"`
	LNet    lnet.Memory      `json:"lnet,omitzero"`
	NIDs    []string         `json:"nids,omitempty"`
	Credits map[string]int64 `json:"credits,omitempty"` // lowest credits below zero, by NID of the peer
	Peers   time.Time        `json:"peers,omitzero"`    // when they were last asked for: the prolog does so only once something is wrong
	Mounts  []string         `json:"mounts,omitempty"`

	LNetStats map[string]int64 `json:"lnet_stats,omitempty"` // counters of lost messages
	Log       kmsg.Cursor      `json:"log,omitzero"`
	Blocked   []Blocked        `json:"blocked,omitempty"`

	Writeback uint64 `json:"writeback,omitempty"` // bytes

	// UntilBoot are findings that only a reboot ends, by their check: the message that
	// tells of them is read once.
	UntilBoot map[string]Finding `json:"until_boot,omitempty"`

	Healthy time.Time `json:"healthy,omitzero"` // since when nothing has blocked; zero: something does
	Drained *Drained  `json:"drained,omitempty"`
	Asked   string    `json:"asked,omitempty"` // boot after which Slurm was asked whether we drained the node
	// Told is when a finding was last recorded, by its check and subject, so that a
	// hundred jobs do not write the same line.
	Told map[string]time.Time `json:"told,omitempty"`
}

// Blocked is a process that was seen in uninterruptible sleep.
type Blocked struct {
	proc.Process
	Since time.Time `json:"since"` // first seen so
}

// Drained is what is remembered of a drain of ours.
type Drained struct {
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}

// minCredits are the lowest credits that were known of a peer.
func (m *Memory) minCredits(nid string) int64 { return m.Credits[nid] }

// After is what is to be remembered of a run. What a source did not tell keeps its
// earlier value; after a reboot nothing does but the best rates. now is this node's
// clock, also where the machine is a recorded one.
func (m *Memory) After(seen *Seen, v *Verdict, now time.Time) Memory {
	n := Memory{Time: seen.Now, Boot: seen.Boot, IB: m.IB, LNet: m.LNet, NIDs: m.NIDs, Credits: m.Credits, Peers: m.Peers, LNetStats: m.LNetStats, Mounts: m.Mounts,
		Log: m.Log, Drained: m.Drained, Asked: m.Asked, Told: m.Told}
	if seen.IB.Done {
		n.IB = ib.Remember(m.IB, seen.Now, seen.IB.Value)
		n.forgetGone(m, seen)
	}
	if seen.LNet.Done && seen.LNet.Err == nil {
		n.rememberLNet(seen)
	}
	if seen.Mounts.Done && seen.Mounts.Err == nil {
		n.Mounts = nil
		for _, mount := range seen.Mounts.Value {
			n.Mounts = append(n.Mounts, mount.Dir)
		}
	}
	if seen.Log.Done && seen.Log.Value != nil {
		n.Log = seen.Log.Value.Cursor
	}
	if seen.Stats.Done && seen.Stats.Err == nil {
		n.LNetStats = lost(seen.Stats.Value)
	}
	n.rememberLocal(m, seen)
	n.rememberUntilBoot(v)
	if len(v.Roots) == 0 {
		n.Healthy = now
		if !m.Healthy.IsZero() && m.Boot == seen.Boot {
			n.Healthy = m.Healthy
		}
	}
	return n
}

// forgetGone drops adapters that were already gone before the last boot: the node
// was rebuilt.
func (n *Memory) forgetGone(m *Memory, seen *Seen) {
	if m.Boot == seen.Boot {
		return
	}
	for _, name := range ib.Gone(m.IB, seen.IB.Value) {
		delete(n.IB.Devices, name)
	}
}

func (n *Memory) rememberLNet(seen *Seen) {
	now := lnet.Remember(seen.LNet.Value.NIs, seen.Peers.Value)
	if !seen.Peers.Done {
		now.PeerNIs = n.LNet.PeerNIs
	}
	n.LNet = now
	n.NIDs = nil
	for _, ni := range seen.LNet.Value.NIs {
		if !ni.NID.IsLoopback() {
			n.NIDs = append(n.NIDs, ni.NID.String())
		}
	}
	if !seen.Peers.Done {
		return
	}
	n.Credits, n.Peers = nil, seen.Now
	for _, p := range seen.Peers.Value {
		for _, ni := range p.NIs {
			if ni.MinTxCredits == nil || *ni.MinTxCredits >= 0 {
				continue
			}
			if n.Credits == nil {
				n.Credits = map[string]int64{}
			}
			n.Credits[ni.NID.String()] = *ni.MinTxCredits
		}
	}
}

// untilBoot are the checks whose findings stay until the node was rebooted.
var untilBoot = []string{"kmsg-lbug", "ib-firmware"}

func (n *Memory) rememberUntilBoot(v *Verdict) {
	for _, f := range v.Findings() {
		if !slices.Contains(untilBoot, f.Check) {
			continue
		}
		if n.UntilBoot == nil {
			n.UntilBoot = map[string]Finding{}
		}
		if f.Since.IsZero() {
			f.Since = n.Time
		}
		n.UntilBoot[f.Check] = f
	}
}

func (n *Memory) rememberLocal(m *Memory, seen *Seen) {
	for _, p := range seen.Local.Value.Blocked {
		since := seen.Now
		if old := m.blockedSince(p); m.Boot == seen.Boot && !old.IsZero() {
			since = old
		}
		n.Blocked = append(n.Blocked, Blocked{p, since})
	}
	if w := seen.Local.Value.Memory.Writeback; w != nil {
		n.Writeback = *w
	}
}

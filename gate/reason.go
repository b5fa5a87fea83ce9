package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ioguard/slurm"
	"ioguard/view"
)

// reasonMark begins every reason that ioguard gives: a node whose reason begins
// otherwise is somebody else's and is left alone.
const reasonMark = "ioguard: "

// maxReason bounds a reason, in bytes. Slurm stores more, sinfo shows 20 characters.
const maxReason = 400

// Reason is the text for the node's Reason. sinfo -R shows its first 20
// characters, so the subject of the first root comes first. In brackets at its
// end stands what other nodes would share, for their brakes to read.
func (v *Verdict) Reason() string {
	if len(v.Roots) == 0 {
		return ""
	}
	text := reasonMark + view.Safe(v.Roots[0].Brief())
	if n := len(v.Roots) - 1; n > 0 {
		text += fmt.Sprintf("; and %d more: %s", n, view.Safe(v.Roots[1].Brief()))
	}
	keys := " [" + strings.Join(v.sharedKeys(), " ") + "]"
	if room := maxReason - len(keys); len(text) > room {
		text = strings.ToValidUTF8(text[:room], "")
	}
	return text + keys
}

// sharedKeys are those of the roots, each once, at most eight.
func (v *Verdict) sharedKeys() []string {
	var keys []string
	for _, f := range v.Roots {
		for _, k := range f.shared() {
			if k = keyWord(k); !slices.Contains(keys, k) && len(keys) < 8 {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// shared are the keys of a finding; one without shares its check alone.
func (f *Finding) shared() []string {
	if len(f.Shared) == 0 {
		return []string{"check:" + f.Check}
	}
	return f.Shared
}

// IsOurs tells whether a node's reason is one that ioguard gave.
func IsOurs(reason string) bool { return strings.HasPrefix(reason, reasonMark) }

// reasonKeys reads the keys at the end of a reason of ours. Slurm appends nothing
// to the text that sinfo prints.
func reasonKeys(reason string) []string {
	reason = strings.TrimSpace(reason)
	i := strings.LastIndexByte(reason, '[')
	if !IsOurs(reason) || i < 0 || !strings.HasSuffix(reason, "]") {
		return nil
	}
	return strings.Fields(reason[i+1 : len(reason)-1])
}

// ownFault tells the keys of faults that can be each node's own (a cable), and so
// count against the brake only while they are fresh. That of a server cannot.
func ownFault(key string) bool { return key == "fabric" || strings.HasPrefix(key, "check:") }

// OwnFault tells that everything that blocks can be this node's own fault alone: its
// port, its adapter, its kernel. A target or a server that is away cannot.
func (v *Verdict) OwnFault() bool {
	return len(v.Roots) > 0 && !slices.ContainsFunc(v.sharedKeys(), func(key string) bool { return !ownFault(key) })
}

// Braking says what holds a drain back.
type Braking struct {
	Key   string   // what the nodes share
	Nodes []string // other nodes that ioguard drained for it
	Limit int
	Of    int // nodes in the cluster
}

func (b *Braking) String() string {
	return fmt.Sprintf("%d of %d nodes are already drained for %s (limit %d): this looks like a fault of something shared, not of this node",
		len(b.Nodes), b.Of, b.Key, b.Limit)
}

// Braked tells whether the brake holds back the drain of a node: every root must
// be shared with more nodes than the limit allows. nodes are all of the cluster.
func (v *Verdict) Braked(b Brake, node string, nodes []slurm.Node, now time.Time) *Braking {
	limit := b.Limit(len(nodes))
	if limit < 0 || len(v.Roots) == 0 {
		return nil
	}
	var first *Braking
	for _, f := range v.Roots {
		held := f.braked(b, node, nodes, now)
		if held == nil || len(held.Nodes) < limit {
			return nil
		}
		held.Limit, held.Of = limit, len(nodes)
		if first == nil {
			first = held
		}
	}
	return first
}

// braked finds the key of a finding that most other drained nodes share.
func (f *Finding) braked(b Brake, node string, nodes []slurm.Node, now time.Time) *Braking {
	var most *Braking
	for _, key := range f.shared() {
		held := &Braking{Key: key}
		for _, n := range nodes {
			if n.Name == node || !slices.Contains(reasonKeys(n.Reason), keyWord(key)) {
				continue
			}
			if old := !n.ReasonTime.IsZero() && now.Sub(n.ReasonTime) > b.Within; old && ownFault(key) {
				continue
			}
			held.Nodes = append(held.Nodes, n.Name)
		}
		if most == nil || len(held.Nodes) > len(most.Nodes) {
			most = held
		}
	}
	return most
}

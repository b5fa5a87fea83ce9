package gate

import (
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ioguard/slurm"
)

// Rule is what the policy says about one check.
type Rule struct {
	Do    Action
	Retry time.Duration
}

// Override changes the rules of some checks. Fields left out keep what was.
type Override struct {
	Do    Action
	Retry *time.Duration
}

// Where is a part of the cluster with rules of its own. Both conditions must
// hold; an empty one holds always.
type Where struct {
	Partitions []string            // names or patterns of path.Match
	Nodes      string              // a hostlist (n[1-16,20]) or patterns, separated by commas
	Checks     map[string]Override // by code
}

// AtBrake is what happens to a job while the brake holds back the drain.
type AtBrake string

// At the brake the job starts, or goes back to the queue and is held.
const (
	BrakeStarts AtBrake = "start"
	BrakeHolds  AtBrake = "hold"
)

// Brake keeps a shared fault from draining the cluster: when so many other nodes
// were drained for it, no more are.
type Brake struct {
	Nodes  int           // other nodes; 0 turns this limit off
	Share  float64       // of all nodes, 0..1; 0 turns this limit off
	Within time.Duration // how long ago a drain for a fault of the nodes' own (cables) still counts
	Do     AtBrake
}

// Limit is how many other nodes may be drained for one fault in a cluster of a
// size: the smaller of both limits, but two where that is less than half of a small
// cluster. -1 is a brake that is switched off.
func (b Brake) Limit(nodes int) int {
	limit := -1
	if b.Nodes > 0 {
		limit = b.Nodes
	}
	if b.Share > 0 {
		share := int(math.Ceil(b.Share * float64(nodes)))
		share = max(share, min(2, nodes/2), 1)
		if limit < 0 || share < limit {
			limit = share
		}
	}
	return limit
}

// Policy is what a site does about findings.
type Policy struct {
	Checks map[string]Override
	Where  []Where // later ones win
	Brake  Brake
}

// DefaultBrake is the brake of a site that says nothing: 5 nodes or 10 %.
var DefaultBrake = Brake{Nodes: 5, Share: 0.10, Within: 15 * time.Minute, Do: BrakeStarts}

// Rule gives the rule for a check on a node and, where there is a job, its partition.
func (p *Policy) Rule(c Check, node, partition string) Rule {
	r := Rule{c.Do, c.Retry}
	r = r.with(p.Checks, c)
	for _, w := range p.Where {
		if w.holds(node, partition) {
			r = r.with(w.Checks, c)
		}
	}
	return r
}

// with applies what is said about the check or, less precisely, about its group.
func (r Rule) with(all map[string]Override, c Check) Rule {
	for _, key := range []string{c.Group, c.Code} {
		o, ok := all[key]
		if !ok {
			continue
		}
		if o.Do != "" {
			r.Do = o.Do
		}
		if o.Retry != nil {
			r.Retry = *o.Retry
		}
	}
	return r
}

func (w Where) holds(node, partition string) bool {
	if len(w.Partitions) > 0 && !slices.ContainsFunc(w.Partitions, func(p string) bool { return matches(p, partition) }) {
		return false
	}
	return w.Nodes == "" || nodeIn(w.Nodes, node)
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return err == nil && ok && name != ""
}

// maxHosts bounds the expansion of a hostlist in the configuration.
const maxHosts = 100_000

// nodeIn tells whether a node is in a hostlist or matches a pattern of it.
func nodeIn(list, node string) bool {
	if node == "" {
		return false
	}
	if hosts, err := slurm.ExpandHosts(list, maxHosts); err == nil && slices.Contains(hosts, node) {
		return true
	}
	return slices.ContainsFunc(strings.Split(list, ","), func(p string) bool { return matches(strings.TrimSpace(p), node) })
}

// Check tells what is wrong with a policy, all of it.
func (p *Policy) Check() error {
	errs := []error{checkOverrides("checks", p.Checks)}
	for i, w := range p.Where {
		at := "where[" + strconv.Itoa(i) + "]"
		if len(w.Partitions) == 0 && w.Nodes == "" {
			errs = append(errs, fmt.Errorf("%s: partitions or nodes are wanted", at))
		}
		for _, pattern := range append(slices.Clone(w.Partitions), strings.Split(w.Nodes, ",")...) {
			if _, err := path.Match(pattern, ""); err != nil && !strings.Contains(w.Nodes, pattern) {
				errs = append(errs, fmt.Errorf("%s: %q is no pattern", at, pattern))
			}
		}
		if w.Nodes != "" {
			if _, err := slurm.ExpandHosts(w.Nodes, maxHosts); err != nil && !strings.ContainsAny(w.Nodes, "*?") {
				errs = append(errs, fmt.Errorf("%s: nodes: %w", at, err))
			}
		}
		errs = append(errs, checkOverrides(at+".checks", w.Checks))
	}
	b := p.Brake
	switch {
	case b.Nodes < 0:
		errs = append(errs, fmt.Errorf("brake: nodes: %d is negative", b.Nodes))
	case b.Share < 0 || b.Share > 1:
		errs = append(errs, fmt.Errorf("brake: share: %v is no share of all nodes", b.Share))
	case b.Within < 0:
		errs = append(errs, fmt.Errorf("brake: within: %v is negative", b.Within))
	case b.Do != BrakeStarts && b.Do != BrakeHolds:
		errs = append(errs, fmt.Errorf("brake: do: %q is neither start nor hold", b.Do))
	}
	return errors.Join(errs...)
}

func checkOverrides(at string, all map[string]Override) error {
	var errs []error
	for key, o := range all {
		if !isCheckOrGroup(key) {
			errs = append(errs, fmt.Errorf("%s: there is no check %q", at, key))
		}
		if !slices.Contains([]Action{"", Ignore, Warn, Drain, Requeue}, o.Do) {
			errs = append(errs, fmt.Errorf("%s: %s: %q is none of ignore, warn, drain, requeue", at, key, o.Do))
		}
		if o.Retry != nil && *o.Retry < 0 {
			errs = append(errs, fmt.Errorf("%s: %s: retry %v is negative", at, key, *o.Retry))
		}
	}
	return errors.Join(errs...)
}

func isCheckOrGroup(key string) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return c.Code == key || c.Group == key })
}

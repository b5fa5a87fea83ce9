package prolog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ioguard"
	"ioguard/action"
	"ioguard/gate"
	"ioguard/slurm"
	"ioguard/view"
)

// block acts on findings that block: nothing, where the brake holds or where
// ioguard itself cannot do it right; else the node is drained.
func (n *Node) block(ctx context.Context, hook slurm.Hook, out *Outcome) {
	out.Reason = out.Verdict.Reason()
	if n.TellOnly {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventSkip, Text: "no configuration: would have drained the node: " + out.Reason})
		return
	}
	nodes, err := n.nodes(ctx)
	if err != nil {
		n.unasked(hook, out, fmt.Errorf("cannot ask Slurm how many nodes fail alike: %w", err))
		return
	}
	me := nodeNamed(nodes, n.Name)
	was := me != nil && me.Drained()
	// A drain of ours beyond the brake is about to be taken back by who made it: a hook
	// that failed behind that would drain the node again, as "Prolog error" and for good.
	ours := !was || gate.IsOurs(me.Reason)
	if held := out.Verdict.Braked(n.Policy.Brake, n.Name, nodes, n.now()); ours && held != nil {
		n.braked(ctx, hook, out, held)
		return
	}
	if was {
		n.alreadyDrained(ctx, hook, out, me)
		return
	}
	n.drain(ctx, hook, out)
}

// unasked is a verdict that blocks while Slurm cannot be asked or told. What can be
// this node's own fault alone blocks the job all the same: slurmd drains the node by
// itself when its prolog fails. What may be shared lets it start, since without the
// brake a dead server would drain the cluster.
func (n *Node) unasked(hook slurm.Hook, out *Outcome, err error) {
	if !out.Verdict.OwnFault() {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "nothing is drained: " + err.Error() + "; " + out.Reason})
		return
	}
	out.Blocked = true
	root := out.Verdict.Roots[0]
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventDrain, Check: root.Check, Subject: root.Subject, Severity: ioguard.Critical, Shared: root.Shared,
		Text: out.Reason + "; left to slurmd: " + err.Error()})
}

func (n *Node) nodes(ctx context.Context) ([]slurm.Node, error) {
	if n.Slurm.Nodes == nil {
		return nil, errors.New("no Slurm here")
	}
	if end, ok := ctx.Deadline(); ok { // what is left is for acting on the answer, or on none
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*2/3)
		defer cancel()
	}
	nodes, err := n.Slurm.Nodes(ctx)
	if nodeNamed(nodes, n.Name) != nil {
		return nodes, nil // a row of another node that was not understood takes no vote
	}
	if err == nil && len(nodes) == 0 {
		err = errors.New("sinfo lists no node")
	}
	return nodes, err
}

func nodeNamed(nodes []slurm.Node, name string) *slurm.Node {
	i := slices.IndexFunc(nodes, func(x slurm.Node) bool { return x.Name == name })
	if i < 0 {
		return nil
	}
	return &nodes[i]
}

// alreadyDrained leaves the reason alone, whoever gave it. The job may not start
// either way: the node is sick.
func (n *Node) alreadyDrained(ctx context.Context, hook slurm.Hook, out *Outcome, me *slurm.Node) {
	out.Blocked = true
	text := "the node is drained already: " + reasonText(me)
	switch {
	case !gate.IsOurs(me.Reason):
		text = "an administrator drained the node, whose reason stays: " + reasonText(me)
	case out.Memory.Drained == nil:
		n.remember(hook, out)
	}
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventSkip, Text: text + "; found: " + out.Reason})
	n.requeue(ctx, hook, out)
}

// reasonText is a node's reason, which may be as long as a book.
func reasonText(me *slurm.Node) string { return view.Safe(me.Reason[:min(len(me.Reason), 1000)]) }

// braked lets the job start, or sends it back to be held.
func (n *Node) braked(ctx context.Context, hook slurm.Hook, out *Outcome, held *gate.Braking) {
	out.Held = held.String()
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventBrake, Shared: []string{held.Key}, Text: "not drained: " + out.Held + "; " + out.Reason, Severity: ioguard.Critical})
	if n.Policy.Brake.Do != gate.BrakeHolds || !n.starting {
		return
	}
	err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.RequeueHold, JobID: jobOf(hook)})
	if err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "cannot hold the job, so it starts: " + err.Error()})
		return
	}
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventHold, Text: "the job went back to the queue and is held: scontrol release " + jobOf(hook) + " when the fault is over"})
	select { // the hook ends well, and slurmd would start the script before it hears of the end
	case <-time.After(holdReachesNode):
	case <-ctx.Done():
	}
}

// holdReachesNode is how long slurmctld may take to tell slurmd that a job is over:
// after 0.3 s no script of 40 began, after 0.1 s four did.
const holdReachesNode = 700 * time.Millisecond

// jobOf is the job that Slurm requeues: of a heterogeneous one its leader, with
// which the others go.
func jobOf(hook slurm.Hook) string {
	if hook.HetJobID != "" {
		return hook.HetJobID
	}
	return hook.JobID
}

// drain sets the reason before the hook fails: Slurm's own "Prolog error" does not
// replace it. Many nodes that fail in the same second see no others drained, so
// they ask once more behind it and take theirs back where they were too many;
// slurmctld takes the drains one after the other, so at most as many stay as the
// brake allows.
func (n *Node) drain(ctx context.Context, hook slurm.Hook, out *Outcome) {
	// Remembered before it is tried: one that was made in spite of an error, or by a
	// hook that was killed, must be found again when the node is well.
	n.remember(hook, out)
	if err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.Drain, Node: n.Name, Reason: out.Reason}); err != nil {
		n.unasked(hook, out, fmt.Errorf("cannot drain the node: %w", err))
		return
	}
	if nodes, err := n.nodes(ctx); err == nil {
		if held := out.Verdict.Braked(n.Policy.Brake, n.Name, nodes, n.now()); held != nil {
			if err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.Undrain, Node: n.Name}); err == nil {
				n.forget(hook, out)
				n.braked(ctx, hook, out, held)
				return
			}
		}
	}
	out.Blocked = true
	root := out.Verdict.Roots[0]
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventDrain, Check: root.Check, Subject: root.Subject, Text: out.Reason, Severity: ioguard.Critical, Shared: root.Shared})
	n.requeue(ctx, hook, out)
}

func (n *Node) remember(hook slurm.Hook, out *Outcome) {
	d := drained{Drained: gate.Drained{Reason: out.Reason, Time: n.now()}}
	for _, f := range out.Verdict.Roots {
		if !slices.Contains(d.Checks, f.Check) {
			d.Checks = append(d.Checks, f.Check)
		}
	}
	out.Memory.Drained = &d.Drained
	if n.State == nil || n.Dry {
		return
	}
	if err := n.State.Save(drainFile(n.Name), d); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "the drain will not be taken back by itself: " + err.Error()})
	}
}

func (n *Node) forget(hook slurm.Hook, out *Outcome) {
	out.Memory.Drained = nil
	if n.State == nil || n.Dry {
		return
	}
	if err := n.State.Forget(drainFile(n.Name)); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: err.Error()})
	}
}

// requeue sends the batch job that waits for the verdict to another node, where that
// is the policy. Interactive ones cannot be requeued: their users are told by Slurm
// at once.
func (n *Node) requeue(ctx context.Context, hook slurm.Hook, out *Outcome) {
	if !n.starting || out.Verdict.Do() != gate.Requeue {
		return
	}
	if err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.Requeue, JobID: jobOf(hook)}); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "cannot requeue the job: " + err.Error()})
		return
	}
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventRequeue, Text: "the job starts on other nodes"})
}

// resume resumes the node if ioguard drained it and it has been healthy for long
// enough. Slurm is asked only where a drain of ours is remembered, and once after
// each boot: a node without a disk remembers none.
func (n *Node) resume(ctx context.Context, hook slurm.Hook, out *Outcome) {
	if out.Memory.Drained == nil && n.askedSinceBoot(out) {
		return
	}
	if n.unproved(out) {
		out.Memory.Healthy = time.Time{}
		return
	}
	if out.Memory.Healthy.IsZero() || n.now().Sub(out.Memory.Healthy) < n.Undrain {
		return
	}
	nodes, err := n.nodes(ctx)
	if err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "cannot ask Slurm whether the node is drained: " + err.Error()})
		return
	}
	out.Memory.Asked = out.Seen.Boot
	me := nodeNamed(nodes, n.Name)
	if me == nil || !me.Drained() || !gate.IsOurs(me.Reason) {
		n.forget(hook, out)
		return
	}
	if err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.Resume, Node: n.Name}); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "cannot resume the node: " + err.Error()})
		return
	}
	n.forget(hook, out)
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventResume, Text: fmt.Sprintf("healthy for %v, resumed; was: %s", n.now().Sub(out.Memory.Healthy).Round(time.Second), reasonText(me))})
}

// unproved tells that a check for which the node was drained could not be carried
// out: that it found nothing proves nothing.
func (n *Node) unproved(out *Outcome) bool {
	return slices.ContainsFunc(out.Verdict.Outcomes, func(o gate.Outcome) bool {
		return o.Status == gate.Unknown && slices.Contains(n.checks, o.Check)
	})
}

func (n *Node) askedSinceBoot(out *Outcome) bool {
	return out.Memory.Asked != "" && out.Memory.Asked == out.Seen.Boot
}

package prolog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"

	"ioguard"
	"ioguard/action"
	"ioguard/gate"
	"ioguard/lfs"
	"ioguard/node"
	"ioguard/slurm"
	"ioguard/view"
)

// Slurm is what a hook may ask of Slurm and do with it, and only once something is wrong.
type Slurm struct {
	Nodes func(context.Context) ([]slurm.Node, error) // all of the cluster, one command
	Do    action.Actor
}

// Records takes what was found and done. It may be slow: it is called once
// something is wrong, within the budget.
type Records func(ctx context.Context, events []ioguard.NodeEvent) error

// Node is the gate on one node.
type Node struct {
	Name     string // as Slurm knows it
	Looker   *gate.Looker
	Policy   gate.Policy
	Required []string    // mounts that every job needs
	State    *node.State // nil where the state directory cannot be used
	Slurm    Slurm
	Records  Records
	Log      hclog.Logger
	// TellOnly starts every job: there is no configuration that says otherwise.
	TellOnly bool
	// Notice is one line for the job's user, about open findings of his; nil for none.
	Notice func(ctx context.Context, user, jobID string) string
	// Undrain is for how long a node that ioguard drained must be healthy to be resumed.
	Undrain time.Duration
	// Now is the clock, nil for the machine's.
	Now func() time.Time

	events   []ioguard.NodeEvent
	starting bool                 // a job waits for the verdict, and may be requeued
	last     gate.Memory          // what the run before left
	checks   []string             // for which the node was drained
	told     map[string]time.Time // as gate.Memory.Told, of this run
}

func (n *Node) now() time.Time {
	if n.Now == nil {
		return time.Now()
	}
	return n.Now()
}

// Outcome is what became of a run.
type Outcome struct {
	gate.Result
	Blocked bool   // the job may not start, or the node was drained
	Reason  string // why, as the node's reason says
	Held    string // what held a drain back
}

func memoryFile(name string) string { return "nodes/" + name + ".json" }

// drainFile is apart from the memory, which hooks that run at the same time take from
// each other: a drain of ours that is forgotten is never taken back.
func drainFile(name string) string { return "nodes/" + name + ".drained.json" }

// drained is what is kept of a drain of ours.
type drained struct {
	gate.Drained
	Checks []string `json:"checks,omitempty"` // that drained it: none may be unknown when it is resumed
}

// Memory is what the last run left; the zero value where nothing is known, with the
// error where that is not merely the first run.
func (n *Node) Memory() (gate.Memory, error) {
	if n.State == nil {
		return gate.Memory{}, nil
	}
	var m gate.Memory
	err := n.State.Load(memoryFile(n.Name), &m)
	if err != nil {
		m = gate.Memory{}
	}
	var d drained
	m.Drained = nil
	derr := n.State.Load(drainFile(n.Name), &d)
	if derr == nil {
		m.Drained, n.checks = &d.Drained, d.Checks
	}
	return m, errors.Join(notMissing(err), notMissing(derr))
}

func notMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// look runs the gate once.
func (n *Node) look(ctx context.Context, hook slurm.Hook, patience time.Duration) Outcome {
	last, err := n.Memory()
	if err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "what the last run kept cannot be used: " + err.Error()})
	}
	n.last, n.told = last, map[string]time.Time{}
	n.Looker.Cursor = last.Log
	needs := gate.Needs{Node: n.Name, Partition: hook.Partition, Paths: hook.Paths(), Required: n.Required}
	out := Outcome{Result: gate.Run(ctx, n.Looker, &last, &n.Policy, needs, patience)}
	n.unknowns(hook, &out)
	return out
}

// lookAct is look for one who acts on the verdict: a source that hangs must not use
// up the time in which Slurm is asked and told. A third of it is kept for that.
func (n *Node) lookAct(ctx context.Context, hook slurm.Hook) Outcome {
	patience := time.Minute // the checks' own retry times bound it
	if end, ok := ctx.Deadline(); ok {
		left := time.Until(end)
		patience = left / 2
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left*2/3)
		defer cancel()
	}
	return n.look(ctx, hook, patience)
}

// Check runs the gate by hand or as HealthCheckProgram: with drain it acts as the
// prolog does, with undrain it resumes a node that ioguard drained. With neither
// nothing is kept: who looks takes no finding from the next prolog.
func (n *Node) Check(ctx context.Context, hook slurm.Hook, drain, undrain bool) Outcome {
	if !drain && !undrain {
		return n.look(ctx, hook, 0)
	}
	out := n.lookAct(ctx, hook)
	if drain && len(out.Verdict.Roots) > 0 {
		n.block(ctx, hook, &out)
	}
	if undrain && len(out.Verdict.Roots) == 0 {
		n.resume(ctx, hook, &out)
	}
	n.findings(hook, &out)
	n.keep(hook, &out)
	n.write(ctx, hook, &out)
	return out
}

// Job runs the gate before a job. Blocked means that the hook must fail.
func (n *Node) Job(ctx context.Context, hook slurm.Hook) Outcome {
	n.starting = hook.JobID != ""
	out := n.lookAct(ctx, hook)
	if len(out.Verdict.Roots) > 0 {
		n.block(ctx, hook, &out)
	}
	n.findings(hook, &out)
	n.keep(hook, &out)
	if !out.Blocked {
		n.startJob(ctx, hook)
	}
	n.write(ctx, hook, &out)
	return out
}

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
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: fmt.Sprintf("cannot ask Slurm how many nodes fail alike, so nothing is drained: %v; %s", err, out.Reason)})
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

func (n *Node) nodes(ctx context.Context) ([]slurm.Node, error) {
	if n.Slurm.Nodes == nil {
		return nil, errors.New("no Slurm here")
	}
	nodes, err := n.Slurm.Nodes(ctx)
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
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "cannot drain the node: " + err.Error() + "; " + out.Reason})
		return
	}
	if nodes, err := n.nodes(ctx); err == nil {
		if held := out.Verdict.Braked(n.Policy.Brake, n.Name, nodes, n.now()); held != nil {
			if err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.Resume, Node: n.Name}); err == nil {
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
	if n.State == nil {
		return
	}
	if err := n.State.Save(drainFile(n.Name), d); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "the drain will not be taken back by itself: " + err.Error()})
	}
}

func (n *Node) forget(hook slurm.Hook, out *Outcome) {
	out.Memory.Drained = nil
	if n.State == nil {
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

// tell logs an event and keeps it for the records.
func (n *Node) tell(hook slurm.Hook, e ioguard.NodeEvent) {
	e.Time, e.Cluster, e.Node, e.Hook = n.now(), hook.Cluster, n.Name, hookName(hook)
	e.JobID, e.User, e.Partition = hook.JobID, hook.User, hook.Partition
	if e.Severity == "" {
		e.Severity = ioguard.Warning
	}
	n.events = append(n.events, e)
	args := []any{"node", n.Name, "what", e.Kind, "text", e.Text}
	if e.JobID != "" {
		args = append(args, "job_id", e.JobID)
	}
	if e.Kind == ioguard.EventResume {
		n.Log.Info("gate", args...)
		return
	}
	n.Log.Warn("gate", args...)
}

// hookName is which hook runs, as the records name it.
func hookName(hook slurm.Hook) string {
	name := string(hook.Context)
	return strings.TrimSuffix(name, "_slurmd")
}

// toldAgain is how often a finding that stays is recorded anew.
const toldAgain = time.Hour

// news tells whether something was not told in the last while, and remembers that it
// was told now.
func (n *Node) news(key string) bool {
	now := n.now()
	at, ok := n.last.Told[key]
	if ok && now.Sub(at) < toldAgain && !at.After(now) {
		n.told[key] = at
		return false
	}
	n.told[key] = now
	return true
}

// findings records what was found, each finding once in a while.
func (n *Node) findings(hook slurm.Hook, out *Outcome) {
	for _, f := range out.Verdict.Findings() {
		if f.Action == gate.Ignore || !n.news(f.Check+" "+f.Subject) {
			continue
		}
		text := []string{f.Seen}
		text = append(text, f.Evidence...)
		if f.Why != "" {
			text = append(text, f.Why)
		}
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFinding, Check: f.Check, Subject: view.Safe(f.Subject), Severity: severityOf(f.Action), Shared: f.Shared,
			Text: view.Safe(strings.Join(text, "; "))})
	}
	out.Memory.Told = n.told
}

func severityOf(a gate.Action) ioguard.Severity {
	if a.Blocks() {
		return ioguard.Critical
	}
	return ioguard.Warning
}

// unknowns records checks that could not be carried out, each once in a while: the
// job is not to blame.
func (n *Node) unknowns(hook slurm.Hook, out *Outcome) {
	const mark = "unknown "
	for key, at := range n.last.Told { // one that comes and goes is no news each time
		if since := n.now().Sub(at); strings.HasPrefix(key, mark) && since >= 0 && since < toldAgain {
			n.told[key] = at
		}
	}
	var all []string
	for _, o := range out.Verdict.Outcomes {
		if o.Status == gate.Unknown && n.news(mark+o.Check) {
			all = append(all, o.Check+": "+o.Why)
		}
	}
	if len(all) > 0 {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "not looked at: " + strings.Join(all, "; ")})
	}
}

// keep stores what the next run must know.
func (n *Node) keep(hook slurm.Hook, out *Outcome) {
	if n.State == nil {
		return
	}
	m := out.Memory
	m.Drained = nil // it has a file of its own
	if err := n.State.Save(memoryFile(n.Name), m); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: err.Error()})
	}
}

// write hands the events to the records. What these did not take is not told: the
// next run tells it again.
func (n *Node) write(ctx context.Context, hook slurm.Hook, out *Outcome) {
	if len(n.events) == 0 || n.Records == nil {
		return
	}
	if err := n.Records(ctx, n.events); err != nil {
		n.Log.Warn("records cannot be written", "error", err)
		out.Memory.Told = n.last.Told
		n.keep(hook, out)
	}
}

// startJob keeps what the epilog needs to know of the job.
func (n *Node) startJob(ctx context.Context, hook slurm.Hook) {
	if n.State == nil || hook.JobID == "" {
		return
	}
	now := n.now()
	j := node.Job{ID: hook.JobID, Started: now, Hook: hook}
	j.Hook.Comment, j.Hook.Problems = "", nil // of any size, and nobody asks for them
	if mounts, err := lfs.ReadLlite(n.Looker.Host.FS); err == nil {
		for i := range mounts {
			j.Llite = append(j.Llite, mounts[i].Sum())
		}
	}
	if err := n.State.SaveJob(n.Name, j, now.Add(-maxJob)); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: err.Error()})
	}
	n.notice(ctx, hook)
}

// notice adds the line for the user to what the job's tasks are told.
func (n *Node) notice(ctx context.Context, hook slurm.Hook) {
	if n.Notice == nil || hook.UID == nil {
		return
	}
	line := n.Notice(ctx, hook.User, hook.JobID)
	if line == "" {
		return
	}
	task, err := n.State.Task(n.Name, hook.JobID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	task.Notice = line
	if err := n.State.SaveTask(n.Name, hook.JobID, *hook.UID, task); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: err.Error()})
	}
}

// maxJob is the longest that a job is thought to run: what was kept of older ones
// is left over.
const maxJob = 60 * 24 * time.Hour

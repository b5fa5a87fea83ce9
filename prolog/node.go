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

	events []ioguard.NodeEvent
}

// Outcome is what became of a run.
type Outcome struct {
	gate.Result
	Blocked bool   // the job may not start, or the node was drained
	Reason  string // why, as the node's reason says
	Held    string // what held a drain back
}

func memoryFile(name string) string { return "nodes/" + name + ".json" }

// Memory is what the last run left; the zero value where nothing is known, with the
// error where that is not merely the first run.
func (n *Node) Memory() (gate.Memory, error) {
	var m gate.Memory
	if n.State == nil {
		return m, nil
	}
	err := n.State.Load(memoryFile(n.Name), &m)
	if errors.Is(err, fs.ErrNotExist) {
		return gate.Memory{}, nil
	}
	if err != nil {
		return gate.Memory{}, err
	}
	return m, nil
}

// look runs the gate once and acts on a verdict that blocks.
func (n *Node) look(ctx context.Context, hook slurm.Hook, patience time.Duration) (Outcome, gate.Memory) {
	last, err := n.Memory()
	if err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "what the last run kept cannot be used: " + err.Error()})
	}
	n.Looker.Cursor = last.Log
	needs := gate.Needs{Node: n.Name, Partition: hook.Partition, Paths: hook.Paths(), Required: n.Required}
	out := Outcome{Result: gate.Run(ctx, n.Looker, &last, &n.Policy, needs, patience)}
	out.Memory.Drained = last.Drained
	n.unknowns(hook, &out)
	return out, last
}

// Check runs the gate by hand or as HealthCheckProgram: with drain it acts as the
// prolog does, with undrain it resumes a node that ioguard drained.
func (n *Node) Check(ctx context.Context, hook slurm.Hook, drain, undrain bool) Outcome {
	patience := time.Duration(0)
	if drain {
		patience = time.Minute // the checks' own retry times bound it
	}
	out, _ := n.look(ctx, hook, patience)
	if drain && len(out.Verdict.Roots) > 0 {
		n.block(ctx, hook, &out)
	}
	if undrain && len(out.Verdict.Roots) == 0 {
		n.resume(ctx, hook, &out)
	}
	n.findings(hook, &out)
	n.keep(hook, &out)
	n.write(ctx)
	return out
}

// Job runs the gate before a job. Blocked means that the hook must fail.
func (n *Node) Job(ctx context.Context, hook slurm.Hook) Outcome {
	out, _ := n.look(ctx, hook, time.Minute)
	if len(out.Verdict.Roots) > 0 {
		n.block(ctx, hook, &out)
	}
	n.findings(hook, &out)
	n.keep(hook, &out)
	if !out.Blocked {
		n.startJob(ctx, hook)
	}
	n.write(ctx)
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
	if me := nodeNamed(nodes, n.Name); me != nil && me.Drained() {
		n.alreadyDrained(hook, out, me)
		return
	}
	if held := out.Verdict.Braked(n.Policy.Brake, n.Name, nodes, time.Now()); held != nil {
		n.braked(ctx, hook, out, held)
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
func (n *Node) alreadyDrained(hook slurm.Hook, out *Outcome, me *slurm.Node) {
	out.Blocked = true
	text := "the node is drained already: " + view.Safe(me.Reason)
	if !gate.IsOurs(me.Reason) {
		text = "an administrator drained the node, whose reason stays: " + view.Safe(me.Reason)
	}
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventSkip, Text: text + "; found: " + out.Reason})
}

// braked lets the job start, or sends it back to be held.
func (n *Node) braked(ctx context.Context, hook slurm.Hook, out *Outcome, held *gate.Braking) {
	out.Held = held.String()
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventBrake, Shared: []string{held.Key}, Text: "not drained: " + out.Held + "; " + out.Reason, Severity: ioguard.Critical})
	if n.Policy.Brake.Do != gate.BrakeHolds || hook.JobID == "" {
		return
	}
	err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.RequeueHold, JobID: hook.JobID})
	if err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "cannot hold the job, so it starts: " + err.Error()})
		return
	}
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventHold, Text: "the job went back to the queue and is held: scontrol release " + hook.JobID + " when the fault is over"})
}

// drain sets the reason before the hook fails: Slurm's own "Prolog error" does not
// replace it. Many nodes that fail in the same second see no others drained, so
// they ask once more behind it and take theirs back where they were too many;
// slurmctld takes the drains one after the other, so at most as many stay as the
// brake allows.
func (n *Node) drain(ctx context.Context, hook slurm.Hook, out *Outcome) {
	if err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.Drain, Node: n.Name, Reason: out.Reason}); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "cannot drain the node: " + err.Error() + "; " + out.Reason})
		return
	}
	if nodes, err := n.nodes(ctx); err == nil {
		if held := out.Verdict.Braked(n.Policy.Brake, n.Name, nodes, time.Now()); held != nil {
			if err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.Resume, Node: n.Name}); err == nil {
				n.braked(ctx, hook, out, held)
				return
			}
		}
	}
	out.Blocked = true
	out.Memory.Drained = &gate.Drained{Reason: out.Reason, Time: time.Now()}
	root := out.Verdict.Roots[0]
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventDrain, Check: root.Check, Subject: root.Subject, Text: out.Reason, Severity: ioguard.Critical, Shared: root.Shared})
	if out.Verdict.Do() == gate.Requeue && hook.JobID != "" {
		n.requeue(ctx, hook)
	}
}

// requeue sends a batch job to another node. Interactive ones cannot be requeued:
// their users are told by Slurm at once.
func (n *Node) requeue(ctx context.Context, hook slurm.Hook) {
	if err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.Requeue, JobID: hook.JobID}); err != nil {
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
	if out.Memory.Healthy.IsZero() || time.Since(out.Memory.Healthy) < n.Undrain {
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
		out.Memory.Drained = nil
		return
	}
	if err := n.Slurm.Do.Do(ctx, action.Change{Kind: action.Resume, Node: n.Name}); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "cannot resume the node: " + err.Error()})
		return
	}
	out.Memory.Drained = nil
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventResume, Text: fmt.Sprintf("healthy for %v, resumed; was: %s", time.Since(out.Memory.Healthy).Round(time.Second), view.Safe(me.Reason))})
}

func (n *Node) askedSinceBoot(out *Outcome) bool {
	return out.Memory.Asked != "" && out.Memory.Asked == out.Seen.Boot
}

// tell logs an event and keeps it for the records.
func (n *Node) tell(hook slurm.Hook, e ioguard.NodeEvent) {
	e.Time, e.Cluster, e.Node, e.Hook = time.Now(), hook.Cluster, n.Name, hookName(hook)
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

// findings records what was found, each finding once in a while.
func (n *Node) findings(hook slurm.Hook, out *Outcome) {
	told := map[string]time.Time{}
	now := time.Now()
	for _, f := range out.Verdict.Findings() {
		if f.Action == gate.Ignore {
			continue
		}
		key := f.Check + " " + f.Subject
		if at, ok := out.Memory.Told[key]; ok && now.Sub(at) < toldAgain && now.After(at) {
			told[key] = at
			continue
		}
		told[key] = now
		text := []string{f.Seen}
		text = append(text, f.Evidence...)
		if f.Why != "" {
			text = append(text, f.Why)
		}
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFinding, Check: f.Check, Subject: view.Safe(f.Subject), Severity: severityOf(f.Action), Shared: f.Shared,
			Text: view.Safe(strings.Join(text, "; "))})
	}
	out.Memory.Told = told
}

func severityOf(a gate.Action) ioguard.Severity {
	if a.Blocks() {
		return ioguard.Critical
	}
	return ioguard.Warning
}

// unknowns records checks that could not be carried out: the job is not to blame.
func (n *Node) unknowns(hook slurm.Hook, out *Outcome) {
	var all []string
	for _, o := range out.Verdict.Outcomes {
		if o.Status == gate.Unknown {
			all = append(all, o.Check+": "+o.Why)
		}
	}
	if len(all) == 0 {
		return
	}
	key, now := "unknown "+strings.Join(all, "|"), time.Now()
	if at, ok := out.Memory.Told[key]; ok && now.Sub(at) < toldAgain && now.After(at) {
		return
	}
	if out.Memory.Told == nil {
		out.Memory.Told = map[string]time.Time{}
	}
	n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: "not looked at: " + strings.Join(all, "; ")})
}

// keep stores what the next run must know.
func (n *Node) keep(hook slurm.Hook, out *Outcome) {
	if n.State == nil {
		return
	}
	if err := n.State.Save(memoryFile(n.Name), out.Memory); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: err.Error()})
	}
}

// write hands the events to the records.
func (n *Node) write(ctx context.Context) {
	if len(n.events) == 0 || n.Records == nil {
		return
	}
	if err := n.Records(ctx, n.events); err != nil {
		n.Log.Warn("records cannot be written", "error", err)
	}
}

// startJob keeps what the epilog needs to know of the job.
func (n *Node) startJob(ctx context.Context, hook slurm.Hook) {
	if n.State == nil || hook.JobID == "" {
		return
	}
	now := time.Now()
	others, err := n.State.OtherJobs(n.Name, hook.JobID, now.Add(-maxJob))
	j := node.Job{ID: hook.JobID, Started: now, Hook: hook, Alone: err == nil && len(others) == 0}
	if mounts, err := lfs.ReadLlite(n.Looker.Host.FS); err == nil {
		for i := range mounts {
			j.Llite = append(j.Llite, mounts[i].Sum())
		}
	}
	if err := n.State.SaveJob(n.Name, j); err != nil {
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

package prolog

import (
	"context"
	"errors"
	"io/fs"
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
	// Dry keeps and records nothing. Slurm.Do must be a dry run too.
	Dry bool
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
	if n.State == nil || n.Dry {
		return
	}
	if n.littleNews(out) {
		return
	}
	m := out.Memory
	m.Drained = nil // it has a file of its own
	if err := n.State.Save(memoryFile(n.Name), m); err != nil {
		n.tell(hook, ioguard.NodeEvent{Kind: ioguard.EventFailOpen, Text: err.Error()})
	}
}

// keepEvery is how often the memory of a healthy node is written: a burst of short jobs
// compares with the first of them.
const keepEvery = 30 * time.Second

// littleNews tells a run that found nothing, soon after one that was kept.
func (n *Node) littleNews(out *Outcome) bool {
	since := out.Memory.Time.Sub(n.last.Time)
	return out.Verdict.Healthy() && len(n.events) == 0 && n.last.Boot == out.Memory.Boot && n.last.Healthy.Equal(out.Memory.Healthy) &&
		since >= 0 && since < keepEvery && n.last.Asked == out.Memory.Asked && len(n.told) == len(n.last.Told)
}

// write hands the events to the records. What these did not take is not told: the
// next run tells it again.
func (n *Node) write(ctx context.Context, hook slurm.Hook, out *Outcome) {
	if len(n.events) == 0 || n.Records == nil || n.Dry {
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

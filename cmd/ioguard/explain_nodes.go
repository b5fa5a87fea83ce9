package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"ioguard"
	"ioguard/store"
	"ioguard/view"
)

// shownNodes bounds what explain prints of a job on many nodes.
const shownNodes = 16

// nodeFacts is what Slurm's hooks told of a job.
type nodeFacts struct {
	jobs   []ioguard.NodeJob
	events []ioguard.NodeEvent // the newest first
	beside map[int][]string    // ids of other jobs on the node meanwhile, by index of jobs
}

func (n *nodeFacts) none() bool { return len(n.jobs)+len(n.events) == 0 }

// readNodeFacts asks the records. Who else was on a node is asked where the job
// was not alone and will be shown.
func readNodeFacts(ctx context.Context, s *store.Store, jobID string) (n nodeFacts, err error) {
	if n.jobs, err = s.NodeJobs(ctx, jobID); err != nil {
		return n, err
	}
	if n.events, err = s.NodeEvents(ctx, store.EventQuery{JobID: jobID}); err != nil {
		return n, err
	}
	n.beside = map[int][]string{}
	for i := range n.jobs[:min(len(n.jobs), shownNodes+1)] {
		j := &n.jobs[i]
		if j.Exclusive == nil || *j.Exclusive || j.Start.IsZero() || j.End.IsZero() {
			continue
		}
		others, err := s.NodeJobsOn(ctx, j.Node, j.Start, j.End)
		if err != nil {
			return n, err
		}
		for k := range others {
			if others[k].JobID != j.JobID {
				n.beside[i] = append(n.beside[i], others[k].JobID)
			}
		}
	}
	return n, nil
}

// accountOf is the account of a job that only the hooks know by this id: an
// array's task is kept under its own number.
func accountOf(ctx context.Context, s *store.Store, jobID string, n *nodeFacts) (*store.JobAccount, error) {
	a := &store.JobAccount{Owner: ioguard.Owner{JobID: jobID}}
	if len(n.jobs) == 0 || n.jobs[0].JobID == jobID {
		return a, nil
	}
	known, err := s.Job(ctx, n.jobs[0].JobID)
	if errors.Is(err, store.ErrNotFound) {
		return a, nil
	}
	return known, err
}

// nodeJobJSON is a job on a node with its times in Unix seconds, null where unknown.
type nodeJobJSON struct {
	ioguard.NodeJob
	Start *float64 `json:"start"`
	End   *float64 `json:"end"`
}

func jsonNodeJobs(jobs []ioguard.NodeJob) []nodeJobJSON {
	var out []nodeJobJSON
	for _, j := range jobs {
		for _, text := range []*string{&j.Cluster, &j.JobID, &j.ArrayJobID, &j.ArrayTaskID, &j.HetJobID, &j.Node, &j.User, &j.Account,
			&j.Partition, &j.Name, &j.NodeList, &j.WorkDir} {
			*text = validText(*text)
		}
		out = append(out, nodeJobJSON{j, unixKnown(j.Start), unixKnown(j.End)})
	}
	return out
}

// unixKnown is Unix seconds, nil of no time.
func unixKnown(t time.Time) *float64 {
	if t.IsZero() {
		return nil
	}
	u := unix(t)
	return &u
}

// nodes says what the hooks told: nothing where there is nothing.
func (x *explainer) nodes(n *nodeFacts) {
	if n.none() {
		return
	}
	x.say("\nOn its nodes")
	if s := jobFacts(n.jobs); s != "" {
		x.say("  %s", s)
	}
	for i := range n.jobs {
		if i == shownNodes && len(n.jobs) > i+1 {
			x.say("  and %d more (all with --json)", len(n.jobs)-i)
			break
		}
		x.nodeJob(&n.jobs[i], n.beside[i])
	}
	for i := len(n.events) - 1; i >= 0; i-- {
		x.say("  %s", view.Safe(eventSentence(&n.events[i])))
	}
}

// jobFacts is what no node has for itself.
func jobFacts(jobs []ioguard.NodeJob) string {
	var j ioguard.NodeJob
	for i := range jobs { // the newest that knows
		o := &jobs[i]
		if o.ArrayJobID != "" {
			j.ArrayJobID, j.ArrayTaskID = o.ArrayJobID, o.ArrayTaskID
		}
		if o.HetJobID != "" {
			j.HetJobID = o.HetJobID
		}
		if o.WorkDir != "" {
			j.WorkDir = o.WorkDir
		}
	}
	var parts []string
	if j.ArrayJobID != "" {
		parts = append(parts, "task "+view.Safe(orDash(j.ArrayTaskID))+" of array "+view.Safe(j.ArrayJobID))
	}
	if j.HetJobID != "" {
		parts = append(parts, "part of job "+view.Safe(j.HetJobID))
	}
	if j.WorkDir != "" {
		parts = append(parts, "in "+view.Safe(j.WorkDir))
	}
	return strings.Join(parts, ", ")
}

func (x *explainer) nodeJob(j *ioguard.NodeJob, beside []string) {
	name := "slurmctld"
	if j.Node != "" {
		name = view.Safe(j.Node)
	}
	parts := []string{spanText(j.Start, j.End)}
	if j.ExitCode != nil {
		parts = append(parts, exitText(*j.ExitCode))
	}
	if j.RestartCount != nil && *j.RestartCount > 0 {
		parts = append(parts, fmt.Sprintf("restart %d", *j.RestartCount))
	}
	switch {
	case j.Exclusive == nil:
	case *j.Exclusive:
		parts = append(parts, "alone on the node")
	case len(beside) > 0:
		parts = append(parts, "beside job "+view.Safe(listed(beside, 5)))
	default:
		parts = append(parts, "beside other jobs")
	}
	x.say("  %s: %s", name, strings.Join(parts, ", "))
	for i := range j.FS {
		if s := fsText(&j.FS[i]); s != "" {
			x.say("    %s: %s", view.Safe(j.FS[i].FS), s)
		}
	}
	if len(j.FS) > 0 && (j.Exclusive == nil || !*j.Exclusive) {
		x.say("    (the whole node's work, which need not be the job's)")
	}
}

func listed(names []string, most int) string {
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func spanText(start, end time.Time) string {
	at := func(t time.Time) string { return t.Local().Format(time.DateTime) }
	switch {
	case end.IsZero():
		return "since " + at(start) + ", no end was told"
	case start.IsZero():
		return "until " + at(end)
	case end.Before(start): // the clock was set
		return "from " + at(start) + " to " + at(end)
	}
	return fmt.Sprintf("from %s for %s", at(start), view.Duration(end.Sub(start)))
}

// exitText tells a wait status in words. Slurm gives 0 to the epilog of jobs that
// were cancelled, requeued or ran out of time, too.
func exitText(status int) string {
	w := syscall.WaitStatus(status)
	switch {
	case status == 0:
		return "exit 0 (also of jobs that Slurm ended)"
	case status < 0 || status > 0xffff:
		return fmt.Sprintf("wait status %d", status)
	case w.Signaled() && w.CoreDump():
		return fmt.Sprintf("killed by signal %d (%v), core dumped", w.Signal(), w.Signal())
	case w.Signaled():
		return fmt.Sprintf("killed by signal %d (%v)", w.Signal(), w.Signal())
	case w.Exited():
		return fmt.Sprintf("exit %d", w.ExitStatus())
	}
	return fmt.Sprintf("wait status %d", status)
}

// fsText says what a node did on a file system, leaving out what it did not.
func fsText(f *ioguard.NodeFS) string {
	var parts []string
	count := func(n *uint64, verb, one, many string) {
		switch {
		case n == nil || *n == 0:
		case *n == 1:
			parts = append(parts, verb+" 1 "+one)
		default:
			parts = append(parts, verb+" "+view.Count(float64(*n))+" "+many)
		}
	}
	data := func(verb string, bytes, calls *uint64) {
		if bytes == nil || *bytes == 0 {
			return
		}
		s := fmt.Sprintf("%s %sB", verb, iec(float64(*bytes)))
		if calls != nil && *calls > 0 {
			s += fmt.Sprintf(" by calls of %sB", iec(float64(*bytes)/float64(*calls)))
		}
		parts = append(parts, s)
	}
	data("read", f.ReadBytes, f.Reads)
	data("wrote", f.WriteBytes, f.Writes)
	count(f.Opens, "opened", "file", "files")
	count(f.Creates, "made", "file", "files")
	count(f.Mkdirs, "made", "directory", "directories")
	count(f.Unlinks, "removed", "file", "files")
	count(f.Getattrs, "looked at the attributes of", "file", "files")
	count(f.Fsyncs, "synced", "time", "times")
	if len(parts) == 0 {
		return ""
	}
	s := strings.Join(parts, ", ")
	if f.Reset {
		s += "; at least: the counters were reset meanwhile"
	}
	return s
}

var didWhat = map[ioguard.NodeEventKind]string{
	ioguard.EventFinding:  "found",
	ioguard.EventDrain:    "drained the node",
	ioguard.EventResume:   "resumed the node",
	ioguard.EventRequeue:  "requeued the job",
	ioguard.EventHold:     "held the job",
	ioguard.EventBrake:    "did nothing, for too many nodes suffer the same",
	ioguard.EventFailOpen: "could not look, and went on",
	ioguard.EventSkip:     "left out",
}

// eventSentence is "2026-11-21 12:00:01 prolog on n12: drained the node: ib-port mlx5_0/1: Down/Polling".
func eventSentence(e *ioguard.NodeEvent) string {
	s := e.Time.Local().Format(time.DateTime)
	if e.Hook != "" {
		s += " " + e.Hook
	}
	if e.Node != "" {
		s += " on " + e.Node
	}
	did := didWhat[e.Kind]
	if did == "" {
		did = string(e.Kind)
	}
	s += ": " + did
	if what := strings.TrimSpace(e.Check + " " + e.Subject); what != "" {
		s += ": " + what
	}
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

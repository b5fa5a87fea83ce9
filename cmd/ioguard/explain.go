package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"ioguard"
	"ioguard/store"
	"ioguard/view"
)

func explainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "what a job did, why it was flagged, and what to change",
		UsageText: "ioguard explain JOB [--db FILE] [--json]",
		Description: `Tells from the records, in plain words, what a job did to the file system, which
rules flagged it and by which figures, and what its user should change; and what
Slurm's hooks saw and did on its nodes.

  ioguard explain 4711
  ioguard explain 4711_3                 an array task
  ioguard explain rsync.1001             a user's process outside of Slurm`,
		Flags:        []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "print JSON"}, dbFlag()},
		OnUsageError: onUsageError,
		Action:       explain,
	}
}

// explainJSON is stable.
type explainJSON struct {
	JobID    string           `json:"job_id"`
	User     string           `json:"user,omitempty"`
	Account  string           `json:"account,omitempty"`
	Name     string           `json:"name,omitempty"`
	Nodes    string           `json:"nodes,omitempty"`
	State    string           `json:"state,omitempty"`
	FS       string           `json:"fs,omitempty"`
	First    *float64         `json:"first"` // null where no work of it was seen
	Last     *float64         `json:"last"`
	Totals   topRow           `json:"totals"`
	Findings []findingWindows `json:"findings"`

	NodeJobs   []nodeJobJSON   `json:"node_jobs,omitempty"`
	NodeEvents []nodeEventJSON `json:"node_events,omitempty"`
}

type findingWindows struct {
	findingJSON
	Windows []ioguard.Window `json:"windows,omitempty"`
}

func explain(c *cli.Context) error {
	if c.NArg() != 1 {
		return usageError("ioguard explain JOB, as 'ioguard top' names it", "which job?")
	}
	conf, err := loadConfig()
	if err != nil {
		return err
	}
	id := c.Args().First()
	s, err := openRecords(c, dbOf(c, conf))
	if err != nil {
		return err
	}
	defer s.Close()
	onNodes, err := readNodeFacts(c.Context, s, id)
	if err != nil {
		return readError(err)
	}
	a, err := s.Job(c.Context, id)
	if errors.Is(err, store.ErrNotFound) && !onNodes.none() {
		a, err = accountOf(c.Context, s, id, &onNodes)
	}
	if errors.Is(err, store.ErrNotFound) {
		return readError(ioguard.WithHint(fmt.Errorf("no records of job %s", view.Safe(id)), "'ioguard top --since 30d -n 0' lists the jobs there are"))
	}
	if err != nil {
		return readError(err)
	}
	if c.Bool("json") {
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", " ")
		j := explainObject(a)
		j.NodeJobs = jsonNodeJobs(onNodes.jobs)
		if len(onNodes.events) > 0 {
			j.NodeEvents = jsonEvents(onNodes.events)
		}
		return enc.Encode(j)
	}
	x := &explainer{w: c.App.Writer}
	x.head(a)
	x.nodes(&onNodes)
	x.job(a)
	return x.err
}

func explainObject(a *store.JobAccount) explainJSON {
	o := &a.Owner
	j := explainJSON{JobID: validText(o.JobID), User: o.User, Account: o.Account, Name: validText(o.Name), Nodes: o.Nodes, State: o.State,
		FS: a.Totals.FS, First: unixKnown(a.First), Last: unixKnown(a.Last), Findings: []findingWindows{},
		Totals: jsonRow(&store.TopRow{Key: o.JobID, JobID: o.JobID, Jobs: 1, Totals: a.Totals, Findings: len(a.Findings)})}
	for _, f := range a.Findings {
		f.Severity = f.Worst
		j.Findings = append(j.Findings, findingWindows{jsonOf(f.Finding, ""), f.Windows})
	}
	return j
}

// explainer writes sentences; the first error ends it.
type explainer struct {
	w   io.Writer
	err error
}

func (x *explainer) say(format string, args ...any) {
	if x.err == nil {
		_, x.err = fmt.Fprintf(x.w, format+"\n", args...)
	}
}

func (x *explainer) job(a *store.JobAccount) {
	if a.First.IsZero() && len(a.Findings) == 0 {
		x.say("\nThe servers' records hold no work of it.")
		return
	}
	x.did(a)
	if len(a.Findings) == 0 {
		x.say("\nIt was not flagged: no rule found that it hurt others.")
		return
	}
	advice := map[string]bool{}
	for i := range a.Findings {
		x.finding(&a.Findings[i])
	}
	for i := range a.Findings {
		f := &a.Findings[i]
		if f.Advice != "" && !advice[f.Rule] {
			advice[f.Rule] = true
			x.say("\nWhat to change (%s)", f.Rule)
			for _, line := range strings.Split(strings.TrimSpace(f.Advice), "\n") {
				x.say("  %s", view.Safe(line))
			}
		}
	}
}

// head names the job.
func (x *explainer) head(a *store.JobAccount) {
	o := &a.Owner
	s := "Job " + view.Safe(o.JobID)
	if o.Name != "" {
		s += " (" + view.Safe(o.Name) + ")"
	}
	if o.User != "" {
		s += " of " + view.Safe(o.User)
	}
	if o.Account != "" {
		s += ", account " + view.Safe(o.Account)
	}
	if o.Nodes != "" {
		s += ", on " + view.Safe(o.Nodes)
	}
	if a.Totals.FS != "" {
		s += ", file system " + view.Safe(a.Totals.FS)
	}
	x.say("%s", s)
	if !a.First.IsZero() {
		x.say("seen from %s to %s", a.First.Local().Format(time.DateTime), a.Last.Local().Format(time.TimeOnly))
	}
}

// did says what the job did, leaving out what it did not.
func (x *explainer) did(a *store.JobAccount) {
	w := &a.Totals
	x.say("\nWhat it did")
	data := func(verb string, bytes, ops, usec, peak float64) {
		if ops == 0 {
			return
		}
		s := fmt.Sprintf("  %s %sB in %s requests of %sB", verb, iec(bytes), view.Count(ops), iec(bytes/ops))
		if usec > 0 {
			s += fmt.Sprintf(", %s each", view.Usec(usec/ops))
		}
		if peak > 0 {
			s += fmt.Sprintf("; at most %sB/s", iec(peak))
		}
		x.say("%s", s)
	}
	data("read", w.ReadBytes, w.ReadOps, w.ReadUsec, w.PeakReadBytes)
	data("wrote", w.WriteBytes, w.WriteOps, w.WriteUsec, w.PeakWriteBytes)
	var parts []string
	for _, m := range []struct {
		n    float64
		name string
	}{{w.Opens, "opened"}, {w.Creates, "made"}, {w.Unlinks, "removed"}} {
		if m.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", m.name, files(m.n)))
		}
	}
	if n := w.Getattrs + w.HiddenGetattrs; n > 0 {
		s := fmt.Sprintf("looked at the attributes of %s", files(n))
		if w.HiddenGetattrs > 0 {
			s += fmt.Sprintf(" (%s of them inferred: the kernel does not count them for the job)", view.Count(w.HiddenGetattrs))
		}
		parts = append(parts, s)
	}
	if w.Syncs > 0 {
		parts = append(parts, fmt.Sprintf("synced %s times", view.Count(w.Syncs)))
	}
	for _, p := range parts {
		x.say("  %s", p)
	}
	if w.PeakMetaOps > 0 {
		x.say("  at most %s metadata operations per second", view.Count(w.PeakMetaOps))
	}
}

func files(n float64) string {
	if n == 1 {
		return "1 file"
	}
	return view.Count(n) + " files"
}

// iec is a number of bytes with its prefix set off: "1.50 Ki", "12 ".
func iec(v float64) string {
	s := view.Bytes(v)
	if n := len(s); n > 0 && s[n-1] >= 'A' {
		return s[:n-1] + " " + s[n-1:] + "i"
	}
	return s + " "
}

// finding says why a rule flagged the job.
func (x *explainer) finding(f *store.FindingRecord) {
	state := "still holds"
	if !f.End.IsZero() {
		state = "held " + view.Duration(f.End.Sub(f.Start))
	}
	x.say("\n%s: %s (%s)", strings.ToUpper(string(f.Worst)), f.Title, f.Rule)
	where := ""
	if f.Server != "" {
		where = " on " + view.Safe(f.Server)
	}
	x.say("  since %s%s, %s", f.Start.Local().Format(time.DateTime), where, state)
	for _, text := range f.Facts {
		x.say("  %s", view.Safe(text))
	}
	if f.Inferred {
		x.say("  (rests in part on inference: the kernel's counters do not name the job for all of it)")
	}
}

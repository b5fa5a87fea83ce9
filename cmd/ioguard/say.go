package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"ioguard"
	"ioguard/engine"
	"ioguard/policy"
	"ioguard/view"
	"ioguard/watch"
)

// sayer prints findings as they come.
type sayer struct {
	out      io.Writer
	json     bool
	opened   int
	owner    func(jobID string) ioguard.Owner // what Slurm told
	told     map[string]map[string]bool       // sentences printed, by the open finding's key
	severity map[string]ioguard.Severity      // last printed
	hiding   map[string]hidingTold            // by target and kind of operation
}

// unaccountedJSON is work that job_stats do not show, as --json prints it.
type unaccountedJSON struct {
	Event     string   `json:"event,omitempty"`
	Target    string   `json:"target"`
	Kind      string   `json:"kind"` // getattr, metadata (others) or data (reads and writes)
	PerSecond float64  `json:"ops_per_second"`
	Share     float64  `json:"share"`
	NID       string   `json:"nid,omitempty"`
	NIDShare  float64  `json:"nid_share,omitempty"`
	Jobs      []string `json:"inferred_jobs"`
}

func jsonUnaccounted(u *engine.Unaccounted, event string) unaccountedJSON {
	j := unaccountedJSON{event, u.Target, u.Kind, u.PerSecond, u.Share, u.NID, u.NIDShare, []string{}}
	for _, id := range u.Jobs {
		j.Jobs = append(j.Jobs, validText(id))
	}
	return j
}

// hidingTold is what was last told of a target's hidden work.
type hidingTold struct {
	nid  string
	seen time.Time // when there last was any
}

// unaccounted tells of a target that does more than its jobs account for: when it
// begins, after a minute without, and once the client is known.
func (s *sayer) unaccounted(now time.Time, list []engine.Unaccounted) error {
	if s.hiding == nil {
		s.hiding = map[string]hidingTold{}
	}
	for i := range list {
		u := &list[i]
		key := u.Target + " " + u.Kind
		last, known := s.hiding[key]
		again := !known || now.Sub(last.seen) > time.Minute || u.NID != "" && u.NID != last.nid
		if u.NID != "" || now.Sub(last.seen) > time.Minute {
			last.nid = u.NID
		}
		last.seen = now
		s.hiding[key] = last
		if !again {
			continue
		}
		var err error
		if s.json {
			err = s.line(jsonUnaccounted(u, "unaccounted"))
		} else {
			_, err = fmt.Fprintf(s.out, "%s unaccounted %s\n", now.Format(time.TimeOnly), unaccountedText(u))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func unaccountedText(u *engine.Unaccounted) string {
	kind := map[string]string{"getattr": "getattr/s", "metadata": "metadata operations/s", "data": "reads and writes/s"}[u.Kind]
	text := fmt.Sprintf("%s: %s %s (%s) show in no job's counters", view.Safe(u.Target), view.Count(u.PerSecond), kind, view.Percent(u.Share))
	if u.NID != "" {
		text += fmt.Sprintf("; %s of them from %s", view.Percent(u.NIDShare), view.Safe(u.NID))
	}
	if u.Kind != "getattr" && len(u.Jobs) == 0 {
		text += "; is jobid_var set on all clients?"
	}
	if len(u.Jobs) > 0 {
		text += "; inferred: job " + view.Safe(strings.Join(u.Jobs, ", "))
	}
	return text
}

// findingJSON is a finding as --json prints it, stable: times are Unix seconds,
// end is null while it holds.
type findingJSON struct {
	Event string `json:"event,omitempty"`
	ioguard.Finding
	User  string   `json:"user,omitempty"`
	Start float64  `json:"start"`
	End   *float64 `json:"end"`
}

func jsonOf(f ioguard.Finding, event string) findingJSON {
	j := findingJSON{Event: event, Finding: f, Start: unix(f.Start)}
	if !f.End.IsZero() {
		end := unix(f.End)
		j.End = &end
	}
	return j
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func (s *sayer) event(now time.Time, ev policy.Event) error {
	if ev.Kind == policy.Opened {
		s.opened++
	}
	if s.json {
		j := jsonOf(ev.Finding, string(ev.Kind))
		j.User = s.owner(ev.Finding.JobID).User
		return s.line(j)
	}
	f := &ev.Finding
	clock := now.Format(time.TimeOnly)
	subject := subjectOf(f)
	if user := s.owner(f.JobID).User; user != "" {
		subject += " of " + view.Safe(user)
	}
	switch ev.Kind {
	case policy.Closed:
		delete(s.told, f.Key())
		delete(s.severity, f.Key())
		_, err := fmt.Fprintf(s.out, "%s cleared  %s %s, held %s\n", clock, f.Rule, subject, view.Duration(f.End.Sub(f.Start)))
		return err
	case policy.Updated:
		text := "more is known of"
		if f.Severity != s.severity[f.Key()] {
			text = "got worse:"
		}
		if _, err := fmt.Fprintf(s.out, "%s %-8s %s %s %s\n", clock, f.Severity, text, f.Rule, subject); err != nil {
			return err
		}
	default:
		if _, err := fmt.Fprintf(s.out, "%s %-8s %s %s: %s\n", clock, f.Severity, f.Rule, subject, f.Title); err != nil {
			return err
		}
	}
	return s.facts(f)
}

// facts prints the sentences of a finding that were not printed before.
func (s *sayer) facts(f *ioguard.Finding) error {
	if s.told == nil {
		s.told, s.severity = map[string]map[string]bool{}, map[string]ioguard.Severity{}
	}
	key := f.Key()
	s.severity[key] = f.Severity
	told := s.told[key]
	if told == nil {
		told = map[string]bool{}
		s.told[key] = told
	}
	for _, text := range f.Facts {
		if told[text] {
			continue
		}
		told[text] = true
		if _, err := fmt.Fprintf(s.out, "         %s\n", view.Safe(text)); err != nil {
			return err
		}
	}
	return nil
}

// subjectOf names what a finding is about, safe for a terminal.
func subjectOf(f *ioguard.Finding) string {
	if f.Subject == "job" {
		id := f.JobID
		if id == "" {
			id = "(empty)"
		}
		return "job " + view.Safe(id)
	}
	return f.Subject + " " + view.Safe(f.Target)
}

func (s *sayer) line(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = fmt.Fprintf(s.out, "%s\n", b)
	return err
}

// end says what a replay came to.
func (s *sayer) end(sum *watch.Summary) {
	if s.json {
		return
	}
	span := view.Duration(sum.End.Sub(sum.Start))
	fmt.Fprintf(s.out, "replayed %d snapshots of %s over %s: %s\n", sum.Snapshots, view.Safe(strings.Join(sum.Servers, ", ")), span, countFindings(sum.Findings))
}

// once says what holds after --once.
func (s *sayer) once(open []ioguard.Finding) {
	if s.json {
		return
	}
	if len(open) == 0 {
		fmt.Fprintln(s.out, "no finding")
	}
}

func countFindings(list []ioguard.Finding) string {
	if len(list) == 0 {
		return "no finding"
	}
	jobs := map[string]bool{}
	for i := range list {
		if list[i].Subject == "job" {
			jobs[list[i].FS+"/"+list[i].JobID] = true
		}
	}
	s := fmt.Sprintf("%d findings", len(list))
	if len(list) == 1 {
		s = "1 finding"
	}
	switch len(jobs) {
	case 0:
		return s + ", no job blamed"
	case 1:
		return s + ", 1 job blamed"
	}
	return fmt.Sprintf("%s, %d jobs blamed", s, len(jobs))
}

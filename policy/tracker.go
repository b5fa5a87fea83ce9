package policy

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"ioguard"
)

// Subject is what rules judge in one step: a job on a file system, an OST, a
// pool or a server.
type Subject struct {
	Kind     SubjectKind
	FS       string
	JobID    string // of a job
	Target   string // name of an OST, pool or server
	Server   string // where it hurts most
	Inferred bool   // the facts rest on inference, not on counters alone
	Facts    Facts
}

// EventKind says what happened to a finding.
type EventKind string

// The kinds of event. A finding is updated when its severity rises, and only then.
const (
	Opened  EventKind = "opened"
	Updated EventKind = "updated"
	Closed  EventKind = "closed"
)

// Event is a finding that opened, rose or closed. The finding shows the worst
// moment: the highest severity so far and the values that first proved it.
type Event struct {
	Kind    EventKind
	Finding ioguard.Finding
}

// Tracker holds the state between steps: which conditions hold and since when.
// It is not safe for concurrent use.
type Tracker struct {
	rules    map[SubjectKind][]*Rule
	states   map[stateKey]*state
	step     uint64
	problems []error
}

type stateKey struct {
	rule   *Rule
	fs, id string
}

// state exists for a rule and subject only while the condition holds, or was
// false for less than the rule's keep time.
type state struct {
	start     time.Time // of the first interval in which the condition held
	lastTrue  time.Time // end of the last one
	trues     int       // samples in a row with the condition true, until it opens
	falses    int       // samples in a row with the condition false
	step      uint64    // the last step in which it was true
	open      bool
	worst     ioguard.Finding
	worstRank int
}

// NewTracker starts with nothing open.
func NewTracker(p *Policy) *Tracker {
	t := &Tracker{rules: map[SubjectKind][]*Rule{}, states: map[stateKey]*state{}}
	for _, r := range p.Rules {
		if !r.Disabled {
			t.rules[r.Subject] = append(t.rules[r.Subject], r)
		}
	}
	return t
}

// Step judges the subjects of one interval that ends now. A subject that is not
// there counts as one for which no condition holds. The condition of a rule is
// taken to hold from the start of the first interval in which it is true, so
// with `for: 4s` a single interval of 5 s is proof enough, and one of 2 s is not.
// Steps must come in the order of time; while a finding is pending, a hole of
// more than one interval between steps starts its time anew.
func (t *Tracker) Step(now time.Time, interval time.Duration, subjects []Subject) []Event {
	t.step++
	t.problems = nil
	failed := map[*Rule]bool{}
	var events []Event
	a := newActivation(Facts{})
	for i := range subjects {
		s := &subjects[i]
		a.reset(s.Facts)
		for _, r := range t.rules[s.Kind] {
			key := stateKey{r, s.FS, s.id()}
			st := t.states[key]
			severity, holds, err := r.judge(a, st)
			if err != nil && !failed[r] {
				failed[r] = true
				t.problems = append(t.problems, fmt.Errorf("rule %s: %s %s: %w", r.Code, s.Kind, s.id(), err))
			}
			if !holds {
				continue
			}
			if st == nil {
				st = &state{}
				t.states[key] = st
			}
			if e, ok := st.hold(r, s, severity, now, interval, t.step); ok {
				events = append(events, e)
			}
		}
	}
	return append(events, t.sweep(now)...)
}

// Problems are the rules that could not be evaluated in the last step, one error
// each. For the subject in question the rule counted as false.
func (t *Tracker) Problems() []error { return t.problems }

// Open are the findings that hold now, in the order of their keys.
func (t *Tracker) Open() []ioguard.Finding {
	var out []ioguard.Finding
	for _, st := range t.states {
		if st.open {
			out = append(out, st.worst)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key() < out[j].Key() })
	return out
}

// sweep is for all conditions that did not hold in this step.
func (t *Tracker) sweep(now time.Time) []Event {
	var closed []Event
	for key, st := range t.states {
		if st.step == t.step {
			continue
		}
		if now.Before(st.lastTrue) { // the clock was set back
			st.lastTrue = now
		}
		st.falses++
		switch {
		case !st.open:
			delete(t.states, key)
		case key.rule.Keep.over(now.Sub(st.lastTrue), st.falses):
			st.worst.End = st.lastTrue
			closed = append(closed, Event{Closed, st.worst})
			delete(t.states, key)
		}
	}
	sort.Slice(closed, func(i, j int) bool { return closed[i].Finding.Key() < closed[j].Finding.Key() })
	return closed
}

// judge tells whether the rule holds for the facts, and how bad it is. The
// severity is "" when only keep_when holds.
func (r *Rule) judge(a *activation, st *state) (ioguard.Severity, bool, error) {
	for _, c := range r.exempt {
		if exempt, err := c.eval(a); err != nil || exempt {
			return "", false, err
		}
	}
	severity, err := r.severity(a)
	if err != nil || severity != "" {
		return severity, severity != "", err
	}
	if st == nil || !st.open || r.keepWhen == nil {
		return "", false, nil
	}
	keep, err := r.keepWhen.eval(a)
	return "", keep, err
}

// severity is the highest level whose condition holds, "" where the rule does not.
func (r *Rule) severity(a *activation) (ioguard.Severity, error) {
	if holds, err := r.when.eval(a); err != nil || !holds {
		return "", err
	}
	for _, l := range r.levels {
		if l.when == nil {
			return l.severity, nil
		}
		if holds, err := l.when.eval(a); err != nil || holds {
			if err != nil {
				return "", err
			}
			return l.severity, nil
		}
	}
	return "", nil
}

// hold takes a step in which the condition holds.
func (st *state) hold(r *Rule, s *Subject, severity ioguard.Severity, now time.Time, interval time.Duration, step uint64) (Event, bool) {
	began := now.Add(-max(0, interval))
	if hole := !st.open && interval > 0 && began.Sub(st.lastTrue) > interval; st.trues == 0 || hole {
		*st = state{start: began, open: st.open}
	}
	if st.step != step { // the same subject twice in a step counts once
		st.trues++
	}
	st.lastTrue, st.step, st.falses = now, step, 0
	rose := severity.Rank() > st.worstRank
	if rose {
		st.worstRank = severity.Rank()
		st.worst = r.finding(s, severity, st.start)
	}
	switch {
	case !st.open && r.For.over(now.Sub(st.start), st.trues):
		st.open = true
		return Event{Opened, st.worst}, true
	case st.open && rose:
		return Event{Updated, st.worst}, true
	}
	return Event{}, false
}

// finding proves the rule with the subject's facts.
func (r *Rule) finding(s *Subject, severity ioguard.Severity, start time.Time) ioguard.Finding {
	f := ioguard.Finding{
		Rule: r.Code, Title: r.Title, Subject: string(s.Kind), JobID: s.JobID, Target: s.Target,
		FS: s.FS, Server: s.Server, Severity: severity, Action: r.Action, Start: start,
		Evidence: make(map[string]float64, len(r.evidence)), Inferred: s.Inferred,
	}
	for _, name := range r.evidence {
		v := s.Facts.Number(NumberID(slots[name].place))
		if !math.IsNaN(v) && !math.IsInf(v, 0) { // what is unknown is left out; JSON has no word for it either
			f.Evidence[name] = v
		}
	}
	for _, fact := range r.facts {
		if text, known := fact.text.render(s.Facts); known {
			f.Facts = append(f.Facts, fact.group+": "+oneLine(text))
		}
	}
	advice, _ := r.advice.render(s.Facts)
	f.Advice = strings.TrimSpace(advice)
	return f
}

func (s *Subject) id() string {
	if s.Kind == JobSubject {
		return s.JobID
	}
	return s.Target
}

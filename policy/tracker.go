package policy

import (
	"fmt"
	"maps"
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

// The kinds of event. A finding is updated when its severity rises, and when a
// number of its evidence becomes known that was not, and only then.
const (
	Opened  EventKind = "opened"
	Updated EventKind = "updated"
	Closed  EventKind = "closed"
)

// Event is a finding that opened, was updated or closed. The finding shows the
// worst moment: the highest severity so far and the values that first proved it.
// What was not known then is filled in from the first moment at which it is, and
// job.bursts and job.period_seconds are the latest.
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
	worst     ioguard.Finding // its map and slice are shared with events: replaced, never changed
	sentences []string        // of the rule's facts, one each; "" while it says something unknown
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
	rose, learned := severity.Rank() > st.worstRank, false
	if rose {
		st.worstRank = severity.Rank()
		st.take(r, s, severity)
	} else {
		learned = st.learn(r, s.Facts)
	}
	switch {
	case !st.open && r.For.over(now.Sub(st.start), st.trues):
		st.open = true
		return Event{Opened, st.worst}, true
	case st.open && (rose || learned):
		return Event{Updated, st.worst}, true
	}
	return Event{}, false
}

// take makes this moment the worst one. What an earlier moment proved and this
// one does not tell is kept.
func (st *state) take(r *Rule, s *Subject, severity ioguard.Severity) {
	before, said := st.worst.Evidence, st.sentences
	advice, _ := r.advice.render(s.Facts)
	st.worst = ioguard.Finding{
		Rule: r.Code, Title: r.Title, Subject: string(s.Kind), JobID: s.JobID, Target: s.Target,
		FS: s.FS, Server: s.Server, Severity: severity, Action: r.Action, Start: st.start,
		Evidence: map[string]float64{}, Advice: strings.TrimSpace(advice), Inferred: s.Inferred,
	}
	st.sentences = make([]string, len(r.facts))
	st.learn(r, s.Facts)
	for name, v := range before {
		if _, known := st.worst.Evidence[name]; !known {
			st.worst.Evidence[name] = v
		}
	}
	for i, text := range said {
		if st.sentences[i] == "" {
			st.sentences[i] = text
		}
	}
	st.say(r)
}

// running are the variables that tell of the whole time and not of a moment:
// a finding shows their latest values.
var running = []string{"job.bursts", "job.period_seconds"}

// learn fills in what was not known so far, and what runs on. It reports whether
// a number of the evidence became known. A sentence is rendered from one moment:
// two numbers from different ones do not belong together.
func (st *state) learn(r *Rule, f Facts) bool {
	evidence, became := st.worst.Evidence, false
	changed := false
	for _, name := range r.evidence {
		v := f.Number(NumberID(slots[name].place))
		if math.IsNaN(v) || math.IsInf(v, 0) { // JSON has no word for it either
			continue
		}
		old, known := evidence[name]
		if known && (old == v || !contains(running, name)) {
			continue
		}
		if !changed {
			evidence, changed = maps.Clone(evidence), true
		}
		evidence[name] = v
		became = became || !known
	}
	st.worst.Evidence = evidence
	said := false
	for i := range r.facts {
		fact := &r.facts[i]
		if st.sentences[i] != "" && !fact.running {
			continue
		}
		if text, known := fact.text.render(f); known && text != st.sentences[i] {
			st.sentences[i] = text
			said = true
		}
	}
	if said {
		st.say(r)
	}
	return became
}

// say writes the sentences into the finding.
func (st *state) say(r *Rule) {
	var facts []string
	for i, text := range st.sentences {
		if text != "" {
			facts = append(facts, r.facts[i].group+": "+oneLine(text))
		}
	}
	st.worst.Facts = facts
}

func (s *Subject) id() string {
	if s.Kind == JobSubject {
		return s.JobID
	}
	return s.Target
}

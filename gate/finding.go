package gate

import (
	"slices"
	"strings"
	"time"

	"ioguard/lfs"
)

// Status is how a check came out.
type Status string

// How a check can come out. Unknown is a check that could not be carried out: it
// is never held against the node.
const (
	OK      Status = "ok"
	Note    Status = "note" // a finding that the policy ignores
	Warned  Status = "warn"
	Failed  Status = "fail"
	Skipped Status = "skip"    // there is nothing to look at
	Unknown Status = "unknown" // could not be looked at
)

// Finding is something wrong, with what proves it.
type Finding struct {
	Check    string    `json:"check"`
	Subject  string    `json:"subject"` // mlx5_0/1, 10.0.0.5@o2ib, lustre-OST0002, /mnt/lustre
	Seen     string    `json:"seen"`
	Expected string    `json:"expected,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	FS       []string  `json:"fs,omitempty"`     // file systems that it concerns; none: the whole node
	Shared   []string  `json:"shared,omitempty"` // what other nodes fail with too when it is not this node's own fault
	Evidence []string  `json:"evidence,omitempty"`
	Action   Action    `json:"action,omitempty"` // by the policy
	Why      string    `json:"why,omitempty"`    // why the action is less than the policy's
	Cause    string    `json:"cause,omitempty"`  // the check whose finding explains this one

	brief string // for the node's reason: the most telling word first
	retry time.Duration
}

// Brief is the finding in a few words, the most telling first.
func (f *Finding) Brief() string {
	if f.brief != "" {
		return f.brief
	}
	return f.Subject + " " + f.Seen
}

// Outcome is how one check came out on one machine.
type Outcome struct {
	Check    string    `json:"check"`
	Title    string    `json:"title"`
	Status   Status    `json:"status"`
	Seen     string    `json:"seen,omitempty"`
	Expected string    `json:"expected,omitempty"`
	Why      string    `json:"why,omitempty"` // why it was skipped or is unknown
	Findings []Finding `json:"findings,omitempty"`
}

// Needs is who asks: the node, and the job that is about to start on it.
type Needs struct {
	Node, Partition string
	Paths           []string // absolute, from the job's environment; none: a check by hand
	Required        []string // mounts that every job needs, by the configuration
}

// used tells which file systems the job uses, as far as its paths tell: those that
// they lie on and those that every job needs. Where no path lies on Lustre nothing
// can be told, and all count.
func (n Needs) used(mounts []lfs.Mount) (fs map[string]bool, known bool) {
	fs = map[string]bool{}
	for _, p := range n.Paths {
		if m := mountOf(mounts, p); m != nil && m.FS != "" {
			fs[m.FS], known = true, true
		}
	}
	for _, p := range n.Required {
		if m := mountOf(mounts, p); m != nil {
			fs[m.FS] = true
		}
	}
	return fs, known
}

// mountOf is the mount with the longest directory above a path. The path is
// compared as text: whose it is could change it, and nothing follows it.
func mountOf(mounts []lfs.Mount, p string) *lfs.Mount {
	var best *lfs.Mount
	for i := range mounts {
		d := strings.TrimSuffix(mounts[i].Dir, "/")
		if (p == d || strings.HasPrefix(p, d+"/")) && (best == nil || len(d) > len(strings.TrimSuffix(best.Dir, "/"))) {
			best = &mounts[i]
		}
	}
	return best
}

// Verdict is what the policy makes of the outcomes.
type Verdict struct {
	Outcomes []Outcome
	Action   Action // the strongest of all findings; "" for none
	// Roots are the blocking findings that no other blocking finding explains.
	Roots []Finding
}

// Healthy tells that nothing but notes was found.
func (v *Verdict) Healthy() bool { return v.Action == "" || v.Action == Ignore }

// Do is what is done about a verdict that blocks: requeue where that is the policy
// for each root, else drain; "" where nothing blocks.
func (v *Verdict) Do() Action {
	do := Action("")
	for _, f := range v.Roots {
		do = stronger(do, f.Action)
	}
	return do
}

// Findings lists all findings, causes before consequences.
func (v *Verdict) Findings() []Finding {
	var all []Finding
	for i := range v.Outcomes {
		all = append(all, v.Outcomes[i].Findings...)
	}
	return all
}

// Decide applies the policy to what Judge found. The outcomes are not changed.
func Decide(outcomes []Outcome, p *Policy, needs Needs, mounts []lfs.Mount) Verdict {
	v := Verdict{Outcomes: slices.Clone(outcomes)}
	used, known := needs.used(mounts)
	for i := range v.Outcomes {
		o := &v.Outcomes[i]
		c, _ := CheckOf(o.Check)
		r := p.Rule(c, needs.Node, needs.Partition)
		o.Findings = slices.Clone(o.Findings)
		for j := range o.Findings {
			f := &o.Findings[j]
			f.Action, f.retry = r.Do, r.Retry
			if known && r.Do.Blocks() && len(f.FS) > 0 && !slices.ContainsFunc(f.FS, func(fs string) bool { return used[fs] }) {
				f.Action, f.Why = Warn, "the job's paths do not lie on it"
			}
			v.Action = stronger(v.Action, f.Action)
		}
		o.Status = statusOf(o)
	}
	v.explain()
	return v
}

var actionOrder = []Action{"", Ignore, Warn, Requeue, Drain}

func stronger(a, b Action) Action {
	if slices.Index(actionOrder, b) > slices.Index(actionOrder, a) {
		return b
	}
	return a
}

func statusOf(o *Outcome) Status {
	worst := Action("")
	for _, f := range o.Findings {
		worst = stronger(worst, f.Action)
	}
	switch {
	case worst.Blocks():
		return Failed
	case worst == Warn:
		return Warned
	case worst == Ignore:
		return Note
	}
	return o.Status
}

// explain names the cause of each finding that has one on this machine, and keeps
// the blocking ones without as roots.
func (v *Verdict) explain() {
	found := map[string]bool{}
	for _, f := range v.Findings() {
		if f.Action != Ignore {
			found[f.Check] = true
		}
	}
	for i := range v.Outcomes {
		for j := range v.Outcomes[i].Findings {
			f := &v.Outcomes[i].Findings[j]
			f.Cause = causeOf(f.Check, found)
		}
	}
	blocking := map[string]bool{}
	for _, f := range v.Findings() {
		if f.Action.Blocks() {
			blocking[f.Check] = true
		}
	}
	for _, f := range v.Findings() {
		if f.Action.Blocks() && causeOf(f.Check, blocking) == "" {
			v.Roots = append(v.Roots, f)
		}
	}
}

func causeOf(code string, found map[string]bool) string {
	c, _ := CheckOf(code)
	for _, cause := range c.Causes {
		if found[cause] {
			return cause
		}
	}
	return ""
}

package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"ioguard/view"
)

// judge gathers the outcomes of one machine.
type judge struct {
	seen *Seen
	site *Site
	last *Memory // of the run before; its time is zero where there was none
	out  map[string]*Outcome
}

// recent is how far back things count that happened before the first run.
const recent = 10 * time.Minute

// Judge turns what was seen into the outcome of every check, in the order of
// Checks. last is what the run before left behind. The policy is applied by Decide.
func Judge(seen *Seen, site *Site, last *Memory) []Outcome {
	j := &judge{seen: seen, site: site, last: last, out: map[string]*Outcome{}}
	for _, c := range checks {
		j.out[c.Code] = &Outcome{Check: c.Code, Title: c.Title, Status: OK}
	}
	j.ib()
	j.lnet()
	j.lfs()
	j.mounts()
	j.kmsg()
	j.local()
	all := make([]Outcome, 0, len(checks))
	for _, c := range checks {
		all = append(all, *j.out[c.Code])
	}
	return all
}

// since is from when on events count.
func (j *judge) since() time.Time {
	if j.last.Time.IsZero() || j.last.Boot != j.seen.Boot {
		return j.seen.Now.Add(-recent)
	}
	return j.last.Time
}

// ran tells whether there was a run before on this boot.
func (j *judge) ran() bool { return !j.last.Time.IsZero() && j.last.Boot == j.seen.Boot }

// found adds a finding. What was seen of the first stands for the check.
func (j *judge) found(f Finding) {
	o := j.out[f.Check]
	o.Findings = append(o.Findings, f)
	if len(o.Findings) == 1 {
		o.Seen, o.Expected = f.Subject+" "+f.Seen, f.Expected
	}
}

// ok says what was seen of checks that found nothing.
func (j *judge) ok(code, seen string, args ...any) {
	if o := j.out[code]; len(o.Findings) == 0 {
		o.Seen = fmt.Sprintf(seen, args...)
	}
}

// without marks checks that found nothing and could not have.
func (j *judge) without(status Status, why string, codes ...string) {
	for _, code := range codes {
		if o := j.out[code]; len(o.Findings) == 0 {
			o.Status, o.Why, o.Seen = status, why, ""
		}
	}
}

// unread marks the checks of a source that gave no answer; true when it gave none.
// What could be read in spite of an error is judged all the same.
func unread[T any](j *judge, a *Answer[T], some bool, codes ...string) bool {
	switch {
	case !a.Asked:
		j.without(Skipped, "not asked", codes...)
	case !a.Done:
		j.without(Unknown, "no answer in time", codes...)
	case a.Err == nil:
		return false
	case some:
		j.without(Unknown, "read in part: "+view.Safe(a.Err.Error()), codes...)
		return false
	case errors.Is(a.Err, fs.ErrNotExist):
		j.without(Skipped, "this machine does not tell: "+view.Safe(a.Err.Error()), codes...)
	default:
		j.without(Unknown, view.Safe(a.Err.Error()), codes...)
	}
	return true
}

// clock is a time as people at the console need it: the hour, with the date when it
// is not of the last 20 hours.
func clock(t, now time.Time) string {
	if now.Sub(t) > 20*time.Hour {
		return t.Format("2006-01-02 15:04")
	}
	return t.Format("15:04")
}

// sinceText is " since 04:16" or nothing.
func sinceText(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " since " + clock(t, now)
}

// list shortens a list for people.
func list(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"ioguard/host"
)

// Status is how a check came out.
type Status string

// How a check can come out. Unknown is one that could not be carried out.
const (
	OK      Status = "ok"
	Note    Status = "note" // worth knowing; nothing needs to be done
	Warned  Status = "warn" // ioguard does less than it could
	Failed  Status = "fail" // ioguard cannot do its work, or does harm
	Skipped Status = "skip" // there is nothing to look at
	Unknown Status = "unknown"
)

// rank orders the statuses of one check that has several things to say.
var rank = []Status{OK, Note, Warned, Failed}

// Outcome is how one check came out on one machine.
type Outcome struct {
	Check    string `json:"check"`
	Group    string `json:"group"`
	Title    string `json:"title"`
	Status   Status `json:"status"`
	Seen     string `json:"seen,omitempty"`
	Expected string `json:"expected"`
	Why      string `json:"why,omitempty"` // why it was skipped or is unknown
	Fix      string `json:"fix"`           // what puts it right when it is not
}

// Bad tells whether something should be done.
func (o *Outcome) Bad() bool { return o.Status == Warned || o.Status == Failed }

// judge gathers the outcomes of one machine.
type judge struct {
	seen *Seen
	site *Site
	out  map[string]*Outcome
}

// Judge turns what was seen into the outcome of every check, in the order of Checks.
func Judge(seen *Seen, site *Site) []Outcome {
	j := &judge{seen: seen, site: site, out: map[string]*Outcome{}}
	for _, c := range checks {
		j.out[c.Code] = &Outcome{Check: c.Code, Group: c.Group, Title: c.Title, Status: OK, Expected: c.Expected, Fix: c.Fix}
	}
	j.conf()
	j.local()
	j.lustre()
	j.lnet()
	j.slurm()
	all := make([]Outcome, 0, len(checks))
	for _, c := range checks {
		all = append(all, *j.out[c.Code])
	}
	return all
}

// is says how a check came out. What is said of it later is added, and the worse
// status stays.
func (j *judge) is(code string, status Status, seen string, args ...any) {
	o := j.out[code]
	text := fmt.Sprintf(seen, args...)
	if o.Seen != "" && text != "" {
		text = o.Seen + "; " + text
	}
	o.Seen = text
	if slices.Index(rank, status) > max(0, slices.Index(rank, o.Status)) {
		o.Status, o.Why = status, ""
	}
}

// wants sets what a check expects of this very machine.
func (j *judge) wants(code, expected string, args ...any) {
	j.out[code].Expected = fmt.Sprintf(expected, args...)
}

// fix sets what puts a check right on this very machine.
func (j *judge) fix(code, fix string, args ...any) { j.out[code].Fix = fmt.Sprintf(fix, args...) }

// without marks checks that could not be carried out, or have nothing to look at.
// What was found before stays.
func (j *judge) without(status Status, why string, codes ...string) {
	for _, code := range codes {
		if o := j.out[code]; o.Status == OK {
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
	case a.Err == nil || some:
		return false
	case errors.Is(a.Err, fs.ErrNotExist):
		j.without(Skipped, "this machine does not tell: "+a.Err.Error(), codes...)
	default:
		j.without(Unknown, j.reason(a.Err), codes...)
	}
	return true
}

// reason is why something could not be looked at.
func (j *judge) reason(err error) string {
	if errors.Is(err, fs.ErrPermission) && j.seen.UID != 0 {
		return "not root: " + err.Error()
	}
	return err.Error()
}

// cause is an error in one short line. Commands of Slurm say last what counts.
func cause(err error) string {
	var ce *host.CommandError
	if !errors.As(err, &ce) || ce.TimedOut || strings.TrimSpace(ce.Stderr) == "" {
		return firstLine(err.Error())
	}
	lines := strings.Split(strings.TrimSpace(ce.Stderr), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// list shortens a list for people.
func list(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

func firstLine[T string | []byte](text T) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return strings.TrimSpace(line)
}

// Package action carries out changes: it drains and resumes nodes, requeues, holds
// and releases jobs. It alone changes a machine.
//
// It decides nothing and reads nothing back. Who drains a node looks at its present
// reason first (slurm.ReadNodes), because Slurm replaces an administrator's reason
// without a word. Dry run, records and a limit are types around an Actor. The gate's
// hooks call it.
package action

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"ioguard/slurm"
)

// Kind is what a change does.
type Kind string

// The kinds of change. What they do to a job was measured with Slurm 22.05.
const (
	// Drain lets no further jobs start on a node; those that run go on. A prolog
	// that fails after it keeps this reason: Slurm's "Prolog error" does not replace it.
	Drain Kind = "drain"
	// Resume takes a drain back. A node that is not drained is an error. It brings up a
	// node that is also down: look at the reason before. (UNDRAIN would leave it down,
	// but takes any node for one that does not answer until slurmctld's next ping.)
	Resume Kind = "resume"
	// Undrain takes back a drain and changes nothing else: a node that is down stays
	// so, one that was not drained is no error, and what runs on it is left alone.
	Undrain Kind = "undrain"
	// Requeue ends a batch job and puts it back into the queue, where it waits for
	// as long as its credential is good (121 s unless AuthInfo=cred_expire says
	// otherwise) and then starts anew, on another node only where this one is drained.
	// Jobs of srun and salloc cannot be requeued ("Only batch jobs are accepted or
	// processed"), nor those of --no-requeue ("Requested operation is presently
	// disabled"); of a heterogeneous job only its first component, and the others go
	// with it. A job that waits already is not an error.
	//
	// A prolog that requeues its job must then fail: after an exit status of 0 slurmd
	// starts the script on this node before it hears of the end (31 of 40 jobs), and
	// after another one it does not (0 of 40), nor is the job held. The node must be
	// drained first then, with a reason, or Slurm drains it for a "Prolog error".
	Requeue Kind = "requeue"
	// RequeueHold is Requeue for a job that then waits until it is released, and
	// afterwards for the rest of its credential's time.
	RequeueHold Kind = "requeue_hold"
	// Release lets a held job start: after RequeueHold, and after a prolog that failed
	// ("launch failed requeued held"), from the moment that the job's reason says so.
	// Before that it does nothing and is no error.
	Release Kind = "release"
)

// Change is one thing to do. Drain, Resume and Undrain want a Node, Drain a Reason too, the
// others a JobID; what a kind does not want is told to records alone.
type Change struct {
	Kind   Kind
	Node   string // one node's name, no hostlist
	JobID  string // as the job's processes see it; or "4711_3" for a task of an array
	Reason string // any bytes: what Slurm gets is one line of at most MaxReason bytes
}

// MaxReason bounds the reason of a change, in bytes.
const MaxReason = 1000

// String is a change without its reason: "drain node1".
func (c Change) String() string {
	if c.Kind == Drain || c.Kind == Resume || c.Kind == Undrain {
		return fmt.Sprintf("%s %s", c.Kind, plain(c.Node))
	}
	return fmt.Sprintf("%s %s", c.Kind, plain(c.JobID))
}

// InvalidError is a change that is not carried out because of what it says.
type InvalidError struct {
	Change Change
	Why    string
}

func (e *InvalidError) Error() string { return fmt.Sprintf("%s: %s", e.Change, e.Why) }

// Check gives an *InvalidError for a change that no Actor carries out.
func (c Change) Check() error {
	why := ""
	switch c.Kind {
	case Drain, Resume, Undrain:
		if !slurm.IsNodeName(c.Node) {
			why = fmt.Sprintf("%.50q is no name of a node", c.Node)
		}
		if c.Kind == Drain && plain(c.Reason) == "" {
			why = "a drain needs a reason"
		}
	case Requeue, RequeueHold, Release:
		if !slurm.IsJobID(c.JobID) {
			why = fmt.Sprintf("%.50q is no job id", c.JobID)
		}
	default:
		why = "unknown kind of change"
	}
	if why == "" {
		return nil
	}
	return &InvalidError{c, why}
}

// Actor carries out changes.
//
// Do returns nil only when the change was made, or as far as the Actor promises to
// make it. An error that is an *InvalidError, or that comes from a context which had
// ended before, says that nothing was done; with any other error, a timeout above
// all, the change may have been made. Do is not retried by any Actor. It returns
// soon after the context ends, and may be called from several goroutines.
type Actor interface {
	Do(ctx context.Context, c Change) error
}

// admit refuses what may not even be tried.
func admit(ctx context.Context, c Change) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: not tried: %w", c, err)
	}
	return nil
}

// plain makes a text fit for a reason: one line of UTF-8. Quotes become single
// ones, since scontrol drops double ones at the ends.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return -1
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			return ' '
		case r == '"':
			return '\''
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.TrimSpace(s)
	if len(s) <= MaxReason {
		return s
	}
	n := MaxReason
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSpace(s[:n])
}

// DryRun says what it would do and does nothing. What would be refused is refused.
type DryRun struct {
	Tell func(Change) // may be nil
}

// Do implements Actor.
func (d DryRun) Do(ctx context.Context, c Change) error {
	if err := admit(ctx, c); err != nil {
		return err
	}
	if d.Tell != nil {
		d.Tell(c)
	}
	return nil
}

// Audit tells each change that is asked of an Actor, also those that fail.
type Audit struct {
	Actor Actor
	Now   func() time.Time
	// Tell is called after the change with the time before it. It may be called
	// from several goroutines.
	Tell func(c Change, began time.Time, err error)
}

// Do implements Actor.
func (a Audit) Do(ctx context.Context, c Change) error {
	began := a.Now()
	err := a.Actor.Do(ctx, c)
	a.Tell(c, began, err)
	return err
}

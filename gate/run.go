package gate

import (
	"context"
	"time"
)

// Result is one run of the gate.
type Result struct {
	Seen    *Seen
	Verdict Verdict
	Memory  Memory // to be kept for the next run
	Looks   int    // how often it was looked
}

// lookAgain is the time between the first two looks while a finding may still pass;
// it doubles twice.
const lookAgain = 250 * time.Millisecond

// Run looks at a machine, judges and decides. With patience, findings that block
// and have a retry time are looked at again until they are gone, their time is
// over, or patience is: a port that flaps back within it passes. ctx ends
// everything.
func Run(ctx context.Context, l *Looker, last *Memory, p *Policy, needs Needs, patience time.Duration) Result {
	began := time.Now()
	r := Result{Looks: 1, Seen: l.Look(ctx, began)}
	for {
		r.Verdict = Decide(Judge(r.Seen, &l.Site, last), p, needs, r.Seen.Mounts.Value)
		left := min(r.Verdict.maxRetry(), patience) - time.Since(began)
		if left <= 0 || ctx.Err() != nil {
			r.Memory = last.After(r.Seen, &r.Verdict, time.Now())
			return r
		}
		again := time.NewTimer(min(left, lookAgain<<min(r.Looks-1, 2)))
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
		seen := l.LookAgain(ctx, time.Now(), r.Seen, &r.Verdict)
		if ctx.Err() == nil { // a look that was cut short proves nothing: the last whole one holds
			r.Seen = seen
			r.Looks++
		}
	}
}

// maxRetry is how long it is worth to look again: as long as every root may pass.
func (v *Verdict) maxRetry() time.Duration {
	var longest time.Duration
	for _, f := range v.Roots {
		if f.retry <= 0 {
			return 0
		}
		longest = max(longest, f.retry)
	}
	return longest
}

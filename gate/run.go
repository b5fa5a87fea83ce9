package gate

import (
	"context"
	"time"

	"ioguard/probe"
)

// Result is one run of the gate.
type Result struct {
	Seen    *Seen
	Verdict Verdict
	Memory  Memory // to be kept for the next run
	Looks   int    // how often it was looked
}

// lookAgain is the time between two looks while a finding may still pass.
const lookAgain = 250 * time.Millisecond

// Run looks at a machine, judges and decides. With patience, findings that block
// and have a retry time are looked at again until they are gone, their time is
// over, or patience is: a port that flaps back within it passes. ctx ends
// everything; look bounds each look.
func Run(ctx context.Context, l *Looker, last *Memory, p *Policy, needs Needs, patience time.Duration) Result {
	began := time.Now()
	for r := (Result{}); ; {
		r.Looks++
		look, cancel := context.WithCancel(ctx)
		r.Seen = l.Look(look, time.Now())
		cancel()
		r.Verdict = Decide(Judge(r.Seen, &l.Site, last), p, needs, r.Seen.Mounts.Value)
		left := min(r.Verdict.maxRetry(), patience) - time.Since(began)
		if left <= 0 || ctx.Err() != nil {
			r.Memory = last.After(r.Seen, &r.Verdict, time.Now())
			return r
		}
		l.keepStuck(r.Seen)
		l.Deep = true // something is wrong: it is worth asking more
		again := time.NewTimer(min(left, lookAgain))
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
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

// keepStuck keeps the answers of mounts that hang, which are not asked again.
func (l *Looker) keepStuck(seen *Seen) {
	for dir, a := range seen.Probes {
		if a.Done && a.Value.Stuck {
			if l.Stuck == nil {
				l.Stuck = map[string]*Answer[probe.Answer]{}
			}
			l.Stuck[dir] = a
		}
	}
}

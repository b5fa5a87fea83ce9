package action

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// LimitError is a change that was not tried because there were enough already.
type LimitError struct {
	Change Change
	Most   int
	Span   time.Duration
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: not tried: %d changes within %v are the limit", e.Change, e.Most, e.Span)
}

// Limit lets at most so many changes through within a span. It counts for one
// process: hooks, of which each is one, need a brake that asks Slurm instead.
type Limit struct {
	actor Actor
	most  int
	span  time.Duration
	now   func() time.Time

	mu   sync.Mutex
	past []time.Time // of changes that were let through, oldest first
}

// NewLimit makes a Limit.
func NewLimit(actor Actor, most int, span time.Duration, now func() time.Time) *Limit {
	return &Limit{actor: actor, most: most, span: span, now: now}
}

// Do implements Actor. A change that fails counts too: it may have been made.
func (l *Limit) Do(ctx context.Context, c Change) error {
	if err := admit(ctx, c); err != nil {
		return err
	}
	if !l.take() {
		return &LimitError{c, l.most, l.span}
	}
	return l.actor.Do(ctx, c)
}

func (l *Limit) take() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.past = slices.DeleteFunc(l.past, func(t time.Time) bool { return now.Sub(t) >= l.span })
	for i, t := range l.past {
		if t.After(now) { // the clock was set back: it counts from now on
			l.past[i] = now
		}
	}
	if len(l.past) >= l.most {
		return false
	}
	l.past = append(l.past, now)
	return true
}

package prolog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"
)

// ErrBudget is a hook that did not end within its budget.
var ErrBudget = errors.New("no verdict within the budget")

// ErrTerminated is a hook that slurmd told to end.
var ErrTerminated = errors.New("terminated by slurmd")

// grace is what a hook gets beyond its budget to return by itself, since it stops
// on its own when the budget is over.
const grace = 250 * time.Millisecond

// FailOpen runs a hook and gives its exit status. It is the one place that says
// what ioguard's own failure means: the job starts. An error, a panic, a hook that
// is not done in time and SIGTERM (slurmd sends SIGKILL 10 ms after it, and takes
// only an exit status of 0 for success) all give 0, and told hears why, from
// another goroutine when the hook itself hangs. Whatever the hook still does then
// ends with the process: the caller must exit at once.
func FailOpen(ctx context.Context, budget time.Duration, hook func(context.Context) (int, error), told func(error)) int {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer signal.Stop(terminated)
	ctx, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	type end struct {
		status int
		err    error
	}
	done := make(chan end, 1)
	go func() {
		var e end
		defer func() {
			if r := recover(); r != nil {
				e = end{err: fmt.Errorf("panic: %v\n%s", r, debug.Stack())}
			}
			done <- e
		}()
		e.status, e.err = hook(ctx)
	}()
	late := time.NewTimer(budget + grace)
	defer late.Stop()
	var err error
	select {
	case e := <-done:
		if e.err == nil {
			return e.status
		}
		err = e.err
	case <-late.C:
		err = ErrBudget
	case <-terminated:
		err = ErrTerminated
	}
	told(err)
	return 0
}

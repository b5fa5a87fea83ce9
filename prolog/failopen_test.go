package prolog

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestFailOpen(t *testing.T) {
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	tests := []struct {
		name   string
		hook   func(context.Context) (int, error)
		status int
		told   string
	}{
		{"healthy", func(context.Context) (int, error) { return 0, nil }, 0, ""},
		{"finding", func(context.Context) (int, error) { return 1, nil }, 1, ""},
		{"own error", func(context.Context) (int, error) { return 1, errors.New("state directory is read-only") }, 0, "read-only"},
		{"panic", func(context.Context) (int, error) { var p *int; return *p, nil }, 0, "panic: runtime error"},
		{"hangs and hears nothing", func(context.Context) (int, error) { <-hang; return 1, nil }, 0, ErrBudget.Error()},
		{"hears the deadline", func(ctx context.Context) (int, error) { <-ctx.Done(); return 0, ctx.Err() }, 0, context.DeadlineExceeded.Error()},
		{"terminated", func(context.Context) (int, error) {
			_ = syscall.Kill(syscall.Getpid(), syscall.SIGTERM)
			<-hang
			return 1, nil
		}, 0, ErrTerminated.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var told string
			began := time.Now()
			got := FailOpen(t.Context(), 50*time.Millisecond, tt.hook, func(err error) { told = err.Error() })
			if got != tt.status || (tt.told == "") != (told == "") || !strings.Contains(told, tt.told) {
				t.Errorf("status %d, told %q; want %d, %q", got, told, tt.status, tt.told)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

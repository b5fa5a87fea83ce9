package probe

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

const (
	// thisProgram finds the program that runs, also when an update replaced its file.
	thisProgram = "/proc/self/exe"
	// lockVariable tells the probe which descriptor is the lock file.
	lockVariable = "IOGUARD_PROBE_LOCK"
	lockFD       = 3
	// outputLimit bounds what is read of a program that is no probe, bytes.
	outputLimit = 64 << 10
)

// ask starts a probe and listens to it. We hold the lock.
func (q *question) ask(ctx context.Context, lock *os.File) Answer {
	if err := lock.Truncate(0); err != nil {
		return skipped("%v", err)
	}
	heard := make(chan said, 3)
	p, err := q.start(lock, heard)
	if err != nil {
		return skipped("start the probe: %v", err)
	}
	lock.Close() // from now on the probe alone holds it
	return q.listen(ctx, p, heard)
}

// said is what is heard of a probe: a line, or that it ended and how.
type said struct {
	line
	end string
}

func (q *question) start(lock *os.File, heard chan<- said) (*os.Process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	argv := append(append([]string(nil), q.Program...), q.mount)
	if argv[0] == thisProgram {
		argv[0] = os.Args[0] // ps shows it
	}
	p, err := os.StartProcess(q.Program[0], argv, &os.ProcAttr{
		Dir: "/",
		// The probe has one thing to do: many processors only cost the runtime memory.
		Env:   []string{lockVariable + "=" + strconv.Itoa(lockFD), "GOMAXPROCS=1"},
		Files: []*os.File{null, w, w, lock},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		r.Close()
		return nil, err
	}
	go follow(r, p, heard)
	return p, nil
}

// follow passes on what a probe says and buries it, however late that is. Nothing
// of it waits for who listens: each kind is sent once, and there is room for all.
func follow(r *os.File, p *os.Process, heard chan<- said) {
	in := bufio.NewReader(io.LimitReader(r, outputLimit))
	var got record
	var stray []byte
	for {
		text, err := in.ReadBytes('\n')
		l, ok := parseLine(text)
		switch {
		case ok && l.Begun != nil && got.begun == nil:
			got.begun = l.Begun
			heard <- said{line: l}
		case ok && l.Ended != nil && got.begun != nil && got.ended == nil:
			got.ended = l.Ended
			heard <- said{line: l}
		case len(stray) < 200:
			stray = append(stray, text...)
		}
		if err != nil {
			break
		}
	}
	r.Close()
	end := "it cannot be waited for"
	if state, err := p.Wait(); err == nil {
		end = state.String()
	}
	if stray = bytes.TrimSpace(stray[:min(len(stray), 200)]); len(stray) > 0 {
		end = fmt.Sprintf("%s: %q", end, stray)
	}
	heard <- said{end: end}
}

// listen waits for the answer. Time runs from when the mount is asked: a machine
// that is slow to start processes does not count against the mount.
func (q *question) listen(ctx context.Context, p *os.Process, heard <-chan said) Answer {
	timer := time.NewTimer(q.Deadline)
	defer timer.Stop()
	var r record
	for {
		select {
		case s := <-heard:
			if a, ok := q.hear(&r, s); ok {
				return a
			}
			timer.Reset(q.Deadline)
		case <-timer.C:
			return q.late(ctx, p, r, heard)
		case <-ctx.Done():
			return q.late(ctx, p, r, heard)
		}
	}
}

// hear takes in one thing that was said, and reports whether it settles the question.
func (q *question) hear(r *record, s said) (Answer, bool) {
	switch {
	case s.Begun != nil:
		r.begun = s.Begun
		return Answer{}, false
	case s.Ended != nil:
		r.ended = s.Ended
		return r.answer(q.mount), true
	}
	return skipped("the probe ended without an answer: %s", s.end), true
}

// late ends the wait. What was said in the same moment still counts. A probe that
// did not get as far as the mount can be killed, and would keep others waiting.
func (q *question) late(ctx context.Context, p *os.Process, r record, heard <-chan said) Answer {
	for {
		select {
		case s := <-heard:
			if a, ok := q.hear(&r, s); ok {
				return a
			}
			continue
		default:
		}
		if r.begun != nil {
			return overdue(ctx, r.begun, q.Deadline)
		}
		_ = p.Kill()
		return skipped("the probe (pid %d) was started and did not begin within %v", p.Pid, q.waited())
	}
}

package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakes makes a runner that finds shell scripts in the place of real commands.
func fakes(t *testing.T, scripts map[string]string) runner {
	t.Helper()
	dir := t.TempDir()
	for name, body := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return runner{dirs: []string{filepath.Join(dir, "nosuch"), dir}, killDelay: time.Second, limit: 1 << 20}
}

func TestRunLive(t *testing.T) {
	t.Setenv("SQUEUE_FORMAT", "%i")
	r := fakes(t, map[string]string{
		"lctl":   `[ "$*" = "get_param -n a.b" ] || { echo "asked: $*" >&2; exit 9; }` + "\necho 1; echo 'not found: b' >&2; exit 2\n",
		"squeue": "cat; echo $SQUEUE_FORMAT; echo $LC_ALL; pwd\n",
		"lfs":    "echo 'lfs check: error' >&2\n",
	})
	ctx := context.Background()

	a, err := r.run(ctx, "lctl", "get_param", "-n", "a.b")
	var ce *CommandError
	if !errors.As(err, &ce) || ce.Status != 2 || a.Status != 2 || string(a.Stdout) != "1\n" || ce.Stderr != "not found: b\n" || ce.TimedOut {
		t.Errorf("failing command = %+v, %#v", a, err)
	}
	if a, err = r.run(ctx, "squeue"); err != nil || string(a.Stdout) != "\nC\n/\n" {
		t.Errorf("environment: %q, %v", a.Stdout, err)
	}
	if a, err = r.run(ctx, "lfs", "check", "servers"); err != nil || string(a.Stderr) != "lfs check: error\n" {
		t.Errorf("standard error of a command that did well: %q, %v", a.Stderr, err)
	}
	if _, err = r.run(ctx, "zpool", "status"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing command: %v", err)
	}
	if _, err = r.run(ctx, "bin/lctl", "dl"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("relative command: %v", err)
	}
	var re *RefusedError
	if _, err = r.run(ctx, "lctl", "set_param", "a=1"); !errors.As(err, &re) {
		t.Errorf("set_param: %v", err)
	}
}

func TestRunTooMuch(t *testing.T) {
	r := fakes(t, map[string]string{"squeue": "while :; do echo 0123456789012345678901234567890123456789; done\n"})
	r.limit = 10 << 10
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := r.run(ctx, "squeue")
	var se *SizeError
	if !errors.As(err, &se) || !strings.Contains(se.Name, "squeue") {
		t.Errorf("endless answer: %v", err)
	}
}

// The deadline kills the children too, also those that hold the pipes open.
func TestRunDeadlineKillsTheGroup(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	r := fakes(t, map[string]string{"squeue": `trap '' TERM INT
sleep 600 & echo $$ $! > ` + pids + ".new && mv " + pids + ".new " + pids + `
echo begun; echo bad >&2
wait
`})
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	deadline := deadlineWhen(ctx, func() bool { _, err := os.Stat(pids); return err == nil })
	a, err := r.run(deadline, "squeue")
	var ce *CommandError
	if !errors.As(err, &ce) || !ce.TimedOut || ce.Status != -1 || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("run = %+v, %#v", a, err)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(text)) {
		pid, _ := strconv.Atoi(f)
		if !gone(pid) {
			t.Errorf("process %d of %q is still alive", pid, text)
		}
	}
	if string(a.Stdout) != "begun\n" && string(a.Stdout) != "" {
		t.Errorf("what it said before: %q", a.Stdout)
	}
}

// deadlineCtx is a context whose deadline passes when a condition holds, so that
// the test neither guesses nor waits longer than it must.
type deadlineCtx struct {
	context.Context
	done chan struct{}
}

func (d deadlineCtx) Deadline() (time.Time, bool) { return time.Now().Add(time.Hour), true }
func (d deadlineCtx) Done() <-chan struct{}       { return d.done }
func (d deadlineCtx) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func deadlineWhen(ctx context.Context, cond func() bool) context.Context {
	d := deadlineCtx{ctx, make(chan struct{})}
	go func() {
		defer close(d.done)
		for i := 0; i < 2000 && !cond(); i++ {
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return d
}

// gone waits until a process is no more, or a zombie that nobody has buried yet.
func gone(pid int) bool {
	for range 400 {
		if syscall.Kill(pid, 0) != nil {
			return true
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// A child that outlives the command and holds its pipes must not hold us.
func TestRunLeftoverChild(t *testing.T) {
	r := fakes(t, map[string]string{"squeue": "sleep 600 &\necho $!\n"})
	r.killDelay = 50 * time.Millisecond
	a, err := r.run(context.Background(), "squeue")
	var ce *CommandError
	if !errors.As(err, &ce) || ce.TimedOut {
		t.Errorf("run: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(a.Stdout)))
	if err != nil || !gone(pid) {
		t.Errorf("child %q is alive, %v", a.Stdout, err)
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine("a\r\n\n\x1b[31mb\u009b\n"); got != "a; [31mb" {
		t.Errorf("oneLine = %q", got)
	}
	if got := oneLine(strings.Repeat("ö", 400)); len(got) > 303 || strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("oneLine = %q", got)
	}
}

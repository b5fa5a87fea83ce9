package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// commandDirs is where commands are looked for. Slurm's hooks have no PATH, and
// on Debian lctl is not in that of an ordinary user.
var commandDirs = []string{"/usr/sbin", "/usr/bin", "/sbin", "/bin"}

const (
	// defaultTimeout bounds a command whose context has no deadline.
	defaultTimeout = 30 * time.Second
	// killDelay is how long a killed command may take to die. One that waits in
	// a Lustre RPC ignores SIGKILL; it is then left behind.
	killDelay = 2 * time.Second
	// stderrLimit bounds what is kept of standard error, in bytes.
	stderrLimit = 64 << 10
)

// Answer is what a command said. Status is -1 where it did not end by itself.
type Answer struct {
	Stdout, Stderr []byte
	Status         int
}

// CommandError is a command that ran and failed, or did not end in time.
type CommandError struct {
	Command  string // as it was asked for
	Status   int    // exit status; -1 where it did not end by itself
	Stderr   string
	TimedOut bool  // killed by the deadline
	Err      error // the cause where it is not the exit status: context.DeadlineExceeded, a signal
}

func (e *CommandError) Error() string {
	var what string
	switch {
	case e.TimedOut:
		what = "no answer in time, killed"
	case e.Err != nil:
		what = e.Err.Error()
	default:
		what = fmt.Sprintf("exit status %d", e.Status)
	}
	if s := oneLine(e.Stderr); s != "" {
		what += ": " + s
	}
	return fmt.Sprintf("run %s: %s", e.Command, what)
}

func (e *CommandError) Unwrap() error { return e.Err }

// oneLine makes standard error fit for a message: lines joined, control
// characters dropped, at most 300 bytes.
func oneLine(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, s)
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	return strings.TrimSpace(s)
}

// runner runs commands of the live machine.
type runner struct {
	dirs      []string
	killDelay time.Duration
	limit     int64 // of standard output, bytes
}

func (r runner) run(ctx context.Context, name string, args ...string) (Answer, error) {
	failed := Answer{Status: -1}
	if err := permit(name, args); err != nil {
		return failed, err
	}
	file, err := r.look(name)
	if err != nil {
		return failed, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, defaultTimeout)
		defer cancel()
	}
	out, errout := &output{limit: r.limit}, &output{limit: stderrLimit, cut: true}
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Dir = "/"
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = out, errout // Stdin nil is /dev/null
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	cmd.WaitDelay = r.killDelay
	if err := cmd.Start(); err != nil {
		return failed, fmt.Errorf("run %s: %w", commandLine(name, args), err)
	}
	err = r.wait(ctx, cmd)
	a := Answer{Stdout: out.bytes(), Stderr: errout.bytes()}
	return a.judge(ctx, commandLine(name, args), err, out)
}

// look finds a command. A name with a folder must be absolute: sites keep
// Slurm's commands in places of their own.
func (r runner) look(name string) (string, error) {
	if filepath.IsAbs(name) {
		if executable(name) {
			return name, nil
		}
		return "", &fs.PathError{Op: "find command", Path: name, Err: fs.ErrNotExist}
	}
	if strings.ContainsRune(name, '/') {
		return "", &fs.PathError{Op: "find command", Path: name, Err: fs.ErrInvalid}
	}
	for _, d := range r.dirs {
		if f := filepath.Join(d, name); executable(f) {
			return f, nil
		}
	}
	return "", fmt.Errorf("find command %s in %s: %w", name, strings.Join(r.dirs, ":"), fs.ErrNotExist)
}

func executable(file string) bool {
	st, err := os.Stat(file)
	return err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0
}

// environment is the same whoever calls: SQUEUE_FORMAT or a locale of the user's
// would change what the commands print.
func environment() []string {
	env := []string{"PATH=" + strings.Join(commandDirs, ":"), "LC_ALL=C"}
	for _, k := range []string{"SLURM_CONF", "TZ"} {
		if v, ok := os.LookupEnv(k); ok {
			env = append(env, k+"="+v)
		}
	}
	return env
}

var errLeftBehind = errors.New("does not die from SIGKILL, left behind")

// wait is cmd.Wait that gives up on a process which nothing kills.
func (r runner) wait(ctx context.Context, cmd *exec.Cmd) error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		patience := time.NewTimer(2 * r.killDelay) // WaitDelay ends within one
		defer patience.Stop()
		select {
		case err = <-done:
		case <-patience.C:
			return errLeftBehind
		}
	}
	if errors.Is(err, exec.ErrWaitDelay) || ctx.Err() != nil {
		_ = killGroup(cmd.Process.Pid) // children that outlived the leader
	}
	return err
}

// killGroup kills a command and all its children.
func killGroup(pid int) error {
	err := syscall.Kill(-pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// judge turns the end of a command into its status and error.
func (a Answer) judge(ctx context.Context, command string, err error, out *output) (Answer, error) {
	if err == nil {
		return a, nil
	}
	a.Status = -1
	if out.tooMuch() {
		return a, &SizeError{"the answer of " + command, -1, out.limit}
	}
	ce := &CommandError{Command: command, Status: -1, Stderr: string(a.Stderr), Err: err}
	var ee *exec.ExitError
	switch {
	case errors.As(err, &ee) && ee.Exited():
		a.Status, ce.Status, ce.Err = ee.ExitCode(), ee.ExitCode(), nil
	case ctx.Err() != nil:
		ce.Err = ctx.Err()
		ce.TimedOut = errors.Is(ctx.Err(), context.DeadlineExceeded)
		if errors.Is(err, errLeftBehind) {
			ce.Err = fmt.Errorf("%w: %w", errLeftBehind, ctx.Err())
		}
	}
	return a, ce
}

// output gathers what a command prints. It is locked because a command that is
// left behind may still write.
type output struct {
	mu    sync.Mutex
	buf   []byte
	limit int64
	cut   bool // drop what is above the limit; otherwise it is an error
	over  bool
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := int(o.limit) - len(o.buf)
	if len(p) <= room {
		o.buf = append(o.buf, p...)
		return len(p), nil
	}
	o.over = true
	if !o.cut {
		return 0, io.ErrShortWrite
	}
	o.buf = append(o.buf, p[:max(room, 0)]...)
	return len(p), nil
}

func (o *output) bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]byte(nil), o.buf...)
}

func (o *output) tooMuch() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over && !o.cut
}

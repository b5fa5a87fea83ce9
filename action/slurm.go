package action

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

	"ioguard/slurm"
)

// scontrolDirs is where scontrol is looked for: hooks have no PATH.
var scontrolDirs = []string{"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/slurm/bin", "/opt/slurm/current/bin", "/cm/shared/apps/slurm/current/bin"}

const (
	scontrolPatience = 5 * time.Second
	// killDelay is how long a killed scontrol may take to die. One in the kernel's
	// hands ignores SIGKILL; it is then left behind.
	killDelay = time.Second
	// outputLimit bounds what is kept of scontrol's output, answerLimit what of
	// squeue's, a short row for each task of an array; in bytes.
	outputLimit = 4 << 10
	answerLimit = 16 << 20
)

// Slurm carries out changes with scontrol, one process for each, without a shell. For
// a job's number it asks squeue first which task of an array that is, so that no other
// task is changed. The zero Slurm works where Slurm is in its usual place.
type Slurm struct {
	Scontrol string        // absolute path; "" or a bare name is looked for in the usual folders; squeue is beside it
	Conf     string        // SLURM_CONF, "" for that of the process; slurmctld does not tell its hooks
	Timeout  time.Duration // for one change, 0 is 5 s; the context may end it sooner
}

// SlurmError is a change that was not made, or may not have been made.
type SlurmError struct {
	Change   Change
	Status   int    // exit status of scontrol; -1 where it did not end by itself or was not started
	Said     string // what scontrol printed, one line
	TimedOut bool   // killed: the change may have been made
	Err      error  // the cause where it is not the exit status
}

func (e *SlurmError) Error() string {
	what := fmt.Sprintf("scontrol: exit status %d", e.Status)
	switch {
	case errors.Is(e.Err, errLeftBehind):
		what = e.Err.Error()
	case e.TimedOut:
		what = "scontrol: no answer in time, killed"
	case e.Err != nil:
		what = e.Err.Error()
	}
	if e.Said != "" {
		what += ": " + e.Said
	}
	return fmt.Sprintf("%s: %s", e.Change, what)
}

func (e *SlurmError) Unwrap() error { return e.Err }

// arguments are what scontrol is called with. Each holds one checked value, so that
// no value can become another option.
func arguments(c Change) []string {
	switch c.Kind {
	case Drain:
		return []string{"update", "NodeName=" + c.Node, "State=DRAIN", "Reason=" + plain(c.Reason)}
	case Resume:
		return []string{"update", "NodeName=" + c.Node, "State=RESUME"}
	case Undrain:
		return []string{"update", "NodeName=" + c.Node, "State=UNDRAIN"}
	case Requeue:
		return []string{"requeue", c.JobID}
	case RequeueHold:
		return []string{"requeuehold", c.JobID}
	default:
		return []string{"release", c.JobID}
	}
}

// Do implements Actor. Errors beyond the contract's are *SlurmErrors.
func (s Slurm) Do(ctx context.Context, c Change) error {
	if err := admit(ctx, c); err != nil {
		return err
	}
	file, err := s.look()
	if err != nil {
		return &SlurmError{Change: c, Status: -1, Err: err}
	}
	patience := s.Timeout
	if patience <= 0 {
		patience = scontrolPatience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	alone := c
	if alone.JobID, err = s.alone(ctx, filepath.Dir(file), c); err != nil {
		return &SlurmError{Change: c, Status: -1, Err: fmt.Errorf("not tried: %w", err)}
	}
	err = s.run(ctx, file, arguments(alone)...)
	var e *SlurmError
	if c.Kind == Requeue && errors.As(err, &e) && e.Status > 0 && strings.Contains(e.Said, "Job is pending execution") {
		return nil // the prolog of another of the job's nodes was faster
	}
	if errors.As(err, &e) {
		e.Change = c
	}
	return err
}

// alone is what scontrol takes for the change's job and no other.
func (s Slurm) alone(ctx context.Context, dir string, c Change) (string, error) {
	if c.Kind == Drain || c.Kind == Resume || c.Kind == Undrain || strings.Contains(c.JobID, "_") {
		return c.JobID, nil
	}
	return slurm.ReadTaskID(ctx, func(ctx context.Context, name string, args ...string) ([]byte, error) {
		out := &output{limit: answerLimit}
		err := s.start(ctx, out, filepath.Join(dir, name), args...)
		return []byte(out.String()), err
	}, c.JobID)
}

// run runs scontrol. Its errors are *SlurmErrors.
func (s Slurm) run(ctx context.Context, file string, args ...string) error {
	return s.start(ctx, &output{limit: outputLimit}, file, args...)
}

// start runs a command with both its outputs in one place.
func (s Slurm) start(ctx context.Context, said *output, file string, args ...string) error {
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Dir, cmd.Env = "/", s.environment()
	cmd.Stdout, cmd.Stderr = said, said // Stdin nil is /dev/null
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = killDelay
	if err := wait(ctx, cmd); err != nil {
		return judge(ctx, err, &SlurmError{Status: -1, Said: plain(said.String())})
	}
	return nil
}

// judge says of an error what the contract promises.
func judge(ctx context.Context, err error, e *SlurmError) error {
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.Exited():
		e.Status = exit.ExitCode()
	case errors.Is(err, errLeftBehind):
		e.TimedOut, e.Err = true, fmt.Errorf("%w: %w", errLeftBehind, ctx.Err())
	case ctx.Err() != nil:
		e.TimedOut, e.Err = errors.Is(ctx.Err(), context.DeadlineExceeded), ctx.Err()
	default:
		e.Err = err
	}
	return e
}

var errLeftBehind = errors.New("scontrol does not die from SIGKILL, left behind")

// wait is cmd.Run that gives up on a process which nothing kills.
func wait(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	patience := time.NewTimer(2 * killDelay) // WaitDelay ends within one
	defer patience.Stop()
	select {
	case err := <-done:
		return err
	case <-patience.C:
		return errLeftBehind
	}
}

func (s Slurm) look() (string, error) {
	name := s.Scontrol
	if name == "" {
		name = "scontrol"
	}
	if filepath.IsAbs(name) {
		return name, nil
	}
	if strings.ContainsRune(name, '/') {
		return "", fmt.Errorf("find %s: neither absolute nor a bare name: %w", name, fs.ErrInvalid)
	}
	for _, dir := range scontrolDirs {
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("find %s in %s: %w", name, strings.Join(scontrolDirs, ":"), fs.ErrNotExist)
}

func (s Slurm) environment() []string {
	env := []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	conf := s.Conf
	if conf == "" {
		conf = os.Getenv("SLURM_CONF")
	}
	if conf != "" {
		env = append(env, "SLURM_CONF="+conf)
	}
	return env
}

// output keeps the begin of what a command prints. It is locked because one that is
// left behind may still write.
type output struct {
	mu    sync.Mutex
	buf   strings.Builder
	limit int
}

var _ io.Writer = (*output)(nil)

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p[:min(len(p), max(o.limit-o.buf.Len(), 0))])
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

package probe

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// stuckProbe asks a hanging mount and checks what is said of it.
func stuckProbe(t *testing.T, c Config, h *hanging) Answer {
	t.Helper()
	a := ask(t, c, h.dir)
	if !a.Stuck || a.Shared || a.Took < c.Deadline || !slices.Equal(probes(h.dir), []int{a.PID}) {
		t.Fatalf("%+v, probes %v", a, probes(h.dir))
	}
	if name, _ := os.ReadFile("/proc/" + strconv.Itoa(a.PID) + "/comm"); string(name) != comm+"\n" {
		t.Errorf("ps calls it %q", name)
	}
	return a
}

// stillStuck asks again: the same probe, at once.
func stillStuck(t *testing.T, c Config, h *hanging, first Answer) {
	t.Helper()
	start := time.Now()
	a := ask(t, c, h.dir)
	if !a.Stuck || !a.Shared || a.PID != first.PID || !a.Since.Equal(first.Since) || a.Took < first.Took {
		t.Errorf("got %+v\nof  %+v", a, first)
	}
	if d := time.Since(start); d > slack/2 {
		t.Errorf("took %v", d)
	}
	if pids := probes(h.dir); !slices.Equal(pids, []int{first.PID}) {
		t.Errorf("probes %v, want %d alone", pids, first.PID)
	}
}

func TestHang(t *testing.T) {
	t.Parallel()
	h, c := mountHanging(t), site(t)
	start := time.Now()
	first := Answer{}
	for _, a := range askMany(t, 20, c, h.dir) {
		if !a.Stuck || first.PID != 0 && (a.PID != first.PID || !a.Since.Equal(first.Since)) {
			t.Errorf("%+v", a)
		}
		first = a
	}
	if d := time.Since(start); d > deadline+slack {
		t.Errorf("20 at once took %v", d)
	}
	for range 20 {
		stillStuck(t, c, h, first)
	}
	checkSurroundings(t, first.PID)

	h.abort()
	eventually(t, "the probe ends and is buried", func() bool { return buried(first.PID) })
	if a := ask(t, c, h.dir); !errors.Is(a.Err, unix.ENOTCONN) {
		t.Errorf("aborted mount: %+v", a)
	}
	h.unmount()
	if a := ask(t, c, h.dir); !a.OK {
		t.Errorf("after umount: %+v", a)
	}
}

// checkSurroundings looks at what a probe took with it: nothing.
func checkSurroundings(t *testing.T, pid int) {
	t.Helper()
	proc := "/proc/" + strconv.Itoa(pid)
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("session %d of probe %d, %v", sid, pid, err)
	}
	if cwd, err := os.Readlink(proc + "/cwd"); err != nil || cwd != "/" {
		t.Errorf("stands in %s, %v", cwd, err)
	}
	if env, err := os.ReadFile(proc + "/environ"); err != nil || strings.Count(string(env), "\x00") > 2 {
		t.Errorf("environment %q, %v", env, err)
	}
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		target, _ := os.Readlink(proc + "/fd/" + fd.Name())
		info, _ := os.ReadFile(proc + "/fdinfo/" + fd.Name())
		if fd.Name() > "3" && !closesOnExec(string(info)) {
			t.Errorf("descriptor %s, %s, was inherited", fd.Name(), target)
		}
	}
}

// closesOnExec reads "flags:\t02100002", octal, of /proc/PID/fdinfo/FD.
func closesOnExec(info string) bool {
	_, rest, _ := strings.Cut(info, "flags:\t")
	text, _, _ := strings.Cut(rest, "\n")
	flags, err := strconv.ParseInt(text, 8, 64)
	return err == nil && flags&unix.O_CLOEXEC != 0
}

// The mount comes back: who waits is told, and what is left is no obstacle.
func TestComesBack(t *testing.T) {
	t.Parallel()
	h, c := mountHanging(t), site(t)
	first := stuckProbe(t, c, h)
	patient := c
	patient.Deadline = 20 * time.Second
	heard := make(chan Answer)
	go func() { heard <- Run(context.Background(), patient, h.dir) }()
	h.comeBack()
	if a := <-heard; !a.OK || !a.Shared || a.PID != first.PID || a.Took < first.Took {
		t.Errorf("who waited: %+v", a)
	}
	if a := ask(t, c, h.dir); !a.OK || !a.Shared {
		t.Errorf("fresh: %+v", a)
	}
	c.Fresh = -1
	if a := ask(t, c, h.dir); !a.OK || a.Shared || a.PID == first.PID || a.Seen.FSType != unix.FUSE_SUPER_MAGIC || a.Seen.Inode != 1 {
		t.Errorf("asked anew: %+v", a)
	}
	eventually(t, "the probe is buried", func() bool { return buried(first.PID) })
}

// A caller whose own time runs out proves little.
func TestHangOutOfTime(t *testing.T) {
	t.Parallel()
	c := site(t)
	c.Deadline = time.Minute
	for _, tt := range []struct {
		after time.Duration
		stuck bool
	}{{leastPatience / 10, false}, {leastPatience * 2, true}} {
		h := mountHanging(t)
		for range 2 { // one's own probe, another's
			ctx, cancel := context.WithTimeout(context.Background(), tt.after)
			if a := Run(ctx, c, h.dir); a.Stuck != tt.stuck || (a.Skipped != "") == tt.stuck {
				t.Errorf("%v: %+v", tt.after, a)
			}
			cancel()
			if !tt.stuck {
				break // the second would find the first one's probe older
			}
		}
	}
	h := mountHanging(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		eventually(t, "a probe", func() bool { return len(probes(h.dir)) > 0 })
		cancel()
	}()
	if a := Run(ctx, c, h.dir); a.Skipped == "" {
		t.Errorf("cancelled: %+v", a)
	}
}

// readAll reads a hook's output to the end, as slurmd does, and says how long it took.
func readAll(t *testing.T, r *os.File) string {
	t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(deadline + 2*slack)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("after %q: %v", text, err)
	}
	return string(text)
}

// startHook starts a hook with its output in one pipe and, as one whose caller is
// careless, with a second pipe that it does not know of.
func startHook(t *testing.T, cmd *exec.Cmd) (output, unknown *os.File) {
	t.Helper()
	output, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	unknown, w2, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { output.Close(); unknown.Close() })
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = w, w, []*os.File{nil, nil, nil, w2}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	w2.Close()
	return output, unknown
}

// slurmdKills does what run_command.c does behind every hook.
func slurmdKills(pgid int) {
	_ = unix.Kill(-pgid, unix.SIGTERM)
	time.Sleep(10 * time.Millisecond)
	_ = unix.Kill(-pgid, unix.SIGKILL)
}

// The hook exits at once, nothing holds its pipes, and the probe outlives it.
func TestHookExits(t *testing.T) {
	t.Parallel()
	h, c := mountHanging(t), site(t)
	cmd := hookCommand(t, c, h.dir)
	output, unknown := startHook(t, cmd)
	said := readAll(t, output)
	readAll(t, unknown)
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(said, "ok=false stuck=true") {
		t.Fatalf("%q, %v", said, err)
	}
	pids := probes(h.dir)
	if len(pids) != 1 {
		t.Fatalf("probes %v", pids)
	}
	slurmdKills(cmd.Process.Pid)
	for range 3 {
		a := ask(t, c, h.dir)
		if !a.Stuck || !a.Shared || a.PID != pids[0] || !slices.Equal(probes(h.dir), pids) {
			t.Errorf("%+v, probes %v", a, probes(h.dir))
		}
	}
}

// The hook is killed while it waits.
func TestHookKilled(t *testing.T) {
	t.Parallel()
	h, c := mountHanging(t), site(t)
	slow := c
	slow.Deadline = time.Minute
	cmd := hookCommand(t, slow, h.dir)
	output, unknown := startHook(t, cmd)
	file := filepath.Join(c.Dir, fileName(h.dir))
	eventually(t, "the probe begins", func() bool {
		text, err := os.ReadFile(file)
		return err == nil && parseRecord(text).begun != nil
	})
	slurmdKills(cmd.Process.Pid)
	readAll(t, output)
	readAll(t, unknown)
	if err := cmd.Wait(); err == nil {
		t.Error("the hook was not killed")
	}
	pids := probes(h.dir)
	if a := ask(t, c, h.dir); !a.Stuck || !a.Shared || len(pids) != 1 || a.PID != pids[0] {
		t.Errorf("%+v, probes %v", a, pids)
	}
}

// freezer makes a cgroup (v1) that holds a process where SIGKILL does not reach it.
func freezer(t *testing.T) (freeze func(pid int), thaw func()) {
	t.Helper()
	const root = "/sys/fs/cgroup/freezer"
	group := filepath.Join(root, "ioguard-probe-test-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no v1 freezer: %v", err)
	}
	set := func(dir, file, value string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	t.Cleanup(func() {
		set(group, "freezer.state", "THAWED")
		eventually(t, "the cgroup is empty", func() bool { return os.Remove(group) == nil })
	})
	if _, err := os.Stat(filepath.Join(group, "freezer.state")); err != nil {
		t.Skipf("no v1 freezer: %v", err)
	}
	freeze = func(pid int) {
		set(group, "cgroup.procs", strconv.Itoa(pid))
		set(group, "freezer.state", "FROZEN")
		eventually(t, "frozen", func() bool {
			text, err := os.ReadFile(filepath.Join(group, "freezer.state"))
			return err == nil && string(text) == "FROZEN\n"
		})
	}
	return freeze, func() { set(group, "freezer.state", "THAWED") }
}

// A probe that no signal reaches, as one in a Lustre RPC: the answer stays, and
// all works again after it.
func TestUnkillable(t *testing.T) {
	t.Parallel()
	h, c := mountHanging(t), site(t)
	freeze, thaw := freezer(t)
	first := stuckProbe(t, c, h)
	freeze(first.PID)
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		stillStuck(t, c, h, first)
	}
	if letter := stateOf(first.PID); letter != "D" {
		t.Errorf("state %s, want D", letter)
	}
	h.unmount()
	stillStuck(t, c, h, first) // frozen: it does not notice
	thaw()
	eventually(t, "the probe dies and is buried", func() bool { return buried(first.PID) })
	if a := ask(t, c, h.dir); !a.OK {
		t.Errorf("afterwards: %+v", a)
	}
}

// SIGSTOP does not reach a probe in the kernel: still stuck. When the mount is back
// the probe stands still outside of it: then the mount is no longer to blame.
func TestStopped(t *testing.T) {
	t.Parallel()
	h, c := mountHanging(t), site(t)
	first := stuckProbe(t, c, h)
	t.Cleanup(func() { _ = unix.Kill(first.PID, unix.SIGCONT) })
	if err := unix.Kill(first.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if a := ask(t, c, h.dir); stateOf(first.PID) == "D" && !a.Stuck {
		t.Errorf("stopped within the kernel: %+v", a)
	}
	h.abort()
	eventually(t, "the probe stops", func() bool { return stateOf(first.PID) == "T" })
	if a := ask(t, c, h.dir); !strings.Contains(a.Skipped, "is stopped by a signal") {
		t.Errorf("stopped outside of it: %+v", a)
	}
	if err := unix.Kill(first.PID, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the probe ends", func() bool { return buried(first.PID) })
	if a := ask(t, c, h.dir); !errors.Is(a.Err, unix.ENOTCONN) {
		t.Errorf("afterwards: %+v", a)
	}
}

// A probe that is killed leaves no answer and no obstacle.
func TestProbeKilled(t *testing.T) {
	t.Parallel()
	h, c := mountHanging(t), site(t)
	first := stuckProbe(t, c, h)
	if err := unix.Kill(first.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the probe dies", func() bool { return buried(first.PID) })
	if second := stuckProbe(t, c, h); second.PID == first.PID || second.Since.Equal(first.Since) {
		t.Errorf("%+v", second)
	}
}

package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ioguard/host"
	"ioguard/slurm"
)

// hookSite is a node with a recorded machine in a folder, and this binary as ioguard.
type hookSite struct {
	t        *testing.T
	dir, bin string
}

func newHookSite(t *testing.T, machine, gate string) *hookSite {
	t.Helper()
	s := &hookSite{t: t, dir: t.TempDir()}
	self, err := os.Executable()
	check1(t, err)
	s.bin = filepath.Join(s.dir, "ioguard")
	check1(t, os.Symlink(self, s.bin)) // testscript goes by the name
	unpackMachine(t, machine, filepath.Join(s.dir, "machine"))
	text := fmt.Sprintf("machine: %[1]s/machine\nstate_dir: %[1]s/state\nslurm: {bin: %[1]s/bin}\ngate:\n  syslog: %[1]s/log\n%[2]s", s.dir, gate)
	check1(t, os.WriteFile(filepath.Join(s.dir, "ioguard.yaml"), []byte(text), 0o600))
	return s
}

// hook is the prolog or epilog of a job, as slurmd starts it: no PATH, a process
// group of its own.
func (s *hookSite) hook(name string, job int) *exec.Cmd {
	cmd := exec.Command(s.bin, name)
	cmd.Env = []string{"IOGUARD_CONFIG=" + s.dir + "/ioguard.yaml", "SLURM_SCRIPT_CONTEXT=" + name + "_slurmd", "SLURMD_NODENAME=node1",
		fmt.Sprint("SLURM_JOB_ID=", job), "SLURM_JOB_USER=alice", "SLURM_JOB_PARTITION=batch"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// TestPrologsAtOnce: two hundred jobs start on a node in the same second.
func TestPrologsAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 200 processes")
	}
	const jobs = 200
	s := newHookSite(t, "client-healthy", "")
	ready := make(chan struct{})
	var wg sync.WaitGroup
	for job := range jobs {
		wg.Go(func() {
			cmd := s.hook("prolog", job+1)
			<-ready
			began := time.Now()
			out, err := cmd.CombinedOutput()
			if took := time.Since(began); err != nil || len(out) > 0 || took > defaultBudget+time.Second {
				t.Errorf("job %d: %v, %q after %v", job+1, err, out, took)
			}
		})
	}
	began := time.Now()
	close(ready)
	wg.Wait()
	t.Logf("%d prologs in %v", jobs, time.Since(began))
	kept, err := os.ReadDir(filepath.Join(s.dir, "state", "jobs", "node1"))
	if err != nil || len(kept) != jobs {
		t.Errorf("%d jobs kept, %v", len(kept), err)
	}
	left, _ := filepath.Glob(filepath.Join(s.dir, "state", "*", ".new-*"))
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestStuckSyslog: a journald that takes nothing costs one wait and no job.
func TestStuckSyslog(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	check1(t, err)
	defer c.Close()
	fill, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	check1(t, err)
	defer fill.Close()
	check1(t, fill.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
	for {
		if _, err := fill.Write([]byte("x")); err != nil {
			break
		}
	}
	l := &lazySyslog{socket: socket}
	began := time.Now()
	for range 50 {
		if n, err := l.Write([]byte("message")); n != 7 || err != nil {
			t.Fatal(n, err)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	for _, l := range []*lazySyslog{{socket: ""}, {socket: socket + "/none"}} {
		if n, err := l.Write([]byte("message")); n != 7 || err != nil {
			t.Errorf("%s: %d, %v", l.socket, n, err)
		}
	}
}

// TestLongSyslog: a message of any length arrives, its begin at least.
func TestLongSyslog(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	check1(t, err)
	defer c.Close()
	l := &lazySyslog{socket: socket}
	if _, err := l.Write([]byte("begin " + strings.Repeat("x", 10<<20))); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<20)
	check1(t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
	n, err := c.Read(b)
	if err != nil || !strings.HasPrefix(string(b[:n]), fmt.Sprintf("<28>ioguard[%d]: begin xxx", os.Getpid())) {
		t.Errorf("%.60q, %v", b[:n], err)
	}
}

// apart runs a hook with /var/lib and /dev of its own, so that it may use what it uses
// without a configuration, and gives what it logged. Its /dev/log leads to the site's.
func (s *hookSite) apart(name, config string) (logged string) {
	s.t.Helper()
	socket := filepath.Join(s.t.TempDir(), "log")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	check1(s.t, err)
	defer c.Close()
	prepare := "mount -t tmpfs none /var/lib && mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && ln -s " + socket + " /dev/log || exit 77\n"
	hook := s.hook(name, 1)
	cmd := exec.Command("unshare", "-m", "sh", "-c", prepare+`began=$(date +%s); "$0" "$1"; rc=$?; [ -e /var/lib/ioguard ] || exit 78; [ $(($(date +%s) - began)) -lt 5 ] || exit 79; exit $rc`, s.bin, name)
	cmd.Env = append(hook.Env, "IOGUARD_CONFIG="+config, "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code == 77 || cmd.ProcessState == nil || strings.Contains(string(out), "unshare") {
		s.t.Skipf("no mounts of one's own here: %s", out)
	}
	if err != nil || len(out) > 0 {
		s.t.Errorf("%s with %q: %v, %q", name, config, err, out)
	}
	b := make([]byte, 64<<10)
	for {
		check1(s.t, c.SetReadDeadline(time.Now().Add(50*time.Millisecond))) // all of it was sent before
		n, err := c.Read(b)
		if err != nil {
			return logged
		}
		logged += string(b[:n])
	}
}

// TestNoConfiguration: without a configuration that can be used every job starts, and
// syslog says why.
func TestNoConfiguration(t *testing.T) {
	if _, err := exec.LookPath("unshare"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root and unshare")
	}
	if _, err := os.Stat(defaultConfig); err == nil {
		t.Skip("there is a configuration here")
	}
	s := newHookSite(t, "client-healthy", "")
	file := func(name, text string) string {
		name = filepath.Join(s.dir, name)
		check1(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	hung := filepath.Join(s.dir, "hung") // as on a file server that is away
	check1(t, syscall.Mkfifo(hung, 0o600))
	for _, tt := range []struct{ config, logged string }{
		{"", ""},
		{filepath.Join(s.dir, "nowhere"), "read configuration: .*no such file"},
		{s.dir, "is a directory"},
		{file("misspelt", "gate: {bugdet: 3}"), `unknown field "bugdet"`},
		{file("garbage", "{[}: &a *a\x00"), "configuration "},
		{file("policy", "gate: {checks: {nonsense: drain}}"), `there is no check \W+nonsense`},
		{hung, "no verdict within the budget"},
	} {
		for _, hook := range []string{"prolog", "epilog"} {
			logged := s.apart(hook, tt.config)
			if ok, err := regexp.MatchString(tt.logged, logged); err != nil || !ok || tt.logged == "" && strings.Contains(logged, "ERROR") {
				t.Errorf("%s with %q logged %q, want %s", hook, tt.config, logged, tt.logged)
			}
		}
	}
}

// TestSickWithoutConfiguration: a sick node and nobody who said that it may be
// drained.
func TestSickWithoutConfiguration(t *testing.T) {
	s := newHookSite(t, "client-ost-away", "")
	check1(t, os.Mkdir(filepath.Join(s.dir, "bin"), 0o755))
	for _, name := range []string{"sinfo", "scontrol", "squeue"} {
		text := "#!/bin/sh\necho " + name + " >>" + s.dir + "/calls\n"
		check1(t, os.WriteFile(filepath.Join(s.dir, "bin", name), []byte(text), 0o755))
	}
	t.Setenv("IOGUARD_CONFIG", filepath.Join(s.dir, "ioguard.yaml"))
	conf, err := loadConfig()
	check1(t, err)
	for name, mark := range map[string]func(*config) error{
		"missing": func(c *config) error { c.missing = true; return nil },
		"broken":  func(*config) error { return fmt.Errorf("unknown field") },
	} {
		c := *conf
		confErr := mark(&c)
		h, err := host.OpenMachine(c.Machine)
		check1(t, err)
		n := newNode(&c, confErr, hookEnvironment(), h, hookLog(&c, "prolog"))
		out := n.Job(t.Context(), hookEnvironment())
		if out.Blocked || len(out.Verdict.Roots) != 1 || out.Reason == "" {
			t.Errorf("%s: %+v", name, out)
		}
		check1(t, h.Close())
	}
	if _, err := os.Stat(filepath.Join(s.dir, "calls")); err == nil {
		t.Error("Slurm was asked")
	}
}

func hookEnvironment() slurm.Hook {
	return slurm.ParseHook([]string{"SLURM_SCRIPT_CONTEXT=prolog_slurmd", "SLURMD_NODENAME=node1", "SLURM_JOB_ID=1"})
}

func TestNodeName(t *testing.T) {
	tests := []struct {
		hook, host string
		recorded   bool
		want       string
	}{
		{"n1", "n1.example.org", false, "n1"},
		{"n1.example.org", "n1", false, "n1.example.org"},
		{"", "n1.example.org", false, "n1"},
		{"", "n1", false, "n1"},
		{"", "n1.example.org", true, "n1.example.org"},
	}
	for _, tt := range tests {
		h := &host.Host{Name: tt.host}
		if tt.recorded {
			h.Time = time.Unix(1, 0)
		}
		if got := nodeName(slurm.Hook{NodeName: tt.hook}, h); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

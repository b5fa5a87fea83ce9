package slurmtest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pen knows every process of a cluster, also those that hooks and jobs have put
// into sessions of their own, and ends them with the test: by a cgroup where the
// machine has version 2, else by what they have open of the cluster's directory.
type pen struct {
	dir    string
	cgroup *os.File // nil without
}

func newPen(t testing.TB, dir string) *pen {
	p := &pen{dir: dir}
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if p.open(t, filepath.Join(root, "ioguard-"+filepath.Base(dir))) {
			break
		}
	}
	t.Cleanup(func() { p.close(t) })
	return p
}

// open makes a cgroup and the keeper, which outlives a test that is killed.
func (p *pen) open(t testing.TB, name string) bool {
	if os.Mkdir(name, 0o755) != nil {
		return false
	}
	t.Cleanup(func() { removeCgroup(t, name) })
	if _, err := os.Stat(name + "/cgroup.kill"); err != nil { // Linux before 5.14, or a version 1
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() }) //nolint:errcheck // nothing was written
	keeper := exec.Command("/bin/sh", "-c", `read -r never; echo 1 >"$0/cgroup.kill"; n=0; until rmdir "$0" 2>/dev/null || [ $n -gt 50 ]; do n=$((n+1)); sleep 0.1; done`, name)
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	alive, err := keeper.StdinPipe()
	if err == nil {
		err = keeper.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		alive.Close()
		keeper.Wait() //nolint:errcheck // removeCgroup sees what is left
	})
	p.cgroup = f
	return true
}

func removeCgroup(t testing.TB, name string) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := os.Remove(name)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			procs, _ := os.ReadFile(name + "/cgroup.procs")
			t.Errorf("%v: processes %q", err, procs)
			return
		}
	}
}

// hold lets a process be started in the pen.
func (p *pen) hold(attr *syscall.SysProcAttr) {
	if p.cgroup != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(p.cgroup.Fd())
	}
}

// close kills all that is in the pen.
func (p *pen) close(t testing.TB) {
	if p.cgroup != nil {
		if err := os.WriteFile(p.cgroup.Name()+"/cgroup.kill", []byte("1"), 0); err != nil {
			t.Error(err)
		}
		return
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		left := p.marked()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("processes %v do not end", left)
			return
		}
		for _, pid := range left {
			syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
		}
	}
}

// marked finds the processes that say in their environment or by their files that
// they are of this cluster. slurmstepd writes its title over its environment, and
// hooks of slurmctld have none, but both begin in the cluster's directory.
func (p *pen) marked() []int {
	var pids []int
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != os.Getpid() && p.holds("/proc/"+e.Name()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (p *pen) holds(proc string) bool {
	env, _ := os.ReadFile(proc + "/environ")
	if bytes.Contains(env, []byte("SLURM_CONF="+p.dir+"/slurm.conf\x00")) {
		return true
	}
	links, _ := filepath.Glob(proc + "/fd/*")
	for _, l := range append(links, proc+"/cwd") {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, p.dir+"/") {
			return true
		}
	}
	return false
}

package slurmtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCluster starts eight nodes with all hooks and looks at what Slurm made of them.
func TestCluster(t *testing.T) {
	began := time.Now()
	c := Start(t, Options{Nodes: 8, HealthCheckInterval: 1, Conf: map[string]string{"PrologFlags": "Alloc", "KillWait": ""}, Setup: func(c *Cluster, o *Options) {
		for name, hook := range map[string]*string{"prolog": &o.Prolog, "epilog": &o.Epilog, "prolog_slurmctld": &o.PrologSlurmctld,
			"epilog_slurmctld": &o.EpilogSlurmctld, "task_prolog": &o.TaskProlog, "health": &o.HealthCheckProgram} {
			*hook = c.Script(name, fmt.Sprintf("echo %s $SLURMD_NODENAME $SLURM_JOB_ID >>%s/log/hooks", name, c.Dir))
		}
	}})
	t.Logf("eight idle nodes after %v", time.Since(began))
	if _, err := os.Create(c.path("log/hooks")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(c.path("log/hooks"), 0o666); err != nil {
		t.Fatal(err)
	}
	job := c.Submit("--nodelist=node7", "--uid=nobody", "--wrap=srun id -un")
	c.UntilJob(job, 20*time.Second, "COMPLETED")
	hooks := func() string {
		text, _ := os.ReadFile(c.path("log/hooks"))
		return string(text)
	}
	for _, want := range []string{"prolog node7 " + job, "epilog node7 " + job, "prolog_slurmctld " + job, "epilog_slurmctld " + job, "task_prolog node7 " + job, "health node3"} {
		c.Until(want, 20*time.Second, func() bool { return strings.Contains(hooks(), want+"\n") })
	}
	if !strings.Contains(c.Log("node7"), "task_p_slurmd_batch_request: "+job) || !strings.Contains(c.Log(""), "JobId="+job) {
		t.Errorf("logs:\n%s\n%s", c.Log("node7"), c.Log(""))
	}

	c.Must("scontrol", "update", "NodeName=node2", "State=DRAIN", "Reason=for a test")
	if got := c.Nodes()["node2"]; got != "drained" || c.Reason("node2") != "for a test" || c.Reason("node1") != "" {
		t.Errorf("node2: %s %q, node1: %q", got, c.Reason("node2"), c.Reason("node1"))
	}
	c.Reconfigure(map[string]string{"MaxArraySize": "77"})
	c.Until("the new slurm.conf", 10*time.Second, func() bool {
		return strings.Contains(c.Must("scontrol", "show", "config"), "MaxArraySize            = 77\n")
	})
	c.StopNode("node4")
	c.StartNode("node4")
	c.UntilJob(c.Submit("--nodelist=node4", "--wrap=true"), 20*time.Second, "COMPLETED")
}

// TestSlurmUser: slurmctld and its hooks run as somebody else than root.
func TestSlurmUser(t *testing.T) {
	c := Start(t, Options{User: "nobody", Setup: func(c *Cluster, o *Options) {
		o.PrologSlurmctld = c.Script("hook", "id -un >"+c.Dir+"/log/who")
	}})
	c.UntilJob(c.Submit("--wrap=true"), 20*time.Second, "COMPLETED")
	if who, err := os.ReadFile(c.path("log/who")); string(who) != "nobody\n" {
		t.Errorf("PrologSlurmctld ran as %q, %v", who, err)
	}
}

// TestKilled: when a test dies without a chance to clean up, nothing of its
// cluster stays but files: no daemon, and no process that a job put elsewhere.
func TestKilled(t *testing.T) {
	need(t)
	if os.Getenv("SLURMTEST_VICTIM") != "" {
		c := Start(t, Options{})
		if c.pen.cgroup == nil {
			t.Skip("no cgroup version 2")
		}
		c.UntilJob(c.Submit("--wrap=setsid sleep 60 & sleep 60"), 20*time.Second, "RUNNING")
		fmt.Println("CLUSTER", c.Dir, c.pen.cgroup.Name())
		syscall.Kill(os.Getpid(), syscall.SIGKILL) //nolint:errcheck // it cannot fail
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$", "-test.v")
	cmd.Env = append(os.Environ(), "SLURMTEST_VICTIM=1")
	out, err := cmd.CombinedOutput()
	_, line, found := strings.Cut(string(out), "CLUSTER ")
	words := strings.Fields(line)
	if !found && strings.Contains(string(out), "SKIP") {
		t.Skip("no cgroup version 2")
	}
	if err == nil || len(words) < 2 {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { os.RemoveAll(words[0]) }) //nolint:errcheck // what the victim left
	p := pen{dir: words[0]}
	for deadline := time.Now().Add(10 * time.Second); len(p.marked()) > 0 || exists(words[1]); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left: processes %v, cgroup %v", p.marked(), exists(words[1]))
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// TestPenWithoutCgroup: processes are found by what they have open and by their environment.
func TestPenWithoutCgroup(t *testing.T) {
	p := &pen{dir: t.TempDir()}
	if err := os.Mkdir(p.dir+"/log", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, where := range []func(*exec.Cmd){
		func(cmd *exec.Cmd) { cmd.Dir = p.dir + "/log" },
		func(cmd *exec.Cmd) { cmd.Env = []string{"A=b", "SLURM_CONF=" + p.dir + "/slurm.conf"} },
	} {
		cmd := exec.Command("/bin/sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		where(cmd)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if got := p.marked(); len(got) != 1 || got[0] != cmd.Process.Pid {
			t.Errorf("found %v, want %d", got, cmd.Process.Pid)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		p.close(t)
		if err := <-ended; err == nil {
			t.Error("it was not killed")
		}
	}
}

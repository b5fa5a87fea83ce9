package slurm

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cluster is a real Slurm of one node for a test: munged, slurmctld and slurmd
// with all their files in one directory and on loopback only. The daemons stay
// in the foreground as children of the test and die with it.
type cluster struct {
	t   *testing.T
	dir string
	env []string
}

// startCluster needs root and Debian's slurmctld, slurmd, slurm-client and
// munge, and skips the test without them.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a real Slurm needs root")
	}
	if testing.Short() {
		t.Skip("a real Slurm takes some seconds")
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	for _, program := range []string{"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (apt-get install slurmctld slurmd slurm-client munge)", program)
		}
	}
	// t.TempDir's names can be too long for a socket.
	dir, err := os.MkdirTemp("", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{t: t, dir: dir}
	c.env = append(os.Environ(), "SLURM_CONF="+dir+"/slurm.conf", "LC_ALL=C")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	ports := freePorts(t, 3)
	c.write("key", strings.Repeat("ioguard test key", 8))
	for _, d := range []string{"state", "spool"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	conf := strings.NewReplacer("DIR", dir, "HOST", host, "PORT0", ports[0], "PORT1", ports[1]).Replace(
		`ClusterName=test
SlurmctldHost=HOST(127.0.0.1)
SlurmctldPort=PORT0
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=DIR/munge.socket
StateSaveLocation=DIR/state
SlurmdSpoolDir=DIR/spool
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/slurmd.pid
SlurmctldLogFile=DIR/slurmctld.log
SlurmdLogFile=DIR/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=2
NodeName=node1 NodeHostname=HOST NodeAddr=127.0.0.1 Port=PORT1 CPUs=8 RealMemory=1000 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`)
	c.write("slurm.conf", conf)
	c.write("away.conf", strings.Replace(conf, "SlurmctldPort="+ports[0], "SlurmctldPort="+ports[2], 1))
	c.daemon("munged", "--foreground", "--force", "--socket="+dir+"/munge.socket", "--key-file="+dir+"/key",
		"--pid-file="+dir+"/munge.pid", "--log-file="+dir+"/munge.log", "--seed-file="+dir+"/seed", "--num-threads=2")
	c.until("munged", func() bool { _, err := os.Stat(dir + "/munge.socket"); return err == nil })
	c.daemon("slurmctld", "-D", "-f", dir+"/slurm.conf")
	c.daemon("slurmd", "-D", "-f", dir+"/slurm.conf", "-N", "node1")
	c.until("an idle node", func() bool {
		out, err := c.run(t.Context(), "sinfo", "--noheader", "--states=idle", "--format=%N")
		return err == nil && strings.TrimSpace(string(out)) == "node1"
	})
	t.Cleanup(func() { // before the daemons: no job may outlive them
		ctx := context.Background()
		c.run(ctx, "scancel", "--signal=KILL", "--full", "--user=root") //nolint:errcheck // pending jobs take no signal
		c.run(ctx, "scancel", "--user=root")                            //nolint:errcheck // until sees what is left
		c.until("no jobs", func() bool {
			out, err := c.run(ctx, "squeue", "--noheader", "--states=RUNNING,COMPLETING,PENDING")
			return err != nil || len(bytes.TrimSpace(out)) == 0
		})
	})
	return c
}

func (c *cluster) write(name, text string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// daemon starts a program in the foreground; the test's end stops it.
func (c *cluster) daemon(name string, args ...string) *exec.Cmd {
	c.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = c.env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() //nolint:errcheck // the signal is ours
		close(ended)
	}()
	c.t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill() //nolint:errcheck // it may have ended
			<-ended
		}
	})
	return cmd
}

// until waits for something that Slurm does in its own time.
func (c *cluster) until(what string, true func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !true(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(c.dir + "/slurmctld.log")
			c.t.Fatalf("waited 20 s for %s: %s", what, log)
		}
	}
}

func (c *cluster) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stderr = c.env, "/", &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", name, err, stderr.String())
	}
	return out, nil
}

func (c *cluster) submit(args ...string) string {
	c.t.Helper()
	out, err := c.run(c.t.Context(), "sbatch", append([]string{"--parsable", "--output=/dev/null"}, args...)...)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// freePorts finds TCP ports of loopback that nobody uses now.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // all at the end, so that they differ
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	return ports
}

// TestRealSlurm holds the Directory against a real squeue: unknown ids among
// known ones and alone, arrays, ended jobs, names that forge rows, and a
// controller that goes away.
func TestRealSlurm(t *testing.T) {
	c := startCluster(t)
	evil := "evil|name\n4711|4711|N/A|victim|x|debug|RUNNING|2026-11-21T08:40:18|node1|forged \x1b[31m"
	forger := c.submit("--job-name="+evil, "--wrap=sleep 60")
	array := c.submit("--array=1-2", "--job-name=array", "--wrap=sleep 60")
	held := c.submit("--hold", "--array=1-4%2", "--job-name=held", "--wrap=sleep 60")
	quick := c.submit("--job-name=quick", "--wrap=true")
	c.until("the jobs' states", func() bool {
		out, err := c.run(t.Context(), "squeue", "--noheader", "--states=all", "--format=%j %T")
		text := string(out)
		return err == nil && strings.Contains(text, "quick COMPLETED") && strings.Count(text, "array RUNNING") == 2 &&
			strings.Contains(text, "forged")
	})

	d := New(c.run)
	ids := []string{forger, array, array + "_1", array + "_2", held, held + "_3", quick, "4711", "999999", "-t", "cp.0"}
	owners := d.Owners(t.Context(), at(0), ids)
	if p := d.Problem(); p != "" {
		t.Errorf("problem %q", p)
	}
	for id, want := range map[string]struct{ name, state, nodes string }{
		forger:       {evil, "RUNNING", "node1"},
		array:        {"array", "RUNNING", "node1"},
		array + "_1": {"array", "RUNNING", "node1"},
		array + "_2": {"array", "RUNNING", "node1"},
		held:         {"held", "PENDING", ""},
		held + "_3":  {"held", "", ""},
		quick:        {"quick", "COMPLETED", "node1"},
	} {
		o, ok := owners[id]
		if !ok || o.JobID != id || o.Name != want.name || o.User != "root" || o.Partition != "debug" || o.Account != "" {
			t.Errorf("%s: got %+v, want %+v", id, o, want)
		}
		// Waiting tasks may be asked for one by one, so a state is told or not.
		if o.Nodes != want.nodes || (o.State != want.state && want.state != "") {
			t.Errorf("%s: got %+v, want %+v", id, o, want)
		}
		if started := !o.Start.IsZero(); started != (want.nodes != "") || (started && time.Since(o.Start).Abs() > time.Hour) {
			t.Errorf("%s: started at %v", id, o.Start)
		}
		delete(owners, id)
	}
	if len(owners) != 0 {
		t.Errorf("owners of nothing: %+v", owners)
	}

	if got := d.Owners(t.Context(), at(10), []string{"888888"}); len(got) != 0 || d.Problem() != "" {
		t.Errorf("one unknown job: %+v, problem %q", got, d.Problem())
	}
	on := d.JobsOnNode(t.Context(), at(20), "node1")
	if len(on) != 3 || d.JobsOnNode(t.Context(), at(30), "node2") != nil {
		t.Errorf("jobs on node1: %+v", on)
	}

	// A squeue that finds no controller tries for longer than anyone waits.
	c.env = append(c.env, "SLURM_CONF="+c.dir+"/away.conf")
	d.deadline = 200 * time.Millisecond
	got := d.Owners(t.Context(), at(200), []string{forger, "777777"})
	if got[forger].Name != evil || d.Problem() == "" {
		t.Errorf("without the controller: %+v, problem %q", got, d.Problem())
	}
	c.env = append(c.env, "SLURM_CONF="+c.dir+"/slurm.conf")
}

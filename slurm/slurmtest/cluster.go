// Package slurmtest is a real Slurm for tests: munged, slurmctld and several
// slurmds on loopback, with all their files in one directory. Only tests import it.
//
// It reads and changes nothing of a Slurm that the machine may have. The daemons
// are children of the test in the foreground, and end with it, even when it is
// killed; so do the jobs and hooks that they started.
package slurmtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options says what to start. The zero Options are one node of four CPUs without hooks.
type Options struct {
	Nodes int // node1 to nodeN
	CPUs  int // of each node

	// The programs that slurm.conf calls so: absolute paths, see Cluster.Script.
	Prolog, Epilog, PrologSlurmctld, EpilogSlurmctld, TaskProlog, HealthCheckProgram string
	HealthCheckInterval                                                              int // seconds

	// Conf are further lines of slurm.conf; they replace those that Start would
	// write, and an empty value removes a line.
	Conf map[string]string
	// User is SlurmUser, who runs slurmctld and its hooks; "" is root.
	User string
	// Setup, where set, is called with a Cluster that is not started yet: the place
	// to write hooks into its directory and to name them in the Options.
	Setup func(c *Cluster, o *Options)
}

// Cluster is a Slurm that runs.
type Cluster struct {
	Dir string   // searchable by all users; log/ in it is where hooks begin
	Env []string // what Run gives its commands

	t      testing.TB
	nodes  []string
	conf   map[string]string
	lines  string // NodeName lines, which are no keys
	pen    *pen
	daemon map[string]*daemon
}

// RequeueDelay is how long a requeued job waits (stock Slurm: 121 s): a second more
// than its credential is good, AuthInfo=cred_expire, of which Slurm takes 5 s or more.
const RequeueDelay = 6 * time.Second

// Start needs root and Debian's slurmctld, slurmd, slurm-client and munge, and
// skips the test without them and in short mode.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	need(t)
	c := &Cluster{t: t, Dir: directory(t), daemon: make(map[string]*daemon)}
	c.Env = append(os.Environ(), "SLURM_CONF="+c.path("slurm.conf"), "LC_ALL=C")
	if o.Setup != nil {
		o.Setup(c, &o)
	}
	c.pen = newPen(t, c.Dir)
	c.files(o)
	for n := 1; n <= max(o.Nodes, 1); n++ {
		c.nodes = append(c.nodes, fmt.Sprint("node", n))
	}
	c.configure(o)
	c.start("munged", "--foreground", "--force", "--socket="+c.path("munge.socket"), "--key-file="+c.path("munge.key"), "--pid-file="+c.path("munge.pid"),
		"--log-file="+c.path("log/munged.log"), "--seed-file="+c.path("munge.seed"), "--num-threads=2")
	c.Until("munged's socket", 10*time.Second, func() bool { _, err := os.Stat(c.path("munge.socket")); return err == nil })
	c.start("slurmctld", "-D", "-f", c.path("slurm.conf"))
	for _, n := range c.nodes {
		c.StartNode(n)
	}
	c.Until("idle nodes", 30*time.Second, func() bool {
		states := slices.Collect(maps.Values(c.Nodes()))
		return len(states) == len(c.nodes) && !slices.ContainsFunc(states, func(s string) bool { return s != "idle" })
	})
	return c
}

func need(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("a real Slurm needs root")
	}
	if testing.Short() {
		t.Skip("a real Slurm takes some seconds")
	}
	if !slices.Contains(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin") {
		if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin"); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed (apt-get install slurmctld slurmd slurm-client munge)", program)
		}
	}
}

// directory makes the cluster's directory. t.TempDir's names can be too long for a
// socket, and its mode keeps job users out.
func directory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

// files makes what the daemons want to find.
func (c *Cluster) files(o Options) {
	c.t.Helper()
	uid := 0
	if o.User != "" {
		u, err := user.Lookup(o.User)
		if err != nil {
			c.t.Skip(err)
		}
		if uid, err = strconv.Atoi(u.Uid); err != nil {
			c.t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"state": 0o700, "log": 0o777 | os.ModeSticky, "spool": 0o755, "run": 0o755} {
		err := os.Mkdir(c.path(name), 0o700)
		if err == nil {
			err = os.Chmod(c.path(name), mode)
		}
		if err == nil && name != "spool" {
			err = os.Chown(c.path(name), uid, -1)
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	c.write("munge.key", strings.Repeat("ioguard test key", 8), 0o400)
}

// configure writes slurm.conf.
func (c *Cluster) configure(o Options) {
	c.t.Helper()
	host, err := os.Hostname()
	if err != nil {
		c.t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	ports := freePorts(c.t, 1+len(c.nodes))
	slurmUser := o.User
	if slurmUser == "" {
		slurmUser = "root"
	}
	c.conf = map[string]string{
		"ClusterName": "test", "SlurmctldHost": host + "(127.0.0.1)", "SlurmctldPort": ports[0],
		"CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny", "SlurmUser": slurmUser,
		"AuthType": "auth/munge", "CredType": "cred/munge",
		"AuthInfo":          fmt.Sprintf("socket=%s,cred_expire=%d", c.path("munge.socket"), int(RequeueDelay.Seconds())-1),
		"StateSaveLocation": c.path("state"), "SlurmdSpoolDir": c.path("spool/%n"),
		"SlurmctldPidFile": c.path("run/slurmctld.pid"), "SlurmdPidFile": c.path("run/%n.pid"),
		"SlurmctldLogFile": c.path("log/slurmctld.log"), "SlurmdLogFile": c.path("log/%n.log"),
		"SlurmctldDebug": "verbose", "SlurmdDebug": "debug", "LogTimeFormat": "iso8601_ms",
		"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/none", "JobAcctGatherType": "jobacct_gather/none",
		"MpiDefault": "none", "SwitchType": "switch/none", "SelectType": "select/cons_tres", "SelectTypeParameters": "CR_CPU",
		"SlurmdParameters": "config_overrides", "ReturnToService": "2", "KillWait": "2", "SlurmdTimeout": "60", "MaxArraySize": "2001",
		"SchedulerParameters": "batch_sched_delay=0,sched_min_interval=0,sched_interval=2,bf_interval=2",
		"PartitionName":       "debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
		"Prolog":              o.Prolog, "Epilog": o.Epilog, "PrologSlurmctld": o.PrologSlurmctld, "EpilogSlurmctld": o.EpilogSlurmctld,
		"TaskProlog": o.TaskProlog, "HealthCheckProgram": o.HealthCheckProgram,
	}
	if o.HealthCheckInterval > 0 {
		c.conf["HealthCheckInterval"] = strconv.Itoa(o.HealthCheckInterval)
	}
	maps.Copy(c.conf, o.Conf)
	cpus := o.CPUs
	if cpus == 0 {
		cpus = 4
	}
	for i, n := range c.nodes {
		c.lines += fmt.Sprintf("NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%s CPUs=%d RealMemory=1000 State=UNKNOWN\n", n, host, ports[1+i], cpus)
	}
	c.writeConf()
}

// writeConf writes slurm.conf at once, since daemons may read it at any time.
func (c *Cluster) writeConf() {
	c.t.Helper()
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c.conf)) {
		if v := c.conf[key]; v != "" && key != "PartitionName" {
			text.WriteString(key + "=" + v + "\n")
		}
	}
	text.WriteString(c.lines)
	if v := c.conf["PartitionName"]; v != "" {
		text.WriteString("PartitionName=" + v + "\n")
	}
	c.write("slurm.conf.new", text.String(), 0o644)
	if err := os.Rename(c.path("slurm.conf.new"), c.path("slurm.conf")); err != nil {
		c.t.Fatal(err)
	}
}

func (c *Cluster) write(name, text string, mode os.FileMode) {
	c.t.Helper()
	if err := os.WriteFile(c.path(name), []byte(text), mode); err != nil {
		c.t.Fatal(err)
	}
}

// freePorts finds TCP ports of loopback that nobody uses now, below those that the
// kernel gives to connections.
func freePorts(t testing.TB, n int) []string {
	t.Helper()
	var ports []string
	for tries := 0; len(ports) < n; tries++ {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			if tries > 1000 {
				t.Fatal(err)
			}
			continue
		}
		defer l.Close() //nolint:errcheck // all at the end, so that they differ
		ports = append(ports, port)
	}
	return ports
}

// daemon is a program of the cluster in the foreground.
type daemon struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// start starts a daemon in the cluster's pen; the name is also that of its file.
func (c *Cluster) start(name string, args ...string) {
	c.t.Helper()
	program := name
	if slices.Contains(c.nodes, name) {
		program = "slurmd"
	}
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Dir = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "SLURM_CONF=" + c.path("slurm.conf")}, c.path("log")
	// In the terminal's group Ctrl-C would reach the daemons before the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	c.pen.hold(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	d := &daemon{cmd, make(chan struct{})}
	c.daemon[name] = d
	go func() {
		cmd.Wait() //nolint:errcheck // the signal is ours
		close(d.ended)
	}()
	c.t.Cleanup(d.kill)
}

func (d *daemon) kill() {
	d.cmd.Process.Kill() //nolint:errcheck // it may have ended
	<-d.ended
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sys "golang.org/x/sys/unix"

	"ioguard"
	"ioguard/host"
	"ioguard/node"
	"ioguard/slurm/slurmtest"
	"ioguard/store"
)

// site is a real Slurm whose nodes are recorded machines: each node has a
// configuration, a machine and a state directory of its own.
type site struct {
	*slurmtest.Cluster
	t   *testing.T
	bin string // of ioguard
}

// startSite starts nodes that are healthy. gate are further lines of the
// configurations' part of that name.
func startSite(t *testing.T, nodes int, gate string, conf map[string]string) *site {
	t.Helper()
	s := &site{t: t}
	s.Cluster = slurmtest.Start(t, slurmtest.Options{Nodes: nodes, Conf: conf, Setup: func(c *slurmtest.Cluster, o *slurmtest.Options) {
		s.Cluster = c
		self, err := os.Executable()
		check1(t, err)
		s.bin = filepath.Join(c.Dir, "ioguard")
		check1(t, os.Symlink(self, s.bin)) // testscript goes by the name
		hook := func(name string) string {
			return c.Script(name, fmt.Sprintf("export IOGUARD_CONFIG=%s/${SLURMD_NODENAME:-controller}.yaml\nbegan=$(date +%%s%%N)\n%s %s 2>>%s/%s.err\nrc=$?\n"+
				"echo \"$SLURMD_NODENAME $SLURM_JOB_ID $rc $(( ($(date +%%s%%N) - began) / 1000000 ))\" >>%s/%s.log\n[ $rc -eq 1 ] && exit 1\nexit 0\n",
				c.Dir, s.bin, name, c.Dir, name, c.Dir, name))
		}
		o.Prolog, o.Epilog = hook("prolog"), hook("epilog")
		other := func(name, node string) {
			path := c.Script(name, fmt.Sprintf("IOGUARD_CONFIG=%s/%s.yaml %s prolog || exit 0\n", c.Dir, node, s.bin))
			check1(t, os.Rename(path, filepath.Join(c.Dir, name)))
		}
		other("controller", "controller")
		other("task", "node1")
		check1(t, os.WriteFile(filepath.Join(c.Dir, "controller.yaml"), []byte(fmt.Sprintf("state_dir: %s/controller.state\ngate: {syslog: \"\"}\n", c.Dir)), 0o644))
		for key, value := range conf {
			conf[key] = strings.ReplaceAll(value, "DIR", c.Dir)
		}
		// Slurm's commands as ioguard calls them are counted.
		check1(t, os.Mkdir(filepath.Join(c.Dir, "bin"), 0o755))
		for _, name := range []string{"sinfo", "scontrol", "squeue"} {
			real, err := exec.LookPath(name)
			check1(t, err)
			text := fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >>%s/calls.log\nexec %s \"$@\"\n", name, c.Dir, real)
			check1(t, os.WriteFile(filepath.Join(c.Dir, "bin", name), []byte(text), 0o755))
		}
		for n := 1; n <= nodes; n++ {
			s.configure(fmt.Sprint("node", n), gate)
			s.become(fmt.Sprint("node", n), "client-healthy")
		}
	}})
	return s
}

func check1(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s *site) configure(node, gate string) {
	s.t.Helper()
	text := fmt.Sprintf("machine: %[1]s/%[2]s.machine\nstate_dir: %[1]s/%[2]s.state\nslurm: {bin: %[1]s/bin}\ngate:\n  syslog: \"\"\n%[3]s", s.Dir, node, gate)
	check1(s.t, os.WriteFile(filepath.Join(s.Dir, node+".yaml"), []byte(text), 0o644))
}

// become gives a node a recorded machine, with files replaced.
func (s *site) become(node, machine string, files ...string) {
	s.t.Helper()
	dir := filepath.Join(s.Dir, node+".machine")
	fresh := dir + ".new"
	unpackMachine(s.t, machine, fresh)
	for i := 0; i < len(files); i += 2 {
		name := filepath.Join(fresh, files[i])
		check1(s.t, os.MkdirAll(filepath.Dir(name), 0o755))
		check1(s.t, os.WriteFile(name, []byte(files[i+1]), 0o644))
	}
	_ = os.RemoveAll(dir + ".old")
	_ = os.Rename(dir, dir+".old")
	check1(s.t, os.Rename(fresh, dir))
}

// unpackMachine makes a folder of a recorded machine's archive.
func unpackMachine(t testing.TB, machine, dir string) {
	t.Helper()
	h, err := host.OpenMachine(filepath.Join("..", "..", "testdata", "machines", machine+".tar.zst"))
	check1(t, err)
	defer h.Close()
	check1(t, os.CopyFS(dir, h.FS))
}

// lines are those that hooks or commands wrote of themselves.
func (s *site) lines(name string) []string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, name))
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

// run runs ioguard by hand on a node.
func (s *site) run(node string, args ...string) (string, int) {
	s.t.Helper()
	cmd := exec.Command(s.bin, args...)
	cmd.Env = append(os.Environ(), s.Env...)
	cmd.Env = append(cmd.Env, "IOGUARD_CONFIG="+s.Dir+"/"+node+".yaml", "SLURMD_NODENAME="+node)
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// job is what the records of a node tell of a job.
func (s *site) jobs(node, id string) []ioguard.NodeJob {
	s.t.Helper()
	db, err := store.OpenReadOnly(filepath.Join(s.Dir, node+".state", "ioguard.db"))
	if err != nil {
		return nil
	}
	defer db.Close()
	jobs, err := db.NodeJobs(context.Background(), id)
	check1(s.t, err)
	return jobs
}

func (s *site) events(node string, kind ioguard.NodeEventKind) []ioguard.NodeEvent {
	s.t.Helper()
	db, err := store.OpenReadOnly(filepath.Join(s.Dir, node+".state", "ioguard.db"))
	if err != nil {
		return nil
	}
	defer db.Close()
	all, err := db.NodeEvents(context.Background(), store.EventQuery{Node: node, Kind: kind})
	check1(s.t, err)
	return all
}

// ended waits until the job's epilog has recorded it on a node.
func (s *site) ended(node, id string) ioguard.NodeJob {
	s.t.Helper()
	var job ioguard.NodeJob
	s.Until("the epilog of job "+id+" on "+node, 30*time.Second, func() bool {
		for _, j := range s.jobs(node, id) {
			if !j.End.IsZero() {
				job = j
				return true
			}
		}
		return false
	})
	return job
}

// TestSlurmHealthy: every way to start a job, on healthy nodes. No Slurm command is
// called, and the epilogs account what ran.
func TestSlurmHealthy(t *testing.T) {
	for _, flags := range []string{"Alloc", ""} {
		t.Run("PrologFlags="+flags, func(t *testing.T) {
			s := startSite(t, 2, "", map[string]string{"PrologFlags": flags})
			batch := s.Submit("-N1", "-w", "node1", "--wrap", "exit 3")
			two := s.Submit("-N2", "--wrap", "srun -N2 true")
			array := s.Submit("--array=1-3", "--wrap", "true")
			hostile := s.Submit("-w", "node1", "--job-name", "$(touch "+s.Dir+"/pwned)", "--comment", "a\n`touch "+s.Dir+"/pwned`", "-o", "/dev/null", "-D", "/tmp/../tmp", "--wrap", "true")
			if out, err := s.Run(t.Context(), "srun", "-w", "node2", "echo", "srun ran"); err != nil || !strings.Contains(string(out), "srun ran") {
				t.Errorf("srun: %q, %v", out, err)
			}
			if out, err := s.Run(t.Context(), "salloc", "-N2", "srun", "echo", "salloc ran"); err != nil || !strings.Contains(string(out), "salloc ran") {
				t.Errorf("salloc: %q, %v", out, err)
			}
			j := s.ended("node1", batch)
			if j.ExitCode == nil || *j.ExitCode != 3<<8 || j.Start.IsZero() || j.Partition == "" || j.WorkDir == "" || len(j.FS) != 1 || j.FS[0].FS != "lustre" {
				t.Errorf("batch job recorded as %+v", j)
			}
			s.ended("node1", two)
			s.ended("node2", two)
			s.ended("node1", hostile)
			s.UntilJob(array, 30*time.Second, "COMPLETED")
			if _, err := os.Stat(s.Dir + "/pwned"); err == nil {
				t.Error("what a user wrote was evaluated")
			}
			if _, err := os.Stat(s.Dir + "/calls.log"); err == nil {
				t.Errorf("Slurm commands on the healthy path: %q", s.lines("calls.log"))
			}
			for _, l := range s.lines("prolog.log") {
				if f := strings.Fields(l); len(f) != 4 || f[2] != "0" {
					t.Errorf("prolog: %q", l)
				}
			}
		})
	}
}

const deviceDir = "sys/kernel/debug/lustre/mdc/lustre-MDT0000-mdc-ffff8880086b6800/"

// TestSlurmSick: each class of failure drains the right node with the right reason,
// and the job is requeued and held. Healed, the node is resumed, but only when it
// was ioguard that drained it.
func TestSlurmSick(t *testing.T) {
	s := startSite(t, 2, "  undrain_after: 0\n  checks: {all-of-it: warn}\n", map[string]string{"PrologFlags": "Alloc"})
	s.brokenConfiguration()
	s.configure("node1", "  undrain_after: 0\n")
	netDown := "show:\n  - net:\n      errno: -100\n      descr: \"cannot get networks: Network is down\"\n"
	sick := []struct {
		name, machine string
		files         []string
		reason        string
	}{
		{"cable out", "client-link-cut", nil, "ioguard: ib rxe0/1 Down/Polling"},
		{"OST away", "client-ost-away", nil, "ioguard: OST0002 of lustre DISCONN from 10.77.0.1@o2ib"},
		{"evicted", "client-healthy", []string{deviceDir + "state", "current_state: EVICTED\nstate_history:\n", deviceDir + "import", "import:\n    state: EVICTED\n    target: lustre-MDT0000_UUID\n"},
			"ioguard: MDT0000 of lustre EVICTED"},
		{"LNet down", "client-healthy", []string{"commands/lnetctl_net_show/stdout", netDown}, "ioguard: lnet not up"},
		{"not mounted", "client-healthy", []string{"etc/fstab", "10.77.0.9@o2ib:/other /scratch lustre flock 0 0\n"}, "ioguard: not mounted: /scratch"},
	}
	for _, tt := range sick {
		s.become("node1", tt.machine, tt.files...)
		id := s.Submit("-w", "node1", "--wrap", "echo ran >"+s.Dir+"/ran.$SLURM_JOB_ID")
		s.Until(tt.name+": node1 is drained", 30*time.Second, func() bool { return strings.HasPrefix(s.Nodes()["node1"], "drain") })
		if r := s.Reason("node1"); !strings.HasPrefix(r, tt.reason) {
			t.Errorf("%s: reason %q, want %q", tt.name, r, tt.reason)
		}
		s.Until(tt.name+": the job is held", 30*time.Second, func() bool { return s.Job(id)["Reason"] == "launch_failed_requeued_held" })
		if _, err := os.Stat(s.Dir + "/ran." + id); err == nil {
			t.Errorf("%s: the job ran on the sick node", tt.name)
		}
		if out, status := s.run("node1", "check", "--undrain"); status != 1 || !strings.Contains(s.Reason("node1"), "ioguard") {
			t.Errorf("%s: undrain of the sick node: %d, %s", tt.name, status, out)
		}
		s.become("node1", "client-healthy")
		if out, status := s.run("node1", "check", "--undrain"); status > 1 || strings.Contains(out, "no job would start") || s.Reason("node1") != "" {
			t.Errorf("%s: undrain of the healed node: %d, reason %q, %s", tt.name, status, s.Reason("node1"), out)
		}
		s.Must("scancel", id)
		s.Until("node1 is idle", 30*time.Second, func() bool { return s.Nodes()["node1"] == "idle" })
	}
	if st := s.Nodes()["node2"]; st != "idle" {
		t.Errorf("node2 is %s: it was well", st)
	}
	if n := len(s.events("node1", ioguard.EventDrain)); n != len(sick) {
		t.Errorf("%d drains recorded, want %d", n, len(sick))
	}
	s.adminsReason()
}

// brokenConfiguration: jobs run, and it is recorded.
func (s *site) brokenConfiguration() {
	s.become("node1", "client-link-cut")
	s.UntilJob(s.Submit("-w", "node1", "--wrap", "true"), 30*time.Second, "COMPLETED")
	if st := s.Nodes()["node1"]; st != "idle" && st != "allocated" && st != "completing" && st != "mixed" {
		s.t.Errorf("a broken configuration: node1 is %s", st)
	}
}

// adminsReason: what a person wrote stays, and only a person takes it away.
func (s *site) adminsReason() {
	s.Must("scontrol", "update", "NodeName=node1", "State=DRAIN", "Reason=admin: do not touch")
	s.become("node1", "client-link-cut")
	if out, status := s.run("node1", "check", "--drain"); status != 1 {
		s.t.Errorf("check --drain: %d, %s", status, out)
	}
	s.configure("node2", "")
	s.become("node2", "client-link-cut")
	if out, status := s.run("node2", "check", "--drain", "--dry-run"); status != 1 || !strings.Contains(out, "ioguard: would drain node2 ioguard: ib rxe0/1 Down/Polling") || s.Reason("node2") != "" {
		s.t.Errorf("check --drain --dry-run: %d, reason %q, %s", status, s.Reason("node2"), out)
	}
	s.become("node1", "client-healthy")
	s.run("node1", "check", "--undrain")
	if r := s.Reason("node1"); r != "admin: do not touch" {
		s.t.Errorf("reason %q", r)
	}
}

// TestSlurmRequeue: with the policy requeue a batch job starts on another node by
// itself.
func TestSlurmRequeue(t *testing.T) {
	s := startSite(t, 2, "  checks: {ib-port: requeue}\n", map[string]string{"PrologFlags": "Alloc"})
	s.become("node1", "client-link-cut")
	id := s.Submit("-N1", "--wrap", "hostname; sleep 0.1")
	s.Until("the job is requeued", 30*time.Second, func() bool { j := s.Job(id); return j["Restarts"] == "1" && j["JobState"] == "PENDING" })
	if j := s.Job(id); strings.Contains(j["Reason"], "held") || j["Priority"] == "0" {
		t.Fatalf("the job is held: %v; calls %q", j, s.lines("calls.log"))
	}
	s.Must("scontrol", "update", "JobId="+id, "StartTime=now") // Slurm waits for two minutes, until the job's credential has expired
	s.UntilJob(id, 30*time.Second, "COMPLETED")
	if j := s.Job(id); j["NodeList"] != "node2" {
		t.Errorf("it ran on %s: %v", j["NodeList"], j)
	}
	if !strings.HasPrefix(s.Reason("node1"), "ioguard: ib rxe0/1") || !strings.HasPrefix(s.Nodes()["node1"], "drain") {
		t.Errorf("node1 is %s, %q", s.Nodes()["node1"], s.Reason("node1"))
	}
}

// TestSlurmBrake: a fault that all nodes share does not drain the cluster.
func TestSlurmBrake(t *testing.T) {
	const nodes = 8
	s := startSite(t, nodes, "", map[string]string{"PrologFlags": "Alloc"})
	for n := 1; n <= nodes; n++ {
		s.become(fmt.Sprint("node", n), "client-ost-away")
	}
	var ids []string
	for n := 1; n <= nodes; n++ {
		ids = append(ids, s.Submit("-w", fmt.Sprint("node", n), "--wrap", "true"))
	}
	for _, id := range ids {
		s.Until("job "+id+" ends or is held", 60*time.Second, func() bool {
			j := s.Job(id)
			return j["JobState"] == "COMPLETED" || j["Reason"] == "launch_failed_requeued_held"
		})
	}
	drained, braked := 0, 0
	for n := 1; n <= nodes; n++ {
		name := fmt.Sprint("node", n)
		if strings.HasPrefix(s.Nodes()[name], "drain") {
			drained++
		}
		braked += len(s.events(name, ioguard.EventBrake))
	}
	if drained > 2 || drained+braked < nodes {
		t.Errorf("%d of %d nodes drained, %d brakes recorded", drained, nodes, braked)
	}
	// A job of all nodes that are left may lose some of them, no more than the limit in
	// all; so one of the next runs.
	for range 4 {
		left := 0 // a prolog that drains may be about to take it back
		s.Until("no more than two nodes stay drained", 20*time.Second, func() bool {
			left = 0
			for _, state := range s.Nodes() {
				if !strings.HasPrefix(state, "drain") {
					left++
				}
			}
			return left >= nodes-2
		})
		id := s.Submit("-N", fmt.Sprint(left), "--wrap", "true")
		s.Until("a job of the nodes that are left ends or is held", 60*time.Second, func() bool {
			j := s.Job(id)
			return j["JobState"] == "COMPLETED" || j["JobState"] == "PENDING" && j["Priority"] == "0"
		})
		if s.Job(id)["JobState"] == "COMPLETED" && left == nodes-2 {
			return
		}
		if s.Job(id)["JobState"] == "PENDING" {
			s.Must("scancel", id)
		}
		drained = nodes - left
	}
	if drained < 2 && braked == 0 {
		t.Errorf("four jobs of all nodes, and neither two drains nor a brake: %v", s.Nodes())
	}
}

// hang mounts a file system that never answers, and gives its directory and a way
// to let everybody go who waits for it. It needs FUSE.
func hang(t *testing.T) (dir string, release func()) {
	t.Helper()
	fd, err := sys.Open("/dev/fuse", sys.O_RDWR|sys.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no FUSE here: %v", err)
	}
	dir = t.TempDir()
	if err := sys.Mount("hang", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		sys.Close(fd)
		t.Skipf("cannot mount FUSE: %v", err)
	}
	var once sync.Once
	release = func() {
		once.Do(func() {
			sys.Close(fd) // ends the connection: who waits gets ENOTCONN
			check1(t, sys.Unmount(dir, sys.MNT_DETACH))
		})
	}
	t.Cleanup(release)
	return dir, release
}

// probes counts the processes that ask a mount.
func probes(t *testing.T, dir string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check1(t, err)
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if words := strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"); len(words) >= 3 && words[len(words)-2] == "probe" && words[len(words)-1] == dir {
			pids = append(pids, f)
		}
	}
	return pids
}

// TestSlurmStuckMount: twenty jobs start on a node where a mount hangs. There is one
// probe, every prolog answers within its budget, and slurmd waits for nothing. Then
// the same with the policy to drain.
func TestSlurmStuckMount(t *testing.T) {
	dir, release := hang(t)
	s := startSite(t, 2, "", map[string]string{"PrologFlags": "Alloc"})
	live := func(more string) {
		text := fmt.Sprintf("state_dir: %[1]s/node1.state\nslurm: {bin: %[1]s/bin}\ngate:\n  syslog: \"\"\n  budget: 3\n  mounts: [%[2]s]\n  undrain_after: 0\n%[3]s", s.Dir, dir, more)
		check1(t, os.WriteFile(filepath.Join(s.Dir, "node1.yaml"), []byte(text), 0o644))
	}
	live("  checks: {mount-hang: warn, local: ignore, kmsg: ignore}\n")
	array := s.Submit("--array=1-20", "-w", "node1", "--wrap", "true")
	s.Until("twenty jobs end", 60*time.Second, func() bool {
		out, err := s.Run(t.Context(), "squeue", "-h", "-j", array)
		return err != nil || len(strings.TrimSpace(string(out))) == 0
	})
	lines := s.lines("prolog.log")
	if len(lines) < 20 {
		t.Errorf("%d prologs ran", len(lines))
	}
	for _, l := range lines {
		var node, id string
		var status, ms int
		if _, err := fmt.Sscan(l, &node, &id, &status, &ms); err != nil || status != 0 || ms > 3500 {
			t.Errorf("prolog: %q, %v", l, err)
		}
	}
	if p := probes(t, dir); len(p) != 1 {
		t.Errorf("%d probes: %q", len(p), p)
	}
	found := s.events("node1", ioguard.EventFinding)
	if len(found) == 0 || found[0].Check != "mount-hang" || found[0].Subject != dir {
		t.Errorf("recorded %+v", found)
	}

	live("  checks: {local: ignore, kmsg: ignore}\n")
	id := s.Submit("-w", "node1", "--wrap", "true")
	s.Until("node1 is drained", 30*time.Second, func() bool { return strings.HasPrefix(s.Nodes()["node1"], "drain") })
	if r := s.Reason("node1"); !strings.HasPrefix(r, "ioguard: hung "+dir+" since ") {
		t.Errorf("reason %q", r)
	}
	s.Must("scancel", id)
	release()
	s.Until("the probe ends", 10*time.Second, func() bool { return len(probes(t, dir)) == 0 })
	live("  checks: {local: ignore, kmsg: ignore, lfs-mount: warn}\n") // it is unmounted now
	if out, _ := s.run("node1", "check", "--undrain"); s.Reason("node1") != "" {
		t.Errorf("reason %q after the mount is well: %s", s.Reason("node1"), out)
	}
}

// TestSlurmOtherHooks: the controller's facts are kept, and a task is told what was
// prepared for its job.
func TestSlurmOtherHooks(t *testing.T) {
	s := startSite(t, 1, "", map[string]string{"PrologFlags": "Alloc", "PrologSlurmctld": "DIR/controller", "TaskProlog": "DIR/task"})
	out := filepath.Join(s.Dir, "out")
	id := s.Submit("-J", "climate run", "-o", out, "--hold", "--wrap", "echo out=$IOGUARD_OUT")
	state, err := node.Open(filepath.Join(s.Dir, "node1.state"))
	check1(t, err)
	check1(t, state.SaveTask("node1", id, uint32(os.Getuid()), node.Task{Export: map[string]string{"IOGUARD_OUT": "/lustre/out/1", "PATH": "/evil"}, Notice: "last run's\ncheckpoints hurt others"}))
	s.Must("scontrol", "release", id)
	s.UntilJob(id, 30*time.Second, "COMPLETED")
	var text string
	s.Until("the job's output", 10*time.Second, func() bool { b, _ := os.ReadFile(out); text = string(b); return strings.Contains(text, "out=") })
	if text != "ioguard: last run's checkpoints hurt others\nout=/lustre/out/1\n" {
		t.Errorf("the job printed %q", text)
	}
	db, err := store.OpenReadOnly(filepath.Join(s.Dir, "controller.state", "ioguard.db"))
	check1(t, err)
	defer db.Close()
	jobs, err := db.NodeJobs(t.Context(), id)
	if err != nil || len(jobs) != 1 || jobs[0].Name != "climate run" || jobs[0].NodeList != "node1" {
		t.Errorf("the controller kept %+v, %v", jobs, err)
	}
	s.ended("node1", id)
	if _, err := node.LoadTask(filepath.Join(s.Dir, "node1.state"), "node1", id); err == nil {
		t.Error("the epilog forgot to forget")
	}
}

// TestSlurmBrakeHolds: behind the brake the job goes back to the queue and is held; it
// does not run, and the node stays.
func TestSlurmBrakeHolds(t *testing.T) {
	s := startSite(t, 2, "  brake: {nodes: 1, share_percent: 0, do: hold}\n", map[string]string{"PrologFlags": "Alloc"})
	s.become("node1", "client-ost-away")
	s.become("node2", "client-ost-away")
	s.Submit("-w", "node1", "--wrap", "true")
	s.Until("node1 is drained", 30*time.Second, func() bool { return strings.HasPrefix(s.Nodes()["node1"], "drain") })
	id := s.Submit("-w", "node2", "--wrap", "touch "+s.Dir+"/ran")
	s.Until("the job is held", 30*time.Second, func() bool {
		j := s.Job(id)
		return j["JobState"] == "PENDING" && j["Priority"] == "0"
	})
	s.Until("node2 is idle again", 30*time.Second, func() bool { return s.Nodes()["node2"] == "idle" })
	if _, err := os.Stat(s.Dir + "/ran"); err == nil {
		t.Error("the job ran on the sick node")
	}
	if held := s.events("node2", ioguard.EventHold); len(held) != 1 || s.Reason("node2") != "" {
		t.Errorf("recorded %+v, reason %q", held, s.Reason("node2"))
	}
}

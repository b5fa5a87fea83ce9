package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"ioguard/bench/nodetest"
	"ioguard/view"
)

const (
	gateBudget = 5 * time.Second       // of the configuration by default
	gateTarget = 15 * time.Millisecond // a healthy prolog
	gateBurst  = 200                   // prologs at once, as when an array of jobs starts on a node
	gateSick   = 5                     // runs on the unhealthy node: each waits two seconds for a failover
	awayTarget = "scratch-OST0007"
)

// gateNode is a recorded compute node and the configuration that names it.
type gateNode struct {
	what, root, config, state string
}

// newGateNode writes a node. Slurm's commands are looked for in an empty folder, so
// that nothing here is ever asked or drained.
func (b *bench) newGateNode(what string, n nodetest.Node) (*gateNode, error) {
	dir, err := os.MkdirTemp(b.dir, "node-")
	if err != nil {
		return nil, err
	}
	g := &gateNode{what: what, config: filepath.Join(dir, "ioguard.yaml"), state: filepath.Join(dir, "state")}
	if g.root, err = n.Write(dir); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("machine: %q\nstate_dir: %q\ngate: {syslog: \"\"}\nslurm: {bin: %q}\n", g.root, g.state, filepath.Join(dir, "no-slurm"))
	return g, os.WriteFile(g.config, []byte(text), 0o644)
}

// environment is what slurmd gives a Prolog, all of it (Slurm 22.05 and 23.02):
// neither PATH nor HOME. The configuration is beside it.
func (g *gateNode) environment(job int) []string {
	id := strconv.Itoa(job)
	return []string{"SLURMD_NODENAME=" + nodetest.Name, "SLURM_CLUSTER_NAME=cluster", "SLURM_CONF=/etc/slurm/slurm.conf",
		"SLURM_JOBID=" + id, "SLURM_JOB_ID=" + id, "SLURM_JOB_CPUS_PER_NODE=128", "SLURM_JOB_NUM_NODES=1", "SLURM_JOB_PARTITION=batch",
		"SLURM_JOB_UID=1001", "SLURM_UID=1001", "SLURM_JOB_GID=1001", "SLURM_JOB_USER=alice", "SLURM_JOB_RESTART_COUNT=0",
		"SLURM_JOB_STDIN=/dev/null", "SLURM_JOB_STDOUT=/lustre/scratch/alice/run-%j.out", "SLURM_JOB_WORK_DIR=/lustre/scratch/alice",
		"SLURM_NODELIST=" + nodetest.Name, "SLURM_JOB_NODELIST=" + nodetest.Name, "SLURM_SCRIPT_CONTEXT=prolog_slurmd", "IOGUARD_CONFIG=" + g.config}
}

func (b *bench) prolog(g *gateNode, times int) *contender {
	return &contender{name: "ioguard prolog, " + g.what, args: []string{b.ioguard, "prolog"}, env: g.environment(4711), times: times}
}

// shellMethod is how sites check a node from a prolog today, written here after
// what they publish: a look at each port, LNet, the imports, a disk and the process
// table. It is kind to the shell: the answer of lnetctl is a file here, and one awk
// reads all imports. It judges nothing else that ioguard judges, and remembers nothing.
const shellMethod = `root=$1
fail() { echo "unhealthy: $1" >&2; exit 1; }
for port in "$root"/sys/class/infiniband/*/ports/*; do
	grep -q ACTIVE "$port/state" && grep -q LinkUp "$port/phys_state" || fail "$port"
done
cat "$root/commands/lnetctl_net_show/stdout" | awk '$1 == "status:" && $2 != "up" { bad = 1 } END { exit bad }' || fail LNet
for mount in /lustre/scratch /lustre/work; do
	grep -q " $mount lustre " "$root/proc/mounts" || fail "$mount"
done
awk '$1 == "state:" && $2 != "FULL" && $2 != "IDLE" { bad = 1 } END { exit bad }' "$root"/sys/kernel/debug/lustre/{mgc,mdc,osc}/*/import || fail imports
df -P /tmp | awk 'NR == 2 { exit $5 + 0 > 99 }' || fail /tmp
ps -eo stat=,comm= | awk '$1 ~ /^D/ { n++ } END { exit n > 1000 }' || fail processes
`

// nhcChecks are six checks as the sample configuration of LBNL's Node Health Check
// has them (nhc.conf of mej/nhc: free memory, free space, free inodes, files, file
// systems, load). It looks at this machine, since it takes no other root, and at
// neither LNet nor an import: it has no check for these.
const nhcChecks = `* || export MARK_OFFLINE=0
* || check_hw_physmem_free 1MB
* || check_fs_mount_rw -f /
* || check_fs_free / 1%
* || check_fs_ifree / 1
* || check_file_test -r -s /etc/passwd /etc/group
* || check_ps_loadavg 1000
`

const nhcProgram = "/usr/sbin/nhc"

// gatePeers are what the prolog is measured against. What is not installed is said.
func (b *bench) gatePeers(g *gateNode) ([]*contender, error) {
	script := filepath.Join(b.dir, "shell-method")
	if err := os.WriteFile(script, []byte(shellMethod), 0o644); err != nil {
		return nil, err
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		return nil, err
	}
	peers := []*contender{{name: "shell method", args: []string{bash, script, g.root}}}
	if fileSize(nhcProgram) == 0 {
		fmt.Println("LBNL's nhc is not installed: it is not measured")
		return peers, nil
	}
	conf := filepath.Join(b.dir, "nhc.conf")
	if err := os.WriteFile(conf, []byte(nhcChecks), 0o644); err != nil {
		return nil, err
	}
	nhc := &contender{name: "nhc, six checks of this machine", args: []string{nhcProgram, "-c", conf, "-l", "/dev/null"}}
	if _, err := b.process(nil, nhc.args[0], nhc.args[1:]...); err != nil {
		fmt.Println("nhc finds this machine unhealthy and is not measured:", err)
		return peers, nil
	}
	return append(peers, nhc), nil
}

// gate measures the prolog as slurmd starts it.
func (b *bench) gate() error {
	sick := nodetest.Large()
	sick.Away = awayTarget
	healthy, err := b.newGateNode("healthy", nodetest.Large())
	if err != nil {
		return err
	}
	away, err := b.newGateNode("an OST away, no Slurm", sick)
	if err != nil {
		return err
	}
	peers, err := b.gatePeers(healthy)
	if err != nil {
		return err
	}
	own, late := b.prolog(healthy, 0), b.prolog(away, gateSick)
	rounds := b.rounds
	b.rounds = b.prologs
	defer func() { b.rounds = rounds }()
	if err := b.race([]*contender{{args: own.args, env: own.env, times: 1}}); err != nil { // the first run finds no memory, and nothing in the page cache
		return err
	}
	if err := b.race(append([]*contender{own, late}, peers...)); err != nil {
		return err
	}
	if err := errors.Join(healthy.concluded(true), away.concluded(false)); err != nil {
		return err
	}
	b.printGate(own, late, peers)
	wall := own.wall()
	b.promise("prolog of a healthy node, median", "< 15 ms", ms(wall)+" ms", wall < gateTarget)
	b.promise("the same against the shell method", "< 1 x", times(wall, peers[0].wall())+" x", wall < peers[0].wall())
	b.promise("prolog of an unhealthy node", "< 5 s", ms(late.wallAt(1))+" ms", late.wallAt(1) < gateBudget)
	return errors.Join(b.burst(healthy), b.burst(away))
}

func (b *bench) printGate(own, late *contender, peers []*contender) {
	n := nodetest.Large()
	fmt.Printf("the prolog of a node with 2 ports, %d Lustre mounts of %d OSTs and %d MDTs each, recorded; %d runs, %d of the unhealthy node\n\n",
		len(n.FileSystems), n.OSTs, n.MDTs, len(own.runs), len(late.runs))
	t := view.Table{Header: []view.Column{{Name: "PROGRAM", Flex: true}, {Name: "WALL_MS", Right: true}, {Name: "P90_MS", Right: true}, {Name: "CPU_MS", Right: true},
		{Name: "X_SHELL", Right: true}, {Name: "RSS_MB", Right: true}}}
	for _, c := range append([]*contender{own, late}, peers...) {
		t.Rows = append(t.Rows, []string{c.name, ms(c.wall()), ms(c.wallAt(0.9)), ms(c.cpu()), times(c.wall(), peers[0].wall()), megabytes(c.rss())})
	}
	_ = t.Write(os.Stdout, 0)
	fmt.Print(gateNote)
}

// gateNote says what a recorded node leaves out and what it adds.
const gateNote = `
The shell method is this program's own few lines: grep over the ports, awk over
lnetctl's answer and the imports, df, ps. On a live node both wait for lnetctl as
well, and ioguard starts a probe per mount; reading a recorded folder costs more
system calls than reading /sys. The unhealthy node is looked at for two seconds,
in case the server fails over.

`

// concluded tells whether the last prolog came to a verdict, and the right one: it
// exits with 0 as well when ioguard itself fails.
func (g *gateNode) concluded(healthy bool) error {
	var memory struct {
		Healthy time.Time `json:"healthy"`
		Boot    string    `json:"boot"`
	}
	text, err := os.ReadFile(filepath.Join(g.state, "nodes", nodetest.Name+".json"))
	if err == nil {
		err = json.Unmarshal(text, &memory)
	}
	if err == nil && (memory.Boot == "" || memory.Healthy.IsZero() == healthy) {
		err = fmt.Errorf("healthy is %v, want %v", !memory.Healthy.IsZero(), healthy)
	}
	if err != nil {
		return fmt.Errorf("prolog of %s: %w", g.what, err)
	}
	return nil
}

// burst starts prologs of many jobs at once.
func (b *bench) burst(g *gateNode) error {
	if err := os.RemoveAll(filepath.Join(g.state, "jobs")); err != nil {
		return err
	}
	type end struct {
		usage
		err error
	}
	ends := make(chan end)
	began := time.Now()
	for job := range gateBurst {
		go func() {
			u, err := b.process(g.environment(10_000+job), b.ioguard, "prolog")
			ends <- end{u, err}
		}()
	}
	var walls []time.Duration
	var errs []error
	for range gateBurst {
		e := <-ends
		walls = append(walls, e.wall)
		errs = append(errs, e.err)
	}
	all := time.Since(began)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%d prologs at once: %w", gateBurst, err)
	}
	// What a prolog keeps for the epilog is the last that it does but to record.
	jobs, err := os.ReadDir(filepath.Join(g.state, "jobs", nodetest.Name))
	if err != nil {
		return fmt.Errorf("%d prologs at once: %w", gateBurst, err)
	}
	longest := quantile(walls, 1)
	fmt.Printf("%d prologs at once on %d CPUs, %s: all exit 0, %d came to a verdict, median %s ms, the longest %s ms, together %s ms\n",
		gateBurst, runtime.NumCPU(), g.what, len(jobs), ms(quantile(walls, 0.5)), ms(longest), ms(all))
	what := fmt.Sprintf("%d at once, %s", gateBurst, g.what)
	b.promise(what+", the longest", "< 5 s", ms(longest)+" ms", longest < gateBudget)
	b.promise(what+", with a verdict", strconv.Itoa(gateBurst), strconv.Itoa(len(jobs)), len(jobs) == gateBurst)
	return nil
}

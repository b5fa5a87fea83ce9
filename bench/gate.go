package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
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

// gateNode is a compute node, and how a prolog is started on it.
type gateNode struct {
	what    string
	program string
	config  string
	state   string // the state directory, as this program sees it
	root    string // of a recorded machine
	chroot  string // of one that is taken for live; "" otherwise
	probes  string // what the probes of a live one keep, so that the next run asks anew
}

// childNode writes the files of a node: ROOT and the target that is AWAY.
func childNode(args []string) error {
	n := nodetest.Large()
	n.Away = args[1]
	return n.WriteRoot(args[0])
}

// newGateNode writes a recorded node. Slurm's commands are looked for in an empty folder, so
// that nothing here is ever asked or drained.
func (b *bench) newGateNode(what, away string) (*gateNode, error) {
	dir, err := os.MkdirTemp(b.dir, "node-")
	if err != nil {
		return nil, err
	}
	g := &gateNode{what: what, program: b.ioguard, config: filepath.Join(dir, "ioguard.yaml"), state: filepath.Join(dir, "state"), root: nodetest.Root(dir)}
	if _, err := b.process(b.self, "node", g.root, away); err != nil {
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

func (g *gateNode) prolog(job, times int) *contender {
	return &contender{name: "ioguard prolog, " + g.what, args: []string{g.program, "prolog"}, env: g.environment(job), root: g.chroot, reset: g.probes, times: times}
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
	if _, err := b.run(nhc); err != nil {
		fmt.Println("nhc finds this machine unhealthy and is not measured:", err)
		return peers, nil
	}
	return append(peers, nhc), nil
}

// gateNodes are a live node (where this is root), a recorded one, and one that is sick.
func (b *bench) gateNodes() (nodes []*gateNode, err error) {
	live, err := b.newLiveNode("healthy, live", "")
	sick := b.newLiveNode
	switch {
	case err == nil:
		nodes = append(nodes, live)
	case errors.Is(err, errNotRoot):
		fmt.Println("not root: a live node is not measured")
		sick = b.newGateNode
	default:
		return nil, err
	}
	healthy, err := b.newGateNode("healthy, recorded", "")
	if err != nil {
		return nil, err
	}
	away, err := sick("OST away, no Slurm", awayTarget)
	return append(nodes, healthy, away), err
}

// gate measures the prolog as slurmd starts it.
func (b *bench) gate() error {
	nodes, err := b.gateNodes()
	if err != nil {
		return err
	}
	away := nodes[len(nodes)-1]
	all, err := b.gatePeers(nodes[len(nodes)-2])
	if err != nil {
		return err
	}
	shell := all[0]
	for i, g := range nodes {
		c := g.prolog(4711, 0)
		if g == away {
			c.times = gateSick
		}
		if _, err := b.run(c); err != nil { // the first run finds no memory, and nothing in the page cache
			return err
		}
		all = slices.Insert(all, i, c)
	}
	rounds := b.rounds
	b.rounds = b.prologs
	err = b.race(all)
	b.rounds = rounds
	if err != nil {
		return err
	}
	for _, g := range nodes {
		if err := g.concluded(g != away); err != nil {
			return err
		}
	}
	b.printGate(all, shell)
	b.promiseGate(all[0], all[len(nodes)-1], shell)
	for _, g := range nodes {
		if err := b.burst(g); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) promiseGate(own, late, shell *contender) {
	wall := own.wall()
	b.promise("prolog, "+strings.TrimPrefix(own.name, "ioguard prolog, ")+", median", "< 15 ms", ms(wall)+" ms", wall < gateTarget)
	b.promise("the same against the shell method", "< 1 x", times(wall, shell.wall())+" x", wall < shell.wall())
	b.promise("prolog, OST away, the longest", "< 5 s", ms(late.wallAt(1))+" ms", late.wallAt(1) < gateBudget)
}

func (b *bench) printGate(all []*contender, shell *contender) {
	n := nodetest.Large()
	fmt.Printf("the prolog of a node with 2 ports and %d Lustre mounts of %d OSTs and %d MDTs each; %d runs, %d where an OST is away\n\n",
		len(n.FileSystems), n.OSTs, n.MDTs, b.prologs, gateSick)
	t := view.Table{Header: []view.Column{{Name: "PROGRAM", Flex: true}, {Name: "WALL_MS", Right: true}, {Name: "P90_MS", Right: true}, {Name: "CPU_MS", Right: true},
		{Name: "X_SHELL", Right: true}, {Name: "RSS_MB", Right: true}}}
	for _, c := range all {
		t.Rows = append(t.Rows, []string{c.name, ms(c.wall()), ms(c.wallAt(0.9)), ms(c.cpu()), times(c.wall(), shell.wall()), megabytes(c.rss())})
	}
	_ = t.Write(os.Stdout, 0)
	fmt.Print(gateNote)
}

// gateNote says what the rows leave out and what they add.
const gateNote = `
Live is a root of plain files: ioguard starts lnetctl and a probe per mount there,
and their CPU time is in its row; the kernel's time to print its files is not. A
recorded folder starts no process. The shell method is a
few lines of this program's own over the recorded files: grep of the ports, awk
over lnetctl's answer and all imports, df, ps. Where an OST is away, two
seconds are waited for a failover.

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
			u, err := b.run(g.prolog(10_000+job, 1))
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

package prolog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"ioguard"
	"ioguard/gate"
	"ioguard/host"
	"ioguard/node"
	"ioguard/slurm"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site is one node of a fake cluster, which stays while hooks come and go.
type site struct {
	t      *testing.T
	slurm  *fakeSlurm
	dir    string // the state directory; "" for none
	policy gate.Policy
	later  time.Duration // by which the hooks' clock is ahead
	events []ioguard.NodeEvent
	lost   bool // the records take nothing
	log    bytes.Buffer
	edit   func(*Node) // of the next hooks
	host   func(*host.Host)
	boot   string
}

func newSite(t *testing.T, nodes int) *site {
	return &site{t: t, slurm: cluster(t, nodes), dir: filepath.Join(t.TempDir(), "state"), policy: gate.Policy{Brake: gate.DefaultBrake}, boot: "first"}
}

// node is the node for one hook, on a recorded machine.
func (s *site) node(machine string) *Node {
	s.t.Helper()
	h, err := host.OpenMachine(filepath.Join("..", "testdata", "machines", machine+".tar.zst"))
	check(s.t, err)
	s.t.Cleanup(func() { h.Close() })
	h.FS = booted{h.FS, s.boot}
	if s.host != nil {
		s.host(h)
	}
	n := &Node{Name: "node1", Looker: &gate.Looker{Host: h, Site: gate.Site{JobIDVar: "SLURM_JOB_ID"}}, Policy: s.policy, Undrain: 5 * time.Minute,
		Slurm: Slurm{Nodes: s.slurm.Nodes, Do: s.slurm}, Log: hclog.New(&hclog.LoggerOptions{Output: &s.log}),
		Now: func() time.Time { return time.Now().Add(s.later) },
		Records: func(ctx context.Context, events []ioguard.NodeEvent) error {
			if s.lost {
				return errors.New("database is locked")
			}
			s.events = append(s.events, events...)
			return ctx.Err()
		}}
	if s.dir != "" {
		n.State, err = node.Open(s.dir)
		check(s.t, err)
	}
	if s.edit != nil {
		s.edit(n)
	}
	return n
}

func hookOf(id string) slurm.Hook {
	return slurm.Hook{Context: slurm.PrologSlurmd, JobID: id, NodeName: "node1", User: "alice", Partition: "batch", Cluster: "c1"}
}

// job runs the prolog of a job as Slurm would, within the default budget.
func (s *site) job(machine, id string) Outcome {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	return s.node(machine).Job(ctx, hookOf(id))
}

// check runs the health check.
func (s *site) check(machine string, drain, undrain bool) Outcome {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	return s.node(machine).Check(ctx, slurm.Hook{Context: slurm.HealthCheck, NodeName: "node1"}, drain, undrain)
}

// kinds are those of the events that were recorded since the last call.
func (s *site) kinds() string {
	var all []string
	for _, e := range s.events {
		all = append(all, string(e.Kind))
	}
	s.events = nil
	return strings.Join(all, " ")
}

// but are the kinds without findings: recorded machines differ in more than one thing.
func (s *site) but() string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s.kinds(), "finding", "")), " ")
}

// did is what was asked of Slurm since the last call.
func (s *site) did() string {
	all := strings.Join(s.slurm.done, ", ")
	s.slurm.done = nil
	return all
}

func (s *site) jobKept(id string) bool {
	_, err := os.Stat(filepath.Join(s.dir, "jobs", "node1", id+".json"))
	return err == nil
}

const awayReason = "ioguard: OST0002 of lustre DISCONN from 10.77.0.1@o2ib since 06:16 [lustre-OST0002 10.77.0.1@o2ib]"

// fast is a policy that does not look again: these tests are not about patience.
func (s *site) fast(do gate.Action) *site {
	zero := time.Duration(0)
	s.policy.Checks = map[string]gate.Override{"lfs-ost": {Do: do, Retry: &zero}, "ib-port": {Do: do, Retry: &zero}, "lnet": {Retry: &zero}, "lfs-mdt": {Retry: &zero}}
	return s
}

func TestHealthy(t *testing.T) {
	s := newSite(t, 3)
	out := s.job("client-healthy", "1")
	if out.Blocked || out.Reason != "" || s.did() != "" || s.kinds() != "" || s.log.Len() > 0 {
		t.Errorf("%+v, log %q", out.Verdict, s.log.String())
	}
	st, err := node.Open(s.dir)
	check(t, err)
	j, err := st.TakeJob("node1", "1")
	if err != nil || len(j.Llite) != 1 || j.Llite[0].FS != "lustre" || !j.Alone || j.Hook.User != "alice" || time.Since(j.Started) > time.Minute {
		t.Errorf("kept %+v, %v", j, err)
	}
	if m, err := s.node("client-healthy").Memory(); err != nil || m.Healthy.IsZero() || len(m.Mounts) != 1 || m.Drained != nil {
		t.Errorf("memory %+v, %v", m, err)
	}
}

// TestRetry: with the checks' own patience the verdict is the same, and in time.
func TestRetry(t *testing.T) {
	s := newSite(t, 8)
	began := time.Now()
	out := s.job("client-link-cut", "1")
	if took := time.Since(began); !out.Blocked || out.Looks < 2 || took < 2*time.Second || took > 5*time.Second {
		t.Errorf("blocked %v after %d looks and %v", out.Blocked, out.Looks, took)
	}
	if r := s.slurm.node("node1").Reason; r != "ioguard: ib rxe0/1 Down/Polling [fabric]" {
		t.Errorf("reason %q", r)
	}
}

// TestSourceHangs: a source that never answers does not use up the time to drain.
func TestSourceHangs(t *testing.T) {
	s := newSite(t, 8).fast(gate.Drain)
	s.host = func(h *host.Host) {
		run := h.Run
		*h = host.Host{Name: h.Name, FS: h.FS, Time: h.Time, Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
			if name == "lctl" {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return run(ctx, name, args...)
		}}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	out := s.node("client-ost-away").Job(ctx, hookOf("1"))
	if !out.Blocked || !strings.HasPrefix(s.slurm.node("node1").Reason, "ioguard: OST0002") || ctx.Err() != nil {
		t.Errorf("blocked %v after %v, did %q, recorded %q", out.Blocked, time.Since(began), s.did(), s.kinds())
	}
}

// TestSlurmHangs: the hook ends with its budget, and the job starts.
func TestSlurmHangs(t *testing.T) {
	s := newSite(t, 8).fast(gate.Drain)
	s.slurm.hang = true
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	if out := s.node("client-ost-away").Job(ctx, hookOf("1")); out.Blocked || time.Since(began) > 3*time.Second {
		t.Errorf("blocked %v after %v", out.Blocked, time.Since(began))
	}
	if !s.jobKept("1") {
		t.Error("the job was not kept")
	}
}

// TestRecordsHang: records that never come to an end keep no verdict back.
func TestRecordsHang(t *testing.T) {
	s := newSite(t, 8).fast(gate.Drain)
	s.edit = func(n *Node) {
		n.Records = func(ctx context.Context, _ []ioguard.NodeEvent) error { <-ctx.Done(); return ctx.Err() }
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if out := s.node("client-ost-away").Job(ctx, hookOf("1")); !out.Blocked || s.slurm.node("node1").Reason != awayReason {
		t.Errorf("blocked %v, %q", out.Blocked, s.did())
	}
	s.edit = nil
	if m, err := s.node("client-healthy").Memory(); err != nil || m.Drained == nil || m.Time.IsZero() {
		t.Errorf("memory %+v, %v", m, err)
	}
}

// TestToldAgain: what stays is recorded once an hour; what the records did not take
// is told again.
func TestToldAgain(t *testing.T) {
	s := newSite(t, 8)
	s.lost = true
	s.job("client-ost-deactivated", "1")
	s.lost = false
	for _, step := range []struct {
		later time.Duration
		kinds string
	}{{0, "finding"}, {0, ""}, {59 * time.Minute, ""}, {61 * time.Minute, "finding"}, {61 * time.Minute, ""}, {-time.Hour, "finding"}} {
		s.later = step.later
		if out := s.job("client-ost-deactivated", "2"); out.Blocked || out.Verdict.Action != gate.Warn {
			t.Errorf("%+v", out.Verdict)
		}
		if kinds := s.kinds(); kinds != step.kinds {
			t.Errorf("at %v recorded %q, want %q", step.later, kinds, step.kinds)
		}
	}
	s.job("client-healthy", "3")
	s.kinds()
	s.job("client-ost-deactivated", "4")
	if !slices.ContainsFunc(s.events, func(e ioguard.NodeEvent) bool { return e.Check == "lfs-inactive" }) {
		t.Errorf("gone and back: %+v", s.events)
	}
}

// TestUnknownToldAgain: the same for checks that could not be carried out, also when
// they come and go.
func TestUnknownToldAgain(t *testing.T) {
	s := newSite(t, 8)
	blind := func(h *host.Host) {
		*h = host.Host{Name: h.Name, FS: h.FS, Time: h.Time, Run: func(context.Context, string, ...string) ([]byte, error) {
			return nil, errors.New("input/output error")
		}}
	}
	s.host = blind
	if out := s.job("client-healthy", "1"); out.Blocked || len(out.Verdict.Findings()) > 0 {
		t.Errorf("%+v", out.Verdict)
	}
	if len(s.events) != 1 || s.events[0].Kind != ioguard.EventFailOpen || !strings.HasPrefix(s.events[0].Text, "not looked at: ") {
		t.Fatalf("recorded %+v", s.events)
	}
	s.events = nil
	for _, step := range []struct {
		later time.Duration
		host  func(*host.Host)
		kinds string
	}{{0, blind, ""}, {0, nil, ""}, {0, blind, ""}, {61 * time.Minute, blind, "fail_open"}, {61 * time.Minute, blind, ""}} {
		s.later, s.host = step.later, step.host
		s.job("client-healthy", "2")
		if kinds := s.but(); kinds != step.kinds {
			t.Errorf("at %v recorded %q, want %q", step.later, kinds, step.kinds)
		}
	}
}

// TestCheckKeepsNothing: who only looks takes no finding from the next prolog.
func TestCheckKeepsNothing(t *testing.T) {
	s := newSite(t, 8).fast(gate.Drain)
	if out := s.check("client-ost-away", false, false); len(out.Verdict.Roots) != 1 || out.Blocked {
		t.Errorf("%+v", out)
	}
	if did, kinds := s.did(), s.kinds(); did != "" || kinds != "" {
		t.Errorf("did %q, recorded %q", did, kinds)
	}
	if entries, _ := os.ReadDir(filepath.Join(s.dir, "nodes")); len(entries) > 0 {
		t.Errorf("kept %v", entries)
	}
}

func TestGarbageMemory(t *testing.T) {
	for _, name := range []string{"node1.json", "node1.drained.json"} {
		s := newSite(t, 8)
		s.job("client-healthy", "1")
		file := filepath.Join(s.dir, "nodes", name)
		check(t, os.WriteFile(file, []byte(`{"time": "yester`), 0o600))
		if out := s.job("client-healthy", "2"); out.Blocked || s.kinds() != "fail_open" {
			t.Errorf("%s: %+v, log %q", name, out, s.log.String())
		}
	}
	s := newSite(t, 8)
	s.edit = func(n *Node) { n.Name = "../../../node1" }
	if out := s.job("client-healthy", "1"); out.Blocked || !strings.Contains(s.log.String(), "no name in the state directory") {
		t.Errorf("hostile name: %+v, log %q", out, s.log.String())
	}
}

// TestHostileJob: what the user writes changes nothing.
func TestHostileJob(t *testing.T) {
	s := newSite(t, 8)
	hook := hookOf("1")
	hook.Name, hook.WorkDir, hook.Stdout = "a\nb\x1b[2J", "/lustre/../../etc\n", "/..//\x00/%j"
	hook.Comment = strings.Repeat("\x01`id`", 200_000)
	hook.Partition, hook.User = "batch\n[*", "al\nice"
	hook.Problems = []string{strings.Repeat("x", 1000)}
	out := s.node("client-healthy").Job(t.Context(), hook)
	if out.Blocked || s.kinds() != "" {
		t.Errorf("%+v, log %q", out.Verdict, s.log.String())
	}
	st, err := os.Stat(filepath.Join(s.dir, "jobs", "node1", "1.json"))
	if err != nil || st.Size() > 10_000 {
		t.Errorf("kept %v, %v", st, err)
	}
	s.fast(gate.Drain)
	if out := s.node("client-ost-away").Job(t.Context(), hook); !out.Blocked || s.slurm.node("node1").Reason != awayReason {
		t.Errorf("reason %q", s.slurm.node("node1").Reason)
	}
}

// TestNotice: a job's tasks are told of open findings, beside what was prepared.
func TestNotice(t *testing.T) {
	s := newSite(t, 8)
	uid := uint32(os.Getuid())
	hook := hookOf("1")
	hook.UID = &uid
	st, err := node.Open(s.dir)
	check(t, err)
	check(t, st.SaveTask("node1", "1", uid, node.Task{Export: map[string]string{"IOGUARD_OUT": "/x"}}))
	s.edit = func(n *Node) {
		n.Notice = func(_ context.Context, user, id string) string { return user + " " + id }
	}
	s.node("client-healthy").Job(t.Context(), hook)
	if task, err := st.Task("node1", "1"); err != nil || task.Notice != "alice 1" || task.Export["IOGUARD_OUT"] != "/x" {
		t.Errorf("%+v, %v", task, err)
	}
	s.node("client-healthy").Job(t.Context(), hookOf("2")) // nobody knows whose it is
	if _, err := st.Task("node1", "2"); err == nil {
		t.Error("a task of nobody's")
	}
}

// TestDrainBeforeBlocked: the reason stands before the hook can fail.
func TestDrainBeforeBlocked(t *testing.T) {
	s := newSite(t, 8).fast(gate.Drain)
	s.slurm.onDrain = func() {
		if m, err := s.node("client-healthy").Memory(); err != nil || m.Drained == nil {
			t.Errorf("not remembered before it was made: %+v, %v", m.Drained, err)
		}
	}
	s.job("client-ost-away", "1")
	if !slices.ContainsFunc(s.events, func(e ioguard.NodeEvent) bool {
		return e.Kind == ioguard.EventDrain && e.JobID == "1" && e.Node == "node1" && e.Hook == "prolog" && e.User == "alice" && e.Check == "lfs-ost" && slices.Contains(e.Shared, "lustre-OST0002")
	}) {
		t.Errorf("recorded %+v", s.events)
	}
}

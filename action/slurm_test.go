package action

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ioguard/slurm"
	"ioguard/slurm/slurmtest"
)

func TestArguments(t *testing.T) {
	f := newFake(t, "exit 0")
	for _, c := range append(slices.Clone(valid),
		Change{Kind: Drain, Node: "n1", Reason: "two\nlines State=DOWN"}, Change{Kind: Requeue, JobID: "7"}, Change{Kind: Release, JobID: "6_1"}) {
		if err := f.actor().Do(t.Context(), c); err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"update|NodeName=node1|State=DRAIN|Reason=ioguard: ib port down|", "update|NodeName=rack-1_n2.example|State=RESUME|",
		"update|NodeName=rack-1_n2.example|State=UNDRAIN|",
		"requeue|4|", "requeuehold|4711_3|", "release|4|",
		"update|NodeName=n1|State=DRAIN|Reason=two lines State=DOWN|", "requeue|7_2|", "release|6_1|",
	}
	if got := f.calls(t); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestSlurmFailures(t *testing.T) {
	requeue := Change{Kind: Requeue, JobID: "4"}
	f := newFake(t, "echo Job is pending execution for job 4 >&2; exit 1")
	if err := f.actor().Do(t.Context(), requeue); err != nil {
		t.Errorf("requeue of a job that waits already: %v", err)
	}
	if err := f.actor().Do(t.Context(), Change{Kind: RequeueHold, JobID: "4"}); err == nil {
		t.Error("a job that waits unheld is taken for held")
	}
	// Which task it is cannot be known: nothing may be requeued.
	if err := f.actor().Do(t.Context(), Change{Kind: Requeue, JobID: "99"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if n := len(f.calls(t)); n != 2 {
		t.Errorf("scontrol called %d times", n)
	}
	var e *SlurmError
	f = newFake(t, "yes x")
	s := f.actor()
	s.Timeout = 200 * time.Millisecond
	if err := s.Do(t.Context(), requeue); !errors.As(err, &e) || !e.TimedOut || len(e.Said) > outputLimit {
		t.Errorf("endless output: %.200v", err)
	}
	f = newFake(t, "kill -SEGV $$")
	if err := f.actor().Do(t.Context(), requeue); !errors.As(err, &e) || e.Status != -1 || !strings.Contains(err.Error(), "segmentation") {
		t.Errorf("killed: %v", err)
	}
	for _, path := range []string{"/nonexistent/scontrol", "nonexistent", "bin/scontrol"} {
		err := Slurm{Scontrol: path}.Do(t.Context(), valid[0])
		if !errors.As(err, &e) || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestNothingLeftBehind: what a killed scontrol had started ends with it.
func TestNothingLeftBehind(t *testing.T) {
	f := newFake(t, "sleep 61.7 & sleep 61.7")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := f.actor().Do(ctx, valid[0]); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := 0
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, l := range lines {
			if text, _ := os.ReadFile(l); strings.HasPrefix(string(text), "sleep\x0061.7") {
				left++
			}
		}
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes left", left)
		}
	}
}

func TestRealNode(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{Nodes: 3})
	s := Slurm{Conf: c.Dir + "/slurm.conf"}
	reason := "ioguard: ib port down, State=DOWN \"x\"\nsecond"
	if err := s.Do(t.Context(), Change{Kind: Drain, Node: "node2", Reason: reason}); err != nil {
		t.Fatal(err)
	}
	n, err := slurm.ReadNode(t.Context(), c.Run, "node2")
	if err != nil || !n.Drained() || n.Reason != plain(reason) {
		t.Errorf("%+v, %v", n, err)
	}
	if err := s.Do(t.Context(), Change{Kind: Resume, Node: "node2"}); err != nil {
		t.Error(err)
	}
	if n, err := slurm.ReadNode(t.Context(), c.Run, "node2"); err != nil || n.Drained() || n.Reason != "" {
		t.Errorf("%+v, %v", n, err)
	}
	var e *SlurmError
	for change, said := range map[Change]string{
		{Kind: Resume, Node: "node2"}:             "Invalid node state specified",
		{Kind: Drain, Node: "node9", Reason: "x"}: "Invalid node name specified",
	} {
		if err := s.Do(t.Context(), change); !errors.As(err, &e) || e.Status != 1 || !strings.Contains(e.Said, said) {
			t.Errorf("%s: %v", change, err)
		}
	}
	interactive := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), "srun", "--job-name=step", "sleep", "60")
		interactive <- err
	}()
	fixed := c.Submit("--no-requeue", "--wrap=sleep 60")
	var id string
	c.Until("running jobs", 20*time.Second, func() bool {
		id, _, _ = strings.Cut(c.Must("squeue", "--noheader", "--states=RUNNING", "--name=step", "--format=%A"), "\n")
		return id != "" && c.Job(fixed)["JobState"] == "RUNNING"
	})
	for job, said := range map[string]string{id: "Only batch jobs are accepted or processed", fixed: "Requested operation is presently disabled", "4711": ""} {
		if err := s.Do(t.Context(), Change{Kind: Requeue, JobID: job}); !errors.As(err, &e) || !strings.Contains(e.Said, said) || said == "" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("job %s: %v", job, err)
		}
		if said != "" && c.Job(job)["JobState"] != "RUNNING" {
			t.Errorf("job %s was harmed: %v", job, c.Job(job))
		}
	}
	c.Must("scancel", id, fixed)
	<-interactive
}

// TestRealProlog: what becomes of a batch job and its node when the prolog changes
// them, with and without PrologFlags=Alloc. An exit status of 0 behind a requeue is
// not among them: whether the script then begins on the sick node is a race.
func TestRealProlog(t *testing.T) {
	for _, flags := range []string{"", "Alloc"} {
		t.Run("PrologFlags="+flags, func(t *testing.T) {
			t.Parallel()
			realProlog(t, flags)
		})
	}
}

func realProlog(t *testing.T, flags string) {
	const drain = "scontrol update NodeName=$SLURMD_NODENAME State=DRAIN 'Reason=ioguard: test' && "
	// The job of each case may run on the case's node, which is tried first, and on the last node.
	cases := []struct {
		prolog     string
		held       bool // the job, by a priority of 0: some turn to the reason JobHeldAdmin
		nodeReason string
	}{
		{drain + "exit 1", true, "ioguard: test"},
		{drain + "scontrol requeue $SLURM_JOB_ID && exit 1", false, "ioguard: test"},
		{"scontrol requeue $SLURM_JOB_ID && exit 1", false, "Prolog error"},
		{drain + "scontrol requeuehold $SLURM_JOB_ID && exit 1", true, "ioguard: test"},
	}
	healthy := fmt.Sprint("node", len(cases)+1)
	var nodes, prolog []string
	for i, tt := range cases {
		nodes = append(nodes, fmt.Sprint("node", i+1))
		prolog = append(prolog, nodes[i]+") "+tt.prolog+";;")
	}
	c := slurmtest.Start(t, slurmtest.Options{Nodes: len(cases) + 1, Conf: map[string]string{"PrologFlags": flags}, Setup: func(c *slurmtest.Cluster, o *slurmtest.Options) {
		o.Prolog = c.Script("prolog", "case $SLURMD_NODENAME in\n"+strings.Join(prolog, "\n")+"\nesac")
	}})
	s := Slurm{Conf: c.Dir + "/slurm.conf"}
	jobs := make([]string, len(cases))
	for i := range cases {
		others := slices.Delete(slices.Clone(nodes), i, i+1)
		jobs[i] = c.Submit("--exclude="+strings.Join(others, ","), "--wrap=echo $SLURMD_NODENAME >>"+c.Dir+"/log/runs.$SLURM_JOB_ID")
	}
	for i, tt := range cases {
		c.Until(nodes[i]+"'s job to be put back", slurmtest.RequeueDelay, func() bool {
			j := c.Job(jobs[i])
			return j["JobState"] == "PENDING" && j["Restarts"] == "1" && c.Nodes()[nodes[i]] == "drained"
		})
		if held := c.Job(jobs[i])["Priority"] == "0"; held != tt.held {
			t.Errorf("%s: the job is held: %v", tt.prolog, held)
		}
		if r := c.Reason(nodes[i]); r != tt.nodeReason {
			t.Errorf("%s: the node's reason is %q", tt.prolog, r)
		}
	}
	for i, tt := range cases {
		if tt.held {
			if err := s.Do(t.Context(), Change{Kind: Release, JobID: jobs[i]}); err != nil {
				t.Error(err)
			}
		}
	}
	for i, tt := range cases {
		c.UntilJob(jobs[i], slurmtest.RequeueDelay+20*time.Second, "COMPLETED")
		if ran, err := os.ReadFile(c.Dir + "/log/runs." + jobs[i]); string(ran) != healthy+"\n" {
			t.Errorf("%s: the script began on %q, %v", tt.prolog, ran, err)
		}
	}
}

// TestRealArray: only the task itself is requeued, though the last task of an array
// has the array's number.
func TestRealArray(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{Nodes: 3})
	s := Slurm{Conf: c.Dir + "/slurm.conf"}
	array := c.Submit("--array=1-3", "--cpus-per-task=4", "--wrap=sleep 60")
	states := func() string {
		return c.Must("squeue", "--noheader", "--states=all", "--format=%K %T")
	}
	c.Until("three tasks", 20*time.Second, func() bool { return strings.Count(states(), "RUNNING") == 3 })
	for range 2 { // the second time it waits already
		if err := s.Do(t.Context(), Change{Kind: Requeue, JobID: array}); err != nil {
			t.Error(err)
		}
		c.Until("the requeued task", 5*time.Second, func() bool { return strings.Contains(states(), "3 PENDING") })
	}
	if got := states(); strings.Count(got, "RUNNING") != 2 {
		t.Errorf("the tasks are\n%s", got)
	}
}

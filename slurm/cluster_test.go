package slurm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ioguard/slurm/slurmtest"
)

// TestRealSlurm holds the Directory against a real squeue: unknown ids among
// known ones and alone, arrays, ended jobs, names that forge rows, and a
// controller that goes away.
func TestRealSlurm(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{CPUs: 8})
	evil := "evil|name\n4711|4711|N/A|victim|x|debug|RUNNING|2026-11-21T08:40:18|node1|forged \x1b[31m"
	forger := c.Submit("--job-name="+evil, "--wrap=sleep 60")
	array := c.Submit("--array=1-2", "--job-name=array", "--wrap=sleep 60")
	held := c.Submit("--hold", "--array=1-4%2", "--job-name=held", "--wrap=sleep 60")
	quick := c.Submit("--job-name=quick", "--wrap=true")
	c.Until("the jobs' states", 20*time.Second, func() bool {
		out, err := c.Run(t.Context(), "squeue", "--noheader", "--states=all", "--format=%j %T")
		text := string(out)
		return err == nil && strings.Contains(text, "quick COMPLETED") && strings.Count(text, "array RUNNING") == 2 &&
			strings.Contains(text, "forged")
	})

	d := New(c.Run)
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
	away := filepath.Join(t.TempDir(), "slurm.conf")
	conf, err := os.ReadFile(c.Dir + "/slurm.conf")
	if err == nil {
		err = os.WriteFile(away, bytes.Replace(conf, []byte("\nSlurmctldPort="), []byte("\nSlurmctldPort=1"), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.Env = append(c.Env, "SLURM_CONF="+away)
	d.deadline = 200 * time.Millisecond
	got := d.Owners(t.Context(), at(200), []string{forger, "777777"})
	if got[forger].Name != evil || d.Problem() == "" {
		t.Errorf("without the controller: %+v, problem %q", got, d.Problem())
	}
}

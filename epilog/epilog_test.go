package epilog

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"ioguard/host"
	"ioguard/lfs"
	"ioguard/node"
	"ioguard/slurm"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func machine(t *testing.T) *host.Host {
	t.Helper()
	h, err := host.OpenMachine(filepath.Join("..", "testdata", "machines", "client-healthy.tar.zst"))
	check(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

func openState(t *testing.T) *node.State {
	t.Helper()
	s, err := node.Open(filepath.Join(t.TempDir(), "state"))
	check(t, err)
	return s
}

var (
	start = time.Now().Add(-time.Hour).Truncate(time.Second)
	end   = start.Add(time.Hour)
	since = start.Add(-24 * time.Hour)
)

func hookOf(id string) slurm.Hook {
	code := 768
	return slurm.Hook{Context: slurm.EpilogSlurmd, JobID: id, NodeName: "node1", User: "alice", ExitCode: &code}
}

// sums are the counters of the machine's mounts.
func sums(t *testing.T, h *host.Host) []lfs.LliteSum {
	t.Helper()
	mounts, err := lfs.ReadLlite(h.FS)
	check(t, err)
	var all []lfs.LliteSum
	for i := range mounts {
		all = append(all, mounts[i].Sum())
	}
	if len(all) != 1 || all[0].Opens == nil || *all[0].Opens < 2 {
		t.Fatalf("%+v", all)
	}
	return all
}

func begin(t *testing.T, s *node.State, id string, llite []lfs.LliteSum) {
	t.Helper()
	restarts := 2
	check(t, s.SaveJob("node1", node.Job{ID: id, Started: start, Hook: slurm.Hook{RestartCount: &restarts}, Llite: llite}, since))
}

func TestRun(t *testing.T) {
	h, s := machine(t), openState(t)
	before := sums(t, h)
	opens := *before[0].Opens
	less := opens - 1
	before[0].Opens = &less
	begin(t, s, "1", before)
	check(t, s.SaveTask("node1", "1", uint32(os.Getuid()), node.Task{}))
	job, err := Run(t.Context(), h, s, hookOf("1"), end)
	check(t, err)
	if !job.Start.Equal(start) || !job.End.Equal(end) || job.RestartCount == nil || *job.RestartCount != 2 || *job.ExitCode != 768 || job.User != "alice" || job.Node != "node1" {
		t.Errorf("%+v", job)
	}
	if job.Exclusive == nil || !*job.Exclusive {
		t.Error("it was alone")
	}
	if len(job.FS) != 1 || job.FS[0].FS != "lustre" || job.FS[0].Reset || *job.FS[0].Opens != 1 || *job.FS[0].Getattrs != 0 {
		t.Errorf("accounted %+v", job.FS)
	}
	if _, err := s.Task("node1", "1"); err == nil {
		t.Error("its tasks are still told")
	}
	// The epilog once more: nothing is known any more, and nothing is an error.
	job, err = Run(t.Context(), h, s, hookOf("1"), end)
	if err != nil || !job.Start.IsZero() || job.FS != nil || job.Exclusive != nil || job.JobID != "1" {
		t.Errorf("twice: %+v, %v", job, err)
	}
}

// TestReset: counters that restarted in between are lower bounds.
func TestReset(t *testing.T) {
	h := machine(t)
	other, more := sums(t, h), sums(t, h)
	other[0].Instance = "ffff000000000000"
	many := *more[0].Opens + 1
	more[0].Opens = &many
	for name, before := range map[string][]lfs.LliteSum{"mounted again": other, "cleared": more, "mounted meanwhile": nil} {
		s := openState(t)
		begin(t, s, "1", before)
		job, err := Run(t.Context(), h, s, hookOf("1"), end)
		if err != nil || len(job.FS) != 1 || !job.FS[0].Reset || *job.FS[0].Opens != many-1 {
			t.Errorf("%s: %+v, %v", name, job.FS, err)
		}
	}
}

func TestExclusive(t *testing.T) {
	h := machine(t)
	tests := []struct {
		name string
		play func(s *node.State)
		want bool
	}{
		{"alone", func(s *node.State) { begin(t, s, "1", nil) }, true},
		{"beside an older job", func(s *node.State) { begin(t, s, "2", nil); begin(t, s, "1", nil) }, false},
		{"joined by another", func(s *node.State) { begin(t, s, "1", nil); begin(t, s, "2", nil) }, false},
		{"joined by another that has ended", func(s *node.State) {
			begin(t, s, "1", nil)
			begin(t, s, "2", nil)
			_, err := s.TakeJob("node1", "2")
			check(t, err)
		}, false},
		{"beside one left over", func(s *node.State) {
			begin(t, s, "2", nil)
			long := start.Add(-2 * leftOver)
			check(t, os.Chtimes(s.Dir("jobs/node1/2.json"), long, long))
			begin(t, s, "1", nil)
		}, true},
		{"on another node of this machine", func(s *node.State) {
			check(t, s.SaveJob("node2", node.Job{ID: "2"}, since))
			begin(t, s, "1", nil)
		}, true},
	}
	for _, tt := range tests {
		s := openState(t)
		tt.play(s)
		job, err := Run(t.Context(), h, s, hookOf("1"), end)
		if err != nil || job.Exclusive == nil || *job.Exclusive != tt.want {
			t.Errorf("%s: %v, %v", tt.name, job.Exclusive, err)
		}
	}
}

// TestInPart: what is wrong is told, and the rest of the job all the same.
func TestInPart(t *testing.T) {
	h := machine(t)
	job, err := Run(t.Context(), h, nil, hookOf("1"), end)
	if err != nil || job.JobID != "1" || !job.End.Equal(end) {
		t.Errorf("no state directory: %+v, %v", job, err)
	}
	s := openState(t)
	if _, err := Run(t.Context(), h, s, slurm.Hook{NodeName: "node1"}, end); err == nil || !strings.Contains(err.Error(), "SLURM_JOB_ID") {
		t.Errorf("no job: %v", err)
	}
	for _, name := range []string{"", "../x"} {
		hook := hookOf("1")
		hook.NodeName = name
		if job, err := Run(t.Context(), h, s, hook, end); err == nil || job.JobID != "1" {
			t.Errorf("node %q: %+v, %v", name, job, err)
		}
	}
	begin(t, s, "1", nil)
	check(t, os.WriteFile(s.Dir("jobs/node1/1.json"), []byte(`{"job_id": 1`), 0o600))
	if job, err := Run(t.Context(), h, s, hookOf("1"), end); err == nil || job.User != "alice" || !job.Start.IsZero() || job.FS != nil {
		t.Errorf("broken state: %+v, %v", job, err)
	}
	if _, err := Run(t.Context(), h, s, hookOf("1"), end); err != nil {
		t.Errorf("it is still broken: %v", err)
	}
	for name, fsys := range map[string]fs.FS{"permission denied": denied{}, "": fstest.MapFS{}} {
		begin(t, s, "1", sums(t, h))
		job, err := Run(t.Context(), &host.Host{FS: fsys}, s, hookOf("1"), end)
		if (name == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if !job.Start.Equal(start) || job.FS != nil || job.Exclusive == nil {
			t.Errorf("%s: %+v", name, job)
		}
	}
}

// denied is a machine that tells an ordinary user nothing.
type denied struct{}

func (denied) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

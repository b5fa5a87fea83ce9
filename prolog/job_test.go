package prolog

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"ioguard"
	"ioguard/node"
	"ioguard/slurm"
)

func TestController(t *testing.T) {
	now := time.Unix(1000, 0)
	uid := uint32(7)
	var got ioguard.NodeJob
	record := func(_ context.Context, j ioguard.NodeJob) error { got = j; return nil }
	hook := slurm.Hook{Context: slurm.PrologSlurmctld, JobID: "5", ArrayJobID: "4", ArrayTaskID: "1", UID: &uid, Account: "physics", Name: "a\nb", NodeName: "ctl", NodeList: "n[1-2]"}
	check(t, Controller(t.Context(), hook, now, record))
	if got.JobID != "5" || got.Node != "" || got.Account != "physics" || got.Name != "a\nb" || got.ArrayJobID != "4" || *got.UID != 7 || !got.Start.Equal(now) || got.NodeList != "n[1-2]" {
		t.Errorf("%+v", got)
	}
	if err := Controller(t.Context(), slurm.Hook{}, now, record); err == nil {
		t.Error("no job was recorded")
	}
	full := errors.New("disk full")
	if err := Controller(t.Context(), hook, now, func(context.Context, ioguard.NodeJob) error { return full }); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

func TestTask(t *testing.T) {
	tests := []struct {
		name string
		task node.Task
		want string
	}{
		{"nothing", node.Task{}, ""},
		{"both, sorted", node.Task{Export: map[string]string{"IOGUARD_OUT": "/lustre/o u t", "IOGUARD_A1": ""}, Notice: "look"},
			"export IOGUARD_A1=\nexport IOGUARD_OUT=/lustre/o u t\nprint ioguard: look\n"},
		{"other variables", node.Task{Export: map[string]string{"PATH": "/evil", "LD_PRELOAD": "x", "IOGUARD_": "x", "IOGUARD_a": "x", "IOGUARD_A=B": "x", "IOGUARD_A\nexport PATH": "x", "XIOGUARD_A": "x", "": "x"}}, ""},
		{"values of two lines", node.Task{Export: map[string]string{"IOGUARD_A": "x\nexport PATH=/evil", "IOGUARD_B": "\x00", "IOGUARD_C": "\x1b[2J", "IOGUARD_D": "x\rprint y", "IOGUARD_E": "\u0085"}}, ""},
		{"notice of two lines", node.Task{Notice: " a\nexport PATH=/evil\r\n\x1b[2Jb\t"}, "print ioguard: a export PATH=/evil   [2Jb\n"},
		{"blank notice", node.Task{Notice: "\n \t"}, ""},
		{"long notice", node.Task{Notice: strings.Repeat("ü", 5000)}, "print ioguard: " + strings.Repeat("ü", 150) + "...\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			s, err := node.Open(dir)
			check(t, err)
			check(t, s.SaveTask("node1", "1", uint32(os.Getuid()), tt.task))
			var b strings.Builder
			check(t, Task(&b, dir, hookOf("1")))
			if b.String() != tt.want {
				t.Errorf("printed %q, want %q", b.String(), tt.want)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "state")
	var b strings.Builder
	if err := Task(&b, dir, hookOf("1")); err != nil || b.Len() > 0 {
		t.Errorf("nothing kept: %q, %v", b.String(), err)
	}
	s, err := node.Open(dir)
	check(t, err)
	check(t, s.SaveTask("node1", "1", uint32(os.Getuid()), node.Task{}))
	check(t, os.WriteFile(s.Dir("tasks/node1.1.json"), []byte(`{"notice": "half`), 0o600))
	for _, hook := range []slurm.Hook{hookOf("1"), {JobID: "1", NodeName: "../node1"}, {NodeName: "node1"}} {
		if err := Task(&b, dir, hook); err == nil || b.Len() > 0 {
			t.Errorf("%+v: %q, %v", hook, b.String(), err)
		}
	}
}

// FuzzTaskLines: whatever was prepared, slurmstepd reads exports of ioguard's own and
// one line for the user.
func FuzzTaskLines(f *testing.F) {
	f.Add("IOGUARD_OUT", "/lustre/out", "last run's checkpoints hurt others")
	f.Add("IOGUARD_A\nPATH", "x\ny", "a\nexport B=c")
	f.Add("IOGUARD_", "\x00", strings.Repeat("\xff", 400))
	f.Fuzz(func(t *testing.T, name, value, notice string) {
		lines := strings.SplitAfter(taskLines(node.Task{Export: map[string]string{name: value}, Notice: notice}), "\n")
		if last := len(lines) - 1; lines[last] != "" {
			t.Fatalf("no end: %q", lines)
		}
		prints := 0
		for _, l := range lines[:len(lines)-1] {
			l = strings.TrimSuffix(l, "\n")
			switch {
			case strings.HasPrefix(l, "print ioguard: "):
				prints++
			case !strings.HasPrefix(l, "export IOGUARD_"):
				t.Errorf("line %q", l)
			}
			if strings.ContainsFunc(l, unicode.IsControl) {
				t.Errorf("control character in %q", l)
			}
		}
		if prints > 1 || utf8.ValidString(notice) != utf8.ValidString(oneLine(notice)) && utf8.ValidString(notice) {
			t.Errorf("printed %q", lines)
		}
	})
}

package slurm

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// hookFixture is an environment as Slurm gave it.
func hookFixture(tb testing.TB, name string) []string {
	tb.Helper()
	a, err := txtar.ParseFile("testdata/hooks.txtar")
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range a.Files {
		if f.Name != name {
			continue
		}
		var environ []string
		for line := range strings.Lines(string(f.Data)) {
			key, quoted, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			value, err := strconv.Unquote(quoted)
			if err != nil {
				tb.Fatalf("%s: %v", line, err)
			}
			environ = append(environ, key+"="+value)
		}
		return environ
	}
	tb.Fatalf("no hook %s", name)
	return nil
}

func TestParseHookRecorded(t *testing.T) {
	id := func(n uint32) *uint32 { return &n }
	count := func(n int) *int { return &n }
	job := Hook{JobID: "1", UID: id(65534), GID: id(0), User: "nobody", Partition: "debug", Comment: "two\nlines SLURM_JOB_ID=1",
		NodeList: "node[1-2]", NumNodes: count(2), CPUsPerNode: "1(x2)", WorkDir: "/lustre/nobody",
		Stdin: "/dev/null", Stdout: "/lustre/nobody/%x/run-%A_%a.out", Stderr: "/lustre/nobody/err.txt", RestartCount: count(0), Cluster: "test"}
	for name, change := range map[string]func(*Hook){
		"prolog_slurmd": func(h *Hook) {
			h.Context, h.NodeName, h.Conf = PrologSlurmd, "node1", "/etc/slurm/slurm.conf"
		},
		"epilog_slurmd": func(h *Hook) {
			h.Context, h.NodeName, h.Conf = EpilogSlurmd, "node1", "/etc/slurm/slurm.conf"
			h.ExitCode, h.DerivedExitCode, h.ExitCode2 = count(4021), count(0), "0:53"
		},
		"prolog_slurmctld": func(h *Hook) {
			h.Context, h.Name, h.ArrayJobID, h.ArrayTaskID = PrologSlurmctld, "na me", "1", "7"
		},
		"epilog_slurmctld": func(h *Hook) {
			h.Context, h.Name, h.ArrayJobID, h.ArrayTaskID = EpilogSlurmctld, "na me", "1", "7"
			h.ExitCode, h.DerivedExitCode, h.ExitCode2 = count(4021), count(0), "0:53"
		},
		"health": func(h *Hook) { *h = Hook{Context: HealthCheck, NodeName: "node2"} },
	} {
		want := job
		change(&want)
		got := ParseHook(hookFixture(t, name))
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if got.JobID == "" {
			continue
		}
		if d := cmp.Diff([]string{"/lustre/nobody", "/dev/null", "/lustre/nobody/err.txt"}, got.Paths()); d != "" {
			t.Errorf("%s: paths: %s", name, d)
		}
	}
}

func TestParseHook(t *testing.T) {
	for _, tt := range []struct {
		name    string
		environ string // NUL between variables
		want    Hook
	}{
		{"nothing", "", Hook{}},
		{"a shell", "HOME=/root\x00SLURM_CONF=/c", Hook{Conf: "/c"}},
		{"a job's shell is no hook", "SLURMD_NODENAME=n1\x00SLURM_JOBID=7", Hook{NodeName: "n1", JobID: "7"}},
		{"23.02", "SLURM_JOB_NODELIST=n[1-2]\x00SLURM_NODELIST=old\x00SLURM_JOB_START_TIME=1700000000\x00SLURM_JOB_END_TIME=0\x00SLURM_JOB_LICENSES=io:4\x00SLURM_JOB_ACCOUNT=physics",
			Hook{NodeList: "n[1-2]", StartTime: time.Unix(1700000000, 0), Licenses: "io:4", Account: "physics"}},
		{"nothing known", "SLURM_JOB_ACCOUNT=(null)\x00SLURM_JOB_USER=(null)\x00SLURM_JOB_CONSTRAINTS=(null)\x00SLURM_JOB_UID=\x00SLURM_JOB_NUM_NODES=", Hook{}},
		{"the first counts", "SLURM_JOB_ID=1\x00SLURM_JOB_ID=2", Hook{JobID: "1"}},
		{"the user's own words stay", "SLURM_JOB_NAME=(null)\x00SLURM_JOB_WORK_DIR=/a b\n/c\xff", Hook{Name: "(null)", WorkDir: "/a b\n/c\xff"}},
		{"nonsense", "SLURM_JOB_ID=7;id\x00SLURM_JOB_UID=-1\x00SLURM_JOB_RESTART_COUNT=x\x00SLURM_SCRIPT_CONTEXT=prolog\x00SLURM_JOB_START_TIME=1e9\x00SLURM_ARRAY_TASK_ID=../..",
			Hook{Problems: []string{`SLURM_ARRAY_TASK_ID is "../.."`, `SLURM_JOB_ID is "7;id"`, `SLURM_JOB_RESTART_COUNT is "x"`, `SLURM_JOB_START_TIME is "1e9"`, `SLURM_JOB_UID is "-1"`, `SLURM_SCRIPT_CONTEXT is "prolog"`}}},
		{"no job has this number", "SLURM_JOB_ID=4294967294", Hook{Problems: []string{`SLURM_JOB_ID is "4294967294"`}}},
		{"not an equal sign in sight", "SLURM_JOB_ID", Hook{}},
	} {
		got := ParseHook(strings.Split(tt.environ, "\x00"))
		slices.Sort(got.Problems)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
}

func TestHookPaths(t *testing.T) {
	for _, tt := range []struct {
		hook Hook
		want string
	}{
		{Hook{}, ""},
		{Hook{WorkDir: "relative", Stdout: "out.%j"}, ""},
		{Hook{WorkDir: "/", Stdout: "/%u/out"}, ""},
		{Hook{WorkDir: "//lustre/./alice/", Stdout: "/lustre/alice"}, "/lustre/alice"},
		{Hook{WorkDir: "/lustre/100%/x", Stdout: "/lustre/100%/x"}, "/lustre/100%/x /lustre"},
		{Hook{WorkDir: "/lustre/alice/../../etc"}, "/lustre/alice"},
		{Hook{Stdin: "/../etc/passwd", Stdout: "/a/b%j.out", Stderr: `/a/c\d`}, "/a"},
		{Hook{Stdout: "/a/..b/c..", Stderr: "/a/.../d"}, "/a/..b/c.. /a/.../d"},
		{Hook{WorkDir: "~/x", Stdout: "$HOME/y", Stderr: "/lustre/$USER/z"}, "/lustre/$USER/z"},
	} {
		if got := strings.Join(tt.hook.Paths(), " "); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.hook, got, tt.want)
		}
	}
}

func FuzzParseHook(f *testing.F) {
	for _, name := range []string{"prolog_slurmd", "epilog_slurmctld", "health"} {
		f.Add(strings.Join(hookFixture(f, name), "\x00"))
	}
	f.Add("SLURM_JOB_ID=7_1\x00SLURM_JOB_WORK_DIR=/../a//./%/\x00SLURM_JOB_STDOUT=/a/%u/../b")
	f.Fuzz(func(t *testing.T, text string) {
		environ := strings.Split(text, "\x00")
		h := ParseHook(environ)
		for _, id := range []string{h.JobID, h.ArrayJobID, h.ArrayTaskID, h.HetJobID} {
			if id != "" && !isNumber(id) {
				t.Fatalf("id %q", id)
			}
		}
		if len(h.Problems) > len(environ) || h.Context != NoHook && h.Context != HealthCheck && !slices.Contains(hookContexts, h.Context) {
			t.Fatalf("%+v", h)
		}
		if h.WorkDir != "" && !slices.Contains(environ, "SLURM_JOB_WORK_DIR="+h.WorkDir) {
			t.Fatalf("work dir %q is not as it came", h.WorkDir)
		}
		for _, p := range h.Paths() {
			if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || slices.Contains(strings.Split(p, "/"), "..") {
				t.Fatalf("path %q", p)
			}
		}
	})
}

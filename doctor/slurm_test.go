package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ioguard/host"
	"ioguard/slurm"
	"ioguard/slurm/slurmtest"
)

// slurmMachine is a compute node with the hooks of examples/slurm, and lines of
// Slurm's configuration replaced.
func slurmMachine(t testing.TB, lines map[string]string) *host.Host {
	t.Helper()
	b, err := os.ReadFile("testdata/slurm-22.05.txtar")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for old, now := range lines {
		if !strings.Contains(text, old) {
			t.Fatalf("the machine has no %q", old)
		}
		text = strings.Replace(text, old, now, 1)
	}
	h, err := host.Txtar([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// TestSlurm holds a real configuration, as it is right and with one line changed, to
// what must be told.
func TestSlurm(t *testing.T) {
	s := site()
	for _, o := range lookAt(t, slurmMachine(t, nil), &s) {
		if o.Group == "slurm" && o.Status != OK {
			t.Errorf("a good configuration: %+v", o)
		}
	}
	const prolog, health = "Prolog                  = /etc/slurm/prolog.d/*\n", "HealthCheckProgram      = /etc/slurm/ioguard-healthcheck\n"
	const call = "#!/bin/sh\n# Prolog drop-in.\n/usr/sbin/ioguard prolog\n"
	tests := []struct {
		name  string
		lines map[string]string
		site  func(*Site)
		want  map[string]string
	}{
		{name: "no prolog", lines: map[string]string{prolog: "Prolog                  = (null)\n"}, want: map[string]string{"slurm-prolog": "warn: Prolog is not set"}},
		{name: "numbered", lines: map[string]string{prolog: "Prolog[0] = /opt/other\nProlog[1] = /etc/slurm/prolog.d/*\n"}},
		{name: "elsewhere", lines: map[string]string{prolog: "Prolog = /opt/other\n"},
			want: map[string]string{"slurm-prolog": "unknown: /opt/other is not on this machine: look on a compute node"}},
		{name: "beside slurm.conf", lines: map[string]string{prolog: "Prolog = prolog.d/50-ioguard\n"}},
		{name: "other prolog", lines: map[string]string{call: "#!/bin/sh\n# /usr/sbin/ioguard prolog\nexit 0\n"},
			want: map[string]string{"slurm-prolog": "warn: no call of ioguard in /etc/slurm/prolog.d/50-ioguard, /etc/slurm/prolog.d/90-other (unless in what that calls)"}},
		{name: "no Alloc", lines: map[string]string{"= Alloc,DeferBatch": "= (null)"},
			want: map[string]string{"slurm-flags": "warn: no flags: only nodes that a step reaches are checked"}},
		{name: "Contain", lines: map[string]string{"= Alloc,DeferBatch": "= Contain"}},
		{name: "serial", lines: map[string]string{"= Alloc,DeferBatch": "= Alloc,Serial"},
			want: map[string]string{"slurm-flags": "note: Alloc,Serial; Serial: the prologs of a node's jobs wait for each other, each up to 5s"}},
		{name: "no bound", lines: map[string]string{"PrologEpilogTimeout     = 60": "PrologEpilogTimeout     = 65534"},
			want: map[string]string{"slurm-timeout": "warn: PrologEpilogTimeout is not set: a hook that hangs holds its node for ever"}},
		{name: "bound too short", lines: map[string]string{"PrologEpilogTimeout     = 60": "PrologEpilogTimeout     = 8"},
			want: map[string]string{"slurm-timeout": "fail: PrologEpilogTimeout 8s: a slow prolog is killed, and its node drained"}},
		{name: "two bounds", lines: map[string]string{"PrologEpilogTimeout     = 60": "PrologTimeout = 60\nEpilogTimeout = 3\nPrologEpilogTimeout = 65534"},
			want: map[string]string{"slurm-timeout": "fail: PrologTimeout 1m0s; EpilogTimeout 3s: a slow prolog is killed, and its node drained"}},
		{name: "large budget", site: func(s *Site) { s.Budget = 30e9 }, want: map[string]string{
			"slurm-message": "note: MessageTimeout 10s, gate.budget 30s; with Alloc srun waits", "slurm-batch": "warn: BatchStartTimeout 10s, gate.budget 30s"}},
		{name: "no health check", lines: map[string]string{health: "HealthCheckProgram = (null)\n"},
			want: map[string]string{"slurm-health": "warn: not set: nodes that ioguard drained are resumed by hand"}},
		{name: "no health check, no drains", lines: map[string]string{health: "HealthCheckProgram = (null)\n"}, site: func(s *Site) { s.Drains = false },
			want: map[string]string{"slurm-health": "note: not set: nodes that ioguard drained are resumed by hand"}},
		{name: "health check that never runs", lines: map[string]string{"HealthCheckInterval     = 300 sec": "HealthCheckInterval     = 0 sec"},
			want: map[string]string{"slurm-health": "warn: /etc/slurm/ioguard-healthcheck never runs: HealthCheckInterval is 0"}},
		{name: "no hold", lines: map[string]string{"SchedulerParameters     = ": "SchedulerParameters     = nohold_on_prolog_fail,"},
			want: map[string]string{"slurm-nohold": "warn: nohold_on_prolog_fail"}},
		{name: "return", lines: map[string]string{"ReturnToService         = 2": "ReturnToService         = 0"},
			want: map[string]string{"slurm-return": "note: ReturnToService 0: a node that was down stays down"}},
		{name: "overrides", lines: map[string]string{"SlurmdParameters        = (null)": "SlurmdParameters        = config_overrides"},
			want: map[string]string{"slurm-slurmd": "note: config_overrides"}},
		{name: "old", lines: map[string]string{"= 22.05.8": "= 21.08.5"}, want: map[string]string{"slurm-version": "note: 21.08.5"}},
		{name: "backup away", lines: map[string]string{"at head is UP": "at head is UP\nSlurmctld(backup) at head2 is DOWN"},
			want: map[string]string{"slurm-ctld": "warn: DOWN: backup head2; UP: primary head"}},
		{name: "controller away", want: away(),
			lines: map[string]string{"commands/scontrol/status --\n0": "commands/scontrol/stderr --\nscontrol: error: a\nUnable to contact slurm controller\n-- commands/scontrol/status --\n1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := site()
			if tt.site != nil {
				tt.site(&s)
			}
			if diff := cmp.Diff(tt.want, told(lookAt(t, slurmMachine(t, tt.lines), &s)), cmp.Transformer("none", func(m map[string]string) map[string]string {
				if m == nil {
					return map[string]string{}
				}
				return m
			})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// away is what is told when scontrol fails.
func away() map[string]string {
	want := map[string]string{"slurm-ctld": "fail: Unable to contact slurm controller"}
	for _, code := range slurmCodes() {
		want[code] = "unknown: slurmctld did not answer"
	}
	return want
}

// FuzzJudge: whatever scontrol prints, each outcome is whole and in one line.
func FuzzJudge(f *testing.F) {
	b, err := os.ReadFile("testdata/slurm-22.05.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, "rolog") || strings.Contains(line, "Timeout") || strings.Contains(line, "VERSION") || strings.Contains(line, " is UP") {
			f.Add([]byte(line))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := slurm.ParseConfig(text)
		s := site()
		hooks := Hooks{"Prolog": {{Path: "/p", Err: errors.New("odd")}}, "Epilog": {{Path: "/e", Calls: true}}}
		seen := &Seen{Recorded: true, Slurm: Answer[slurm.Config]{Value: c, Err: err, Asked: true, Done: true}, Hooks: done(hooks)}
		for _, o := range Judge(seen, &s) {
			unseen := o.Status == Skipped || o.Status == Unknown
			if unseen != (o.Seen == "") || unseen != (o.Why != "") || strings.Contains(o.Seen+o.Why, "\n") {
				t.Errorf("%+v", o)
			}
		}
	})
}

// TestRealSlurm asks a real controller, and reads the hooks that it names.
func TestRealSlurm(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{HealthCheckInterval: 300, Setup: func(c *slurmtest.Cluster, o *slurmtest.Options) {
		// ioguard stands in them and is never started: no job runs here.
		o.Prolog = c.Script("prolog", "exec /usr/sbin/ioguard prolog")
		o.Epilog = c.Script("epilog", "# exec /usr/sbin/ioguard epilog\nexit 0")
		o.TaskProlog = c.Script("taskprolog", "exec /usr/sbin/ioguard prolog")
		o.HealthCheckProgram = c.Script("health", "test -e /usr/sbin/ioguard || exit 0")
		o.Conf = map[string]string{"PrologFlags": "Alloc", "PrologEpilogTimeout": "7"}
	}})
	t.Setenv("SLURM_CONF", filepath.Join(c.Dir, "slurm.conf"))
	s := site()
	s.StateDir, s.Syslog = filepath.Join(t.TempDir(), "state"), ""
	l := &Looker{Host: host.Local(), Site: s}
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	outcomes := Judge(l.Look(ctx), &s)
	want := map[string]Status{"slurm-ctld": OK, "slurm-version": OK, "slurm-prolog": OK, "slurm-epilog": Warned, "slurm-flags": OK, "slurm-timeout": Failed,
		"slurm-message": OK, "slurm-batch": OK, "slurm-health": OK, "slurm-nohold": OK, "slurm-taskprolog": OK, "slurm-return": OK, "slurm-slurmd": Note,
		"local-slurm-tools": OK, "local-state": OK, "local-records": Skipped}
	for code, status := range want {
		if o := find(t, outcomes, code); o.Status != status {
			t.Errorf("want %s: %+v", status, o)
		}
	}
	if o := find(t, outcomes, "slurm-prolog"); o.Seen != filepath.Join(c.Dir, "prolog") {
		t.Errorf("%+v", o)
	}
}

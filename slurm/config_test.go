package slurm

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestParseConfig: what a real 22.05 prints.
func TestParseConfig(t *testing.T) {
	c, err := ParseConfig(readTestdata(t, "config-22.05.8.txt"))
	if err != nil || c.Skipped != 0 || len(c.Values) != 193 {
		t.Fatalf("%d settings, %d lines skipped: %v", len(c.Values), c.Skipped, err)
	}
	if diff := cmp.Diff([]Controller{{"primary", "head", true}}, c.Controllers); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{"Prolog": "/var/lib/slurm/prolog", "TaskProlog": "", "SLURM_VERSION": "22.05.8",
		"SlurmctldHost[0]": "head(127.0.0.1)", "PowerPlugin": "", "InteractiveStepOptions": "--interactive --preserve-env --pty $SHELL"} {
		if got, ok := c.Values[name]; got != want || !ok {
			t.Errorf("%s is %q (%v), want %q", name, got, ok, want)
		}
	}
	for name, want := range map[string]time.Duration{"MessageTimeout": 10 * time.Second, "PrologEpilogTimeout": Forever, "EpilogMsgTime": 2 * time.Millisecond,
		"OverTimeLimit": 0, "EioTimeout": time.Minute, "SuspendTime": Forever} {
		if got, ok := c.Duration(name); got != want || !ok {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	for _, name := range []string{"ResumeRate", "NoSuchThing", "Prolog", "TaskProlog"} {
		if got, ok := c.Duration(name); ok {
			t.Errorf("%s is the time %v", name, got)
		}
	}
	if !c.Has("PrologFlags", "alloc") || !c.Has("PrologFlags", "DeferBatch") || c.Has("PrologFlags", "Contain") || !c.Has("AuthInfo", "cred_expire") {
		t.Error("PrologFlags are misread")
	}
}

// TestParseConfigForms: what other releases print.
func TestParseConfigForms(t *testing.T) {
	const text = "Configuration data as of 2026-11-21T12:49:38\nProlog[0]   = /etc/slurm/prolog.d/*\nProlog[1]=/opt/p = q\nEpilog = (null)\nodd line\n" +
		"PrologTimeout = 60\n\nCgroup Support Configuration:\nAllowedRAMSpace = 100.0%\nPrologTimeout = 7\n\nnvml Configuration:\nx = 1\n\n" +
		"Slurmctld(primary) at head1 is DOWN\nSlurmctld(backup) at head2 is UP\n*****\n** RESTORE SLURMCTLD DAEMON TO SERVICE **\n*****\n"
	c, err := ParseConfig([]byte(text))
	if err != nil || c.Skipped != 1 {
		t.Errorf("%d lines skipped: %v", c.Skipped, err)
	}
	want := Config{Skipped: 1, Controllers: []Controller{{"primary", "head1", false}, {"backup", "head2", true}},
		Values: map[string]string{"Prolog[0]": "/etc/slurm/prolog.d/*", "Prolog[1]": "/opt/p = q", "Epilog": "", "PrologTimeout": "60"}}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error(diff)
	}
	if got := c.List("Prolog"); !slices.Equal(got, []string{"/etc/slurm/prolog.d/*", "/opt/p = q"}) {
		t.Errorf("Prolog is %q", got)
	}
	if got := c.List("Epilog"); got != nil {
		t.Errorf("Epilog is %q", got)
	}
}

func TestReadConfig(t *testing.T) {
	away := errors.New("Unable to contact slurm controller")
	for name, tt := range map[string]struct {
		run  Run
		want string
	}{
		"no commands": {nil, "no commands here"},
		"away":        {func(context.Context, string, ...string) ([]byte, error) { return nil, away }, "ask scontrol: Unable"},
		"empty":       {func(context.Context, string, ...string) ([]byte, error) { return nil, nil }, "no setting"},
	} {
		if _, err := ReadConfig(t.Context(), tt.run); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	var asked []string
	c, err := ReadConfig(t.Context(), func(_ context.Context, name string, args ...string) ([]byte, error) {
		asked = append([]string{name}, args...)
		return []byte("Prolog = x\n"), nil
	})
	if err != nil || c.Values["Prolog"] != "x" || !slices.Equal(asked, []string{"scontrol", "show", "config"}) {
		t.Errorf("%v of %q: %v", c, asked, err)
	}
}

func FuzzParseConfig(f *testing.F) {
	whole := string(readTestdata(f, "config-22.05.8.txt"))
	f.Add([]byte(whole[strings.Index(whole, "\nPrologEpilogTimeout"):strings.Index(whole, "\nPropagate")]))
	f.Add([]byte(whole[strings.Index(whole, "\nX11Parameters"):]))
	f.Add([]byte("Prolog[0] = a\nx Configuration:\ny = 1\nSlurmctld(primary) at a is UP\n"))
	f.Add([]byte("Slurmctld() at  is UP\nA=(null)\n = x\nA\x00=\xff\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseConfig(b)
		if (err == nil) != (len(c.Values) > 0) {
			t.Errorf("%d settings: %v", len(c.Values), err)
		}
		if n := len(c.Values) + len(c.Controllers) + c.Skipped; n > strings.Count(string(b), "\n")+1 {
			t.Errorf("%d lines understood or skipped, more than there are", n)
		}
		for name, value := range c.Values {
			if name == "" || strings.ContainsAny(name+value, "\n") || strings.TrimSpace(value) != value {
				t.Errorf("setting %q = %q", name, value)
			}
			if d, ok := c.Duration(name); d < 0 || !ok && d != 0 {
				t.Errorf("%s is %v", name, d)
			}
		}
		// The same settings, printed again, are the same.
		var again strings.Builder
		for _, name := range slices.Sorted(maps.Keys(c.Values)) {
			again.WriteString(name + " = " + c.Values[name] + "\n")
		}
		if d, _ := ParseConfig([]byte(again.String())); !maps.Equal(d.Values, c.Values) {
			t.Errorf("%q became %q", c.Values, d.Values)
		}
	})
}

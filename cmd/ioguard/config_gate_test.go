package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ioguard"
	"ioguard/gate"
	"ioguard/lnet"
)

// configured reads a configuration of this text.
func configured(t testing.TB, text string) (*config, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ioguard.yaml")
	check1(t, os.WriteFile(name, []byte(text), 0o600))
	t.Setenv("IOGUARD_CONFIG", name)
	return loadConfig()
}

// TestExampleConfiguration: the example shows every key, with its default.
func TestExampleConfiguration(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "examples", "slurm", "ioguard.yaml"))
	check1(t, err)
	c, err := configured(t, string(b))
	check1(t, err)
	opts := cmp.Options{cmp.AllowUnexported(config{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(defaultConfiguration(), c, opts); diff != "" {
		t.Errorf("default and example (-, +):\n%s", diff)
	}
	var shown, all map[string]any
	check1(t, yaml.Unmarshal(b, &shown))
	text, err := yaml.Marshal(defaultConfiguration())
	check1(t, err)
	check1(t, yaml.Unmarshal(text, &all))
	for _, part := range []string{"gate", "slurm"} {
		for key := range all[part].(map[string]any) {
			if _, ok := shown[part].(map[string]any)[key]; !ok {
				t.Errorf("the example leaves out %s.%s", part, key)
			}
		}
	}
	// What stands in its comments must work as well.
	var live []string
	below := false // of a key that comments show the use of
	for line := range strings.Lines(string(b)) {
		comment, ok := strings.CutPrefix(line, "  #  ")
		if below = below && ok; below {
			line = "    " + comment
		}
		for _, empty := range []string{"checks: {}\n", "where: []\n"} {
			if key, ok := strings.CutSuffix(line, empty); ok {
				below, line = true, key+empty[:len(empty)-len(" {}\n")]+"\n"
			}
		}
		live = append(live, line)
	}
	if c, err := configured(t, strings.Join(live, "")); err != nil || len(c.Gate.Checks) != 3 || len(c.Gate.Where) != 2 {
		t.Errorf("the example's comments: %v, %v", c, err)
	}
}

// TestExampleScripts: the hooks of the examples are scripts that sh understands.
func TestExampleScripts(t *testing.T) {
	dir := filepath.Join("..", "..", "examples", "slurm")
	for _, name := range []string{"healthcheck", "prologslurmctld", "taskprolog", "prolog.d/50-ioguard", "epilog.d/50-ioguard"} {
		if out, err := exec.Command("sh", "-n", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}

// TestGateKeys: each key reaches the gate.
func TestGateKeys(t *testing.T) {
	c, err := configured(t, `
state_dir: /state
slurm: {bin: /opt/slurm/bin, conf: /etc/slurm.conf}
gate:
  budget: 1m
  mounts: [/a]
  required: [/b]
  ports: [mlx5_0/1, mlx5_1]
  rate_gbps: 200
  nids: [o2ib, "tcp*2", 10.0.0.1@o2ib]
  modules: {ko2iblnd: {peer_credits: "32"}}
  lustre_version: "2.15"
  jobid_var: disable
  min_free_percent: 2
  checks: {lfs-ost: {do: requeue, retry: 1.5}, ib-rate: drain, kmsg: ignore, lfs-mdt: {retry: 0}}
  where:
    - {partitions: [debug, "i*"], checks: {ib-port: warn}}
    - {nodes: "login[1-4],gpu*", checks: {mount: warn}}
  brake: {nodes: 3, share_percent: 20, within: 60, do: hold}
  undrain_after: 0
  epilog_check: true
  syslog: ""
`)
	check1(t, err)
	g := &c.Gate
	zero, more := time.Duration(0), 1500*time.Millisecond
	policy := gate.Policy{
		Checks: map[string]gate.Override{"lfs-ost": {Do: gate.Requeue, Retry: &more}, "ib-rate": {Do: gate.Drain}, "kmsg": {Do: gate.Ignore}, "lfs-mdt": {Retry: &zero}},
		Where: []gate.Where{{Partitions: []string{"debug", "i*"}, Checks: map[string]gate.Override{"ib-port": {Do: gate.Warn}}},
			{Nodes: "login[1-4],gpu*", Checks: map[string]gate.Override{"mount": {Do: gate.Warn}}}},
		Brake: gate.Brake{Nodes: 3, Share: 0.2, Within: time.Minute, Do: gate.BrakeHolds},
	}
	if diff := cmp.Diff(policy, g.policy()); diff != "" {
		t.Errorf("policy (-want, +got):\n%s", diff)
	}
	site := gate.Site{Mounts: []string{"/a"}, Ports: []string{"mlx5_0/1", "mlx5_1"}, RateGbps: 200, NIDs: []string{"o2ib", "tcp*2", "10.0.0.1@o2ib"},
		Modules: lnet.Params{"ko2iblnd": {"peer_credits": "32"}}, LustreVersion: "2.15", JobIDVar: "disable", MinFree: 0.02, StateDir: "/state"}
	if diff := cmp.Diff(site, g.site(c.StateDir)); diff != "" {
		t.Errorf("site (-want, +got):\n%s", diff)
	}
	if time.Duration(g.Budget) != time.Minute || g.Required[0] != "/b" || g.UndrainAfter != 0 || !g.EpilogCheck || g.Syslog != "" || c.Slurm != (slurmConfig{"/opt/slurm/bin", "/etc/slurm.conf"}) {
		t.Errorf("%+v", c)
	}
}

// TestGateErrors: what is wrong is named, with a hint, and nothing of it is used.
func TestGateErrors(t *testing.T) {
	const checks, keys = "ioguard check --list", "the keys are"
	tests := []struct{ text, err, hint string }{
		{"gate: {budget: 0}", "budget: 0s is not between 100ms and 1m0s", checks},
		{"gate: {budget: 0.05}", "budget: 50ms is not between", checks},
		{"gate: {budget: 2m}", "budget: 2m0s is not between", checks},
		{"gate: {budget: -1}", `"-1" is neither a number of seconds nor a duration like 1m30s`, keys},
		{"gate: {budget: soon}", `"soon" is neither a number of seconds`, keys},
		{"gate: {budget: .inf}", "neither a number of seconds", keys},
		{"gate: {budget: 1e300}", "neither a number of seconds", keys},
		{"gate: {budget: [5]}", "gate: {budget: [5]}", keys},
		{"gate: {bugdet: 5}", `unknown field "bugdet"`, keys},
		{"gates: {}", `unknown field "gates"`, keys},
		{"gate: {budget: 5, budget: 6}", "budget", keys},
		{"gate: []", "gate: []", keys},
		{"gate: {mounts: lustre}", "mounts", keys},
		{"gate: {mounts: [lustre]}", `mounts: "lustre" is no absolute path`, checks},
		{"gate: {ports: [mlx5_0/x]}", `ports: "mlx5_0/x" is no port`, checks},
		{"gate: {ports: [/1]}", `ports: "/1" is no port`, checks},
		{"gate: {rate_gbps: -1}", "rate_gbps: -1 is no rate", checks},
		{"gate: {rate_gbps: .nan}", "rate_gbps: NaN is no rate", checks},
		{"gate: {min_free_percent: 101}", "min_free_percent: 101 is not between 0 and 100", checks},
		{"gate: {min_free_percent: .nan}", "min_free_percent: NaN", checks},
		{"gate: {nids: [o2ib*0]}", "a number of interfaces is wanted", checks},
		{"gate: {nids: [a b]}", "nids: ", checks},
		{"gate: {nids: ['@']}", "nids: ", checks},
		{"gate: {checks: {ib-prot: warn}}", `there is no check "ib-prot"`, checks},
		{"gate: {checks: {ib-port: kill}}", `"kill" is none of ignore, warn, drain, requeue`, checks},
		{"gate: {checks: {ib-port: {do: drain, retri: 4}}}", `unknown field "retri"`, keys},
		{"gate: {checks: {ib-port: {retry: -4}}}", "neither a number of seconds", keys},
		{"gate: {checks: {ib-port: [drain]}}", "ib-port", keys},
		{"gate: {where: [{checks: {ib: warn}}]}", "where[0]: partitions or nodes are wanted", checks},
		{"gate: {where: [{nodes: 'n[1-', checks: {ib: warn}}]}", "where[0]: nodes: ", checks},
		{"gate: {where: [{partitions: ['[a'], checks: {ib: warn}}]}", `"[a" is no pattern`, checks},
		{"gate: {where: [{nodes: n1, checks: {x: warn}}]}", `where[0].checks: there is no check "x"`, checks},
		{"gate: {where: [{nodes: n1, do: warn}]}", `unknown field "do"`, keys},
		{"gate: {brake: {nodes: -1}}", "brake: nodes: -1 is negative", checks},
		{"gate: {brake: {share_percent: 101}}", "brake: share_percent: 101 is not between", checks},
		{"gate: {brake: {share_percent: .nan}}", "brake: share_percent: NaN", checks},
		{"gate: {brake: {within: -1}}", "neither a number of seconds", keys},
		{"gate: {brake: {do: stop}}", `brake: do: "stop" is neither start nor hold`, checks},
		{"gate: {epilog_check: perhaps}", "perhaps", keys},
		{"slurm: {path: /x}", `unknown field "path"`, keys},
		{"gate: {budget: 5", "gate: {budget: 5", keys},
		{"\x00", "", keys},
	}
	for _, tt := range tests {
		c, err := configured(t, tt.text)
		if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.err)
			continue
		}
		var exit *exitError
		var hint *ioguard.HintError
		if c != nil || !errors.As(err, &exit) || exit.code != exitConfig || !errors.As(err, &hint) || !strings.Contains(hint.Hint, tt.hint) {
			t.Errorf("%s: %v, %+v, %+v", tt.text, c, exit, hint)
		}
	}
}

// TestHalfConfiguration: keys whose lines are all commented out keep their defaults.
func TestHalfConfiguration(t *testing.T) {
	for _, text := range []string{"", "# nothing\n", "gate:\n", "gate:\n  brake:\n  # do: hold\n", "gate:\n  checks:\n    ib-port:\n", "slurm:\n", "---\n"} {
		c, err := configured(t, text)
		if err != nil || c.missing || c.Gate.Brake != defaultGate().Brake || c.Gate.Budget != seconds(defaultBudget) || c.Gate.Syslog != "/dev/log" {
			t.Errorf("%q: %+v, %v", text, c, err)
		}
		if p := c.Gate.policy(); p.Rule(gate.Checks()[0], "n1", "") != (gate.Rule{Do: gate.Drain}) {
			t.Errorf("%q: %+v", text, p)
		}
	}
}

// FuzzGateConfig: a configuration is refused or can be used, and never a panic.
func FuzzGateConfig(f *testing.F) {
	b, err := os.ReadFile(filepath.Join("..", "..", "examples", "slurm", "ioguard.yaml"))
	check1(f, err)
	f.Add(string(b))
	f.Add("gate: {checks: {ib-port: {do: drain, retry: 4}}, where: [{nodes: 'n[1-4]', checks: {ib: warn}}]}")
	f.Add("gate: &a {brake: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		c := defaultConfiguration()
		if yaml.UnmarshalWithOptions([]byte(text), c, yaml.Strict()) != nil || c.Gate.check() != nil {
			return
		}
		p := c.Gate.policy()
		for _, check := range gate.Checks() {
			if r := p.Rule(check, "n1", "batch"); r.Do == "" || r.Retry < 0 {
				t.Errorf("%s: %+v", check.Code, r)
			}
		}
		if l := p.Brake.Limit(100); l == 0 || l > 100 && p.Brake.Share > 0 {
			t.Errorf("limit %d of %+v", l, p.Brake)
		}
	})
}

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// runPolicy runs the command as main does and gives what it printed.
func runPolicy(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	old := stdout
	stdout = &o
	defer func() { stdout = old }()
	app := newApp()
	app.Commands = []*cli.Command{policyCommand()}
	app.Writer, app.ErrWriter = &o, &e
	code = report(&e, app.Run(reorder(app, append([]string{"ioguard", "policy"}, args...))))
	return o.String(), e.String(), code
}

func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	policyGood  = "code: demo\ntitle: demo\nsubject: job\nseverity: warning\nwhen: share.write >= 0.5\nadvice: stop\n"
	policyTests = "tests:\n- name: fires\n  input_series:\n  - {series: 'share.write{job=\"1\"}', values: '1'}\n  expect: {at: 0s, findings: [{job: 1}]}\n"
)

func TestPolicyCommand(t *testing.T) {
	dir := writeTree(t, map[string]string{
		"good/demo/policy.yaml": policyGood, "good/demo/tests.yaml": policyTests,
		"bad/demo/policy.yaml": strings.Replace(policyGood, "when: share.write", "for: 1\nwhen: share.writ", 1), "bad/demo/tests.yaml": policyTests,
		"failing/demo/policy.yaml": strings.Replace(policyGood, "0.5", "5", 1), "failing/demo/tests.yaml": policyTests,
		"one.yaml": policyGood, "empty/x": "",
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, tt := range []struct {
		args      []string
		code      int
		out, errs string
	}{
		{[]string{"test"}, 0, " passed, 0 failed\n", ""},
		{[]string{"test", at("good")}, 0, "1 passed, 0 failed\n", ""},
		{[]string{"test", at("good/demo/policy.yaml"), at("good/demo"), "-v"}, 0, "ok   " + at("good/demo/tests.yaml") + ":2: fires\n", ""},
		{[]string{"test", at("failing")}, 1, "FAIL " + at("failing/demo/tests.yaml") + ":2: fires\n  at 0s\n    exp: job=1\n    got: none\n0 passed, 1 failed\n", ""},
		{[]string{"test", at("bad")}, 4, "", "ioguard: error: " + at("bad/demo/policy.yaml") + ":5:6: for: \"1\" is no time up to 24h0m0s\nioguard: hint: write 30s, 2m or 3 samples\n" +
			"ioguard: error: " + at("bad/demo/policy.yaml") + ":6:7: when: no such variable: share.writ\nioguard: hint: did you mean \"share.write\"?\n"},
		{[]string{"test", at("empty")}, 4, "", "no tests in it"},
		{[]string{"test", at("nowhere")}, 3, "", "no such file"},
		{[]string{"check"}, 2, "", "no file or directory to check"},
		{[]string{"check", at("good"), at("one.yaml")}, 0, "2 rules checked, no problems\n", ""},
		{[]string{"check", at("good/demo/policy.yaml")}, 0, "1 rule checked", ""},
		{[]string{"check", at("bad")}, 4, "", "policy.yaml:6:7: when: no such variable: share.writ\nioguard: hint: did you mean"},
		{[]string{"check", at("empty")}, 4, "", at("empty") + ": no policy.yaml in it"},
		{[]string{"check", at("nowhere")}, 3, "", "no such file"},
		{[]string{"vars"}, 0, "share.write", ""},
		{[]string{"vars", "--markdown"}, 0, "| share.write | double | fraction | job |", ""},
		{[]string{"vars", "--json", "--markdown"}, 2, "", "exclude each other"},
		{[]string{"vars", "x"}, 2, "", "unexpected argument"},
		{[]string{"vars", "--nope"}, 2, "", "flag provided but not defined"},
		{[]string{"nope"}, 2, "", "no such subcommand"},
	} {
		out, errs, code := runPolicy(t, tt.args...)
		if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) || (tt.errs == "") != (errs == "") {
			t.Errorf("%v: exit %d, want %d\nstdout %s\nstderr %s", tt.args, code, tt.code, out, errs)
		}
	}
}

func TestPolicyCommandJSON(t *testing.T) {
	dir := writeTree(t, map[string]string{"demo/policy.yaml": strings.Replace(policyGood, "share.write", "share.writ", 1), "demo/tests.yaml": policyTests})
	for _, args := range [][]string{{"check", dir, "--json"}, {"test", dir, "--json"}} {
		out, errs, code := runPolicy(t, args...)
		var got struct {
			Problems []struct {
				File, Rule, Message, Hint string
				Line, Column              int
			}
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != 4 || errs != "" {
			t.Fatalf("%v: exit %d, %v\n%s%s", args, code, err, out, errs)
		}
		if p := got.Problems; len(p) != 1 || p[0].File != filepath.Join(dir, "demo/policy.yaml") || p[0].Line != 5 || p[0].Column != 7 || p[0].Rule != "demo" || p[0].Hint == "" {
			t.Errorf("%v: %+v", args, p)
		}
	}
	out, _, code := runPolicy(t, "test", "--json")
	var got struct {
		Passed, Failed int
		Tests          []struct{ Name, Rule string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Passed < 20 || got.Failed != 0 || len(got.Tests) != got.Passed {
		t.Errorf("exit %d, %v, %+v", code, err, got)
	}
	out, _, _ = runPolicy(t, "vars", "--json")
	var vars []map[string]any
	if err := json.Unmarshal([]byte(out), &vars); err != nil || len(vars) < 60 {
		t.Errorf("%v, %d variables", err, len(vars))
	}
}

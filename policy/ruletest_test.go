package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRunTestsShowsDifference(t *testing.T) {
	results, err := RunTests(tree("demo/policy.yaml", smallRule, "demo/tests.yaml", `interval: 10s
tests:
- name: wrong
  input_series:
  - {series: 'share.write{job="1"}', values: '1 0 _ 1 stale 1'}
  - {series: 'share.write{job="2",fs="x"}', values: '0 0 0 1'}
  expect:
  - {at: 0s, findings: none}
  - {at: 10s, findings: [{job: 1, severity: critical}]}
  - {at: 20s, findings: []}
  - {at: 30s, findings: [{job: 2, fs: x}, {rule: demo, job: 1, severity: warning}]}
  - {at: 40s, findings: none}
  - {at: 50s, findings: [{job: 1}, {job: 1}]}
  - {at: 60s, findings: none}
- name: right
  interval: 1m
  input_series: {series: 'job.user{job="1"}', values: '"a"'}
  expect: {at: 0s, findings: none}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []TestResult{
		{File: "demo/tests.yaml", Line: 3, Rule: "demo", Name: "wrong", Failures: []TestFailure{
			{At: "0s", Exp: []string{}, Got: []string{"demo job=1 severity=warning"}},
			{At: "10s", Exp: []string{"job=1 severity=critical"}, Got: []string{}},
			{At: "50s", Exp: []string{"job=1", "job=1"}, Got: []string{"demo job=1 severity=warning"}},
		}},
		{File: "demo/tests.yaml", Line: 15, Rule: "demo", Name: "right", Passed: true},
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Error(diff)
	}
}

// A series of job "*" is that of every job in the case without one of its own.
func TestSeriesOfAll(t *testing.T) {
	results, err := RunTests(tree("demo/policy.yaml", strings.Replace(smallRule, "0.5", "0.5 && job.osts > 2", 1), "demo/tests.yaml", `tests:
- name: all but one
  input_series:
  - {series: 'job.osts{job="4"}', values: '5'}
  - {series: 'share.write{job="*"}', values: '0.6 0.6'}
  - {series: 'job.osts{job="1"}', values: '5 1'}
  - {series: 'job.osts{job="2",fs="x"}', values: '5 5 5'}
  - {series: 'job.osts{job="3"}', values: '5'}
  - {series: 'share.write{job="3"}', values: '0.1'}
  - {series: 'share.write{job="4"}', values: '_'}
  - {series: 'share.write{job="*",fs="y"}', values: '0'}
  expect:
  - {at: 0s, findings: [{job: 1}, {job: 2, fs: x}]}
  - {at: 5s, findings: [{job: 2}]}
  - {at: 10s, findings: none}
`))
	if err != nil || len(results) != 1 || !results[0].Passed {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestRunTestsProblems(t *testing.T) {
	for _, tt := range []struct{ tests, want string }{
		{"", "demo/tests.yaml:1:1: file is empty"},
		{"tests:\n- nam: x\n", `2:3: unknown key "nam" in test`},
		{"interval: 5\ntests:\n", "1:11: interval: \"5\" is no time"},
		{strings.Replace(passingTest, "share.write", "share.writ", 1), `4:14: series: no such variable of a job: share.writ`},
		{strings.Replace(passingTest, "values: '1'", "values: '1y'", 1), `4:46: values: "1y" is no number`},
		{strings.Replace(passingTest, "job=", "jbo=", 1), `4:14: series: no such label: "jbo"`},
		{strings.Replace(passingTest, "at: 0s", "at: 3s", 1), `6:6: at: 3s is no multiple of the interval 5s`},
		{strings.Replace(passingTest, "job: 1", "severity: bad", 1), `6:26: no such severity: "bad"`},
		{strings.Replace(passingTest, "at: 0s, ", "", 1), `6:5: no at`},
		{strings.Replace(passingTest, ", findings: [{job: 1}]", "", 1), `6:5: no findings`},
		{strings.Replace(passingTest, "0s", "24h", 1), ``},
		{strings.Replace(passingTest, "0s", "240h", 1), `is no time up to 24h`},
	} {
		_, err := RunTests(tree("demo/policy.yaml", smallRule, "demo/tests.yaml", tt.tests))
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.tests, err)
			}
			continue
		}
		var ps Problems
		if !errors.As(err, &ps) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.tests, err, tt.want)
		}
	}
	if _, err := RunTests(tree("demo/tests.yaml", passingTest)); !IsInvalid(err) {
		t.Errorf("tests without a rule: %v", err)
	}
}

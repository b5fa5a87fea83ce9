package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ioguard"
)

const smallRule = `code: demo
title: demo
subject: job
severity: warning
when: share.write >= 0.5
advice: stop
`

// with replaces or adds lines of smallRule by their keys.
func with(lines ...string) string {
	out := smallRule
	for _, l := range lines {
		key, _, _ := strings.Cut(l, ":")
		kept := ""
		for _, old := range strings.SplitAfter(out, "\n") {
			if !strings.HasPrefix(old, key+":") {
				kept += old
			}
		}
		out = kept + l + "\n"
	}
	return out
}

func TestParseRule(t *testing.T) {
	r, err := ParseRule("x.yaml", []byte(with(
		"severity:\n  notice: \"true\"\n  critical: harm.ratio >= 2",
		"for: 4s", "keep: 5 samples", "keep_when: share.write >= 0.2",
		"exempt:\n- job.user == \"root\"\n- job.age_seconds < 60",
		"action: throttle",
		"facts:\n  harm: \"{{harm.ratio}} slower\"\n  pattern:\n  - writes {{job.write_bytes_per_second}}\n  - in {{job.mean_write_bytes|bytes}}",
		"advice: |\n  line one\n  line {{job.user}}\n")))
	if err != nil {
		t.Fatal(err)
	}
	if r.For != (Span{Time: 4 * time.Second}) || r.Keep != (Span{Samples: 5}) || r.Action != ThrottleAction {
		t.Errorf("for %v keep %v action %s", r.For, r.Keep, r.Action)
	}
	if diff := cmp.Diff([]ioguard.Severity{ioguard.Critical, ioguard.Notice}, r.Severities()); diff != "" {
		t.Error(diff)
	}
	want := map[string][]string{
		"when": {"share.write >= 0.5"}, "keep_when": {"share.write >= 0.2"},
		"exempt":          {`job.user == "root"`, "job.age_seconds < 60"},
		"severity.notice": {"true"}, "severity.critical": {"harm.ratio >= 2"},
	}
	if diff := cmp.Diff(want, r.Conditions()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"share.write", "harm.ratio"}, r.evidence); diff != "" {
		t.Error(diff)
	}
	if len(r.facts) != 3 || r.facts[0].group != "pattern" || r.facts[2].group != "harm" {
		t.Errorf("facts %v", r.facts)
	}
}

// Every line is "line:column: message | hint".
func TestRuleProblems(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string
		want []string
	}{
		{"unknown key", with("whan: a"), []string{`7:1: unknown key "whan" in rule | did you mean "when"?`}},
		{"far-off key", with("zzzzzz: a"), []string{`7:1: unknown key "zzzzzz" in rule | one of: code, title, subject, severity, when, for, keep, keep_when, exempt, action, advice, facts, evidence, disabled`}},
		{"plain", with("when: share.writ >= 0.5"), []string{`6:7: when: no such variable: share.writ | did you mean "share.write"?`}},
		{"single quotes", with("when: 'job.user == ''a'' && share.writ > 1'"), []string{`6:29: when: no such variable: share.writ | did you mean "share.write"?`}},
		{"double quotes", with(`when: "job.user == \"a\" && share.writ > 1"`), []string{`6:29: when: no such variable: share.writ | did you mean "share.write"?`}},
		{"block", with("when: |\n  share.write > 1 &&\n\n    (job.osts > 1 ||\n      share.writ > 1)"), []string{`10:7: when: no such variable: share.writ | did you mean "share.write"?`}},
		{"block with umlaut", with("when: |2\n   job.user == 'äö' && share.writ > 1"), []string{`7:24: when: no such variable: share.writ | did you mean "share.write"?`}},
		{"folded", with("when: >-\n  share.write > 1 &&\n  share.writ > 1"), []string{`8:3: when: no such variable: share.writ | did you mean "share.write"?`}},
		{"plain on two lines", with("when: share.write > 1 &&\n   share.writ > 1"), []string{`7:4: when: no such variable: share.writ | did you mean "share.write"?`}},
		{"ends early", with("when: |\n  share.write >\n"), []string{`7:16: when: the expression ends too early | `}},
		{"windows line ends", strings.ReplaceAll(with("when: |\n  share.write > 1 &&\n  share.writ > 1"), "\n", "\r\n"), []string{`8:3: when: no such variable: share.writ | did you mean "share.write"?`}},
		{"not a condition", with("when: share.write"), []string{`6:7: when: gives a number, not a condition (true or false) | compare it with something, as in share.write >= 0.3`}},
		{"number for a condition", with("when: 5"), []string{`6:7: when: gives a number, not a condition (true or false) | compare it with something, as in share.write >= 0.3`}},
		{"severity not a condition", with("severity:\n  warning: harm.ratio"), []string{`7:12: severity warning: gives a number, not a condition (true or false) | compare it with something, as in share.write >= 0.3`}},
		{"loops", with("when: '[1,2].all(x, x > 0)'"), []string{`6:17: when: loops (all, exists, exists_one, map, filter) are not part of the rule language | write the comparisons out, joined by && or ||`}},
		{"no such severity", with("severity: bad"), []string{`6:11: no such severity: "bad" | one of: critical, warning, notice`}},
		{"no such level", with("severity: {critcal: harm.ratio > 1}"), []string{`6:12: unknown key "critcal" in severity | did you mean "critical"?`, `6:11: severity names no level | `}},
		{"no such subject", with("subject: jobs"), []string{`6:10: no such subject: "jobs" | did you mean "job"?`}},
		{"other subject's variable", with("subject: ost"), []string{`4:7: when: share.write is not known for a rule about a ost | share.write is known for: job`}},
		{"no such action", with("action: kill"), []string{`7:9: no such action: "kill" | one of: flag, throttle`}},
		{"for without unit", with("for: 5"), []string{`7:6: for: "5" is no time up to 24h0m0s | write 30s, 2m or 3 samples`}},
		{"keep of no samples", with("keep: 0 samples"), []string{`7:7: keep: "0" is no number of samples from 1 to 10000 | write 30s, 2m or 3 samples`}},
		{"negative", with("for: -5s"), []string{`7:6: for: "-5s" is no time up to 24h0m0s | write 30s, 2m or 3 samples`}},
		{"placeholder", with("advice: |\n  do\n    not {{job.usr}} it"), []string{`8:9: advice: placeholder {{job.usr}} is no variable | did you mean "job.user"?`}},
		{"placeholder of another subject", with("advice: a {{ost.name}}"), []string{`6:11: advice: placeholder {{ost.name}} is not known for a rule about a job | `}},
		{"placeholder's format", with("facts: {share: ['{{share.write | percnt}}']}"), []string{`7:18: facts share: no such format: "percnt" | did you mean "percent"?`}},
		{"format of a string", with("advice: '{{job.user | bytes}}'"), []string{`6:10: advice: job.user is a string and takes no format | write {{job.user}}`}},
		{"open placeholder", with("advice: a {{job.user"), []string{`6:11: advice: {{ without }} | write {{variable}} or {{variable | format}}`}},
		{"group of facts", with("facts:\n  harms: a"), []string{`8:3: unknown key "harms" in facts | did you mean "harm"?`}},
		{"evidence", with("evidence: [share.writ, job.user]"), []string{`7:12: evidence: no such variable for a job: share.writ | did you mean "share.write"?`, `7:24: evidence: job.user is a string; evidence is numbers | `}},
		{"code", with("code: Meta Data"), []string{`6:7: code "Meta Data" | up to 40 lower-case letters, digits and dashes: metadata-flood`}},
		{"missing keys", "code: x\n", []string{`1:1: rule has no title | `, `1:1: rule has no subject | `, `1:1: rule has no severity | `, `1:1: rule has no when | `, `1:1: rule has no advice | `}},
		{"several at once", with("when: share.writ > 1 && share.reed > 1", "for: x"), []string{`6:7: when: no such variable: share.writ | did you mean "share.write"?`, `6:25: when: no such variable: share.reed | did you mean "share.read"?`, `7:6: for: "x" is no time up to 24h0m0s | write 30s, 2m or 3 samples`}},
		{"empty value", with("when:"), []string{`6:7: when is empty | `}},
		{"list for a text", with("title: [a]"), []string{`6:8: title must be a text | `}},
		{"anchor", with("title: &a b"), []string{`6:8: title: YAML anchors, aliases and tags are not used here | a text that starts with &, * or ! needs quotes`}},
		{"negation without quotes", with("when: !known(share.write)"), []string{`6:7: when: YAML anchors, aliases and tags are not used here | a text that starts with &, * or ! needs quotes`}},
		{"twice", smallRule + "code: demo\n", []string{`7:1: mapping key "code" already defined at [1:1] | `}},
		{"two documents", smallRule + "---\ncode: b\n", []string{`8:1: second YAML document | one file holds one rule`}},
		{"not a mapping", "- a\n", []string{`1:1: rule must be a mapping (key: value) | keys are code, title, subject, severity, when, for, keep, keep_when, exempt, action, advice, facts, evidence, disabled`}},
		{"empty", "", []string{`1:1: file is empty | `}},
		{"not YAML", "a: [", []string{`1:4: sequence end token ']' not found | `}},
		{"disabled", with("disabled: maybe"), []string{`7:11: disabled: maybe | true or false`}},
		{"too large", "# " + strings.Repeat("x", maxFile), []string{fmt.Sprintf(`0:0: file has %d bytes, more than %d | `, maxFile+2, maxFile)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseRule("x.yaml", []byte(tt.file))
			var ps Problems
			if !errors.As(err, &ps) {
				t.Fatalf("err = %v, want problems", err)
			}
			var got []string
			for _, p := range ps {
				if p.File != "x.yaml" {
					t.Errorf("file %q", p.File)
				}
				got = append(got, fmt.Sprintf("%d:%d: %s | %s", p.Line, p.Column, p.Message, p.Hint))
			}
			for i, w := range tt.want { // the order of two in one line is no promise
				if !contains(got, w) || len(got) != len(tt.want) {
					t.Errorf("problem %d:\nwant %s\ngot  %s", i, w, strings.Join(got, "\n     "))
				}
			}
		})
	}
}

func TestProblemText(t *testing.T) {
	_, err := ParseRule("dir/policy.yaml", []byte(with("when: a > 1")))
	if want := "dir/policy.yaml:6:7: when: no such variable: a"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

const passingTest = `tests:
- name: fires
  input_series:
  - {series: 'share.write{job="1"}', values: '1'}
  expect:
  - {at: 0s, findings: [{job: 1}]}
`

func tree(files ...string) fs.FS {
	m := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		m[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return m
}

func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		fsys fs.FS
		want string // "" loads
	}{
		{"good", tree("demo/policy.yaml", smallRule, "demo/tests.yaml", passingTest), ""},
		{"a rule's own folder", tree("policy.yaml", smallRule, "tests.yaml", passingTest), ""},
		{"disabled needs no tests", tree("demo/policy.yaml", "code: demo\ndisabled: true\n"), ""},
		{"empty", tree(), ""},
		{"no tests", tree("demo/policy.yaml", smallRule), `demo/policy.yaml: rule "demo" has no tests`},
		{"folder's name", tree("dmo/policy.yaml", smallRule, "dmo/tests.yaml", passingTest), `dmo/policy.yaml:1:1: folder "dmo" holds the rule "demo"`},
		{"same code twice", tree("a/demo/policy.yaml", smallRule, "a/demo/tests.yaml", passingTest, "b/demo/policy.yaml", smallRule, "b/demo/tests.yaml", passingTest),
			`b/demo/policy.yaml:1:1: code "demo" is already that of a/demo/policy.yaml`},
		{"two bad files", tree("a/policy.yaml", "code: a\nx: 1\ndisabled: true\n", "b/policy.yaml", ""), "a/policy.yaml:2:1: unknown key \"x\" in rule\nb/policy.yaml:1:1: file is empty"},
		{"bad tests", tree("demo/policy.yaml", smallRule, "demo/tests.yaml", "test:\n"), "demo/tests.yaml:1:1: unknown key \"test\" in tests file\ndemo/tests.yaml:1:1: file has no tests"},
	} {
		_, err := Check(tt.fsys)
		if got := fmt.Sprint(err); tt.want == "" && err != nil || tt.want != "" && got != tt.want {
			t.Errorf("%s: got %s\nwant %s", tt.name, got, tt.want)
		}
		if tt.want != "" && !IsInvalid(err) {
			t.Errorf("%s: not counted as invalid", tt.name)
		}
	}
}

func TestSiteOverDefault(t *testing.T) {
	site, err := Load(tree(
		"ost-full/policy.yaml", "code: ost-full\ndisabled: true\n",
		"read-storm/policy.yaml", strings.Replace(smallRule, "code: demo", "code: read-storm", 1), "read-storm/tests.yaml", passingTest,
		"demo/policy.yaml", smallRule, "demo/tests.yaml", passingTest))
	if err != nil {
		t.Fatal(err)
	}
	def := Default()
	p := def.With(site)
	if p.Rule("ost-full") != nil || def.Rule("ost-full") == nil {
		t.Error("ost-full is not switched off, or for all")
	}
	if r := p.Rule("read-storm"); r == nil || r.Title != "demo" {
		t.Errorf("read-storm is %+v", r)
	}
	if p.Rule("demo") == nil || len(p.Rules) != len(def.Rules) {
		t.Errorf("%d rules", len(p.Rules))
	}
}

func TestSpan(t *testing.T) {
	for s, want := range map[string]Span{
		"4s": {Time: 4 * time.Second}, "2 samples": {Samples: 2}, "1 sample": {Samples: 1}, "0s": {}, "1m30s": {Time: 90 * time.Second},
	} {
		got, err := parseSpan(s)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
		if again, err := parseSpan(got.String()); err != nil || again != got {
			t.Errorf("%s prints as %s", s, got)
		}
	}
	for _, s := range []string{"", "4", "samples", "x samples", "10001 samples", "25h", "2 sample s"} {
		if got, err := parseSpan(s); err == nil {
			t.Errorf("%q: %v", s, got)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	err := fs.WalkDir(DefaultFS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(DefaultFS(), name)
		f.Add(data)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(with("severity:\n  notice: \"true\"", "exempt: [a, b]", "facts: {share: ['{{share.write | percnt}}']}")))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRule("x", data)
		var ps Problems
		if err != nil && (!errors.As(err, &ps) || len(ps) == 0) {
			t.Fatalf("err %v", err)
		}
		for _, p := range ps {
			if p.Message == "" || p.Line < 0 || p.Line > 0 && p.Column < 1 || p.Line > strings.Count(string(data), "\n")+strings.Count(string(data), "\r")+2 {
				t.Errorf("problem %+v", p)
			}
		}
		if err == nil && !r.Disabled {
			s := Subject{Kind: r.Subject, Facts: NewFacts()}
			NewTracker(&Policy{Rules: []*Rule{r}}).Step(time.Unix(0, 0), time.Second, []Subject{s})
		}
		parseTests("x", data)
	})
}

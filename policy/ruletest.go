package policy

import (
	"errors"
	"io/fs"
	"math"
	"path"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"ioguard"
)

// TestResult is what one case of a tests.yaml gave.
type TestResult struct {
	File     string        `json:"file"`
	Line     int           `json:"line"`
	Rule     string        `json:"rule"`
	Name     string        `json:"name"`
	Passed   bool          `json:"passed"`
	Failures []TestFailure `json:"failures,omitempty"`
}

// TestFailure is a moment at which other findings were open than expected.
type TestFailure struct {
	At  string   `json:"at"`
	Exp []string `json:"exp"`
	Got []string `json:"got"`
}

// RunTests runs every tests.yaml in a tree on the rule beside it. The error is
// Problems where a rule or a test is not valid; then nothing was run. Time is
// virtual: value number i of a series belongs to the interval that ends at
// i times the interval after the start. A series of the job (ost, ...) "*" is
// that of every job which the case names and which has no series of its own for
// the variable.
func RunTests(fsys fs.FS) ([]TestResult, error) {
	p, problems, err := load(fsys, compileNow)
	if err != nil {
		return nil, err
	}
	files, err := find(fsys, TestsFile)
	if err != nil {
		return nil, err
	}
	byFolder := map[string]*Rule{}
	for _, r := range p.Rules {
		byFolder[path.Dir(r.File)] = r
	}
	var results []TestResult
	for _, name := range files {
		data, err := readFile(fsys, name)
		if err != nil {
			return nil, err
		}
		tests, testProblems := parseTests(name, data)
		problems = append(problems, testProblems...)
		r := byFolder[path.Dir(name)]
		if r == nil {
			if _, err := fs.Stat(fsys, path.Join(path.Dir(name), RuleFile)); err != nil {
				problems = append(problems, &Problem{File: name, Message: "no " + RuleFile + " beside it"})
			}
			continue
		}
		for i := range tests {
			results = append(results, tests[i].run(r, name))
		}
	}
	if err := problems.err(); err != nil {
		return nil, err
	}
	return results, nil
}

// ruleTest is one case.
type ruleTest struct {
	name     string
	line     int
	interval time.Duration
	series   []testSeries
	expect   []expectation
}

type testSeries struct {
	slot    slot
	subject Subject // without facts
	values  []value
}

type expectation struct {
	at       time.Duration
	findings []expected
}

// expected is a finding; what is "" is not compared.
type expected struct{ rule, job, target, fs, severity string }

func (e expected) matches(f *ioguard.Finding) bool {
	same := func(want, got string) bool { return want == "" || want == got }
	return same(e.rule, f.Rule) && same(e.job, f.JobID) && same(e.target, f.Target) &&
		same(e.fs, f.FS) && same(e.severity, string(f.Severity))
}

func (e expected) String() string {
	return describe(e.rule, e.job, e.target, e.fs, e.severity)
}

func describe(rule, job, target, fsName, severity string) string {
	words := []string{}
	add := func(key, v string) {
		if v != "" {
			words = append(words, key+v)
		}
	}
	add("", rule)
	add("job=", job)
	add("target=", target)
	add("fs=", fsName)
	add("severity=", severity)
	return strings.Join(words, " ")
}

var (
	testFileKeys    = []string{"interval", "tests"}
	testKeys        = []string{"name", "interval", "input_series", "expect"}
	seriesKeys      = []string{"series", "values"}
	expectationKeys = []string{"at", "findings"}
	findingKeys     = []string{"rule", "job", "ost", "pool", "server", "fs", "severity"}
)

// The bounds of one case.
const (
	defaultInterval = 5 * time.Second
	maxSteps        = 2 * maxValues
)

// parseTests reads a tests.yaml.
func parseTests(file string, data []byte) ([]ruleTest, Problems) {
	d := &document{file: file}
	body := d.parse(data)
	if body == nil {
		return nil, d.problems
	}
	p := testParser{d}
	return p.file(body), d.problems
}

type testParser struct{ *document }

func (p testParser) file(body ast.Node) []ruleTest {
	fields := p.mapping(body, "tests file", testFileKeys)
	if fields == nil {
		return nil
	}
	interval := p.duration(fields, "interval", defaultInterval)
	f, ok := fields["tests"]
	if !ok {
		p.problem(p.start(body), "", "file has no tests")
		return nil
	}
	var out []ruleTest
	for _, n := range p.list(f.value) {
		if t, ok := p.test(n, interval); ok {
			out = append(out, t)
		}
	}
	return out
}

func (p testParser) duration(fields map[string]field, key string, otherwise time.Duration) time.Duration {
	f, ok := fields[key]
	if !ok {
		return otherwise
	}
	t, ok := p.scalar(f.value, key)
	if !ok {
		return otherwise
	}
	v, err := time.ParseDuration(t.value)
	if t.value == "0" {
		err = nil
	}
	if err != nil || v < 0 || v > maxSpan || (v == 0 && key == "interval") {
		p.problem(t.at, "write 5s or 2m", "%s: %q is no time up to %v", key, t.value, maxSpan)
		return otherwise
	}
	return v
}

func (p testParser) test(n ast.Node, interval time.Duration) (ruleTest, bool) {
	fields := p.mapping(n, "test", testKeys)
	if fields == nil {
		return ruleTest{}, false
	}
	t := ruleTest{line: p.start(n).line, interval: p.duration(fields, "interval", interval)}
	if f, ok := fields["name"]; ok {
		name, _ := p.scalar(f.value, "name")
		t.name = oneLine(name.value)
	}
	for _, key := range []string{"name", "input_series", "expect"} {
		if _, ok := fields[key]; !ok {
			p.problem(p.start(n), "", "test has no %s", key)
		}
	}
	if f, ok := fields["input_series"]; ok {
		for _, n := range p.list(f.value) {
			if s, ok := p.series(n); ok {
				t.series = append(t.series, s)
			}
		}
	}
	if f, ok := fields["expect"]; ok {
		for _, n := range p.list(f.value) {
			if e, ok := p.expectation(n, t.interval); ok {
				t.expect = append(t.expect, e)
			}
		}
	}
	return t, true
}

func (p testParser) series(n ast.Node) (testSeries, bool) {
	fields := p.mapping(n, "series", seriesKeys)
	name, ok1 := p.required(n, fields, "series")
	values, ok2 := p.required(n, fields, "values")
	if !ok1 || !ok2 {
		return testSeries{}, false
	}
	variable, subject, err := parseSeries(name.value)
	if err != nil {
		p.problem(name.at, hintOf(err), "series: %v", err)
		return testSeries{}, false
	}
	s, ok := slots[variable]
	if !ok || !vars[s.row].of(subject.Kind) {
		p.problem(name.at, didYouMean(variable, varNames(subject.Kind)), "series: no such variable of a %s: %s", subject.Kind, variable)
		return testSeries{}, false
	}
	v, err := parseValues(values.value, s.text)
	if err != nil {
		p.problem(values.at, "0+0.1x5 _x3 stale, or \"alice\"x5 for a string", "values: %v", err)
		return testSeries{}, false
	}
	return testSeries{s, subject, v}, true
}

func (p testParser) required(n ast.Node, fields map[string]field, key string) (text, bool) {
	f, ok := fields[key]
	if !ok {
		if fields != nil {
			p.problem(p.start(n), "", "no %s", key)
		}
		return text{}, false
	}
	return p.scalar(f.value, key)
}

func (p testParser) expectation(n ast.Node, interval time.Duration) (expectation, bool) {
	fields := p.mapping(n, "expect", expectationKeys)
	if _, ok := p.required(n, fields, "at"); !ok {
		return expectation{}, false
	}
	e := expectation{at: p.duration(fields, "at", 0)}
	if e.at%interval != 0 {
		p.problem(fields["at"].at, "", "at: %v is no multiple of the interval %v", e.at, interval)
	}
	if e.at/interval > maxSteps {
		p.problem(fields["at"].at, "", "at: more than %d intervals", maxSteps)
		return expectation{}, false
	}
	f, ok := fields["findings"]
	if !ok {
		p.problem(p.start(n), "write findings: none where none is expected", "no findings")
		return expectation{}, false
	}
	if s, ok := f.value.(*ast.StringNode); ok && s.Value == "none" {
		return e, true
	}
	for _, n := range p.list(f.value) {
		e.findings = append(e.findings, p.finding(n))
	}
	return e, true
}

func (p testParser) finding(n ast.Node) expected {
	fields := p.mapping(n, "finding", findingKeys)
	get := func(key string) string {
		f, ok := fields[key]
		if !ok {
			return ""
		}
		t, _ := p.scalar(f.value, key)
		return t.value
	}
	e := expected{rule: get("rule"), job: get("job"), fs: get("fs"), severity: get("severity")}
	for _, key := range []string{"ost", "pool", "server"} {
		if v := get(key); v != "" {
			e.target = v
		}
	}
	if e.severity != "" && !contains(severityWords, e.severity) {
		p.problem(fields["severity"].at, didYouMean(e.severity, severityWords), "no such severity: %q", e.severity)
	}
	return e
}

func hintOf(err error) string {
	var h *ioguard.HintError
	if errors.As(err, &h) {
		return h.Hint
	}
	return ""
}

// run steps the rule through the case.
func (t *ruleTest) run(r *Rule, file string) TestResult {
	result := TestResult{File: file, Line: t.line, Rule: r.Code, Name: t.name}
	steps := 0
	for _, s := range t.series {
		steps = max(steps, len(s.values))
	}
	for _, e := range t.expect {
		steps = max(steps, int(e.at/t.interval)+1)
	}
	tracker := NewTracker(&Policy{Rules: []*Rule{r}})
	start := time.Unix(0, 0).UTC()
	for i := range steps {
		at := time.Duration(i) * t.interval
		tracker.Step(start.Add(at), t.interval, t.subjects(i))
		for _, err := range tracker.Problems() {
			result.Failures = append(result.Failures, TestFailure{At: at.String(), Exp: []string{}, Got: []string{err.Error()}})
		}
		for _, e := range t.expect {
			if e.at != at {
				continue
			}
			if f, ok := e.compare(tracker.Open()); !ok {
				result.Failures = append(result.Failures, f)
			}
		}
	}
	result.Passed = len(result.Failures) == 0
	return result
}

// subjects are those that are there in a step: one of their own series has not ended.
func (t *ruleTest) subjects(step int) []Subject {
	type id struct {
		kind       SubjectKind
		fs, target string
	}
	index := map[id]int{}
	var out []Subject
	var own []testSeries // that have a value in this step
	for _, s := range t.series {
		if s.ofAll() || step >= len(s.values) || s.values[step].kind == stale {
			continue
		}
		own = append(own, s)
		key := id{s.subject.Kind, s.subject.FS, s.subject.id()}
		i, ok := index[key]
		if !ok {
			i = len(out)
			index[key] = i
			subject := s.subject
			subject.Facts = NewFacts()
			subject.nameItself()
			out = append(out, subject)
		}
		if out[i].Server == "" {
			out[i].Server = s.subject.Server
		}
	}
	for _, s := range t.series {
		for i := range out {
			if s.ofAll() && step < len(s.values) && out[i].Kind == s.subject.Kind && (s.subject.FS == "" || s.subject.FS == out[i].FS) {
				out[i].Facts.put(s.slot, s.values[step])
			}
		}
	}
	for _, s := range own {
		out[index[id{s.subject.Kind, s.subject.FS, s.subject.id()}]].Facts.put(s.slot, s.values[step])
	}
	return out
}

// ofAll reports whether the series is that of every subject of its kind.
func (s *testSeries) ofAll() bool { return s.subject.id() == "*" }

func (f Facts) put(s slot, v value) {
	switch {
	case v.kind != given && s.text:
		f.SetText(TextID(s.place), "")
	case v.kind != given:
		f.Set(NumberID(s.place), math.NaN())
	case s.text:
		f.SetText(TextID(s.place), v.text)
	default:
		f.Set(NumberID(s.place), v.number)
	}
}

// nameItself sets the facts that follow from the labels.
func (s *Subject) nameItself() {
	switch s.Kind {
	case JobSubject:
		s.Facts.SetText(MustText("job.id"), s.JobID)
	case OSTSubject:
		s.Facts.SetText(MustText("ost.name"), s.Target)
		if i, ok := ioguard.TargetIndex(s.Target); ok {
			s.Facts.Set(MustNumber("ost.index"), float64(i))
		}
	case PoolSubject:
		s.Facts.SetText(MustText("pool.name"), s.Target)
	case ServerSubject:
		s.Facts.SetText(MustText("server.name"), s.Target)
	}
}

// compare pairs each expected finding with an open one.
func (e *expectation) compare(open []ioguard.Finding) (TestFailure, bool) {
	f := TestFailure{At: e.at.String(), Exp: []string{}, Got: []string{}}
	taken := make([]bool, len(open))
	all := len(open) == len(e.findings)
	for _, want := range e.findings {
		f.Exp = append(f.Exp, want.String())
		found := false
		for i := range open {
			if !taken[i] && want.matches(&open[i]) {
				taken[i], found = true, true
				break
			}
		}
		all = all && found
	}
	for i := range open {
		o := &open[i]
		f.Got = append(f.Got, describe(o.Rule, o.JobID, o.Target, o.FS, string(o.Severity)))
	}
	return f, all
}

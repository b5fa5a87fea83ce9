package policy

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
)

// factsOf sets facts by name: float64, bool or string.
func factsOf(t testing.TB, values map[string]any) Facts {
	t.Helper()
	f := NewFacts()
	for name, v := range values {
		switch v := v.(type) {
		case string:
			f.SetText(MustText(name), v)
		case bool:
			f.SetBool(MustNumber(name), v)
		case float64:
			f.Set(MustNumber(name), v)
		default:
			t.Fatalf("%s: %T", name, v)
		}
	}
	return f
}

func TestConditions(t *testing.T) {
	facts := factsOf(t, map[string]any{
		"share.write": 0.5, "job.osts": 4.0, "job.user": "alice", "pressure.rising": true,
		"job.id": "a\xffb", "job.write_bytes_per_second": math.Inf(1),
	}) // share.read is not known
	for _, tt := range []struct {
		source string
		want   bool
	}{
		{"share.write >= 0.5", true},
		{"share.write > 0.5", false},
		{"job.osts == 4", true}, // an integer literal is a number like any other
		{"job.osts / 8 == 0.5", true},
		{"5 / 2 == 2.5", true},
		{"2 * share.write + 1 - -1 == 3", true},
		{"share.read < 1", false},
		{"share.read <= 1", false},
		{"share.read > -1", false},
		{"share.read >= 0 || share.write > 0.1", true},
		{"share.read == share.read", false},
		{"share.read + 1 > 0", false},
		{"share.read in [1, 2]", false},
		{"known(share.read)", false},
		{"!known(share.read)", true},
		{"known(share.write)", true},
		{"known(share.read + share.write)", false},
		{"known(job.user) && !known(job.account)", true},
		{"min(share.write, 3) == 0.5", true},
		{"max(share.write, 3) == 3", true},
		{"max(share.read, 3) > 0", false}, // unknown stays unknown
		{"min(-1/0, share.read) < 0", false},
		{"known(share.read) ? share.read > 0 : share.write > 0", true},
		{"job.user == 'alice'", true},
		{"job.user != 'bob'", true},
		{"job.user in ['bob', 'alice']", true},
		{"!(job.user in ['bob'])", true},
		{"job.user.startsWith('al') && job.user.endsWith('ce') && job.user.contains('lic')", true},
		{"pressure.rising", true},
		{"!pressure.rising", false},
		{"job.id.contains('b')", true},
		{"job.write_bytes_per_second > 1e300", true},
		{"1/0 > 5 && 0/0 == 0/0", false},
		{"true", true},
	} {
		c, problems := compile(tt.source, JobSubject, costLimit)
		if problems != nil {
			t.Errorf("%s: %v", tt.source, problems)
			continue
		}
		if got, err := c.eval(newActivation(facts)); err != nil || got != tt.want {
			t.Errorf("%s = %v, %v; want %v", tt.source, got, err, tt.want)
		}
	}
}

func TestRefusedConditions(t *testing.T) {
	for _, tt := range []struct {
		source string
		offset int // in runes
		says   string
		hint   string
	}{
		{"share.write", 0, "gives a number, not a condition", "compare it"},
		{"job.user", 0, "gives a string, not a condition", ""},
		{"share.write && true", 0, "expected type 'bool' but found 'number'", "join conditions"},
		{"share.writ >= 0.3", 0, "no such variable: share.writ", `"share.write"`},
		{"true && share.write > 0 && jobs.osts > 3", 27, "no such variable: jobs.osts", `"job.osts"`},
		{"ost.used > 0.9", 0, "ost.used is not known for a rule about a job", "ost"},
		{"share.write > 'a'", 12, "> does not take (number, string)", ""},
		{"job.user > 'a'", 9, "> does not take (string, string)", ""},
		{"share.write >", 13, "ends too early", ""},
		{"share.write = 3", 12, "a single =", "=="},
		{"share.write > 1 & true", 16, "a single &", "&&"},
		{"share.write > 1 and true", 16, `unexpected "and"`, "&&"},
		{"share.write > 1 && (true", 24, "end of the expression", ""},
		{"share.write >> 1", 13, "input '>'", ""},
		{"foo(share.write) > 1", 3, "no such function: foo", "known"},
		{"knwon(share.write)", 5, "no such function: knwon", `"known"`},
		{"has(share.write)", 3, "no such function: has", ""},
		{"job.user.matches('(a+)+$')", 16, "no such function: matches", ""},
		{"size(job.user) > 3", 4, "no such function: size", ""},
		{"min(share.write) > 3", 3, "min does not take (number)", ""},
		// what would loop: refused before anything is evaluated
		{"[1,2,3].all(x, [1,2,3].all(y, [1,2,3].all(z, x*y*z > 0)))", 11, "loops", "write the comparisons out"},
		{"[1,2].map(x, x).exists(y, y > 1)", 22, "loops", ""},
		{"{'a': 1}.a > 0", 0, "only variables have dots", ""},
		{"{'a': 1} == {}", 0, "maps", ""},
		{"[1,2][0] > 0", 0, "indexing", ""},
		{"3 % 2 == 1", 0, "%", ""},
		{"null == null", 0, "null", ""},
		{"1u > 0", 0, "uint", ""},
		{"b'x' == b'x'", 0, "bytes", ""},
		{"1e999 > 0", 0, "invalid double", ""},
		{"99999999999999999999 > 0", 0, "invalid int", ""},
		// what would make an unknown number true
		{"!(share.write > 0.5)", 2, "negated comparison", "turn"},
		{"job.osts > 1 && !(job.user == 'a' || share.write <= 0.5)", 37, "negated comparison", ""},
		{"share.write != 0.5", 0, "would be true when the number is not known", ""},
		{"!(share.write == 0.5 && !(job.osts > 1))", 2, "would be true when the number is not known", ""},
		{"!(share.write in [1])", 2, "would be true when the number is not known", ""},
		{"(share.write > 0.5) == false", 1, "between conditions", ""},
		{strings.Repeat("(", 200) + "true" + strings.Repeat(")", 200), -1, "recursion", ""},
		{strings.Repeat("-(", 3000) + "1", -1, "", ""},
		{"true" + strings.Repeat(" && true", 600), -1, "", "split"},
		{"share.write > 0 " + strings.Repeat(" ", 5000), 0, "more than 4096", "split"},
		{"", 0, "", ""},
	} {
		name := tt.source[:min(len(tt.source), 60)]
		c, problems := compile(tt.source, JobSubject, costLimit)
		if c != nil || len(problems) == 0 {
			t.Errorf("%s: accepted", name)
			continue
		}
		p := problems[0]
		if tt.offset >= 0 && p.offset != tt.offset || !strings.Contains(p.message, tt.says) || !strings.Contains(p.hint, tt.hint) {
			t.Errorf("%s: got %d %q hint %q, want %d %q %q", name, p.offset, p.message, p.hint, tt.offset, tt.says, tt.hint)
		}
	}
}

// Long lists are the one way to make a small expression cost much.
func TestCostEstimateRefuses(t *testing.T) {
	source := "job.user in ['" + strings.Repeat("a','", 300) + "a']"
	if _, problems := compile(source, JobSubject, costLimit); problems != nil {
		t.Errorf("a list of 300 users costs too much: %v", problems)
	}
	_, problems := compile(source, JobSubject, 100)
	if len(problems) != 1 || !strings.Contains(problems[0].message, "more than 100") {
		t.Errorf("got %v", problems)
	}
}

// What the estimate lets through is limited again while it runs.
func TestCostLimitStopsEvaluation(t *testing.T) {
	language, err := language()
	if err != nil {
		t.Fatal(err)
	}
	checked, issues := language.Compile("job.user.contains('b') || job.user.contains('c') || job.user.contains('d')")
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	p, err := plan(language, checked, cel.CostLimit(5))
	if err != nil {
		t.Fatal(err)
	}
	c := condition{program: compiled(p)}
	facts := factsOf(t, map[string]any{"job.user": strings.Repeat("a", 256)})
	if _, err := c.eval(newActivation(facts)); err == nil || !costExceeded(err) {
		t.Errorf("err = %v, want cost limit", err)
	}
}

// Only what compares strings is watched while it runs: its cost is in the data.
func TestStringsAreWatched(t *testing.T) {
	c, problems := compileNow("job.user.contains('b')", JobSubject)
	if problems != nil {
		t.Fatal(problems)
	}
	facts := NewFacts()
	facts.texts[MustText("job.user")] = strings.Repeat("a", 1<<20) // SetText would have cut it
	if _, err := c.eval(newActivation(facts)); !costExceeded(err) {
		t.Errorf("err = %v, want cost limit", err)
	}
}

func TestCompileLater(t *testing.T) {
	c, _ := compileLater("share.write >= 0.5", JobSubject)
	for _, v := range []float64{0.5, 0.4} {
		got, err := c.eval(newActivation(factsOf(t, map[string]any{"share.write": v})))
		if err != nil || got != (v == 0.5) {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
	c, _ = compileLater("share.writ >= 0.5", JobSubject)
	for range 2 {
		if got, err := c.eval(newActivation(NewFacts())); got || err == nil || !strings.Contains(err.Error(), "no such variable: share.writ") {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// Facts that are reused are read anew.
func TestActivationReset(t *testing.T) {
	c, problems := compileNow("share.write >= 0.5", JobSubject)
	if problems != nil {
		t.Fatal(problems)
	}
	f := factsOf(t, map[string]any{"share.write": 0.5})
	a := newActivation(f)
	for _, v := range []float64{0.5, 0.4, math.NaN(), 0.6} {
		f.Set(MustNumber("share.write"), v)
		a.reset(f)
		if got, err := c.eval(a); err != nil || got != (v >= 0.5) {
			t.Errorf("%v: %v, %v", v, got, err)
		}
	}
}

func TestNoLoopInLanguage(t *testing.T) {
	language, err := language()
	if err != nil {
		t.Fatal(err)
	}
	if m := language.Macros(); len(m) != 0 {
		t.Errorf("macros: %v", m)
	}
	if language.HasFunction("matches") || !language.HasFunction("contains") {
		t.Error("the set of functions is not the documented one")
	}
}

func TestEvalDoesNotAllocateAMap(t *testing.T) {
	c, problems := compile("share.write >= 0.3 && job.osts > 2 && pressure.cpu > 0.5", JobSubject, costLimit)
	if problems != nil {
		t.Fatal(problems)
	}
	a := newActivation(factsOf(t, map[string]any{"share.write": 0.5, "job.osts": 4.0, "pressure.cpu": 0.1}))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := c.eval(a); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations per evaluation", n)
	}
}

func FuzzCompile(f *testing.F) {
	for _, r := range Default().Rules {
		for _, sources := range r.Conditions() {
			for _, s := range sources {
				f.Add(s)
			}
		}
	}
	f.Add("[1].all(x, x > 0) ? 'a' : job.user.matches(\"a\") % {1: 2}")
	facts := NewFacts()
	f.Fuzz(func(t *testing.T, source string) {
		c, problems := compile(source, JobSubject, costLimit)
		if (c == nil) == (len(problems) == 0) {
			t.Fatalf("condition %v, problems %v", c, problems)
		}
		if c == nil {
			return
		}
		if _, err := c.eval(newActivation(facts)); costExceeded(err) {
			t.Errorf("%q passed the estimate but not the limit: %v", source, err)
		}
	})
}

func Example_typeMessage() {
	fmt.Println(typeMessage("found no matching overload for '_<_' applied to '(double, string)'"))
	// Output: < does not take (number, string)
}

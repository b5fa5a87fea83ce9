package policy

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"ioguard"
)

func TestDefaultRules(t *testing.T) {
	if _, err := Check(DefaultFS()); err != nil {
		t.Fatal(err)
	}
	results, err := RunTests(DefaultFS())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		for _, f := range r.Failures {
			t.Errorf("%s:%d: %s: at %s\n  exp: %q\n  got: %q", r.File, r.Line, r.Name, f.At, f.Exp, f.Got)
		}
	}
}

// A rule folder has tests with a case in which the rule fires and one in which
// it never does, and nothing else lies in it.
func TestRuleFolders(t *testing.T) {
	entries, err := fs.ReadDir(DefaultFS(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := fs.ReadFile(DefaultFS(), e.Name()+"/"+TestsFile)
		if err != nil {
			t.Error(err)
			continue
		}
		tests, problems := parseTests(e.Name(), data)
		if problems != nil {
			t.Error(problems)
		}
		fires, quiet := 0, 0
		for _, c := range tests {
			n := 0
			for _, x := range c.expect {
				n += len(x.findings)
			}
			if n > 0 {
				fires++
			} else {
				quiet++
			}
		}
		if fires == 0 || quiet == 0 {
			t.Errorf("%s: %d cases fire, %d do not; both are needed", e.Name(), fires, quiet)
		}
		files, err := fs.ReadDir(DefaultFS(), e.Name())
		if err != nil || len(files) != 2 {
			t.Errorf("%s holds %v, %v", e.Name(), files, err)
		}
	}
}

// The built-in rules judge a job by pattern and share first; pressure or harm
// decides the severity, and harm alone makes it critical. iowait is no reason.
func TestDefaultRulesAreFair(t *testing.T) {
	for _, r := range Default().Rules {
		all := r.Conditions()
		for key, sources := range all {
			for _, s := range sources {
				if strings.Contains(s, "pressure.iowait") {
					t.Errorf("%s: %s judges by iowait", r.Code, key)
				}
			}
		}
		if r.Subject != JobSubject {
			continue
		}
		if when := all["when"][0]; !strings.Contains(when, "share.") || !strings.Contains(when, "job.") {
			t.Errorf("%s: when looks at no share or no pattern: %s", r.Code, when)
		}
		if c := all["severity."+string(ioguard.Critical)]; len(c) != 1 || !strings.Contains(c[0], "harm.") {
			t.Errorf("%s: critical without harm: %v", r.Code, c)
		}
		groups := map[string]bool{}
		for _, f := range r.facts {
			groups[f.group] = true
		}
		if len(groups) != len(factGroups) {
			t.Errorf("%s: facts only for %v", r.Code, groups)
		}
		for key, sources := range all {
			for _, source := range sources {
				c, problems := compileNow(source, r.Subject)
				if problems != nil {
					t.Fatal(problems)
				}
				for _, name := range c.numbers {
					if !slices.Contains(r.evidence, name) {
						t.Errorf("%s: %s judges by %s, which is no evidence", r.Code, key, name)
					}
				}
			}
		}
		if r.Keep == (Span{}) || r.For == (Span{}) {
			t.Errorf("%s: for %v, keep %v", r.Code, r.For, r.Keep)
		}
	}
}

// A job whose bytes go to one OST is no storm and a storm is no hot OST: however
// its bytes lie, it is told one thing.
func TestHotOSTOrStorm(t *testing.T) {
	blamed := map[string]int{}
	for _, top := range []float64{0.17, 0.5, 0.79, 0.8, 0.81, 1} {
		for _, peers := range []float64{0, 1, 5} {
			for _, load := range []float64{0, 0.29, 0.3, 1} {
				f := factsOf(t, map[string]any{
					"job.top_ost_share": top, "job.peer_osts": peers, "share.ost": 0.95, "job.small_io_share": 0.0,
					"job.write_bytes_per_second": 3e7, "job.read_bytes_per_second": 3e7, "share.write": 0.95, "share.read": 0.3,
					"job.data_in_flight": 12.0, "harm.ratio": 8.0, "pressure.util": 0.99, "pressure.queue": 9.0,
				})
				if peers > 0 {
					f.Set(MustNumber("job.peer_load"), load)
				}
				tr := NewTracker(Default())
				for i := range 3 {
					tr.Step(epoch.Add(time.Duration(i)*defaultInterval), defaultInterval, []Subject{{Kind: JobSubject, JobID: "1", Facts: f}})
				}
				open := tr.Open()
				if len(open) > 1 {
					t.Errorf("top %v, %v peers, load %v: %s and %s", top, peers, load, open[0].Rule, open[1].Rule)
				}
				if len(open) > 0 {
					blamed[open[0].Rule]++
				}
			}
		}
	}
	if len(blamed) != 2 || blamed["hot-ost"] == 0 || blamed["checkpoint-storm"] == 0 {
		t.Errorf("%v", blamed)
	}
}

// With nothing known no rule fires, and neither does one with all numbers 0.
func TestDefaultRulesNeedProof(t *testing.T) {
	zero := NewFacts()
	for i := range zero.numbers {
		zero.numbers[i] = 0
	}
	for _, f := range []Facts{NewFacts(), zero, {}} {
		tr := NewTracker(Default())
		for i := range 10 {
			var subjects []Subject
			for _, k := range subjectKinds {
				subjects = append(subjects, Subject{Kind: k, JobID: "1", Target: "x", Facts: f})
			}
			if e := tr.Step(epoch.Add(time.Duration(i)*defaultInterval), defaultInterval, subjects); len(e) != 0 || tr.Problems() != nil {
				t.Fatalf("step %d: %+v %v", i, e, tr.Problems())
			}
		}
	}
}

// The tests of the built-in rules bite: no comparison can be made always true or
// always false without a case that fails.
func TestDefaultTestsBite(t *testing.T) {
	for _, r := range Default().Rules {
		data, err := fs.ReadFile(DefaultFS(), r.Code+"/"+TestsFile)
		if err != nil {
			t.Fatal(err)
		}
		tests, problems := parseTests(r.Code, data)
		if problems != nil {
			t.Fatal(problems)
		}
		pass := func(mutant *Rule) bool {
			return !slices.ContainsFunc(tests, func(c ruleTest) bool { return !c.run(mutant, r.Code).Passed })
		}
		try := func(key string, c *condition, set func(*Rule, *condition)) {
			for _, term := range terms(c.source) {
				for _, instead := range []string{"true", "false"} {
					if c.source[term.start:term.end] == instead {
						continue
					}
					source := c.source[:term.start] + instead + c.source[term.end:]
					changed, problems := compileNow(source, r.Subject)
					if problems != nil {
						t.Fatalf("%s: %s: %v", r.Code, source, problems)
					}
					mutant := *r
					if set(&mutant, changed); pass(&mutant) {
						t.Errorf("%s: with %s for %q in %s all tests pass", r.Code, instead, c.source[term.start:term.end], key)
					}
				}
			}
		}
		try("when", r.when, func(r *Rule, c *condition) { r.when = c })
		try("keep_when", r.keepWhen, func(r *Rule, c *condition) { r.keepWhen = c })
		for i, l := range r.levels {
			try("severity "+string(l.severity), l.when, func(r *Rule, c *condition) {
				r.levels = slices.Clone(r.levels)
				r.levels[i].when = c
			})
		}
	}
}

type span struct{ start, end int }

// terms are what && and || join, at every depth, without the brackets around it.
func terms(s string) []span {
	var out []span
	for start := 0; start < len(s); {
		end := len(s)
		for _, op := range []string{"&&", "||"} {
			if i := strings.Index(s[start:], op); i >= 0 {
				end = min(end, start+i)
			}
		}
		term := strings.TrimSpace(s[start:end])
		for strings.HasPrefix(term, "(") && strings.Count(term, "(") > strings.Count(term, ")") {
			term = term[1:]
		}
		for strings.HasSuffix(term, ")") && strings.Count(term, ")") > strings.Count(term, "(") {
			term = term[:len(term)-1]
		}
		at := start + strings.Index(s[start:end], term)
		out = append(out, span{at, at + len(term)})
		start = end + 2
	}
	return out
}

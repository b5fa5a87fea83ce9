package policy

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"cel.dev/cel-go/cel"
	"github.com/google/go-cmp/cmp"

	"ioguard"
)

func mustRule(t testing.TB, lines ...string) *Rule {
	t.Helper()
	r, err := ParseRule("demo.yaml", []byte(with(lines...)))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// steps feeds a tracker one letter per step of 5 s for job 1: t true, T true
// and harmful, k only keep_when, f false, . absent, e exempt. It gives the
// events as words: "10s opened warning 0s-".
func steps(t *testing.T, r *Rule, letters string) []string {
	t.Helper()
	tr := NewTracker(&Policy{Rules: []*Rule{r}})
	var out []string
	for i, c := range letters {
		now := epoch.Add(time.Duration(i+1) * 5 * time.Second)
		f := factsOf(t, map[string]any{"share.write": 0.0, "harm.ratio": 1.0})
		switch c {
		case 'T':
			f.Set(MustNumber("harm.ratio"), 3)
			fallthrough
		case 't', 'e':
			f.Set(MustNumber("share.write"), 0.6)
		case 'k':
			f.Set(MustNumber("share.write"), 0.3)
		}
		if c == 'e' {
			f.SetText(MustText("job.user"), "root")
		}
		subjects := []Subject{{Kind: JobSubject, JobID: "1", Facts: f}}
		if c == '.' {
			subjects = nil
		}
		for _, e := range tr.Step(now, 5*time.Second, subjects) {
			end := ""
			if !e.Finding.End.IsZero() {
				end = e.Finding.End.Sub(epoch).String()
			}
			out = append(out, fmt.Sprintf("%v %s %s %v-%s", now.Sub(epoch), e.Kind, e.Finding.Severity, e.Finding.Start.Sub(epoch), end))
		}
		if err := tr.Problems(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

var epoch = time.Unix(1000000, 0)

func TestTrackerLife(t *testing.T) {
	levels := "severity:\n  warning: \"true\"\n  critical: harm.ratio >= 2"
	for _, tt := range []struct {
		name    string
		rule    []string
		letters string
		want    []string
	}{
		{"opens and closes at once", nil, "ft.", []string{"10s opened warning 5s-", "15s closed warning 5s-10s"}},
		{"one interval of 5 s is 4 s", []string{"for: 4s"}, "ft", []string{"10s opened warning 5s-"}},
		{"6 s are two intervals", []string{"for: 6s"}, "fttt", []string{"15s opened warning 5s-"}},
		{"three samples in a row", []string{"for: 3 samples"}, "tftttf", []string{"25s opened warning 10s-", "30s closed warning 10s-25s"}},
		{"an interruption starts anew", []string{"for: 2 samples"}, "tftftf", nil},
		{"keep in samples", []string{"keep: 3 samples"}, "tffftff", []string{"5s opened warning 0s-", "20s closed warning 0s-5s", "25s opened warning 20s-"}},
		{"keep in time bridges gaps", []string{"keep: 10s"}, "tft.tff", []string{"5s opened warning 0s-", "35s closed warning 0s-25s"}},
		{"absent counts as false", []string{"keep: 2 samples"}, "t..", []string{"5s opened warning 0s-", "15s closed warning 0s-5s"}},
		{"keep_when holds but does not open", []string{"keep_when: share.write >= 0.2", "keep: 2 samples"}, "ktkkkff", []string{"10s opened warning 5s-", "35s closed warning 5s-25s"}},
		{"severity rises and stays", []string{levels}, "tTttf", []string{"5s opened warning 0s-", "10s updated critical 0s-", "25s closed critical 0s-20s"}},
		{"the worst of the pending time", []string{levels, "for: 3 samples"}, "tTt", []string{"15s opened critical 0s-"}},
		{"no level holds", []string{"severity:\n  critical: harm.ratio >= 2"}, "tT", []string{"10s opened critical 5s-"}},
		{"exempt", []string{"exempt: job.user == \"root\"", "keep: 1 sample"}, "etet", []string{"10s opened warning 5s-", "15s closed warning 5s-10s", "20s opened warning 15s-"}},
	} {
		if diff := cmp.Diff(tt.want, steps(t, mustRule(t, tt.rule...), tt.letters)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestFindingIsProved(t *testing.T) {
	r := mustRule(t, "action: throttle", "severity:\n  warning: pressure.psi >= 0 || share.write > 0\n  critical: harm.ratio >= 2",
		"facts:\n  pattern: writes {{job.write_bytes_per_second}}\n  share: '{{share.write}} of it'\n  pressure: psi {{pressure.psi}}",
		"advice: write less than {{job.write_bytes_per_second}}, {{job.user}}")
	tr := NewTracker(&Policy{Rules: []*Rule{r}})
	f := factsOf(t, map[string]any{"share.write": 0.756, "job.write_bytes_per_second": 1.5 * 1024 * 1024, "job.user": "a\x1b[31m", "harm.ratio": math.Inf(1)})
	events := tr.Step(epoch, 5*time.Second, []Subject{{Kind: JobSubject, FS: "lustre", JobID: "4711", Server: "oss1", Inferred: true, Facts: f}})
	want := []Event{{Opened, ioguard.Finding{
		Rule: "demo", Title: "demo", Subject: "job", JobID: "4711", FS: "lustre", Server: "oss1",
		Severity: ioguard.Critical, Action: "throttle", Start: epoch.Add(-5 * time.Second),
		Evidence: map[string]float64{"share.write": 0.756}, // neither the unknown nor the infinite: JSON has no word for them
		Facts:    []string{"pattern: writes 1.5 MiB/s", "share: 76% of it"},
		Advice:   `write less than 1.5 MiB/s, a\x1B[31m`, Inferred: true,
	}}}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]ioguard.Finding{want[0].Finding}, tr.Open()); diff != "" {
		t.Error(diff)
	}
}

// What is not known when a finding opens is filled in when it is, with one event.
func TestFindingLearns(t *testing.T) {
	r := mustRule(t, "severity:\n  warning: \"true\"\n  critical: harm.ratio >= 2", "keep: 2 samples", "for: 2 samples",
		"evidence: [share.write, job.period_seconds, job.bursts, job.osts, harm.ratio]",
		"facts:\n  pattern:\n  - a burst every {{job.period_seconds}}, {{job.bursts | plural burst}} so far\n  - to {{job.osts | plural OST}} at {{share.write}}\n  share: \"{{share.write}} of it\"")
	tr := NewTracker(&Policy{Rules: []*Rule{r}})
	unknown := math.NaN()
	type step struct {
		share, period, bursts, osts, harm float64
		event                             string
		evidence                          map[string]float64
		facts                             []string
	}
	opened := map[string]float64{"share.write": 0.6, "job.bursts": 1}
	evidence := func(more map[string]float64) map[string]float64 {
		m := maps.Clone(opened)
		maps.Copy(m, more)
		return m
	}
	var kept []Event
	for i, s := range []step{
		{0.6, unknown, 1, unknown, unknown, "", nil, nil},
		// the values that first proved it stay
		{0.7, unknown, 1, unknown, unknown, "opened warning", opened, []string{"share: 60% of it"}},
		{0.8, unknown, 2, unknown, unknown, "", evidence(map[string]float64{"job.bursts": 2}), []string{"share: 60% of it"}},
		{0.9, 25, 3, unknown, unknown, "updated warning", evidence(map[string]float64{"job.bursts": 3, "job.period_seconds": 25}),
			[]string{"pattern: a burst every 25 s, 3 bursts so far", "share: 60% of it"}},
		// what runs on is the latest, without an event; a sentence is of one moment
		{0.9, 24, 4, 1, unknown, "updated warning", evidence(map[string]float64{"job.bursts": 4, "job.period_seconds": 24, "job.osts": 1}),
			[]string{"pattern: a burst every 24 s, 4 bursts so far", "pattern: to 1 OST at 90%", "share: 60% of it"}},
		{0.9, unknown, 5, 7, unknown, "", evidence(map[string]float64{"job.bursts": 5, "job.period_seconds": 24, "job.osts": 1}),
			[]string{"pattern: a burst every 24 s, 4 bursts so far", "pattern: to 1 OST at 90%", "share: 60% of it"}},
		// a worse moment brings its own values; what it does not tell is kept
		{0.75, unknown, 6, 2, 3, "updated critical", map[string]float64{"share.write": 0.75, "job.bursts": 6, "job.period_seconds": 24, "job.osts": 2, "harm.ratio": 3},
			[]string{"pattern: a burst every 24 s, 4 bursts so far", "pattern: to 2 OSTs at 75%", "share: 75% of it"}},
		{0.75, 26, 7, 2, unknown, "", map[string]float64{"share.write": 0.75, "job.bursts": 7, "job.period_seconds": 26, "job.osts": 2, "harm.ratio": 3},
			[]string{"pattern: a burst every 26 s, 7 bursts so far", "pattern: to 2 OSTs at 75%", "share: 75% of it"}},
		{0, unknown, 7, unknown, unknown, "", map[string]float64{"share.write": 0.75, "job.bursts": 7, "job.period_seconds": 26, "job.osts": 2, "harm.ratio": 3},
			[]string{"pattern: a burst every 26 s, 7 bursts so far", "pattern: to 2 OSTs at 75%", "share: 75% of it"}},
		{0, unknown, 7, unknown, unknown, "closed critical", map[string]float64{"share.write": 0.75, "job.bursts": 7, "job.period_seconds": 26, "job.osts": 2, "harm.ratio": 3},
			[]string{"pattern: a burst every 26 s, 7 bursts so far", "pattern: to 2 OSTs at 75%", "share: 75% of it"}},
	} {
		f := factsOf(t, map[string]any{"share.write": s.share, "job.period_seconds": s.period, "job.bursts": s.bursts, "job.osts": s.osts, "harm.ratio": s.harm})
		events := tr.Step(epoch.Add(time.Duration(i)*5*time.Second), 5*time.Second, []Subject{{Kind: JobSubject, JobID: "1", Facts: f}})
		got := ""
		now := tr.Open()
		for _, e := range events {
			got = string(e.Kind) + " " + string(e.Finding.Severity)
			now = []ioguard.Finding{e.Finding}
		}
		if got != s.event || len(events) > 1 {
			t.Errorf("step %d: %q, want %q", i, got, s.event)
		}
		if len(now) != min(1, len(s.evidence)) {
			t.Fatalf("step %d: %d findings", i, len(now))
		}
		if len(now) == 1 {
			if diff := cmp.Diff(s.evidence, now[0].Evidence); diff != "" {
				t.Errorf("step %d: %s", i, diff)
			}
			if diff := cmp.Diff(s.facts, now[0].Facts); diff != "" {
				t.Errorf("step %d: %s", i, diff)
			}
		}
		kept = append(kept, events...)
	}
	// an event is the caller's: later steps do not change it
	if first := kept[0].Finding; !maps.Equal(first.Evidence, opened) || len(first.Facts) != 1 {
		t.Errorf("the first event has become %+v", first)
	}
}

func TestSubjectsAreApart(t *testing.T) {
	tr := NewTracker(&Policy{Rules: []*Rule{mustRule(t)}})
	yes := factsOf(t, map[string]any{"share.write": 0.9})
	events := tr.Step(epoch, time.Second, []Subject{
		{Kind: JobSubject, FS: "a", JobID: "1", Facts: yes},
		{Kind: JobSubject, FS: "b", JobID: "1", Facts: yes},
		{Kind: JobSubject, FS: "a", JobID: "2", Facts: NewFacts()},
		{Kind: OSTSubject, FS: "a", Target: "1", Facts: yes},
		{Kind: JobSubject, FS: "a", JobID: "1", Facts: yes}, // twice in a step
		{Kind: JobSubject, FS: "a", JobID: "3"},             // no facts at all
	})
	if len(events) != 2 || events[0].Finding.FS != "a" || events[1].Finding.FS != "b" {
		t.Errorf("%+v", events)
	}
}

func TestStateIsDroppedWhenClear(t *testing.T) {
	tr := NewTracker(&Policy{Rules: []*Rule{mustRule(t, "for: 2 samples", "keep: 2 samples")}})
	yes := factsOf(t, map[string]any{"share.write": 0.9})
	for i := range 1000 {
		tr.Step(epoch.Add(time.Duration(i)*time.Second), time.Second, []Subject{{Kind: JobSubject, JobID: fmt.Sprint(i), Facts: yes}})
		if len(tr.states) > 2 {
			t.Fatalf("%d states after %d jobs", len(tr.states), i)
		}
	}
	tr.Step(epoch.Add(time.Hour), time.Second, nil)
	if len(tr.states) != 0 {
		t.Errorf("%d states left", len(tr.states))
	}
}

// A hole between steps is no proof that the condition held all the time.
func TestHoleRestartsPending(t *testing.T) {
	tr := NewTracker(&Policy{Rules: []*Rule{mustRule(t, "for: 8s")}})
	s := []Subject{{Kind: JobSubject, JobID: "1", Facts: factsOf(t, map[string]any{"share.write": 0.9})}}
	for _, tt := range []struct {
		at   time.Duration
		open int
	}{{5 * time.Second, 0}, {time.Hour, 0}, {time.Hour + 5*time.Second, 1}} {
		if got := len(tr.Step(epoch.Add(tt.at), 5*time.Second, s)); got != tt.open {
			t.Errorf("at %v: %d events, want %d", tt.at, got, tt.open)
		}
	}
}

func TestClockSetBack(t *testing.T) {
	tr := NewTracker(&Policy{Rules: []*Rule{mustRule(t, "keep: 10s")}})
	s := []Subject{{Kind: JobSubject, JobID: "1", Facts: factsOf(t, map[string]any{"share.write": 0.9})}}
	tr.Step(epoch.Add(time.Hour), 5*time.Second, s)
	tr.Step(epoch, 5*time.Second, nil)
	if e := tr.Step(epoch.Add(10*time.Second), 5*time.Second, nil); len(e) != 1 || e[0].Kind != Closed {
		t.Errorf("%+v", e)
	}
}

// A rule that cannot be evaluated is reported once per step and does not stop
// the others.
func TestEvaluationError(t *testing.T) {
	bad, good := mustRule(t), mustRule(t, "code: good")
	language, err := language()
	if err != nil {
		t.Fatal(err)
	}
	checked, issues := language.Compile("job.user.contains('b') || job.user.contains('c')")
	if issues.Err() != nil {
		t.Fatal(issues.Err())
	}
	p, err := plan(language, checked, cel.CostLimit(3))
	if err != nil {
		t.Fatal(err)
	}
	bad.when = &condition{source: "x", program: compiled(p)}
	tr := NewTracker(&Policy{Rules: []*Rule{bad, good}})
	f := factsOf(t, map[string]any{"share.write": 0.9, "job.user": strings.Repeat("a", 200)})
	events := tr.Step(epoch, time.Second, []Subject{
		{Kind: JobSubject, JobID: "1", Facts: f}, {Kind: JobSubject, JobID: "2", Facts: f}})
	if len(events) != 2 || len(tr.Problems()) != 1 || !costExceeded(tr.Problems()[0]) {
		t.Errorf("%d events, problems %v", len(events), tr.Problems())
	}
	if tr.Step(epoch.Add(time.Second), time.Second, nil); tr.Problems() != nil {
		t.Errorf("problems of an earlier step: %v", tr.Problems())
	}
}

func BenchmarkLoadDefault(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := loadWith(DefaultFS(), compileLater); err != nil {
			b.Fatal(err)
		}
	}
}

// Findings that stay open: every job is an offender.
func BenchmarkStepOpen(b *testing.B) {
	subjects := make([]Subject, 1000)
	for i := range subjects {
		subjects[i] = Subject{Kind: JobSubject, JobID: fmt.Sprint(i), Facts: factsOf(b, recorded["checkpoint-storm"])}
		for name, v := range map[string]float64{"job.small_io_share": 0, "job.top_ost_share": 0.3} {
			subjects[i].Facts.Set(MustNumber(name), v)
		}
	}
	tr := NewTracker(Default())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tr.Step(epoch.Add(time.Duration(i)*time.Second), time.Second, subjects)
	}
	if n := len(tr.Open()); n != len(subjects) {
		b.Errorf("%d open", n)
	}
}

func BenchmarkStep(b *testing.B) {
	subjects := make([]Subject, 1000)
	for i := range subjects {
		subjects[i] = Subject{Kind: JobSubject, JobID: fmt.Sprint(i), Facts: factsOf(b, map[string]any{
			"share.write": 0.6, "share.read": 0.6, "job.write_bytes_per_second": 5e6, "job.read_bytes_per_second": 5e6,
			"job.create_per_second": 10.0, "job.unlink_per_second": 10.0, "share.create": 0.6, "job.burst_ratio": 3.0,
		})}
	}
	tr := NewTracker(Default())
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		tr.Step(epoch.Add(time.Duration(i)*time.Second), time.Second, subjects)
	}
}

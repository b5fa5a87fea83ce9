package policy

import (
	"flag"
	"math"
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

var update = flag.Bool("update", false, "write docs/policy-vars.md and testdata/rendered.golden")

func TestVarsTable(t *testing.T) {
	units := map[Unit]bool{NoUnit: true}
	for _, u := range formats {
		units[u] = true
	}
	seen := map[string]bool{}
	for _, v := range Vars() {
		group, rest, dotted := strings.Cut(v.Name, ".")
		if seen[v.Name] || !dotted || group == "" || rest == "" || strings.ToLower(v.Name) != v.Name {
			t.Errorf("name %q", v.Name)
		}
		seen[v.Name] = true
		if v.Doc == "" || strings.Contains(v.Doc, "|") || strings.HasSuffix(v.Doc, ".") || len(v.Subjects) == 0 || !units[v.Unit] {
			t.Errorf("%s: incomplete row %+v", v.Name, v)
		}
		switch v.Type {
		case Double, Int, Bool, String:
		default:
			t.Errorf("%s: type %q", v.Name, v.Type)
		}
		if suffix := map[Unit]string{PerSecond: "_per_second", BytesPerSecond: "_bytes_per_second"}[v.Unit]; !strings.HasSuffix(v.Name, suffix) {
			t.Errorf("%s has unit %s", v.Name, v.Unit)
		}
		_, isNumber := NumberVar(v.Name)
		_, isText := TextVar(v.Name)
		if isNumber == isText || isText != (v.Type == String) {
			t.Errorf("%s: number %v, text %v", v.Name, isNumber, isText)
		}
	}
}

func TestVarsPageIsCurrent(t *testing.T) {
	const page = "../docs/policy-vars.md"
	if *update {
		if err := os.WriteFile(page, []byte(VarsMarkdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != VarsMarkdown() {
		t.Errorf("%s is not what the table says; run: go test ./policy -run TestVarsPage -update", page)
	}
}

func TestFacts(t *testing.T) {
	f := NewFacts()
	for _, v := range Vars() {
		if id, ok := NumberVar(v.Name); ok && !math.IsNaN(f.Number(id)) {
			t.Errorf("%s is known", v.Name)
		}
	}
	f.Set(MustNumber("job.osts"), 3)
	f.SetText(MustText("job.user"), strings.Repeat("ö", 200))
	if s := f.Text(MustText("job.user")); len(s) > maxText || !utf8.ValidString(s) || len(s) < maxText-1 {
		t.Errorf("%d bytes", len(s))
	}
	c := f.Clone()
	f.Reset()
	if !math.IsNaN(f.Number(MustNumber("job.osts"))) || f.Text(MustText("job.user")) != "" || c.Number(MustNumber("job.osts")) != 3 {
		t.Error("reset and clone are not apart")
	}
	var zero Facts
	if !math.IsNaN(zero.Number(MustNumber("job.osts"))) || zero.Text(MustText("job.user")) != "" {
		t.Error("facts that were never made are not unknown")
	}
}

func TestFormatNumber(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		unit Unit
		want string
	}{
		{0, Bytes, "0 B"}, {512, Bytes, "512 B"}, {1023.7, Bytes, "1 KiB"}, {4096, Bytes, "4 KiB"}, {1.5 * 1024 * 1024, Bytes, "1.5 MiB"},
		{1 << 60, Bytes, "1 EiB"}, {20971520, BytesPerSecond, "20 MiB/s"},
		{83.4, PerSecond, "83/s"}, {0.5, PerSecond, "0.5/s"}, {0.004, PerSecond, "0.004/s"}, {9.97, PerSecond, "10/s"}, {12345678, PerSecond, "12345678/s"},
		{0.834, Fraction, "83%"}, {0.006, Fraction, "0.6%"}, {1, Fraction, "100%"}, {0.9949, Fraction, "99%"}, {0.998, Fraction, "99.8%"}, {0.9997, Fraction, "100%"}, {1.2, Fraction, "120%"},
		{4, Seconds, "4 s"}, {600, Seconds, "10 min"}, {10800, Seconds, "3 h"}, {864000, Seconds, "10 days"},
		{350, Microseconds, "350 us"}, {12000, Microseconds, "12 ms"}, {1.2e6, Microseconds, "1.2 s"},
		{3.21, Ratio, "3.2x"}, {1, Ratio, "1.0x"}, {0, Ratio, "0.0x"}, {9.96, Ratio, "10x"}, {0.03, Ratio, "0.03x"}, {7, Count, "7"}, {-3, NoUnit, "-3"},
		{math.NaN(), Bytes, "unknown"}, {math.Inf(1), Ratio, "unbounded"},
	} {
		if got := FormatNumber(tt.v, tt.unit); got != tt.want {
			t.Errorf("%v in %s: %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}

func TestPlural(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		want string
	}{
		{0, "0 slow OSTs"}, {1, "1 slow OST"}, {1.04, "1 slow OST"}, {0.5, "0.5 slow OSTs"}, {2, "2 slow OSTs"}, {math.NaN(), "unknown"},
	} {
		tmpl, errs := parseTemplate("{{job.osts | plural slow OST}}", JobSubject)
		if errs != nil {
			t.Fatal(errs)
		}
		if got, known := tmpl.render(factsOf(t, map[string]any{"job.osts": tt.v})); got != tt.want || known == math.IsNaN(tt.v) {
			t.Errorf("%v: %q, %v", tt.v, got, known)
		}
	}
	for _, bad := range []string{"{{job.osts | plural}}", "{{job.osts | plural }}", "{{job.user | plural x}}", "{{job.osts | plurals x}}"} {
		if _, errs := parseTemplate(bad, JobSubject); len(errs) != 1 || errs[0].hint == "" {
			t.Errorf("%s: %+v", bad, errs)
		}
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add("a {{job.user}} b {{ job.mean_write_bytes | bytes }}")
	f.Add("{{}}{{|}}{{{{}}}} {{")
	facts := NewFacts()
	f.Fuzz(func(t *testing.T, s string) {
		tmpl, errs := parseTemplate(s, JobSubject)
		text, _ := tmpl.render(facts)
		if len(errs) == 0 && !strings.Contains(s, "{{") && text != s {
			t.Errorf("%q became %q", s, text)
		}
		for _, e := range errs {
			if e.offset < 0 || e.offset > utf8.RuneCountInString(s) || e.message == "" {
				t.Errorf("%q: %+v", s, e)
			}
		}
	})
}

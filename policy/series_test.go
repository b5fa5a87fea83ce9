package policy

import (
	"fmt"
	"strings"
	"testing"
)

func show(vs []value) string {
	var words []string
	for _, v := range vs {
		switch {
		case v.kind == stale:
			words = append(words, "stale")
		case v.kind == unknown:
			words = append(words, "_")
		case v.text != "":
			words = append(words, "'"+v.text+"'")
		default:
			words = append(words, fmt.Sprint(v.number))
		}
	}
	return strings.Join(words, " ")
}

func TestParseValues(t *testing.T) {
	for _, tt := range []struct {
		in     string
		isText bool
		want   string
	}{
		{"0+10x5 _x3 stale", false, "0 10 20 30 40 50 _ _ _ stale"},
		{"5-1x2", false, "5 4 3"},
		{"-2+4x1", false, "-2 2"},
		{"1e3-1e-1x1 1e-3", false, "1000 999.9 0.001"},
		{"7x2  _ \n 0.5", false, "7 7 7 _ 0.5"},
		{"3x0 _x0", false, "3"},
		{`"alice"x1 _ "b x2" stale`, true, `'alice' 'alice' _ 'b x2' stale`},
	} {
		got, err := parseValues(tt.in, tt.isText)
		if err != nil || show(got) != tt.want {
			t.Errorf("%s: got %s, %v; want %s", tt.in, show(got), err, tt.want)
		}
	}
	for _, tt := range []struct {
		in     string
		isText bool
		says   string
	}{
		{"", false, "no values"},
		{"abc", false, `"abc" is no number`},
		{"1+x3", false, "is no number"},
		{"1x", false, "repeats"},
		{"1x-1", false, "repeats"},
		{"1x99999999", false, "repeats"},
		{"_xx", false, "repeats"},
		{"1x9999 1x9999", false, "more than 10000 values"},
		{"NaN", false, "is no number"},
		{"+Inf", false, "is no number"},
		{`"a"`, false, "is a number"},
		{"a", true, "in double quotes"},
		{`"a`, true, "closing quote"},
		{`"a"y3`, true, `"y3" after`},
	} {
		if got, err := parseValues(tt.in, tt.isText); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %s, %v; want %s", tt.in, show(got), err, tt.says)
		}
	}
}

func TestParseSeries(t *testing.T) {
	name, s, err := parseSeries(`pressure.cpu{ server="oss1" , job="a,b}\"c", fs="lustre" }`)
	if err != nil || name != "pressure.cpu" || s.Kind != JobSubject || s.JobID != `a,b}"c` || s.Server != "oss1" || s.FS != "lustre" || s.Target != "" {
		t.Errorf("%s %+v %v", name, s, err)
	}
	if _, s, err := parseSeries(`ost.used{ost="lustre-OST0001"}`); err != nil || s.Kind != OSTSubject || s.Target != "lustre-OST0001" {
		t.Errorf("%+v %v", s, err)
	}
	for in, says := range map[string]string{
		"job.osts":                  "write variable{",
		"job.osts{}":                "whom it is about",
		`job.osts{fs="a"}`:          "whom it is about",
		`job.osts{jbo="a"}`:         `no such label: "jbo"`,
		`job.osts{job=a}`:           "double quotes",
		`job.osts{job="a" "b"}`:     "after job",
		`job.osts{job="a",job="b"}`: "twice",
		`job.osts{job="a"`:          "write variable{",
	} {
		if _, _, err := parseSeries(in); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", in, err, says)
		}
	}
}

func FuzzSeries(f *testing.F) {
	f.Add("0+10x5 _x3 stale", `job.osts{job="1"}`)
	f.Add(`"alice"x1 _`, `ost.used{ost="a",fs="b"}`)
	f.Add("1e3-1e-1x1", "{}")
	f.Fuzz(func(t *testing.T, values, series string) {
		for _, isText := range []bool{false, true} {
			v, err := parseValues(values, isText)
			if err == nil && (len(v) == 0 && !strings.Contains(values, "x0") || len(v) > maxValues) {
				t.Errorf("%q: %d values", values, len(v))
			}
		}
		if _, s, err := parseSeries(series); err == nil && s.Kind == "" {
			t.Errorf("%q: no subject", series)
		}
	})
}

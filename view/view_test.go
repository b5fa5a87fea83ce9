package view

import (
	"encoding/csv"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"4711":                               "4711",
		"cp.1000@node-1:/x_y":                "cp.1000@node-1:/x_y",
		"überlauf 数据 é́ 😀":                   "überlauf 数据 é́ 😀",
		"a\nb\tc\r\x00":                      `a\x0Ab\x09c\x0D\x00`,
		"\x1b[31mred\x1b]0;title\a":          `\x1B[31mred\x1B]0;title\x07`,
		"\x7f\u0080\u009b31m\u0085":          `\x7F\u{80}\u{9B}31m\u{85}`,
		"\xff\xc3(\xed\xa0\x80\xc0\x80":      `\xFF\xC3(\xED\xA0\x80\xC0\x80`,
		"user\u202egnp.exe\u2066\u2069":      `user\u{202E}gnp.exe\u{2066}\u{2069}`,
		"a\u200bb\u200d\ufeff\u2060\u00ad":   `a\u{200B}b\u{200D}\u{FEFF}\u{2060}\u{AD}`,
		"\u2028\u2029\u00a0\u3000":           `\u{2028}\u{2029}\u{A0}\u{3000}`,
		"\u3164\u115f\ufe0f\U000e0001\u034f": `\u{3164}\u{115F}\u{FE0F}\u{E0001}\u{34F}`,
		"\U0010ffff\ue000\ufffe\ufffd":       `\u{10FFFF}\u{E000}\u{FFFE}` + "\ufffd",
		`back\slash \x1b`:                    `back\slash \x1b`,
	} {
		if got := Safe(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestSafeDoesNotAllocate(t *testing.T) {
	for _, s := range []string{"cp.1000@node-1", "数据 überlauf"} {
		if n := testing.AllocsPerRun(100, func() { Safe(s) }); n != 0 {
			t.Errorf("%q: %v allocations", s, n)
		}
	}
}

// harmless fails on anything that a terminal would act on.
func harmless(t *testing.T, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Fatalf("%q is no UTF-8", s)
	}
	for _, r := range s {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
			t.Fatalf("%U in %q", r, s)
		}
	}
}

func FuzzSafe(f *testing.F) {
	for _, s := range []string{"", "4711", "\x1b[2J", "\u202e", "\xff\xfe", "a\u200db", "数\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		safe := Safe(s)
		harmless(t, safe)
		if again := Safe(safe); again != safe {
			t.Fatalf("%q becomes %q and then %q", s, safe, again)
		}
		if unsafeIndex(s) < 0 && safe != s {
			t.Fatalf("%q changed to %q without need", s, safe)
		}
	})
}

func TestNumbers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		name string
		f    func(float64) string
		want map[float64]string
	}{
		{"Bytes", Bytes, map[float64]string{
			0: "0", 1: "1", 0.4: "0", 999: "999", 1000: "0.98K", 1023: "1.00K", 1024: "1.00K", 1536: "1.50K",
			10 * 1024: "10.0K", 100 * 1024: "100K", 999.4 * 1024: "999K", 1000 * 1024: "0.98M", 1 << 30: "1.00G",
			1.5 * (1 << 40): "1.50T", 1 << 60: "1.00E", 1e24: "867362E", -2048: "-2.00K", inf: "inf", -inf: "-inf",
		}},
		{"Count", Count, map[float64]string{
			0: "0", 0.25: "0.2", 0.35: "0.3", 3: "3", 9.96: "10", 12.3: "12", 999: "999", 999.6: "1.00k", 12345: "12.3k",
			1e6: "1.00M", 99_960: "100k", 1e20: "100E", -5: "-5", -12345: "-12.3k",
		}},
		{"Percent", Percent, map[float64]string{
			0: "0%", 0.0001: "<0.1%", 0.001: "0.1%", 0.123: "12.3%", 0.9994: "99.9%", 0.9996: "100%", 1: "100%", 2.5: "250%",
			-0.5: "-50.0%", inf: "inf",
		}},
		{"Usec", Usec, map[float64]string{
			0: "0us", 0.6: "1us", 850: "850us", 999.6: "1.00ms", 23_000: "23.0ms", 999_400: "999ms", 1_200_000: "1.20s",
			59_940_000: "59.9s", 90e6: "1m30s", 1e30: "inf", -850: "-850us",
		}},
	} {
		for in, want := range tt.want {
			if got := tt.f(in); got != want {
				t.Errorf("%s(%v) = %s, want %s", tt.name, in, got, want)
			}
		}
		if got := tt.f(nan); got != Unknown {
			t.Errorf("%s(NaN) = %s", tt.name, got)
		}
	}
}

func TestDuration(t *testing.T) {
	for in, want := range map[time.Duration]string{
		0: "0s", 400 * time.Microsecond: "0ms", 850 * time.Millisecond: "850ms", 999900 * time.Microsecond: "1s",
		45 * time.Second: "45s", 59600 * time.Millisecond: "1m00s", 90 * time.Second: "1m30s", 125 * time.Minute: "2h05m",
		76 * time.Hour: "3d04h", -90 * time.Second: "-1m30s", math.MaxInt64: "106751d23h", math.MinInt64: "-106751d23h",
	} {
		if got := Duration(in); got != want {
			t.Errorf("%d: got %s, want %s", in, got, want)
		}
	}
}

// FuzzNumbers: columns stay narrow whatever the number.
func FuzzNumbers(f *testing.F) {
	for _, v := range []float64{0, 999.5, 1023.99, 1e-300, -1e300, math.Inf(1), 9.995, 99.95, 999.4999} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, v float64) {
		for _, s := range []string{Bytes(v), Count(v), Usec(v), Percent(v)} {
			if s == "" || (math.Abs(v) < 1e6 && len(s) > 11) {
				t.Errorf("%v is written %q", v, s)
			}
		}
		if s := Bytes(v); math.Abs(v) < 1e18 && len(strings.TrimPrefix(s, "-")) > 5 {
			t.Errorf("%v bytes are written %q", v, s)
		}
		Duration(time.Duration(v))
	})
}

func jobs() *Table {
	return &Table{
		Header: []Column{{Name: "JOB"}, {Name: "NAME", Flex: true}, {Name: "WRITE/s", Right: true}, {Name: "OPS/s", Right: true}},
		Rows: [][]string{
			{"4711", "simulation", "1.50G", "12.3k"},
			{"cp.1000", "数据处理 and a name that goes on until nobody can see where it ends any more", "0", "3"},
			{"x\x1b[31m", "a\nb\u202ec", "12.0M"},
			{"9", "", "-", "-", "surplus"},
		},
	}
}

func TestWrite(t *testing.T) {
	for limit, want := range map[int]string{
		0: `JOB        NAME                                                  WRITE/s  OPS/s
4711       simulation                                              1.50G  12.3k
cp.1000    数据处理 and a name that goes on until nobody can s~        0      3
x\x1B[31m  a\x0Ab\u{202E}c                                         12.0M
9                                                                      -      -
`,
		46: `JOB        NAME                 WRITE/s  OPS/s
4711       simulation             1.50G  12.3k
cp.1000    数据处理 and a nam~        0      3
x\x1B[31m  a\x0Ab\u{202E}c        12.0M
9                                     -      -
`,
		1: `JOB        NAME      WRITE/s  OPS/s
4711       simulat~    1.50G  12.3k
cp.1000    数据处~         0      3
x\x1B[31m  a\x0Ab\~    12.0M
9                          -      -
`,
	} {
		var b strings.Builder
		if err := jobs().Write(&b, limit); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Errorf("width %d:\n%s", limit, d)
		}
		widest := 0
		for line := range strings.Lines(b.String()) {
			widest = max(widest, cellWidth(strings.TrimSuffix(line, "\n")))
		}
		if most := map[int]int{0: 79, 46: 46, 1: 35}[limit]; widest != most {
			t.Errorf("width %d: lines of %d, want %d", limit, widest, most)
		}
	}
}

func TestEmptyTables(t *testing.T) {
	for _, table := range []*Table{{}, {Rows: [][]string{{"a"}, nil}}} {
		var b strings.Builder
		if err := table.Write(&b, 10); err != nil || strings.Trim(b.String(), "\n") != "" {
			t.Errorf("%+v: %q, %v", table, b.String(), err)
		}
	}
	var b strings.Builder
	if err := (&Table{Header: []Column{{Name: "JOB"}}}).Write(&b, 0); err != nil || b.String() != "JOB\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestWriteCSV(t *testing.T) {
	table := jobs()
	table.Rows = append(table.Rows, []string{`=cmd|"x"`, "a,b\r\nc\rd", "\xff", " "})
	var b strings.Builder
	if err := table.WriteCSV(&b); err != nil {
		t.Fatal(err)
	}
	want := "JOB,NAME,WRITE/s,OPS/s\n4711,simulation,1.50G,12.3k\n"
	if got := b.String(); !strings.HasPrefix(got, want) {
		t.Errorf("got %q", got)
	}
	if last := "\"=cmd|\"\"x\"\"\",\"a,b\r\nc\rd\",\xff,\" \"\n"; !strings.HasSuffix(b.String(), last) {
		t.Errorf("got %q, want it to end in %q", b.String(), last)
	}
	rows, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil || len(rows) != 6 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrors(t *testing.T) {
	if err := jobs().Write(brokenWriter{}, 0); !errors.Is(err, errBroken) {
		t.Errorf("Write: %v", err)
	}
	if err := jobs().WriteCSV(brokenWriter{}); !errors.Is(err, errBroken) {
		t.Errorf("WriteCSV: %v", err)
	}
}

func FuzzWrite(f *testing.F) {
	f.Add("4711", "name", 20)
	f.Add("数", "\x1b[31m\u202e", 1)
	f.Add("", "a\u0301\u0301", -1)
	f.Fuzz(func(t *testing.T, a, b string, limit int) {
		table := Table{Header: []Column{{Name: "A", Right: true}, {Name: "B", Flex: true}}, Rows: [][]string{{a, b}, {b}}}
		var out strings.Builder
		if err := table.Write(&out, limit%200); err != nil {
			t.Fatal(err)
		}
		text, ok := strings.CutSuffix(out.String(), "\n")
		if !ok || strings.Count(text, "\n") != 2 {
			t.Fatalf("not three lines: %q", text)
		}
		harmless(t, strings.ReplaceAll(text, "\n", ""))
	})
}

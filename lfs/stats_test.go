package lfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const hasAll = HasMin | HasMax | HasSum | HasSumSq

func TestParseStatsLines(t *testing.T) {
	for _, tc := range []struct {
		line string
		want []Counter
		odd  string // Why of the one line that is not understood
	}{
		{line: "statfs                    35359 samples [reqs]",
			want: []Counter{{Name: "statfs", Unit: "reqs", Samples: 35359}}},
		{line: "write_bytes               4298 samples [bytes] 4096 4194304 16552048",
			want: []Counter{{Name: "write_bytes", Unit: "bytes", Has: HasMin | HasMax | HasSum, Samples: 4298, Min: 4096, Max: 4194304, Sum: 16552048}}},
		{line: "read_bytes                20 samples [bytes] 1048576 1048576 20971520 21990232555520",
			want: []Counter{{Name: "read_bytes", Unit: "bytes", Has: hasAll, Samples: 20, Min: 1048576, Max: 1048576, Sum: 20971520, SumSq: 21990232555520}}},
		{line: "a_name_of_more_than_twenty_five_bytes 1 samples [usecs] 2 3 4 5",
			want: []Counter{{Name: "a_name_of_more_than_twenty_five_bytes", Unit: "usecs", Has: hasAll, Samples: 1, Min: 2, Max: 3, Sum: 4, SumSq: 5}}},
		{line: "name with blanks          7 samples [locks/s] 0",
			want: []Counter{{Name: "name with blanks", Unit: "locks/s", Has: HasMin, Samples: 7}}},
		{line: "no_unit                   7 samples", want: []Counter{{Name: "no_unit", Samples: 7}}},
		{line: "past_2_63                 2 samples [bytes] 1 1 2 18446744073709551615",
			want: []Counter{{Name: "past_2_63", Unit: "bytes", Has: hasAll, Samples: 2, Min: 1, Max: 1, Sum: 2, SumSq: 18446744073709551615}}},
		// The same bits as an older release prints them.
		{line: "past_2_63                 2 samples [bytes] 1 1 2 -1",
			want: []Counter{{Name: "past_2_63", Unit: "bytes", Has: hasAll, Samples: 2, Min: 1, Max: 1, Sum: 2, SumSq: 18446744073709551615}}},
		{line: "past_2_64                 2 samples [bytes] 1 1 18446744073709551616 9",
			want: []Counter{{Name: "past_2_64", Unit: "bytes", Has: HasMin | HasMax | HasSumSq, Samples: 2, Min: 1, Max: 1, SumSq: 9}}, odd: whyOverflow},
		{line: "samples_past              99999999999999999999999 samples [reqs]", odd: whyOverflow},
		{line: "negative                  -1 samples [reqs]", odd: whyNegative},
		{line: "negative_sum              1 samples [usecs] 1 1 -5 25",
			want: []Counter{{Name: "negative_sum", Unit: "usecs", Has: HasMin | HasMax | HasSumSq, Samples: 1, Min: 1, Max: 1, SumSq: 25}}, odd: whyNegative},
		{line: "more                      1 samples [usecs] 1 2 3 4 5",
			want: []Counter{{Name: "more", Unit: "usecs", Has: hasAll, Samples: 1, Min: 1, Max: 2, Sum: 3, SumSq: 4}}, odd: "more columns than min, max, sum, sumsq"},
		{line: "cut_by_netlink            57 samples [reqs", odd: "unit without brackets"},
		{line: "12 samples [reqs]", odd: "counter without a name"},
		{line: "what is this", odd: "not a counter"},
	} {
		s := ParseStats([]byte(tc.line + "\n"))
		if diff := cmp.Diff(tc.want, s.Counters); diff != "" {
			t.Errorf("%s\n%s", tc.line, diff)
		}
		odd := ""
		if s.Unparsed.Count > 0 {
			odd = s.Unparsed.Lines[0].Why
		}
		if odd != tc.odd {
			t.Errorf("%s: not understood: %q, want %q", tc.line, odd, tc.odd)
		}
	}
}

func TestParseStatsTime(t *testing.T) {
	for _, tc := range []struct {
		in   string
		sec  int64
		nsec int64
		odd  string
	}{
		{in: "1438693238.20113 secs.usecs", sec: 1438693238, nsec: 20113000}, // .020113, not .20113
		{in: "1420966209.227519 secs.usecs", sec: 1420966209, nsec: 227519000},
		{in: "1420966209.0 secs.usecs", sec: 1420966209},
		{in: "1286990247.9667 (secs.usecs)", sec: 1286990247, nsec: 9667000},
		{in: "1534158712.038772898 (secs.nsecs)", sec: 1534158712, nsec: 38772898},
		{in: "1795240909.000000001 secs.nsecs", sec: 1795240909, nsec: 1},
		{in: "1480000000.  1234567 secs.usecs", sec: 1480000000, nsec: 1234567}, // nanoseconds in spite of the label
		{in: "1480000000.123456789 secs.usecs", sec: 1480000000, nsec: 123456789},
		{in: "1795240909.000000001", sec: 1795240909, nsec: 1},
		{in: "1795240909", sec: 1795240909},
		{in: "1795240909.9999999999 secs.nsecs", odd: "more than 999999999 nanoseconds"},
		{in: "1795240909. secs.usecs", odd: whyNotNumber},
		{in: "99999999999999999999.1 secs.nsecs", odd: whyOverflow},
		{in: "9223372036854775808.1 secs.nsecs", odd: whyOverflow},
		{in: "", odd: whyNotNumber},
	} {
		s := ParseStats([]byte("snapshot_time             " + tc.in + "\n"))
		want := StatsTime{Sec: tc.sec, Nsec: tc.nsec, Known: tc.odd == ""}
		if s.Snapshot != want {
			t.Errorf("%q: %+v, want %+v", tc.in, s.Snapshot, want)
		}
		odd := ""
		if s.Unparsed.Count > 0 {
			odd = s.Unparsed.Lines[0].Why
		}
		if odd != tc.odd {
			t.Errorf("%q: not understood: %q, want %q", tc.in, odd, tc.odd)
		}
	}
}

func TestParseStatsMachine(t *testing.T) {
	fsys := fixtureMachine(t, "oss-2.17.0-zfs")
	var p StatsParser
	var buf FileBuffer
	s, err := ReadStats(fsys, "sys/kernel/debug/lustre/obdfilter/lustre-OST0000/stats", &p, &buf)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unparsed.Err("stats"); err != nil || s.Unterminated {
		t.Errorf("%v, unterminated %v", err, s.Unterminated)
	}
	if d := s.Snapshot.Sub(s.Start); d != time.Duration(s.Elapsed.Sec)*time.Second+time.Duration(s.Elapsed.Nsec) {
		t.Errorf("snapshot-start is %v, elapsed %+v", d, s.Elapsed)
	}
	w := s.Counter("write_bytes")
	if w == nil || w.Samples != 275 || w.Sum != 276954064 || w.SumSq != 290281159732864 || w.Timed() {
		t.Errorf("write_bytes: %+v", w)
	}
	if w := s.Counter("write"); w == nil || !w.Timed() {
		t.Errorf("write: %+v", w)
	}
	if len(s.Counters) != 13 || s.Counter("nosuch") != nil {
		t.Errorf("%d counters", len(s.Counters))
	}
	keep := s.Clone()
	p.Parse([]byte("open 1 samples [reqs]\n"))
	if keep.Counter("write_bytes") == nil || keep.Counter("open") != nil {
		t.Error("a clone changed with the parser's next file")
	}
}

// Up to 2.10 the OFD's and the generic layer's counters share a file and a name.
func TestStatsCounterTwice(t *testing.T) {
	s := ParseStats([]byte("statfs 35359 samples [reqs]\nconnect 1 samples [reqs]\nstatfs 124430 samples [reqs]\n"))
	if c := s.Counter("statfs"); c.Samples != 35359 || len(s.Counters) != 3 {
		t.Errorf("%+v of %d", c, len(s.Counters))
	}
}

func TestStatsParserForgets(t *testing.T) {
	var p StatsParser
	p.Parse([]byte("snapshot_time 1.2 secs.usecs\nstart_time 1.2\nopen 1 samples [reqs]\nodd\nopen 2 sam"))
	s := p.Parse([]byte("close 1 samples [reqs]\n"))
	want := &Stats{Counters: []Counter{{Name: "close", Unit: "reqs", Samples: 1}}, Unparsed: Unparsed{Lines: []UnparsedLine{}}}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	for i := range 3 * maxStatsNames {
		p.Parse(fmt.Appendf(nil, "name%d 1 samples [reqs]\n", i))
	}
	if len(p.names) > maxStatsNames {
		t.Errorf("the parser remembers %d names", len(p.names))
	}
}

func TestStatsUnterminated(t *testing.T) {
	whole := "open 1 samples [reqs]\nclose 12 samples [reqs]\n"
	for n := range len(whole) + 1 {
		s := ParseStats([]byte(whole[:n]))
		ended := n == 0 || whole[n-1] == '\n'
		if s.Unterminated == ended {
			t.Errorf("%q: unterminated %v", whole[:n], s.Unterminated)
		}
	}
}

func TestStatsBadInput(t *testing.T) {
	for name, text := range fixtureBad() {
		s := ParseStats([]byte(text))
		if len(s.Counters) > 0 {
			t.Errorf("%s: counters %+v", name, s.Counters)
		}
		if err := s.Unparsed.Err("f"); (err == nil) != (strings.TrimSpace(text) == "") {
			t.Errorf("%s: %v", name, err)
		} else if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
	}
	s := ParseStats(bytes.Repeat([]byte("odd\n"), 1000))
	if s.Unparsed.Count != 1000 || len(s.Unparsed.Lines) != unparsedLines || s.Unparsed.Lines[4].Line != 5 {
		t.Errorf("%+v", s.Unparsed)
	}
	if got := s.Unparsed.Err("obdfilter/x/stats").Error(); got != `parse obdfilter/x/stats: line 1: not a counter: "odd" (1000 such in the file)` {
		t.Error(got)
	}
}

func TestFileBuffer(t *testing.T) {
	fsys := fstest.MapFS{
		"big":   {Data: make([]byte, maxFile+1)},
		"just":  {Data: make([]byte, maxFile)},
		"small": {Data: []byte("x")},
	}
	var buf FileBuffer
	for name, want := range map[string]int{"just": maxFile, "small": 1} {
		if b, err := buf.ReadFile(fsys, name); err != nil || len(b) != want {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if _, err := buf.ReadFile(fsys, "big"); err == nil || !strings.Contains(err.Error(), "big: more than 16777216 bytes") {
		t.Errorf("a file too long: %v", err)
	}
	if _, err := buf.ReadFile(fsys, "missing"); !isNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestStatsParserAllocatesNothingWarm(t *testing.T) {
	text := fixtureFile(t, fixtureMachine(t, "oss-2.17.0-zfs"), "sys/kernel/debug/lustre/obdfilter/lustre-OST0000/exports/10.77.0.11@o2ib/stats")
	var p StatsParser
	p.Parse(text)
	if n := testing.AllocsPerRun(100, func() { p.Parse(text) }); n != 0 {
		t.Errorf("%v allocations per file", n)
	}
}

func BenchmarkStatsParser(b *testing.B) {
	text := fixtureFile(b, fixtureMachine(b, "oss-2.17.0-zfs"), "sys/kernel/debug/lustre/obdfilter/lustre-OST0000/exports/10.77.0.11@o2ib/stats")
	var p StatsParser
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		p.Parse(text)
	}
}

func FuzzParseStats(f *testing.F) {
	fsys := fixtureMachine(f, "oss-2.17.0-zfs")
	names, _ := fs.Glob(fsys, "sys/kernel/debug/lustre/*/*/*/stats")
	for _, name := range names {
		f.Add(fixtureFile(f, fsys, name))
	}
	f.Add([]byte("snapshot_time 1438693238.20113 secs.usecs\nx 1 samples [reqs] 1 1 2 -1\n"))
	var warm StatsParser
	f.Fuzz(func(t *testing.T, text []byte) {
		cold := ParseStats(text)
		again := warm.Parse(text)
		again.Unparsed.Lines = append([]UnparsedLine(nil), again.Unparsed.Lines...)
		if diff := cmp.Diff(cold.Clone(), again.Clone(), cmpEmpty); diff != "" {
			t.Fatalf("a warm parser gives another answer:\n%s", diff)
		}
		lines := bytes.Count(text, []byte("\n")) + 1
		if len(cold.Counters) > lines || cold.Unparsed.Count > lines {
			t.Fatalf("%d counters, %d odd in %d lines", len(cold.Counters), cold.Unparsed.Count, lines)
		}
		// What is understood survives being printed in the kernel's form.
		for _, c := range cold.Counters {
			if c.Has != hasAll || strings.ContainsAny(c.Unit, " \t") {
				continue
			}
			line := fmt.Sprintf("%-25s %d samples [%s] %d %d %d %d\n", c.Name, c.Samples, c.Unit, c.Min, c.Max, c.Sum, c.SumSq)
			if again := ParseStats([]byte(line)); len(again.Counters) != 1 || again.Counters[0] != c {
				t.Fatalf("%+v became %+v", c, again.Counters)
			}
		}
	})
}

package lfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"ioguard"
)

// gotCounter is a counter in the tests' short form.
func gotCounter(c JobCounter) string {
	s := fmt.Sprintf("%s %d %s %d %d %d %d", c.Op, c.Samples, c.Unit, c.Min, c.Max, c.Sum, c.SumSq)
	for _, h := range c.Hist {
		s += fmt.Sprintf(" %d:%d", h.Size, h.Count)
	}
	return s
}

// gotJobs is everything that a text decodes to, a line each.
func gotJobs(t *testing.T, r io.Reader) (lines []string, skipped Skipped) {
	t.Helper()
	var d JobStatsDecoder
	d.Reset(r)
	for d.Next() {
		e := d.Decode()
		lines = append(lines, fmt.Sprintf("%s %q %v %v %v", d.Target(), e.ID, e.SnapshotTime, e.StartTime, e.ElapsedTime))
		for _, c := range e.Counters {
			if c.Samples > 0 {
				lines = append(lines, "  "+gotCounter(c))
			}
		}
	}
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	return lines, d.Skipped()
}

func TestJobStatsForms(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
		skipped    int
	}{
		{"2.5: byte counters named read and write, seconds", `job_stats:
- job_id:          dd.0
  snapshot_time:   1384531124
  read:            { samples:           2, unit: bytes, min:    4096, max: 1048576, sum:         1052672 }
  setattr:         { samples:           1, unit:  reqs }
`, []string{` "dd.0" {1384531124 0} {0 0} {0 0}`, "  read 2 bytes 4096 1048576 1052672 0", "  setattr 1 reqs 0 0 0 0"}, 0},
		{"2.12: max glued to its number", `job_stats:
- job_id:          kworker/86:1.0
  snapshot_time:   1560000000
  write_bytes:     { samples:         861, unit: bytes, min:16777216, max:16777216, sum:     14445182976 }
  open:            { samples:          12, unit:  reqs }
`, []string{` "kworker/86:1.0" {1560000000 0} {0 0} {0 0}`, "  write_bytes 861 bytes 16777216 16777216 14445182976 0", "  open 12 reqs 0 0 0 0"}, 0},
		{"2.15.0: unindented times by the boot clock", `job_stats:
- job_id:          4711
snapshot_time   : 3143196.864165417 secs.nsecs
start_time      : 3143190.000000001 secs.nsecs
elapsed_time    : 6.864165416 secs.nsecs
  open:            { samples:           3, unit: usecs, min:       10, max:       30, sum:               60, sumsq:               1400 }
`, []string{` "4711" {3143196 864165417} {3143190 1} {6 864165416}`, "  open 3 usecs 10 30 60 1400"}, 0},
		{"2.15.2: quoted and escaped", `job_stats:
- job_id:          "1234\x3A1000\x3Anode"
  snapshot_time:   1704924117.050780452 secs.nsecs
  open:            { samples:           3, unit: usecs, min:       10, max:       30, sum:               60, sumsq:               1400 }
- job_id:          "kworker\x2F86\x3A1.0"
  snapshot_time:   1704924117.5 secs.nsecs
- job_id:          "\x20\x22\x5C\x0A\x1B[31m"
`, []string{` "1234:1000:node" {1704924117 50780452} {0 0} {0 0}`, "  open 3 usecs 10 30 60 1400", ` "kworker/86:1.0" {1704924117 500000000} {0 0} {0 0}`, ` " \"\\\n\x1b[31m" {0 0} {0 0} {0 0}`}, 0},
		{"2.16: hist, quotes by a colon, long names push the columns", `job_stats:
- job_id:          "1234:1000:node"
  snapshot_time:   1704924117.050780452 secs.nsecs
  parallel_rename_file: { samples:           7, unit: usecs, min:        1, max:        2, sum:                9, sumsq:                 15 }
  read_bytes:      { samples:           4, unit: bytes, min:     4096, max:  1048576, sum:          3149824, sumsq:      3298551791616, hist: { 4K: 1, 1M: 3 } }
  write_bytes:     { samples:           0, unit: bytes, min:        0, max:        0, sum:                0, sumsq:                  0, hist: {  } }
`, []string{` "1234:1000:node" {1704924117 50780452} {0 0} {0 0}`, "  parallel_rename_file 7 usecs 1 2 9 15", "  read_bytes 4 bytes 4096 1048576 3149824 3298551791616 4096:1 1048576:3"}, 0},
		{"2.17: no header, a second one in mid-file, no last newline", `- job_id:          a
  open:            { samples:  1, unit: usecs, min: 1, max: 1, sum: 1, sumsq: 1 }
job_stats:
- job_id:          b
  open:            { samples:  2, unit: usecs, min: 1, max: 1, sum: 2, sumsq: 2 }
  close:           { samples:  3, unit: usecs, min: 1, max: 1, sum: 3, sumsq: 3 }`,
			[]string{` "a" {0 0} {0 0} {0 0}`, "  open 1 usecs 1 1 1 1", ` "b" {0 0} {0 0} {0 0}`, "  open 2 usecs 1 1 2 2", "  close 3 usecs 1 1 3 3"}, 0},
		{"lctl get_param dump of two targets", `obdfilter.lustre-OST0000.job_stats=
job_stats:
- job_id:          1
  sync:            { samples:  1, unit:  reqs }
mdt.lustre-MDT0000.job_stats=job_stats:
- job_id:          1
  open:            { samples:  2, unit:  reqs }
obdfilter.lustre-OST0001.job_stats=
- job_id:          2
`, []string{`lustre-OST0000 "1" {0 0} {0 0} {0 0}`, "  sync 1 reqs 0 0 0 0", `lustre-MDT0000 "1" {0 0} {0 0} {0 0}`, "  open 2 reqs 0 0 0 0", `lustre-OST0001 "2" {0 0} {0 0} {0 0}`}, 0},
		{"empty ids, one with blanks", "job_stats:\n- job_id:\n  open: { samples: 1, unit: reqs }\n- job_id:            \n", []string{` "" {0 0} {0 0} {0 0}`, "  open 1 reqs 0 0 0 0", ` "" {0 0} {0 0} {0 0}`}, 0},
		{"unknown counter and field are kept", "- job_id: x\n  frobnicate:      { samples: 5, unit: usecs, p99: 12, min: 1, max: 2, sum: 3, sumsq: 4, extra: { a: 1 } }\n", []string{` "x" {0 0} {0 0} {0 0}`, "  frobnicate 5 usecs 1 2 3 4"}, 0},
		{"odd lines lose no neighbour", `error: get_param: param_path 'mdt/*/job_stats': No such file or directory
job_stats:
- job_id:          x
  snapshot_time:   yesterday
  open:            { samples: 1, unit: reqs }
  what is this
  close:           { samples: 99999999999999999999999, unit: reqs }
  mkdir:           { samples: 1x, unit: reqs }
  rmdir:           { samples: 4, unit: reqs }
  ünlink:          { samples: 4, unit: reqs }
  sync             samples 3
- job_id:          y
`, []string{` "x" {0 0} {0 0} {0 0}`, "  open 1 reqs 0 0 0 0", "  rmdir 4 reqs 0 0 0 0", ` "y" {0 0} {0 0} {0 0}`}, 7},
		{"a counter cut short is not believed", "- job_id: x\n  open: { samples: 12, unit: usecs, min: 1, max: 2, sum: 123", []string{` "x" {0 0} {0 0} {0 0}`}, 1},
		{"sumsq over 64 bits", "- job_id: x\n  write_bytes: { samples: 2, unit: bytes, min: 1, max: 2, sum: 3, sumsq: 99999999999999999999 }\n", []string{` "x" {0 0} {0 0} {0 0}`, "  write_bytes 2 bytes 1 2 3 18446744073709551615"}, 0},
		{"DOS line ends", "job_stats:\r\n- job_id:          4711\r\n  open:            { samples:           3, unit:  reqs }\r\n", []string{` "4711" {0 0} {0 0} {0 0}`, "  open 3 reqs 0 0 0 0"}, 0},
		{"YAML's words as ids", "- job_id:          yes\n- job_id:          null\n- job_id:          -x\n- job_id:          \"half\n", []string{` "yes" {0 0} {0 0} {0 0}`, ` "null" {0 0} {0 0} {0 0}`, ` "-x" {0 0} {0 0} {0 0}`, ` "\"half" {0 0} {0 0} {0 0}`}, 0},
		{"nothing", "", nil, 0},
		{"only a header", "job_stats:\n", nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, skipped := gotJobs(t, strings.NewReader(tt.text))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("jobs (-want +got):\n%s", diff)
			}
			if skipped.Lines != tt.skipped {
				t.Errorf("skipped %d lines, want %d: %+v", skipped.Lines, tt.skipped, skipped.First)
			}
			// however the text arrives, it reads the same
			byBytes, _ := gotJobs(t, iotest.OneByteReader(strings.NewReader(tt.text)))
			if diff := cmp.Diff(got, byBytes); diff != "" {
				t.Errorf("byte by byte (-whole +bytes):\n%s", diff)
			}
		})
	}
}

func TestJobStatsWarmShapesDoNotLeak(t *testing.T) {
	// the second job has other counters on the same lines, the third fewer
	text := "- job_id: a\n  open: { samples: 0, unit: usecs }\n  close: { samples: 2, unit: usecs, min: 1, max: 1, sum: 2, sumsq: 2 }\n" +
		"- job_id: b\n  read: { samples: 0, unit: usecs }\n  close: { samples: 0, unit: usecs }\n" +
		"- job_id: c\n  open: { samples: 0, unit: usecs }\n"
	var d JobStatsDecoder
	d.Reset(strings.NewReader(text))
	var got []string
	for d.Next() {
		for _, c := range d.Decode().Counters {
			got = append(got, fmt.Sprintf("%s %s %d", d.ID(), c.Op, c.Samples))
		}
	}
	want := []string{"a open 0", "a close 2", "b read 0", "b close 0", "c open 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestJobStatsBounded(t *testing.T) {
	garbage := bytes.Repeat([]byte{0xff, 0, 1, 'x'}, 3<<20) // 12 MiB without a newline
	text := io.MultiReader(bytes.NewReader(garbage), strings.NewReader("\n- job_id: late\n  open: { samples: 1, unit: reqs }\n"))
	var d JobStatsDecoder
	d.Reset(text)
	if !d.Next() || string(d.ID()) != "late" || len(d.Decode().Counters) != 1 {
		t.Fatal("the job behind the garbage is lost")
	}
	if d.Skipped().Lines == 0 || len(d.buf) > jobStatsMaxJob {
		t.Errorf("skipped %d, buffer %d", d.Skipped().Lines, len(d.buf))
	}
	long := io.MultiReader(strings.NewReader("- job_id: big\n"), strings.NewReader(strings.Repeat("  open: { samples: 1, unit: reqs }\n", 200_000)),
		strings.NewReader("- job_id: next\n"))
	d.Reset(long)
	var ids []string
	for d.Next() {
		ids = append(ids, string(d.ID()))
	}
	if diff := cmp.Diff([]string{"big", "next"}, ids); diff != "" {
		t.Error(diff)
	}
	if d.Skipped().Lines == 0 {
		t.Error("a job over the cap was cut without a word")
	}
}

func TestJobStatsReadError(t *testing.T) {
	broken := errors.New("input/output error")
	var d JobStatsDecoder
	d.Reset(io.MultiReader(strings.NewReader("- job_id: a\n  open: { samples: 1, unit: reqs }\n- job_id: b\n"), iotest.ErrReader(broken)))
	n := 0
	for d.Next() {
		n++
	}
	if n != 2 || !errors.Is(d.Err(), broken) {
		t.Errorf("%d jobs, error %v", n, d.Err())
	}
}

func TestJobStatsAllocatesNothingWarm(t *testing.T) {
	text := []byte(strings.Repeat("- job_id:          \"1234\\x3A1000\"\n  snapshot_time:   1704924117.050780452 secs.nsecs\n  open:            { samples:           3, unit: usecs, min:       10, max:       30, sum:               60, sumsq:               1400 }\n  read_bytes:      { samples:           4, unit: bytes, min:     4096, max:  1048576, sum:          3149824, sumsq:      3298551791616, hist: { 4K: 1, 1M: 3 } }\n", 1000))
	var d JobStatsDecoder
	r := bytes.NewReader(text)
	run := func() {
		r.Reset(text)
		d.Reset(r)
		for d.Next() {
			d.Decode()
		}
	}
	run()
	if n := testing.AllocsPerRun(5, run); n > 0 {
		t.Errorf("%v allocations per 1,000 jobs, want 0", n)
	}
}

// TestJobStatsSamples reads what others captured, 2.5 to 2.17 and DDN's.
func TestJobStatsSamples(t *testing.T) {
	files := map[string]int{ // path -> jobs
		"DDNStorage__LustrePerfMon/xml_definition/tests/lustre-ieel-2.7/proc/fs/lustre/mdt/lustre-MDT0000/job_stats":        1,
		"DDNStorage__LustrePerfMon/xml_definition/tests/lustre-ieel-2.7/proc/fs/lustre/obdfilter/scratch-OST0012/job_stats": 1,
		"HewlettPackard__lustre_exporter/proc/fs/lustre/mdt/lustrefs-MDT0000/job_stats":                                     15,
		"HewlettPackard__lustre_exporter/proc/fs/lustre/obdfilter/lustrefs-OST0000/job_stats":                               35,
		"influxdata__telegraf/plugins/inputs/lustre2/testcases/v2.12/proc/fs/lustre/mdt/OST0001/job_stats":                  2,
		"whamcloud__lustrefs-exporter/EXTRACTED_from_testcmds/job_stats.out.099ac605.txt":                                   16,
	}
	root := filepath.Join("..", "..", "shared", "samples")
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		t.Skip("no captured samples beside the repository")
	}
	for name, jobs := range files {
		f, err := os.Open(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
			continue
		}
		n, counters := 0, 0
		var d JobStatsDecoder
		d.Reset(f)
		for d.Next() {
			n++
			counters += len(d.Decode().Counters)
		}
		f.Close()
		if n != jobs || counters < 3*n || d.Skipped().Lines > 0 || d.Err() != nil {
			t.Errorf("%s: %d jobs (want %d), %d counters, skipped %+v, error %v", name, n, jobs, counters, d.Skipped(), d.Err())
		}
	}
}

func FuzzJobStats(f *testing.F) {
	f.Add([]byte("obdfilter.a-OST0000.job_stats=\njob_stats:\n- job_id: \"a\\x3A\"\n  snapshot_time:   1.5 secs.nsecs\n  open: { samples: 1, unit: usecs, min: 1, max: 1, sum: 1, sumsq: 1 }\n  read_bytes: { samples: 1, unit: bytes, min: 1, max: 1, sum: 1, sumsq: 1, hist: { 4K: 1 } }\n"), 7)
	f.Add([]byte("- job_id:\nsnapshot_time   : 3143196.864165417 secs.nsecs\n  x: { hist: {"), 1)
	f.Fuzz(func(t *testing.T, text []byte, chunk int) {
		whole := decodeAll(bytes.NewReader(text))
		parts := decodeAll(&chunkReader{text, max(1, chunk%97)})
		if whole != parts {
			t.Errorf("read whole:\n%s\nread in parts:\n%s", whole, parts)
		}
	})
}

func decodeAll(r io.Reader) string {
	var d JobStatsDecoder
	d.Reset(r)
	var b strings.Builder
	for d.Next() {
		e := d.Decode()
		fmt.Fprintf(&b, "%s %q %v", d.Target(), e.ID, e.SnapshotTime)
		for _, c := range e.Counters {
			b.WriteString(" " + gotCounter(c))
		}
		b.WriteByte('\n')
	}
	fmt.Fprint(&b, d.Skipped().Lines)
	return b.String()
}

type chunkReader struct {
	text []byte
	n    int
}

func (c *chunkReader) Read(p []byte) (int, error) {
	if len(c.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.text[:min(c.n, len(c.text))])
	c.text = c.text[n:]
	return n, nil
}

func TestRegisterOpBounded(t *testing.T) {
	for i := range 2000 {
		ioguard.RegisterOp(fmt.Appendf(nil, "op_%d", i))
	}
	if op := ioguard.RegisterOp([]byte("one_more")); op != ioguard.OpOther || op.String() != "other" {
		t.Errorf("op = %v", op)
	}
}

func TestParseNumber(t *testing.T) {
	for _, s := range []string{"", "x", "0", "7 ", "00042}", "12345678", "12345678,", "123456789", "1234567812345678", "12345678123456781 ", "18446744073709551615",
		"18446744073709551616", "99999999999999999999999x", "1/234567", "1:234567", "12\xff45678", "1234567\x00", "        ", "9999999999999999999", "00000000000000000000000001"} {
		checkNumber(t, s)
	}
}

func FuzzParseNumber(f *testing.F) {
	f.Add("12345678123456781234 ")
	f.Fuzz(checkNumber)
}

// checkNumber compares with strconv.
func checkNumber(t *testing.T, s string) {
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	want, err := strconv.ParseUint(s[:digits], 10, 64)
	got, n, ok := parseNumber([]byte(s))
	if ok != (err == nil) || n != digits || ok && got != want {
		t.Errorf("parseNumber(%q) = %d, %d, %v; want %d, %d, %v", s, got, n, ok, want, digits, err == nil)
	}
}

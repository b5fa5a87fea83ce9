package lfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// StatsTime is a time that a stats file prints: seconds since 1970 by the
// server's clock, or a span where the field is elapsed_time.
type StatsTime struct {
	Sec   int64
	Nsec  int64
	Known bool // false: the file does not tell
}

// Seconds is the time as a float; 0 when unknown.
func (t StatsTime) Seconds() float64 { return float64(t.Sec) + float64(t.Nsec)/1e9 }

// Time is the time as a time.Time; zero when unknown.
func (t StatsTime) Time() time.Time {
	if !t.Known {
		return time.Time{}
	}
	return time.Unix(t.Sec, t.Nsec)
}

// Sub is t-u. It is 0 when either is unknown.
func (t StatsTime) Sub(u StatsTime) time.Duration {
	if !t.Known || !u.Known {
		return 0
	}
	return t.Time().Sub(u.Time())
}

// CounterColumns is a set of the columns that a counter's line held.
type CounterColumns uint8

// The columns after "samples [unit]". Which of them a counter has depends on the
// counter and on the release (LPROCFS_CNTR_AVGMINMAX, LPROCFS_CNTR_STDDEV).
const (
	HasMin CounterColumns = 1 << iota
	HasMax
	HasSum
	HasSumSq
)

// Counter is one line of a stats file. Columns that Has does not hold are unknown.
type Counter struct {
	Name                 string
	Unit                 string // as printed: "reqs", "bytes", "usec" (to 2.12) or "usecs", "pages", ...
	Has                  CounterColumns
	Samples              uint64
	Min, Max, Sum, SumSq uint64 // in Unit; SumSq in its square, modulo 2^64 as the kernel counts it
}

// Timed reports whether the counter sums microseconds.
func (c *Counter) Timed() bool {
	return c.Has&HasSum != 0 && (c.Unit == "usecs" || c.Unit == "usec")
}

// Stats is what a stats file holds. Counters without samples are not printed by
// the kernel: an absent counter is 0 since Start, or unknown to the release.
type Stats struct {
	Snapshot     StatsTime // when the file was read, by the server's clock
	Start        StatsTime // when counting began, 2.15 and later
	Elapsed      StatsTime // Snapshot-Start, 2.15 and later
	Counters     []Counter // in the file's order
	Unterminated bool      // the last line has no newline: it may be cut
	Unparsed     Unparsed
}

// Counter is the first counter of that name, nil where there is none. Up to
// 2.10 an OST prints statfs twice: the first is what OFD served, the second what
// passed through the generic obd layer.
func (s *Stats) Counter(name string) *Counter {
	for i := range s.Counters {
		if s.Counters[i].Name == name {
			return &s.Counters[i]
		}
	}
	return nil
}

// Clone is a copy that outlives the parser's next file.
func (s *Stats) Clone() *Stats {
	c := *s
	c.Counters = slices.Clone(s.Counters)
	c.Unparsed.Lines = slices.Clone(s.Unparsed.Lines)
	return &c
}

// StatsParser parses one stats file after the other and, once it has met their
// counter names, allocates nothing. The zero value is ready; it serves one
// goroutine at a time.
type StatsParser struct {
	stats Stats
	names map[string]string
}

// maxStatsNames bounds the names that a parser remembers: a file of garbage must
// not grow it without end.
const maxStatsNames = 1024

// Parse parses the text of stats, md_stats, exports/*/stats, a service's stats
// or llite stats. It never fails: see Stats.Unparsed. The result holds until the
// next call.
//
// FILE: lustre/obdclass/lprocfs_status.c, lprocfs_stats_seq_show and
// lprocfs_stats_header:
//
//	snapshot_time             1795240909.900321494 secs.nsecs
//	write_bytes               34 samples [bytes] 3000 1048576 25195824 26388369066624
//	getattr                   2 samples [reqs]
func (p *StatsParser) Parse(text []byte) *Stats {
	s := &p.stats
	s.Snapshot, s.Start, s.Elapsed = StatsTime{}, StatsTime{}, StatsTime{}
	s.Counters = s.Counters[:0]
	s.Unterminated = false
	s.Unparsed.reset()
	for n := 1; len(text) > 0; n++ {
		line, rest, nl := textLine(text)
		text = rest
		if line = textStrip(line); len(line) > 0 {
			s.Unterminated = !nl
			p.line(n, line)
		}
	}
	return s
}

// ParseStats is StatsParser.Parse for a single file.
func ParseStats(text []byte) *Stats {
	var p StatsParser
	return p.Parse(text)
}

// ReadStats reads and parses a stats file with the caller's parser and buffer.
// The result holds until the next use of the parser.
func ReadStats(fsys fs.FS, path string, p *StatsParser, buf *FileBuffer) (*Stats, error) {
	text, err := buf.ReadFile(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("read stats: %w", err)
	}
	return p.Parse(text), nil
}

func (p *StatsParser) line(n int, line []byte) {
	s := &p.stats
	at := bytes.Index(line, statsSamples)
	if at < 0 {
		known, why := statsTimeLine(line, &s.Snapshot, &s.Start, &s.Elapsed)
		switch {
		case !known:
			s.Unparsed.add(n, line, "not a counter")
		case why != "":
			s.Unparsed.add(n, line, why)
		}
		return
	}
	// The number is the last word before "samples", the name all before it.
	left := textStrip(line[:at])
	i := len(left)
	for i > 0 && !textBlank(left[i-1]) {
		i--
	}
	name := textStrip(left[:i])
	if len(name) == 0 {
		s.Unparsed.add(n, line, "counter without a name")
		return
	}
	samples, why := textUint(left[i:])
	if why != "" {
		s.Unparsed.add(n, line, why)
		return
	}
	unit, rest := textWord(line[at+len(statsSamples):])
	if len(unit) > 0 && (unit[0] != '[' || unit[len(unit)-1] != ']' || len(unit) < 2) {
		// Without root 2.17.0 gives the lines through netlink with their last
		// byte cut off: "[reqs". Nothing in such a line can be trusted.
		s.Unparsed.add(n, line, "unit without brackets")
		return
	}
	c := Counter{Name: p.intern(name), Samples: samples}
	if len(unit) > 0 {
		c.Unit = p.intern(unit[1 : len(unit)-1])
	}
	if why := c.columns(rest); why != "" {
		s.Unparsed.add(n, line, why)
	}
	s.Counters = append(s.Counters, c)
}

var statsSamples = []byte(" samples")

// columns takes the numbers after the unit. One that cannot be taken stays unknown.
func (c *Counter) columns(b []byte) (why string) {
	for i := 0; ; i++ {
		var word []byte
		if word, b = textWord(b); len(word) == 0 {
			return why
		}
		if i == 4 {
			return "more columns than min, max, sum, sumsq"
		}
		v, bad := textUint(word)
		if bad == whyNegative && i == 3 {
			// Older releases print the sum of squares with %lld: past 2^63 it
			// shows a minus sign though its bits are right.
			if signed, bad2 := textInt(word); bad2 == "" {
				v, bad = uint64(signed), ""
			}
		}
		if bad != "" {
			why = bad
			continue
		}
		c.Has |= 1 << i
		switch i {
		case 0:
			c.Min = v
		case 1:
			c.Max = v
		case 2:
			c.Sum = v
		case 3:
			c.SumSq = v
		}
	}
}

// intern gives the string of a name without allocating when it was met before.
func (p *StatsParser) intern(b []byte) string {
	if s, ok := p.names[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(p.names) < maxStatsNames && len(b) <= 64 {
		if p.names == nil {
			p.names = make(map[string]string, 64)
		}
		p.names[s] = s
	}
	return s
}

// statsTimeLine takes the lines snapshot_time, start_time and elapsed_time, with
// or without a colon. known is false for any other line.
func statsTimeLine(line []byte, snapshot, start, elapsed *StatsTime) (known bool, why string) {
	key, rest := textWord(line)
	key = bytes.TrimSuffix(key, []byte(":"))
	var t *StatsTime
	switch string(key) {
	case "snapshot_time":
		t = snapshot
	case "start_time":
		t = start
	case "elapsed_time":
		t = elapsed
	default:
		return false, ""
	}
	*t, why = parseStatsTime(textStrip(rest))
	return true, why
}

// parseStatsTime decodes a time. The digits after the point are no decimal
// fraction but a printed number, and releases print it in these ways:
//
//	1438693238.20113 secs.usecs          to 2.9: microseconds, not zero padded
//	1534158712.738772898 (secs.nsecs)    brw_stats 2.10 to 2.14
//	1534158712.  8772898 secs.usecs      2.9 development: nanoseconds, blank padded, wrong label
func parseStatsTime(b []byte) (StatsTime, string) {
	i := 0
	for i < len(b) && b[i] != '.' && !textBlank(b[i]) {
		i++
	}
	sec, why := textInt(b[:i])
	if why != "" {
		return StatsTime{}, why
	}
	t := StatsTime{Sec: sec, Known: true}
	if i == len(b) || b[i] != '.' {
		return t, ""
	}
	width := i + 1
	word, rest := textWord(b[i+1:])
	width = len(b) - len(rest) - width
	frac, why := textUint(word)
	if why != "" {
		return StatsTime{}, why
	}
	label := bytes.Trim(textStrip(rest), "()")
	switch {
	case string(label) == "secs.nsecs", width > 6:
		t.Nsec = int64(frac)
		if frac > 999_999_999 {
			return StatsTime{}, "more than 999999999 nanoseconds"
		}
	default:
		if frac > 999_999 {
			return StatsTime{}, "more than 999999 microseconds"
		}
		t.Nsec = int64(frac) * 1000
	}
	return t, ""
}

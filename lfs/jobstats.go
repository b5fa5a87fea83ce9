package lfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"ioguard"
)

// The decoder in this file reads job_stats as lprocfs_jobstats_seq_show prints it
// (lustre/obdclass/lprocfs_jobstats.c), in every form from 2.5 to 2.17 and in
// DDN's builds. The form is told from each line, never from a version:
//
//	- job_id:          "1234\x3A1000\x3Anode"
//	  snapshot_time:   1795242977.441407489 secs.nsecs
//	  write_bytes:     { samples:  24, unit: bytes, min:  1048576, max:  1048576, sum: 25165824, sumsq: 26388279066624, hist: { 1M: 24 } }
//
// 2.15.0 prints its time lines without indentation and by the boot clock;
// 2.8 to 2.13 glue "max:16777216"; 2.5 and 2.6 call byte counters read and
// write; 2.17 may leave the "job_stats:" header out or print it a second time
// in mid-file.

// Sizes that bound the decoder's memory, whatever the file holds.
const (
	jobStatsBuffer  = 64 << 10 // first buffer: fits the cache, and a read of it is over before the scheduler minds
	jobStatsMaxJob  = 4 << 20  // one job's text; more is cut off and counted as skipped
	jobStatsMaxKeep = 8        // skipped lines kept for the report
	jobStatsMaxText = 120      // bytes kept of each
)

// JobTime is a time of job_stats. Lustre 2.15.0 and 2.15.1 print the boot clock
// instead of the epoch (LU-16231).
type JobTime struct {
	Sec  int64
	Nsec int32
}

// IsZero reports whether the file gave no such time.
func (t JobTime) IsZero() bool { return t == JobTime{} }

// BootClock reports whether the time counts from boot: no epoch time of a
// living Lustre is before 2001.
func (t JobTime) BootClock() bool { return t.Sec < 1e9 }

// Seconds is the time in seconds.
func (t JobTime) Seconds() float64 { return float64(t.Sec) + float64(t.Nsec)/1e9 }

// CounterUnit is the unit that a counter's line names.
type CounterUnit uint8

// The units of job_stats.
const (
	UnitUnknown CounterUnit = iota
	UnitReqs                // only samples are counted
	UnitBytes
	UnitUsecs
)

func (u CounterUnit) String() string {
	switch u {
	case UnitReqs:
		return "reqs"
	case UnitBytes:
		return "bytes"
	case UnitUsecs:
		return "usecs"
	}
	return "unknown"
}

// HistBucket is a row of a byte counter's size histogram (2.16 and later):
// how many RPCs were at most Size bytes, and above half of it.
type HistBucket struct {
	Size  uint64 // bytes, a power of two
	Count uint64
}

// JobCounter is one counter of a job. Fields that the release does not print
// stay zero, and so does all of a counter without samples.
type JobCounter struct {
	Op      ioguard.Op
	Unit    CounterUnit
	Samples uint64
	Min     uint64
	Max     uint64
	Sum     uint64
	SumSq   uint64
	Hist    []HistBucket // valid until the next Decode; nil where not printed
}

// JobEntry is one job's entry in one target's job_stats. Its slices belong to
// the decoder and are valid until the next call of Next.
type JobEntry struct {
	ID           []byte // decoded
	SnapshotTime JobTime
	StartTime    JobTime
	ElapsedTime  JobTime
	Counters     []JobCounter
}

// SkippedLine is a line that the decoder did not understand.
type SkippedLine struct {
	Line int    // 1-based
	Text string // cut at 120 bytes; raw, not safe for a terminal
	Why  string
}

// Skipped counts what a decoder passed over.
type Skipped struct {
	Lines int
	First []SkippedLine // the first few
}

// JobStatsDecoder streams the jobs of one job_stats file, or of an
// `lctl get_param` dump of many. Memory is bounded by the largest entry, and
// once warm nothing is allocated per job.
//
//	d.Reset(r)
//	for d.Next() {
//		e := d.Decode()
//	}
//	err := d.Err()
type JobStatsDecoder struct {
	r        io.Reader
	buf      []byte
	pos, end int // unread text is buf[pos:end]
	eof      bool
	err      error
	taken    int  // bytes of buf[pos:] that belong to the current entry
	line     int  // lines consumed
	long     bool // inside of a line longer than the largest buffer

	target     []byte // of the current entry, from a get_param prefix
	nextTarget []byte
	hasNext    bool
	headers    int // "job_stats:" lines so far

	id      []byte // raw id text of the current entry
	decoded []byte // buffer for ids that need decoding
	block   []byte // lines behind the id line
	bounds  []int32
	first   int // line number of block's first line

	skipped Skipped
	entry   JobEntry
	hist    []HistBucket
	shapes  []lineShape
}

// lineShape remembers what stood on one line of the previous entry: entries
// repeat the same counters in the same order, and mostly at zero.
type lineShape struct {
	name []byte // text up to and with the colon, indentation included
	op   ioguard.Op
	zero []byte // the whole line, when it had no samples
	unit CounterUnit
}

// Reset starts on a new file, keeping buffers.
func (d *JobStatsDecoder) Reset(r io.Reader) {
	if d.buf == nil {
		d.buf = make([]byte, jobStatsBuffer)
	}
	d.r, d.pos, d.end, d.taken, d.eof, d.err, d.line, d.long = r, 0, 0, 0, false, nil, 0, false
	d.target, d.nextTarget, d.hasNext, d.headers = d.target[:0], d.nextTarget[:0], false, 0
	d.id, d.block = nil, nil
	d.skipped.Lines, d.skipped.First = 0, nil
}

// Err is the error that ended reading, nil at the end of the file.
func (d *JobStatsDecoder) Err() error { return d.err }

// Skipped tells which lines were not understood so far.
func (d *JobStatsDecoder) Skipped() Skipped { return d.skipped }

// Target is the target of the current entry where the text names it, as an
// `lctl get_param` prefix does: "lustre-OST0000" of
// "obdfilter.lustre-OST0000.job_stats=". Without a prefix it is empty.
func (d *JobStatsDecoder) Target() []byte { return d.target }

// ID is the decoded job id of the current entry, valid until the next Next.
func (d *JobStatsDecoder) ID() []byte {
	id, scratch := decodeJobID(d.id, d.decoded)
	d.decoded = scratch
	return id
}

// RawID is the id as printed; equal raw ids of one target are equal jobs.
func (d *JobStatsDecoder) RawID() []byte { return d.id }

// Block is the text of the current entry behind its id line. An entry whose
// text did not change since the last sample needs no decoding.
func (d *JobStatsDecoder) Block() []byte { return d.block }

// Next moves to the next job and reports whether there is one.
func (d *JobStatsDecoder) Next() bool {
	d.consume()
	for {
		end, next, ok := d.lineAt(0)
		if !ok {
			return false
		}
		line := d.buf[d.pos : d.pos+end]
		d.line++
		if id, ok := jobIDLine(line); ok && !d.long {
			d.takeTarget()
			d.readBlock(next, idOffset(line, id), len(id))
			return true
		}
		if d.long || !d.outside(line) {
			d.skip(d.line, line, "outside of any job")
		}
		d.long = next == end // no newline: the rest of the line follows, or the text ends
		d.taken = next
		d.consume()
	}
}

// consume drops the text of the entry that was handed out.
func (d *JobStatsDecoder) consume() {
	d.pos += d.taken
	d.taken = 0
	d.id, d.block = nil, nil
}

// idOffset is where id starts in line, of which it is a part.
func idOffset(line, id []byte) int { return cap(line) - cap(id) }

// lineAt finds the line that starts rel bytes into the unread text: where it
// ends and where the next one starts, both relative to the unread text, which
// may move in the buffer. A line without newline ends at the end of the text,
// or where the buffer may grow no more (then next equals end).
func (d *JobStatsDecoder) lineAt(rel int) (end, next int, ok bool) {
	from := rel
	for {
		if i := bytes.IndexByte(d.buf[d.pos+from:d.end], '\n'); i >= 0 {
			return from + i, from + i + 1, true
		}
		from = d.end - d.pos
		if !d.fill() {
			return from, from, from > rel
		}
	}
}

// readBlock finds the lines that belong to the job whose id line was just
// read, up to the next id line, header or target prefix. rel is where they
// start, idAt and idLen where the id stands in the unread text.
func (d *JobStatsDecoder) readBlock(rel, idAt, idLen int) {
	start := rel
	d.first = d.line + 1
	d.bounds = d.bounds[:0]
	for {
		rel = d.usualLines(start, rel)
		end, next, ok := d.lineAt(rel)
		if !ok || (end == next && !d.eof) || !d.inBlock(d.buf[d.pos+rel:d.pos+end]) {
			break
		}
		d.bounds = append(d.bounds, int32(next-start))
		rel = next
	}
	d.line += len(d.bounds)
	d.block = d.buf[d.pos+start : d.pos+rel]
	d.id = d.buf[d.pos+idAt : d.pos+idAt+idLen]
	d.taken = rel
}

// usualLines takes the lines from rel on that are in the buffer and look like a
// counter's ("  open: ..."), which all but a few do, and gives where they end.
func (d *JobStatsDecoder) usualLines(start, rel int) int {
	text := d.buf[d.pos:d.end]
	for rel+3 < len(text) && text[rel] == ' ' && text[rel+2] != '-' {
		i := bytes.IndexByte(text[rel+3:], '\n')
		if i < 0 || text[rel+1] == '\n' || text[rel+2] == '\n' {
			break
		}
		rel += i + 4
		d.bounds = append(d.bounds, int32(rel-start))
	}
	return rel
}

// inBlock reports whether a line belongs to the current job. Counter lines are
// indented; 2.15.0's time lines are not. The rest starts something else.
func (d *JobStatsDecoder) inBlock(line []byte) bool {
	if len(line) > 2 && (line[0] == ' ' || line[0] == '\t') && line[2] != '-' {
		return true // the common case: "  open: ..."
	}
	if _, ok := jobIDLine(line); ok {
		return false
	}
	return !isHeader(line) && prefixTarget(line) == nil
}

// outside handles the lines between jobs: headers, prefixes and blanks.
func (d *JobStatsDecoder) outside(line []byte) bool {
	if target := prefixTarget(line); target != nil {
		d.nextTarget = append(d.nextTarget[:0], target...)
		d.hasNext = true
		if bytes.HasSuffix(bytes.TrimSpace(line), headerKey) {
			d.headers++
		}
		return true
	}
	if isHeader(line) {
		d.headers++
		return true
	}
	return len(bytes.TrimSpace(line)) == 0
}

func (d *JobStatsDecoder) takeTarget() {
	if d.hasNext {
		d.target = append(d.target[:0], d.nextTarget...)
		d.hasNext = false
	}
}

// fill reads more text behind the unread part, moving it to the front or
// growing the buffer. It reports false when the buffer may grow no more or the
// text is at its end; eof tells the two apart.
func (d *JobStatsDecoder) fill() bool {
	if d.eof {
		return false
	}
	if d.pos > 0 {
		copy(d.buf, d.buf[d.pos:d.end])
		d.end -= d.pos
		d.pos = 0
	}
	if d.end == len(d.buf) {
		if len(d.buf) >= jobStatsMaxJob {
			return false
		}
		grown := make([]byte, 2*len(d.buf))
		copy(grown, d.buf[:d.end])
		d.buf = grown
	}
	for tries := 0; tries < 100; tries++ {
		n, err := d.r.Read(d.buf[d.end:])
		d.end += n
		if err != nil {
			d.eof = true
			if !errors.Is(err, io.EOF) {
				d.err = err
			}
			return true
		}
		if n > 0 {
			return true
		}
	}
	d.eof, d.err = true, io.ErrNoProgress
	return true
}

func (d *JobStatsDecoder) skip(n int, line []byte, why string) {
	d.skipped.Lines++
	if len(d.skipped.First) < jobStatsMaxKeep {
		d.skipped.First = append(d.skipped.First, SkippedLine{n, string(line[:min(len(line), jobStatsMaxText)]), why})
	}
}

// Decode parses the current entry. The result is valid until the next Next.
func (d *JobStatsDecoder) Decode() *JobEntry {
	e := &d.entry
	*e = JobEntry{ID: d.ID(), Counters: e.Counters[:0]}
	d.hist = d.hist[:0]
	from := int32(0)
	for i, to := range d.bounds {
		line := d.block[from:to]
		from = to
		if n := len(line); n > 0 && line[n-1] == '\n' {
			line = line[:n-1]
		}
		if why := d.decodeLine(i, line); why != "" {
			d.skip(d.first+i, line, why)
		}
	}
	return e
}

// decodeLine takes one line of an entry; it returns why the line was not understood.
func (d *JobStatsDecoder) decodeLine(i int, line []byte) string {
	if i < len(d.shapes) {
		s := &d.shapes[i]
		if len(s.zero) > 0 && bytes.Equal(line, s.zero) {
			d.entry.Counters = append(d.entry.Counters, JobCounter{Op: s.op, Unit: s.unit})
			return ""
		}
		if len(s.name) > 0 && bytes.HasPrefix(line, s.name) {
			return d.decodeCounter(s, line, line[len(s.name):])
		}
	}
	colon := bytes.IndexByte(line, ':')
	if colon < 0 {
		if len(bytes.TrimSpace(line)) == 0 {
			return ""
		}
		return "no colon"
	}
	name := bytes.TrimSpace(line[:colon])
	rest := line[colon+1:]
	switch string(name) {
	case "snapshot_time":
		return decodeTime(&d.entry.SnapshotTime, rest)
	case "start_time":
		return decodeTime(&d.entry.StartTime, rest)
	case "elapsed_time":
		return decodeTime(&d.entry.ElapsedTime, rest)
	}
	if !isCounterName(name) {
		return "not a counter"
	}
	if r := bytes.TrimLeft(rest, " \t"); len(r) == 0 || r[0] != '{' {
		return "no { behind the name"
	}
	for i >= len(d.shapes) && i < 256 {
		d.shapes = append(d.shapes, lineShape{})
	}
	op := ioguard.RegisterOp(name)
	if i >= len(d.shapes) {
		return d.decodeCounter(&lineShape{op: op}, line, rest)
	}
	s := &d.shapes[i]
	s.name = append(s.name[:0], line[:colon+1]...)
	s.op, s.zero = op, s.zero[:0]
	return d.decodeCounter(s, line, rest)
}

// decodeCounter parses "{ samples: N, unit: U, ... }" behind a name.
func (d *JobStatsDecoder) decodeCounter(s *lineShape, line, rest []byte) string {
	d.entry.Counters = append(d.entry.Counters, JobCounter{Op: s.op})
	n := len(d.entry.Counters) - 1
	c := &d.entry.Counters[n]
	if !d.parseUsual(c, rest) {
		*c = JobCounter{Op: s.op}
		if why := d.parseBraces(c, rest); why != "" {
			d.entry.Counters = d.entry.Counters[:n]
			return why
		}
	}
	if c.Samples == 0 && c.Sum == 0 {
		s.zero, s.unit = append(s.zero[:0], line...), c.Unit
		*c = JobCounter{Op: c.Op, Unit: c.Unit}
	}
	return ""
}

// parseUsual reads the fields in the order in which every release prints them,
// at a third of the cost of parseBraces, and gives up at anything unusual.
func (d *JobStatsDecoder) parseUsual(c *JobCounter, s []byte) bool {
	i := eat(s, skipBlanks(s, 0), "{ samples:")
	if i < 0 {
		return false
	}
	var ok bool
	if i, ok = number(s, i, &c.Samples); !ok {
		return false
	}
	if i = eat(s, i, ", unit:"); i < 0 {
		return false
	}
	i = skipBlanks(s, i)
	switch {
	case eat(s, i, "usecs") > 0:
		c.Unit, i = UnitUsecs, i+5
	case eat(s, i, "bytes") > 0:
		c.Unit, i = UnitBytes, i+5
	case eat(s, i, "reqs") > 0:
		c.Unit, i = UnitReqs, i+4
	default:
		return false
	}
	if closes(s, i) {
		return true
	}
	if i, ok = field(s, i, minKey, &c.Min); !ok {
		return false
	}
	if i, ok = field(s, i, maxKey, &c.Max); !ok {
		return false
	}
	if i, ok = field(s, i, sumKey, &c.Sum); !ok {
		return false
	}
	if closes(s, i) {
		return true
	}
	if i = eat(s, i, ", sumsq:"); i < 0 {
		return false
	}
	if i, ok = number(s, i, &c.SumSq); !ok {
		return false
	}
	if closes(s, i) {
		return true
	}
	if i = eat(s, i, ", hist: "); i < 0 {
		return false
	}
	n, why := d.parseHist(c, s[i:])
	return why == "" && closes(s, i+n)
}

// The keys of six bytes, as little-endian words.
var (
	minKey = key6(", min:")
	maxKey = key6(", max:")
	sumKey = key6(", sum:")
)

const key6Mask = 1<<48 - 1

func key6(s string) uint64 { return binary.LittleEndian.Uint64([]byte(s + "\x00\x00")) }

// field reads a key of six bytes and the number behind it, and returns where it
// ends. It looks at eight bytes at once, which a whole line always has.
func field(s []byte, i int, key uint64, v *uint64) (int, bool) {
	if len(s)-i < 8 || binary.LittleEndian.Uint64(s[i:])&key6Mask != key {
		return 0, false
	}
	return number(s, i+6, v)
}

// number reads blanks and a number, and returns where it ends.
func number(s []byte, i int, v *uint64) (int, bool) {
	if len(s)-i < 2 || s[i] != ' ' || s[i+1] == ' ' { // mostly one blank, or many
		i = skipBlanks(s, i)
	} else {
		i++
	}
	n, size, ok := parseNumber(s[i:])
	*v = n
	return i + size, ok
}

// eat returns where lit ends in s at i, -1 where it is not there.
func eat(s []byte, i int, lit string) int {
	if len(s)-i < len(lit) || string(s[i:i+len(lit)]) != lit {
		return -1
	}
	return i + len(lit)
}

// closes reports whether nothing but the closing brace is left.
func closes(s []byte, i int) bool {
	return len(s)-i == 2 && s[i] == ' ' && s[i+1] == '}'
}

// parseBraces reads the fields of a counter. The closing brace is required:
// without it the last number may be cut short.
func (d *JobStatsDecoder) parseBraces(c *JobCounter, s []byte) string {
	i := skipBlanks(s, 0)
	if i >= len(s) || s[i] != '{' {
		return "no { behind the name"
	}
	i++
	samples := false
	for {
		for i < len(s) && (s[i] == ' ' || s[i] == ',' || s[i] == '\t') {
			i++
		}
		if i >= len(s) {
			return "no } at the end"
		}
		if s[i] == '}' {
			if !samples {
				return "no samples"
			}
			if i = skipBlanks(s, i+1); i < len(s) && s[i] != '\r' {
				return "text behind the }"
			}
			return ""
		}
		k := i
		for i < len(s) && isWordByte(s[i]) {
			i++
		}
		key := s[k:i]
		if len(key) == 0 || i >= len(s) || s[i] != ':' {
			return "no key: value"
		}
		i = skipBlanks(s, i+1)
		var field *uint64
		switch string(key) {
		case "samples":
			field, samples = &c.Samples, true
		case "min":
			field = &c.Min
		case "max":
			field = &c.Max
		case "sum":
			field = &c.Sum
		case "sumsq":
			field = &c.SumSq
		case "unit":
			k = i
			for i < len(s) && isWordByte(s[i]) {
				i++
			}
			c.Unit = parseUnit(s[k:i])
			continue
		case "hist":
			n, why := d.parseHist(c, s[i:])
			if why != "" {
				return why
			}
			i += n
			continue
		default: // a field of a later release: passed over
			n := skipField(s[i:])
			if n < 0 {
				return "no } at the end"
			}
			i += n
			continue
		}
		v, n, ok := parseNumber(s[i:])
		if !ok {
			if string(key) == "sumsq" && n > 0 { // may pass 2^64 on a long-lived job
				*field, i = math.MaxUint64, i+n
				continue
			}
			return "not a number of 64 bits"
		}
		*field, i = v, i+n
		if i < len(s) && s[i] != ',' && s[i] != ' ' && s[i] != '}' {
			return "not a number"
		}
	}
}

// parseHist reads "{ 4K: 1, 1M: 3 }" and returns how many bytes it took.
func (d *JobStatsDecoder) parseHist(c *JobCounter, s []byte) (int, string) {
	if len(s) == 0 || s[0] != '{' {
		return 0, "no { behind hist"
	}
	start := len(d.hist)
	i := 1
	for {
		for i < len(s) && (s[i] == ' ' || s[i] == ',') {
			i++
		}
		if i >= len(s) {
			return 0, "no } behind hist"
		}
		if s[i] == '}' {
			c.Hist = d.hist[start:len(d.hist):len(d.hist)]
			return i + 1, ""
		}
		size, n, ok := parseNumber(s[i:])
		if !ok {
			return 0, "hist: not a size"
		}
		i += n
		if i < len(s) {
			if shift := suffixShift(s[i]); shift > 0 {
				size <<= shift
				i++
			}
		}
		if i >= len(s) || s[i] != ':' {
			return 0, "hist: no colon"
		}
		i = skipBlanks(s, i+1)
		count, n, ok := parseNumber(s[i:])
		if !ok {
			return 0, "hist: not a count"
		}
		i += n
		d.hist = append(d.hist, HistBucket{size, count})
	}
}

func suffixShift(b byte) uint {
	switch b {
	case 'K':
		return 10
	case 'M':
		return 20
	case 'G':
		return 30
	case 'T':
		return 40
	}
	return 0
}

// skipField is the length of an unknown field's value: up to the comma or brace
// that ends it, nested braces included; -1 where nothing ends it.
func skipField(s []byte) int {
	depth := 0
	for i, b := range s {
		switch {
		case b == '{':
			depth++
		case b == '}' && depth == 0, b == ',' && depth == 0:
			return i
		case b == '}':
			depth--
		}
	}
	return -1
}

func parseUnit(s []byte) CounterUnit {
	switch string(s) {
	case "reqs":
		return UnitReqs
	case "bytes":
		return UnitBytes
	case "usecs", "usec":
		return UnitUsecs
	}
	return UnitUnknown
}

// decodeTime reads "SEC", "SEC.NSEC" or either with a unit behind it.
func decodeTime(t *JobTime, s []byte) string {
	i := skipBlanks(s, 0)
	if i < len(s) && s[i] == ':' { // "snapshot_time   : 12.3" of 2.15.0 was cut at its first colon
		i = skipBlanks(s, i+1)
	}
	sec, n, ok := parseNumber(s[i:])
	if !ok || sec > math.MaxInt64 {
		return "not a time"
	}
	i += n
	t.Sec, t.Nsec = int64(sec), 0
	if i < len(s) && s[i] == '.' {
		frac, n, ok := parseNumber(s[i+1:])
		if !ok || n > 9 {
			return "not a time"
		}
		for ; n < 9; n++ {
			frac *= 10
		}
		t.Nsec = int32(frac)
	}
	return ""
}

func skipBlanks(s []byte, i int) int {
	for len(s)-i >= 8 && binary.LittleEndian.Uint64(s[i:]) == 0x2020202020202020 {
		i += 8
	}
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	return i
}

func isWordByte(b byte) bool {
	return b-'a' < 26 || b == '_' || b-'0' < 10 || b-'A' < 26
}

// isCounterName keeps garbage out of the table of names.
func isCounterName(name []byte) bool {
	if len(name) == 0 || len(name) > 40 {
		return false
	}
	for _, b := range name {
		if !isWordByte(b) {
			return false
		}
	}
	return true
}

// jobIDLine gives the raw id of a "- job_id:" line, empty ids included.
func jobIDLine(line []byte) ([]byte, bool) {
	i := skipBlanks(line, 0)
	s := line[i:]
	if len(s) == 0 || s[0] != '-' || !bytes.HasPrefix(s, jobIDKey) {
		return nil, false
	}
	s = s[len(jobIDKey):]
	s = s[skipBlanks(s, 0):]
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\r') {
		s = s[:len(s)-1]
	}
	return s, true
}

var jobIDKey = []byte("- job_id:")

func isHeader(line []byte) bool {
	return bytes.Equal(bytes.TrimSpace(line), headerKey)
}

var headerKey = []byte("job_stats:")

// prefixTarget gives the target of "obdfilter.lustre-OST0000.job_stats=" (also
// with the value on the same line), nil for any other line.
func prefixTarget(line []byte) []byte {
	if len(line) == 0 || line[0]-'a' >= 26 {
		return nil
	}
	i := bytes.Index(line, prefixKey)
	if i < 0 {
		return nil
	}
	if rest := bytes.TrimSpace(line[i+len(prefixKey):]); len(rest) > 0 && !bytes.Equal(rest, headerKey) {
		return nil
	}
	dot := bytes.IndexByte(line[:i], '.')
	if dot < 0 || bytes.IndexByte(line[:i], ' ') >= 0 {
		return nil
	}
	return line[dot+1 : i]
}

var prefixKey = []byte(".job_stats=")

// decodeJobID undoes the kernel's quoting (2.15.2 and later): an id in double
// quotes has its special bytes as \xHH. Anything else is the id itself. The
// scratch buffer is returned for the next call.
func decodeJobID(raw, scratch []byte) (id, buf []byte) {
	n := len(raw)
	if n < 2 || raw[0] != '"' || raw[n-1] != '"' {
		return raw, scratch
	}
	inner := raw[1 : n-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, scratch
	}
	out := scratch[:0]
	for i := 0; i < len(inner); i++ {
		if inner[i] == '\\' && i+3 < len(inner) && inner[i+1] == 'x' {
			hi, ok1 := unhex(inner[i+2])
			lo, ok2 := unhex(inner[i+3])
			if ok1 && ok2 {
				out = append(out, hi<<4|lo)
				i += 3
				continue
			}
		}
		out = append(out, inner[i])
	}
	return out, out
}

func unhex(b byte) (byte, bool) {
	switch {
	case b-'0' <= 9:
		return b - '0', true
	case b-'A' < 6:
		return b - 'A' + 10, true
	case b-'a' < 6:
		return b - 'a' + 10, true
	}
	return 0, false
}

package lfs

import (
	"bytes"
	"fmt"
	"io/fs"
)

// Names of the sections of brw_stats. Which there are depends on release and back end.
const (
	BRWPages         = "pages per bulk r/w"
	BRWDiscontPages  = "discontiguous pages"
	BRWDiscontBlocks = "discontiguous blocks" // ldiskfs
	BRWFragments     = "disk fragmented I/Os" // ldiskfs
	BRWInFlight      = "disk I/Os in flight"  // rows 1,2,3,...; powers of two with LU-19574
	BRWTime          = "I/O time (1/1000s)"   // bucket in milliseconds
	BRWSize          = "disk I/O size"        // bucket in bytes
	BRWBlockMaps     = "block maps msec"      // bucket in milliseconds, LU-15564
)

// BRWStats is what brw_stats holds: histograms of a target's disk I/O.
type BRWStats struct {
	Snapshot, Start, Elapsed StatsTime // Start and Elapsed: 2.15 and later
	Sections                 []BRWSection
	Unparsed                 Unparsed
}

// BRWSection is one histogram. The kernel leaves zero rows out before the first
// and after the last that counts, so an absent row is 0.
type BRWSection struct {
	Name string // as printed, one of the BRW constants or what a later release adds
	Unit string // what is counted: "rpcs", "ios", "maps"
	Rows []BRWRow
}

// BRWRow is one bucket. Most histograms put a value in the bucket of the next
// power of two above it.
type BRWRow struct {
	Bucket      uint64 // "1K" is 1024
	Read, Write uint64
}

// Section is the section of that name, nil where there is none.
func (s *BRWStats) Section(name string) *BRWSection {
	for i := range s.Sections {
		if s.Sections[i].Name == name {
			return &s.Sections[i]
		}
	}
	return nil
}

// Total is the sum of a histogram's counts; zero for a nil section.
func (s *BRWSection) Total() (read, write uint64) {
	if s == nil {
		return 0, 0
	}
	for _, r := range s.Rows {
		read += r.Read
		write += r.Write
	}
	return read, write
}

// ReadBRWStats reads and parses a brw_stats file.
func ReadBRWStats(fsys fs.FS, path string) (*BRWStats, error) {
	var buf FileBuffer
	text, err := buf.ReadFile(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("read brw_stats: %w", err)
	}
	return ParseBRWStats(text), nil
}

// ParseBRWStats parses brw_stats. It never fails: see Unparsed.
//
// FILE: lustre/osd-ldiskfs/osd_lproc.c and lustre/osd-zfs/osd_lproc.c,
// display_brw_stats; shared code in lustre/obdclass from 2.15 (LU-14927); up to
// 2.3 in obdfilter:
//
//	snapshot_time:            1795243671.768078506 secs.nsecs
//	disk I/O size          ios   % cum % |  ios         % cum %
//	128K:		         1   1  63   |    1   0   4
func ParseBRWStats(text []byte) *BRWStats {
	s := &BRWStats{}
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := textLine(text)
		text = rest
		if line = textStrip(line); len(line) == 0 {
			continue
		}
		if why := s.line(line); why != "" {
			s.Unparsed.add(n, line, why)
		}
	}
	return s
}

func (s *BRWStats) line(line []byte) (why string) {
	if known, why := statsTimeLine(line, &s.Snapshot, &s.Start, &s.Elapsed); known {
		return why
	}
	left, right, ok := bytes.Cut(line, []byte("|"))
	if !ok {
		return "not a row"
	}
	left, right = textStrip(left), textStrip(right)
	if string(left) == "read" && string(right) == "write" {
		return ""
	}
	if i := bytes.IndexByte(left, '%'); i >= 0 {
		return s.header(textStrip(left[:i]))
	}
	row, why := parseBRWRow(left, right)
	if why != "" {
		return why
	}
	if len(s.Sections) == 0 {
		return "row before the first section"
	}
	last := &s.Sections[len(s.Sections)-1]
	last.Rows = append(last.Rows, row)
	return ""
}

// header takes "disk I/O size          ios", what stands before the first percent sign.
func (s *BRWStats) header(b []byte) string {
	i := len(b)
	for i > 0 && !textBlank(b[i-1]) {
		i--
	}
	name := textStrip(b[:i])
	if len(name) == 0 {
		return "section without a name"
	}
	s.Sections = append(s.Sections, BRWSection{Name: string(name), Unit: string(b[i:])})
	return ""
}

// parseBRWRow takes "1K:  12 4 32" and "0 0 0": bucket, then count, percent, cumulated percent.
func parseBRWRow(left, right []byte) (row BRWRow, why string) {
	key, left, ok := bytes.Cut(left, []byte(":"))
	if !ok {
		return row, "row without a bucket"
	}
	if row.Bucket, why = parseBRWBucket(textStrip(key)); why != "" {
		return row, why
	}
	word, _ := textWord(left)
	if row.Read, why = textUint(word); why != "" {
		return row, why
	}
	word, _ = textWord(right)
	row.Write, why = textUint(word)
	return row, why
}

// parseBRWBucket takes "512", "32K", "1M".
func parseBRWBucket(b []byte) (uint64, string) {
	shift := 0
	if len(b) > 0 {
		if i := bytes.IndexByte([]byte("KMGTPE"), b[len(b)-1]&^0x20); i >= 0 {
			shift = 10 * (i + 1)
			b = b[:len(b)-1]
		}
	}
	n, why := textUint(b)
	if why == "" && n<<shift>>shift != n {
		why = whyOverflow
	}
	if why != "" {
		return 0, why
	}
	return n << shift, ""
}

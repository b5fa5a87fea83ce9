package doctor

import (
	"strconv"
	"strings"

	"ioguard/lfs"
)

// The parts of job ids by which a jobid_name is tried: what %j is, and those of a
// process whose names are short, and as long as names of nodes and commands are.
const sampleJob = "4711"

var (
	shortParts = map[byte]string{'j': sampleJob, 'e': "a.out", 'u': "1000", 'g': "100", 'p': "23", 'h': "n1", 'H': "n1"}
	longParts  = map[byte]string{'j': sampleJob, 'e': "long_command_na", 'u': "1000", 'g': "100", 'p': "23", 'h': "rack12-chassis3-node04", 'H': "rack12-chassis3-node04"}
)

// writeJobID is the id that a client writes by a jobid_name: its first 31 bytes.
// Widths (%.8e) cut a part; blanks and unknown codes vanish.
//
// FILE: lustre/obdclass/jobid.c, jobid_interpret_string.
func writeJobID(format string, parts map[byte]string) string {
	var id strings.Builder
	for i := 0; i < len(format); i++ {
		switch c := format[i]; c {
		case ' ', '\t', '\n':
		case '%':
			i += writeCode(&id, format[i+1:], parts)
		default:
			id.WriteByte(c)
		}
	}
	text := id.String()
	return text[:min(len(text), lfs.JobIDSize)]
}

// writeCode writes the part that a code behind a % stands for, and tells how long
// the code is.
func writeCode(id *strings.Builder, code string, parts map[byte]string) int {
	n := 0
	for n < len(code) && (code[n] == '.' || code[n]-'0' <= 9) {
		n++
	}
	if n == len(code) {
		return n
	}
	part := parts[code[n]]
	if width, err := strconv.Atoi(strings.TrimPrefix(code[:n], ".")); err == nil && width < len(part) {
		part = part[:width]
	}
	id.WriteString(part)
	n++
	if n < len(code) && code[n] == '?' {
		n++
	}
	return n
}

// compound tells a jobid_name that puts the job beside other things.
func compound(format string) bool {
	return strings.Contains(writeJobID(format, map[byte]string{'j': sampleJob}), sampleJob)
}

// understood tells whether ioguard, told of a jobid_name or left to guess (""), finds
// the sample job in an id.
func understood(id, told string) bool {
	var f lfs.JobIDFormat // guesses
	if told != "" {
		var err error
		if f, err = lfs.ParseJobIDFormat(told); err != nil {
			return false
		}
	}
	found := f.Parse(id)
	return found.SlurmID == sampleJob
}

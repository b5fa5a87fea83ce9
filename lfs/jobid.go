package lfs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// JobIDSize is the longest job id that Lustre keeps: LUSTRE_JOBID_SIZE of
// lustre/include/uapi/linux/lustre/lustre_idl.h less its NUL. Longer ones are
// cut without a word.
const JobIDSize = 31

// JobID is what a job id of job_stats says. Parts that it does not say are ""
// (UID and GID: -1).
type JobID struct {
	Raw       string // decoded, as in job_stats
	SlurmID   string // "4711"; "" for a process outside of Slurm
	ArrayTask string // "7" of 4711_7
	Step      string // "batch" of 4711.batch
	UID, GID  int    // -1 where unknown
	Host      string // may be cut by the 31 bytes
	Process   string // command name (%e)
	PID       string
}

// Key is the name under which the parts of one job are summed: the Slurm number
// (with its array task), else the process and its user, else the id itself.
// Ids that differ only in host, process or step have one key.
func (j *JobID) Key() string {
	switch {
	case j.SlurmID != "" && j.ArrayTask != "":
		return j.SlurmID + "_" + j.ArrayTask
	case j.SlurmID != "":
		return j.SlurmID
	case j.Process != "" && j.UID >= 0:
		return j.Process + "." + strconv.Itoa(j.UID)
	}
	return j.Raw
}

// JobIDFormat reads job ids as a site's clients write them: jobid_name holds
// the codes of lustre/obdclass/jobid.c (%e command, %g gid, %h host, %H short
// host, %j jobid_var's value, %p pid, %u uid). The zero value guesses.
type JobIDFormat struct {
	tokens []jobIDToken
}

type jobIDToken struct {
	code byte // 0 for a literal
	lit  string
}

// ParseJobIDFormat reads a jobid_name. Widths (%.8e) and the ? of %j? are
// understood, blanks and unknown codes vanish, as the kernel does it.
func ParseJobIDFormat(format string) (JobIDFormat, error) {
	var f JobIDFormat
	for i := 0; i < len(format); i++ {
		c := format[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n':
		case c != '%':
			f.literal(c)
		default:
			i++
			for i < len(format) && (format[i] == '.' || format[i]-'0' <= 9) {
				i++
			}
			if i >= len(format) {
				return f, fmt.Errorf("jobid_name %q: ends in the middle of a %% code", format)
			}
			if strings.IndexByte("eghHjpu", format[i]) >= 0 {
				f.tokens = append(f.tokens, jobIDToken{code: format[i]})
			}
			if i+1 < len(format) && format[i+1] == '?' {
				i++
			}
		}
	}
	if len(f.tokens) == 0 {
		return f, errors.New("jobid_name is empty")
	}
	return f, nil
}

func (f *JobIDFormat) literal(c byte) {
	if n := len(f.tokens); n > 0 && f.tokens[n-1].code == 0 {
		f.tokens[n-1].lit += string(c)
		return
	}
	f.tokens = append(f.tokens, jobIDToken{lit: string(c)})
}

// Parse reads a decoded job id. An id of the environment variable alone (all
// digits, or an array task's or step's) is a Slurm job whatever the format; an
// id that does not fit the format is guessed at: digits first, then one of
// ".:@", is a Slurm job's, NAME.UID is a process outside of Slurm.
func (f JobIDFormat) Parse(raw string) JobID {
	j := JobID{Raw: raw, UID: -1, GID: -1}
	if j.slurm(raw) {
		return j
	}
	fits := func(tokens []jobIDToken) bool {
		return len(tokens) > 0 && (j.fit(tokens, false) || len(raw) >= JobIDSize && j.fit(tokens, true))
	}
	if fits(f.tokens) {
		return j
	}
	if n := digits(raw); n > 0 && n < len(raw) && strings.IndexByte(".:@", raw[n]) >= 0 {
		j.SlurmID = raw[:n]
		return j
	}
	_ = fits(guessAt) || fits(guessDefault)
	return j
}

var (
	guessAt      = []jobIDToken{{code: 'e'}, {lit: "@"}, {code: 'u'}, {lit: "@"}, {code: 'h'}}
	guessDefault = []jobIDToken{{code: 'e'}, {lit: "."}, {code: 'u'}}
)

// slurm takes what SLURM_JOB_ID and its like hold: 4711, 4711_7, 4711.batch.
func (j *JobID) slurm(s string) bool {
	n := digits(s)
	if n == 0 {
		return false
	}
	id, rest := s[:n], s[n:]
	task, step := "", ""
	if len(rest) > 1 && rest[0] == '_' {
		n = digits(rest[1:])
		if n == 0 {
			return false
		}
		task, rest = rest[1:1+n], rest[1+n:]
	}
	if len(rest) > 1 && rest[0] == '.' {
		step, rest = rest[1:], ""
		if n = digits(step); n != len(step) && step != "batch" && step != "extern" && step != "interactive" {
			return false
		}
	}
	if rest != "" {
		return false
	}
	j.SlurmID, j.ArrayTask, j.Step = id, task, step
	return true
}

// fit reads the whole id by the tokens; cut allows it to end before they do.
func (j *JobID) fit(tokens []jobIDToken, cut bool) bool {
	m := jobIDMatch{cut: cut, dead: make(map[[2]int]bool)}
	try := JobID{Raw: j.Raw, UID: -1, GID: -1}
	if !m.match(&try, tokens, j.Raw) {
		return false
	}
	*j = try
	return true
}

// jobIDMatch is one attempt. It remembers where nothing fits, so that formats
// with many codes cost no more than tokens times bytes.
type jobIDMatch struct {
	cut  bool
	dead map[[2]int]bool // tokens and bytes left
}

// match fits the tokens to s, longest command names first.
func (m *jobIDMatch) match(j *JobID, tokens []jobIDToken, s string) bool {
	if len(tokens) == 0 || s == "" && m.cut {
		return s == ""
	}
	at := [2]int{len(tokens), len(s)}
	if m.dead[at] {
		return false
	}
	t := tokens[0]
	if t.code == 0 {
		if strings.HasPrefix(s, t.lit) {
			return m.match(j, tokens[1:], s[len(t.lit):])
		}
		return m.cut && strings.HasPrefix(t.lit, s)
	}
	for n := longest(t.code, s); n >= shortest(t.code); n-- {
		try := *j
		if try.take(t.code, s[:n]) && m.match(&try, tokens[1:], s[n:]) {
			*j = try
			return true
		}
	}
	m.dead[at] = true
	return false
}

// longest is how much of s a code can take at most; ids are 31 bytes, so trying
// every length is cheap.
func longest(code byte, s string) int {
	switch code {
	case 'u', 'g', 'p':
		return digits(s)
	}
	return min(len(s), 4*JobIDSize)
}

// shortest: a job id may be empty, outside of any job.
func shortest(code byte) int {
	if code == 'j' {
		return 0
	}
	return 1
}

func (j *JobID) take(code byte, s string) bool {
	switch code {
	case 'j':
		return s == "" || j.slurm(s)
	case 'u', 'g':
		n, err := strconv.Atoi(s)
		if err != nil {
			return false
		}
		if code == 'u' {
			j.UID = n
		} else {
			j.GID = n
		}
	case 'e':
		j.Process = s
	case 'h', 'H':
		j.Host = s
	case 'p':
		j.PID = s
	}
	return true
}

// digits is how many leading bytes of s are digits.
func digits(s string) int {
	n := 0
	for n < len(s) && s[n]-'0' <= 9 {
		n++
	}
	return n
}

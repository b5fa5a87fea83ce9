package lfs

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
)

// Unparsed tells what a parser could not understand. The lines around are parsed all the same.
type Unparsed struct {
	Count int            // all of them
	Lines []UnparsedLine // the first few
}

// UnparsedLine is one line, or a part of one, that a parser could not understand.
type UnparsedLine struct {
	Line int    // counted from 1
	Text string // cut to 120 bytes, as raw as in the file: quote it before showing it
	Why  string
}

const (
	unparsedLines = 5   // lines kept
	unparsedText  = 120 // bytes kept of each
)

// Err is nil when all was understood, and else an error that names the file,
// the first line and how many there are.
func (u *Unparsed) Err(file string) error {
	if u.Count == 0 {
		return nil
	}
	l := u.Lines[0]
	return fmt.Errorf("parse %s: line %d: %s: %q (%d such in the file)", file, l.Line, l.Why, l.Text, u.Count)
}

func (u *Unparsed) add(line int, text []byte, why string) {
	u.Count++
	if len(u.Lines) < unparsedLines {
		u.Lines = append(u.Lines, UnparsedLine{line, string(text[:min(len(text), unparsedText)]), why})
	}
}

func (u *Unparsed) reset() { u.Count, u.Lines = 0, u.Lines[:0] }

// maxFile bounds what a reader takes into memory. The largest file read here is
// a few hundred KiB; a longer one is an error, since a silent cut would read as
// counters that vanished.
const maxFile = 16 << 20

// FileBuffer reads one small file after the other into the same memory.
// The zero value is ready; it serves one goroutine at a time.
type FileBuffer struct{ b []byte }

// ReadFile gives the contents of a file. They hold until the next call. A file
// of more than 16 MiB is an error.
func (f *FileBuffer) ReadFile(fsys fs.FS, name string) ([]byte, error) {
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if f.b == nil {
		f.b = make([]byte, 0, 16<<10)
	}
	b := f.b[:0]
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := file.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		f.b = b
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		if len(b) > maxFile {
			return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("more than %d bytes", maxFile)}
		}
	}
}

// readText reads a file of one value and trims it.
func readText(fsys fs.FS, name string) (string, error) {
	var f FileBuffer
	b, err := f.ReadFile(fsys, name)
	if err != nil {
		return "", err
	}
	return string(textTrim(b)), nil
}

// readNumber reads a file of one number.
func readNumber(fsys fs.FS, name string) (uint64, error) {
	s, err := readText(fsys, name)
	if err != nil {
		return 0, err
	}
	n, why := textUint([]byte(s))
	if why != "" {
		return 0, fmt.Errorf("parse %s: %s: %.40q", name, why, s)
	}
	return n, nil
}

// textTrim removes blanks, line ends and the NUL bytes that a copied sysfs file
// is filled up with.
func textTrim(b []byte) []byte { return bytes.Trim(b, " \t\r\n\x00") }

func textBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// textLine cuts the first line off b. nl is false when b ended without a newline.
func textLine(b []byte) (line, rest []byte, nl bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return b, nil, false
	}
	return b[:i], b[i+1:], true
}

// textWord cuts the first word off b; the word is empty when there is none.
func textWord(b []byte) (word, rest []byte) {
	i := 0
	for i < len(b) && textBlank(b[i]) {
		i++
	}
	j := i
	for j < len(b) && !textBlank(b[j]) {
		j++
	}
	return b[i:j], b[j:]
}

// textStrip removes blanks at both ends.
func textStrip(b []byte) []byte {
	for len(b) > 0 && textBlank(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && textBlank(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// Why a number was not taken.
const (
	whyNotNumber = "not a number"
	whyOverflow  = "number does not fit 64 bits"
	whyNegative  = "negative number"
)

// textUint is the number that b consists of; why is empty when it is one.
func textUint(b []byte) (n uint64, why string) {
	if len(b) == 0 {
		return 0, whyNotNumber
	}
	if b[0] == '-' {
		if _, why := textUint(b[1:]); why != "" {
			return 0, why
		}
		return 0, whyNegative
	}
	if len(b) <= 19 { // cannot overflow
		for _, c := range b {
			c -= '0'
			if c > 9 {
				return 0, whyNotNumber
			}
			n = n*10 + uint64(c)
		}
		return n, ""
	}
	return textLongUint(b)
}

// textLongUint is textUint for numbers that may overflow.
func textLongUint(b []byte) (n uint64, why string) {
	for _, c := range b {
		c -= '0'
		if c > 9 {
			return 0, whyNotNumber
		}
		hi, lo := bits.Mul64(n, 10)
		sum, carry := bits.Add64(lo, uint64(c), 0)
		if hi != 0 || carry != 0 {
			why = whyOverflow
		}
		n = sum
	}
	if why != "" {
		return 0, why
	}
	return n, ""
}

// textInt is textUint with a sign, for 64 bits.
func textInt(b []byte) (int64, string) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	n, why := textUint(b)
	switch {
	case why == whyNegative: // "--1"
		return 0, whyNotNumber
	case why != "":
		return 0, why
	case n > 1<<63-1:
		return 0, whyOverflow
	case neg:
		return -int64(n), ""
	}
	return int64(n), ""
}

// textUintTo stores a number where it is one.
func textUintTo(p **uint64, value []byte) string {
	n, why := textUint(value)
	if why == "" {
		*p = &n
	}
	return why
}

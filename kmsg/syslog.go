package kmsg

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// ParseSyslog parses the kernel's lines of a syslog file; the lines of programs
// are passed over. Stamps without a year get the last one in which they are not
// more than a day after ref (when the file was written), whose zone they are in;
// with a zero ref their Time is unknown. The level is not in such a file.
//
// FILE: /var/log/messages, as rsyslog and syslog-ng write it:
//
//	Jun 25 23:57:24 lustre-oss1 kernel: Lustre: Skipped 2 previous similar messages
//	Jan 15 17:22:28 node1 kernel: [ 1965.994953] infiniband rxe0: set down
//	2025-01-15T17:22:28.123456+01:00 node1 kernel: [ 1965.994953][  T324] infiniband rxe0: set down
func ParseSyslog(b []byte, ref time.Time) ([]Message, Unparsed) {
	var bad Unparsed
	text := string(b)
	var messages []Message
	p := syslogParser{ref: ref}
	for n := 1; len(text) > 0; n++ {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		t, rest, ok := p.stamp(line)
		if !ok {
			bad.add(n, line, "no stamp")
			continue
		}
		_, rest, _ = strings.Cut(rest, " ") // the host
		rest, ok = strings.CutPrefix(rest, "kernel:")
		if !ok {
			continue
		}
		m := Message{Boot: UnknownBoot, Level: UnknownLevel}
		m.Text = strings.TrimPrefix(rest, " ")
		if rest, ok := m.stamp(m.Text, time.UTC); ok && m.Boot >= 0 {
			m.Text = strings.TrimPrefix(caller(rest), " ")
		}
		m.Time = t
		messages = append(messages, m)
	}
	return messages, bad
}

// syslogParser keeps the last stamp: many lines share a second.
type syslogParser struct {
	ref  time.Time
	last string
	time time.Time
}

// stamp cuts the stamp off a line.
func (p *syslogParser) stamp(line string) (t time.Time, rest string, ok bool) {
	if len(line) > 16 && line[3] == ' ' && line[15] == ' ' {
		stamp := line[:15]
		if stamp == p.last {
			return p.time, line[16:], true
		}
		d, ok := dayOfYear(stamp)
		if !ok {
			return t, line, false
		}
		p.last, p.time = stamp, time.Time{}
		if !p.ref.IsZero() {
			p.time = d.near(p.ref)
		}
		return p.time, line[16:], true
	}
	stamp, rest, found := strings.Cut(line, " ")
	t, ok = rfc3339(stamp)
	return t, rest, ok && found
}

// ParseJournal parses the kernel's entries of journalctl -o json, one a line;
// those of programs are passed over. A text that is no UTF-8 is an array of bytes
// there, and one above 4 KiB null. It never fails: see Unparsed.
//
// FILE: systemd src/shared/logs-show.c, output_json:
//
//	{"MESSAGE":"infiniband rxe0: set down","PRIORITY":"6","_TRANSPORT":"kernel","_SOURCE_MONOTONIC_TIMESTAMP":"1965994953","__REALTIME_TIMESTAMP":"1795242636005293"}
func ParseJournal(b []byte) ([]Message, Unparsed) {
	var bad Unparsed
	var messages []Message
	text := string(b)
	for n := 1; len(text) > 0; n++ {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "-- ") {
			continue
		}
		var e journalEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			bad.add(n, line, "not a JSON object")
			continue
		}
		if e.Transport == "" || e.Transport == "kernel" {
			messages = append(messages, e.message())
		}
	}
	return messages, bad
}

type journalEntry struct {
	Message   journalField `json:"MESSAGE"`
	Priority  journalField `json:"PRIORITY"`
	Facility  journalField `json:"SYSLOG_FACILITY"`
	Transport journalField `json:"_TRANSPORT"`
	Boot      journalField `json:"_SOURCE_MONOTONIC_TIMESTAMP"`
	Time      journalField `json:"__REALTIME_TIMESTAMP"`
}

func (e *journalEntry) message() Message {
	m := Message{Boot: UnknownBoot, Level: UnknownLevel, Text: string(e.Message)}
	m.User = e.Facility != "" && e.Facility != "0"
	if n, ok := number(string(e.Priority)); ok && n < 8 {
		m.Level = int(n)
	}
	if n, ok := number(string(e.Boot)); ok && n <= maxMicroseconds {
		m.Boot = time.Duration(n) * time.Microsecond
	}
	if n, ok := number(string(e.Time)); ok && n <= maxMicroseconds {
		m.Time = time.UnixMicro(int64(n)).UTC()
	}
	return m
}

// journalField is a string, null, an array of bytes, or an array of these where
// the entry has the field more than once.
type journalField string

func (f *journalField) UnmarshalJSON(b []byte) error {
	var ok bool
	if *f, ok = journalValue(b); ok || len(b) == 0 || b[0] != '[' {
		return nil
	}
	var all []json.RawMessage
	if json.Unmarshal(b, &all) == nil && len(all) > 0 {
		*f, _ = journalValue(all[0])
	}
	return nil
}

// plainString is what stands between the quotes of a string without any escape;
// most are, and to decode them once more is half of the work.
func plainString(b []byte) ([]byte, bool) {
	if len(b) < 2 || b[0] != '"' || b[len(b)-1] != '"' {
		return nil, false
	}
	in := b[1 : len(b)-1]
	return in, !bytes.ContainsAny(in, "\\\"") && utf8.Valid(in)
}

// journalValue is one string or array of bytes.
func journalValue(b []byte) (journalField, bool) {
	if in, ok := plainString(b); ok {
		return journalField(in), true
	}
	var s string
	if json.Unmarshal(b, &s) == nil {
		return journalField(s), true
	}
	var numbers []uint16 // of []byte json would want base64
	if json.Unmarshal(b, &numbers) != nil {
		return "", false
	}
	raw := make([]byte, len(numbers))
	for i, v := range numbers {
		raw[i] = byte(v)
	}
	return journalField(raw), true
}

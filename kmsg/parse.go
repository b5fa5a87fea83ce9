package kmsg

import (
	"strconv"
	"strings"
	"time"
)

// ParseKmsg parses records of /dev/kmsg. It never fails: see Unparsed.
//
// FILE: kernel/printk/printk.c, info_print_ext_header and msg_add_ext_text: priority,
// sequence number, microseconds since boot, flags, perhaps the caller; then the
// text, with control bytes, backslashes and bytes above ASCII as \xHH. Lines that
// begin with a blank are properties of the record before:
//
//	6,700,1965994953,-;infiniband rxe0: set down
//	 SUBSYSTEM=infiniband
//	4,704,1966005293,-,caller=T42;eth1 speed is unknown, defaulting to 1000
func ParseKmsg(b []byte) ([]Message, Unparsed) {
	var bad Unparsed
	text := string(b) // once; messages are parts of it
	messages := make([]Message, 0, min(strings.Count(text, "\n"), len(text)/32)+1)
	for n := 1; len(text) > 0; n++ {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		if line == "" || line[0] == ' ' {
			continue
		}
		m, flags, why := kmsgRecord(line)
		if why != "" {
			bad.add(n, line, why)
			continue
		}
		if strings.HasPrefix(flags, "+") { // up to Linux 4.9: the rest of a line
			if !continueLast(messages, m.Text) {
				bad.add(n, line, "the rest of no line")
			}
			continue
		}
		messages = append(messages, m)
	}
	return messages, bad
}

// longestLine bounds what is put together; the kernel's own bound is 1024 bytes.
const longestLine = 8192

// continueLast adds to the last message. What has no beginning is no message: its
// first words could be anybody's.
func continueLast(messages []Message, text string) bool {
	if len(messages) == 0 {
		return false
	}
	last := &messages[len(messages)-1]
	if len(last.Text)+len(text) > longestLine {
		return false
	}
	last.Text += text
	return true
}

func kmsgRecord(line string) (m Message, flags, why string) {
	head, text, ok := strings.Cut(line, ";")
	if !ok {
		return m, "", "not a record"
	}
	prio, head, _ := strings.Cut(head, ",")
	seq, head, _ := strings.Cut(head, ",")
	usec, flags, _ := strings.Cut(head, ",")
	p, ok1 := number(prio)
	s, ok2 := number(seq)
	u, ok3 := number(usec)
	if !ok1 || !ok2 || !ok3 || u > maxMicroseconds {
		return m, "", "no priority, sequence number and time"
	}
	return Message{Seq: s, Boot: time.Duration(u) * time.Microsecond, Level: int(p & 7), User: p>>3 != 0, Text: unescape(text)}, flags, ""
}

// maxMicroseconds is what a time.Duration holds.
const maxMicroseconds = (1<<63 - 1) / 1000

// number parses digits alone; strconv would take a sign, and its error allocates.
func number(s string) (uint64, bool) {
	if s == "" || len(s) > 19 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + uint64(s[i]-'0')
	}
	return n, true
}

// unescape undoes \xHH.
func unescape(s string) string {
	i := strings.Index(s, `\x`)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for ; i >= 0; i = strings.Index(s, `\x`) {
		b.WriteString(s[:i])
		s = s[i:]
		v, err := strconv.ParseUint(s[2:min(4, len(s))], 16, 8)
		if err != nil || len(s) < 4 {
			b.WriteString(s[:2])
			s = s[2:]
			continue
		}
		b.WriteByte(byte(v))
		s = s[4:]
	}
	b.WriteString(s)
	return b.String()
}

// ParseDmesg parses what dmesg prints, in any of its forms and line by line. The
// wall clock of dmesg -T is of the zone loc, nil for UTC. It never fails: a line
// without any stamp belongs to the message before it, and where there are no
// stamps at all each line is a message.
//
// FILE: kernel/printk/printk.c, print_time and print_caller, and util-linux
// sys-utils/dmesg.c, print_record:
//
//	<3>[  533.410353] LNetError: 1711:0:(lib-move.c:2320:lnet_handle_find_routed_path()) peer 10.77.0.1@tcp has no available nets
//	kern  :info  : [ 1965.994953] infiniband rxe0: set down
//	[Wed Jan 15 17:22:28 2025] Lustre: Skipped 1 previous similar message
//	[    0.000000][    T0] Linux version 6.1.0-50-amd64
func ParseDmesg(b []byte, loc *time.Location) []Message {
	if loc == nil {
		loc = time.UTC
	}
	text := string(b)
	messages := make([]Message, 0, min(strings.Count(text, "\n"), len(text)/16)+1)
	p := dmesgParser{loc: loc}
	for at := 0; at < len(text); {
		end := len(text)
		if i := strings.IndexByte(text[at:], '\n'); i >= 0 {
			end = at + i
		}
		line := strings.TrimSuffix(text[at:end], "\r")
		m, own := p.line(line)
		switch {
		case own:
			messages = append(messages, m)
			p.begun = end - len(m.Text) - (end - at - len(line))
		case line != "" && p.stamped && len(messages) > 0:
			messages[len(messages)-1].Text = text[p.begun : at+len(line)]
		case line != "":
			messages = append(messages, m)
			p.begun = at
		}
		at = end + 1
	}
	return messages
}

type dmesgParser struct {
	loc     *time.Location
	stamped bool // a line with a stamp has been seen
	begun   int  // where the last message's text begins
}

// line parses one line; own tells that it begins a message.
func (p *dmesgParser) line(line string) (m Message, own bool) {
	m = Message{Boot: UnknownBoot, Level: UnknownLevel, Text: line}
	rest, leveled := m.priority(line)
	rest, stamped := m.stamp(rest, p.loc)
	if stamped {
		p.stamped = true
		rest = strings.TrimPrefix(caller(rest), " ")
	}
	if !stamped && !leveled {
		return m, false
	}
	m.Text = rest
	return m, true
}

// priority takes "<3>" or "kern  :err   : ".
func (m *Message) priority(s string) (rest string, ok bool) {
	if strings.HasPrefix(s, "<") {
		digits, rest, ok := strings.Cut(s[1:min(len(s), 6)], ">")
		p, isNumber := number(digits)
		if !ok || !isNumber {
			return s, false
		}
		m.Level, m.User = int(p&7), p>>3 != 0
		return s[len(s[:min(len(s), 6)])-len(rest):], true
	}
	facility, after, ok := strings.Cut(s[:min(len(s), 24)], ":")
	level, after, ok2 := strings.Cut(after, ":")
	if !ok || !ok2 || len(facility) < 4 || len(level) < 3 {
		return s, false
	}
	n := levelNumber(strings.TrimRight(level, " "))
	facility = strings.TrimRight(facility, " ")
	if n == UnknownLevel || strings.ContainsAny(facility, " []") {
		return s, false
	}
	m.Level, m.User = n, facility != "kern"
	return strings.TrimPrefix(s[min(len(s), 24)-len(after):], " "), true
}

func levelNumber(name string) int {
	for i, l := range [...]string{"emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"} {
		if name == l {
			return i
		}
	}
	return UnknownLevel
}

// stamp takes "[ 1965.994953]", "[Wed Jan 15 17:22:28 2025]" or dmesg's ISO 8601.
func (m *Message) stamp(s string, loc *time.Location) (rest string, ok bool) {
	if !strings.HasPrefix(s, "[") {
		word, rest, found := strings.Cut(s, " ")
		if t, ok := rfc3339(word); ok && found {
			m.Time = t
			return " " + rest, true
		}
		return s, false
	}
	in, rest, found := strings.Cut(s[1:min(len(s), 40)], "]")
	if !found {
		return s, false
	}
	rest = s[min(len(s), 40)-len(rest):]
	if boot, ok := bootTime(strings.TrimLeft(in, " ")); ok {
		m.Boot = boot
		return rest, true
	}
	if t, ok := ctime(in, loc); ok {
		m.Time = t
		return rest, true
	}
	return s, false
}

// bootTime parses seconds with a fraction: "1965.994953".
func bootTime(s string) (time.Duration, bool) {
	whole, fraction, ok := strings.Cut(s, ".")
	sec, ok1 := number(whole)
	f, ok2 := number(fraction)
	if !ok || !ok1 || !ok2 || len(fraction) > 9 || sec >= maxMicroseconds/1_000_000 {
		return 0, false
	}
	for range 9 - len(fraction) {
		f *= 10
	}
	return time.Duration(sec)*time.Second + time.Duration(f), true
}

// caller drops the field of CONFIG_PRINTK_CALLER, "[ T123]" or "[    C0]", which
// stands right behind the stamp, or in util-linux one blank behind it.
func caller(s string) string {
	in, ok := strings.CutPrefix(strings.TrimPrefix(s, " "), "[")
	if !ok {
		return s
	}
	in, rest, ok := strings.Cut(in, "]")
	if !ok || len(in) > 16 {
		return s
	}
	in = strings.TrimLeft(in, " ")
	if len(in) < 2 || in[0] != 'T' && in[0] != 'C' {
		return s
	}
	if _, ok := number(in[1:]); !ok {
		return s
	}
	return rest
}

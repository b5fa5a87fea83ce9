// Package kmsg reads the kernel's log and tells what in it is about storage or
// fabric: lost connections, evictions, requests without an answer, assertions,
// adapters that died. It understands the records of /dev/kmsg, the forms of
// dmesg, syslog files and journald, live and recorded.
//
// It never writes a log, never waits for more of one, and judges nothing: an
// Event is what the kernel said, not that the node is ill. All text is hostile
// input, since job ids, task names and file names get into the kernel's log: what
// an event is, is told by the beginning of the message alone, and every text is
// as raw as the kernel had it.
//
// The node check in the Slurm prolog calls Read with the Cursor of its last run;
// incident triage calls the parsers and Classify with whole logs.
package kmsg

import "time"

// Message is one message of the kernel's log.
type Message struct {
	Seq   uint64        // the kernel's number; 0 where the source has none
	Boot  time.Duration // since boot, without the time suspended; UnknownBoot where the source has none
	Time  time.Time     // wall clock; the parsers leave it zero where the source has none, Read adds Boot to the time of boot
	Level int           // 0 emergency, 3 error, 4 warning, 6 information, 7 debug; UnknownLevel
	User  bool          // known to be written into the log by a process, not by the kernel
	Text  string        // without stamp and level; may hold newlines. Show it through view.Safe
}

// Boot and Level of messages whose source does not tell.
const (
	UnknownBoot  time.Duration = -1
	UnknownLevel int           = -1
)

// Unparsed tells what a parser could not understand. The lines around are parsed all the same.
type Unparsed struct {
	Count int            // all of them
	Lines []UnparsedLine // the first few
}

// UnparsedLine is one line that a parser could not understand.
type UnparsedLine struct {
	Line int    // counted from 1
	Text string // cut to 120 bytes, as raw as in the log
	Why  string
}

const (
	unparsedLines = 5   // lines kept
	unparsedText  = 120 // bytes kept of each
)

func (u *Unparsed) add(line int, text, why string) {
	u.Count++
	if len(u.Lines) < unparsedLines {
		u.Lines = append(u.Lines, UnparsedLine{line, text[:min(len(text), unparsedText)], why})
	}
}

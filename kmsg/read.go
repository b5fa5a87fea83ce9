package kmsg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"ioguard/host"
)

// Log is what was read of a machine's log.
type Log struct {
	Messages []Message // since the cursor, in the order of the log
	Source   string    // "/dev/kmsg", "journald", "dmesg", "var/log/messages", ...
	Cursor   Cursor    // where the next Read goes on
	Lost     bool      // messages were overwritten before they were read
	Rebooted bool      // the cursor is of an earlier boot
	Unparsed Unparsed
}

// source is a place where a machine keeps the kernel's log.
type source struct {
	name string
	read func(context.Context, *host.Host, Cursor) ([]Message, Unparsed, error)
}

const kernelLog = "/dev/kmsg"

// sources are asked in this order. The first costs no process and is the only
// one with sequence numbers. dmesg -r is before -x and the plain form, which
// tells no level.
var sources = []source{
	{kernelLog, readKmsg},
	{"journald", readJournal},
	{"dmesg", dmesg("-r")},
	{"dmesg", dmesg("-x")},
	{"dmesg", dmesg()},
	{"dmesg", dmesg("-T")},
	{"var/log/messages", syslog("var/log/messages")},
	{"var/log/kern.log", syslog("var/log/kern.log")},
	{"var/log/syslog", syslog("var/log/syslog")},
}

// Read reads the messages since a cursor; the zero cursor is a first run and gives
// all there are. After a reboot the cursor is void, and all messages of the new
// boot are given. Where no source can be read the error is that of the first which
// exists, or wraps fs.ErrNotExist; the cursor is worth keeping then. A log without
// any message is no error.
func Read(ctx context.Context, h *host.Host, since Cursor) (*Log, error) {
	boot := bootID(h)
	rebooted := since.BootID != "" && boot != "" && !sameBoot(since.BootID, boot)
	if rebooted {
		since = Cursor{Time: since.Time, Same: since.Same}
	}
	var empty *Log
	var failure error
	for _, s := range sources {
		messages, bad, err := s.read(ctx, h, since)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read kernel log: %w", ctx.Err())
		}
		if err != nil {
			if failure == nil && !errors.Is(err, fs.ErrNotExist) {
				failure = err
			}
			continue
		}
		l := &Log{Source: s.name, Unparsed: bad, Rebooted: rebooted}
		if len(messages) > 0 {
			l.cut(messages, since, boot)
			l.tellTime(h)
			return l, nil
		}
		if empty == nil {
			l.Cursor = since
			l.Cursor.BootID = boot
			empty = l
		}
		if h.Time.IsZero() && s.name == kernelLog {
			return empty, nil // what others know they have from there
		}
	}
	switch {
	case empty != nil:
		return empty, nil
	case failure != nil:
		return nil, fmt.Errorf("read kernel log: %w", failure)
	}
	return nil, fmt.Errorf("read kernel log: neither /dev/kmsg nor dmesg nor a log file: %w", fs.ErrNotExist)
}

// cut takes the messages since a cursor and moves it on.
func (l *Log) cut(all []Message, since Cursor, boot string) {
	l.Messages, l.Lost = since.after(all)
	if l.Rebooted && all[0].Seq > 0 {
		l.Lost = true
	}
	l.Cursor = cursorAt(all)
	l.Cursor.BootID = boot
	if more := len(l.Messages) - maxMessages; more > 0 {
		l.Messages = l.Messages[more:]
		l.Lost = l.Lost || since != Cursor{}
	}
}

// maxMessages bounds what is given; a log of the default size holds a tenth of them.
const maxMessages = 20_000

// tellTime fills in the wall clock of messages that tell only the time since boot.
func (l *Log) tellTime(h *host.Host) {
	var booted time.Time
	for i := range l.Messages {
		m := &l.Messages[i]
		if !m.Time.IsZero() || m.Boot < 0 {
			continue
		}
		if booted.IsZero() {
			var ok bool
			if booted, ok = wallOfBoot(h); !ok {
				return
			}
		}
		m.Time = booted.Add(m.Boot)
	}
}

// wallOfBoot is the wall clock at boot. A recording may lack proc/stat; proc/uptime
// comes second, since it is of the moment of its reading, which in a machine put
// together from several may be another than the machine's.
func wallOfBoot(h *host.Host) (time.Time, bool) {
	if t, ok := bootedAt(h); ok || h.Time.Unix() <= 0 {
		return t, ok
	}
	b, err := h.ReadFile("proc/uptime")
	if err != nil {
		return time.Time{}, false
	}
	seconds, _, _ := strings.Cut(string(b), " ")
	up, ok := bootTime(seconds)
	return h.Time.Add(-up), ok
}

func readKmsg(_ context.Context, h *host.Host, _ Cursor) ([]Message, Unparsed, error) {
	log, err := h.KernelLog()
	if err != nil {
		return nil, Unparsed{}, err
	}
	defer log.Close()
	b, err := readRecords(log, limit(h))
	if err != nil {
		return nil, Unparsed{}, err
	}
	messages, bad := ParseKmsg(b)
	return messages, bad, nil
}

// readRecords is io.ReadAll with room for a whole record in each read, and an end.
func readRecords(r io.Reader, limit int64) ([]byte, error) {
	const record = 8192
	b := make([]byte, 0, 16*record)
	for {
		if cap(b)-len(b) < record {
			b = append(make([]byte, 0, 2*cap(b)), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, err
		case int64(len(b)) > limit:
			return nil, &host.SizeError{Name: "dev/kmsg", Size: -1, Limit: limit}
		}
	}
}

func limit(h *host.Host) int64 {
	if h.ReadLimit > 0 {
		return h.ReadLimit
	}
	return host.DefaultReadLimit
}

// journalMargin is how far before the cursor journald is asked: the time of boot
// and the kernel's clock drift apart, and the message of the cursor should be among
// the answer, to tell that nothing is missing.
const journalMargin = 2 * time.Minute

func readJournal(ctx context.Context, h *host.Host, since Cursor) ([]Message, Unparsed, error) {
	args := []string{"-k", "-o", "json", "--no-pager", "-b"}
	if t := since.wallClock(h); !t.IsZero() && h.Time.IsZero() {
		args = append(args, "--since=@"+strconv.FormatInt(t.Add(-journalMargin).Unix(), 10))
	}
	out, err := h.Run(ctx, "journalctl", args...)
	if err != nil {
		return nil, Unparsed{}, err
	}
	messages, bad := ParseJournal(out)
	return messages, bad, nil
}

func dmesg(args ...string) func(context.Context, *host.Host, Cursor) ([]Message, Unparsed, error) {
	return func(ctx context.Context, h *host.Host, _ Cursor) ([]Message, Unparsed, error) {
		out, err := h.Run(ctx, "dmesg", args...)
		if err != nil {
			return nil, Unparsed{}, err
		}
		return ParseDmesg(out, zone(h)), Unparsed{}, nil
	}
}

// zone is that of a machine's local times. Recordings do not tell it: UTC then.
func zone(h *host.Host) *time.Location {
	if h.Time.IsZero() {
		return time.Local
	}
	return time.UTC
}

// syslog reads a log file. Its last line was written when the file changed last;
// a recording that does not keep that time was made later than its last line.
func syslog(name string) func(context.Context, *host.Host, Cursor) ([]Message, Unparsed, error) {
	return func(_ context.Context, h *host.Host, _ Cursor) ([]Message, Unparsed, error) {
		b, err := h.ReadFile(name)
		if err != nil {
			return nil, Unparsed{}, err
		}
		ref := h.Time
		if ref.Unix() <= 0 {
			ref = time.Time{}
			if st, err := fs.Stat(h.FS, name); err == nil && st.ModTime().Unix() > 0 {
				ref = st.ModTime()
			}
		}
		messages, bad := ParseSyslog(b, ref)
		return messages, bad, nil
	}
}

// bootID tells one boot of a machine from another: the kernel's random id, else
// the time of boot as "btime:SECONDS"; "" where neither can be read.
func bootID(h *host.Host) string {
	if b, err := h.ReadFile("proc/sys/kernel/random/boot_id"); err == nil {
		if id := strings.TrimSpace(string(b)); id != "" && len(id) <= 64 {
			return id
		}
	}
	if t, ok := bootedAt(h); ok {
		return bootTimePrefix + strconv.FormatInt(t.Unix(), 10)
	}
	return ""
}

const bootTimePrefix = "btime:"

// bootedAt reads btime of proc/stat.
func bootedAt(h *host.Host) (time.Time, bool) {
	b, err := h.ReadFile("proc/stat")
	if err != nil {
		return time.Time{}, false
	}
	_, after, ok := bytes.Cut(b, []byte("\nbtime "))
	if !ok {
		return time.Time{}, false
	}
	line, _, _ := bytes.Cut(after, []byte("\n"))
	n, ok := number(string(bytes.TrimSpace(line)))
	return time.Unix(int64(n), 0), ok && n < 1<<40
}

// sameBoot compares two bootIDs. The time of boot moves when the clock is set; a
// boot takes longer than it is set by.
func sameBoot(a, b string) bool {
	x, ok1 := strings.CutPrefix(a, bootTimePrefix)
	y, ok2 := strings.CutPrefix(b, bootTimePrefix)
	if !ok1 || !ok2 {
		return a == b
	}
	m, ok1 := number(x)
	n, ok2 := number(y)
	return ok1 && ok2 && max(m, n)-min(m, n) <= 60
}

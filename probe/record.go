package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// begun is the first line of a probe, written before it touches the mount.
type begun struct {
	PID        int       `json:"pid"`
	StartTicks uint64    `json:"start_ticks"` // field 22 of /proc/PID/stat
	BootID     string    `json:"boot_id"`
	Mount      string    `json:"mount"` // for people: JSON cannot hold every path
	Since      time.Time `json:"since"`
	Usec       int64     `json:"begun_usec"` // CLOCK_MONOTONIC: wall clocks jump when a node has booted
}

// ended is its second and last.
type ended struct {
	Usec  int64  `json:"ended_usec"`
	Call  string `json:"call,omitempty"` // the one that failed
	Errno int    `json:"errno,omitempty"`
	Seen
}

type line struct {
	Begun *begun `json:"begun,omitempty"`
	Ended *ended `json:"ended,omitempty"`
}

// record is what a lock file says. ended is nil while the probe is at work, and
// begun too before it got that far.
type record struct {
	begun *begun
	ended *ended
}

// recordLimit bounds a lock file, bytes: a path in JSON is at most six times as long.
const recordLimit = 32 << 10

// parseRecord reads a lock file. A line that is cut (the disk is full) or garbage
// is no line.
//
//	{"begun":{"pid":4711,"start_ticks":8713,"boot_id":"0d6c...","mount":"/lustre","since":"2026-11-21T12:00:00Z","begun_usec":87130000}}
//	{"ended":{"ended_usec":87130912,"fs_type":198183888,"device":47,"inode":144115188193296385,"statfs_usec":610,"stat_usec":280}}
//	{"ended":{"ended_usec":87130912,"call":"statfs","errno":107,"fs_type":0,"device":0,"inode":0,"statfs_usec":12,"stat_usec":0}}
func parseRecord(b []byte) record {
	var r record
	for text := range bytes.Lines(b) {
		l, ok := parseLine(text)
		switch {
		case !ok:
		case l.Begun != nil:
			r = record{begun: l.Begun}
		case r.begun != nil && r.ended == nil && l.Ended.Usec >= r.begun.Usec:
			r.ended = l.Ended
		}
	}
	return r
}

// parseLine reads one line, which holds either part.
func parseLine(text []byte) (line, bool) {
	var l line
	if !bytes.HasSuffix(text, []byte("\n")) || json.Unmarshal(text, &l) != nil {
		return line{}, false
	}
	return l, (l.Begun == nil) != (l.Ended == nil) && l.Begun.valid() && l.Ended.valid()
}

func (b *begun) valid() bool {
	return b == nil || b.PID > 0 && b.Usec > 0 && b.BootID != "" && !b.Since.IsZero()
}

func (e *ended) valid() bool {
	switch {
	case e == nil:
		return true
	case e.Usec <= 0 || e.StatfsUsec < 0 || e.StatUsec < 0:
		return false
	case e.Errno == 0:
		return e.Call == ""
	}
	return e.Errno > 0 && e.Errno < 4096 && (e.Call == "statfs" || e.Call == "stat")
}

// answer is what a finished probe found.
func (r record) answer(mount string) Answer {
	a := Answer{PID: r.begun.PID, Since: r.begun.Since, Took: usec(r.ended.StatfsUsec) + usec(r.ended.StatUsec)}
	if r.ended.Errno != 0 {
		a.Err = fmt.Errorf("%s %q: %w", r.ended.Call, mount, syscall.Errno(r.ended.Errno))
		return a
	}
	a.OK, a.Seen = true, r.ended.Seen
	return a
}

// How a probe is doing.
const (
	gone    = iota // ended, or another process has its number
	waiting        // in whatever way: one that waits in a Lustre RPC is I or S, not always D
	stopped        // by SIGSTOP or a debugger, outside of any wait for the mount
	starved        // it could run, and the machine or its cgroup's quota does not let it
)

// state looks at the process.
func (b *begun) state() int {
	for range 3 { // one that waits may wake for a moment
		if s := b.stateNow(); s != starved {
			return s
		}
		time.Sleep(firstPoll)
	}
	return starved
}

// stateNow reads /proc/PID/stat, which never waits for the process, unlike cmdline
// and environ.
func (b *begun) stateNow() int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(b.PID) + "/stat")
	if err != nil {
		return gone
	}
	letter, ticks, ok := parseStat(text)
	switch {
	case !ok || ticks != b.StartTicks || strings.Contains("ZXx", letter):
		return gone
	case strings.Contains("Tt", letter):
		return stopped
	case letter == "R":
		return starved
	}
	return waiting
}

// parseStat picks state and start time, clock ticks since boot, out of
// /proc/PID/stat (do_task_stat in fs/proc/array.c). The name may hold anything:
//
//	4711 (ioguard-probe) D 1 4711 4711 0 -1 4194560 209 0 0 0 0 0 0 0 20 0 5 0 8713 1237000192 ...
//	4712 (a) S 1 (b)) S 1 4712 4712 0 -1 ...
func parseStat(text []byte) (state string, startTicks uint64, ok bool) {
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 || len(fields[0]) != 1 {
		return "", 0, false
	}
	startTicks, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return "", 0, false
	}
	return fields[0], startTicks, true
}

func readBootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text)), err
}

// monotonicUsec is the same clock for all processes of a boot.
func monotonicUsec() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every Linux has it
	}
	return ts.Nano() / 1000
}

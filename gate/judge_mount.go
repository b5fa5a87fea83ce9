package gate

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"ioguard/lfs"
)

var mountCodes = []string{"mount-hang", "mount-error"}

// mounts judges what the probes of the mounts said.
func (j *judge) mounts() {
	mounts := j.seen.Mounts.Value
	if unread(j, &j.seen.Mounts, false, mountCodes...) {
		return
	}
	switch {
	case len(mounts) == 0:
		j.without(Skipped, "no Lustre is mounted, and gate.mounts names no other", mountCodes...)
		return
	case j.seen.Recorded:
		j.without(Skipped, "a recorded machine's mounts cannot be asked", mountCodes...)
		return
	}
	asked := 0
	var took time.Duration
	for _, m := range mounts {
		a := j.seen.Probes[m.Dir]
		switch {
		case a == nil:
			j.without(Skipped, m.Dir+" was not asked: the connections of "+m.FS+" already say no", mountCodes...)
		case !a.Done:
			j.without(Unknown, m.Dir+": no verdict in time", mountCodes...)
		case a.Value.Skipped != "":
			j.without(Unknown, m.Dir+" could not be asked: "+a.Value.Skipped, mountCodes...)
		case a.Value.Stuck:
			j.found(mountFinding("mount-hang", m, fmt.Sprintf("stuck since %s (process %d)", clock(a.Value.Since, j.seen.Now), a.Value.PID), a.Value.Since))
		case a.Value.Err != nil && !answered(a.Value.Err):
			j.found(mountFinding("mount-error", m, a.Value.Err.Error(), time.Time{}))
		default:
			asked++
			took = max(took, a.Value.Took)
		}
	}
	for _, code := range mountCodes {
		if o := j.out[code]; o.Status == OK {
			j.ok(code, "%s answered within %s", plural(asked, "mount", "mounts"), took.Round(10*time.Microsecond))
		}
	}
}

// answered tells errors that come from a server that is well: root may have no
// rights on a file system of users.
func answered(err error) bool {
	return errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM)
}

func mountFinding(code string, m lfs.Mount, seen string, since time.Time) Finding {
	brief := "hung " + m.Dir
	if code == "mount-error" {
		brief = "error " + m.Dir
	}
	f := Finding{Check: code, Subject: m.Dir, Seen: seen, Expected: "an answer", Since: since, brief: brief + " " + strings.TrimPrefix(seen, "stuck ")}
	f.Shared = []string{"mount:" + keyWord(m.Dir)}
	if m.FS != "" {
		f.FS, f.Shared = []string{m.FS}, []string{"fs:" + m.FS}
	}
	return f
}

// keyWord is a name as one word of a node's reason.
func keyWord(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '[' || r == ']' || r == 0x7f {
			return '_'
		}
		return r
	}, s)
}

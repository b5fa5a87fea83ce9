package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	defaultDeadline = 2 * time.Second
	defaultFresh    = time.Second
	// leastPatience: a mount that had less time than this, as the caller's own time
	// ran out, is not called stuck.
	leastPatience = 500 * time.Millisecond
	// Who waits for another's probe looks again this often.
	firstPoll, lastPoll = time.Millisecond, 20 * time.Millisecond
)

// Config says how to ask.
type Config struct {
	// Program and its arguments start the probe; the mount follows as the last one.
	// Empty: this program again, with "probe".
	Program []string
	// Dir keeps one small file per mount. It is created, 0700; one that is a link,
	// another's or writable by others is refused.
	Dir string
	// Deadline is how long a mount may take to answer, counted from when it is
	// asked. 0: two seconds. A context that ends earlier ends the wait earlier.
	Deadline time.Duration
	// Fresh is how long a good answer counts for all. 0: one second; below 0: not at all.
	Fresh time.Duration
}

// Seen is what the probe saw.
type Seen struct {
	FSType     int64  `json:"fs_type"` // f_type of statfs: 0x0bd00bd0 is Lustre
	Device     uint64 `json:"device"`  // st_dev and st_ino of the mount's root
	Inode      uint64 `json:"inode"`
	StatfsUsec int64  `json:"statfs_usec"`
	StatUsec   int64  `json:"stat_usec"`
}

// Answer is what is known of the mount. Exactly one of OK, Err, Stuck and Skipped is set.
type Answer struct {
	Mount string
	// OK: statfs and stat of the mount's root came back without an error. A mount
	// point with nothing mounted is OK too: see Seen.FSType.
	OK   bool
	Seen Seen          // where OK
	Took time.Duration // statfs and stat together; how long it has hung where Stuck
	// Err is the error of statfs or stat, which wraps a syscall.Errno: ENOTCONN,
	// ESHUTDOWN, EIO, EACCES, ENOENT.
	Err   error
	Stuck bool      // asked, and no answer within the deadline
	Since time.Time // when the mount was asked; zero where Skipped
	PID   int       // the probe; it may be gone, except where Stuck
	// Shared: another's probe found this out.
	Shared bool
	// Skipped is why nothing was proved, and "" where something was.
	Skipped string
}

// Run asks a mount. It returns at the latest a little after the deadline, and what
// it leaves behind keeps no caller from exiting. A caller that lives on buries a
// late probe when it ends.
func Run(ctx context.Context, c Config, mount string) Answer {
	a := run(ctx, c, mount)
	a.Mount = mount
	return a
}

func run(ctx context.Context, c Config, mount string) Answer {
	q, err := newQuestion(c, mount)
	if err != nil {
		return skipped("%v", err)
	}
	defer q.dir.Close()
	poll := time.NewTimer(0)
	defer poll.Stop()
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return q.gaveUp(ctx)
		}
		if a, ok := q.try(ctx); ok {
			return a
		}
		poll.Reset(wait)
	}
}

// question is one call of Run.
type question struct {
	Config
	mount  string
	dir    *os.File
	file   string // in dir
	bootID string
	asked  int64  // by monotonicUsec
	held   record // what the file said when the lock was last found held
}

func newQuestion(c Config, mount string) (*question, error) {
	if len(c.Program) == 0 {
		c.Program = []string{thisProgram, "probe"}
	}
	if c.Deadline <= 0 {
		c.Deadline = defaultDeadline
	}
	if c.Fresh == 0 {
		c.Fresh = defaultFresh
	}
	q := &question{Config: c, mount: mount, asked: monotonicUsec()}
	if len(mount) > 1 {
		q.mount = "/" + strings.Trim(mount, "/") // one lock, however it is written
	}
	if !filepath.IsAbs(mount) || strings.ContainsRune(mount, 0) {
		return nil, fmt.Errorf("mount %q is not an absolute path", mount)
	}
	if os.Getenv(lockVariable) != "" {
		// A program that does not call Main, as the tests of a package that asks,
		// would start itself over and over.
		return nil, errors.New("this is a probe itself: main does not call probe.Main")
	}
	if err := q.keepOff(); err != nil {
		return nil, err
	}
	var err error
	if q.bootID, err = readBootID(); err != nil {
		return nil, fmt.Errorf("read boot id: %w", err)
	}
	q.file = fileName(q.mount)
	q.dir, err = openDir(c.Dir)
	return q, err
}

// keepOff refuses what would make the asking process itself touch the mount. It
// looks at names only.
func (q *question) keepOff() error {
	program := q.Program[0]
	if program == thisProgram {
		if target, err := os.Readlink(thisProgram); err == nil {
			program = target
		}
	}
	for _, own := range []string{program, filepath.Clean(q.Dir)} {
		if below(own, q.mount) {
			return fmt.Errorf("%s lies on the mount that is to be asked", own)
		}
	}
	return nil
}

// below tells whether a path is a mount or in it. Everything is in the root: who
// has that hang needs no probe.
func below(path, mount string) bool {
	rest, ok := strings.CutPrefix(path, mount)
	return ok && mount != "/" && (rest == "" || rest[0] == '/')
}

// try looks once: is there an answer to share, is there a probe at work, or are
// we to start it? It reports false where there is nothing to do but wait.
func (q *question) try(ctx context.Context) (Answer, bool) {
	f, err := openLock(q.dir, q.file)
	if err != nil {
		return skipped("%v", err), true
	}
	defer f.Close()
	if r := readRecord(f); q.shares(r) {
		return q.shared(r), true
	}
	locked, err := tryLock(f)
	r := readRecord(f) // again: a probe may have ended in between
	switch {
	case err != nil:
		return skipped("lock %s: %v", f.Name(), err), true
	case q.shares(r):
		return q.shared(r), true
	case locked && removed(f):
		return Answer{}, false // another file has the name by now
	case locked:
		return q.ask(ctx, f), true
	}
	return q.lookAt(ctx, r)
}

// shares tells whether a record answers our question: what came back after we
// asked does, and what is good does for a while.
func (q *question) shares(r record) bool {
	if r.ended == nil || r.begun.BootID != q.bootID {
		return false
	}
	age := monotonicUsec() - r.ended.Usec
	return age >= 0 && (r.ended.Usec >= q.asked || r.ended.Errno == 0 && age < q.Fresh.Microseconds())
}

func (q *question) shared(r record) Answer {
	a := r.answer(q.mount)
	a.Shared = true
	return a
}

// lookAt judges another's probe that is at work.
func (q *question) lookAt(ctx context.Context, r record) (Answer, bool) {
	q.held = r
	now := monotonicUsec()
	if b := r.begun; b != nil && r.ended == nil && b.BootID == q.bootID && now-b.Usec >= q.Deadline.Microseconds() {
		if b.state() != gone { // a record of the last holder, which was killed
			a := overdue(ctx, b, q.Deadline)
			a.Shared = true
			return a, true
		}
	}
	// A probe that began after we asked has its own deadline before it, but only
	// one of them.
	patience := q.Deadline
	if b := r.begun; b != nil && b.Usec >= q.asked {
		patience *= 2
	}
	if now-q.asked >= patience.Microseconds() {
		return q.gaveUp(ctx), true
	}
	return Answer{}, false
}

// gaveUp is the answer of one who waited for another's probe.
func (q *question) gaveUp(ctx context.Context) Answer {
	b := q.held.begun
	switch {
	case b == nil || q.held.ended != nil || b.BootID == q.bootID && b.state() == gone:
		return skipped("another process holds %s, but its probe did not begin within %v", q.path(), q.waited())
	case b.BootID != q.bootID:
		return skipped("%s is held by another machine: the folder must not be shared between nodes", q.path())
	}
	a := overdue(ctx, b, q.Deadline)
	a.Shared = true
	return a
}

func (q *question) path() string { return filepath.Join(q.Dir, q.file) }

func (q *question) waited() time.Duration {
	return usec(monotonicUsec() - q.asked).Round(time.Millisecond)
}

// overdue judges a probe that asked and got no answer yet.
func overdue(ctx context.Context, b *begun, deadline time.Duration) Answer {
	took := usec(monotonicUsec() - b.Usec)
	outOfTime := errors.Is(ctx.Err(), context.DeadlineExceeded) && took >= min(deadline, leastPatience)
	state := b.state()
	switch {
	case state == gone:
		return skipped("the probe (pid %d) ended without an answer", b.PID)
	case state == stopped:
		return skipped("the probe (pid %d) is stopped by a signal since it asked at %s", b.PID, b.Since.Format(time.RFC3339))
	case state == starved:
		return skipped("the probe (pid %d) did not get a processor", b.PID)
	case took < deadline && !outOfTime:
		return skipped("gave up after %v, before the deadline of %v", took.Round(time.Millisecond), deadline)
	}
	return Answer{Stuck: true, Since: b.Since, PID: b.PID, Took: took}
}

func skipped(format string, args ...any) Answer {
	return Answer{Skipped: fmt.Sprintf(format, args...)}
}

func usec(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// comm is the name of the process in ps and top: pgrep -a ioguard-probe finds it.
const comm = "ioguard-probe"

// Main is the probe, the hidden command `ioguard probe MOUNT`; args are what stands
// behind "probe". main calls it before anything else, so that a probe costs no
// start-up work, and exits with what it returns:
//
//	if len(os.Args) > 1 && os.Args[1] == "probe" {
//		os.Exit(probe.Main(os.Args[2:]))
//	}
//
// By hand it prints what Run would hear, and nobody guards it. It exits with 0
// where the mount answers, 3 where it answers with an error, 2 without a mount.
func Main(args []string) int {
	// The main thread, as it is when main begins, is the one that ps shows.
	runtime.LockOSThread()
	if len(args) != 1 || args[0] == "" {
		fmt.Fprintln(os.Stderr, "ioguard: error: probe: want one mount")
		return 2
	}
	signal.Ignore(unix.SIGPIPE) // who asked may be gone when the answer comes
	_ = unix.Chdir("/")         // by hand it may stand on a mount
	to := []int{1}
	if os.Getenv(lockVariable) == strconv.Itoa(lockFD) {
		to = []int{lockFD, 1} // the file first: who hears the answer may look there at once
		closeInherited()
		_ = os.WriteFile("/proc/self/comm", []byte(comm), 0)
	}
	b, err := begin(args[0])
	if err != nil {
		fmt.Fprintf(os.Stderr, "ioguard: error: probe: %v\n", err)
		return 3
	}
	say(to, line{Begun: b})
	e := look(args[0])
	say(to, line{Ended: e})
	if e.Errno != 0 {
		return 3
	}
	return 0
}

// closeInherited closes what the hook had open without knowing, such as a pipe
// that its caller waits on. All that the runtime opened since is close-on-exec.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= lockFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// begin says who asks.
func begin(mount string) (*begun, error) {
	bootID, err := readBootID()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return nil, err
	}
	_, ticks, ok := parseStat(text)
	if !ok {
		return nil, fmt.Errorf("parse /proc/self/stat: %.100q", text)
	}
	return &begun{
		PID: os.Getpid(), StartTicks: ticks, BootID: bootID, Mount: mount[:min(len(mount), unix.PathMax)],
		Since: time.Now().UTC().Truncate(time.Millisecond), Usec: monotonicUsec(),
	}, nil
}

// look touches the mount. statfs makes a client of Lustre ask its servers, stat may
// be answered by locks that it holds; each can hang where the other does not.
func look(mount string) *ended {
	e := &ended{}
	var fs unix.Statfs_t
	var st unix.Stat_t
	start := monotonicUsec()
	err := retry(func() error { return unix.Statfs(mount, &fs) })
	e.Usec = monotonicUsec()
	e.StatfsUsec = e.Usec - start
	if err != nil {
		return e.fail("statfs", err)
	}
	start = e.Usec
	err = retry(func() error { return unix.Stat(mount, &st) })
	e.Usec = monotonicUsec()
	e.StatUsec = e.Usec - start
	if err != nil {
		return e.fail("stat", err)
	}
	e.FSType, e.Device, e.Inode = int64(fs.Type), uint64(st.Dev), st.Ino
	return e
}

func (e *ended) fail(call string, err error) *ended {
	errno := unix.EIO
	errors.As(err, &errno)
	e.Call, e.Errno = call, int(errno)
	return e
}

// say writes a line wherever it can: a full disk or a caller who is gone is no
// reason to keep it from the other.
func say(to []int, l line) {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err) // numbers and strings
	}
	text = append(text, '\n')
	for _, fd := range to {
		for rest := text; len(rest) > 0; {
			n, err := unix.Write(fd, rest)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n <= 0 {
				break
			}
			rest = rest[n:]
		}
	}
}

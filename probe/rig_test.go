package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain is the probe too, as cmd/ioguard's main is, and a hook that asks.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "probe":
			os.Exit(Main(os.Args[2:]))
		case "hook":
			os.Exit(hook(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

const (
	// deadline is short for tests, but a busy machine must get a probe to work in it.
	deadline = time.Second
	slack    = 2 * time.Second
)

// site is a Config with a folder of its own.
func site(t *testing.T) Config {
	t.Helper()
	return Config{Dir: filepath.Join(t.TempDir(), "state", "probe"), Deadline: deadline}
}

// ask runs Run and checks what every Answer must keep to.
func ask(t *testing.T, c Config, mount string) Answer {
	t.Helper()
	return askWith(t, context.Background(), c, mount)
}

func askWith(t *testing.T, ctx context.Context, c Config, mount string) Answer {
	t.Helper()
	start := time.Now()
	a := Run(ctx, c, mount)
	if d := time.Since(start); d > 2*max(c.Deadline, deadline)+slack {
		t.Errorf("Run took %v", d)
	}
	n := 0
	for _, is := range []bool{a.OK, a.Err != nil, a.Stuck, a.Skipped != ""} {
		if is {
			n++
		}
	}
	if n != 1 || a.Mount != mount || (a.Skipped == "") != (a.PID > 0) || a.Since.IsZero() != (a.Skipped != "") {
		t.Errorf("contradictory: %+v", a)
	}
	return a
}

// eventually waits for a condition, not for luck.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// probes are the processes, zombies apart, that ask a mount.
func probes(mount string) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		words, _ := os.ReadFile(d + "/cmdline") // empty for a zombie
		if !bytes.HasSuffix(words, []byte("\x00probe\x00"+mount+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(d)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// buried tells whether a process is not even a zombie.
func buried(pid int) bool { return unix.Kill(pid, 0) == unix.ESRCH }

// stateOf is the letter that ps shows.
func stateOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	letter, _, _ := parseStat(text)
	return letter
}

// hanging is a FUSE mount whose INIT nobody answers, so that every system call on
// it waits in the kernel as one on a dead Lustre mount does.
type hanging struct {
	t    *testing.T
	dir  string
	conn *os.File // nil when the connection is closed
	up   bool
}

func mountHanging(t *testing.T) *hanging {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount FUSE")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("open /dev/fuse: %v", err)
	}
	h := &hanging{t: t, dir: t.TempDir()}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := unix.Mount("ioguard-probe-test", h.dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
		t.Skipf("mount FUSE: %v", err)
	}
	h.up, h.conn = true, os.NewFile(uintptr(fd), "/dev/fuse") // not before: epoll would never wake
	t.Cleanup(h.remove)
	return h
}

// abort closes the connection: whoever waits gets ENOTCONN or ECONNABORTED.
func (h *hanging) abort() {
	if h.conn != nil {
		h.conn.Close()
		h.conn = nil
	}
}

// unmount leaves the empty folder under it.
func (h *hanging) unmount() {
	h.t.Helper()
	if !h.up {
		return
	}
	h.up = false
	if err := unix.Unmount(h.dir, unix.MNT_DETACH); err != nil {
		h.t.Error(err)
	}
}

// remove leaves neither mount nor process behind.
func (h *hanging) remove() {
	h.unmount()
	h.abort()
	eventually(h.t, "probes of "+h.dir+" end", func() bool { return len(probes(h.dir)) == 0 })
	if mounts, _ := os.ReadFile("/proc/self/mounts"); strings.Contains(string(mounts), h.dir) {
		h.t.Errorf("%s is still mounted", h.dir)
	}
}

// comeBack serves the mount from now on: an empty root.
func (h *hanging) comeBack() {
	conn := h.conn
	go func() {
		buf := make([]byte, 1<<20)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if reply := fuseReply(buf[:n]); reply != nil {
				if _, err := conn.Write(reply); err != nil {
					return
				}
			}
		}
	}()
}

// fuseReply answers INIT, GETATTR and STATFS, see include/uapi/linux/fuse.h.
func fuseReply(request []byte) []byte {
	le := binary.LittleEndian
	body := []byte{}
	errno := int32(0)
	switch le.Uint32(request[4:]) {
	case 26: // INIT: version 7.31, max_write 4096
		body = make([]byte, 64)
		le.PutUint32(body, 7)
		le.PutUint32(body[4:], 31)
		le.PutUint32(body[20:], 4096)
	case 3: // GETATTR: inode 1, a folder
		body = make([]byte, 104)
		le.PutUint64(body[16:], 1)
		le.PutUint32(body[16+60:], unix.S_IFDIR|0o755)
		le.PutUint32(body[16+64:], 2)
	case 17: // STATFS
		body = make([]byte, 80)
		le.PutUint32(body[40:], 4096)
	case 2, 36, 42: // FORGET, INTERRUPT, BATCH_FORGET want no answer
		return nil
	default:
		errno = -int32(unix.ENOSYS)
	}
	reply := make([]byte, 16, 16+len(body))
	le.PutUint32(reply, uint32(16+len(body)))
	le.PutUint32(reply[4:], uint32(errno))
	copy(reply[8:], request[8:16]) // unique
	return append(reply, body...)
}

// errand is what a hook in a process of its own is to do.
type errand struct {
	Config Config
	Mount  string
}

// hook asks as a prolog does, prints the answer, and exits at once.
func hook(words string) int {
	var e errand
	if err := json.Unmarshal([]byte(words), &e); err != nil {
		fmt.Println(err)
		return 2
	}
	a := Run(context.Background(), e.Config, e.Mount)
	fmt.Printf("ok=%v stuck=%v err=%v skipped=%q pid=%d\n", a.OK, a.Stuck, a.Err, a.Skipped, a.PID)
	return 0
}

// hookCommand is a hook as slurmd starts one: in a process group of its own.
func hookCommand(t *testing.T, c Config, mount string) *exec.Cmd {
	t.Helper()
	words, err := json.Marshal(errand{c, mount})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "hook", string(words))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

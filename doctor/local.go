package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ioguard/host"
)

// Local is what the machine grants ioguard.
type Local struct {
	Debugfs error // why /sys/kernel/debug cannot be used
	Kmsg    error // why /dev/kmsg cannot be opened
	Slurmd  bool  // slurmd runs here: it is a compute node
	State   StateDir
}

// StateDir is what is known of the state directory.
type StateDir struct {
	Remote string // why it was not touched: a part of it is not local
	Exists bool
	Dir    bool
	UID    int
	Mode   fs.FileMode
	Err    error // why it cannot be looked at, or cannot be made

	Above  string // the nearest folder that there is: itself, or where it would be made
	Closed string // the first folder on the way that users cannot search

	Free, FreeInodes uint64 // bytes; what an ordinary user may still take
	Sized            bool   // Free and FreeInodes are known
}

// readLocal looks at this machine. It touches the state directory only where the
// table of mounts says that its whole path is local.
func readLocal(h *host.Host, site *Site) (Local, error) {
	l := Local{Debugfs: readDebugfs(h), Kmsg: openKmsg(), Slurmd: runs(h, "slurmd")}
	table, err := h.ReadFile("proc/self/mounts")
	if err != nil {
		return l, err
	}
	if err := site.IsLocal(string(table), site.StateDir); err != nil {
		l.State.Remote = err.Error()
		return l, nil
	}
	l.State = readStateDir(site.StateDir)
	return l, nil
}

// errNotMounted is debugfs that is not there.
var errNotMounted = errors.New("not mounted")

func readDebugfs(h *host.Host) error {
	entries, err := fs.ReadDir(h.FS, "sys/kernel/debug")
	if err == nil && len(entries) == 0 {
		return errNotMounted
	}
	return err
}

func openKmsg() error {
	f, err := os.OpenFile("/dev/kmsg", os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// runs tells whether a process of that name is there.
func runs(h *host.Host, name string) bool {
	files, _ := h.Glob("proc/[0-9]*/comm")
	for _, f := range files {
		if b, err := h.ReadFile(f); err == nil && strings.TrimSpace(string(b)) == name {
			return true
		}
	}
	return false
}

func readStateDir(dir string) StateDir {
	s := StateDir{Above: dir}
	st, err := os.Stat(dir)
	for errors.Is(err, fs.ErrNotExist) && s.Above != "/" {
		s.Above = path.Dir(s.Above)
		_, err = os.Stat(s.Above)
	}
	if err != nil {
		s.Err = err
		return s
	}
	s.Exists = s.Above == dir
	if s.Exists {
		s.Dir, s.Mode = st.IsDir(), st.Mode()
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			s.UID = int(sys.Uid)
		}
	} else {
		s.Err = unix.Access(s.Above, unix.W_OK|unix.X_OK)
	}
	s.Closed = closedTo(s.Above)
	var space unix.Statfs_t
	if unix.Statfs(s.Above, &space) == nil {
		s.Free, s.FreeInodes, s.Sized = space.Bavail*uint64(space.Bsize), space.Ffree, true
		if space.Files == 0 { // the file system makes inodes as it needs them
			s.FreeInodes = 1 << 32
		}
	}
	return s
}

// closedTo is the first folder on the way that others than its owner and group
// cannot search; "" for none.
func closedTo(dir string) string {
	for at := dir; ; at = path.Dir(at) {
		if st, err := os.Stat(at); err == nil && st.Mode().Perm()&0o001 == 0 {
			return at
		}
		if at == "/" {
			return ""
		}
	}
}

// syslogPatience is how long a stuck journald may take.
const syslogPatience = time.Second

// dialSyslog connects and says nothing.
func (k *look) dialSyslog(ctx context.Context) error {
	if k.Site.Syslog == "" {
		return nil
	}
	if err := k.Site.avoidLustre(k.Host, k.Site.Syslog); err != nil {
		return err
	}
	d := net.Dialer{Timeout: syslogPatience}
	c, err := d.DialContext(ctx, "unixgram", k.Site.Syslog)
	if err != nil {
		return err
	}
	return c.Close()
}

// openRecords opens the records, if they are a plain file.
func openRecords(site *Site) error {
	name := path.Join(site.StateDir, "ioguard.db")
	st, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is no plain file (%v)", name, st.Mode())
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), site.OpenRecords(name))
}

// avoidLustre refuses a path of which any part is on a mount of Lustre, which may
// hang whoever touches it. Other remote file systems are the site's choice.
func (s *Site) avoidLustre(h *host.Host, name string) error {
	table, err := h.ReadFile("proc/self/mounts")
	if err != nil {
		return err
	}
	return s.IsLocal(LustreMounts(string(table)), name)
}

// LustreMounts leaves the mounts of Lustre in a table of mounts.
func LustreMounts(table string) string {
	var only strings.Builder
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "lustre" {
			only.WriteString(line)
		}
	}
	return only.String()
}

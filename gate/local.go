package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ioguard/host"
	"ioguard/proc"
)

// Space is how full a local file system is.
type Space struct {
	Dir        string
	Size, Free uint64 // bytes; Free is what an ordinary user may still write
	Inodes     uint64
	FreeInodes uint64
}

// Local is what the node's own memory, disks and processes look like.
type Local struct {
	Memory  proc.Memory
	Stall   *float64 // share of the last minute in which all tasks waited for memory; nil unknown
	Blocked []proc.Process
	Space   []Space
}

// readLocal reads the node's own state. The process table is walked only where the
// kernel says that tasks are blocked, or, when deep, in any case.
func readLocal(h *host.Host, dirs []string, deep bool) (Local, error) {
	var l Local
	var errs []error
	if b, err := h.ReadFile("proc/meminfo"); err == nil {
		l.Memory, err = proc.ParseMemory(b)
		errs = append(errs, err)
	} else {
		errs = append(errs, err)
	}
	if b, err := h.ReadFile("proc/pressure/memory"); err == nil {
		if p, err := proc.ParsePressure(b); err == nil && p.Full != nil {
			v := p.Full.Avg60 / 100
			l.Stall = &v
		}
	}
	blocked, err := readBlocked(h, deep)
	l.Blocked = blocked
	errs = append(errs, err)
	if h.Time.IsZero() {
		space, err := readSpace(h, dirs)
		l.Space = space
		errs = append(errs, err)
	}
	return l, errors.Join(errs...)
}

func readBlocked(h *host.Host, deep bool) ([]proc.Process, error) {
	if deep {
		return proc.ReadBlocked(h.FS, inLustre)
	}
	b, err := h.ReadFile("proc/stat")
	if err != nil {
		return nil, err
	}
	if s, _ := proc.ParseStat(b); s.Blocked == nil || *s.Blocked == 0 {
		return nil, nil
	}
	return proc.ReadBlocked(h.FS, nil)
}

// localTypes are file systems that answer whatever the network does. All others are
// taken for remote, and never touched from here.
var localTypes = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "bcachefs", "reiserfs", "vfat", "exfat", "tmpfs", "ramfs", "rootfs",
	"devtmpfs", "overlay", "aufs", "squashfs", "erofs", "iso9660", "proc", "sysfs", "devpts", "mqueue", "hugetlbfs", "debugfs", "tracefs",
	"securityfs", "cgroup", "cgroup2", "pstore", "bpf", "configfs", "fusectl", "efivarfs", "binfmt_misc"}

// readSpace asks local file systems only, by the table of mounts.
func readSpace(h *host.Host, dirs []string) ([]Space, error) {
	table, err := h.ReadFile("proc/mounts")
	if err != nil {
		return nil, err
	}
	var all []Space
	var errs []error
	for _, dir := range dirs {
		if IsLocal(string(table), dir) != nil {
			continue
		}
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("ask for space of %s: %w", dir, err))
			}
			continue
		}
		all = append(all, Space{dir, st.Blocks * uint64(st.Bsize), st.Bavail * uint64(st.Bsize), st.Files, st.Ffree})
	}
	return all, errors.Join(errs...)
}

// isRemote tells types that may hang. "" is a path above which the table lists
// nothing, as in a table of Lustre's mounts alone.
func isRemote(fstype string) bool { return fstype != "" && !slices.Contains(localTypes, fstype) }

// IsLocal tells whether a directory can be touched without fear of hanging: no
// part of its path, symbolic links followed by hand, is on a remote file system by
// the table of mounts. The error says what is in the way. What does not exist yet
// is where its parent is.
func IsLocal(table, dir string) error {
	if !path.IsAbs(dir) {
		return fmt.Errorf("%s is no absolute path", dir)
	}
	left := strings.Split(path.Clean(dir), "/")[1:]
	at := "/"
	for links := 0; len(left) > 0; {
		next := path.Join(at, left[0])
		left = left[1:]
		if t := typeAt(table, next); isRemote(t) { // before it is touched
			return fmt.Errorf("%s is on a file system of type %q, which may hang", next, t)
		}
		to, err := os.Readlink(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, unix.EINVAL): // no link
			at = next
			continue
		case err != nil:
			return err
		}
		if links++; links > 10 {
			return fmt.Errorf("%s: too many symbolic links", dir)
		}
		if !path.IsAbs(to) {
			to = path.Join(at, to)
		}
		left = append(strings.Split(path.Clean(to), "/")[1:], left...)
		at = "/"
	}
	return nil
}

// unescape undoes the octal escapes of a table of mounts (mangle_path in
// fs/seq_file.c): blank, tab, newline and backslash.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace

// typeAt is the type of the file system that a directory lies on, by the longest
// mount point above it; the last of equal ones is on top.
func typeAt(table, dir string) string {
	best, fstype := -1, ""
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 3 {
			continue
		}
		at := strings.TrimSuffix(unescape(f[1]), "/")
		if (dir == at || strings.HasPrefix(dir, at+"/")) && len(at) >= best {
			best, fstype = len(at), f[2]
		}
	}
	return fstype
}

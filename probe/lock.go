package probe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// openDir opens the folder of the lock files, which it creates where it is missing.
// Whoever could write to it, or open a file in it, could hold a lock and have a
// healthy mount called stuck.
func openDir(path string) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("no folder for locks: %q is not an absolute path", path)
	}
	path = filepath.Clean(path) // a slash at the end would follow a link
	d, err := openFolder(path)
	if errors.Is(err, unix.ENOENT) {
		if err := makeFolder(path); err != nil {
			return nil, fmt.Errorf("create folder for locks: %w", err)
		}
		d, err = openFolder(path)
	}
	if err != nil {
		return nil, fmt.Errorf("open folder for locks: %w", err)
	}
	if err := checkOwner(d, unix.S_IFDIR, 0o022); err != nil {
		d.Close()
		return nil, fmt.Errorf("folder for locks: %w", err)
	}
	return d, nil
}

func openFolder(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// makeFolder leaves what lies above readable: it may be the state directory, in
// which others look for records.
func makeFolder(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// openLock opens the file of a mount.
func openLock(dir *os.File, name string) (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_APPEND | unix.O_NOFOLLOW | unix.O_CLOEXEC
	path := filepath.Join(dir.Name(), name)
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err := checkOwner(f, unix.S_IFREG, 0o077); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checkOwner refuses what is not of a kind, not ours, or open to others.
func checkOwner(f *os.File, kind, others uint32) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "fstat", Path: f.Name(), Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != kind:
		return fmt.Errorf("%s is neither a plain file nor a folder of ours", f.Name())
	case int(st.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to uid %d, not to %d", f.Name(), st.Uid, os.Geteuid())
	case st.Mode&others != 0:
		return fmt.Errorf("%s is open to others: mode %04o", f.Name(), st.Mode&0o7777)
	}
	return nil
}

// tryLock takes the lock unless a probe, or one who is about to start it, has it.
func tryLock(f *os.File) (bool, error) {
	err := retry(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// removed tells whether somebody tidied the file away since it was opened: a lock
// on it would keep nobody out.
func removed(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 0
}

// readRecord reads in one go, so that it never joins the halves of two records.
func readRecord(f *os.File) record {
	buf := make([]byte, recordLimit)
	n, err := unix.Pread(int(f.Fd()), buf, 0)
	if err != nil {
		return record{}
	}
	return parseRecord(buf[:n])
}

// fileName is safe and short whatever the mount is called, and its own. The end of
// the path is for people.
func fileName(mount string) string {
	readable := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, mount[max(0, len(mount)-40):]), "_")
	sum := sha256.Sum256([]byte(mount))
	return strings.TrimPrefix(readable+"-"+hex.EncodeToString(sum[:12]), "-")
}

func retry(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

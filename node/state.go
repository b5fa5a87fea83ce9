// Package node keeps what a compute node remembers between two hooks: what was
// seen at the last run, which jobs began here, and what a job's tasks are told.
//
// All of it lies below the state directory on a local disk, as small JSON files
// that are replaced whole. It holds no records: losing it costs the differences to
// the last run and nothing else. prolog, epilog and the command check use it.
package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// State is a state directory that was found to be safe.
type State struct {
	dir string
}

// maxFile bounds a file that is read, in bytes.
const maxFile = 8 << 20

// Open checks the state directory and makes it where it is missing. It must be
// ours alone to write: a user who could write there would choose what root believes.
// The caller has made sure that it is on a local disk.
func Open(dir string) (*State, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("open state directory %s: it is no absolute path", dir)
	}
	if err := checkWay(dir); err != nil {
		return nil, fmt.Errorf("open state directory %s: %w", dir, err)
	}
	if err := makeDir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", err)
	}
	if !st.IsDir() || ownerOf(st) != os.Geteuid() || st.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("open state directory %s: it must be a directory of uid %d that nobody else can write (mode %v)",
			dir, os.Geteuid(), st.Mode())
	}
	return &State{dir: dir}, nil
}

// checkWay refuses a way on which somebody else could put another directory in the
// place of ours: a symbolic link of another user's, or a folder that all may write
// and that does not keep each to his own (/tmp does). What is not there yet will be ours.
func checkWay(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		real = dir
	}
	for _, way := range []string{dir, real} {
		for at := filepath.Clean(way); ; at = filepath.Dir(at) {
			st, err := os.Lstat(at)
			switch {
			case err != nil:
			case st.Mode()&fs.ModeSymlink != 0 && ownerOf(st) != 0 && ownerOf(st) != os.Geteuid():
				return fmt.Errorf("%s is a symbolic link of uid %d", at, ownerOf(st))
			case at != way && st.IsDir() && st.Mode().Perm()&0o002 != 0 && st.Mode()&fs.ModeSticky == 0:
				return fmt.Errorf("everybody can write %s (mode %v)", at, st.Mode())
			}
			if at == "/" {
				break
			}
		}
	}
	return nil
}

// ownerOf is the uid that a file belongs to, -1 where that is unknown.
func ownerOf(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}

// makeDir makes a folder where there is none, with this mode whatever the umask.
func makeDir(dir string, mode fs.FileMode) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	return os.Chmod(dir, mode)
}

// Dir is a folder below the state directory.
func (s *State) Dir(name string) string { return filepath.Join(s.dir, name) }

// Load reads what Save wrote. Nothing there is fs.ErrNotExist; a file that is no
// JSON of this kind is an error, and what was read of it must not be used.
func (s *State) Load(name string, to any) error {
	if !inside(name) {
		return fmt.Errorf("load %.60q: it is no name in the state directory", name)
	}
	b, err := readFile(s.Dir(name), os.Geteuid())
	if err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("load %s: %w", name, err)
	}
	return nil
}

// readFile reads a plain file of a certain owner (-1: any), not through a link.
func readFile(name string, owner int) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || owner >= 0 && ownerOf(st) != owner {
		return nil, fmt.Errorf("%s is no plain file of uid %d", name, owner)
	}
	if st.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, st.Size(), maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// Save replaces a file whole: a reader finds the old or the new one. It is not
// synced: after a crash of the node the last run is gone, which costs nothing.
func (s *State) Save(name string, v any) error {
	if err := s.replace(name, v, 0o600, -1); err != nil {
		return fmt.Errorf("save %s: %w", name, err)
	}
	return nil
}

// Forget removes a file; nothing there is no error.
func (s *State) Forget(name string) error {
	if !inside(name) {
		return fmt.Errorf("forget %.60q: it is no name in the state directory", name)
	}
	if err := os.Remove(s.Dir(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget %s: %w", name, err)
	}
	return nil
}

func (s *State) replace(name string, v any, mode fs.FileMode, uid int) error {
	if !inside(name) {
		return errors.New("it is no name in the state directory")
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxFile {
		return fmt.Errorf("%d bytes, more than %d", len(b), maxFile)
	}
	dir := filepath.Dir(s.Dir(name))
	f, err := os.CreateTemp(dir, newPrefix)
	if errors.Is(err, fs.ErrNotExist) {
		// Users must get through to their own files below; what is in the others
		// is for root alone.
		if err := makeDir(dir, 0o711); err != nil {
			return err
		}
		f, err = os.CreateTemp(dir, newPrefix)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if uid >= 0 {
		err = errors.Join(err, f.Chown(uid, -1))
	}
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), s.Dir(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// inside tells names that lead to a file below the state directory.
func inside(name string) bool { return fs.ValidPath(name) && name != "." }

// newPrefix begins the names of files that are not in their place yet.
const newPrefix = ".new-"

// safeName makes a file name of a node's name, which comes from Slurm's environment.
func safeName(s string) (string, error) {
	if s == "" || len(s) > 200 || strings.HasPrefix(s, ".") || strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}) {
		return "", fmt.Errorf("%.60q cannot be the name of a node", s)
	}
	return s, nil
}

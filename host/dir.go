package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// The bounds of a copy that Dir makes: a hostile recording must not fill the disk.
const (
	dirLimitEntries = 1 << 16
	dirLimitBytes   = 64 << 20
)

var errTooMuch = fmt.Errorf("more than %d entries or %d bytes, or deeper than %d folders",
	dirLimitEntries, dirLimitBytes, maxDepth)

// Dir gives a folder of the operating system that stands for the machine's root
// and holds at least its subtree name, as "sys/class/infiniband": for libraries
// that take a path and no fs.FS. Of the live machine that is "/". Of any other it
// is a copy in a temporary folder, which done removes.
//
// A folder on disk is copied too if its subtree holds anything but folders and
// plain files, since a library that is given its path would follow a symlink out
// of it and wait for ever on a FIFO in it; else it is used in place. The copy holds
// what the machine's FS reads: symlinks are followed only directly below name,
// where the classes of sysfs have them, and a file or folder that cannot be
// read, or is no plain one, is left out. A missing subtree wraps fs.ErrNotExist.
// done is never nil.
func (h *Host) Dir(name string) (root string, done func(), err error) {
	done = func() {}
	if !fs.ValidPath(name) {
		return "", done, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	if h.FS == os.DirFS("/") {
		if _, err := fs.Stat(h.FS, name); err != nil {
			return "", done, pathError("open", name, err)
		}
		return "/", done, nil
	}
	if _, err := fs.ReadDir(h.FS, name); err != nil {
		return "", done, pathError("open", name, err)
	}
	if f, ok := h.FS.(*folder); ok && f.plain(name) {
		return filepath.Join(f.root.Name(), f.dir), done, nil
	}
	root, err = os.MkdirTemp("", "ioguard-")
	if err != nil {
		return "", done, fmt.Errorf("copy %s: %w", name, noSpace(err))
	}
	c := copier{from: Host{FS: h.FS}, entries: dirLimitEntries, bytes: dirLimitBytes}
	if err := c.copy(root, name); err != nil {
		return "", done, errors.Join(fmt.Errorf("copy %s: %w", name, err), os.RemoveAll(root))
	}
	return root, func() { os.RemoveAll(root) }, nil
}

// plain tells whether a subtree and the way to it are folders and plain files only.
func (f *folder) plain(name string) bool {
	full := path.Join(f.dir, name)
	for at := full; at != "."; at = path.Dir(at) {
		if st, err := f.root.Lstat(at); err != nil || !st.IsDir() {
			return false
		}
	}
	left := dirLimitEntries
	return nil == fs.WalkDir(f, name, func(_ string, d fs.DirEntry, err error) error {
		if left--; err != nil || left < 0 || !d.IsDir() && !d.Type().IsRegular() {
			return errNotRegular
		}
		return nil
	})
}

type copier struct {
	from           Host
	to             *os.Root
	entries, bytes int64 // still allowed
}

// copy puts the subtree name into a folder, which it never leaves whatever the
// names in the tree are.
func (c *copier) copy(to, name string) (err error) {
	if c.to, err = os.OpenRoot(to); err != nil {
		return err
	}
	defer c.to.Close()
	return c.dir(name, 0)
}

// dir copies a folder that is depth folders below the subtree's top.
func (c *copier) dir(name string, depth int) error {
	entries, err := fs.ReadDir(c.from.FS, name)
	if err != nil {
		return nil
	}
	if err := c.to.MkdirAll(name, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if c.entries--; c.entries < 0 || depth > maxDepth {
			return errTooMuch
		}
		if err := c.entry(path.Join(name, e.Name()), e.Type(), depth); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) entry(name string, mode fs.FileMode, depth int) error {
	if mode&fs.ModeSymlink != 0 && depth == 0 {
		st, err := fs.Stat(c.from.FS, name)
		if err != nil {
			return nil
		}
		mode = st.Mode()
	}
	switch {
	case mode.IsDir():
		return c.dir(name, depth+1)
	case mode.IsRegular():
		return c.file(name)
	}
	return nil
}

func (c *copier) file(name string) error {
	c.from.ReadLimit = c.bytes + 1 // 0 would be no limit of ours
	b, err := c.from.ReadFile(name)
	var tooLarge *SizeError
	switch c.bytes -= int64(len(b)); {
	case c.bytes < 0 || errors.As(err, &tooLarge):
		return errTooMuch
	case err != nil:
		return nil
	}
	return c.to.WriteFile(name, b, 0o600)
}

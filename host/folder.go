package host

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// folder is a recorded tree on disk. It goes through os.Root, so that no symlink
// leads out of it, or lets the kernel see to that, and opens regular files only: a
// FIFO put in the place of job_stats would block for ever.
type folder struct {
	root *os.Root
	base *os.File // the root's own folder, for openBeneath
	dir  string   // below the root
}

func openFolder(name string) (*folder, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	base, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &folder{root, base, "."}, nil
}

var errNotRegular = errors.New("not a regular file")

// in is the name below the root, or an error for names that fs.FS forbids.
func (f *folder) in(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return path.Join(f.dir, name), nil
}

func (f *folder) Open(name string) (fs.File, error) {
	full, err := f.in("open", name)
	if err != nil {
		return nil, err
	}
	if file, err := f.plainFile(full); file != nil || err != nil {
		if err != nil {
			return nil, pathError("open", name, err)
		}
		return file, nil
	}
	st, err := f.root.Stat(full)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
	}
	file, err := f.root.Open(full)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return file, nil
}

// plainFile opens a plain file the short way. Neither a file nor an error is for the
// long way to tell: folders, what leads out, kernels without openat2.
func (f *folder) plainFile(full string) (fs.File, error) {
	if noOpenat2.Load() {
		return nil, nil
	}
	file, err := openBeneath(int(f.base.Fd()), full)
	switch {
	case err == nil && file.regular():
		return file, nil
	case err == nil:
		return nil, file.Close()
	case errors.Is(err, fs.ErrNotExist):
		return nil, err
	case errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EPERM):
		noOpenat2.Store(true)
	}
	return nil, nil
}

func (f *folder) Stat(name string) (fs.FileInfo, error) {
	full, err := f.in("stat", name)
	if err != nil {
		return nil, err
	}
	st, err := f.root.Stat(full)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return st, nil
}

func (f *folder) Lstat(name string) (fs.FileInfo, error) {
	full, err := f.in("lstat", name)
	if err != nil {
		return nil, err
	}
	st, err := f.root.Lstat(full)
	if err != nil {
		return nil, pathError("lstat", name, err)
	}
	return st, nil
}

func (f *folder) ReadLink(name string) (string, error) {
	full, err := f.in("readlink", name)
	if err != nil {
		return "", err
	}
	link, err := f.root.Readlink(full)
	if err != nil {
		return "", pathError("readlink", name, err)
	}
	return link, nil
}

func (f *folder) ReadDir(name string) ([]fs.DirEntry, error) {
	full, err := f.in("readdir", name)
	if err != nil {
		return nil, err
	}
	if entries, ok := f.listBeneath(name, full); ok {
		return entries, nil
	}
	entries, err := fs.ReadDir(f.root.FS(), full)
	if err != nil {
		return entries, pathError("readdir", name, err)
	}
	return entries, nil
}

// listBeneath lists a folder the short way; what is not ok is for the long way to tell.
func (f *folder) listBeneath(name, full string) ([]fs.DirEntry, bool) {
	if noOpenat2.Load() {
		return nil, false
	}
	d, err := openBeneath(int(f.base.Fd()), full)
	if err != nil {
		return nil, false
	}
	defer d.Close()
	if !d.folder() {
		return nil, false
	}
	entries, err := d.list(f, name)
	return entries, err == nil
}

func (f *folder) Sub(dir string) (fs.FS, error) {
	full, err := f.in("sub", dir)
	if err != nil {
		return nil, err
	}
	return &folder{f.root, f.base, full}, nil
}

package host

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// folder is a recorded tree on disk. It goes through os.Root, so that no symlink
// leads out of it, and opens regular files only: a FIFO put in the place of
// job_stats would block for ever.
type folder struct {
	root *os.Root
	dir  string // below the root
}

func openFolder(name string) (*folder, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return &folder{root, "."}, nil
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
	entries, err := fs.ReadDir(f.root.FS(), full)
	if err != nil {
		return entries, pathError("readdir", name, err)
	}
	return entries, nil
}

func (f *folder) Sub(dir string) (fs.FS, error) {
	full, err := f.in("sub", dir)
	if err != nil {
		return nil, err
	}
	return &folder{f.root, full}, nil
}

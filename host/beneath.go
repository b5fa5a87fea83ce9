package host

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// openBeneath opens a name below a folder in one system call: the kernel itself
// keeps symlinks from leading out of it (RESOLVE_BENEATH, Linux 5.6). os.Root opens
// each folder on the way, which for the thousand files of a client was most of the
// time of a check. O_NONBLOCK lets a FIFO be opened and seen for what it is.
func openBeneath(dir int, name string) (*plainFile, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY, Resolve: unix.RESOLVE_BENEATH}
	var fd int
	var err error
	for range 8 { // EAGAIN is a rename on the way, which the kernel leaves to us
		if fd, err = unix.Openat2(dir, name, &how); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	f := &plainFile{fd: fd, name: path.Base(name)}
	if err := unix.Fstat(fd, &f.stat); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return f, nil
}

// noOpenat2 is set once the kernel has said that it does not know the call, or a
// sandbox forbids it: os.Root serves then.
var noOpenat2 atomic.Bool

// errTypeUnknown is a file system whose folders do not tell what their entries are.
var errTypeUnknown = errors.New("the folder does not tell the types of its entries")

// list reads the entries of an open folder, types included, without asking for each:
// os.Root asks for each, twice.
func (f *plainFile) list(of *folder, dir string) ([]fs.DirEntry, error) {
	var all []fs.DirEntry
	buf := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(f.fd, buf)
		if err != nil || n <= 0 {
			slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
			return all, err
		}
		for b := buf[:n]; len(b) > 0; {
			size, name, kind := dirent(b)
			if size == 0 || kind == unix.DT_UNKNOWN {
				return nil, errTypeUnknown
			}
			b = b[size:]
			if name != "." && name != ".." {
				all = append(all, folderEntry{of, dir, name, direntTypes[kind]})
			}
		}
	}
}

// dirent cuts the first struct linux_dirent64 of a buffer; size 0 is none.
func dirent(b []byte) (size int, name string, kind byte) {
	const head = 19 // d_ino, d_off, d_reclen, d_type
	if len(b) < head {
		return 0, "", 0
	}
	size = int(binary.NativeEndian.Uint16(b[16:]))
	if size < head || size > len(b) {
		return 0, "", 0
	}
	text, _, _ := bytes.Cut(b[head:size], []byte{0})
	return size, string(text), b[18]
}

var direntTypes = map[byte]fs.FileMode{
	unix.DT_DIR: fs.ModeDir, unix.DT_LNK: fs.ModeSymlink, unix.DT_FIFO: fs.ModeNamedPipe, unix.DT_SOCK: fs.ModeSocket,
	unix.DT_CHR: fs.ModeDevice | fs.ModeCharDevice, unix.DT_BLK: fs.ModeDevice, unix.DT_REG: 0,
}

// folderEntry is an entry of a folder.
type folderEntry struct {
	of        *folder
	dir, name string
	mode      fs.FileMode
}

func (e folderEntry) Name() string               { return e.name }
func (e folderEntry) IsDir() bool                { return e.mode.IsDir() }
func (e folderEntry) Type() fs.FileMode          { return e.mode }
func (e folderEntry) Info() (fs.FileInfo, error) { return e.of.Lstat(path.Join(e.dir, e.name)) }
func (e folderEntry) String() string             { return fs.FormatDirEntry(e) }

// plainFile is an open file without the runtime's poller, which regular files do
// not need and which costs five system calls a file.
type plainFile struct {
	fd   int
	name string
	stat unix.Stat_t
	read int64 // so far
}

func (f *plainFile) folder() bool  { return f.stat.Mode&unix.S_IFMT == unix.S_IFDIR }
func (f *plainFile) regular() bool { return f.stat.Mode&unix.S_IFMT == unix.S_IFREG }

func (f *plainFile) Stat() (fs.FileInfo, error) { return plainInfo{f}, nil }

func (f *plainFile) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := unix.Read(f.fd, p)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: f.name, Err: err}
		case n == 0:
			return 0, io.EOF
		}
		if f.read += int64(n); f.read == f.stat.Size { // a recorded file does not grow: no need to ask again
			return n, io.EOF
		}
		return n, nil
	}
}

func (f *plainFile) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		k, err := unix.Pread(f.fd, p[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return n, &fs.PathError{Op: "read", Path: f.name, Err: err}
		case k == 0:
			return n, io.EOF
		}
		n += k
	}
	return n, nil
}

func (f *plainFile) Seek(offset int64, whence int) (int64, error) {
	at, err := unix.Seek(f.fd, offset, whence)
	if err == nil {
		f.read = at
	}
	return at, err
}

func (f *plainFile) Close() error {
	if f.fd < 0 {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	err := unix.Close(f.fd)
	f.fd = -1
	return err
}

type plainInfo struct{ f *plainFile }

func (i plainInfo) Name() string       { return i.f.name }
func (i plainInfo) Size() int64        { return i.f.stat.Size }
func (i plainInfo) ModTime() time.Time { return time.Unix(i.f.stat.Mtim.Unix()) }
func (i plainInfo) IsDir() bool        { return false }
func (i plainInfo) Sys() any           { return &i.f.stat }
func (i plainInfo) Mode() fs.FileMode  { return os.FileMode(i.f.stat.Mode & 0o777) }

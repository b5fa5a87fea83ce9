package collect

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"ioguard/host"
)

// SnapshotWriter takes a recording snapshot by snapshot: Begin, File for each
// file, End. A snapshot counts once End returns; one that never ends must not be
// seen by a reader of the recording.
type SnapshotWriter interface {
	Begin(s host.Snapshot) error
	// File adds a file by its real path without the leading slash.
	File(name string, data []byte) error
	End() error
	// Note keeps words about a host beside its snapshots. It is called between
	// snapshots.
	Note(hostName string, text []byte) error
}

// RecordingWriter is a recording that is being written. Close ends it, and takes
// it away again where no snapshot ended.
type RecordingWriter interface {
	SnapshotWriter
	io.Closer
}

const archiveEnding = ".tar.zst"

// CreateRecording starts a recording: an archive where out ends in .tar.zst, else
// a folder. Nobody but its owner may read it, since it names users. An out that
// exists is left alone: the error wraps fs.ErrExist.
//
// A recording that is killed can be read up to its last whole snapshot: folders
// get their name when they are whole, and each snapshot of an archive ends its own
// zstd frame.
func CreateRecording(out string) (RecordingWriter, error) {
	var w RecordingWriter
	var err error
	if strings.HasSuffix(out, archiveEnding) {
		w, err = createArchive(out)
	} else {
		w, err = createFolder(out)
	}
	if err != nil {
		return nil, fmt.Errorf("create recording: %w", err)
	}
	return w, nil
}

// folderWriter writes HOST/UNIX-TIME/... below a folder of its own.
type folderWriter struct {
	name      string
	root      *os.Root
	snapshots int
	partial   string // the folder of the snapshot at hand, "" between snapshots
	final     string
	made      map[string]bool // folders of the snapshot at hand
}

func createFolder(out string) (*folderWriter, error) {
	if err := os.Mkdir(out, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(out)
	if err != nil {
		return nil, errors.Join(err, os.Remove(out))
	}
	return &folderWriter{name: out, root: root}, nil
}

func (w *folderWriter) Begin(s host.Snapshot) error {
	w.final = s.Dir()
	if _, err := w.root.Lstat(w.final); err == nil {
		return &fs.PathError{Op: "record", Path: w.final, Err: fs.ErrExist}
	}
	dir, at := path.Split(w.final)
	w.partial = path.Join(dir, "."+at+".partial")
	w.made = map[string]bool{}
	return w.root.MkdirAll(w.partial, 0o700)
}

func (w *folderWriter) File(name string, data []byte) error {
	name = path.Join(w.partial, name)
	if dir := path.Dir(name); !w.made[dir] {
		if err := w.root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		w.made[dir] = true
	}
	return w.root.WriteFile(name, data, 0o600)
}

func (w *folderWriter) End() error {
	if err := w.root.Rename(w.partial, w.final); err != nil {
		return err
	}
	w.partial = ""
	w.snapshots++
	return nil
}

func (w *folderWriter) Note(hostName string, text []byte) error {
	return w.root.WriteFile(path.Join(hostName, "NOTE"), text, 0o600)
}

func (w *folderWriter) Close() error {
	var err error
	if w.partial != "" {
		err = w.root.RemoveAll(w.partial)
	}
	err = errors.Join(err, w.root.Close())
	if w.snapshots == 0 {
		err = errors.Join(err, os.RemoveAll(w.name))
	}
	return err
}

// archiveWriter writes the same as one .tar.zst.
type archiveWriter struct {
	file      *os.File
	frames    *zstd.Encoder
	tar       *tar.Writer
	snapshots int
	snapshot  host.Snapshot
	open      bool  // a snapshot is at hand
	whole     int64 // bytes of the file that end with a whole snapshot
}

func createArchive(out string) (*archiveWriter, error) {
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	// one thread and little memory: the server has other things to do
	frames, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(out))
	}
	return &archiveWriter{file: f, frames: frames, tar: tar.NewWriter(frames)}, nil
}

func (w *archiveWriter) Begin(s host.Snapshot) error {
	w.snapshot, w.open = s, true
	return nil
}

func (w *archiveWriter) File(name string, data []byte) error {
	return w.add(path.Join(w.snapshot.Dir(), name), data, w.snapshot.Time)
}

func (w *archiveWriter) add(name string, data []byte, at time.Time) error {
	h := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o600, ModTime: at}
	if err := w.tar.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.tar.Write(data)
	return err
}

func (w *archiveWriter) End() error {
	if err := w.endFrame(); err != nil {
		return err
	}
	w.open = false
	w.snapshots++
	return nil
}

// endFrame makes all that was written readable, and begins a new frame.
func (w *archiveWriter) endFrame() error {
	if err := w.tar.Flush(); err != nil {
		return err
	}
	if err := w.frames.Close(); err != nil {
		return err
	}
	at, err := w.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	w.whole = at
	w.frames.Reset(w.file)
	return nil
}

func (w *archiveWriter) Note(hostName string, text []byte) error {
	if err := w.add(path.Join(hostName, "NOTE"), text, w.snapshot.Time); err != nil {
		return err
	}
	return w.endFrame()
}

// Close ends the archive. A snapshot that did not end, as on a full disk, is cut off.
func (w *archiveWriter) Close() error {
	if w.snapshots == 0 {
		return errors.Join(w.file.Close(), os.Remove(w.file.Name()))
	}
	if w.open {
		if err := w.cutBack(); err != nil {
			return errors.Join(err, w.file.Close())
		}
	}
	err := errors.Join(w.tar.Close(), w.frames.Close())
	return errors.Join(err, w.file.Sync(), w.file.Close())
}

func (w *archiveWriter) cutBack() error {
	if err := w.file.Truncate(w.whole); err != nil {
		return err
	}
	if _, err := w.file.Seek(w.whole, io.SeekStart); err != nil {
		return err
	}
	w.frames.Reset(w.file)
	w.tar = tar.NewWriter(w.frames)
	return nil
}

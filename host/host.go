// Package host is the one door to a machine: its files as an fs.FS and its
// commands as Run. A live host answers from / and /usr/sbin, a recorded one from
// a folder, a .tar.zst or a txtar archive, and readers cannot tell which.
//
// Nothing here parses what it reads, writes to the machine, or follows a symlink
// out of a recorded tree. Commands pass an allow-list of read-only forms, live
// and recorded alike. Every reader (lfs, proc, slurm, collect) and the commands
// with --machine come through here.
package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// DefaultReadLimit is what ReadFile reads at most when a Host sets no limit, in bytes.
const DefaultReadLimit = 64 << 20

// Host is a machine at one time: the live one or a recorded one.
type Host struct {
	Name string
	// FS holds the machine's files by their real path without the leading
	// slash: "proc/stat". Files of /proc and /sys have size 0; read to the end.
	FS fs.FS
	// Run runs a read-only command and gives its standard output. What was
	// printed comes also with an error, since lctl answers in part with exit
	// status 2. A failing command is a *CommandError; one that does not exist,
	// or was not recorded, wraps fs.ErrNotExist; one that may change a machine
	// is a *RefusedError.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Time is when the machine was recorded; zero is a live machine. A recorded
	// machine that does not tell its time has the Unix epoch.
	Time time.Time
	// ReadLimit bounds ReadFile, in bytes; 0 is DefaultReadLimit.
	ReadLimit int64

	command func(ctx context.Context, name string, args ...string) (Answer, error)
	close   func() error
}

// Local is the machine that ioguard runs on.
func Local() *Host {
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	r := runner{dirs: commandDirs, killDelay: killDelay, limit: DefaultReadLimit}
	return newHost(name, os.DirFS("/"), r.run)
}

func newHost(name string, fsys fs.FS, command func(context.Context, string, ...string) (Answer, error)) *Host {
	h := &Host{Name: name, FS: fsys, command: command}
	h.Run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
		a, err := command(ctx, name, args...)
		return a.Stdout, err
	}
	return h
}

// Command is Run with everything that the command answered. Use it where
// standard error matters although the exit status is 0, as in lfs check. A Host
// built by hand with only Run knows no standard error of a command that did well.
func (h *Host) Command(ctx context.Context, name string, args ...string) (Answer, error) {
	if h.command != nil {
		return h.command(ctx, name, args...)
	}
	if h.Run == nil {
		return Answer{Status: -1}, notRecorded(name, args)
	}
	out, err := h.Run(ctx, name, args...)
	a := Answer{Stdout: out}
	if err != nil {
		a.Status = -1
	}
	var ce *CommandError
	if errors.As(err, &ce) {
		a.Status, a.Stderr = ce.Status, []byte(ce.Stderr)
	}
	return a, err
}

// Close frees what a recorded machine holds open. Its files are unreadable then.
func (h *Host) Close() error {
	if h.close == nil {
		return nil
	}
	return h.close()
}

// SizeError is a file or an answer larger than the limit on reading. It is an
// error because half a file looks like a whole one.
type SizeError struct {
	Name  string
	Size  int64 // bytes; -1 where only reading tells, as in /proc
	Limit int64 // bytes
}

func (e *SizeError) Error() string {
	if e.Size < 0 {
		return fmt.Sprintf("read %s: more than the limit of %d bytes", e.Name, e.Limit)
	}
	return fmt.Sprintf("read %s: %d bytes, more than the limit of %d bytes", e.Name, e.Size, e.Limit)
}

// ReadFile reads a whole file of the machine. A missing one wraps
// fs.ErrNotExist, a forbidden one fs.ErrPermission, and one above the limit is a
// *SizeError. Large files (job_stats) are better streamed from FS.
func (h *Host) ReadFile(name string) ([]byte, error) {
	limit := h.ReadLimit
	if limit <= 0 {
		limit = DefaultReadLimit
	}
	f, err := h.FS.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.IsDir() {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	}
	if st.Size() > limit {
		return nil, &SizeError{name, st.Size(), limit}
	}
	b, err := readAll(io.LimitReader(f, limit+1), st.Size())
	if err != nil {
		return nil, pathError("read", name, err)
	}
	if int64(len(b)) > limit {
		return nil, &SizeError{name, -1, limit}
	}
	return b, nil
}

// readAll is io.ReadAll with a guess of the size, which saves growing towards it. It
// never asks for less than 512 bytes at once: LNet's tables refuse to be read by less
// than a line.
func readAll(r io.Reader, size int64) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 0, max(size, 0)+bytes.MinRead))
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// pathError names the file in an error that does not do so by itself.
func pathError(op, name string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: pe.Op, Path: name, Err: pe.Err}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Glob lists the names that match a pattern of path.Match, in order. Unlike
// fs.Glob it says when a folder could not be read: the matches found come with
// the first such error, so that debugfs without root is fs.ErrPermission and not
// a server without statistics. Nothing there at all is no error. It opens no
// file, and reads only folders where the pattern has a wildcard.
func (h *Host) Glob(pattern string) ([]string, error) {
	if _, err := path.Match(pattern, ""); err != nil || !fs.ValidPath(pattern) {
		return nil, fmt.Errorf("match %q: %w", pattern, path.ErrBadPattern)
	}
	g := globber{fsys: h.FS}
	g.walk(".", strings.Split(pattern, "/"))
	return g.found, g.err
}

type globber struct {
	fsys  fs.FS
	found []string
	err   error // the first
}

func (g *globber) walk(dir string, rest []string) {
	for len(rest) > 0 && !strings.ContainsAny(rest[0], `*?[\`) {
		dir, rest = path.Join(dir, rest[0]), rest[1:]
	}
	if len(rest) == 0 {
		_, err := fs.Stat(g.fsys, dir)
		if err == nil {
			g.found = append(g.found, dir)
		}
		g.note(err)
		return
	}
	entries, err := fs.ReadDir(g.fsys, dir)
	g.note(err)
	for _, e := range entries {
		if ok, _ := path.Match(rest[0], e.Name()); !ok {
			continue
		}
		name := path.Join(dir, e.Name())
		switch {
		case len(rest) == 1:
			g.found = append(g.found, name)
		case e.IsDir() || e.Type()&fs.ModeSymlink != 0: // sysfs is full of links to folders
			g.walk(name, rest[1:])
		}
	}
}

// note keeps the first error that is not plain absence. ENOTDIR is a link to a
// file where the pattern wants a folder.
func (g *globber) note(err error) {
	if err != nil && g.err == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		g.err = err
	}
}

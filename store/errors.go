package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"ioguard"

	"github.com/mattn/go-sqlite3"
)

// Errors that callers tell apart with errors.Is.
var (
	ErrNotFound = errors.New("not found")                    // no such job
	ErrReadOnly = errors.New("records are open for reading") // Write or Maintain on a Store of OpenReadOnly
	ErrOldBatch = errors.New("batch is older than the agent's last 1024 batches")
)

// NewerError: a later ioguard has written the file.
type NewerError struct {
	Path         string
	Found, Known int // schema versions
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("open %s: records have version %d, this ioguard knows %d", e.Path, e.Found, e.Known)
}

// OlderError: the file needs migrations, which a reader does not run.
type OlderError struct {
	Path         string
	Found, Known int
}

func (e *OlderError) Error() string {
	return fmt.Sprintf("open %s: records have version %d, this ioguard reads %d", e.Path, e.Found, e.Known)
}

// ForeignError: the file is a SQLite database of another program.
type ForeignError struct{ Path string }

func (e *ForeignError) Error() string {
	return "open " + e.Path + ": a database, but not of ioguard"
}

// CorruptError: the file is not a database, or a damaged one.
type CorruptError struct {
	Path string
	Err  error
}

func (e *CorruptError) Error() string { return fmt.Sprintf("read %s: %v", e.Path, e.Err) }
func (e *CorruptError) Unwrap() error { return e.Err }

// FullError: no space is left for the file. Nothing of the write was kept; what
// was there before stays, and the Store can be used again.
type FullError struct {
	Path string
	Err  error
}

func (e *FullError) Error() string { return fmt.Sprintf("write %s: %v", e.Path, e.Err) }
func (e *FullError) Unwrap() error { return e.Err }

// LockedError: another process kept the file locked longer than the busy timeout.
type LockedError struct {
	Path string
	Err  error
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("write %s: another process holds it: %v", e.Path, e.Err)
}
func (e *LockedError) Unwrap() error { return e.Err }

// classify turns an error of SQLite into the typed one with its hint. Any other
// error passes.
func (s *Store) classify(err error) error {
	var se sqlite3.Error
	if errors.Is(err, errDigest) {
		se.Code = sqlite3.ErrCorrupt
	} else if !errors.As(err, &se) {
		return err
	}
	if se.SystemErrno == syscall.ENOSPC || se.SystemErrno == syscall.EDQUOT ||
		se.ExtendedCode == sqlite3.ErrIoErrSHMSize {
		se.Code = sqlite3.ErrFull
	}
	p := shellQuote(s.path)
	switch se.Code {
	case sqlite3.ErrFull:
		return ioguard.WithHint(&FullError{s.path, err}, "free space on the file system of "+p+
			" or keep records for a shorter time; earlier records are intact")
	case sqlite3.ErrBusy, sqlite3.ErrLocked:
		return ioguard.WithHint(&LockedError{s.path, err}, "is another ioguard running? fuser "+p+" names the process")
	case sqlite3.ErrNotADB, sqlite3.ErrCorrupt:
		return ioguard.WithHint(&CorruptError{s.path, err}, "stop ioguard, move the file aside with its journal (mv "+
			p+" "+p+".bad; mv "+p+"-wal "+p+".bad-wal) and start again; sqlite3 "+p+".bad .recover saves what is readable")
	case sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrAuth:
		return ioguard.WithHint(fmt.Errorf("write %s: %w: %w", s.path, fs.ErrPermission, err),
			"the writer needs write permission on the file, its -wal and -shm, and its directory")
	case sqlite3.ErrCantOpen:
		return ioguard.WithHint(fmt.Errorf("open %s: %w", s.path, err),
			"the file, its -wal and -shm must be readable, and for writing their directory writable")
	case sqlite3.ErrInterrupt:
		return fmt.Errorf("%w: %w", context.Canceled, err)
	}
	return err
}

// fail wraps an error of an operation on the file. The caller's own cancellation
// is told as such, whatever SQLite says of it.
func (s *Store) fail(ctx context.Context, verb string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", verb, context.Cause(ctx))
	}
	err = s.classify(err)
	var h *ioguard.HintError
	if errors.As(err, &h) {
		return ioguard.WithHint(fmt.Errorf("%s: %w", verb, h.Err), h.Hint)
	}
	return fmt.Errorf("%s: %w", verb, err)
}

// shellQuote makes a path safe to paste into a shell.
func shellQuote(p string) string {
	if strings.Trim(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+") == "" {
		return p
	}
	return "'" + strings.ReplaceAll(p, "'", `'\''`) + "'"
}

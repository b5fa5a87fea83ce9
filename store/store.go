package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"ioguard"

	"github.com/mattn/go-sqlite3"
)

// Options set how a file is written. The zero value is what a site wants.
type Options struct {
	BusyTimeout     time.Duration // wait for another process' lock; 0: 5 s
	GroupRead       bool          // create the file 0640 instead of 0600; it names users
	MaxBytes        int64         // refuse to grow beyond; 0: no bound
	EvidenceWindows int           // windows kept per finding, the newest; 0: 60
	Keep            Retention
}

// Retention says how long rows are kept; 0 is the default.
type Retention struct {
	Minutes  time.Duration // 2 days; pressure as measured too
	Hours    time.Duration // 30 days
	Days     time.Duration // 2 years; hourly pressure and the jobs on nodes too
	Findings time.Duration // 1 year; events of nodes too
}

const dayLength = 24 * time.Hour

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&o.BusyTimeout, 5*time.Second)
	def(&o.Keep.Minutes, 2*dayLength)
	def(&o.Keep.Hours, 30*dayLength)
	def(&o.Keep.Days, 2*365*dayLength)
	def(&o.Keep.Findings, 365*dayLength)
	if o.EvidenceWindows <= 0 {
		o.EvidenceWindows = 60
	}
	return o
}

// Store is an open file of records. Its methods may be called from several
// goroutines; writes queue up.
type Store struct {
	path     string // absolute
	opts     Options
	schema   int // the file's version when it was opened
	problems []string
	readers  *sql.DB
	writer   *sql.DB // one connection; nil when open for reading only

	mu    sync.Mutex // held by Write and Maintain; guards ids
	ids   ids
	batch map[int64]int64 // agent -> highest seq applied
}

// Open opens the file for writing, creating it (0600) where there is none and
// bringing an older one up to date. The parent directory must exist. Errors:
// [*NewerError], [*ForeignError], [*CorruptError], [*LockedError], [*FullError],
// fs.ErrNotExist for a missing parent, fs.ErrPermission.
func Open(path string, opts Options) (*Store, error) {
	s, err := newStore(path, opts)
	if err != nil {
		return nil, err
	}
	if err := s.createFile(); err != nil {
		return nil, err
	}
	s.writer = s.pool("rwc", s.writeParams(), 1)
	if err := s.migrate(context.Background()); err != nil {
		s.Close()
		return nil, s.fail(context.Background(), "open records", err)
	}
	s.readers = s.pool("ro", readParams(), 4)
	return s, nil
}

// OpenReadOnly opens the file for questions, beside a running writer or without
// one. It changes nothing in the file. Where the journal's -wal and -shm cannot
// be opened or made (a read-only directory with no writer running), the file is
// read as it lies there and [Store.Problems] says so. A missing file is
// fs.ErrNotExist; a file that cannot be read without migrations is [*OlderError];
// of what an older file has no tables for there is none.
func OpenReadOnly(path string) (*Store, error) {
	s, err := newStore(path, Options{})
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.path); err != nil {
		return nil, ioguard.WithHint(fmt.Errorf("open records: %w", err), "ioguard watch makes the file; is the path right?")
	}
	s.readers = s.pool("ro", readParams(), 4)
	err = s.checkVersion(context.Background())
	if cannotShare(err) {
		err = s.openImmutable()
	}
	if err != nil {
		s.Close()
		return nil, s.fail(context.Background(), "open records", err)
	}
	return s, nil
}

func (s *Store) writeParams() url.Values {
	p := url.Values{
		"_txlock": {"immediate"}, "_journal_mode": {"WAL"}, "_synchronous": {"FULL"},
		"_foreign_keys": {"on"}, "_cache_size": {"-32000"},
	}
	// the file keeps it, and to set it again SQLite would take the lock at each opening
	if fi, err := os.Stat(s.path); err != nil || fi.Size() == 0 {
		p.Set("_auto_vacuum", "incremental")
	}
	return p
}

func readParams() url.Values {
	return url.Values{"_query_only": {"on"}, "_foreign_keys": {"on"}, "_cache_size": {"-32000"}}
}

func newStore(path string, opts Options) (*Store, error) {
	if path == "" || strings.ContainsRune(path, 0) {
		return nil, fmt.Errorf("open records: %q is no file name", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open records: %w", err)
	}
	return &Store{path: abs, opts: opts.withDefaults(), batch: map[int64]int64{}}, nil
}

// cannotShare: the write-ahead log or its shared memory could not be opened.
func cannotShare(err error) bool {
	var se sqlite3.Error
	return errors.As(err, &se) && (se.Code == sqlite3.ErrCantOpen || se.Code == sqlite3.ErrReadonly)
}

// openImmutable reads the file without journal and locks. A log with content is
// then not seen, which must be said.
func (s *Store) openImmutable() error {
	s.readers.Close()
	p := readParams()
	p.Set("immutable", "1")
	s.readers = s.pool("ro", p, 4)
	if err := s.checkVersion(context.Background()); err != nil {
		return err
	}
	s.problems = append(s.problems, "read "+s.path+
		" without its journal, which cannot be opened here: changes made meanwhile are not seen")
	if fi, err := os.Stat(s.path + "-wal"); err == nil && fi.Size() > 0 {
		s.problems = append(s.problems, fmt.Sprintf("the newest records are missing: %s-wal holds %d bytes that were not read",
			s.path, fi.Size()))
	}
	return nil
}

// createFile makes an empty file with the wanted mode; SQLite gives the same
// mode to the journal. An existing file is not opened here: closing it would drop
// the locks that this process may hold on it (fcntl locks belong to the process).
func (s *Store) createFile() error {
	mode := fs.FileMode(0o600)
	if s.opts.GroupRead {
		mode = 0o640
	}
	fi, err := os.Stat(s.path)
	switch {
	case err == nil && !fi.Mode().IsRegular():
		return fmt.Errorf("open records: %s is not a regular file", s.path)
	case err == nil:
		if fi.Mode().Perm()&0o007 != 0 {
			s.problems = append(s.problems, fmt.Sprintf("%s names users and is open to everybody (mode %04o)", s.path, fi.Mode().Perm()))
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("open records: %w", err)
	}
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, mode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil // another process was faster
	case errors.Is(err, fs.ErrNotExist):
		return ioguard.WithHint(fmt.Errorf("create records: %w", err), "mkdir -p "+shellQuote(filepath.Dir(s.path)))
	case err != nil:
		return fmt.Errorf("create records: %w", err)
	}
	// not the umask's choice
	return errors.Join(f.Chmod(mode), f.Close())
}

// Close ends all connections.
func (s *Store) Close() error {
	var err error
	if s.readers != nil {
		err = s.readers.Close()
	}
	if s.writer != nil {
		err = errors.Join(err, s.writer.Close())
	}
	return err
}

// Path is the file's absolute path.
func (s *Store) Path() string { return s.path }

// Problems says in sentences what is not as it should be but did not stop Open.
func (s *Store) Problems() []string { return s.problems }

// pool gives connections to the file. Every setting is in the DSN or the
// connect hook: a PRAGMA by Exec would reach one connection only.
func (s *Store) pool(mode string, params url.Values, conns int) *sql.DB {
	params.Set("mode", mode)
	params.Set("_busy_timeout", strconv.FormatInt(s.opts.BusyTimeout.Milliseconds(), 10))
	params.Set("_stmt_cache_size", "64")
	dsn := (&url.URL{Scheme: "file", Path: s.path}).String() + "?" + params.Encode()
	db := sql.OpenDB(&connector{dsn: dsn, maxBytes: s.opts.MaxBytes})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// connector opens connections without a name in database/sql's global table.
type connector struct {
	dsn      string
	maxBytes int64
}

func (c *connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

func (c *connector) Connect(context.Context) (driver.Conn, error) {
	d := &sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		q := "PRAGMA temp_store=MEMORY; PRAGMA journal_size_limit=67108864"
		if c.maxBytes > 0 {
			q += "; PRAGMA max_page_count=" + strconv.FormatInt(max(1, c.maxBytes/4096), 10)
		}
		_, err := conn.Exec(q, nil)
		return err
	}}
	return d.Open(c.dsn)
}

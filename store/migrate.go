package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"

	"ioguard"
)

//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks the file as ours (PRAGMA application_id): "ioGd".
const applicationID = 0x696f4764

// migrationNames lists the embedded migrations in order. A file's version is how
// many of them it has seen.
func migrationNames() ([]string, error) { return fs.Glob(migrations, "migrations/*.sql") }

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// version reads the file's schema version; 0 is an empty file.
func (s *Store) version(ctx context.Context, q querier, known int) (int, error) {
	var app, version, tables int
	// the table count makes SQLite open the journal, which the pragmas alone do not
	err := q.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).Scan(&app, &version, &tables)
	switch {
	case err != nil:
		return 0, err
	case app == 0 && tables == 0 && version == 0:
		return 0, nil
	case app != applicationID:
		return 0, ioguard.WithHint(&ForeignError{s.path}, "give another path for the records")
	case version > known:
		return 0, ioguard.WithHint(&NewerError{s.path, version, known},
			"use the ioguard that wrote it, or move "+shellQuote(s.path)+" aside to start anew")
	}
	return version, nil
}

// migrate brings the file up to date: two processes that start together do not
// both do it.
func (s *Store) migrate(ctx context.Context) error {
	names, err := migrationNames()
	if err != nil {
		return err
	}
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := s.migrateTo(ctx, tx, names); err != nil {
		return err
	}
	return tx.Commit()
}

// migrateTo runs those of the migrations that the file has not seen, all in the
// caller's transaction.
func (s *Store) migrateTo(ctx context.Context, tx *sql.Tx, names []string) error {
	have, err := s.version(ctx, tx, len(names))
	if err != nil {
		return err
	}
	s.schema = len(names)
	if have == len(names) {
		return nil
	}
	if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS migration (name TEXT PRIMARY KEY)"); err != nil {
		return err
	}
	for _, name := range names[have:] {
		if err := runMigration(ctx, tx, name); err != nil {
			return fmt.Errorf("migrate %s: %w", path.Base(name), err)
		}
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, len(names)))
	return err
}

func runMigration(ctx context.Context, tx *sql.Tx, name string) error {
	text, err := migrations.ReadFile(name)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, string(text)); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO migration (name) VALUES (?)", path.Base(name))
	return err
}

// oldestReadable is the version from which on a reader understands all there is:
// later migrations only added tables, which an older file answers for as empty.
const oldestReadable = 1

// nodesSchema is the version that brought node_job, node_fs and node_event.
const nodesSchema = 2

// checkVersion refuses a file that this program cannot read.
func (s *Store) checkVersion(ctx context.Context) error {
	names, err := migrationNames()
	if err != nil {
		return err
	}
	have, err := s.version(ctx, s.readers, len(names))
	if err == nil && have < oldestReadable {
		return ioguard.WithHint(&OlderError{s.path, have, oldestReadable},
			"start this release's ioguard watch once: it brings the file up to date")
	}
	s.schema = have
	return err
}

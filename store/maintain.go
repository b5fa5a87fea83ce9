package store

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"ioguard"
)

// Work is what one call of Maintain did.
type Work struct {
	Deleted int64 // rows
	Packed  int   // hours and days
	Freed   int64 // pages given back to the file system
	More    bool  // there is more to do now
}

// The bounds of one call: some tens of milliseconds each.
const (
	maxDeletes = 20_000 // rows per table
	maxPacked  = 1      // days, and 24 times as many hours
	maxFreed   = 2_000  // pages
)

// Maintain packs hours and days that are over and drops what is older than
// [Retention] says, a bounded amount per call and in short transactions, so that
// Write never waits long. Call it about once a minute with the time; call again
// at once while Work.More, if there is time. Errors are those of Write.
func (s *Store) Maintain(ctx context.Context, now time.Time) (Work, error) {
	var w Work
	if s.writer == nil {
		return w, ErrReadOnly
	}
	steps := []func(context.Context, *idTx, time.Time, *Work) error{
		packStep, s.levelStep(minuteLevel, hourLevel, s.opts.Keep.Minutes), s.levelStep(hourLevel, dayLevel, s.opts.Keep.Hours),
		s.levelStep(dayLevel, dayLevel, s.opts.Keep.Days), s.pressureStep, s.findingStep, s.nodeStep, s.jobStep,
	}
	for _, step := range steps {
		err := s.update(ctx, func(ctx context.Context, tx *idTx) error { return step(ctx, tx, now, &w) })
		if err != nil {
			return w, s.fail(ctx, "maintain records", err)
		}
	}
	err := s.giveBack(ctx, &w)
	return w, s.fail(ctx, "maintain records", err)
}

func packStep(ctx context.Context, tx *idTx, now time.Time, w *Work) error {
	n, err := digestPending(ctx, tx, now.Unix()-300, maxPacked)
	w.Packed += n
	w.More = w.More || n > 0
	return err
}

// floorName is the time before which rows of a level may be gone.
func floorName(l level) string { return l.table + "_floor" }

// levelStep drops rows of a level. The floor is a multiple of the next level's
// span: what is gone is gone for whole hours (days), so that a question either
// reads all of one level or the one above.
func (s *Store) levelStep(l, above level, keep time.Duration) func(context.Context, *idTx, time.Time, *Work) error {
	return func(ctx context.Context, tx *idTx, now time.Time, w *Work) error {
		floor := above.floor(now.Add(-keep).Unix())
		have, err := tx.one(ctx, "SELECT ifnull((SELECT value FROM meta WHERE name = ?), ?)", floorName(l), int64(math.MinInt64))
		if err != nil {
			return err
		}
		floor = max(floor, have) // a clock that goes back brings no rows back
		_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", floorName(l), floor)
		if err != nil {
			return err
		}
		if err := s.dropRows(ctx, tx, w, deleteOldest(l.table, ""), floor); err != nil {
			return err
		}
		return s.dropRows(ctx, tx, w, "DELETE FROM period WHERE rowid IN (SELECT rowid FROM period WHERE span = ?3 AND start < ?1 LIMIT ?2)",
			floor, l.span)
	}
}

// deleteOldest deletes the ?2 oldest rows before ?1, and those of the same start
// as the last of them: DELETE ... LIMIT is not compiled into the driver. There is
// one upper bound on start, else SQLite may walk all rows up to the wrong one.
func deleteOldest(table, prefix string) string {
	return "DELETE FROM " + table + " WHERE " + prefix + "start <= (SELECT max(start) FROM (SELECT start FROM " +
		table + " WHERE " + prefix + "start < ?1 ORDER BY start LIMIT ?2))"
}

// dropRows runs a DELETE whose second argument is the bound.
func (s *Store) dropRows(ctx context.Context, tx *idTx, w *Work, query string, arg any, more ...any) error {
	r, err := tx.ExecContext(ctx, query, append([]any{arg, maxDeletes}, more...)...)
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	w.Deleted += n
	w.More = w.More || n >= maxDeletes
	return err
}

// findingStep drops findings that ended long ago, and those that nobody has told
// of for as long.
func (s *Store) findingStep(ctx context.Context, tx *idTx, now time.Time, w *Work) error {
	cut := now.Add(-s.opts.Keep.Findings).UnixMicro()
	return s.dropRows(ctx, tx, w, `DELETE FROM finding WHERE id IN (SELECT id FROM finding
		WHERE start < ?1 AND ifnull(ended, seen) < ?1 LIMIT min(?2, 500))`, cut)
}

// nodeStep drops what the hooks told long ago.
func (s *Store) nodeStep(ctx context.Context, tx *idTx, now time.Time, w *Work) error {
	return s.dropNodes(ctx, tx, w, now, 2000)
}

// dropNodes drops at most n events and n jobs of nodes.
func (s *Store) dropNodes(ctx context.Context, tx *idTx, w *Work, now time.Time, n int) error {
	const oldest = " WHERE id IN (SELECT id FROM %s WHERE %s < ?1 ORDER BY %[2]s LIMIT min(?2, ?3))"
	err := s.dropRows(ctx, tx, w, "DELETE FROM node_event"+fmt.Sprintf(oldest, "node_event", "time"), now.Add(-s.opts.Keep.Findings).UnixMicro(), n)
	if err != nil {
		return err
	}
	return s.dropRows(ctx, tx, w, "DELETE FROM node_job"+fmt.Sprintf(oldest, "node_job", "at"), now.Add(-s.opts.Keep.Days).UnixMicro(), n)
}

// jobStep drops jobs that no row and no finding names any more. It walks the
// table a piece per call.
func (s *Store) jobStep(ctx context.Context, tx *idTx, now time.Time, w *Work) error {
	const piece = 5_000
	from, err := tx.one(ctx, "SELECT ifnull((SELECT value FROM meta WHERE name = 'job_sweep'), 0)")
	if err != nil {
		return err
	}
	to, err := tx.one(ctx, "SELECT ifnull(max(id), -1) FROM (SELECT id FROM job WHERE id > ? ORDER BY id LIMIT ?)", from, piece)
	if err != nil {
		return err
	}
	next := to
	if to < 0 {
		next = 0 // the end: begin again at the next call
	}
	if _, err := tx.ExecContext(ctx, "INSERT OR REPLACE INTO meta (name, value) VALUES ('job_sweep', ?)", next); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE job SET noted = ? WHERE id > ? AND id <= ? AND noted IS NULL", now.Unix(), from, to); err != nil {
		return err
	}
	// a job that Slurm announced may not have done any I/O yet
	cut := dayLevel.floor(now.Add(-s.opts.Keep.Days).Unix())
	r, err := tx.ExecContext(ctx, `DELETE FROM job WHERE id > ?1 AND id <= ?2
		AND max(ifnull(last_seen, 0), ifnull(started, 0), noted) < ?3
		AND NOT EXISTS (SELECT 1 FROM finding WHERE finding.job = job.id)
		AND NOT EXISTS (SELECT 1 FROM finding_window WHERE finding_window.job = job.id)`, from, to, cut)
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	if n > 0 {
		w.Deleted += n
		tx.ids.jobs = map[string]int64{}
	}
	return err
}

// pressureStep turns the oldest hour of pressure beyond Minutes into one row per
// server, and drops hours beyond Days.
func (s *Store) pressureStep(ctx context.Context, tx *idTx, now time.Time, w *Work) error {
	if err := s.dropRows(ctx, tx, w, deleteOldest("pressure", "span = 3600 AND "), now.Add(-s.opts.Keep.Days).Unix()); err != nil {
		return err
	}
	cut := hourLevel.floor(now.Add(-s.opts.Keep.Minutes).Unix())
	for range 4 {
		var oldest sql.NullInt64
		err := tx.QueryRowContext(ctx, "SELECT min(start) FROM pressure WHERE span = 0 AND start < ?", cut).Scan(&oldest)
		if err != nil || !oldest.Valid {
			return err
		}
		if err := s.pressureHour(ctx, tx, w, hourLevel.floor(oldest.Int64)); err != nil {
			return err
		}
	}
	w.More = true
	return nil
}

// pressureHour merges an hour's rows, and the hour's own row where late rows
// follow an earlier merge.
func (s *Store) pressureHour(ctx context.Context, tx *idTx, w *Work, hour int64) error {
	means := map[int64]*pressureMean{}
	rows, err := tx.QueryContext(ctx, "SELECT server, "+pressureColumns+` FROM pressure
		WHERE (span = 0 AND start >= ?1 AND start < ?1 + 3600) OR (span = 3600 AND start = ?1)`, hour)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var server int64
		var p pressureRow
		if err := rows.Scan(append([]any{&server}, p.dest()...)...); err != nil {
			return err
		}
		if means[server] == nil {
			means[server] = &pressureMean{}
		}
		means[server].add(&p)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for server, m := range means {
		p := m.pressure()
		if err := replacePressure(ctx, tx, 3600, hour, server, &p); err != nil {
			return err
		}
	}
	r, err := tx.ExecContext(ctx, "DELETE FROM pressure WHERE span = 0 AND start >= ? AND start < ?", hour, hour+3600)
	if err != nil {
		return err
	}
	n, err := r.RowsAffected()
	w.Deleted += n
	return err
}

const pressureColumns = "seconds, busy, iowait, psi_some, util, queue_size, wait_usec, score"

// pressureRow holds pressureColumns in order.
type pressureRow [8]sql.NullFloat64

func (p *pressureRow) dest() []any {
	d := make([]any, len(p))
	for i := range p {
		d[i] = &p[i]
	}
	return d
}

func (p *pressureRow) value(i int) float64 {
	if !p[i].Valid {
		return math.NaN()
	}
	return p[i].Float64
}

func (p *pressureRow) pressure() ioguard.Pressure {
	return ioguard.Pressure{Seconds: p.value(0), Busy: p.value(1), IOWait: p.value(2), PSISome: p.value(3),
		Util: p.value(4), QueueSize: p.value(5), WaitUsec: p.value(6), Score: p.value(7)}
}

// pressureMean is the mean of each column over the time for which it is known;
// of the score it is the highest.
type pressureMean struct {
	sum, weight [8]float64
	seconds     float64
	score       float64
	scored      bool
}

func (m *pressureMean) add(p *pressureRow) {
	seconds := p[0].Float64
	if !(seconds > 0) {
		seconds = 1
	}
	m.seconds += p[0].Float64
	for i := 1; i < 7; i++ {
		if p[i].Valid {
			m.sum[i] += p[i].Float64 * seconds
			m.weight[i] += seconds
		}
	}
	if p[7].Valid && (!m.scored || p[7].Float64 > m.score) {
		m.score, m.scored = p[7].Float64, true
	}
}

func (m *pressureMean) pressure() ioguard.Pressure {
	var row pressureRow
	row[0] = sql.NullFloat64{Float64: m.seconds, Valid: true}
	for i := 1; i < 7; i++ {
		row[i] = sql.NullFloat64{Float64: m.sum[i] / m.weight[i], Valid: m.weight[i] > 0}
	}
	row[7] = sql.NullFloat64{Float64: m.score, Valid: m.scored}
	return row.pressure()
}

// giveBack returns free pages to the file system once there are many: pages that
// the next day fills again need not go.
func (s *Store) giveBack(ctx context.Context, w *Work) error {
	var free, pages int64
	err := s.readers.QueryRowContext(ctx, `SELECT (SELECT freelist_count FROM pragma_freelist_count),
		(SELECT page_count FROM pragma_page_count)`).Scan(&free, &pages)
	if err != nil || free < pages/10 || free < maxFreed {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// the pragma frees a page per step: it must be read to its end
	rows, err := s.writer.QueryContext(ctx, "PRAGMA incremental_vacuum(2000)")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	w.Freed = maxFreed
	w.More = w.More || free >= 2*maxFreed+pages/10
	return rows.Err()
}

package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ioguard"
)

// Batch is what is written at once: all of it or nothing.
type Batch struct {
	// Agent and Seq name the batch. A batch whose name was written before is
	// not written again. Seq must grow by about one per batch, also over
	// restarts (see LastSeq); the last 1024 are remembered. An empty Agent
	// turns this off.
	Agent string
	Seq   int64 // 0 or more

	Time     time.Time // when the batch was made; zero: the end of its last window
	Windows  []ioguard.Window
	Pressure []ioguard.Pressure
	Findings []FindingUpdate
	Owners   []ioguard.Owner
}

// FindingUpdate opens, updates or closes (End set) the finding with its Key and
// Start. An update without Evidence or Facts keeps those there are; a closed
// finding stays closed; a finding with the same key that started earlier and is
// still open is closed when it was last told of.
type FindingUpdate struct {
	Finding ioguard.Finding
	Windows []ioguard.Window // that prove it: added to those there are, the newest are kept
}

// rememberedBatches bounds what an agent's batches cost to remember.
const rememberedBatches = 1024

// Write keeps a batch. A nil error means that it is on disk, or was before.
//
// Windows add to the rows of their minute, hour and day (UTC, by Start): sums
// add, Targets and peaks keep the highest. Numbers that are no amounts (NaN,
// infinite, negative) add nothing. A pressure row replaces the one with the same
// server and second. Non-empty fields of an owner replace what is known.
//
// Errors: [ErrReadOnly], [ErrOldBatch], [*FullError], [*LockedError],
// [*CorruptError], and windows, pressure or findings whose Start is not between
// 1970 and 9999. After any error nothing of the batch is kept and the Store can
// be used again.
func (s *Store) Write(ctx context.Context, b Batch) error {
	if s.writer == nil {
		return ErrReadOnly
	}
	if err := b.check(); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return s.fail(ctx, "write records", s.update(ctx, func(ctx context.Context, tx *idTx) error {
		return s.write(ctx, tx, &b)
	}))
}

// LastSeq is the highest Seq written by an agent. It reports false where there
// is none.
func (s *Store) LastSeq(ctx context.Context, agent string) (int64, bool, error) {
	var seq sql.NullInt64
	err := s.readers.QueryRowContext(ctx,
		"SELECT max(seq) FROM batch WHERE agent = (SELECT id FROM word WHERE text = ?)", agent).Scan(&seq)
	return seq.Int64, seq.Valid, s.fail(ctx, "read last batch", err)
}

// update runs f in the writer's transaction. The statements within are not
// cancelled one by one (each would cost a goroutine): f looks at its context
// through tx being rolled back, which the deadline of ctx does.
func (s *Store) update(ctx context.Context, f func(context.Context, *idTx) error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ids.jobs == nil {
		s.ids.reset()
	}
	sqlTx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			// SQLite may have rolled back by itself: that is no second error
			_ = sqlTx.Rollback()
			s.ids.reset()
			clear(s.batch)
		}
	}()
	if err := f(context.WithoutCancel(ctx), &idTx{Tx: sqlTx, ids: &s.ids}); err != nil {
		return err
	}
	return sqlTx.Commit()
}

func (b *Batch) check() error {
	if b.Seq < 0 {
		return fmt.Errorf("batch %d of %s: negative sequence number", b.Seq, b.Agent)
	}
	for i := range b.Windows {
		if err := checkTime(b.Windows[i].Start); err != nil {
			return fmt.Errorf("window of job %q: %w", b.Windows[i].JobID, err)
		}
	}
	for i := range b.Pressure {
		if err := checkTime(b.Pressure[i].Start); err != nil {
			return fmt.Errorf("pressure of %q: %w", b.Pressure[i].Server, err)
		}
	}
	for i := range b.Findings {
		f := &b.Findings[i]
		if err := checkTime(f.Finding.Start); err != nil {
			return fmt.Errorf("finding %q: %w", f.Finding.Key(), err)
		}
		for j := range f.Windows {
			if err := checkTime(f.Windows[j].Start); err != nil {
				return fmt.Errorf("window of finding %q: %w", f.Finding.Key(), err)
			}
		}
	}
	return nil
}

const lastSecond = 253402300799 // the end of 9999

func checkTime(t time.Time) error {
	if u := t.Unix(); u < 0 || u > lastSecond {
		return fmt.Errorf("start %s is not between 1970 and 9999", t.Format(time.RFC3339))
	}
	return nil
}

func (s *Store) write(ctx context.Context, tx *idTx, b *Batch) error {
	done, err := s.alreadyWritten(ctx, tx, b)
	if done || err != nil {
		return err
	}
	seen := b.seen()
	if !seen.IsZero() {
		tx.now = seen.Unix()
	}
	if err := writeOwners(ctx, tx, b.Owners); err != nil {
		return err
	}
	if err := s.writeWindows(ctx, tx, b.Windows); err != nil {
		return err
	}
	if err := writePressure(ctx, tx, b.Pressure); err != nil {
		return err
	}
	for i := range b.Findings {
		if err := s.writeFinding(ctx, tx, &b.Findings[i], seen); err != nil {
			return err
		}
	}
	return nil
}

// alreadyWritten looks the batch up and notes it.
func (s *Store) alreadyWritten(ctx context.Context, tx *idTx, b *Batch) (bool, error) {
	if b.Agent == "" {
		return false, nil
	}
	agent, err := tx.word(ctx, b.Agent)
	if err != nil {
		return false, err
	}
	last, ok := s.batch[agent]
	if !ok {
		if last, err = tx.one(ctx, "SELECT ifnull(max(seq), -1) FROM batch WHERE agent = ?", agent); err != nil {
			return false, err
		}
	}
	if b.Seq <= last-rememberedBatches {
		return false, ioguard.WithHint(fmt.Errorf("batch %d of %s, last was %d: %w", b.Seq, b.Agent, last, ErrOldBatch),
			"an agent must continue its sequence after a restart")
	}
	r, err := tx.ExecContext(ctx, "INSERT INTO batch (agent, seq) VALUES (?, ?) ON CONFLICT DO NOTHING", agent, b.Seq)
	if err != nil {
		return false, err
	}
	if n, err := r.RowsAffected(); n == 0 || err != nil {
		return true, err
	}
	last = max(last, b.Seq)
	s.batch[agent] = last
	_, err = tx.ExecContext(ctx, "DELETE FROM batch WHERE agent = ? AND seq <= ?", agent, last-rememberedBatches)
	return false, err
}

// seen is the batch's own time.
func (b *Batch) seen() time.Time {
	t := b.Time
	if !t.IsZero() {
		return t
	}
	for i := range b.Windows {
		if e := windowEnd(&b.Windows[i]); e.After(t) {
			t = e
		}
	}
	return t
}

// windowEnd is Start and Seconds, where those are believable.
func windowEnd(w *ioguard.Window) time.Time {
	sec := w.Seconds
	if !(sec > 0) {
		sec = 0
	}
	return w.Start.Add(time.Duration(min(sec, 86400) * float64(time.Second)))
}

// rowKey is a row of a level's table.
type rowKey struct{ start, job, pool int64 }

func compareRows(a, b rowKey) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.job, b.job), cmp.Compare(a.pool, b.pool))
}

// seenSpan is when a job was first and last seen, unix seconds.
type seenSpan struct{ first, last int64 }

func (s *Store) writeWindows(ctx context.Context, tx *idTx, windows []ioguard.Window) error {
	if len(windows) == 0 {
		return nil
	}
	rows := make(map[rowKey]*vec, len(windows))
	spans := map[int64]seenSpan{}
	oldest := int64(math.MaxInt64)
	for i := range windows {
		w := &windows[i]
		key, err := keyOf(ctx, tx, w)
		if err != nil {
			return err
		}
		start, end := key.start, windowEnd(w).Unix()
		oldest = min(oldest, start)
		if sp, ok := spans[key.job]; ok {
			start, end = min(start, sp.first), max(end, sp.last)
		}
		spans[key.job] = seenSpan{start, end}
		addRow(rows, key, minuteLevel, vecOf(w))
	}
	for i, l := range levels {
		if i > 0 {
			rows = coarser(rows, l)
		}
		if err := writeRows(ctx, tx, l, rows); err != nil {
			return err
		}
	}
	if err := writeSpans(ctx, tx, spans); err != nil {
		return err
	}
	// a little time for batches that come late
	_, err := digestPending(ctx, tx, oldest-300, 1)
	return err
}

func keyOf(ctx context.Context, tx *idTx, w *ioguard.Window) (rowKey, error) {
	job, err := tx.job(ctx, w.JobID)
	if err != nil {
		return rowKey{}, err
	}
	pool, err := tx.pool(ctx, w.FS, w.Pool)
	return rowKey{w.Start.Unix(), job, pool}, err
}

func addRow(rows map[rowKey]*vec, key rowKey, l level, v vec) {
	key.start = l.floor(key.start)
	if have := rows[key]; have != nil {
		have.add(&v)
		return
	}
	rows[key] = &v
}

// coarser sums rows to those of a level with a longer span.
func coarser(rows map[rowKey]*vec, l level) map[rowKey]*vec {
	out := make(map[rowKey]*vec, len(rows))
	for _, key := range sortedKeys(rows) { // in order: sums of floats must not depend on the map
		addRow(out, key, l, *rows[key])
	}
	return out
}

func sortedKeys(rows map[rowKey]*vec) []rowKey {
	keys := make([]rowKey, 0, len(rows))
	for k := range rows {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareRows)
	return keys
}

var levelUpserts = map[level]string{
	minuteLevel: upsertSQL("minute"), hourLevel: upsertSQL("hour"), dayLevel: upsertSQL("day"),
}

// writeRows adds rows to a level in the order of its key and marks the periods
// as changed.
func writeRows(ctx context.Context, tx *idTx, l level, rows map[rowKey]*vec) error {
	stmt, err := tx.PrepareContext(ctx, levelUpserts[l])
	if err != nil {
		return err
	}
	defer stmt.Close()
	args := make([]any, 3+numColumns)
	last := int64(-1)
	for _, key := range sortedKeys(rows) {
		if key.start != last && l != minuteLevel {
			if err := openPeriod(ctx, tx, l, key.start); err != nil {
				return err
			}
		}
		last = key.start
		args[0], args[1], args[2] = key.start, key.job, key.pool
		for i, x := range rows[key] {
			args[3+i] = x
		}
		if _, err := stmt.ExecContext(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// openPeriod notes that a period has rows that no digest holds.
func openPeriod(ctx context.Context, tx *idTx, l level, start int64) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO period (span, start) VALUES (?, ?)
		ON CONFLICT DO UPDATE SET digest = NULL WHERE digest IS NOT NULL`, l.span, start)
	return err
}

func writeSpans(ctx context.Context, tx *idTx, spans map[int64]seenSpan) error {
	stmt, err := tx.PrepareContext(ctx, `UPDATE job SET first_seen = min(ifnull(first_seen, ?1), ?1),
		last_seen = max(ifnull(last_seen, ?2), ?2) WHERE id = ?3`)
	if err != nil {
		return err
	}
	defer stmt.Close()
	jobs := make([]int64, 0, len(spans))
	for j := range spans {
		jobs = append(jobs, j)
	}
	slices.Sort(jobs)
	for _, j := range jobs {
		if _, err := stmt.ExecContext(ctx, spans[j].first, spans[j].last, j); err != nil {
			return err
		}
	}
	return nil
}

func writeOwners(ctx context.Context, tx *idTx, owners []ioguard.Owner) error {
	for i := range owners {
		o := &owners[i]
		job, err := tx.job(ctx, o.JobID)
		if err != nil {
			return err
		}
		user, err := tx.word(ctx, o.User)
		if err != nil {
			return err
		}
		account, err := tx.word(ctx, o.Account)
		if err != nil {
			return err
		}
		var started any
		if !o.Start.IsZero() && checkTime(o.Start) == nil {
			started = o.Start.Unix()
		}
		_, err = tx.ExecContext(ctx, `UPDATE job SET
			name = CASE WHEN ?1 = '' THEN name ELSE ?1 END,
			app = CASE WHEN ?2 = 0 THEN app ELSE ?2 END,
			user = CASE WHEN ?3 = 0 THEN user ELSE ?3 END,
			account = CASE WHEN ?4 = 0 THEN account ELSE ?4 END,
			partition = CASE WHEN ?5 = '' THEN partition ELSE ?5 END,
			nodes = CASE WHEN ?6 = '' THEN nodes ELSE ?6 END,
			state = CASE WHEN ?7 = '' THEN state ELSE ?7 END,
			started = ifnull(?8, started) WHERE id = ?9`,
			o.Name, appHash(o.Name), user, account, o.Partition, o.Nodes, o.State, started, job)
		if err != nil {
			return err
		}
	}
	return nil
}

func writePressure(ctx context.Context, tx *idTx, rows []ioguard.Pressure) error {
	for i := range rows {
		p := &rows[i]
		server, err := tx.word(ctx, p.Server)
		if err != nil {
			return err
		}
		if err := replacePressure(ctx, tx, 0, p.Start.Unix(), server, p); err != nil {
			return err
		}
	}
	return nil
}

func replacePressure(ctx context.Context, tx *idTx, span, start, server int64, p *ioguard.Pressure) error {
	_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO pressure
		(span, start, server, seconds, busy, iowait, psi_some, util, queue_size, wait_usec, score)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, span, start, server, orNull(p.Seconds), orNull(p.Busy),
		orNull(p.IOWait), orNull(p.PSISome), orNull(p.Util), orNull(p.QueueSize), orNull(p.WaitUsec), orNull(p.Score))
	return err
}

// orNull keeps unknown as NULL. SQLite keeps infinities.
func orNull(x float64) any {
	if math.IsNaN(x) {
		return nil
	}
	return x
}

// findingUpsert keeps the newer texts: a batch that is written late must not
// bring back what was.
var findingUpsert = func() string {
	q := `INSERT INTO finding (key, start, ended, seen, rule, subject, job, target, fs, worst,
		title, server, severity, action, advice, inferred, evidence, facts)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (key, start) DO UPDATE SET seen = max(seen, excluded.seen), worst = max(worst, excluded.worst),
		ended = max(ifnull(ended, excluded.ended), ifnull(excluded.ended, ended))`
	for _, c := range []string{"title", "server", "severity", "action", "advice", "inferred"} {
		q += ", " + c + " = iif(excluded.seen >= seen, excluded." + c + ", " + c + ")"
	}
	for _, c := range []string{"evidence", "facts"} {
		q += ", " + c + " = iif(excluded.seen >= seen AND excluded." + c + " <> 'null', excluded." + c + ", " + c + ")"
	}
	return q
}()

func (s *Store) writeFinding(ctx context.Context, tx *idTx, u *FindingUpdate, seen time.Time) error {
	f := &u.Finding
	var job, ended any
	if f.JobID != "" {
		id, err := tx.job(ctx, f.JobID)
		if err != nil {
			return err
		}
		job = id
	}
	if !f.End.IsZero() {
		ended = max(f.End.UnixMicro(), f.Start.UnixMicro())
	}
	evidence, err := json.Marshal(toEvidence(f.Evidence))
	if err != nil {
		return fmt.Errorf("encode evidence of %s: %w", f.Key(), err)
	}
	facts, err := json.Marshal(f.Facts)
	if err != nil {
		return fmt.Errorf("encode facts of %s: %w", f.Key(), err)
	}
	seenUsec := max(f.Start.UnixMicro(), seen.UnixMicro())
	key, start := f.Key(), f.Start.UnixMicro()
	_, err = tx.ExecContext(ctx, findingUpsert, key, start, ended, seenUsec, f.Rule, f.Subject, job, f.Target,
		f.FS, f.Severity.Rank(), f.Title, f.Server, string(f.Severity), f.Action, f.Advice, f.Inferred,
		string(evidence), string(facts))
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE finding SET ended = max(start, min(seen, (SELECT max(start) FROM finding WHERE key = ?1)))
		WHERE key = ?1 AND ended IS NULL AND start < (SELECT max(start) FROM finding WHERE key = ?1)`, key)
	if err != nil {
		return err
	}
	id, err := tx.one(ctx, "SELECT id FROM finding WHERE key = ? AND start = ?", key, start)
	if err != nil {
		return err
	}
	return s.writeEvidence(ctx, tx, id, u.Windows)
}

var evidenceInsert = "INSERT OR REPLACE INTO finding_window (finding, start, job, pool, " + columnList("") +
	") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

// writeEvidence keeps the newest windows of a finding, as they were.
func (s *Store) writeEvidence(ctx context.Context, tx *idTx, finding int64, windows []ioguard.Window) error {
	for i := range windows {
		key, err := keyOf(ctx, tx, &windows[i])
		if err != nil {
			return err
		}
		args := []any{finding, windows[i].Start.UnixMicro(), key.job, key.pool}
		for _, x := range vecOf(&windows[i]) {
			args = append(args, x)
		}
		if _, err := tx.ExecContext(ctx, evidenceInsert, args...); err != nil {
			return err
		}
	}
	if len(windows) == 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM finding_window WHERE finding = ?1 AND start < (SELECT min(start) FROM
		(SELECT start FROM finding_window WHERE finding = ?1 ORDER BY start DESC LIMIT ?2))`, finding, s.opts.EvidenceWindows)
	return err
}

// JSON knows neither NaN nor the infinities: unknown is null, the others are
// words.
func toEvidence(m map[string]float64) map[string]any {
	if m == nil {
		return nil
	}
	out := make(map[string]any, len(m))
	for k, x := range m {
		switch {
		case math.IsNaN(x):
			out[k] = nil
		case math.IsInf(x, 1):
			out[k] = "inf"
		case math.IsInf(x, -1):
			out[k] = "-inf"
		default:
			out[k] = x
		}
	}
	return out
}

func fromEvidence(text string) (map[string]float64, error) {
	var raw map[string]any
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, nil
	}
	out := make(map[string]float64, len(raw))
	for k, v := range raw {
		switch v := v.(type) {
		case nil:
			out[k] = math.NaN()
		case float64:
			out[k] = v
		case string:
			sign := 1
			if v == "-inf" {
				sign = -1
			}
			out[k] = math.Inf(sign)
		default:
			return nil, errors.New("evidence " + k + " is not a number")
		}
	}
	return out, nil
}

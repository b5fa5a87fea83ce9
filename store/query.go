package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"ioguard"
)

// JobAccount is all that is kept of a job.
type JobAccount struct {
	Owner       ioguard.Owner // JobID always; User of an id that is no Slurm job is its number
	App         string        // as TopRow.App
	First, Last time.Time     // of its windows; zero where there are none

	Totals ioguard.Window   // over First to Last; FS where there is one; Pool ""
	Pools  []ioguard.Window // the same per file system and pool, in order of their names

	Findings []FindingRecord // oldest first, with the windows that prove them

	// The job over time, pools and file systems merged, oldest first; spans
	// without work have no entry. Minutes are those still kept of its last two
	// days, Hours of its last 30.
	Minutes, Hours, Days []ioguard.Window
}

// FindingRecord is a finding as kept.
type FindingRecord struct {
	ioguard.Finding
	Worst   ioguard.Severity // the highest severity it reached
	Seen    time.Time        // when it was last told of
	Windows []ioguard.Window // that prove it, oldest first; only where asked for
}

// Job gives the account of a job. Errors: [ErrNotFound].
func (s *Store) Job(ctx context.Context, jobID string) (*JobAccount, error) {
	a := &JobAccount{Owner: ioguard.Owner{JobID: jobID}}
	err := s.read(ctx, func(tx *sql.Tx) error {
		id, err := a.readOwner(ctx, tx)
		if err == sql.ErrNoRows {
			return fmt.Errorf("job %q: %w", jobID, ErrNotFound)
		}
		if err != nil {
			return err
		}
		if err := a.readSeries(ctx, tx, id); err != nil {
			return err
		}
		a.Findings, err = findings(ctx, tx, FindingFilter{JobID: jobID, Windows: true, oldestFirst: true})
		return err
	})
	if err != nil {
		return nil, s.fail(ctx, "read account", err)
	}
	return a, nil
}

func (a *JobAccount) readOwner(ctx context.Context, tx *sql.Tx) (int64, error) {
	var id int64
	var started, first, last sql.NullInt64
	o := &a.Owner
	err := tx.QueryRowContext(ctx, `SELECT j.id, j.name, u.text, c.text, j.partition, j.nodes, j.state, j.started,
		j.first_seen, j.last_seen FROM job j JOIN word u ON u.id = j.user JOIN word c ON c.id = j.account
		WHERE j.jobid = ?`, o.JobID).Scan(&id, &o.Name, &o.User, &o.Account, &o.Partition, &o.Nodes, &o.State,
		&started, &first, &last)
	o.Start, a.First, a.Last = fromUnix(started), fromUnix(first), fromUnix(last)
	name := jobName{jobID: o.JobID, name: o.Name}
	a.App = name.app()
	return id, err
}

func fromUnix(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.Unix(n.Int64, 0).UTC()
}

// readSeries reads the job's rows of all levels and adds up the days.
func (a *JobAccount) readSeries(ctx context.Context, tx *sql.Tx, job int64) error {
	if a.First.IsZero() {
		return nil
	}
	pools, err := poolNames(ctx, tx)
	if err != nil {
		return err
	}
	series := []struct {
		level level
		back  time.Duration
		to    *[]ioguard.Window
	}{{minuteLevel, 2 * dayLength, &a.Minutes}, {hourLevel, 30 * dayLength, &a.Hours}, {dayLevel, 0, &a.Days}}
	for _, x := range series {
		from := a.First
		if t := a.Last.Add(-x.back); x.back > 0 && t.After(from) {
			from = t
		}
		rows, err := jobRows(ctx, tx, x.level, job, from.Unix(), a.Last.Unix())
		if err != nil {
			return err
		}
		*x.to = mergeByStart(rows, a.Owner.JobID)
		if x.level == dayLevel {
			a.sum(rows, pools)
		}
	}
	return nil
}

// jobRow is a row of a level's table of one job.
type jobRow struct {
	start, pool int64
	v           vec
}

// jobRows reads a job's rows by seeking each period in turn: the tables are in
// order of time, and an index by job would cost half as much again as the rows.
func jobRows(ctx context.Context, q querier, l level, job, first, last int64) ([]jobRow, error) {
	rows, err := q.QueryContext(ctx, `WITH RECURSIVE t(at) AS (SELECT ?1 UNION ALL SELECT at + ?2 FROM t WHERE at + ?2 <= ?3)
		SELECT r.start, r.pool, `+columnList("r.")+" FROM t CROSS JOIN "+l.table+" r ON r.start = t.at AND r.job = ?4",
		l.floor(first), l.span, l.floor(last), job)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []jobRow
	var r jobRow
	dest := append([]any{&r.start, &r.pool}, r.v.dest()...)
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// mergeByStart merges the pools of rows that come in order of time.
func mergeByStart(rows []jobRow, jobID string) []ioguard.Window {
	var out []ioguard.Window
	for i := 0; i < len(rows); {
		v, j := rows[i].v, i+1
		for ; j < len(rows) && rows[j].start == rows[i].start; j++ {
			v.add(&rows[j].v)
		}
		w := v.window()
		w.Start, w.JobID = time.Unix(rows[i].start, 0).UTC(), jobID
		out = append(out, w)
		i = j
	}
	return out
}

// sum sets Totals and Pools from the rows of days.
func (a *JobAccount) sum(rows []jobRow, pools []poolID) {
	var total vec
	byPool := map[int64]*vec{}
	for i := range rows {
		r := &rows[i]
		total.add(&r.v)
		if byPool[r.pool] == nil {
			byPool[r.pool] = &vec{}
		}
		byPool[r.pool].add(&r.v)
	}
	one := ""
	for _, p := range pools {
		v := byPool[p.id]
		if v == nil {
			continue
		}
		w := v.window()
		w.Start, w.JobID, w.FS, w.Pool = a.First, a.Owner.JobID, p.fs, p.name
		if len(a.Pools) == 0 {
			one = p.fs
		} else if one != p.fs {
			one = ""
		}
		a.Pools = append(a.Pools, w)
	}
	a.Totals = total.window()
	a.Totals.Start, a.Totals.JobID, a.Totals.FS = a.First, a.Owner.JobID, one
}

type poolID struct {
	id       int64
	fs, name string
}

func poolNames(ctx context.Context, q querier) ([]poolID, error) {
	rows, err := q.QueryContext(ctx, "SELECT p.id, w.text, p.name FROM pool p JOIN word w ON w.id = p.fs ORDER BY w.text, p.name")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []poolID
	for rows.Next() {
		var p poolID
		if err := rows.Scan(&p.id, &p.fs, &p.name); err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, rows.Err()
}

// FindingFilter chooses findings; zero fields choose all.
type FindingFilter struct {
	Since, Until             time.Time // held at some time within; zero: no bound
	Open                     bool      // only those that hold still
	JobID, User, Account, FS string
	Rule, Subject, Target    string
	MinSeverity              ioguard.Severity // of the highest reached
	Windows                  bool             // with the windows that prove them
	Limit                    int              // 0 or less: all

	oldestFirst bool
	either      bool // JobID or User
}

// Findings lists findings, the newest Start first. An infinite or unknown value
// of evidence comes back as it was written; a closed finding has an End.
func (s *Store) Findings(ctx context.Context, f FindingFilter) ([]FindingRecord, error) {
	var out []FindingRecord
	err := s.read(ctx, func(tx *sql.Tx) (err error) {
		out, err = findings(ctx, tx, f)
		return err
	})
	return out, s.fail(ctx, "read findings", err)
}

// OpenFindings lists the findings that hold still for a job or for any job of a
// user, the newest Start first; "" is nobody. It is for a line told at the start
// of a job: the few findings that are open are looked at, and no others. One
// whose Seen is long past may only have lost its server.
func (s *Store) OpenFindings(ctx context.Context, user, jobID string) ([]FindingRecord, error) {
	if user == "" && jobID == "" {
		return nil, nil
	}
	return s.Findings(ctx, FindingFilter{Open: true, User: user, JobID: jobID, either: true})
}

// conditions gives the WHERE clause; every value is an argument of it.
func (f *FindingFilter) conditions() (string, []any) {
	where, args := []string{"1"}, []any(nil)
	add := func(use bool, condition string, arg ...any) {
		if use {
			where = append(where, condition)
			args = append(args, arg...)
		}
	}
	add(!f.Since.IsZero(), "(f.ended IS NULL OR f.ended >= ?)", f.Since.UnixMicro())
	add(!f.Until.IsZero(), "f.start < ?", f.Until.UnixMicro())
	add(f.Open, "f.ended IS NULL")
	if f.either {
		add(true, "(f.job = (SELECT id FROM job WHERE jobid = ?) OR j.user = (SELECT id FROM word WHERE text = ? AND id <> 0))", f.JobID, f.User)
		return strings.Join(where, " AND "), args
	}
	add(f.JobID != "", "f.job = (SELECT id FROM job WHERE jobid = ?)", f.JobID)
	add(f.User != "", "j.user = (SELECT id FROM word WHERE text = ?)", f.User)
	add(f.Account != "", "j.account = (SELECT id FROM word WHERE text = ?)", f.Account)
	add(f.FS != "", "f.fs = ?", f.FS)
	add(f.Rule != "", "f.rule = ?", f.Rule)
	add(f.Subject != "", "f.subject = ?", f.Subject)
	add(f.Target != "", "f.target = ?", f.Target)
	add(f.MinSeverity != "", "f.worst >= ?", f.MinSeverity.Rank())
	return strings.Join(where, " AND "), args
}

func findings(ctx context.Context, q querier, f FindingFilter) ([]FindingRecord, error) {
	where, args := f.conditions()
	order, limit, index := "DESC", -1, ""
	if f.Open {
		index = "INDEXED BY finding_open"
	}
	if f.oldestFirst {
		order = "ASC"
	}
	if f.Limit > 0 {
		limit = f.Limit
	}
	out, ids, err := queryFindings(ctx, q, `SELECT f.id, f.start, f.ended, f.seen, f.rule, f.title, f.subject,
		ifnull(j.jobid, ''), f.target, f.fs, f.server, f.severity, f.worst, f.action, f.evidence, f.facts, f.advice, f.inferred
		FROM finding f `+index+` LEFT JOIN job j ON j.id = f.job WHERE `+where+" ORDER BY f.start "+order+", f.id "+order+" LIMIT ?",
		append(args, limit))
	if err != nil || !f.Windows {
		return out, err
	}
	for i, id := range ids {
		if out[i].Windows, err = evidenceOf(ctx, q, id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func queryFindings(ctx context.Context, q querier, query string, args []any) ([]FindingRecord, []int64, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var out []FindingRecord
	var ids []int64
	for rows.Next() {
		r, id, err := scanFinding(rows)
		if err != nil {
			return nil, nil, err
		}
		out, ids = append(out, r), append(ids, id)
	}
	return out, ids, rows.Err()
}

func scanFinding(rows *sql.Rows) (r FindingRecord, id int64, err error) {
	var start, seen int64
	var ended sql.NullInt64
	var worst int
	var evidence, facts string
	err = rows.Scan(&id, &start, &ended, &seen, &r.Rule, &r.Title, &r.Subject, &r.JobID, &r.Target, &r.FS, &r.Server,
		&r.Severity, &worst, &r.Action, &evidence, &facts, &r.Advice, &r.Inferred)
	if err != nil {
		return r, id, err
	}
	r.Start, r.Seen = time.UnixMicro(start).UTC(), time.UnixMicro(seen).UTC()
	if ended.Valid {
		r.End = time.UnixMicro(ended.Int64).UTC()
	}
	r.Worst = severityOfRank(worst)
	if r.Evidence, err = fromEvidence(evidence); err != nil {
		return r, id, fmt.Errorf("evidence of finding %d: %w", id, err)
	}
	if err = json.Unmarshal([]byte(facts), &r.Facts); err != nil {
		return r, id, fmt.Errorf("facts of finding %d: %w", id, err)
	}
	return r, id, nil
}

func evidenceOf(ctx context.Context, q querier, finding int64) ([]ioguard.Window, error) {
	return queryWindows(ctx, q, 1_000_000, "SELECT w.start, j.jobid, f.text, p.name, "+columnList("w.")+
		" FROM finding_window w JOIN job j ON j.id = w.job JOIN pool p ON p.id = w.pool JOIN word f ON f.id = p.fs"+
		" WHERE w.finding = ? ORDER BY w.start, w.job, w.pool", finding)
}

func queryWindows(ctx context.Context, q querier, perSecond int64, query string, args ...any) ([]ioguard.Window, error) {
	var out []ioguard.Window
	err := eachWindow(ctx, q, perSecond, func(w ioguard.Window) error {
		out = append(out, w)
		return nil
	}, query, args...)
	return out, err
}

// eachWindow streams rows of start, job, file system, pool and the columns.
func eachWindow(ctx context.Context, q querier, perSecond int64, f func(ioguard.Window) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var start int64
	var job, fs, pool string
	var v vec
	dest := append([]any{&start, &job, &fs, &pool}, v.dest()...)
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		w := v.window()
		w.JobID, w.FS, w.Pool = job, fs, pool
		w.Start = time.UnixMicro(start * (1_000_000 / perSecond)).UTC()
		if err := f(w); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Windows calls f for every row with a Start within [since, until) in the order
// of time, the finest that is kept: days, then hours, then minutes. A window's
// Seconds is the sum of those written to its row. Zero times are no bounds. An
// error of f ends it and is returned. f must not write to the same Store from
// within, and should be quick: the journal grows while it runs.
func (s *Store) Windows(ctx context.Context, since, until time.Time, f func(ioguard.Window) error) error {
	return s.fail(ctx, "read windows", s.read(ctx, func(tx *sql.Tx) error {
		h, err := readHorizon(ctx, tx)
		if err != nil || h.empty {
			return err
		}
		from, to := bounds(since, until)
		for _, p := range h.finest(from, to) {
			// late rows below a floor are of both levels: each is read from one
			err := eachWindow(ctx, tx, 1, f, "SELECT w.start, j.jobid, f.text, p.name, "+columnList("w.")+
				" FROM "+p.level.table+" w CROSS JOIN job j ON j.id = w.job JOIN pool p ON p.id = w.pool JOIN word f ON f.id = p.fs"+
				" WHERE w.start >= ? AND w.start < ? ORDER BY w.start, w.job, w.pool", p.from, p.to)
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// finest cuts a span into what is left of each level.
func (h *horizon) finest(from, to int64) []piece {
	minutes := max(h.minuteFloor, h.hourFloor)
	var out []piece
	add := func(l level, lo, hi int64) {
		if lo < hi {
			out = append(out, piece{l, lo, hi})
		}
	}
	add(dayLevel, from, min(to, h.hourFloor))
	add(hourLevel, max(from, h.hourFloor), min(to, minutes))
	add(minuteLevel, max(from, minutes), to)
	return out
}

// Pressure lists the servers' state within [since, until) by time and server:
// as measured where that is kept, before that a row per hour with the means of
// all columns and the highest Score. Zero times are no bounds; NaN is unknown.
func (s *Store) Pressure(ctx context.Context, since, until time.Time) ([]ioguard.Pressure, error) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !since.IsZero() {
		from = since.Unix()
	}
	if !until.IsZero() {
		to = until.Unix()
	}
	var out []ioguard.Pressure
	err := s.read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT p.start, w.text, "+pressureColumns+
			` FROM pressure p JOIN word w ON w.id = p.server
			WHERE p.span IN (0, 3600) AND p.start >= ? AND p.start < ? ORDER BY p.start, w.text`, from, to)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var start int64
			var server string
			var row pressureRow
			if err := rows.Scan(append([]any{&start, &server}, row.dest()...)...); err != nil {
				return err
			}
			p := row.pressure()
			p.Start, p.Server = time.Unix(start, 0).UTC(), server
			out = append(out, p)
		}
		return rows.Err()
	})
	return out, s.fail(ctx, "read pressure", err)
}

package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"ioguard"

	"github.com/mattn/go-sqlite3"
)

// NodeRecords is what a hook of Slurm has to tell: all of it is kept or nothing.
type NodeRecords struct {
	Jobs   []ioguard.NodeJob
	Events []ioguard.NodeEvent
}

// lockSlice is how long SQLite waits for another process' lock before the
// context is looked at. It is long, for SQLite asks for the lock again ever more
// seldom: two hundred processes that ask every few milliseconds keep the one that
// has it from the CPU.
const lockSlice = time.Second

// AppendNode opens the file, brings it up to date, keeps the records and closes
// it again: it is for processes that live as long as one hook, of which many may
// call it at once. It makes the file where there is none.
//
// A job's records of prolog and epilog become one, found by cluster, job, node
// and start; an epilog without a start belongs to the newest run that has no end.
// What was told first stays, what was unknown is filled in: telling a thing twice
// changes nothing. What is known of the job's owner is kept as by [Store.Write].
// Each call also drops a few rows that are past their time ([Retention]), since
// on most nodes nobody calls Maintain.
//
// It returns when ctx ends at the latest, whatever holds the lock or the disk;
// then it is not known whether the records were kept, and the attempt may go on
// behind the caller's back for as long as the disk hangs; a process whose disk
// hangs cannot even end. r must not be changed after that. Errors are those of [Open] and [Store.Write], and [*LockedError]
// when ctx ended while another process was writing.
func AppendNode(ctx context.Context, file string, r NodeRecords) error {
	if err := r.check(); err != nil {
		return fmt.Errorf("append node records: %w", err)
	}
	s, err := newStore(file, Options{BusyTimeout: lockSlice})
	if err != nil {
		return err
	}
	var waiting atomic.Bool // for the lock
	done := make(chan error, 1)
	go func() { done <- s.appendNode(ctx, &r, &waiting) }()
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	switch {
	case err == nil || ctx.Err() == nil:
	case waiting.Load():
		return ioguard.WithHint(fmt.Errorf("append node records: %w", &LockedError{s.path, context.Cause(ctx)}),
			"fuser "+shellQuote(s.path)+" names the processes that use it")
	default: // opening or the disk took too long
		return fmt.Errorf("append node records: write %s: %w", s.path, context.Cause(ctx))
	}
	return s.fail(ctx, "append node records", err)
}

func (s *Store) appendNode(ctx context.Context, r *NodeRecords, waiting *atomic.Bool) error {
	if err := s.createFile(); err != nil {
		return err
	}
	names, err := migrationNames()
	if err != nil {
		return err
	}
	s.writer = s.pool("rwc", s.writeParams(), 1)
	defer s.Close()
	for {
		err := s.writer.PingContext(ctx) // opens the file
		if err == nil {
			waiting.Store(true)
			err = s.update(ctx, func(ctx context.Context, tx *idTx) error {
				waiting.Store(false)
				if err := s.migrateTo(ctx, tx.Tx, names); err != nil {
					return err
				}
				return s.writeNode(ctx, tx, r)
			})
		}
		if !isBusy(err) || ctx.Err() != nil {
			return err
		}
	}
}

func isBusy(err error) bool {
	var se sqlite3.Error
	return errors.As(err, &se) && (se.Code == sqlite3.ErrBusy || se.Code == sqlite3.ErrLocked)
}

func (r *NodeRecords) check() error {
	for i := range r.Jobs {
		j := &r.Jobs[i]
		if j.JobID == "" {
			return fmt.Errorf("job on node %q: no job id", j.Node)
		}
		if j.Start.IsZero() && j.End.IsZero() {
			return fmt.Errorf("job %q on node %q: neither start nor end is known", j.JobID, j.Node)
		}
		for _, t := range []time.Time{j.Start, j.End} {
			if err := checkTime(t); !t.IsZero() && err != nil {
				return fmt.Errorf("job %q on node %q: %w", j.JobID, j.Node, err)
			}
		}
	}
	for i := range r.Events {
		if err := checkTime(r.Events[i].Time); err != nil {
			return fmt.Errorf("event of node %q: %w", r.Events[i].Node, err)
		}
	}
	return nil
}

// newest is the latest time that the records tell.
func (r *NodeRecords) newest() time.Time {
	var t time.Time
	later := func(u time.Time) {
		if u.After(t) {
			t = u
		}
	}
	for i := range r.Jobs {
		later(r.Jobs[i].Start)
		later(r.Jobs[i].End)
	}
	for i := range r.Events {
		later(r.Events[i].Time)
	}
	return t
}

func (s *Store) writeNode(ctx context.Context, tx *idTx, r *NodeRecords) error {
	now := r.newest()
	if now.IsZero() {
		return nil
	}
	tx.now = now.Unix()
	for i := range r.Jobs {
		if err := writeNodeJob(ctx, tx, &r.Jobs[i]); err != nil {
			return err
		}
		if err := writeNodeOwner(ctx, tx, &r.Jobs[i]); err != nil {
			return err
		}
	}
	for i := range r.Events {
		if err := writeNodeEvent(ctx, tx, &r.Events[i]); err != nil {
			return err
		}
	}
	return s.dropNodes(ctx, tx, &Work{}, now, 20)
}

// sameEpilog is how far apart the two ends of an epilog that ran twice may be.
// Slurm starts a requeued job after 121 s (cred_expire) at the earliest.
const sameEpilog = 2 * time.Minute

// longestRun bounds which prolog an epilog without a start may belong to: ids
// are given out again.
const longestRun = 366 * dayLength

// findNodeJob gives the row of the run that the record tells of, 0 where it is
// the first to do so.
func findNodeJob(ctx context.Context, tx *idTx, j *ioguard.NodeJob) (int64, error) {
	const run = "SELECT id FROM node_job WHERE jobid = ?1 AND node = ?2 AND cluster = ?3 AND "
	var id int64
	var err error
	if !j.Start.IsZero() {
		// or the epilog was faster
		id, err = tx.one(ctx, run+"(start = ?4 OR start IS NULL AND ended BETWEEN ?4 AND ?5) ORDER BY start IS NULL, ended LIMIT 1",
			bounded(j.JobID), bounded(j.Node), bounded(j.Cluster), j.Start.UnixMicro(), j.Start.Add(longestRun).UnixMicro())
	} else {
		id, err = tx.one(ctx, `SELECT id FROM (`+run+`
			CASE WHEN start IS NULL THEN ended <= ?4 + ?5 ELSE start BETWEEN ?4 - ?6 AND ?4 END ORDER BY at DESC LIMIT 1)
			JOIN node_job USING (id) WHERE ended IS NULL OR abs(ended - ?4) <= ?5`,
			bounded(j.JobID), bounded(j.Node), bounded(j.Cluster), j.End.UnixMicro(), sameEpilog.Microseconds(), longestRun.Microseconds())
	}
	if err == sql.ErrNoRows {
		return 0, nil
	}
	return id, err
}

func writeNodeJob(ctx context.Context, tx *idTx, j *ioguard.NodeJob) error {
	id, err := findNodeJob(ctx, tx, j)
	if err != nil {
		return err
	}
	args := []any{microOrNull(j.Start), microOrNull(j.End), bounded(j.ArrayJobID), bounded(j.ArrayTaskID), bounded(j.HetJobID),
		bounded(j.User), orNil(j.UID), bounded(j.Account), bounded(j.Partition), bounded(j.Name), bounded(j.NodeList), bounded(j.WorkDir),
		orNil(j.RestartCount), orNil(j.ExitCode), orNil(j.Exclusive)}
	if id != 0 {
		_, err = tx.ExecContext(ctx, nodeJobFill, append(args, id)...)
	} else {
		var r sql.Result
		r, err = tx.ExecContext(ctx, nodeJobInsert, append(args, bounded(j.JobID), bounded(j.Node), bounded(j.Cluster))...)
		if err == nil {
			id, err = r.LastInsertId()
		}
	}
	mounts := sumMounts(j.FS)
	for i := 0; i < len(mounts) && err == nil; i++ {
		err = writeNodeFS(ctx, tx, id, &mounts[i])
	}
	return err
}

const nodeJobInsert = `INSERT INTO node_job (start, ended, at, array_job_id, array_task_id, het_job_id, user, uid, account,
	partition, name, node_list, work_dir, restart_count, exit_code, exclusive, jobid, node, cluster)
	VALUES (?1, ?2, ifnull(?1, ?2), ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)`

// nodeJobFill fills in what was unknown.
const nodeJobFill = `UPDATE node_job SET start = ifnull(start, ?1), ended = ifnull(ended, ?2),
	at = coalesce(start, ?1, ended, ?2),
	array_job_id = iif(array_job_id = '', ?3, array_job_id), array_task_id = iif(array_task_id = '', ?4, array_task_id),
	het_job_id = iif(het_job_id = '', ?5, het_job_id), user = iif(user = '', ?6, user), uid = ifnull(uid, ?7),
	account = iif(account = '', ?8, account), partition = iif(partition = '', ?9, partition), name = iif(name = '', ?10, name),
	node_list = iif(node_list = '', ?11, node_list), work_dir = iif(work_dir = '', ?12, work_dir),
	restart_count = ifnull(restart_count, ?13), exit_code = ifnull(exit_code, ?14), exclusive = ifnull(exclusive, ?15)
	WHERE id = ?16`

func writeNodeFS(ctx context.Context, tx *idTx, job int64, f *ioguard.NodeFS) error {
	args := []any{job, bounded(f.FS)}
	for _, n := range nodeCounters(f) {
		args = append(args, counterOrNull(*n))
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO node_fs (node_job, fs, `+nodeCounterColumns+`, reset)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, append(args, f.Reset)...)
	return err
}

const nodeCounterColumns = "read_bytes, write_bytes, reads, writes, opens, creates, unlinks, mkdirs, getattrs, fsyncs"

// nodeCounters are the counters in the order of nodeCounterColumns.
func nodeCounters(f *ioguard.NodeFS) [10]**uint64 {
	return [...]**uint64{&f.ReadBytes, &f.WriteBytes, &f.Reads, &f.Writes, &f.Opens, &f.Creates, &f.Unlinks, &f.Mkdirs, &f.Getattrs, &f.Fsyncs}
}

// sumMounts adds up the mounts of one file system: a node may have several, of
// different folders.
func sumMounts(mounts []ioguard.NodeFS) []ioguard.NodeFS {
	var out []ioguard.NodeFS
	for i := range mounts {
		k := slices.IndexFunc(out, func(f ioguard.NodeFS) bool { return f.FS == mounts[i].FS })
		if k < 0 {
			out = append(out, mounts[i])
			continue
		}
		to, from := nodeCounters(&out[k]), nodeCounters(&mounts[i])
		for c := range to {
			*to[c] = addKnown(*to[c], *from[c])
		}
		out[k].Reset = out[k].Reset || mounts[i].Reset
	}
	return out
}

func addKnown(a, b *uint64) *uint64 {
	if a == nil {
		return b
	}
	if b == nil {
		return a
	}
	sum, over := bits.Add64(*a, *b, 0)
	if over != 0 {
		return nil
	}
	return &sum
}

// writeNodeOwner keeps whom the job belongs to. An id that Slurm gives to
// another user's job starts anew.
func writeNodeOwner(ctx context.Context, tx *idTx, j *ioguard.NodeJob) error {
	o := ioguard.Owner{JobID: bounded(j.JobID), Name: bounded(j.Name), User: bounded(j.User), Account: bounded(j.Account),
		Partition: bounded(j.Partition), Nodes: bounded(j.NodeList), Start: j.Start}
	job, err := tx.job(ctx, o.JobID)
	if err != nil {
		return err
	}
	user, err := tx.word(ctx, o.User)
	if err != nil {
		return err
	}
	if user != 0 {
		_, err = tx.ExecContext(ctx, `UPDATE job SET name = '', app = 0, account = 0, partition = '', nodes = '', state = '', started = NULL
			WHERE id = ? AND user NOT IN (0, ?)`, job, user)
		if err != nil {
			return err
		}
	}
	return writeOwners(ctx, tx, []ioguard.Owner{o})
}

func writeNodeEvent(ctx context.Context, tx *idTx, e *ioguard.NodeEvent) error {
	shared, err := json.Marshal(e.Shared)
	if err != nil {
		return fmt.Errorf("encode what an event of %s shares: %w", e.Node, err)
	}
	var took any
	if e.Took > 0 {
		took = e.Took.Microseconds()
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO node_event (time, node, cluster, hook, jobid, user, partition, kind, code, subject,
		severity, text, shared, took) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		e.Time.UnixMicro(), bounded(e.Node), bounded(e.Cluster), bounded(e.Hook), bounded(e.JobID), bounded(e.User), bounded(e.Partition),
		bounded(string(e.Kind)), bounded(e.Check), bounded(e.Subject), bounded(string(e.Severity)), bounded(e.Text), string(shared), took)
	return err
}

// maxText bounds what one text may cost: users choose names and folders.
const maxText = 64 << 10

func bounded(s string) string { return s[:min(len(s), maxText)] }

func microOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func orNil[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// counterOrNull: SQLite's numbers end at 8 EiB; more than that was never counted.
func counterOrNull(n *uint64) any {
	if n == nil || *n > math.MaxInt64 {
		return nil
	}
	return int64(*n)
}

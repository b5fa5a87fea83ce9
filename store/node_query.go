package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"ioguard"
)

// NodeJobs lists what the hooks told of a job, the oldest first: a row per run
// and node, and one without a node for what the controller told. An array's task
// may be named by its own number or as "4711_3" where the controller told. An id
// that Slurm gave out twice has the runs of both.
func (s *Store) NodeJobs(ctx context.Context, jobID string) ([]ioguard.NodeJob, error) {
	where, args := ofJob("jobid", jobID)
	return s.nodeJobs(ctx, where, args)
}

// NodeJobsOn lists the jobs of which a part between prolog and epilog lies
// within [since, until), the oldest first. A job whose epilog never told counts
// as running still.
func (s *Store) NodeJobsOn(ctx context.Context, node string, since, until time.Time) ([]ioguard.NodeJob, error) {
	return s.nodeJobs(ctx, onNode, []any{node, since.UnixMicro(), until.UnixMicro()})
}

// onNode is by the words of the index node_job_node.
const onNode = "node = ? AND ifnull(ended, 9223372036854775807) > ? AND at < ?"

// ofJob is the condition that a column holds a job's number.
func ofJob(column, jobID string) (string, []any) {
	array, task, ok := strings.Cut(jobID, "_")
	if !ok || array == "" {
		return column + " = ?", []any{jobID}
	}
	return column + " IN (SELECT ? UNION ALL SELECT jobid FROM node_job WHERE array_job_id = ? AND array_task_id = ? AND array_job_id <> '')",
		[]any{jobID, array, task}
}

func (s *Store) nodeJobs(ctx context.Context, where string, args []any) ([]ioguard.NodeJob, error) {
	if s.schema < nodesSchema {
		return nil, nil
	}
	var out []ioguard.NodeJob
	err := s.read(ctx, func(tx *sql.Tx) error {
		ids, err := scanNodeJobs(ctx, tx, &out, where, args)
		for i := 0; i < len(ids) && err == nil; i++ {
			out[i].FS, err = nodeFS(ctx, tx, ids[i])
		}
		return err
	})
	if err != nil {
		return nil, s.fail(ctx, "read jobs of nodes", err)
	}
	return out, nil
}

func scanNodeJobs(ctx context.Context, q querier, out *[]ioguard.NodeJob, where string, args []any) (ids []int64, err error) {
	rows, err := q.QueryContext(ctx, `SELECT id, cluster, jobid, array_job_id, array_task_id, het_job_id, node, user, uid, account,
		partition, name, node_list, work_dir, start, ended, restart_count, exit_code, exclusive
		FROM node_job WHERE `+where+" ORDER BY at, node, id", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var start, ended sql.NullInt64
		var j ioguard.NodeJob
		err := rows.Scan(&id, &j.Cluster, &j.JobID, &j.ArrayJobID, &j.ArrayTaskID, &j.HetJobID, &j.Node, &j.User, &j.UID, &j.Account,
			&j.Partition, &j.Name, &j.NodeList, &j.WorkDir, &start, &ended, &j.RestartCount, &j.ExitCode, &j.Exclusive)
		if err != nil {
			return nil, err
		}
		j.Start, j.End = fromMicro(start), fromMicro(ended)
		*out, ids = append(*out, j), append(ids, id)
	}
	return ids, rows.Err()
}

func nodeFS(ctx context.Context, q querier, job int64) ([]ioguard.NodeFS, error) {
	rows, err := q.QueryContext(ctx, "SELECT fs, reset, "+nodeCounterColumns+" FROM node_fs WHERE node_job = ? ORDER BY fs", job)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []ioguard.NodeFS
	for rows.Next() {
		var f ioguard.NodeFS
		dest := []any{&f.FS, &f.Reset}
		for _, n := range nodeCounters(&f) {
			dest = append(dest, n)
		}
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, rows.Err()
}

func fromMicro(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64).UTC()
}

// EventQuery chooses events of nodes; zero fields choose all.
type EventQuery struct {
	Node, JobID, User string // JobID as in NodeJobs
	Kind              ioguard.NodeEventKind
	Since, Until      time.Time // within [Since, Until)
	Limit             int       // 0 or less: all
}

// NodeEvents lists what hooks did and noticed, the newest first.
func (s *Store) NodeEvents(ctx context.Context, q EventQuery) ([]ioguard.NodeEvent, error) {
	if s.schema < nodesSchema {
		return nil, nil
	}
	where, args := q.conditions()
	limit := -1
	if q.Limit > 0 {
		limit = q.Limit
	}
	var out []ioguard.NodeEvent
	err := s.read(ctx, func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT id, time, node, cluster, hook, jobid, user, partition, kind, code, subject, severity,
			text, shared, ifnull(took, 0) FROM node_event WHERE `+where+" ORDER BY time DESC, id DESC LIMIT ?", append(args, limit)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			e, err := scanEvent(rows)
			if err != nil {
				return err
			}
			out = append(out, e)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, s.fail(ctx, "read events of nodes", err)
	}
	return out, nil
}

func (q *EventQuery) conditions() (string, []any) {
	where, args := []string{"1"}, []any(nil)
	add := func(use bool, condition string, arg ...any) {
		if use {
			where, args = append(where, condition), append(args, arg...)
		}
	}
	job, jobArgs := ofJob("jobid", q.JobID)
	add(q.Node != "", "node = ?", q.Node)
	add(q.JobID != "", "jobid <> '' AND "+job, jobArgs...)
	add(q.User != "", "user = ?", q.User)
	add(q.Kind != "", "kind = ?", string(q.Kind))
	add(!q.Since.IsZero(), "time >= ?", q.Since.UnixMicro())
	add(!q.Until.IsZero(), "time < ?", q.Until.UnixMicro())
	return strings.Join(where, " AND "), args
}

func scanEvent(rows *sql.Rows) (e ioguard.NodeEvent, err error) {
	var id, at, took int64
	var shared string
	err = rows.Scan(&id, &at, &e.Node, &e.Cluster, &e.Hook, &e.JobID, &e.User, &e.Partition, &e.Kind, &e.Check, &e.Subject, &e.Severity,
		&e.Text, &shared, &took)
	if err != nil {
		return e, err
	}
	e.Time, e.Took = time.UnixMicro(at).UTC(), time.Duration(took)*time.Microsecond
	if err := json.Unmarshal([]byte(shared), &e.Shared); err != nil {
		return e, fmt.Errorf("what event %d shares: %w", id, err)
	}
	return e, nil
}

package store

import (
	"context"
	"database/sql"
	"hash/fnv"
	"strings"
)

// ids remembers the row ids of names, within and between transactions. It must
// be emptied when a transaction is rolled back and when jobs are deleted.
type ids struct {
	words map[string]int64
	pools map[poolName]int64
	jobs  map[string]int64
}

type poolName struct{ fs, name string }

// maxCachedJobs bounds the memory of the cache: a site sees thousands of jobs a day.
const maxCachedJobs = 100_000

func (c *ids) reset() {
	*c = ids{words: map[string]int64{}, pools: map[poolName]int64{}, jobs: map[string]int64{}}
}

// idTx is a transaction that knows names.
type idTx struct {
	*sql.Tx
	ids *ids
	now any // the batch's time, unix seconds; nil where unknown
}

func (tx *idTx) one(ctx context.Context, query string, args ...any) (int64, error) {
	var id int64
	err := tx.QueryRowContext(ctx, query, args...).Scan(&id)
	return id, err
}

// word gives the id of a name; "" is 0.
func (tx *idTx) word(ctx context.Context, text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	if id, ok := tx.ids.words[text]; ok {
		return id, nil
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO word (text) VALUES (?) ON CONFLICT DO NOTHING", text); err != nil {
		return 0, err
	}
	id, err := tx.one(ctx, "SELECT id FROM word WHERE text = ?", text)
	if err == nil {
		tx.ids.words[text] = id
	}
	return id, err
}

func (tx *idTx) pool(ctx context.Context, fs, name string) (int64, error) {
	key := poolName{fs, name}
	if id, ok := tx.ids.pools[key]; ok {
		return id, nil
	}
	w, err := tx.word(ctx, fs)
	if err != nil {
		return 0, err
	}
	if _, err = tx.ExecContext(ctx, "INSERT INTO pool (fs, name) VALUES (?, ?) ON CONFLICT DO NOTHING", w, name); err != nil {
		return 0, err
	}
	id, err := tx.one(ctx, "SELECT id FROM pool WHERE fs = ? AND name = ?", w, name)
	if err == nil {
		tx.ids.pools[key] = id
	}
	return id, err
}

// job gives the id of a job, adding it when it is new.
func (tx *idTx) job(ctx context.Context, jobID string) (int64, error) {
	if id, ok := tx.ids.jobs[jobID]; ok {
		return id, nil
	}
	id, err := tx.one(ctx, "SELECT id FROM job WHERE jobid = ?", jobID)
	if err == sql.ErrNoRows {
		id, err = tx.addJob(ctx, jobID)
	}
	if err != nil {
		return 0, err
	}
	if len(tx.ids.jobs) >= maxCachedJobs {
		clear(tx.ids.jobs)
	}
	tx.ids.jobs[jobID] = id
	return id, nil
}

func (tx *idTx) addJob(ctx context.Context, jobID string) (int64, error) {
	app, uid := ProcessOf(jobID)
	user, err := tx.word(ctx, uid)
	if err != nil {
		return 0, err
	}
	r, err := tx.ExecContext(ctx, "INSERT INTO job (jobid, user, app, noted) VALUES (?, ?, ?, ?)", jobID, user, appHash(app), tx.now)
	if err != nil {
		return 0, err
	}
	return r.LastInsertId()
}

// ProcessOf splits the id that Lustre gives to work outside of Slurm
// (jobid_name "%e.%u" of lustre/obdclass/jobid.c): "rsync.1001" is program rsync
// of uid 1001. A Slurm number (also of an array task or a step, "12345_7",
// "12345.0") gives "", "", any other id is a program without a uid.
func ProcessOf(jobID string) (program, uid string) {
	if jobID == "" || strings.Trim(jobID, "0123456789_.+") == "" {
		return "", ""
	}
	if i := strings.LastIndexByte(jobID, '.'); i > 0 && i+1 < len(jobID) && strings.Trim(jobID[i+1:], "0123456789") == "" {
		return jobID[:i], jobID[i+1:]
	}
	return jobID, ""
}

// appHash stands for a program's name where jobs are grouped by it; 0 is unknown.
// It is stored, so it must never change.
func appHash(name string) int64 {
	if name == "" {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	return int64(h.Sum64()>>1) | 1
}

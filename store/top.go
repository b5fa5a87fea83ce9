package store

import (
	"cmp"
	"context"
	"database/sql"
	"maps"
	"slices"
	"strings"
	"time"

	"ioguard"
)

// TopQuery asks who did most. The zero value asks for the 20 jobs of the highest
// score in all records.
type TopQuery struct {
	Since, Until time.Time // zero: no bound; in whole minutes, outwards
	By           string    // one of Metrics; "" is score
	GroupBy      string    // one of Groups; "" is job
	User         string    // only jobs of
	Account      string
	FS           string // only what was done on
	Limit        int    // 0: 20; negative: all
}

// TopRow is one group of jobs: one job, or those of a user, an account or an app.
type TopRow struct {
	Key string // job id, user, account or app; "" is the group of what is unknown

	// Of the job. Where there are several only the one that is Key is set.
	JobID, User, Account, Name, App string

	Jobs     int
	Value    float64          // of the metric asked for, in its unit: bytes, operations, microseconds, or the score
	Score    float64          // see score in score.go: 1 is the average job of its file system
	Totals   ioguard.Window   // sums and peaks; FS where there is one; Start the span's begin; Pool ""
	Findings int              // of the group's jobs, that held within the span
	Worst    ioguard.Severity // the highest severity among them, "" where there is none
}

// Top ranks jobs, users, accounts or apps. Rows that have nothing of the metric
// are left out; equal ones keep one order.
//
// An app is the job's name, or the program's name of an id that is no Slurm job
// (ProcessOf); the user of such an id is its number until an owner is known.
// Metadata operations include HiddenGetattrs. A span of more than a
// week grows to whole hours at its ends, and where the finer rows are no longer
// kept to whole hours or days (UTC).
//
// Errors: [*QueryError] for an unknown word.
func (s *Store) Top(ctx context.Context, q TopQuery) ([]TopRow, error) {
	by, err := findMetric(q.By)
	if err != nil {
		return nil, err
	}
	group, err := findGroup(q.GroupBy)
	if err != nil {
		return nil, err
	}
	var rows []TopRow
	err = s.read(ctx, func(tx *sql.Tx) error {
		t := topper{tx: tx, q: q, by: by, group: group}
		rows, err = t.run(ctx)
		return err
	})
	return rows, s.fail(ctx, "rank jobs", err)
}

// read runs f on one unchanging state of the file.
func (s *Store) read(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.readers.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return f(tx)
}

// topper answers one TopQuery.
type topper struct {
	tx    *sql.Tx
	q     TopQuery
	by    metric
	group string

	from, to int64
	sums     sums
	owners   []owner // by index in sums.jobs
}

func (t *topper) run(ctx context.Context) ([]TopRow, error) {
	fs, ok, err := findWord(ctx, t.tx, t.q.FS)
	if err != nil || !ok {
		return nil, err
	}
	h, err := readHorizon(ctx, t.tx)
	if err != nil {
		return nil, err
	}
	t.from, t.to = bounds(t.q.Since, t.q.Until)
	t.sums.only = fs
	pieces := h.pieces(t.from, t.to)
	for _, p := range pieces {
		if err := t.sums.addPiece(ctx, t.tx, &h, p); err != nil {
			return nil, err
		}
	}
	if err := t.loadOwners(ctx); err != nil {
		return nil, err
	}
	wanted, err := t.filter(ctx)
	if err != nil {
		return nil, err
	}
	list := t.rank(wanted)
	return t.describe(ctx, list, begin(pieces))
}

func begin(pieces []piece) time.Time {
	var first int64
	for i, p := range pieces {
		if i == 0 || p.from < first {
			first = p.from
		}
	}
	return time.Unix(first, 0).UTC()
}

// findWord looks a name up: false where no row has it. "" is found as 0.
func findWord(ctx context.Context, q querier, text string) (int64, bool, error) {
	if text == "" {
		return 0, true, nil
	}
	var id int64
	err := q.QueryRowContext(ctx, "SELECT id FROM word WHERE text = ?", text).Scan(&id)
	if err == sql.ErrNoRows {
		return 0, false, nil
	}
	return id, err == nil, err
}

// owner is what ranking needs to know of a job.
type owner struct{ user, account, app int64 }

// loadOwners fetches user, account and app of all jobs in the sums, as far as
// the question needs them. The numbers come packed into one text per range of
// ids: a row per job would take most of the question's time.
func (t *topper) loadOwners(ctx context.Context) error {
	t.owners = make([]owner, len(t.sums.jobs))
	var fields []ownerField
	for _, f := range ownerFields {
		if f.name == t.group || f.name == "user" && t.q.User != "" || f.name == "account" && t.q.Account != "" {
			fields = append(fields, f)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	pages := slices.Sorted(maps.Keys(t.sums.dense.pages))
	for i := 0; i < len(pages); {
		j := i + 1
		for j < len(pages) && pages[j] == pages[j-1]+1 {
			j++
		}
		if err := t.loadRange(ctx, fields, pages[i]*chunk, (pages[j-1]+1)*chunk); err != nil {
			return err
		}
		i = j
	}
	return nil
}

// ownerField is a column of job that owner holds.
type ownerField struct {
	name string
	of   func(*owner) *int64
}

var ownerFields = []ownerField{
	{"user", func(o *owner) *int64 { return &o.user }},
	{"account", func(o *owner) *int64 { return &o.account }},
	{"app", func(o *owner) *int64 { return &o.app }},
}

func (t *topper) loadRange(ctx context.Context, fields []ownerField, from, to int64) error {
	expr := "id"
	for _, f := range fields {
		expr += " || ' ' || " + f.name
	}
	var packed sql.NullString
	err := t.tx.QueryRowContext(ctx, "SELECT group_concat("+expr+", ' ') FROM job WHERE id >= ? AND id < ?", from, to).Scan(&packed)
	if err != nil {
		return err
	}
	n := numbers(packed.String)
	for !n.done() {
		id := n.next()
		var o owner
		for _, f := range fields {
			*f.of(&o) = n.next()
		}
		if i := t.sums.dense.get(id); i > 0 {
			t.owners[i-1] = o
		}
	}
	return nil
}

// numbers is a text of decimal numbers, each followed by a blank or the end, as
// SQLite prints integers.
type numbers string

func (n *numbers) done() bool { return *n == "" }

func (n *numbers) next() int64 {
	s, i, x, sign := *n, 0, int64(0), int64(1)
	if s != "" && s[0] == '-' {
		sign, i = -1, 1
	}
	for ; i < len(s) && s[i] != ' '; i++ {
		x = x*10 + int64(s[i]-'0')
	}
	*n = s[min(i+1, len(s)):]
	return sign * x
}

// filter gives the test of the question's user and account.
func (t *topper) filter(ctx context.Context) (func(job int32) bool, error) {
	user, userOK, err := findWord(ctx, t.tx, t.q.User)
	if err != nil {
		return nil, err
	}
	account, accountOK, err := findWord(ctx, t.tx, t.q.Account)
	if err != nil {
		return nil, err
	}
	return func(job int32) bool {
		o := &t.owners[job]
		return userOK && accountOK && (user == 0 || o.user == user) && (account == 0 || o.account == account)
	}, nil
}

// group is a group of jobs that is being added up.
type group struct {
	index        int32 // in the list of all
	key          int64
	value, score float64

	// of those that are shown only
	v    *vec
	fs   int64   // 0 for several
	jobs []int32 // indices in sums.jobs
}

// key is what a job is grouped by.
func (t *topper) key(job int32) int64 {
	switch t.group {
	case "user":
		return t.owners[job].user
	case "account":
		return t.owners[job].account
	case "app":
		return t.owners[job].app
	}
	return t.sums.jobs[job]
}

// grouping gives each job's group a number, counting from 0.
func (t *topper) grouping() (of []int32, n int) {
	of = make([]int32, len(t.sums.jobs))
	if t.group == "job" {
		for i := range of {
			of[i] = int32(i)
		}
		return of, len(of)
	}
	index := map[int64]int32{}
	for i := range of {
		k := t.key(int32(i))
		g, ok := index[k]
		if !ok {
			g = int32(len(index))
			index[k] = g
		}
		of[i] = g
	}
	return of, len(index)
}

// rank weighs the groups and gives the first ones, highest first. Every metric is
// a sum, so a group's value is the sum of its cells' values and the full numbers
// are added up only for the groups that are shown.
func (t *topper) rank(wanted func(int32) bool) []*group {
	of, n := t.grouping()
	all := make([]group, n)
	t.sums.all(func(c *cell) {
		if !wanted(c.job) {
			return
		}
		i := of[c.job]
		f, g := t.sums.fs[c.fs], &all[i]
		g.index, g.key = i, t.key(c.job)
		sc := score(&c.v, &f.v, float64(f.n))
		g.score += sc
		if t.by.of == nil {
			g.value += sc
		} else {
			g.value += t.by.of(&c.v)
		}
	})
	list := first(all, t.limit())
	t.fill(of, all, list, wanted)
	return list
}

func (t *topper) limit() int {
	if t.q.Limit == 0 {
		return 20
	}
	return t.q.Limit
}

func compareGroups(a, b *group) int {
	return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.key, b.key))
}

// first gives the n highest groups with a value, all of them for a negative n.
// It keeps the best so far in order, so a month's jobs need not all be sorted.
func first(all []group, n int) []*group {
	var best []*group
	whole := n < 0 || n > 1000
	for i := range all {
		g := &all[i]
		if !(g.value > 0) {
			continue
		}
		if whole {
			best = append(best, g)
			continue
		}
		if len(best) == n && compareGroups(g, best[n-1]) > 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, g, compareGroups)
		best = slices.Insert(best, at, g)
		best = best[:min(len(best), n)]
	}
	if whole {
		slices.SortFunc(best, compareGroups)
		if n >= 0 {
			best = best[:min(len(best), n)]
		}
	}
	return best
}

// fill adds up the numbers of the groups that are shown.
func (t *topper) fill(of []int32, all []group, list []*group, wanted func(int32) bool) {
	shown := make([]bool, len(all))
	for _, g := range list {
		shown[g.index] = true
	}
	t.sums.all(func(c *cell) {
		i := of[c.job]
		if !shown[i] || !wanted(c.job) {
			return
		}
		g := &all[i]
		if len(g.jobs) == 0 {
			g.fs = t.sums.fs[c.fs].id
		} else if g.fs != t.sums.fs[c.fs].id {
			g.fs = 0
		}
		if g.v == nil {
			g.v = new(vec)
		}
		g.v.add(&c.v)
		g.jobs = append(g.jobs, c.job)
	})
	for _, g := range list { // a job on two file systems came twice
		slices.Sort(g.jobs)
		g.jobs = slices.Compact(g.jobs)
	}
}

// describe turns groups into rows: names, findings.
func (t *topper) describe(ctx context.Context, list []*group, start time.Time) ([]TopRow, error) {
	shown := make([]int64, len(list))
	for i, g := range list {
		shown[i] = t.sums.jobs[g.jobs[0]]
	}
	names, err := jobNames(ctx, t.tx, shown)
	if err != nil {
		return nil, err
	}
	counts, err := t.findings(ctx, shown)
	if err != nil {
		return nil, err
	}
	rows := make([]TopRow, len(list))
	for i, g := range list {
		r := t.row(g, names[shown[i]])
		r.Totals.Start = start
		if g.fs != 0 {
			if r.Totals.FS, err = wordText(ctx, t.tx, g.fs); err != nil {
				return nil, err
			}
		}
		worst := 0
		for _, j := range g.jobs {
			c := counts[t.sums.jobs[j]]
			r.Findings += c.n
			worst = max(worst, c.worst)
		}
		r.Worst = severityOfRank(worst)
		rows[i] = r
	}
	return rows, nil
}

// row names a group by one of its jobs.
func (t *topper) row(g *group, n jobName) TopRow {
	r := TopRow{Jobs: len(g.jobs), Value: g.value, Score: g.score, Totals: g.v.window()}
	if len(g.jobs) == 1 {
		r.JobID, r.User, r.Account, r.Name, r.App = n.jobID, n.user, n.account, n.name, n.app()
		r.Totals.JobID = n.jobID
	}
	switch t.group {
	case "user":
		r.Key, r.User = n.user, n.user
	case "account":
		r.Key, r.Account = n.account, n.account
	case "app":
		r.Key, r.App = n.app(), n.app()
	default:
		r.Key = n.jobID
	}
	return r
}

type jobName struct{ jobID, name, user, account string }

func (n *jobName) app() string {
	if n.name != "" {
		return n.name
	}
	app, _ := ProcessOf(n.jobID)
	return app
}

// placeholders is "?, ?, ?" for n arguments.
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

func anys(ids []int64) []any {
	out := make([]any, len(ids))
	for i, id := range ids {
		out[i] = id
	}
	return out
}

func jobNames(ctx context.Context, q querier, jobs []int64) (map[int64]jobName, error) {
	m := make(map[int64]jobName, len(jobs))
	for part := range slices.Chunk(jobs, 500) {
		rows, err := q.QueryContext(ctx, `SELECT j.id, j.jobid, j.name, u.text, a.text FROM job j
			JOIN word u ON u.id = j.user JOIN word a ON a.id = j.account
			WHERE j.id IN (`+placeholders(len(part))+")", anys(part)...)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			var id int64
			var n jobName
			if err := rows.Scan(&id, &n.jobID, &n.name, &n.user, &n.account); err != nil {
				return nil, err
			}
			m[id] = n
		}
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func wordText(ctx context.Context, q querier, id int64) (string, error) {
	var text string
	err := q.QueryRowContext(ctx, "SELECT text FROM word WHERE id = ?", id).Scan(&text)
	return text, err
}

type findingCount struct{ n, worst int }

// findings counts the findings of jobs that held within the span: of all jobs
// where rows are groups, else of those shown.
func (t *topper) findings(ctx context.Context, shown []int64) (map[int64]findingCount, error) {
	where, args := "job IS NOT NULL", []any(nil)
	if t.group == "job" && len(shown) <= 500 {
		where, args = "job IN ("+placeholders(len(shown))+")", anys(shown)
	}
	where += " AND start < ? AND (ended IS NULL OR ended >= ?)"
	args = append(args, usec(t.to), usec(t.from))
	if t.q.FS != "" {
		where += " AND fs = ?"
		args = append(args, t.q.FS)
	}
	rows, err := t.tx.QueryContext(ctx, "SELECT job, count(*), max(worst) FROM finding WHERE "+where+" GROUP BY job", args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	m := map[int64]findingCount{}
	for rows.Next() {
		var job int64
		var c findingCount
		if err := rows.Scan(&job, &c.n, &c.worst); err != nil {
			return nil, err
		}
		m[job] = c
	}
	return m, rows.Err()
}

// usec turns seconds into microseconds; no bound stays none.
func usec(seconds int64) int64 {
	return max(-lastSecond, min(seconds, lastSecond+1)) * 1_000_000
}

func severityOfRank(rank int) ioguard.Severity {
	for _, s := range []ioguard.Severity{ioguard.Notice, ioguard.Warning, ioguard.Critical} {
		if s.Rank() == rank {
			return s
		}
	}
	return ""
}

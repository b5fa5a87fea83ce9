package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"ioguard"
	"ioguard/collect"
	"ioguard/engine"
	"ioguard/host"
	"ioguard/policy"
	"ioguard/slurm"
	"ioguard/store"
	"ioguard/view"
)

// topRow is a row of JSON, stable. Rates of a live top are per second, so are
// named the same: seconds tells over what the sums are.
type topRow struct {
	Key        string  `json:"key"`
	JobID      string  `json:"job_id,omitempty"`
	User       string  `json:"user,omitempty"`
	Account    string  `json:"account,omitempty"`
	Name       string  `json:"name,omitempty"`
	App        string  `json:"app,omitempty"`
	FS         string  `json:"fs,omitempty"`
	Jobs       int     `json:"jobs"`
	Score      float64 `json:"score"`
	Value      float64 `json:"value"`
	ReadBytes  float64 `json:"read_bytes"`
	WriteBytes float64 `json:"write_bytes"`
	ReadOps    float64 `json:"read_ops"`
	WriteOps   float64 `json:"write_ops"`
	MetaOps    float64 `json:"md_ops"`
	Opens      float64 `json:"open"`
	Closes     float64 `json:"close"`
	Creates    float64 `json:"create"`
	Unlinks    float64 `json:"unlink"`
	Getattrs   float64 `json:"getattr"`
	Hidden     float64 `json:"getattr_inferred"`
	Setattrs   float64 `json:"setattr"`
	Syncs      float64 `json:"sync"`
	Usec       float64 `json:"usec"`
	Findings   int     `json:"findings"`
	Worst      string  `json:"worst_severity,omitempty"`
}

type topJSON struct {
	Since   *float64 `json:"since"` // Unix seconds; null: all records
	Until   float64  `json:"until"`
	Seconds float64  `json:"seconds,omitempty"` // of a live top: what the sums cover
	By      string   `json:"by"`
	GroupBy string   `json:"group_by"`
	Rows    []topRow `json:"rows"`

	Unaccounted []unaccountedJSON `json:"unaccounted,omitempty"` // of a live top
}

// sinceOf is the begin of --since; zero without one. Days are understood.
func sinceOf(c *cli.Context, now time.Time) (time.Time, error) {
	text := c.String("since")
	if text == "" {
		return time.Time{}, nil
	}
	d, err := parseSpan(text)
	if err != nil {
		return time.Time{}, usageError("a span such as 90m, 24h or 30d", "--since %q: %v", text, err)
	}
	return now.Add(-d), nil
}

func parseSpan(text string) (time.Duration, error) {
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			v, err := strconv.ParseFloat(n, 64)
			if err != nil || v <= 0 || v > 36500 {
				return 0, errors.New("not a span")
			}
			return time.Duration(v * float64(unit)), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, errors.New("not a span")
	}
	return d, nil
}

func topQuery(c *cli.Context) (store.TopQuery, error) {
	q := store.TopQuery{By: c.String("by"), GroupBy: c.String("group-by"), User: c.String("user"),
		Account: c.String("account"), FS: c.String("fs"), Limit: limitOf(c)}
	if q.Limit == 0 {
		q.Limit = -1
	}
	return q, nil
}

func topRecords(c *cli.Context) error {
	conf, err := loadConfig()
	if err != nil {
		return err
	}
	for {
		if err := topRecordsOnce(c, dbOf(c, conf)); err != nil {
			return err
		}
		if !c.Bool("watch") || !pause(c.Context, c.Duration("interval")) {
			return nil
		}
	}
}

// pause waits and reports false when the context ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func topRecordsOnce(c *cli.Context, name string) error {
	now := time.Now()
	q, err := topQuery(c)
	if err != nil {
		return err
	}
	if q.Since, err = sinceOf(c, now); err != nil {
		return err
	}
	s, err := openRecords(c, name)
	if err != nil {
		return err
	}
	defer s.Close()
	return topOf(c, s, q, topJSON{Until: unix(now)})
}

// openRecords opens the records to read them, with a hint for a newcomer.
func openRecords(c *cli.Context, name string) (*store.Store, error) {
	s, err := store.OpenReadOnly(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, readError(ioguard.WithHint(err, "'ioguard watch' keeps records there; --db FILE names others"))
	}
	if err != nil {
		return nil, readError(err)
	}
	for _, p := range s.Problems() {
		fmt.Fprintf(c.App.ErrWriter, "ioguard: %s\n", view.Safe(p))
	}
	return s, nil
}

// topOf asks and prints.
func topOf(c *cli.Context, s *store.Store, q store.TopQuery, head topJSON) error {
	rows, err := s.Top(c.Context, q)
	if err != nil {
		var qe *store.QueryError
		if errors.As(err, &qe) {
			return &exitError{exitUsage, err}
		}
		return readError(err)
	}
	if c.Bool("json") {
		if !q.Since.IsZero() {
			since := unix(q.Since)
			head.Since = &since
		}
		head.By, head.GroupBy, head.Rows = q.By, q.GroupBy, []topRow{}
		for i := range rows {
			head.Rows = append(head.Rows, jsonRow(&rows[i]))
		}
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", " ")
		return enc.Encode(head)
	}
	seconds := head.Seconds
	if seconds == 0 {
		seconds = 1
	}
	t := topTable(rows, q.GroupBy, seconds, head.Seconds > 0)
	if c.Bool("csv") {
		return topCSV(rows).WriteCSV(c.App.Writer)
	}
	if len(rows) == 0 {
		fmt.Fprintln(c.App.ErrWriter, "ioguard: no job did anything in that span")
	}
	return t.Write(c.App.Writer, 0)
}

func jsonRow(r *store.TopRow) topRow {
	w := &r.Totals
	return topRow{Key: validText(r.Key), JobID: validText(r.JobID), User: r.User, Account: r.Account, Name: validText(r.Name), App: validText(r.App), FS: w.FS,
		Jobs: r.Jobs, Score: r.Score, Value: r.Value, ReadBytes: w.ReadBytes, WriteBytes: w.WriteBytes, ReadOps: w.ReadOps,
		WriteOps: w.WriteOps, MetaOps: w.MetaOps() + w.HiddenGetattrs, Opens: w.Opens, Closes: w.Closes, Creates: w.Creates, Unlinks: w.Unlinks,
		Getattrs: w.Getattrs + w.HiddenGetattrs, Hidden: w.HiddenGetattrs, Setattrs: w.Setattrs, Syncs: w.Syncs,
		Usec: w.ReadUsec + w.WriteUsec + w.MetaUsec, Findings: r.Findings, Worst: string(r.Worst)}
}

// topTable has sums, or rates when live: the header says which.
func topTable(rows []store.TopRow, group string, seconds float64, live bool) *view.Table {
	per := ""
	if live {
		per = "/s"
	}
	name := strings.ToUpper(group)
	t := &view.Table{Header: []view.Column{{Name: name, Flex: true}}}
	if group == "job" {
		t.Header = append(t.Header, view.Column{Name: "USER"})
	} else {
		t.Header = append(t.Header, view.Column{Name: "JOBS", Right: true})
	}
	t.Header = append(t.Header, view.Column{Name: "SCORE", Right: true}, view.Column{Name: "READ_B" + per, Right: true},
		view.Column{Name: "WRITE_B" + per, Right: true}, view.Column{Name: "IO" + per, Right: true}, view.Column{Name: "MD" + per, Right: true},
		view.Column{Name: "LATENCY", Right: true})
	if !live {
		t.Header = append(t.Header, view.Column{Name: "FOUND"})
	}
	for i := range rows {
		r := &rows[i]
		w := &r.Totals
		who := r.User
		if group != "job" {
			who = strconv.Itoa(r.Jobs)
		}
		row := []string{orDash(r.Key), orDash(who), fmt.Sprintf("%.1f", r.Score), view.Bytes(w.ReadBytes / seconds), view.Bytes(w.WriteBytes / seconds),
			view.Count((w.ReadOps + w.WriteOps) / seconds), view.Count((w.MetaOps() + w.HiddenGetattrs) / seconds), latencyOf(w)}
		if !live {
			row = append(row, foundText(r))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func foundText(r *store.TopRow) string {
	if r.Findings == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", r.Findings, r.Worst)
}

func orDash(s string) string {
	if s == "" {
		return view.Unknown
	}
	return s
}

// latencyOf is the mean time in service of an operation; unknown where the
// release does not count it.
func latencyOf(w *ioguard.Window) string {
	usec := w.ReadUsec + w.WriteUsec + w.MetaUsec
	n := w.ReadOps + w.WriteOps + w.MetaOps()
	if usec == 0 || n == 0 {
		return view.Unknown
	}
	return view.Usec(usec / n)
}

func topCSV(rows []store.TopRow) *view.Table {
	t := &view.Table{}
	for _, n := range []string{"key", "job_id", "user", "account", "name", "app", "fs", "jobs", "score", "read_bytes", "write_bytes", "read_ops",
		"write_ops", "md_ops", "open", "close", "create", "unlink", "getattr", "getattr_inferred", "setattr", "sync", "usec", "findings", "worst_severity"} {
		t.Header = append(t.Header, view.Column{Name: n})
	}
	num := func(v float64) string {
		if math.IsNaN(v) {
			return ""
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	for i := range rows {
		r := jsonRow(&rows[i])
		t.Rows = append(t.Rows, []string{rows[i].Key, rows[i].JobID, r.User, r.Account, rows[i].Name, rows[i].App, r.FS, strconv.Itoa(r.Jobs), num(r.Score), num(r.ReadBytes), num(r.WriteBytes),
			num(r.ReadOps), num(r.WriteOps), num(r.MetaOps), num(r.Opens), num(r.Closes), num(r.Creates), num(r.Unlinks), num(r.Getattrs), num(r.Hidden),
			num(r.Setattrs), num(r.Syncs), num(r.Usec), strconv.Itoa(r.Findings), r.Worst})
	}
	return t
}

// topLive samples this server and ranks what happened in between, with the same
// question to a passing database as to the records: one ranking, one table.
func topLive(c *cli.Context) error {
	conf, err := loadConfig()
	if err != nil {
		return err
	}
	interval, err := intervalOf(c, conf)
	if err != nil {
		return err
	}
	q, err := topQuery(c)
	if err != nil {
		return err
	}
	h, err := machineOf(c, conf)
	if err != nil {
		return err
	}
	defer h.Close()
	jobName := c.String("jobid-name")
	if jobName == "" {
		jobName = conf.JobIDName
	}
	l := &liveTop{host: h, collector: &collect.Collector{Interval: interval}, owners: slurm.New(h.Run),
		engine: engine.New(engine.Config{Policy: &policy.Policy{}, JobIDName: jobName, Interval: interval})}
	if err := l.sample(c.Context); err != nil {
		return readError(liveHint(err))
	}
	if !c.Bool("json") && !c.Bool("csv") {
		fmt.Fprintf(c.App.ErrWriter, "ioguard: sampling %s for %v\n", view.Safe(h.Name), interval)
	}
	for pause(c.Context, interval) {
		if err := l.sample(c.Context); err != nil {
			return readError(err)
		}
		if err := l.print(c, q); err != nil {
			return err
		}
		if !c.Bool("watch") {
			return nil
		}
	}
	return nil
}

func liveHint(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return ioguard.WithHint(err, "run it as root")
	}
	return ioguard.WithHint(err, "live top runs on an OSS or MDS; elsewhere: --since 24h (records), --statsfile FILE (a dump)")
}

type liveTop struct {
	host      *host.Host
	collector *collect.Collector
	engine    *engine.Engine
	owners    *slurm.Directory
	now       time.Time
	elapsed   time.Duration
	hidden    []engine.Unaccounted
}

func (l *liveTop) sample(ctx context.Context) error {
	l.now = time.Now()
	iv, err := l.collector.Sample(ctx, l.host, l.now)
	if err != nil {
		return err
	}
	l.elapsed = iv.Elapsed
	l.engine.Feed(iv, l.now)
	if iv.Kind != ioguard.DeltaFirst {
		l.hidden = l.engine.Step(l.now).Unaccounted
	}
	return nil
}

func (l *liveTop) print(c *cli.Context, q store.TopQuery) error {
	dir, err := os.MkdirTemp("", "ioguard-top-")
	if err != nil {
		return readError(err)
	}
	defer os.RemoveAll(dir)
	s, err := store.Open(filepath.Join(dir, "top.db"), store.Options{})
	if err != nil {
		return readError(err)
	}
	defer s.Close()
	windows, _ := l.engine.Drain()
	for i := range windows { // one span, whatever minute the sample fell into
		windows[i].Start = l.now
	}
	b := store.Batch{Time: l.now, Windows: windows}
	for _, o := range l.owners.Owners(c.Context, l.now, idsOf(windows)) {
		b.Owners = append(b.Owners, o)
	}
	if err := s.Write(c.Context, b); err != nil {
		return readError(err)
	}
	head := topJSON{Until: unix(l.now), Seconds: l.elapsed.Seconds()}
	for i := range l.hidden {
		head.Unaccounted = append(head.Unaccounted, jsonUnaccounted(&l.hidden[i], ""))
	}
	if err := topOf(c, s, q, head); err != nil {
		return err
	}
	if !c.Bool("json") && !c.Bool("csv") {
		for i := range l.hidden {
			fmt.Fprintf(c.App.ErrWriter, "ioguard: unaccounted: %s\n", unaccountedText(&l.hidden[i]))
		}
	}
	return nil
}

func idsOf(windows []ioguard.Window) []string {
	ids := make([]string, 0, len(windows))
	for i := range windows {
		if slurm.IsJobID(windows[i].JobID) {
			ids = append(ids, windows[i].JobID)
		}
	}
	return ids
}

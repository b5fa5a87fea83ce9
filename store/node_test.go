package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ioguard"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
)

func p[T any](v T) *T { return &v }

// appendNode keeps records within ten seconds.
func appendNode(t testing.TB, path string, r NodeRecords) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	if err := AppendNode(ctx, path, r); err != nil {
		t.Fatal(err, hint(err))
	}
}

func reader(t testing.TB, path string) *Store {
	t.Helper()
	s, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func nodeJobs(t testing.TB, s *Store, id string) []ioguard.NodeJob {
	t.Helper()
	jobs, err := s.NodeJobs(bg, id)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func nodeEvents(t testing.TB, s *Store, q EventQuery) []ioguard.NodeEvent {
	t.Helper()
	events, err := s.NodeEvents(bg, q)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// prologOf and epilogOf are what the two hooks of a run tell.
func prologOf(id, node string, start time.Time) ioguard.NodeJob {
	return ioguard.NodeJob{Cluster: "c", JobID: id, HetJobID: "3", Node: node, User: "alice", UID: p(uint32(1001)), Partition: "batch",
		NodeList: "n[1-2]", WorkDir: "/lustre/alice", Start: start, RestartCount: p(0)}
}

func epilogOf(id, node string, start, end time.Time) ioguard.NodeJob {
	return ioguard.NodeJob{Cluster: "c", JobID: id, Node: node, User: "alice", Start: start, End: end, RestartCount: p(1), ExitCode: p(768), Exclusive: p(true),
		FS: []ioguard.NodeFS{{FS: "home", ReadBytes: p(uint64(0))}, {FS: "lustre", ReadBytes: p(uint64(1)), WriteBytes: p(uint64(math.MaxInt64)), Reads: p(uint64(3)), Writes: p(uint64(4)), Opens: p(uint64(5)),
			Creates: p(uint64(6)), Unlinks: p(uint64(7)), Mkdirs: p(uint64(8)), Getattrs: p(uint64(9)), Fsyncs: p(uint64(10)), Reset: true}}}
}

func eventOf(id, node string, at time.Time) ioguard.NodeEvent {
	return ioguard.NodeEvent{Time: at, Cluster: "c", Node: node, Hook: "prolog", JobID: id, User: "alice", Partition: "batch", Kind: ioguard.EventDrain, Check: "ib-port",
		Subject: "mlx5_0/1", Severity: ioguard.Critical, Text: "Down/Polling", Shared: []string{"switch:0x1", "ost:lustre-OST0002"}, Took: 1234 * time.Microsecond}
}

func TestNodeRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	end := epoch.Add(time.Hour)
	event := eventOf("7", "n1", epoch.Add(time.Microsecond))
	bare := ioguard.NodeEvent{Time: epoch, Node: "n1", Kind: ioguard.EventSkip}
	appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{prologOf("7", "n1", epoch)}, Events: []ioguard.NodeEvent{event, bare}})
	appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{epilogOf("7", "n1", time.Time{}, end)}})
	appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{{Cluster: "c", JobID: "7", ArrayJobID: "4700", ArrayTaskID: "3", Account: "physics", Name: "big", User: "alice", Start: epoch.Add(-time.Second)}}})
	appendNode(t, path, NodeRecords{})

	want := prologOf("7", "n1", epoch)
	want.End, want.ExitCode, want.Exclusive, want.FS = end, p(768), p(true), epilogOf("", "", epoch, end).FS
	s := reader(t, path)
	got := nodeJobs(t, s, "7")
	if len(got) != 2 || got[0].Node != "" || !cmp.Equal(got[1], want) {
		t.Error(cmp.Diff([]ioguard.NodeJob{{}, want}, got))
	}
	if byTask := nodeJobs(t, s, "4700_3"); !cmp.Equal(byTask, got) {
		t.Error(cmp.Diff(got, byTask))
	}
	for _, id := range []string{"8", "", "_", "_3", "4700_", "4700_33"} {
		if got := nodeJobs(t, s, id); len(got) != 0 {
			t.Errorf("job %q: %+v", id, got)
		}
	}
	if got, want := nodeEvents(t, s, EventQuery{}), []ioguard.NodeEvent{event, bare}; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	// whom the job belongs to is known as if squeue had told
	owner := ioguard.Owner{JobID: "7", Name: "big", User: "alice", Account: "physics", Partition: "batch", Nodes: "n[1-2]", Start: epoch.Add(-time.Second)}
	if got := mustJob(t, s, "7").Owner; !cmp.Equal(got, owner) {
		t.Error(cmp.Diff(owner, got))
	}
	if err := AppendNode(bg, path, NodeRecords{Jobs: []ioguard.NodeJob{{JobID: "1"}}}); err == nil {
		t.Error("a job of no time was kept")
	}
}

// What comes twice, late or in the wrong order ends as the runs that there were.
func TestNodeRuns(t *testing.T) {
	min := func(n float64) time.Time { return epoch.Add(time.Duration(n * float64(time.Minute))) }
	none := time.Time{}
	type told struct{ start, end time.Time }
	for _, x := range []struct {
		name string
		told []told
		want []told
	}{
		{"prolog, epilog", []told{{min(1), none}, {none, min(9)}}, []told{{min(1), min(9)}}},
		{"epilog knows the start", []told{{min(1), none}, {min(1), min(9)}}, []told{{min(1), min(9)}}},
		{"epilog alone", []told{{none, min(9)}}, []told{{none, min(9)}}},
		{"epilog twice", []told{{min(1), none}, {none, min(9)}, {none, min(9.5)}}, []told{{min(1), min(9)}}},
		{"epilog alone, twice", []told{{none, min(9)}, {none, min(10)}}, []told{{none, min(9)}}},
		{"epilog twice, the second told first", []told{{none, min(10)}, {none, min(9)}}, []told{{none, min(10)}}},
		{"prolog twice", []told{{min(1), none}, {min(1), none}}, []told{{min(1), none}}},
		{"prolog told after the epilog", []told{{none, min(9)}, {min(1), none}}, []told{{min(1), min(9)}}},
		{"requeued", []told{{min(1), none}, {none, min(9)}, {min(12), none}, {none, min(20)}}, []told{{min(1), min(9)}, {min(12), min(20)}}},
		{"requeued, no prologs", []told{{none, min(9)}, {none, min(12)}}, []told{{none, min(9)}, {none, min(12)}}},
		{"requeued, first epilog lost", []told{{min(1), none}, {min(12), none}, {none, min(20)}}, []told{{min(1), none}, {min(12), min(20)}}},
		{"requeued, first epilog told late", []told{{min(1), none}, {min(9.5), none}, {none, min(9)}}, []told{{min(1), min(9)}, {min(9.5), none}}},
		{"requeued, second prolog lost", []told{{min(1), none}, {none, min(9)}, {none, min(20)}}, []told{{min(1), min(9)}, {none, min(20)}}},
		{"id given out again", []told{{min(1), none}, {min(1e6), none}, {none, min(1e6 + 5)}}, []told{{min(1), none}, {min(1e6), min(1e6 + 5)}}},
		{"id given out again, no prolog", []told{{min(1), none}, {none, min(1e6)}}, []told{{min(1), none}, {none, min(1e6)}}},
		{"clock set back", []told{{min(9), none}, {none, min(1)}}, []told{{none, min(1)}, {min(9), none}}},
	} {
		path := filepath.Join(t.TempDir(), "records.db")
		for _, w := range x.told {
			for range 2 { // as if the hook did not know that it was kept
				appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{{JobID: "7", Node: "n1", Start: w.start, End: w.end}}})
			}
		}
		appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{{JobID: "7", Node: "n2", End: min(9)}, {JobID: "7", Node: "n1", Cluster: "other", End: min(9)}}})
		var got []told
		for _, j := range nodeJobs(t, reader(t, path), "7") {
			if j.Node == "n1" && j.Cluster == "" {
				got = append(got, told{j.Start, j.End})
			}
		}
		if !cmp.Equal(got, x.want, cmp.AllowUnexported(told{})) {
			t.Errorf("%s: %s", x.name, cmp.Diff(x.want, got, cmp.AllowUnexported(told{})))
		}
	}
}

func TestNodeOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	s := openAt(t, path, Options{})
	write(t, s, Batch{Windows: []ioguard.Window{minuteOf("7", "lustre", "", epoch)}, Owners: []ioguard.Owner{{JobID: "7", User: "bob", Name: "old", Account: "chem", State: "COMPLETED"}}})
	appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{{JobID: "7", Node: "n1", Start: epoch}}}) // says nothing of the owner
	if got := mustJob(t, s, "7").Owner; got.User != "bob" || got.Name != "old" {
		t.Errorf("a bare record changed the owner: %+v", got)
	}
	appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{prologOf("7", "n1", epoch)}})
	want := ioguard.Owner{JobID: "7", User: "alice", Partition: "batch", Nodes: "n[1-2]", Start: epoch}
	if got := mustJob(t, s, "7").Owner; !cmp.Equal(got, want) {
		t.Errorf("the id's former job shows through: %s", cmp.Diff(want, got))
	}
	if rows := mustTop(t, s, TopQuery{GroupBy: "user"}); len(rows) != 1 || rows[0].Key != "alice" {
		t.Errorf("by user: %+v", rows)
	}
}

func TestNodeMountsOfOneFileSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	most := uint64(math.MaxUint64)
	j := ioguard.NodeJob{JobID: "7", Node: "n1", End: epoch, FS: []ioguard.NodeFS{{FS: "a", Opens: p(uint64(1)), Reads: &most}, {FS: "b", Opens: p(uint64(5))},
		{FS: "a", Opens: p(uint64(2)), Reads: &most, Fsyncs: p(uint64(3)), Reset: true}}}
	appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{j}})
	want := []ioguard.NodeFS{{FS: "a", Opens: p(uint64(3)), Fsyncs: p(uint64(3)), Reset: true}, {FS: "b", Opens: p(uint64(5))}}
	if got := nodeJobs(t, reader(t, path), "7")[0].FS; !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	if *j.FS[0].Opens != 1 {
		t.Error("the caller's record was changed")
	}
}

func TestNodeEventQuery(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	var all []ioguard.NodeEvent
	for i := range 6 {
		e := eventOf(strconv.Itoa(i/2), "n"+strconv.Itoa(i%3), epoch.Add(time.Duration(i)*time.Minute))
		if i == 5 {
			e.Kind, e.User, e.JobID = ioguard.EventResume, "", ""
		}
		all = append(all, e)
	}
	for range 2 { // told twice
		appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{{JobID: "1", ArrayJobID: "9", ArrayTaskID: "4", Start: epoch}}, Events: all})
	}
	s := reader(t, path)
	for _, x := range []struct {
		q    EventQuery
		want []int
	}{
		{EventQuery{}, []int{5, 4, 3, 2, 1, 0}},
		{EventQuery{Limit: 2}, []int{5, 4}},
		{EventQuery{Node: "n1"}, []int{4, 1}},
		{EventQuery{JobID: "1"}, []int{3, 2}},
		{EventQuery{JobID: "9_4"}, []int{3, 2}},
		{EventQuery{JobID: "9_5"}, nil},
		{EventQuery{User: "alice", Since: epoch.Add(time.Minute), Until: epoch.Add(3 * time.Minute)}, []int{2, 1}},
		{EventQuery{Kind: ioguard.EventResume}, []int{5}},
		{EventQuery{Kind: "' OR 1; --"}, nil},
	} {
		var want []ioguard.NodeEvent
		for _, i := range x.want {
			want = append(want, all[i])
		}
		if got := nodeEvents(t, s, x.q); !cmp.Equal(got, want) {
			t.Errorf("%+v: %s", x.q, cmp.Diff(want, got))
		}
	}
}

func TestNodeJobsOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	min := func(n int) time.Time { return epoch.Add(time.Duration(n) * time.Minute) }
	for i, x := range [][2]int{{0, 10}, {5, 30}, {20, 0}, {30, 40}} {
		j := ioguard.NodeJob{JobID: strconv.Itoa(i), Node: "n1", Start: min(x[0])}
		if x[1] > 0 {
			j.End = min(x[1])
		}
		appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{j}})
	}
	appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{{JobID: "9", Node: "n2", Start: min(0)}, {JobID: "8", Start: min(0)}}})
	s := reader(t, path)
	for _, x := range []struct {
		from, to int
		want     string
	}{{0, 5, "0"}, {10, 20, "1"}, {10, 21, "1 2"}, {0, 99, "0 1 2 3"}, {30, 31, "2 3"}, {50, 60, "2"}, {-9, 0, ""}} {
		jobs, err := s.NodeJobsOn(bg, "n1", min(x.from), min(x.to))
		var got []string
		for _, j := range jobs {
			got = append(got, j.JobID)
		}
		if err != nil || strings.Join(got, " ") != x.want {
			t.Errorf("%d to %d: %v, want %s: %v", x.from, x.to, got, x.want, err)
		}
	}
}

func TestNodeHostileTexts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	long := strings.Repeat("x", 5*maxText)
	odd := "a\x00b\xff'; DROP TABLE node_job; --\"\n\x1b[2J"
	for i, text := range []string{odd, long, "%s%n", "\u202e"} {
		j := ioguard.NodeJob{Cluster: text, JobID: text, ArrayJobID: text, ArrayTaskID: text, HetJobID: text, Node: text, User: text, UID: p(uint32(math.MaxUint32)),
			Account: text, Partition: text, Name: text, NodeList: text, WorkDir: text, Start: epoch, ExitCode: p(-1),
			FS: []ioguard.NodeFS{{FS: text, ReadBytes: p(uint64(math.MaxUint64)), Opens: p(uint64(1))}}}
		e := ioguard.NodeEvent{Time: epoch, Cluster: text, Node: text, Hook: text, JobID: text, User: text, Partition: text, Kind: ioguard.NodeEventKind(text),
			Check: text, Subject: text, Severity: ioguard.Severity(text), Text: text}
		for range 2 {
			appendNode(t, path, NodeRecords{Jobs: []ioguard.NodeJob{j}, Events: []ioguard.NodeEvent{e}})
		}
		s := reader(t, path)
		kept := bounded(text)
		jobs := nodeJobs(t, s, kept)
		if len(jobs) != 1 || jobs[0].WorkDir != kept || jobs[0].Node != kept || len(jobs[0].FS) != 1 || jobs[0].FS[0].ReadBytes != nil || *jobs[0].FS[0].Opens != 1 {
			t.Fatalf("text %d: %d jobs", i, len(jobs))
		}
		if events := nodeEvents(t, s, EventQuery{Node: kept, JobID: kept, User: kept, Kind: ioguard.NodeEventKind(kept)}); len(events) != 1 || events[0].Text != kept {
			t.Errorf("text %d: %d events", i, len(events))
		}
		if got := mustJob(t, s, kept).Owner.Name; got != kept {
			t.Errorf("text %d: owner has %d bytes of a name", i, len(got))
		}
	}
	for _, r := range []NodeRecords{
		{Jobs: []ioguard.NodeJob{{JobID: "", Start: epoch}}},
		{Jobs: []ioguard.NodeJob{{JobID: "1", Start: time.Unix(-1, 0)}}},
		{Jobs: []ioguard.NodeJob{{JobID: "1", Start: epoch, End: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}},
		{Events: []ioguard.NodeEvent{{Node: "n1"}}},
	} {
		if err := AppendNode(bg, path, r); err == nil {
			t.Errorf("%+v was kept", r)
		}
	}
}

// hookRecords are what the prolog of one of many jobs tells.
func hookRecords(id int) NodeRecords {
	at := epoch.Add(time.Duration(id) * time.Millisecond)
	return NodeRecords{Jobs: []ioguard.NodeJob{prologOf(strconv.Itoa(id), "n1", at)}, Events: []ioguard.NodeEvent{eventOf(strconv.Itoa(id), "n1", at)}}
}

// hookProcess is the test binary as a hook: it keeps one job's records and
// prints how long that took.
func hookProcess(path string) {
	id, _ := strconv.Atoi(os.Getenv("IOGUARD_TEST_JOB"))
	ctx, cancel := context.WithTimeout(bg, 20*time.Second)
	defer cancel()
	t0 := time.Now()
	if err := AppendNode(ctx, path, hookRecords(id)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(time.Since(t0).Microseconds())
	os.Exit(0)
}

// runHook gives the time that AppendNode took in a process of its own.
func runHook(path string, id int) (time.Duration, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "IOGUARD_TEST_HOOK="+path, "IOGUARD_TEST_JOB="+strconv.Itoa(id))
	out, err := cmd.Output()
	if ee := new(exec.ExitError); errors.As(err, &ee) {
		return 0, fmt.Errorf("job %d: %w: %s", id, err, ee.Stderr)
	}
	usec, err2 := strconv.Atoi(strings.TrimSpace(string(out)))
	return time.Duration(usec) * time.Microsecond, errors.Join(err, err2)
}

// Many prologs of one second, each a process, on a node that never had records.
func TestNodeManyProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	const n = 50
	var g errgroup.Group
	for id := range n {
		g.Go(func() error {
			_, err := runHook(path, id)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	checkHooks(t, path, n)
}

func TestNodeManyConnections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	s := openAt(t, path, Options{}) // the agent, which goes on
	const n = 50
	var g errgroup.Group
	for id := range n {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(bg, 20*time.Second)
			defer cancel()
			return AppendNode(ctx, path, hookRecords(id))
		})
	}
	for i := range 5 {
		write(t, s, crashBatch(int64(i)))
		maintain(t, s, epoch)
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	checkHooks(t, path, n)
}

func checkHooks(t *testing.T, path string, n int) {
	t.Helper()
	s := reader(t, path)
	if got := len(nodeEvents(t, s, EventQuery{})); got != n {
		t.Errorf("%d of %d events", got, n)
	}
	jobs, err := s.NodeJobsOn(bg, "n1", epoch, epoch.Add(time.Hour))
	if err != nil || len(jobs) != n {
		t.Errorf("%d of %d jobs: %v", len(jobs), n, err)
	}
	var check string
	if err := s.readers.QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Error(check, err)
	}
}

func TestNodeLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	appendNode(t, path, hookRecords(1))
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	const deadline = 100 * time.Millisecond
	t0 := time.Now() // before the deadline is set, or a wait of all of it looks shorter
	ctx, cancel := context.WithTimeout(bg, deadline)
	defer cancel()
	err = AppendNode(ctx, path, hookRecords(2))
	took := time.Since(t0)
	if !errors.As(err, new(*LockedError)) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(hint(err), "fuser") {
		t.Errorf("locked: %v", err)
	}
	if took < deadline || took >= lockSlice {
		t.Errorf("returned after %v", took)
	}
	var g errgroup.Group
	g.Go(func() error { return AppendNode(bg, path, hookRecords(3)) })
	if _, err := db.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := g.Wait(); err != nil { // goes on once it is free
		t.Error(err)
	}
	if got := nodeEvents(t, reader(t, path), EventQuery{}); len(got) != 2 {
		t.Errorf("%d events, want those of 1 and 3", len(got))
	}
	ended, cancel := context.WithCancel(bg)
	cancel()
	if err := AppendNode(ended, path, hookRecords(4)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestNodeErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	foreign := filepath.Join(dir, "foreign.db")
	execSQL(t, foreign, "CREATE TABLE recipe (name TEXT)")
	newer := filepath.Join(dir, "newer.db")
	appendNode(t, newer, hookRecords(1))
	execSQL(t, newer, "PRAGMA user_version=99")
	for _, x := range []struct {
		path string
		is   func(error) bool
	}{
		{filepath.Join(dir, "none", "r.db"), func(err error) bool { return errors.Is(err, fs.ErrNotExist) }},
		{dir, func(err error) bool { return err != nil }},
		{"", func(err error) bool { return err != nil }},
		{file("text.db", strings.Repeat("no database\n", 500)), func(err error) bool { return errors.As(err, new(*CorruptError)) }},
		{foreign, func(err error) bool { return errors.As(err, new(*ForeignError)) }},
		{newer, func(err error) bool { return errors.As(err, new(*NewerError)) }},
	} {
		if err := AppendNode(bg, x.path, hookRecords(1)); !x.is(err) {
			t.Errorf("%s: %v", x.path, err)
		}
	}
}

func TestNodeDiskFull(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	if dir == "" {
		t.Skip("needs root to mount a small disk")
	}
	path := filepath.Join(dir, "records.db")
	n, err := 0, error(nil)
	for ; n < 2000 && err == nil; n++ {
		r := hookRecords(n)
		r.Events[0].Text = strings.Repeat("x", 20_000)
		err = AppendNode(bg, path, r)
	}
	if !errors.As(err, new(*FullError)) || !strings.Contains(hint(err), "free space") {
		t.Fatalf("after %d: %v; %s", n, err, hint(err))
	}
	if got := len(nodeEvents(t, reader(t, path), EventQuery{})); got != n-1 {
		t.Errorf("%d of %d events", got, n-1)
	}
}

// previousSchema makes a file as the release before wrote it.
func previousSchema(t *testing.T, path string, version int) {
	t.Helper()
	s, err := newStore(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names, err := migrationNames()
	if err != nil {
		t.Fatal(err)
	}
	s.writer = s.pool("rwc", s.writeParams(), 1)
	tx, err := s.writer.BeginTx(bg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.migrateTo(bg, tx, names[:version]); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	write(t, s, Batch{Windows: []ioguard.Window{minuteOf("7", "lustre", "", epoch)}, Owners: []ioguard.Owner{{JobID: "7", User: "alice"}}})
}

func TestNodeOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	previousSchema(t, path, 1)
	old := reader(t, path)
	if got := mustJob(t, old, "7"); got.Owner.User != "alice" {
		t.Errorf("%+v", got.Owner)
	}
	on, err := old.NodeJobsOn(bg, "n1", epoch, epoch.Add(time.Hour))
	if jobs, events := nodeJobs(t, old, "7"), nodeEvents(t, old, EventQuery{JobID: "7_1"}); err != nil || len(on)+len(jobs)+len(events) != 0 {
		t.Errorf("an old file has %v, %v, %v: %v", on, jobs, events, err)
	}
	appendNode(t, path, hookRecords(7)) // beside the reader
	s := reader(t, path)
	if len(nodeJobs(t, s, "7")) != 1 || mustJob(t, s, "7").Totals.Seconds != 1 {
		t.Error("the file was not brought up to date, or lost something")
	}
	s = openAt(t, path, Options{})
	if len(nodeJobs(t, s, "7")) != 1 {
		t.Error("the writer does not see it")
	}
	two := filepath.Join(t.TempDir(), "records.db")
	previousSchema(t, two, 1)
	if s := openAt(t, two, Options{}); len(nodeJobs(t, s, "7")) != 0 {
		t.Error("there is something in a file that was just brought up to date")
	}
}

func TestNodeRetention(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	day := func(n int) time.Time { return epoch.AddDate(0, 0, n) }
	var r NodeRecords
	for n := range 1000 {
		id := strconv.Itoa(n)
		r.Jobs = append(r.Jobs, epilogOf(id, "n1", day(n), day(n).Add(time.Hour)))
		r.Events = append(r.Events, eventOf(id, "n1", day(n)))
	}
	r.Jobs = append(r.Jobs, ioguard.NodeJob{JobID: "x", Node: "n1", End: day(0)}, ioguard.NodeJob{JobID: "y", Node: "n1", Start: day(0)})
	appendNode(t, path, r)
	count := func(s *Store) (jobs, fs, events int) {
		if err := s.readers.QueryRow("SELECT (SELECT count(*) FROM node_job), (SELECT count(*) FROM node_fs), (SELECT count(*) FROM node_event)").Scan(&jobs, &fs, &events); err != nil {
			t.Fatal(err)
		}
		return jobs, fs, events
	}
	s := openAt(t, path, Options{})
	if jobs, fs, events := count(s); jobs != 1002-20 || fs != 2*(jobs) || events != 1000-20 {
		t.Errorf("a hook left %d jobs, %d file systems, %d events", jobs, fs, events)
	}
	maintain(t, s, day(999))
	if jobs, fs, events := count(s); jobs != 731 || fs != 2*731 || events != 366 {
		t.Errorf("%d jobs, %d file systems, %d events are kept", jobs, fs, events)
	}
	if oldest := nodeEvents(t, s, EventQuery{}); !slices.IsSortedFunc(oldest, func(a, b ioguard.NodeEvent) int { return b.Time.Compare(a.Time) }) {
		t.Error("not the newest first")
	}
}

func TestOpenFindings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	s := openAt(t, path, Options{})
	for i := range 40 {
		job, user := strconv.Itoa(i), []string{"alice", "bob"}[i%2]
		f := ioguard.Finding{Rule: "read-storm", Subject: "job", JobID: job, Severity: ioguard.Critical, Start: epoch.Add(time.Duration(i) * time.Minute)}
		if i >= 4 {
			f.End = f.Start.Add(time.Minute)
		}
		write(t, s, Batch{Time: f.Start, Findings: []FindingUpdate{{Finding: f}}, Owners: []ioguard.Owner{{JobID: job, User: user}}})
	}
	write(t, s, Batch{Findings: []FindingUpdate{{Finding: ioguard.Finding{Rule: "full", Subject: "ost", Target: "lustre-OST0000", Start: epoch}}}})
	r := reader(t, path)
	for _, x := range []struct{ user, job, want string }{
		{"alice", "", "2 0"}, {"alice", "3", "3 2 0"}, {"", "1", "1"}, {"", "5", ""}, {"carol", "99", ""}, {"", "", ""}, {"alice", "2", "2 0"},
	} {
		list, err := r.OpenFindings(bg, x.user, x.job)
		var got []string
		for i := range list {
			got = append(got, list[i].JobID)
		}
		if err != nil || strings.Join(got, " ") != x.want {
			t.Errorf("user %q, job %q: %v, want %s: %v", x.user, x.job, got, x.want, err)
		}
	}
	plans(t, r, "SELECT f.id FROM finding f INDEXED BY finding_open LEFT JOIN job j ON j.id = f.job WHERE f.ended IS NULL", "USING INDEX finding_open")
}

// plans fails when SQLite does not answer a query as wanted.
func plans(t *testing.T, s *Store, query, want string, args ...any) {
	t.Helper()
	rows, err := s.readers.Query("EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, detail)
	}
	if all := strings.Join(plan, "; "); rows.Err() != nil || !strings.Contains(all, want) {
		t.Errorf("%s\nis planned as %s, want %s", query, all, want)
	}
}

func TestNodePlans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	appendNode(t, path, hookRecords(1))
	s := reader(t, path)
	for _, x := range []struct {
		q    EventQuery
		want string
	}{
		{EventQuery{}, "SCAN node_event USING INDEX sqlite_autoindex_node_event_1"},
		{EventQuery{Since: epoch}, "SEARCH node_event USING INDEX sqlite_autoindex_node_event_1 (time>?"},
		{EventQuery{Node: "n1", Since: epoch}, "SEARCH node_event USING INDEX node_event_node (node=? AND time>?"},
		{EventQuery{JobID: "1"}, "SEARCH node_event USING INDEX node_event_job (jobid=?"},
		{EventQuery{JobID: "1_2"}, "SEARCH node_job USING INDEX node_job_array"},
	} {
		where, args := x.q.conditions()
		plans(t, s, "SELECT * FROM node_event WHERE "+where+" ORDER BY time DESC, id DESC", x.want, args...)
	}
	where, args := ofJob("jobid", "1")
	plans(t, s, "SELECT * FROM node_job WHERE "+where, "SEARCH node_job USING INDEX sqlite_autoindex_node_job_1 (jobid=?", args...)
	plans(t, s, "SELECT * FROM node_job WHERE "+onNode, "USING INDEX node_job_node (node=? AND <expr>>?", "n", 1, 2)
	plans(t, s, "SELECT id FROM node_job WHERE at < 5 ORDER BY at LIMIT 3", "node_job_at (at<?")
}

// BenchmarkAppendNode is one hook: open, bring up to date, write, close.
func BenchmarkAppendNode(b *testing.B) {
	path := filepath.Join(b.TempDir(), "records.db")
	appendNode(b, path, hookRecords(0))
	for i := 1; b.Loop(); i++ {
		appendNode(b, path, hookRecords(i))
	}
}

// BenchmarkHookProcesses are the prologs that start in one second, each a
// process; what is told is AppendNode's time within them.
func BenchmarkHookProcesses(b *testing.B) {
	for _, n := range []int{1, 50, 200} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var all []time.Duration
			for b.Loop() {
				path := filepath.Join(b.TempDir(), "records.db")
				appendNode(b, path, hookRecords(n))
				took := make([]time.Duration, n)
				var g errgroup.Group
				for i := range n {
					g.Go(func() (err error) {
						took[i], err = runHook(path, i)
						return err
					})
				}
				if err := g.Wait(); err != nil {
					b.Fatal(err)
				}
				all = append(all, took...)
			}
			slices.Sort(all)
			b.ReportMetric(all[len(all)/2].Seconds()*1e3, "median-ms")
			b.ReportMetric(all[len(all)-1].Seconds()*1e3, "max-ms")
		})
	}
}

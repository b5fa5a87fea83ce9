package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ioguard"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sync/errgroup"
)

var bg = context.Background()

func open(t testing.TB, opts Options) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "records.db"), opts)
}

func openAt(t testing.TB, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func write(t testing.TB, s *Store, b Batch) {
	t.Helper()
	if err := s.Write(bg, b); err != nil {
		t.Fatal(err)
	}
}

func mustJob(t testing.TB, s *Store, id string) *JobAccount {
	t.Helper()
	a, err := s.Job(bg, id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustTop(t testing.TB, s *Store, q TopQuery) []TopRow {
	t.Helper()
	rows, err := s.Top(bg, q)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func hint(err error) string {
	var h *ioguard.HintError
	if errors.As(err, &h) {
		return h.Hint
	}
	return ""
}

func execSQL(t testing.TB, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range statements {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
}

// minuteOf is a window with every number set, all different.
func minuteOf(job, fs, pool string, start time.Time) ioguard.Window {
	v := vec{}
	for i := range v {
		v[i] = float64(i + 1)
	}
	w := v.window()
	w.JobID, w.FS, w.Pool, w.Start = job, fs, pool, start
	return w
}

func TestColumnsAndVecAgree(t *testing.T) {
	want := minuteOf("", "", "", time.Time{})
	v := vecOf(&want)
	if got := v.window(); !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
	for i, x := range v {
		if x != float64(i+1) {
			t.Errorf("%s is %g, not %d", columns[i], x, i+1)
		}
	}
}

func TestAccount(t *testing.T) {
	s := open(t, Options{})
	odd := "a\x00b\xff'; DROP TABLE job; --\"\n"
	at := epoch.Add(90 * time.Second)
	write(t, s, Batch{
		Windows: []ioguard.Window{
			minuteOf(odd, "lustre", "", at), minuteOf(odd, "lustre", "flash", at),
			minuteOf(odd, "lustre", "flash", at.Add(30*time.Second)), // another minute
			minuteOf(odd, "lustre", "flash", at.Add(10*time.Second)), // the same
			minuteOf(odd, "lustre", "flash", at.Add(25*time.Hour)),
			minuteOf("other", "lustre", "", at),
		},
		Owners: []ioguard.Owner{{JobID: odd, Name: "n\x00\xfe", User: "u'", Account: "a", Partition: "p", Nodes: "n[1-3]", State: "RUNNING", Start: epoch}},
	})
	write(t, s, Batch{Owners: []ioguard.Owner{{JobID: odd, State: "COMPLETED"}}})

	a := mustJob(t, s, odd)
	want := ioguard.Owner{JobID: odd, Name: "n\x00\xfe", User: "u'", Account: "a", Partition: "p", Nodes: "n[1-3]", State: "COMPLETED", Start: epoch}
	if !cmp.Equal(a.Owner, want) {
		t.Error(cmp.Diff(want, a.Owner))
	}
	if len(a.Pools) != 2 || a.Pools[0].Pool != "" || a.Pools[1].Pool != "flash" {
		t.Fatalf("pools: %+v", a.Pools)
	}
	if got := []float64{a.Pools[1].ReadBytes, a.Totals.ReadBytes, a.Totals.PeakMetaOps, float64(a.Totals.Targets)}; !cmp.Equal(got, []float64{8, 10, 21, 18}) {
		t.Errorf("read bytes of pool and job, peak, targets: %v", got)
	}
	if len(a.Minutes) != 3 || len(a.Hours) != 2 || len(a.Days) != 2 || a.Minutes[0].ReadBytes != 6 || !a.Minutes[0].Start.Equal(epoch.Add(time.Minute)) {
		t.Errorf("series: %+v", a.Minutes)
	}
	if !a.First.Equal(at) || a.Totals.FS != "lustre" {
		t.Errorf("first %s, fs %q", a.First, a.Totals.FS)
	}
	if _, err := s.Job(bg, "nobody"); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown job: %v", err)
	}
	if top := mustTop(t, s, TopQuery{By: "read"}); top[0].Key != odd || top[0].Value != 10 || top[0].User != "u'" {
		t.Errorf("top: %+v", top)
	}
}

func TestNoAmount(t *testing.T) {
	s := open(t, Options{})
	w := minuteOf("1", "l", "", epoch)
	bad := ioguard.Window{JobID: "1", FS: "l", Start: epoch, ReadBytes: math.NaN(), WriteBytes: math.Inf(1), Opens: -5, Seconds: math.NaN(), Targets: -1, PeakMetaOps: math.NaN()}
	write(t, s, Batch{Windows: []ioguard.Window{bad, w}})
	write(t, s, Batch{Windows: []ioguard.Window{bad}})
	got, err := queryWindowsOf(s)
	if want := []ioguard.Window{w}; err != nil || !cmp.Equal(got, want) {
		t.Error(err, cmp.Diff(want, got))
	}
	for _, start := range []time.Time{{}, time.Unix(-1, 0), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if err := s.Write(bg, Batch{Windows: []ioguard.Window{w, {JobID: "2", Start: start}}}); err == nil {
			t.Errorf("start %s was accepted", start)
		}
	}
	if again, _ := queryWindowsOf(s); !cmp.Equal(again, got) {
		t.Error("a refused batch was kept in part")
	}
}

func queryWindowsOf(s *Store) (out []ioguard.Window, err error) {
	err = s.Windows(bg, time.Time{}, time.Time{}, func(w ioguard.Window) error {
		out = append(out, w)
		return nil
	})
	return out, err
}

func TestBatchCountsOnce(t *testing.T) {
	s := open(t, Options{})
	b := func(agent string, seq int64) Batch {
		return Batch{Agent: agent, Seq: seq, Windows: []ioguard.Window{minuteOf("1", "l", "", epoch)}}
	}
	for _, x := range []Batch{b("a", 0), b("a", 0), b("a", 2), b("a", 1), b("a", 2), b("b", 2), b("", 0), b("", 0)} {
		write(t, s, x)
	}
	if got := mustJob(t, s, "1").Totals.Seconds; got != 6 { // a: 3, b: 1, nameless: 2
		t.Errorf("%g of 6 batches counted", got)
	}
	write(t, s, b("a", 5000))
	if err := s.Write(bg, b("a", 5000-rememberedBatches)); !errors.Is(err, ErrOldBatch) || hint(err) == "" {
		t.Errorf("old batch: %v", err)
	}
	if seq, ok, err := s.LastSeq(bg, "a"); seq != 5000 || !ok || err != nil {
		t.Errorf("last: %d %v %v", seq, ok, err)
	}
	if _, ok, err := s.LastSeq(bg, "nobody"); ok || err != nil {
		t.Error("an unknown agent has a last batch")
	}
	if err := s.Write(bg, b("a", -1)); err == nil {
		t.Error("negative number accepted")
	}
}

func TestPressureKeepsUnknown(t *testing.T) {
	s := open(t, Options{})
	nan := math.NaN()
	p := ioguard.Pressure{Start: epoch, Seconds: 60, Server: "oss1", Busy: 0.25, IOWait: nan, PSISome: nan, Util: 1, QueueSize: 7, WaitUsec: nan, Score: 0}
	q := p
	q.Start, q.Seconds, q.Busy, q.IOWait, q.Score = epoch.Add(time.Minute), 180, 0.5, 0.1, 2
	write(t, s, Batch{Pressure: []ioguard.Pressure{q, p}})
	write(t, s, Batch{Pressure: []ioguard.Pressure{p}}) // again: replaced
	got, err := s.Pressure(bg, epoch, epoch.Add(time.Hour))
	if want := []ioguard.Pressure{p, q}; err != nil || !cmp.Equal(got, want, cmpopts.EquateNaNs()) {
		t.Error(err, cmp.Diff(want, got, cmpopts.EquateNaNs()))
	}
	maintain(t, s, epoch.Add(72*time.Hour))
	got, err = s.Pressure(bg, time.Time{}, time.Time{})
	hour := ioguard.Pressure{Start: epoch, Seconds: 240, Server: "oss1", Busy: 0.4375, IOWait: 0.1, PSISome: nan, Util: 1, QueueSize: 7, WaitUsec: nan, Score: 2}
	if err != nil || !cmp.Equal(got, []ioguard.Pressure{hour}, cmpopts.EquateNaNs()) {
		t.Error(err, cmp.Diff([]ioguard.Pressure{hour}, got, cmpopts.EquateNaNs()))
	}
}

func maintain(t testing.TB, s *Store, now time.Time) {
	t.Helper()
	for range 10_000 {
		w, err := s.Maintain(bg, now)
		if err != nil {
			t.Fatal(err)
		}
		if !w.More {
			return
		}
	}
	t.Fatal("maintain does not come to an end")
}

func TestFindings(t *testing.T) {
	s := open(t, Options{EvidenceWindows: 3})
	at := func(min int) time.Time { return epoch.Add(time.Duration(min) * time.Minute) }
	f := ioguard.Finding{Rule: "metadata-flood", Title: "floods", Subject: "job", JobID: "7\xff", FS: "l", Server: "mds1", Severity: ioguard.Warning,
		Start: at(0), Evidence: map[string]float64{"share": 0.5, "psi": math.NaN(), "up": math.Inf(1), "down": math.Inf(-1)}, Facts: []string{"a", "b"}, Advice: "don't", Inferred: true}
	tell := func(min int, f ioguard.Finding, w ...ioguard.Window) {
		t.Helper()
		write(t, s, Batch{Time: at(min), Findings: []FindingUpdate{{f, w}}})
	}
	tell(1, f, minuteOf("7\xff", "l", "", at(0)))
	worse := f
	worse.Severity, worse.Title, worse.Evidence, worse.Facts = ioguard.Critical, "floods badly", nil, nil
	tell(2, worse, minuteOf("7\xff", "l", "", at(1)), minuteOf("7\xff", "l", "", at(2)), minuteOf("7\xff", "l", "", at(3)))
	calm := f
	calm.Severity = ioguard.Notice
	tell(3, calm, minuteOf("7\xff", "l", "", at(3)))
	tell(2, worse) // late: must not bring back the old text

	list, err := s.Findings(bg, FindingFilter{Open: true, Windows: true})
	if err != nil || len(list) != 1 {
		t.Fatal(len(list), err)
	}
	got := list[0]
	if got.Worst != ioguard.Critical || !cmp.Equal(got.Finding, calm, cmpopts.EquateNaNs()) || !got.Seen.Equal(at(3)) {
		t.Errorf("worst %s, seen %s: %s", got.Worst, got.Seen, cmp.Diff(calm, got.Finding, cmpopts.EquateNaNs()))
	}
	if len(got.Windows) != 3 || !got.Windows[0].Start.Equal(at(1)) || got.Windows[0].ReadBytes != 2 {
		t.Errorf("windows: %+v", got.Windows)
	}

	closed := calm
	closed.End = at(5)
	tell(5, closed)
	tell(6, calm) // stays closed
	again := f
	again.Start = at(10)
	tell(10, again)
	third := f
	third.Start = at(20)
	tell(20, third) // closes the second, which nobody closed
	other := ioguard.Finding{Rule: "ost-full", Subject: "ost", Target: "l-OST0001", FS: "l", Severity: ioguard.Notice, Start: at(15)}
	tell(15, other)
	write(t, s, Batch{Owners: []ioguard.Owner{{JobID: "7\xff", User: "eve", Account: "phys"}}, Windows: []ioguard.Window{minuteOf("7\xff", "l", "", at(0))}})

	for _, x := range []struct {
		name  string
		f     FindingFilter
		start []int
	}{
		{"all", FindingFilter{}, []int{20, 15, 10, 0}},
		{"open", FindingFilter{Open: true}, []int{20, 15}},
		{"user", FindingFilter{User: "eve"}, []int{20, 10, 0}},
		{"account", FindingFilter{Account: "phys", Limit: 1}, []int{20}},
		{"nobody", FindingFilter{User: "' OR 1=1 --"}, nil},
		{"subject", FindingFilter{Subject: "ost", FS: "l", Target: "l-OST0001", Rule: "ost-full"}, []int{15}},
		{"severity", FindingFilter{MinSeverity: ioguard.Critical}, []int{0}},
		{"before", FindingFilter{Until: at(1)}, []int{0}},
		{"span", FindingFilter{Since: at(6), Until: at(11)}, []int{10}},
	} {
		list, err := s.Findings(bg, x.f)
		var got []int
		for _, r := range list {
			got = append(got, int(r.Start.Sub(epoch)/time.Minute))
		}
		if err != nil || !slices.Equal(got, x.start) {
			t.Errorf("%s: %v, want %v, %v", x.name, got, x.start, err)
		}
	}
	a := mustJob(t, s, "7\xff")
	if len(a.Findings) != 3 || !a.Findings[0].End.Equal(at(5)) || a.Findings[1].End.IsZero() || !a.Findings[2].End.IsZero() || len(a.Findings[0].Windows) != 3 {
		t.Errorf("account's findings: %+v", a.Findings)
	}
	row := mustTop(t, s, TopQuery{GroupBy: "user"})[0]
	if row.Key != "eve" || row.Findings != 3 || row.Worst != ioguard.Critical {
		t.Errorf("top: %+v", row)
	}
	maintain(t, s, epoch.AddDate(2, 0, 0))
	if list, _ := s.Findings(bg, FindingFilter{}); len(list) != 0 {
		t.Errorf("%d findings outlived two years", len(list))
	}
}

func TestTopGroupsAndFilters(t *testing.T) {
	s := open(t, Options{})
	w := func(job, fs string, read float64) ioguard.Window {
		return ioguard.Window{JobID: job, FS: fs, Start: epoch, Seconds: 60, ReadBytes: read, HiddenGetattrs: 1}
	}
	write(t, s, Batch{
		Windows: []ioguard.Window{w("1", "a", 10), w("1", "b", 1), w("2", "a", 20), w("3", "a", 5), w("rsync.1001", "a", 100), w("kworker/0:1", "b", 3)},
		Owners: []ioguard.Owner{{JobID: "1", User: "ann", Account: "x", Name: "wrf"}, {JobID: "2", User: "bob", Account: "x", Name: "wrf"},
			{JobID: "3", User: "ann", Account: "y", Name: "rsync"}, {JobID: "idle", User: "ann"}},
	})
	for _, x := range []struct {
		q    TopQuery
		want string
	}{
		{TopQuery{By: "read"}, "rsync.1001=100 2=20 1=11 3=5 kworker/0:1=3"},
		{TopQuery{By: "bytes", Limit: 2}, "rsync.1001=100 2=20"},
		{TopQuery{By: "bytes", Limit: -1, User: "ann"}, "1=11 3=5"},
		{TopQuery{By: "bytes", GroupBy: "user"}, "1001=100 bob=20 ann=16 =3"},
		{TopQuery{By: "bytes", GroupBy: "account", FS: "a"}, "=100 x=30 y=5"},
		{TopQuery{By: "bytes", GroupBy: "app"}, "rsync=105 wrf=31 kworker/0:1=3"},
		{TopQuery{By: "bytes", GroupBy: "job", Account: "x", FS: "b"}, "1=1"},
		{TopQuery{By: "bytes", User: "x' OR '1'='1"}, ""},
		{TopQuery{By: "bytes", FS: "nowhere"}, ""},
		{TopQuery{By: "write"}, ""},
		{TopQuery{By: "getattr", Limit: 1}, "1=2"},
		{TopQuery{By: "bytes", Since: epoch.Add(time.Minute)}, ""},
		{TopQuery{By: "bytes", Until: epoch}, ""},
		{TopQuery{By: "bytes", Limit: 1, Since: epoch, Until: epoch.Add(time.Nanosecond)}, "rsync.1001=100"},
		// on a: 4 jobs, 135 bytes; on b: 2 jobs, 4 bytes; one getattr each
		{TopQuery{Limit: 2}, fmt.Sprintf("rsync.1001=%g 1=%g", (100*4/135.+1)/2, (10*4/135.+1)/2+(1*2/4.+1)/2)},
	} {
		var got []string
		for _, r := range mustTop(t, s, x.q) {
			got = append(got, fmt.Sprintf("%s=%g", r.Key, r.Value))
		}
		if g := strings.Join(got, " "); g != x.want {
			t.Errorf("%+v\n got %s\nwant %s", x.q, g, x.want)
		}
	}
	r := mustTop(t, s, TopQuery{User: "bob"})[0]
	if r.JobID != "2" || r.Account != "x" || r.App != "wrf" || r.Jobs != 1 || r.Totals.FS != "a" || !r.Totals.Start.Equal(epoch) {
		t.Errorf("row: %+v", r)
	}
	for _, q := range []TopQuery{{By: "read_bytes; DROP TABLE job"}, {GroupBy: "name"}} {
		var qe *QueryError
		if _, err := s.Top(bg, q); !errors.As(err, &qe) || hint(err) == "" {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestProcessOf(t *testing.T) {
	for _, x := range [][3]string{{"123", "", ""}, {"123_4", "", ""}, {"12.0", "", ""}, {"rsync.1001", "rsync", "1001"}, {"kworker/0:1.0", "kworker/0:1", "0"},
		{"a.b", "a.b", ""}, {".5", "", ""}, {"x.", "x.", ""}, {"", "", ""}} {
		if p, u := ProcessOf(x[0]); p != x[1] || u != x[2] {
			t.Errorf("%q: %q %q", x[0], p, u)
		}
	}
}

// What is written is conserved on every level, in every digest and for every
// question, whatever the order of writing, late windows and maintenance.
func TestConservation(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := open(t, Options{Keep: Retention{Minutes: 6 * time.Hour, Hours: 3 * dayLength}})
		var all []ioguard.Window
		now := epoch
		for range 60 {
			now = now.Add(time.Duration(r.IntN(5*60)) * time.Minute)
			var b Batch
			for range 1 + r.IntN(8) {
				back := time.Duration(r.IntN(90)) * time.Minute
				if r.IntN(10) == 0 {
					back = time.Duration(r.IntN(4*24)) * time.Hour // very late
				}
				w := minuteOf(fmt.Sprint(r.IntN(9)), []string{"a", "b"}[r.IntN(2)], []string{"", "p"}[r.IntN(2)], now.Add(-back))
				w.ReadBytes, w.PeakReadBytes = float64(r.IntN(1e6))*1e4, float64(r.IntN(100))
				b.Windows = append(b.Windows, w)
			}
			all = append(all, b.Windows...)
			write(t, s, b)
			if r.IntN(3) == 0 {
				if _, err := s.Maintain(bg, now); err != nil {
					t.Fatal(err)
				}
			}
			if r.IntN(4) == 0 {
				checkTop(t, s, all, now.Add(-time.Duration(r.IntN(200))*time.Hour), now.Add(time.Duration(r.IntN(30)-20)*time.Hour), r.IntN(2) == 0)
			}
		}
		checkTop(t, s, all, time.Time{}, time.Time{}, true)
		maintain(t, s, now)
		checkTop(t, s, all, time.Time{}, time.Time{}, true)
		var bytes, want float64
		if err := s.Windows(bg, time.Time{}, time.Time{}, func(w ioguard.Window) error { bytes += w.ReadBytes; return nil }); err != nil {
			t.Fatal(err)
		}
		for i := range all {
			want += all[i].ReadBytes
		}
		if bytes != want {
			t.Errorf("seed %d: stream has %g of %g bytes", seed, bytes, want)
		}
		var n int
		if err := s.readers.QueryRow("SELECT count(*) FROM minute WHERE start < (SELECT value FROM meta WHERE name = 'minute_floor')").Scan(&n); err != nil || n != 0 {
			t.Errorf("%d minutes outlived their retention: %v", n, err)
		}
	}
}

// checkTop compares with the windows themselves. Where finer rows are gone the
// span may have grown: the question is asked for what the file covers.
func checkTop(t *testing.T, s *Store, all []ioguard.Window, since, until time.Time, whole bool) {
	t.Helper()
	if whole && !since.IsZero() {
		since, until = since.Truncate(dayLength), until.Truncate(dayLength).Add(dayLength)
	}
	var h horizon
	err := s.read(bg, func(tx *sql.Tx) (err error) { h, err = readHorizon(bg, tx); return err })
	if err != nil {
		t.Fatal(err)
	}
	from, to := bounds(since, until)
	if whole && !since.IsZero() {
		from, to = dayLevel.floor(from), dayLevel.ceil(to)
	}
	if !whole && to-from > 7*86400 { // to lies within a day of the rows' end
		from, to = hourLevel.floor(from), hourLevel.ceil(to)
	}
	if !whole { // by the documented rule, not by pieces()
		if from < h.minuteFloor {
			from = hourLevel.floor(from)
		}
		if from < h.hourFloor {
			from = dayLevel.floor(from)
		}
		if hourLevel.floor(to) < h.minuteFloor {
			to = hourLevel.ceil(to)
		}
		if dayLevel.floor(to) < h.hourFloor {
			to = dayLevel.ceil(to)
		}
	}
	type sum struct{ bytes, peak, seconds float64 }
	want := map[string]sum{}
	for i := range all {
		w := &all[i]
		if u := w.Start.Unix(); u >= from && u < to {
			x := want[w.JobID]
			want[w.JobID] = sum{x.bytes + w.ReadBytes, max(x.peak, w.PeakReadBytes), x.seconds + w.Seconds}
		}
	}
	got := map[string]sum{}
	for _, r := range mustTop(t, s, TopQuery{Since: since, Until: until, By: "open", Limit: -1}) {
		got[r.Key] = sum{r.Totals.ReadBytes, r.Totals.PeakReadBytes, r.Totals.Seconds}
	}
	if !cmp.Equal(got, want, cmp.AllowUnexported(sum{})) {
		t.Fatalf("%s to %s: %s", since, until, cmp.Diff(want, got, cmp.AllowUnexported(sum{})))
	}
}

func TestPiecesTileTheSpan(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		day := dayLevel.span
		h := horizon{first: day * 10, minuteFloor: day*10 + 3600*r.Int64N(100), hourFloor: day * (8 + r.Int64N(5))}
		h.lastMinute = h.minuteFloor + 60*r.Int64N(3000)
		from := day*9 + 60*r.Int64N(1440*9)
		to := from + 60*r.Int64N(1440*5)
		ps := h.pieces(from, to)
		slices.SortFunc(ps, func(a, b piece) int { return int(a.from - b.from) })
		for i, p := range ps {
			if p.from >= p.to || p.from%p.level.span != 0 || p.to%p.level.span != 0 || i > 0 && ps[i-1].to != p.from {
				t.Fatalf("%+v [%d, %d): %+v", h, from, to, ps)
			}
			if p.level == minuteLevel && p.from < h.minuteFloor || p.level == hourLevel && p.from < h.hourFloor {
				t.Fatalf("%+v [%d, %d): reads rows that are gone: %+v", h, from, to, ps)
			}
		}
		if len(ps) > 0 && (ps[0].from > max(from, h.first) || ps[len(ps)-1].to < min(to, h.lastMinute+60)) {
			t.Fatalf("%+v [%d, %d): too short: %+v", h, from, to, ps)
		}
	}
}

func TestDigestRoundTrip(t *testing.T) {
	v := vec{1, 0.1, 1 << 53, 1<<53 - 1, 1e300, 0, math.SmallestNonzeroFloat64}
	b := appendRecord([]byte{digestVersion}, fsJob{3, 900}, 0, &v)
	b = appendRecord(b, fsJob{1, 5}, 900, &vec{})
	var got []fsJob
	err := readDigest(b, func(k fsJob, x *vec) {
		if k.job == 900 && *x != v {
			t.Errorf("%v became %v", v, *x)
		}
		got = append(got, k)
	})
	if err != nil || !slices.Equal(got, []fsJob{{3, 900}, {1, 5}}) {
		t.Error(got, err)
	}
	for i := range b {
		if i > 1 {
			_ = readDigest(b[:i], func(fsJob, *vec) {}) // any cut: no panic
		}
	}
}

func FuzzReadDigest(f *testing.F) {
	f.Add(appendRecord([]byte{digestVersion}, fsJob{3, 900}, 0, &vec{1, 0.1, 5}))
	f.Add([]byte{digestVersion, 1, 1, 0xff, 0xff, 0x7f, 1, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s sums
		var again []byte
		before := int64(0)
		err := readDigest(b, func(k fsJob, v *vec) {
			s.add(k, v)
			again = appendRecord(again, k, before, v)
			before = k.job
		})
		if err != nil {
			return
		}
		i := 0
		var second []byte
		if err := readDigest(append([]byte{digestVersion}, again...), func(k fsJob, v *vec) { i++; second = append(second, byte(i)) }); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if again != nil && !bytes.Equal(second[:1], []byte{1}) {
			t.Fatal("records were lost")
		}
	})
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := filepath.Join(dir, "good.db")
	s := openAt(t, good, Options{})
	site{start: epoch, days: 1, jobsPerDay: 100, meanMinutes: 3}.load(t, s)
	s.Close()
	content, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	newer, foreign := file("newer.db", content), filepath.Join(dir, "foreign.db")
	execSQL(t, newer, "PRAGMA user_version=99")
	execSQL(t, foreign, "CREATE TABLE recipe (name TEXT)")
	damaged := slices.Clone(content)
	for i := 100; i < 4096; i++ {
		damaged[i] = 0xa5 // the schema
	}
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	corrupt := func(err error) bool { return errors.As(err, new(*CorruptError)) }
	for _, x := range []struct {
		name, path string
		readOnly   bool
		is         func(error) bool
		hint       string
	}{
		{"no parent", filepath.Join(dir, "a b", "r.db"), false, is(fs.ErrNotExist), "mkdir -p '" + dir + "/a b'"},
		{"missing", filepath.Join(dir, "none.db"), true, is(fs.ErrNotExist), "is the path right"},
		{"folder", dir, false, func(err error) bool { return err != nil }, ""},
		{"no name", "", false, func(err error) bool { return err != nil }, ""},
		{"NUL", "a\x00b", false, func(err error) bool { return err != nil }, ""},
		{"text", file("text.db", bytes.Repeat([]byte("no database\n"), 500)), false, corrupt, "text.db.bad"},
		{"text", file("text2.db", bytes.Repeat([]byte("no database\n"), 500)), true, corrupt, "text2.db.bad"},
		{"damaged", file("damaged.db", damaged), false, corrupt, ".recover"},
		{"damaged", file("damaged2.db", damaged), true, corrupt, ".recover"},
		{"foreign", foreign, false, func(err error) bool { return errors.As(err, new(*ForeignError)) }, "another path"},
		{"foreign", foreign, true, func(err error) bool { return errors.As(err, new(*ForeignError)) }, "another path"},
		{"newer", newer, false, func(err error) bool { return errors.As(err, new(*NewerError)) }, "aside"},
		{"newer", newer, true, func(err error) bool { return errors.As(err, new(*NewerError)) }, "aside"},
		{"older", file("empty.db", nil), true, func(err error) bool { return errors.As(err, new(*OlderError)) }, "ioguard watch"},
	} {
		var err error
		if x.readOnly {
			_, err = OpenReadOnly(x.path)
		} else {
			_, err = Open(x.path, Options{})
		}
		if !x.is(err) || !strings.Contains(hint(err), x.hint) {
			t.Errorf("%s, read-only %v: %v; hint: %s", x.name, x.readOnly, err, hint(err))
		}
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "text.db")); !bytes.HasPrefix(after, []byte("no database")) {
		t.Error("a foreign file was changed")
	}
}

// Damage that Open cannot see is told by the question that meets it.
func TestDamagedPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	s := openAt(t, path, Options{})
	site{start: epoch, days: 2, jobsPerDay: 300, meanMinutes: 5}.load(t, s)
	s.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096 * 2; i < len(content); i++ {
		content[i] = 0xa5
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReadOnly(path)
	if err == nil {
		defer r.Close()
		_, err = r.Top(bg, TopQuery{})
	}
	if !errors.As(err, new(*CorruptError)) {
		t.Errorf("damage was not told: %v", err)
	}
}

func TestOddNamesAndModes(t *testing.T) {
	for _, name := range []string{"a b.db", "a?mode=memory.db", "50%41.db", "#1.db", "ü'\".db", "a&b=c;d.db", "\xff.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := openAt(t, path, Options{GroupRead: name == "#1.db"})
		write(t, s, Batch{Windows: []ioguard.Window{minuteOf("1", "l", "", epoch)}})
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		want := fs.FileMode(0o600)
		if name == "#1.db" {
			want = 0o640
		}
		wal, err := os.Stat(path + "-wal")
		if err != nil || fi.Mode() != want || wal.Mode() != want {
			t.Errorf("%q: modes %s, %v, %v", name, fi.Mode(), wal, err)
		}
		r, err := OpenReadOnly(path)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if len(mustTop(t, r, TopQuery{})) != 1 || len(r.Problems()) != 0 {
			t.Errorf("%q: %v", name, r.Problems())
		}
		if err := r.Write(bg, Batch{}); !errors.Is(err, ErrReadOnly) {
			t.Errorf("write: %v", err)
		}
		if _, err := r.Maintain(bg, epoch); !errors.Is(err, ErrReadOnly) {
			t.Errorf("maintain: %v", err)
		}
		r.Close()
	}
}

func TestReopenKeepsAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	for i := range 3 {
		s := openAt(t, path, Options{})
		write(t, s, Batch{Agent: "a", Seq: int64(i), Windows: []ioguard.Window{minuteOf("1", "l", "", epoch)}})
		write(t, s, Batch{Agent: "a", Seq: 0, Windows: []ioguard.Window{minuteOf("1", "l", "", epoch)}})
		s.Close()
	}
	s := openAt(t, path, Options{})
	if got := mustJob(t, s, "1").Totals.Seconds; got != 3 {
		t.Errorf("%g of 3", got)
	}
	var n, av int
	names, err := migrationNames()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.readers.QueryRow("SELECT (SELECT count(*) FROM migration), (SELECT auto_vacuum FROM pragma_auto_vacuum)").Scan(&n, &av); err != nil || n != len(names) || av != 2 {
		t.Errorf("%d migrations, auto_vacuum %d: %v", n, av, err)
	}
}

func TestWritersAndReaders(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.db")
	s := openAt(t, path, Options{BusyTimeout: 50 * time.Millisecond})
	one := Batch{Windows: []ioguard.Window{minuteOf("1", "l", "", epoch), minuteOf("2", "l", "", epoch)}}
	write(t, s, one)

	r, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := 0
	err = r.Windows(bg, time.Time{}, time.Time{}, func(ioguard.Window) error {
		n++
		write(t, s, Batch{Windows: []ioguard.Window{minuteOf(fmt.Sprint(10+n), "l", "", epoch)}}) // does not wait
		return nil
	})
	if err != nil || n != 2 { // and the reader sees one state
		t.Errorf("%d windows: %v", n, err)
	}
	if got := len(mustTop(t, r, TopQuery{})); got != 4 {
		t.Errorf("%d jobs", got)
	}

	db, err := sql.Open("sqlite3", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(bg, one); !errors.As(err, new(*LockedError)) || !strings.Contains(err.Error(), "another process") || hint(err) == "" {
		t.Errorf("locked: %v", err)
	}
	mustTop(t, r, TopQuery{})
	if _, err := db.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	write(t, s, one)
}

func TestConcurrentUse(t *testing.T) {
	s := open(t, Options{})
	var g errgroup.Group
	const writers, batches = 3, 10
	for i := range writers {
		g.Go(func() error {
			for n := range batches {
				if err := s.Write(bg, Batch{Agent: fmt.Sprint(i), Seq: int64(n), Windows: []ioguard.Window{minuteOf("1", "l", "", epoch), minuteOf(fmt.Sprint(i, n), "l", "", epoch)}}); err != nil {
					return err
				}
			}
			return nil
		})
		g.Go(func() error {
			for range batches {
				if _, err := s.Top(bg, TopQuery{GroupBy: "app"}); err != nil {
					return err
				}
				if _, err := s.Maintain(bg, epoch.Add(time.Hour)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := mustJob(t, s, "1").Totals.Seconds; got != writers*batches {
		t.Errorf("%g of %d batches", got, writers*batches)
	}
}

func TestCancelled(t *testing.T) {
	s := open(t, Options{})
	write(t, s, Batch{Windows: []ioguard.Window{minuteOf("1", "l", "", epoch)}})
	ctx, cancel := context.WithCancel(bg)
	cancel()
	if err := s.Write(ctx, Batch{Windows: []ioguard.Window{minuteOf("1", "l", "", epoch)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("write: %v", err)
	}
	if _, err := s.Top(ctx, TopQuery{}); !errors.Is(err, context.Canceled) {
		t.Errorf("top: %v", err)
	}
	stop := errors.New("stop")
	if err := s.Windows(bg, time.Time{}, time.Time{}, func(ioguard.Window) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("windows: %v", err)
	}
	if got := mustJob(t, s, "1").Totals.Seconds; got != 1 {
		t.Errorf("a cancelled batch was kept: %g", got)
	}
}

// Retention bounds the file: three times the span does not make it three times
// as large, and jobs that are forgotten are gone.
func TestRetentionBoundsTheFile(t *testing.T) {
	s := open(t, Options{Keep: Retention{Minutes: time.Hour, Hours: 2 * dayLength, Days: 4 * dayLength, Findings: 2 * dayLength}})
	c := site{start: epoch, days: 12, jobsPerDay: 150, meanMinutes: 4, system: 1}
	size := map[int]int64{}
	err := c.each(func(hour int, w []ioguard.Window, o []ioguard.Owner) error {
		now := c.start.Add(time.Duration(hour+1) * time.Hour)
		if err := s.Write(bg, Batch{Agent: "a", Seq: int64(hour), Windows: w, Owners: o}); err != nil {
			return err
		}
		if hour%4 == 0 {
			maintain(t, s, now)
		}
		if err := s.readers.QueryRow("SELECT (page_count - freelist_count) * 4096 FROM pragma_page_count, pragma_freelist_count").Scan(new(int64)); err != nil {
			return err
		}
		var pages int64
		err := s.readers.QueryRow("SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count").Scan(&pages)
		size[hour] = pages
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if six, twelve := size[6*24-1], size[12*24-1]; float64(twelve) > 1.15*float64(six) {
		t.Errorf("pages in use grow: %d after 6 days, %d after 12", six, twelve)
	}
	var jobs, oldest int
	if err := s.readers.QueryRow("SELECT count(*), min(last_seen) FROM job").Scan(&jobs, &oldest); err != nil || jobs > 6*160 {
		t.Errorf("%d jobs are kept: %v", jobs, err)
	}
	if _, err := s.Job(bg, "4000001"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the first job: %v", err)
	}
	var ok string
	if err := s.readers.QueryRow("PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Error(ok, err)
	}
}

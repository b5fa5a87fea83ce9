package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ioguard"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// fakeSqueue answers as squeue 22.05 does and checks how it is asked.
type fakeSqueue struct {
	t     *testing.T
	rows  map[string]string // job id -> row without its mark
	err   error
	calls []string // the selecting argument of each call
}

func (f *fakeSqueue) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	f.t.Helper()
	if _, ok := ctx.Deadline(); !ok {
		f.t.Error("squeue has no deadline")
	}
	if name != "squeue" || len(args) < 4 || args[0] != "--noheader" || args[1] != "--all" {
		f.t.Errorf("asked %s %q", name, args)
	}
	f.calls = append(f.calls, args[2])
	if f.err != nil {
		return nil, f.err
	}
	form, ok := strings.CutPrefix(args[len(args)-1], "--format=")
	mark, _, _ := strings.Cut(form, "|")
	if !ok || form != format(mark) || len(mark) < 16 {
		f.t.Errorf("asked for format %q", form)
	}
	ids := slices.Sorted(maps.Keys(f.rows))
	if list, ok := strings.CutPrefix(args[2], "--jobs="); ok {
		if args[3] != "--states=all" {
			f.t.Errorf("asked %q: jobs that ended would be left out", args)
		}
		ids = strings.Split(list, ",")
		if len(ids) == 1 && f.rows[ids[0]] == "" {
			return nil, fmt.Errorf("squeue: exit status 1: slurm_load_jobs error: Invalid job id specified")
		}
	}
	var out strings.Builder
	for _, id := range ids {
		if row := f.rows[id]; row != "" {
			out.WriteString(mark + "|" + row + "\n")
		}
	}
	return []byte(out.String()), nil
}

func row(id, user, state, nodes string) string {
	return fmt.Sprintf("%s|%s|N/A|%s|physics|debug|%s|2026-11-21T08:40:18|%s|name", id, id, user, state, nodes)
}

func newFake(t *testing.T) (*Directory, *fakeSqueue) {
	f := &fakeSqueue{t: t, rows: map[string]string{
		"1": row("1", "alice", "RUNNING", "node[1-2]"), "2": row("2", "bob", "RUNNING", "node2"),
		"3": row("3", "carol", "COMPLETED", "node1"),
	}}
	d := New(f.run)
	d.Location = time.UTC
	return d, f
}

func users(owners map[string]ioguard.Owner) string {
	var s []string
	for _, id := range slices.Sorted(maps.Keys(owners)) {
		if owners[id].JobID != id {
			s = append(s, "WRONG")
		}
		s = append(s, id+"="+owners[id].User)
	}
	return strings.Join(s, " ")
}

func TestOwnersAsksSeldom(t *testing.T) {
	d, f := newFake(t)
	ctx := t.Context()
	steps := []struct {
		at   int
		ids  string
		want string
		call string // "" for none
	}{
		{0, "1 cp.1000 2 1 99 --all 1,2 4711.0", "1=alice 2=bob", "--jobs=1,2,99"},
		{5, "1 2 99 3", "1=alice 2=bob", ""}, // too early for 3
		{10, "1 2 99 3", "1=alice 2=bob 3=carol", "--jobs=3"},
		{50, "1 2 3", "1=alice 2=bob 3=carol", ""},
		{60, "1 2 3 99", "1=alice 2=bob 3=carol", "--jobs=1,2,99"}, // 3 has ended: no news of it
		{80, "88", "", "--jobs=88"},                                // one unknown id is an error of squeue's
		{100, "88 1", "1=alice", ""},
		{140, "77 88 1", "1=alice", "--jobs=77,88,1"}, // unknown ones first
	}
	for _, s := range steps {
		before := len(f.calls)
		if got := users(d.Owners(ctx, at(s.at), strings.Fields(s.ids))); got != s.want {
			t.Errorf("at %d: %s: got %s, want %s", s.at, s.ids, got, s.want)
		}
		if got := strings.Join(f.calls[before:], " "); got != s.call {
			t.Errorf("at %d: %s: asked %q, want %q", s.at, s.ids, got, s.call)
		}
	}
	if p := d.Problem(); p != "" {
		t.Errorf("problem %q", p)
	}
}

func TestOwnersOfJobsThatSlurmForgot(t *testing.T) {
	d, f := newFake(t)
	d.Owners(t.Context(), at(0), []string{"1"})
	delete(f.rows, "1")
	for _, s := range []int{100, 200, 3600} {
		if got := users(d.Owners(t.Context(), at(s), []string{"1"})); got != "1=alice" {
			t.Errorf("at %d: %s", s, got)
		}
	}
	if len(f.calls) != 2 {
		t.Errorf("asked %q, want once more and then no more", f.calls)
	}
}

func TestOwnersOfArrays(t *testing.T) {
	d, f := newFake(t)
	f.rows = map[string]string{
		"8_1": "8|8|1,5|bob|(null)|debug|PENDING|N/A||held", // two tasks that wait share a row
		"2_1": "6|2|1|alice|(null)|debug|RUNNING|2026-11-21T08:40:18|node1|arr",
		"2":   "2|2|3|alice|(null)|debug|RUNNING|2026-11-21T08:40:18|node3|arr",
	}
	o := d.Owners(t.Context(), at(0), []string{"8_1", "8_5", "2_1", "2", "6", "2_9", "9_1"})
	// 6 was not asked for alone and squeue told of it; the fake does not answer for it.
	if got := users(o); got != "2=alice 2_1=alice 2_9=alice 6=alice 8_1=bob 8_5=bob" {
		t.Errorf("got %s", got)
	}
	if o["2_1"].Nodes != "node1" || o["2"].Nodes != "node3" || o["2_9"].Nodes != "" || o["2_9"].State != "" {
		t.Errorf("%+v: a task's nodes and state are another's", o)
	}
}

func TestBackOff(t *testing.T) {
	d, f := newFake(t)
	f.err = errors.New("squeue: exit status 1: slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
	var called []int
	for s := range 2000 {
		before := len(f.calls)
		if got := d.Owners(t.Context(), at(s), []string{"1"}); len(got) != 0 {
			t.Fatalf("got %v", got)
		}
		if len(f.calls) > before {
			called = append(called, s)
		}
		if p := d.Problem(); (p != "") != (s == 0) {
			t.Errorf("at %d: problem %q", s, p)
		}
	}
	if want := []int{0, 20, 60, 140, 300, 600, 900, 1200, 1500, 1800}; !slices.Equal(called, want) {
		t.Errorf("called at %v, want %v", called, want)
	}
	f.err = nil
	if got := users(d.Owners(t.Context(), at(2100), []string{"1", "3"})); got != "1=alice 3=carol" {
		t.Errorf("after the controller came back: %s", got)
	}
	if got := users(d.Owners(t.Context(), at(2110), []string{"2"})); got != "2=bob" {
		t.Errorf("the pace did not come back: %s", got)
	}
	f.err = errors.New("squeue: exit status 1: slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
	if got := users(d.Owners(t.Context(), at(2200), []string{"1", "3"})); got != "1=alice 3=carol" {
		t.Errorf("owners that were known are lost while the controller is away: %s", got)
	}
	if d.Problem() == "" {
		t.Error("a problem that returns is not told")
	}
}

func TestWithoutSlurm(t *testing.T) {
	d, f := newFake(t)
	f.err = &exec.Error{Name: "squeue", Err: exec.ErrNotFound}
	for s := range 1300 {
		d.Owners(t.Context(), at(s), []string{"1"})
		if p := d.Problem(); (p != "") != (s == 0) {
			t.Errorf("at %d: problem %q", s, p)
		}
	}
	if len(f.calls) != 3 {
		t.Errorf("looked %d times for squeue, want 3", len(f.calls))
	}
	if got := New(nil).Owners(t.Context(), at(0), []string{"1"}); len(got) != 0 {
		t.Errorf("got %v of nobody", got)
	}
}

func TestCancelIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	d := New(func(ctx context.Context, _ string, _ ...string) ([]byte, error) {
		cancel()
		return nil, ctx.Err()
	})
	d.Owners(ctx, at(0), []string{"1"})
	if p := d.Problem(); p != "" || d.wait != callEvery {
		t.Errorf("problem %q, wait %v", p, d.wait)
	}
}

func TestClockSetBack(t *testing.T) {
	d, f := newFake(t)
	d.Owners(t.Context(), at(100_000), []string{"1"})
	if got := users(d.Owners(t.Context(), at(0), []string{"1", "2"})); got != "1=alice 2=bob" || len(f.calls) != 2 {
		t.Errorf("got %s with %q", got, f.calls)
	}
}

func TestRowsNotUnderstood(t *testing.T) {
	d, f := newFake(t)
	f.rows["2"] = "2|nonsense"
	if got := users(d.Owners(t.Context(), at(0), []string{"1", "2"})); got != "1=alice" {
		t.Errorf("got %s", got)
	}
	if p := d.Problem(); !strings.Contains(p, "not understood") {
		t.Errorf("problem %q", p)
	}
}

func TestJobsOnNode(t *testing.T) {
	d, f := newFake(t)
	f.rows["4"] = row("4", "dave", "RUNNING", "node[2-1]") // nonsense harms nobody else
	on := func(s int, node string) string {
		t.Helper()
		var got []string
		for _, o := range d.JobsOnNode(t.Context(), at(s), node) {
			got = append(got, o.JobID+"="+o.User)
		}
		return strings.Join(got, " ")
	}
	if got := on(0, "node2"); got != "1=alice 2=bob" {
		t.Errorf("node2: %s", got)
	}
	if got := on(1, "node1"); got != "1=alice" { // carol's job 3 has ended
		t.Errorf("node1: %s", got)
	}
	if got := on(2, "--all"); got != "" {
		t.Errorf("--all: %s", got)
	}
	if len(f.calls) != 1 || !strings.HasPrefix(f.calls[0], "--states=RUNNING,") {
		t.Fatalf("asked %q", f.calls)
	}
	// The list tells owners too, and those who wait for it get their turn
	// although new ids come all the time.
	if got := users(d.Owners(t.Context(), at(15), []string{"1", "2"})); got != "1=alice 2=bob" || len(f.calls) != 1 {
		t.Errorf("got %s with %q", got, f.calls)
	}
	f.rows["5"] = row("5", "erin", "RUNNING", "node9")
	for s := 16; s < 100; s++ {
		d.Owners(t.Context(), at(s), []string{fmt.Sprint(1000 + s)})
		if got := on(s, "node9"); (got == "5=erin") != (s >= 66) {
			t.Errorf("at %d: node9: %q", s, got)
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	d, f := newFake(t)
	var longest int
	for i := range 50 {
		ids := make([]string, maxAsked+10)
		for k := range ids {
			ids[k] = fmt.Sprint(1 + i*len(ids) + k)
		}
		d.Owners(t.Context(), at(i*10), ids)
		longest = max(longest, len(d.known))
	}
	if longest > maxKnown || longest < maxKnown/2 {
		t.Errorf("%d jobs remembered, at most %d wanted", longest, maxKnown)
	}
	for _, c := range f.calls {
		if len(c) > 100_000 {
			t.Errorf("an argument of %d bytes", len(c))
		}
	}
}

// TestSideBySide: while one caller waits for squeue others get what is known.
func TestSideBySide(t *testing.T) {
	d, f := newFake(t)
	d.Owners(t.Context(), at(0), []string{"1"})
	asked, answer := make(chan struct{}), make(chan struct{})
	d.run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
		close(asked)
		<-answer
		return f.run(ctx, name, args...)
	}
	var wait sync.WaitGroup
	wait.Go(func() {
		if got := users(d.Owners(t.Context(), at(20), []string{"1", "2"})); got != "1=alice 2=bob" {
			t.Errorf("got %s", got)
		}
	})
	<-asked
	if got := users(d.Owners(t.Context(), at(40), []string{"1", "2"})); got != "1=alice" {
		t.Errorf("meanwhile: got %s", got)
	}
	close(answer)
	wait.Wait()
}

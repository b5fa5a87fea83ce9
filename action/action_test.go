package action

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"
)

// fakeSlurm is a folder with a scontrol that does as the script says, having noted
// its arguments, and a squeue that knows job 4 as such and 7 as the last task of an array.
type fakeSlurm struct {
	dir string
}

func newFake(t *testing.T, script string) fakeSlurm {
	t.Helper()
	f := fakeSlurm{t.TempDir()}
	for name, text := range map[string]string{
		// One write per call, since calls run side by side.
		"scontrol": `call=$(printf '%s|' "$@" | tr '\n' '?'); echo "$call" >>` + f.dir + "/calls\n" + script,
		"squeue": `for a; do case $a in --format=*) mark=${a#--format=}; mark=${mark%%|*};; --jobs=*) job=${a#--jobs=};; esac; done
case $job in 7) echo "$mark|6|7|1"; echo "$mark|7|7|2";; 99) echo slurm_load_jobs error: Invalid job id specified >&2; exit 1;; *) echo "$mark|$job|$job|N/A";; esac`,
	} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f fakeSlurm) actor() Slurm { return Slurm{Scontrol: f.dir + "/scontrol"} }

func (f fakeSlurm) calls(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(f.dir + "/calls")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(text), func(r rune) bool { return r == '\n' })
}

// TestActors holds every Actor to the contract.
func TestActors(t *testing.T) {
	now := func() time.Time { return time.Unix(0, 0) }
	ignore := func(Change, time.Time, error) {}
	for name, wrap := range map[string]func(Actor) Actor{
		"Slurm":          func(a Actor) Actor { return a },
		"Audit":          func(a Actor) Actor { return Audit{a, now, ignore} },
		"Limit":          func(a Actor) Actor { return NewLimit(a, 1000, time.Hour, now) },
		"Limit of Audit": func(a Actor) Actor { return NewLimit(Audit{a, now, ignore}, 1000, time.Hour, now) },
	} {
		t.Run(name, func(t *testing.T) {
			conform(t, func(script string) (Actor, func() int) {
				f := newFake(t, script)
				return wrap(f.actor()), func() int { return len(f.calls(t)) }
			})
			passesErrors(t, wrap)
		})
	}
	t.Run("DryRun", func(t *testing.T) {
		conform(t, func(string) (Actor, func() int) {
			var told atomic.Int64
			return DryRun{func(Change) { told.Add(1) }}, func() int { return int(told.Load()) }
		})
		if err := (DryRun{}).Do(t.Context(), Change{Kind: Resume, Node: "node1"}); err != nil {
			t.Error(err)
		}
	})
}

var valid = []Change{
	{Kind: Drain, Node: "node1", Reason: "ioguard: ib port down"},
	{Kind: Resume, Node: "rack-1_n2.example"},
	{Kind: Undrain, Node: "rack-1_n2.example"},
	{Kind: Requeue, JobID: "4"},
	{Kind: RequeueHold, JobID: "4711_3"},
	{Kind: Release, JobID: "4"},
}

var invalid = []Change{
	{}, {Kind: "reboot", Node: "node1"}, {Kind: Drain, Node: "node1"}, {Kind: Drain, Node: "node1", Reason: " \n\xff"}, {Kind: Drain, Reason: "x"},
	{Kind: Drain, Node: "node[1-9]", Reason: "x"}, {Kind: Resume, Node: "ALL State=DOWN"}, {Kind: Resume, Node: "n1,n2"}, {Kind: Resume, Node: "-n"},
	{Kind: Requeue}, {Kind: Requeue, JobID: "4,5"}, {Kind: Requeue, JobID: "4.0"}, {Kind: RequeueHold, JobID: "-1"}, {Kind: Release, JobID: "0"}, {Kind: Release, JobID: "4;id"},
	{Kind: Requeue, Node: "node1"}, {Kind: Drain, JobID: "4", Reason: "x"},
}

// conform checks what Actor promises. start makes an Actor whose scontrol, where it
// has one, goes on with a script, and a func that counts what it has done.
func conform(t *testing.T, start func(script string) (Actor, func() int)) {
	t.Helper()
	a, done := start("exit 0")
	for i, c := range valid {
		if err := a.Do(t.Context(), c); err != nil || done() != i+1 {
			t.Errorf("%s: %v, %d done", c, err, done())
		}
	}
	a, done = start("exit 0")
	for _, c := range invalid {
		var bad *InvalidError
		if err := a.Do(t.Context(), c); !errors.As(err, &bad) || bad.Change != c {
			t.Errorf("%+v: %v", c, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Do(ended, valid[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("context ended: %v", err)
	}
	if n := done(); n != 0 {
		t.Errorf("%d changes done that should not have been", n)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := a.Do(t.Context(), valid[0]); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := done(); n != 4 {
		t.Errorf("%d of 4 done side by side", n)
	}
	a, _ = start("sleep 60 & sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_ = a.Do(ctx, valid[0])
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("returned %v after its context", took)
	}
}

// passesErrors: what went wrong below can be told above.
func passesErrors(t *testing.T, wrap func(Actor) Actor) {
	t.Helper()
	err := wrap(newFake(t, "echo slurm_update error: Invalid user id >&2; exit 1").actor()).Do(t.Context(), valid[0])
	var e *SlurmError
	if !errors.As(err, &e) || e.Status != 1 || e.Said != "slurm_update error: Invalid user id" || e.Change != valid[0] {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = wrap(newFake(t, "echo trying; sleep 60").actor()).Do(ctx, valid[0])
	if !errors.As(err, &e) || !e.TimedOut || e.Status != -1 || !errors.Is(err, context.DeadlineExceeded) || e.Said != "trying" {
		t.Errorf("%v", err)
	}
}

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		" ib port down\n":           "ib port down",
		"a\nb\tc\x00d\u0085e\u2028": "a b c d e",
		"\x1b[31mred":               "[31mred",
		"ä\xff\xfeö\ufffd":          "äö",
		`say "hello"`:               `say 'hello'`,
		"State=DOWN Reason=x":       "State=DOWN Reason=x",
	} {
		if got := plain(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	long := plain("x" + strings.Repeat("ä", MaxReason))
	if len(long) != MaxReason-1 || !utf8.ValidString(long) {
		t.Errorf("%d bytes", len(long))
	}
}

func FuzzPlain(f *testing.F) {
	f.Add("ioguard: ib port down\nState=DOWN\x00\xff\"")
	f.Add(strings.Repeat("\u2028ä", MaxReason))
	f.Fuzz(func(t *testing.T, s string) {
		p := plain(s)
		if len(p) > MaxReason || !utf8.ValidString(p) || strings.ContainsAny(p, "\x00\n\r\t\x1b\"") || plain(p) != p {
			t.Fatalf("%q", p)
		}
	})
}

func TestAudit(t *testing.T) {
	var told []string
	clock := time.Unix(100, 0)
	a := Audit{DryRun{}, func() time.Time { return clock }, func(c Change, began time.Time, err error) {
		told = append(told, fmt.Sprint(c, began.Unix(), err))
	}}
	_ = a.Do(t.Context(), Change{Kind: Resume, Node: "node1"})
	clock = clock.Add(time.Second)
	_ = a.Do(t.Context(), Change{Kind: Release, JobID: "x"})
	if got := strings.Join(told, "\n"); got != "resume node1 100 <nil>\nrelease x 101 release x: \"x\" is no job id" {
		t.Error(got)
	}
}

func TestLimit(t *testing.T) {
	clock := time.Unix(1000, 0)
	failing := errors.New("no controller")
	var fails error
	made := 0
	l := NewLimit(actorFunc(func(context.Context, Change) error { made++; return fails }), 2, time.Minute, func() time.Time { return clock })
	for _, step := range []struct {
		at   int64
		fail error
		want string
	}{
		{1000, nil, ""},
		{1010, failing, "no controller"}, // counts: it may have been made
		{1020, nil, "drain node1: not tried: 2 changes within 1m0s are the limit"},
		{1060, nil, ""},                 // the first is a minute ago
		{1069, nil, "drain node1: not"}, // 1010 and 1060
		{500, nil, "drain node1: not"},  // the clock was set back: both count from now
		{560, nil, ""},
	} {
		clock, fails = time.Unix(step.at, 0), step.fail
		err := l.Do(t.Context(), valid[0])
		if (err == nil) != (step.want == "") || err != nil && !strings.HasPrefix(strings.ReplaceAll(err.Error(), "drain node1: "+step.want, step.want), step.want) {
			t.Errorf("at %d: %v, want %q", step.at, err, step.want)
		}
		var limit *LimitError
		if strings.Contains(step.want, "not") != errors.As(err, &limit) {
			t.Errorf("at %d: %v", step.at, err)
		}
	}
	if made != 4 {
		t.Errorf("%d changes let through", made)
	}
}

type actorFunc func(context.Context, Change) error

func (f actorFunc) Do(ctx context.Context, c Change) error { return f(ctx, c) }

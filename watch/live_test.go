package watch

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"ioguard"
	"ioguard/engine"
	"ioguard/host"
	"ioguard/policy"
	"ioguard/store"
)

// playback is a living server made of a recording: each sample, which begins by
// listing the OSTs, sees the next snapshot.
type playback struct {
	mu       sync.Mutex
	machines []*host.Host
	i        int
}

func (p *playback) Open(name string) (fs.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name == "proc/fs/lustre/obdfilter" && p.i < len(p.machines)-1 {
		p.i++
	}
	return p.machines[p.i].FS.Open(name)
}

// clerk answers for Slurm.
type clerk struct{ asked chan []string }

func (c clerk) Owners(_ context.Context, _ time.Time, ids []string) map[string]ioguard.Owner {
	select {
	case c.asked <- ids:
	default:
	}
	return map[string]ioguard.Owner{"1301": {JobID: "1301", User: "alice", Account: "physics"}}
}

func (clerk) JobsOnNode(context.Context, time.Time, string) []ioguard.Owner { return nil }

func TestAgent(t *testing.T) {
	r := openRecording(t, filepath.Join(recordings, "3_read_storm.tar.zst"))
	p := &playback{}
	for _, s := range r.Snapshots("server") {
		p.machines = append(p.machines, r.Machine(s))
	}
	e := engine.New(engine.Config{Policy: policy.Default(), Interval: 2 * time.Second})
	db := filepath.Join(t.TempDir(), "r.db")
	s, err := store.Open(db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	k, err := NewKeeper(ctx, s, e, "watch oss1", false)
	if err != nil {
		t.Fatal(err)
	}
	asked := clerk{make(chan []string, 1)}
	var opened []string
	a := &Agent{Host: &host.Host{Name: "oss1", FS: p, Run: r.Machine(r.Snapshots("server")[0]).Run}, Engine: e, Interval: 20 * time.Millisecond,
		Samples: len(p.machines), Owners: asked, Told: k.SetOwners, Log: hclog.New(&hclog.LoggerOptions{Output: t.Output()}),
		Visit: func(now time.Time, res *engine.Result) error {
			for _, ev := range res.Events {
				if ev.Kind == policy.Opened {
					opened = append(opened, ev.Finding.Rule+" "+ev.Finding.JobID)
				}
			}
			return k.Round(ctx, now, res)
		}}
	if err := a.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := k.Close(ctx, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if len(opened) != 1 || opened[0] != "read-storm 1301" {
		t.Errorf("opened: %q", opened)
	}
	if ids := <-asked.asked; len(ids) == 0 {
		t.Error("Slurm was asked about nobody")
	}
	account, err := s.Job(ctx, "1301")
	if err != nil {
		t.Fatal(err)
	}
	if account.Owner.User != "alice" || len(account.Findings) != 1 || len(account.Findings[0].Windows) == 0 {
		t.Errorf("account: %+v", account)
	}
	if account.Totals.ReadBytes < 2<<30 {
		t.Errorf("read %v bytes, want more than 2 GiB", account.Totals.ReadBytes)
	}
}

func TestAgentEndsWithItsContext(t *testing.T) {
	r := openRecording(t, filepath.Join(recordings, "00_idle.tar.zst"))
	m := r.Machine(r.Snapshots("server")[0])
	ctx, cancel := context.WithCancel(context.Background())
	a := &Agent{Host: m, Engine: engine.New(engine.Config{Policy: &policy.Policy{}}), Interval: time.Hour, Log: hclog.NewNullLogger()}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("still running 10 s after the context ended")
	}
}

func TestAgentOnAClient(t *testing.T) {
	r := openRecording(t, filepath.Join(recordings, "00_idle.tar.zst"))
	a := &Agent{Host: r.Machine(r.Snapshots("client")[0]), Engine: engine.New(engine.Config{Policy: &policy.Policy{}}), Interval: time.Hour, Log: hclog.NewNullLogger()}
	err := a.Run(context.Background())
	var hint *ioguard.HintError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &hint) || !strings.Contains(hint.Hint, "OSS or MDS") {
		t.Errorf("error %v", err)
	}
}

// TestKeeperHolds: while the records are full nothing is lost, and all of it is
// written when there is room again.
func TestKeeperHolds(t *testing.T) {
	ctx := context.Background()
	e := engine.New(engine.Config{Policy: &policy.Policy{}})
	path := filepath.Join(t.TempDir(), "r.db")
	full, err := store.Open(path, store.Options{MaxBytes: 200 << 10})
	if err != nil {
		t.Fatal(err)
	}
	k, err := NewKeeper(ctx, full, e, "a", false)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1795243600, 0).Truncate(time.Minute)
	failed := 0
	const minutes, jobs = 60, 50
	for m := range minutes {
		res := engine.Result{}
		for j := range jobs {
			res.Windows = append(res.Windows, ioguard.Window{Start: at.Add(time.Duration(m) * time.Minute), Seconds: 60, FS: "fs", JobID: "job" + string(rune('A'+j)), ReadBytes: 1})
		}
		if err := k.Round(ctx, at.Add(time.Duration(m)*time.Minute), &res); err != nil {
			failed++
		}
	}
	if failed == 0 {
		t.Fatal("200 KiB never were full")
	}
	if err := full.Close(); err != nil {
		t.Fatal(err)
	}
	roomy, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer roomy.Close()
	k.Store = roomy
	if err := k.Round(ctx, at, &engine.Result{Windows: []ioguard.Window{{Start: at, Seconds: 60, FS: "fs", JobID: "last", ReadBytes: 1}}}); err != nil {
		t.Fatal(err)
	}
	rows, err := roomy.Top(ctx, store.TopQuery{By: "read", Limit: -1})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, r := range rows {
		sum += r.Totals.ReadBytes
	}
	if sum != minutes*jobs+1 {
		t.Errorf("%v bytes in the records, want %d", sum, minutes*jobs+1)
	}
}

func TestParseHosts(t *testing.T) {
	got := parseHosts("# nodes\n10.0.0.1 n01.cluster.example n01 # rack 1\n10.0.0.2\tn02\nbad\n10.0.0.1 other\n")
	if len(got) != 2 || got["10.0.0.1"] != "n01" || got["10.0.0.2"] != "n02" {
		t.Errorf("%v", got)
	}
}

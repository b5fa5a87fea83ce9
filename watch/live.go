package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/hashicorp/go-hclog"

	"ioguard"
	"ioguard/collect"
	"ioguard/engine"
	"ioguard/host"
	"ioguard/lfs"
	"ioguard/policy"
)

// Owners answers who owns jobs and which run on a node; package slurm does. It
// may take seconds and answers for those it knows.
type Owners interface {
	Owners(ctx context.Context, now time.Time, ids []string) map[string]ioguard.Owner
	JobsOnNode(ctx context.Context, now time.Time, node string) []ioguard.Owner
}

// Agent watches one server.
type Agent struct {
	Host     *host.Host
	Engine   *engine.Engine
	Interval time.Duration
	Samples  int                            // stop after that many; 0 goes on until the context ends
	Owners   Owners                         // nil where there is no Slurm
	Nodes    func(nid string) string        // the node of a client, "" where unknown; nil knows none
	Told     func(map[string]ioguard.Owner) // sees what Slurm told, on the loop's own goroutine
	Log      hclog.Logger
	// Visit sees every round that was judged. Its error ends the watch.
	Visit func(now time.Time, r *engine.Result) error
}

// Run samples until the context ends or Samples are taken; neither is an error.
// A server without any target is one at the first sample: later they may have
// failed over, and come back.
func (a *Agent) Run(ctx context.Context) error {
	c := &collect.Collector{Interval: a.Interval, Timeout: max(a.Interval, minTimeout)}
	ask := newAsker(a.Owners, a.Nodes)
	defer ask.stop()
	problems := newRepeats(10 * time.Minute)
	tick := time.NewTicker(a.Interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		now := time.Now()
		iv, err := c.Sample(ctx, a.Host, now)
		switch {
		case ctx.Err() != nil: // ended in the middle of a sample, which says nothing
			return nil
		case err == nil:
			for _, text := range iv.Problems {
				if problems.due(text, now) {
					a.Log.Warn("not everything could be read", "problem", text)
				}
			}
			if err := a.judge(iv, now, ask); err != nil {
				return err
			}
		case n == 1 || !errors.Is(err, fs.ErrNotExist):
			if n == 1 {
				return noTargets(a.Host.Name, err)
			}
			if problems.due(err.Error(), now) {
				a.Log.Error("sample", "error", err)
			}
		default:
			if problems.due("no targets", now) {
				a.Log.Warn("no target on this server: all stopped or failed over", "error", err)
			}
		}
		if a.Samples > 0 && n >= a.Samples {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// minTimeout is how long a server may take at least to print its job_stats.
const minTimeout = 2 * time.Second

// CheckServer says why a machine cannot be watched: it has no Lustre target, or
// hides them. Ask before anything is made on its account.
func CheckServer(h *host.Host) error {
	if _, err := lfs.Targets(h.FS); err != nil {
		return noTargets(h.Name, err)
	}
	return nil
}

func noTargets(name string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return ioguard.WithHint(err, "run it as root, on an OSS or MDS")
	}
	return ioguard.WithHint(fmt.Errorf("%s is no Lustre server: %w", name, err),
		"run it on an OSS or MDS; --replay RECORDING judges a recording, --machine PATH another root")
}

func (a *Agent) judge(iv *ioguard.Interval, now time.Time, ask *asker) error {
	if known, ok := ask.answer(); ok {
		a.Engine.SetOwners(known.owners)
		a.Engine.SetClientJobs(known.clients)
		if a.Told != nil {
			a.Told(known.owners)
		}
	}
	a.Engine.Feed(iv, now)
	if iv.Kind == ioguard.DeltaFirst {
		return nil
	}
	r := a.Engine.Step(now)
	for _, err := range r.Problems {
		a.Log.Error("evaluate rule", "error", err)
	}
	ask.about(now, &r)
	if a.Visit != nil {
		return a.Visit(now, &r)
	}
	return nil
}

// asker asks who owns jobs without holding up the samples: the answer to one
// round's question is there for a later one.
type asker struct {
	owners  Owners
	nodes   func(nid string) string
	busy    bool
	answers chan known
	cancel  context.CancelFunc
	ctx     context.Context
}

// known is an answer: owners by job, and the jobs on clients' nodes by NID.
type known struct {
	owners  map[string]ioguard.Owner
	clients map[string][]string
}

func newAsker(o Owners, nodes func(string) string) *asker {
	ctx, cancel := context.WithCancel(context.Background())
	return &asker{owners: o, nodes: nodes, answers: make(chan known, 1), ctx: ctx, cancel: cancel}
}

func (a *asker) stop() { a.cancel() }

// answer gives what came in since the last call.
func (a *asker) answer() (known, bool) {
	select {
	case k := <-a.answers:
		a.busy = false
		return k, true
	default:
		return known{}, false
	}
}

// about asks about the jobs that were judged, for those are worth naming, and
// about the clients that did work which no job accounts for.
func (a *asker) about(now time.Time, r *engine.Result) {
	if a.owners == nil || a.busy {
		return
	}
	var ids []string
	for i := range r.Subjects {
		if s := &r.Subjects[i]; s.Kind == policy.JobSubject {
			ids = append(ids, s.JobID)
		}
	}
	clients := map[string]string{}
	for _, u := range r.Unaccounted {
		if a.nodes != nil && u.NID != "" {
			if node := a.nodes(u.NID); node != "" {
				clients[u.NID] = node
			}
		}
	}
	if len(ids) == 0 && len(clients) == 0 {
		return
	}
	a.busy = true
	go func() {
		k := known{owners: a.owners.Owners(a.ctx, now, ids), clients: map[string][]string{}}
		for nid, node := range clients {
			for _, o := range a.owners.JobsOnNode(a.ctx, now, node) {
				k.clients[nid] = append(k.clients[nid], o.JobID)
			}
		}
		a.answers <- k
	}()
}

// repeats lets a text through once per span.
type repeats struct {
	span time.Duration
	last map[string]time.Time
}

func newRepeats(span time.Duration) *repeats {
	return &repeats{span, make(map[string]time.Time)}
}

func (r *repeats) due(text string, now time.Time) bool {
	if t, ok := r.last[text]; ok && now.Sub(t) < r.span {
		return false
	}
	if len(r.last) > 1000 {
		clear(r.last)
	}
	r.last[text] = now
	return true
}

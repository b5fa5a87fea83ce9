package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"time"

	"ioguard"
	"ioguard/collect"
	"ioguard/engine"
	"ioguard/host"
	"ioguard/policy"
)

// Replay judges a recording as the agent would have judged the servers, as fast
// as it can be read. visit sees every round that was judged.
type Replay struct {
	Recording *host.Recording
	Engine    *engine.Engine
	Interval  time.Duration // nominal; zero is the recording's own
	Visit     func(now time.Time, r *engine.Result) error
}

// Summary is what a replay went through.
type Summary struct {
	Servers   []string
	Snapshots int
	Interval  time.Duration // nominal time between them
	Start     time.Time
	End       time.Time
	Findings  []ioguard.Finding // in the order of their start; End is set on all of them
	Problems  []string          // what could not be read, each once
}

// Run replays. A recording in which no host has a Lustre target gives an error
// that wraps fs.ErrNotExist.
func (p *Replay) Run(ctx context.Context) (*Summary, error) {
	snapshots := serverSnapshots(p.Recording)
	interval := p.Interval
	if interval == 0 {
		interval = spacing(snapshots)
	}
	sum := &Summary{Interval: interval}
	problems := newOnce(&sum.Problems)
	findings := map[string]*ioguard.Finding{}
	collectors := map[string]*collect.Collector{}
	skipped := map[string]error{}

	judge := func(now time.Time) error {
		r := p.Engine.Step(now)
		for _, err := range r.Problems {
			problems.add(err.Error())
		}
		track(findings, r.Events)
		if p.Visit != nil {
			return p.Visit(now, &r)
		}
		return nil
	}
	last := time.Time{}
	for _, s := range snapshots {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c := collectors[s.Host]
		if c == nil {
			c = &collect.Collector{Interval: interval}
			collectors[s.Host] = c
		}
		m := p.Recording.Machine(s)
		iv, err := c.Sample(ctx, m, s.Time)
		if err != nil {
			skipped[s.Host] = err
			if !errors.Is(err, fs.ErrNotExist) || sum.has(s.Host) {
				problems.add(err.Error())
			}
			continue
		}
		if !sum.has(s.Host) {
			sum.Servers = append(sum.Servers, s.Host)
		}
		for _, text := range iv.Problems {
			problems.add(s.Host + ": " + text)
		}
		if p.Engine.Reported(iv.Server) {
			if err := judge(last); err != nil {
				return nil, err
			}
		}
		sum.Snapshots++
		if sum.Start.IsZero() {
			sum.Start = s.Time
		}
		last, sum.End = s.Time, s.Time
		if p.Engine.Feed(iv, s.Time) {
			if err := judge(s.Time); err != nil {
				return nil, err
			}
		}
	}
	if len(sum.Servers) == 0 {
		err := errors.New("the recording holds no snapshot")
		for _, e := range skipped {
			err = e
		}
		return nil, ioguard.WithHint(fmt.Errorf("replay: no host of the recording is a Lustre server: %w", err), "a recording holds HOST/UNIX-TIME/proc/fs/lustre/...; ioguard record makes one")
	}
	sum.finish(findings)
	return sum, nil
}

// finish takes in the findings, ending those that still hold.
func (s *Summary) finish(findings map[string]*ioguard.Finding) {
	for _, f := range findings {
		if f.End.IsZero() {
			f.End = s.End
		}
		s.Findings = append(s.Findings, *f)
	}
	sort.Slice(s.Findings, func(a, b int) bool {
		x, y := &s.Findings[a], &s.Findings[b]
		if !x.Start.Equal(y.Start) {
			return x.Start.Before(y.Start)
		}
		return x.Key() < y.Key()
	})
}

func (s *Summary) has(server string) bool {
	for _, n := range s.Servers {
		if n == server {
			return true
		}
	}
	return false
}

// track keeps every finding that ever opened, as it last was.
func track(findings map[string]*ioguard.Finding, events []policy.Event) {
	for _, ev := range events {
		f := ev.Finding
		findings[f.Key()+"|"+f.Start.String()] = &f
	}
}

// serverSnapshots are the snapshots of all hosts in the order of time.
func serverSnapshots(r *host.Recording) []host.Snapshot {
	var all []host.Snapshot
	for _, h := range r.Hosts() {
		all = append(all, r.Snapshots(h)...)
	}
	sort.SliceStable(all, func(a, b int) bool { return all[a].Time.Before(all[b].Time) })
	return all
}

// spacing is the median time between two snapshots of one host, to 100 ms.
func spacing(all []host.Snapshot) time.Duration {
	last := map[string]time.Time{}
	var gaps []time.Duration
	for _, s := range all {
		if t, ok := last[s.Host]; ok {
			gaps = append(gaps, s.Time.Sub(t))
		}
		last[s.Host] = s.Time
	}
	if len(gaps) == 0 {
		return 0
	}
	sort.Slice(gaps, func(a, b int) bool { return gaps[a] < gaps[b] })
	return gaps[len(gaps)/2].Round(100 * time.Millisecond)
}

// once collects texts, each one time, and not without end.
type once struct {
	seen map[string]bool
	out  *[]string
}

const maxProblems = 100

func newOnce(out *[]string) *once { return &once{map[string]bool{}, out} }

func (o *once) add(text string) {
	if o.seen[text] || len(o.seen) >= maxProblems {
		return
	}
	o.seen[text] = true
	*o.out = append(*o.out, text)
}

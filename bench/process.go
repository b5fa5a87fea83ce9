package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"ioguard/view"
)

// bench holds what the parts share. It stays small on purpose: a child starts in
// its parent's memory, so the kernel counts the parent's RSS as the child's peak
// (setmax_mm_hiwater_rss in fs/exec.c). Whoever needs much runs as a child.
type bench struct {
	ctx     context.Context
	dir     string
	self    string
	ioguard string
	rounds  int
	prologs int
	samples int
	targets []target
}

// target is a promise and what was measured.
type target struct {
	what, want, got string
	ok              bool
}

func (b *bench) promise(what, want, got string, ok bool) {
	b.targets = append(b.targets, target{what, want, got, ok})
}

func (b *bench) missed() (n int) {
	for _, t := range b.targets {
		if !t.ok {
			n++
		}
	}
	return n
}

func (b *bench) printTargets() {
	table := view.Table{Header: []view.Column{{Name: "TARGET", Flex: true}, {Name: "WANTED", Right: true}, {Name: "MEASURED", Right: true}, {Name: ""}}}
	for _, t := range b.targets {
		word := "PASS"
		if !t.ok {
			word = "OVER"
		}
		table.Rows = append(table.Rows, []string{t.what, t.want, t.got, word})
	}
	fmt.Println()
	_ = table.Write(os.Stdout, 0)
}

// usage is what one process took.
type usage struct {
	wall, cpu time.Duration
	rss       int64 // bytes, at its peak
	out       string
}

// process runs a program to its end.
func (b *bench) process(name string, args ...string) (usage, error) {
	return b.run(&contender{args: append([]string{name}, args...)})
}

// run runs a contender once.
func (b *bench) run(c *contender) (usage, error) {
	name := c.args[0]
	cmd := exec.CommandContext(b.ctx, name, c.args[1:]...)
	cmd.Env = c.env
	if c.root != "" {
		cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Chroot: c.root}
	}
	var out, errs strings.Builder
	cmd.Stderr = &errs
	// A pipe for cat's 20 MB would cost more than cat: only answers are read.
	if name == b.self || strings.HasSuffix(name, "python3") {
		cmd.Stdout = &out
	}
	start := time.Now()
	err := cmd.Run()
	u := usage{wall: time.Since(start), out: out.String()}
	if err != nil {
		return u, fmt.Errorf("run %s: %w: %s", name, err, strings.TrimSpace(errs.String()))
	}
	u.cpu, u.rss = cost(cmd.ProcessState)
	return u, nil
}

func cost(p *os.ProcessState) (cpu time.Duration, rss int64) {
	r, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, 0
	}
	return p.UserTime() + p.SystemTime(), r.Maxrss << 10 // KiB on Linux
}

// contender is a program that is measured in turn with others.
type contender struct {
	name  string
	args  []string
	env   []string // nil: this program's own
	root  string   // where it finds its /; "" is the machine's
	reset string   // a folder to be removed before each run
	times int      // how often; 0 is every round
	bytes int64
	runs  []usage
}

// race runs all contenders, one after the other, round after round.
func (b *bench) race(all []*contender) error {
	for round := range b.rounds {
		for _, c := range all {
			if c.times > 0 && round >= c.times {
				continue
			}
			if c.reset != "" {
				if err := os.RemoveAll(c.reset); err != nil {
					return err
				}
			}
			u, err := b.run(c)
			if err != nil {
				return err
			}
			c.runs = append(c.runs, u)
		}
	}
	return nil
}

func (c *contender) wall() time.Duration {
	return median(c.runs, func(u usage) time.Duration { return u.wall })
}
func (c *contender) cpu() time.Duration {
	return median(c.runs, func(u usage) time.Duration { return u.cpu })
}

// wallAt is the wall time below which a share of the runs stayed: 1 is the longest.
func (c *contender) wallAt(share float64) time.Duration {
	var walls []time.Duration
	for _, u := range c.runs {
		walls = append(walls, u.wall)
	}
	return quantile(walls, share)
}
func (c *contender) rss() int64 { return median(c.runs, func(u usage) int64 { return u.rss }) }

func median[T any, V time.Duration | int64 | float64](list []T, of func(T) V) V {
	values := make([]V, len(list))
	for i, v := range list {
		values[i] = of(v)
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// quantile is the smallest of the values that is not below a share of them.
func quantile(values []time.Duration, share float64) time.Duration {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[min(max(int(math.Ceil(share*float64(len(values))))-1, 0), len(values)-1)]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1e3) }

func megabytes(n int64) string { return fmt.Sprintf("%.0f", float64(n)/1e6) }

// perSecond is in 10^6 bytes per second.
func perSecond(n int64, d time.Duration) string {
	return fmt.Sprintf("%.4g", float64(n)/1e6/d.Seconds())
}

func times(a, b time.Duration) string { return fmt.Sprintf("%.1f", a.Seconds()/b.Seconds()) }

// python finds a Python that has PyYAML; "" where there is none.
func (b *bench) python() string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if _, err := b.process(path, "-c", "import yaml; yaml.CLoader"); err == nil {
			return path
		}
	}
	return ""
}

// writeFile writes text under a new name and then gives it the name it should
// have, so that nobody reads half of it.
func writeFile(name string, text []byte) error {
	if err := os.WriteFile(name+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func fileSize(name string) int64 {
	st, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return st.Size()
}

func readAll(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

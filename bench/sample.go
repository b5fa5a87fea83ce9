package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"ioguard/collect"
	"ioguard/host"
	"ioguard/lfs/lfstest"
	"ioguard/view"
)

const (
	sampleOSTs = 8
	sampleJobs = 10_000
	interval   = 5 * time.Second
)

// machine is a server's root with eight OSTs.
type machine string

func (m machine) jobStats(ost int) string {
	return filepath.Join(string(m), fmt.Sprintf("proc/fs/lustre/obdfilter/lustre-OST%04x/job_stats", ost))
}

func (m machine) jobStatsFiles() []string {
	var files []string
	for ost := range sampleOSTs {
		files = append(files, m.jobStats(ost))
	}
	return files
}

// write makes the job_stats of all OSTs as they are after some rounds.
func (m machine) write(round int, share float64) error {
	for ost := range sampleOSTs {
		if err := os.MkdirAll(filepath.Dir(m.jobStats(ost)), 0o755); err != nil {
			return err
		}
		text := lfstest.Stats{Jobs: sampleJobs, Seed: uint64(ost), Round: round, Share: share}.Text()
		if err := writeFile(m.jobStats(ost), text); err != nil {
			return err
		}
	}
	return m.writeHost()
}

// writeHost gives the server the /proc of the machine that this runs on.
func (m machine) writeHost() error {
	for _, name := range []string{"proc/stat", "proc/uptime", "proc/diskstats", "proc/loadavg", "proc/mounts"} {
		text, err := readAll("/" + name)
		if err != nil {
			continue // a sample does without
		}
		if err := writeFile(filepath.Join(string(m), name), text); err != nil {
			return err
		}
	}
	return nil
}

// childAdvance writes the machine's files: DIR ROUND SHARE.
func childAdvance(args []string) error {
	round, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	share, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return err
	}
	return machine(args[0]).write(round, share)
}

// taken is what one sample took, as the sampling process tells it.
type taken struct {
	Wall, CPU time.Duration
	Jobs      int // that did something, over all targets
	Targets   int
	Problems  int
}

// childSample is an agent that samples DIR once for each line it is sent.
func childSample(args []string) error {
	h, err := host.OpenMachine(args[0])
	if err != nil {
		return err
	}
	defer h.Close()
	c := collect.Collector{Interval: interval}
	now := time.Unix(1795243700, 0)
	out := json.NewEncoder(os.Stdout)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); now = now.Add(interval) {
		start, before := time.Now(), ownCPU()
		iv, err := c.Sample(context.Background(), h, now)
		t := taken{Wall: time.Since(start), CPU: ownCPU() - before}
		if err != nil {
			return err
		}
		t.Targets, t.Problems = len(iv.Targets), len(iv.Problems)
		for i := range iv.Targets {
			t.Jobs += len(iv.Targets[i].Jobs)
		}
		if err := out.Encode(t); err != nil {
			return err
		}
	}
	return nil
}

func ownCPU() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// agent is a running childSample.
type agent struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func (b *bench) startAgent(m machine) (*agent, error) {
	a := &agent{cmd: exec.CommandContext(b.ctx, b.self, "sample", string(m))}
	a.cmd.Stderr = os.Stderr
	var err error
	if a.in, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.out = json.NewDecoder(out)
	return a, a.cmd.Start()
}

func (a *agent) sample() (t taken, err error) {
	if _, err = io.WriteString(a.in, "\n"); err == nil {
		err = a.out.Decode(&t)
	}
	return t, err
}

// stop ends the agent and gives its peak RSS in bytes.
func (a *agent) stop() (int64, error) {
	if err := a.in.Close(); err != nil {
		return 0, err
	}
	if err := a.cmd.Wait(); err != nil {
		return 0, fmt.Errorf("sample: %w", err)
	}
	_, rss := cost(a.cmd.ProcessState)
	return rss, nil
}

// load is how many of the jobs work between two samples.
type load struct {
	name  string
	share float64

	first    taken
	steady   []taken
	rss      int64
	cat, awk *contender
}

func (b *bench) sample() error {
	loads := []*load{{name: "nothing changed"}, {name: "10 % changed", share: 0.1}, {name: "all changed", share: 1}}
	m := machine(filepath.Join(b.dir, "oss"))
	for _, l := range loads {
		if err := b.measure(m, l); err != nil {
			return err
		}
	}
	b.printLoads(m, loads)
	worst, rss := time.Duration(0), int64(0)
	for _, l := range loads {
		cpu := l.cpu()
		worst, rss = max(worst, cpu), max(rss, l.rss)
		b.promise("sample of 8 OSTs, "+l.name+", CPU", "<= 200 ms", ms(cpu)+" ms", cpu <= 200*time.Millisecond)
	}
	b.promise("the agent's peak RSS", "< 200 MB", megabytes(rss)+" MB", rss < 200e6)
	return nil
}

func (l *load) cpu() time.Duration {
	return median(l.steady, func(t taken) time.Duration { return t.CPU })
}
func (l *load) wall() time.Duration {
	return median(l.steady, func(t taken) time.Duration { return t.Wall })
}

// measure runs one agent through its samples, with cat and awk between them.
func (b *bench) measure(m machine, l *load) (err error) {
	advance := func(round int) error {
		_, err := b.process(b.self, "advance", string(m), strconv.Itoa(round), strconv.FormatFloat(l.share, 'g', -1, 64))
		return err
	}
	if err := advance(0); err != nil {
		return err
	}
	files := m.jobStatsFiles()
	l.cat = &contender{name: "cat", args: append([]string{"cat"}, files...)}
	l.awk = &contender{name: "awk, counts job_id", args: append([]string{"awk", countJobs}, files...)}
	a, err := b.startAgent(m)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = a.cmd.Process.Kill()
			_ = a.cmd.Wait()
		}
	}()
	if l.first, err = a.sample(); err != nil {
		return fmt.Errorf("first sample: %w", err)
	}
	for round := 1; round <= b.samples; round++ {
		if err = advance(round); err != nil {
			return err
		}
		for _, c := range []*contender{l.cat, l.awk} {
			u, err := b.run(c)
			if err != nil {
				return err
			}
			c.runs = append(c.runs, u)
		}
		t, err := a.sample()
		if err != nil {
			return fmt.Errorf("sample: %w", err)
		}
		if want := int(l.share*sampleJobs) * sampleOSTs; t.Jobs != want || t.Targets != sampleOSTs {
			return fmt.Errorf("sample: %d jobs on %d targets, want %d on %d", t.Jobs, t.Targets, want, sampleOSTs)
		}
		l.steady = append(l.steady, t)
	}
	l.rss, err = a.stop()
	return err
}

func (b *bench) printLoads(m machine, loads []*load) {
	var size int64
	for _, f := range m.jobStatsFiles() {
		size += fileSize(f)
	}
	fmt.Printf("the agent's sample of %d OSTs with %d jobs each, %s MB, median of %d\n\n", sampleOSTs, sampleJobs, megabytes(size), b.samples)
	t := view.Table{Header: []view.Column{{Name: "SAMPLE", Flex: true}, {Name: "WALL_MS", Right: true}, {Name: "CPU_MS", Right: true},
		{Name: "CAT_CPU_MS", Right: true}, {Name: "AWK_CPU_MS", Right: true}, {Name: "X_CAT", Right: true}, {Name: "X_AWK", Right: true}, {Name: "RSS_MB", Right: true}}}
	row := func(name string, wall, cpu time.Duration, l *load, rss string) {
		cat, awk := l.cat.cpu(), l.awk.cpu()
		t.Rows = append(t.Rows, []string{name, ms(wall), ms(cpu), ms(cat), ms(awk), times(cpu, cat), times(cpu, awk), rss})
	}
	first := loads[0].first
	row("the first", first.Wall, first.CPU, loads[0], "")
	for _, l := range loads {
		row(l.name, l.wall(), l.cpu(), l, megabytes(l.rss))
	}
	_ = t.Write(os.Stdout, 0)
	fmt.Print(kernelNote)
}

// kernelNote keeps X_CAT from being taken for what a server pays.
const kernelNote = `
Here cat copies memory. On a server the kernel prints each job anew for whoever
reads, some 22,000 to 37,000 jobs a second (LU-16674): cat and ioguard pay that
alike, once per sample, and it is the greater part.

`

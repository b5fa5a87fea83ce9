package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ioguard/lfs"
	"ioguard/lfs/lfstest"
	"ioguard/view"
)

// children are the jobs that this program does as a process of its own.
var children = map[string]func(args []string) error{
	"dump":    childDump,
	"decode":  childDecode,
	"sample":  childSample,
	"advance": childAdvance,
	"node":    childNode,
}

const dumpJobs = 10_000

// childDump writes a dump: FILE FORM JOBS.
func childDump(args []string) error {
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	return writeFile(args[0], lfstest.Stats{Jobs: n, Seed: 4711, Form: lfstest.Form(args[1])}.Text())
}

// childDecode decodes every entry of a dump that lies in memory, often, and
// prints the seconds of the median.
func childDecode(args []string) error {
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var d lfs.JobStatsDecoder
	var runs []time.Duration
	for range 9 {
		start, jobs := time.Now(), 0
		d.Reset(bytes.NewReader(text))
		for d.Next() {
			d.Decode()
			jobs++
		}
		runs = append(runs, time.Since(start))
		if d.Err() != nil || d.Skipped().Lines > 0 || jobs == 0 {
			return fmt.Errorf("decode %s: %d jobs, %d lines not understood, %v", args[0], jobs, d.Skipped().Lines, d.Err())
		}
	}
	fmt.Println(median(runs, func(d time.Duration) time.Duration { return d }).Seconds())
	return nil
}

// dump is a file and who races over it.
type dump struct {
	form lfstest.Form
	jobs int
	path string

	cat, awk, top, decode *contender
}

func (b *bench) newDump(form lfstest.Form, jobs int) (*dump, error) {
	d := &dump{form: form, jobs: jobs, path: filepath.Join(b.dir, fmt.Sprintf("job_stats-%s-%d", form, jobs))}
	if _, err := b.process(b.self, "dump", d.path, string(form), strconv.Itoa(jobs)); err != nil {
		return nil, err
	}
	size := fileSize(d.path)
	d.cat = &contender{name: "cat", args: []string{"cat", d.path}, bytes: size}
	d.awk = &contender{name: "awk, counts job_id", args: []string{"awk", countJobs, d.path}, bytes: size}
	d.top = &contender{name: "ioguard top --statsfile", args: []string{b.ioguard, "top", "--statsfile", d.path}, bytes: size}
	d.decode = &contender{name: "decode, in memory", args: []string{b.self, "decode", d.path}, bytes: size, times: 5}
	return d, nil
}

const countJobs = `/job_id/{n++}END{print n}`

// parseYAML prints the seconds that PyYAML takes: lljobstat's way of reading
// (lustre/utils/lljobstat, parse_single_job_stats).
const parseYAML = `import sys, time, yaml
text = open(sys.argv[1]).read()
start = time.perf_counter()
n = len(yaml.load(text, Loader=getattr(yaml, sys.argv[2]))["job_stats"])
print(time.perf_counter() - start)`

// seconds is what the process itself measured.
func (c *contender) seconds() time.Duration {
	return median(c.runs, func(u usage) time.Duration {
		s, _ := strconv.ParseFloat(strings.TrimSpace(u.out), 64)
		return time.Duration(s * 1e9)
	})
}

// top measures the one-shot command and the decoder.
func (b *bench) top() error {
	modern, err := b.newDump(lfstest.Form217, dumpJobs)
	if err != nil {
		return err
	}
	old, err := b.newDump(lfstest.Form212, dumpJobs*3/2)
	if err != nil {
		return err
	}
	for _, d := range []*dump{modern, old} {
		if err := b.race([]*contender{d.cat, d.awk, d.top, d.decode}); err != nil {
			return err
		}
		d.print()
	}
	fmt.Print("RSS of cat and awk is mostly this program's, in whose memory they start.\n\n")
	wall, awk, rss := modern.top.wall(), modern.awk.wall(), modern.top.rss()
	b.promise("top of 10,000 jobs, wall", "< 60 ms", ms(wall)+" ms", wall < 60*time.Millisecond)
	b.promise("the same against awk", "< 2 x", times(wall, awk)+" x", wall < 2*awk)
	b.promise("the same, peak RSS", "< 64 MB", megabytes(rss)+" MB", rss < 64e6)
	for _, d := range []*dump{modern, old} {
		rate := float64(d.decode.bytes) / d.decode.seconds().Seconds()
		b.promise("parse, form of "+string(d.form), ">= 1000 MB/s", fmt.Sprintf("%.0f MB/s", rate/1e6), rate >= 1e9)
	}
	return b.yaml(modern)
}

func (d *dump) print() {
	fmt.Printf("job_stats of %d jobs in the form of Lustre %s: %s MB, median of %d\n\n", d.jobs, d.form, megabytes(d.top.bytes), len(d.top.runs))
	t := view.Table{Header: []view.Column{{Name: "PROGRAM", Flex: true}, {Name: "WALL_MS", Right: true}, {Name: "CPU_MS", Right: true},
		{Name: "MB/S", Right: true}, {Name: "X_CAT", Right: true}, {Name: "X_AWK", Right: true}, {Name: "RSS_MB", Right: true}}}
	for _, c := range []*contender{d.cat, d.awk, d.top} {
		t.Rows = append(t.Rows, []string{c.name, ms(c.wall()), ms(c.cpu()), perSecond(c.bytes, c.wall()),
			times(c.wall(), d.cat.wall()), times(c.wall(), d.awk.wall()), megabytes(c.rss())})
	}
	s := d.decode.seconds()
	t.Rows = append(t.Rows, []string{d.decode.name, ms(s), "", perSecond(d.decode.bytes, s), times(s, d.cat.wall()), times(s, d.awk.wall()), ""})
	_ = t.Write(os.Stdout, 0)
	fmt.Println()
}

// yaml compares with lljobstat's parser on a tenth of the jobs, since it takes
// minutes for all. PyYAML is a little slower per job on the larger file, so the
// tenth flatters it.
func (b *bench) yaml(modern *dump) error {
	python := b.python()
	if python == "" {
		fmt.Println("no python3 with yaml.CLoader: lljobstat's way is not measured")
		return nil
	}
	tenth, err := b.newDump(modern.form, modern.jobs/10)
	if err != nil {
		return err
	}
	size := tenth.decode.bytes
	parser := func(name, loader string, times int) *contender {
		return &contender{name: name, args: []string{python, "-c", parseYAML, tenth.path, loader}, times: times, bytes: size}
	}
	safe, c := parser("yaml.safe_load, lljobstat at first", "SafeLoader", 1), parser("yaml.CLoader, lljobstat of today", "CLoader", 3)
	tenth.decode.times = 3
	if err := b.race([]*contender{tenth.decode, c, safe}); err != nil {
		return err
	}
	fmt.Printf("parsing only, a tenth of the jobs: %.1f MB; all ten thousand take ten times that and more\n\n", float64(size)/1e6)
	t := view.Table{Header: []view.Column{{Name: "PARSER", Flex: true}, {Name: "PARSE_MS", Right: true}, {Name: "MB/S", Right: true},
		{Name: "X_IOGUARD", Right: true}, {Name: "RSS_MB", Right: true}}}
	own := tenth.decode.seconds()
	for _, p := range []*contender{tenth.decode, c, safe} {
		name, rss := p.name, megabytes(p.rss())
		if p == tenth.decode {
			name, rss = "ioguard/lfs", ""
		}
		t.Rows = append(t.Rows, []string{name, ms(p.seconds()), perSecond(size, p.seconds()), times(p.seconds(), own), rss})
	}
	_ = t.Write(os.Stdout, 0)
	fmt.Println()
	ratio := c.seconds().Seconds() / own.Seconds()
	b.promise("parse against lljobstat's (CLoader)", ">= 300 x", fmt.Sprintf("%.0f x", ratio), ratio >= 300)
	return nil
}

// Command bench measures ioguard as whole processes: `ioguard top` on large
// job_stats dumps, the agent's sample of a server with eight busy OSTs, and the
// prolog of a compute node. It runs cat, awk, a YAML parser and a shell script on
// the same files in turn with them, so that the ratios hold where the milliseconds
// do not. make bench calls it.
//
// It writes only into a temporary folder, which it removes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) > 1 {
		if child, ok := children[os.Args[1]]; ok {
			return child(os.Args[2:])
		}
	}
	b := bench{}
	flag.StringVar(&b.ioguard, "ioguard", "bin/ioguard", "the `BINARY` to measure")
	flag.IntVar(&b.rounds, "n", 15, "measure each program `N` times; the median counts")
	flag.IntVar(&b.prologs, "prologs", 50, "measure the prolog `N` times")
	flag.IntVar(&b.samples, "samples", 7, "the agent's samples of each kind")
	tmp := flag.String("tmp", os.TempDir(), "make the `FOLDER` with 250 MB of files in this one")
	only := flag.String("only", "", "top, sample or gate: only that `PART`")
	strict := flag.Bool("strict", false, "exit with 1 when a target is missed")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b.ctx = ctx
	var err error
	if b.dir, err = os.MkdirTemp(*tmp, "ioguard-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{{"top", b.top}, {"sample", b.sample}, {"gate", b.gate}} {
		if *only == "" || *only == part.name {
			err = errors.Join(err, part.run())
		}
	}
	b.printTargets()
	if err == nil && *strict && b.missed() > 0 {
		err = fmt.Errorf("%d targets missed", b.missed())
	}
	return err
}

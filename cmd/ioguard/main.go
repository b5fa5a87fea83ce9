// Command ioguard keeps jobs on Slurm and Lustre clusters from hurting each
// other's I/O. This package only parses flags, wires packages together and maps
// errors to exit codes; one file holds one command.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"ioguard/probe"
)

func main() { os.Exit(run()) }

// run is main without the exit, so that script tests can call it.
func run() int {
	if len(os.Args) > 1 && os.Args[1] == "probe" { // a child that may hang for ever: it does nothing else
		return probe.Main(os.Args[2:])
	}
	if len(os.Args) > 1 && slices.Contains([]string{"prolog", "epilog", "check"}, os.Args[1]) {
		debug.SetGCPercent(400) // they live for some milliseconds and a few MB
	}
	if len(os.Args) == 2 && hooks[os.Args[1]] != nil {
		runHook(context.Background(), os.Args[1], hooks[os.Args[1]])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return report(os.Stderr, newApp().RunContext(ctx, reorder(newApp(), os.Args)))
}

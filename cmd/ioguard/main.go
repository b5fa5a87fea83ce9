// Command ioguard keeps jobs on Slurm and Lustre clusters from hurting each
// other's I/O. This package only parses flags, wires packages together and maps
// errors to exit codes; one file holds one command.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

// run is main without the exit, so that script tests can call it.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return report(os.Stderr, newApp().RunContext(ctx, reorder(newApp(), os.Args)))
}

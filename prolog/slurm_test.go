package prolog

import (
	"context"
	"errors"

	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"ioguard/action"
	"ioguard/slurm"
)

// fakeSlurm is a cluster that does what scontrol would: a drain replaces the reason
// and shows in sinfo, a node that is not drained cannot be resumed, and what no
// Actor takes is refused.
type fakeSlurm struct {
	t       *testing.T
	nodes   []slurm.Node
	done    []string             // what was asked, in order: "sinfo", "drain node1"
	fail    map[action.Kind]bool // without having done it
	anyway  bool                 // what fails was done in spite of that
	silent  bool                 // sinfo fails
	hang    bool                 // everything hangs until the context ends
	onDrain func()               // what else happens meanwhile
}

var _ action.Actor = (*fakeSlurm)(nil)

func cluster(t *testing.T, nodes int) *fakeSlurm {
	f := &fakeSlurm{t: t, fail: map[action.Kind]bool{}}
	for i := range nodes {
		f.nodes = append(f.nodes, slurm.Node{Name: fmt.Sprint("node", i+1), State: "idle"})
	}
	return f
}

func (f *fakeSlurm) node(name string) *slurm.Node {
	f.t.Helper()
	n := nodeNamed(f.nodes, name)
	if n == nil {
		f.t.Fatalf("no node %s", name)
	}
	return n
}

func (f *fakeSlurm) drained(reason string, names ...string) {
	for _, name := range names {
		n := f.node(name)
		n.State, n.Reason, n.ReasonTime = "drained", reason, time.Now()
	}
}

func (f *fakeSlurm) Nodes(ctx context.Context) ([]slurm.Node, error) {
	f.done = append(f.done, "sinfo")
	if f.hang {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if f.silent {
		return nil, errors.New("unable to contact slurm controller")
	}
	return slices.Clone(f.nodes), nil
}

func (f *fakeSlurm) Do(ctx context.Context, c action.Change) error {
	if err := c.Check(); err != nil {
		f.t.Errorf("asked for %v", err)
		return err
	}
	f.done = append(f.done, c.String())
	if f.hang {
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	failed := error(nil)
	if f.fail[c.Kind] {
		failed = errors.New("scontrol: exit status 1: Access/permission denied")
		if !f.anyway {
			return failed
		}
	}
	return errors.Join(failed, f.change(c))
}

func (f *fakeSlurm) change(c action.Change) error {
	switch c.Kind {
	case action.Drain:
		f.drained(c.Reason, c.Node)
		if f.onDrain != nil {
			f.onDrain()
		}
	case action.Resume, action.Undrain:
		n := f.node(c.Node)
		if !n.Drained() {
			return errors.New("scontrol: exit status 1: Invalid node state specified")
		}
		n.State, n.Reason = "idle", ""
	}
	return nil
}

// noImports is a machine whose connections cannot be read.
type noImports struct{ fs.FS }

func (n noImports) Open(name string) (fs.File, error) {
	if strings.Contains(name, "lustre/osc") || strings.Contains(name, "lustre/mdc") || strings.Contains(name, "lustre/mgc") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
	}
	return n.FS.Open(name)
}

// booted is a machine that tells its boot, which recorded ones do not.
type booted struct {
	fs.FS
	id string
}

func (b booted) Open(name string) (fs.File, error) {
	if name == "proc/sys/kernel/random/boot_id" {
		return fstest.MapFS{name: {Data: []byte(b.id + "\n")}}.Open(name)
	}
	return b.FS.Open(name)
}

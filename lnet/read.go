package lnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"ioguard/host"
)

// Source says who told.
type Source string

// The sources, the best first.
const (
	Lnetctl Source = "lnetctl"
	Debugfs Source = "debugfs" // /sys/kernel/debug/lnet
	Procfs  Source = "procfs"  // /proc/sys/lnet, of old kernels
)

// ProvesHealth tells whether an interface that is said to be up is up. The tables
// of debugfs and procfs say so with the cable out.
func (s Source) ProvesHealth() bool { return s == Lnetctl }

// ReadNIs reads the node's network interfaces. LNet that is not up is ErrDown.
func ReadNIs(ctx context.Context, h *host.Host) ([]NI, Source, error) {
	nis, source, err := read(ctx, h, question[[]NI]{"net", verbose, ParseNetShow, "nis", ParseNIs})
	if err == nil && len(nis) == 0 { // there is always 0@lo
		err = fmt.Errorf("read lnet nis: %w", ErrDown)
	}
	return nis, source, err
}

// ReadPeers reads the peers. None of them is proof of life: see Peer.
func ReadPeers(ctx context.Context, h *host.Host) ([]Peer, Source, error) {
	return read(ctx, h, question[[]Peer]{"peer", verbose, ParsePeerShow, "peers", ParsePeers})
}

// ReadRoutes reads the routes; none is the common case.
func ReadRoutes(ctx context.Context, h *host.Host) ([]Route, Source, error) {
	return read(ctx, h, question[[]Route]{"route", verbose, ParseRouteShow, "routes", ParseRoutes})
}

// ReadGlobal reads the settings of the whole node.
func ReadGlobal(ctx context.Context, h *host.Host) (Values, error) {
	v, _, err := read(ctx, h, question[Values]{"global", noFlags, ParseGlobalShow, "", nil})
	return v, err
}

// ReadStats reads the counters of the whole node. Without lnetctl they are the
// eleven that debugfs has.
func ReadStats(ctx context.Context, h *host.Host) (Values, error) {
	v, _, err := read(ctx, h, question[Values]{"stats", noFlags, ParseStatsShow, "stats", ParseStats})
	return v, err
}

// verbose are the flags to try. The first does on every release since 2.10; up to
// 2.9 the 4 is ignored. A recorded machine answers only what it was asked then.
var (
	verbose = []string{"-v 4", "-v 3", "-v 2", "-v", ""}
	noFlags = []string{""}
)

// question is what is asked of lnetctl, and of its stand-in.
type question[T any] struct {
	what  string   // "net" of `lnetctl net show`
	flags []string // to try one after the other
	parse func([]byte) (T, error)

	table      string // the file of debugfs; "" where there is none
	parseTable func([]byte) (T, error)
}

// read asks lnetctl, and reads the table where it is missing or too old for the
// question.
func read[T any](ctx context.Context, h *host.Host, q question[T]) (T, Source, error) {
	v, err := q.lnetctl(ctx, h)
	if err == nil || !errors.Is(err, errNoAnswer) {
		return v, Lnetctl, wrap(q.what, err)
	}
	for _, t := range []struct {
		dir    string
		source Source
	}{{"sys/kernel/debug/lnet/", Debugfs}, {"proc/sys/lnet/", Procfs}} {
		if q.table == "" {
			break
		}
		b, readErr := readTable(h.FS, t.dir+q.table)
		if readErr == nil {
			v, err := q.parseTable(b)
			return v, t.source, wrap(q.what, err)
		}
		if !errors.Is(readErr, fs.ErrNotExist) {
			err = fmt.Errorf("%w; %w", err, readErr)
		}
	}
	return v, "", wrap(q.what, err)
}

const (
	tableChunk = 64 << 10 // bytes asked for at once
	tableLimit = 16 << 20 // bytes of a table, more is an error
)

// readTable reads a file of debugfs or procfs. LNet gives one line a read, and
// EINVAL where the buffer is shorter than that: lnet/lnet/router_proc.c, "linux-
// supplied buffer is too small". io.ReadAll comes to that at its 512th byte.
func readTable(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	chunk := make([]byte, tableChunk)
	var b []byte
	for len(b) <= tableLimit {
		n, err := f.Read(chunk)
		b = append(b, chunk[:n]...)
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("more than %d bytes", tableLimit)}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read lnet %s: %w", what, err)
}

// errNoAnswer is lnetctl that is missing, was not recorded, or does not know what
// it is asked for: somebody else may tell.
var errNoAnswer = errors.New("lnetctl does not tell")

// lnetctl tries the flags until one is understood. An lnetctl that refuses or
// does not end is asked no further.
func (q question[T]) lnetctl(ctx context.Context, h *host.Host) (v T, err error) {
	var last error
	for _, flags := range q.flags {
		args := append([]string{q.what, "show"}, strings.Fields(flags)...)
		a, runErr := h.Command(ctx, "lnetctl", args...)
		var ran *host.CommandError
		if runErr != nil && (!errors.As(runErr, &ran) || ran.Status < 0) {
			if !errors.Is(runErr, fs.ErrNotExist) {
				return v, runErr
			}
			if last == nil {
				last = runErr
			}
			continue
		}
		v, err, final := q.judge(a, runErr)
		if final {
			return v, err
		}
		last = err
	}
	return v, fmt.Errorf("%w: %w", errNoAnswer, last)
}

// judge tells an answer and a refusal, which are final, from a usage text, with
// which old releases exit 0. Refusals come on either output.
func (q question[T]) judge(a host.Answer, runErr error) (v T, err error, final bool) {
	v, err = q.parse(a.Stdout)
	var f *Failure
	if noDevice := unopened(a.Stderr); noDevice != nil {
		return v, noDevice, true
	}
	switch {
	case errors.As(err, &f):
		return v, err, true
	case len(bytes.TrimSpace(a.Stderr)) > 0:
		if _, failed := q.parse(a.Stderr); errors.As(failed, &f) {
			return v, failed, true
		}
	}
	empty := len(bytes.TrimSpace(a.Stdout)) == 0
	switch {
	case runErr != nil:
		return v, runErr, false
	case err == nil && empty && len(a.Stderr) > 0:
		return v, fmt.Errorf("no answer but %.200q", a.Stderr), false
	}
	return v, err, err == nil
}

// unopened is an lnetctl that did not reach the kernel, of the releases that speak
// through /dev/lnet; by their source the exit status can be 0 then. nil where it did.
//
// SOURCE: lnet/utils/l_ioctl.c (libcfs/libcfs/util/l_ioctl.c), open_ioc_dev:
//
//	opening /dev/lnet failed: No such file or directory
//	hint: the kernel modules may not be loaded
func unopened(stderr []byte) error {
	_, why, ok := strings.Cut(string(stderr), "opening /dev/lnet failed: ")
	switch {
	case !ok:
		return nil
	case strings.HasPrefix(why, "Permission denied"): // with the same hint
		return fmt.Errorf("lnetctl: open /dev/lnet: %w", fs.ErrPermission)
	}
	why, _, _ = strings.Cut(why, "\n")
	return fmt.Errorf("lnetctl: open /dev/lnet: %.80q: %w", why, ErrDown)
}

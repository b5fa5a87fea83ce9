package lnet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"ioguard/host"
)

func TestReadRecorded(t *testing.T) {
	ctx := t.Context()
	for machine, status := range map[string]string{"client-healthy-2.17.0": "up", "client-link-cut-2.17.0": "down"} {
		h := recorded(t, machine)
		nis, source, err := ReadNIs(ctx, h)
		if err != nil || source != Lnetctl || len(nis) != 2 || nis[1].Status != status || nis[1].Unknown != nil {
			t.Errorf("%s: %+v, %s, %v", machine, nis, source, err)
		}
		peers, source, err := ReadPeers(ctx, h)
		if err != nil || source != Lnetctl || len(peers) != 10 || peers[0].NIs[0].Health == nil {
			t.Errorf("%s: %d peers, %s, %v", machine, len(peers), source, err)
		}
		routes, source, err := ReadRoutes(ctx, h)
		if err != nil || source != Lnetctl || len(routes) != 0 {
			t.Errorf("%s: %+v, %s, %v", machine, routes, source, err)
		}
		g, err := ReadGlobal(ctx, h)
		if err != nil || g["health_sensitivity"] != 100 {
			t.Errorf("%s: %v, %v", machine, g, err)
		}
	}
	if s, err := ReadStats(ctx, recorded(t, "client-healthy-2.17.0")); err != nil || s["network_timeout_count"] != 1530 {
		t.Errorf("%v, %v", s, err)
	}
}

// TestReadWithoutLnetctl: debugfs says "up" of the same machine with its cable out.
func TestReadWithoutLnetctl(t *testing.T) {
	ctx := t.Context()
	h := recorded(t, "client-link-cut-2.17.0")
	h = &host.Host{FS: h.FS}
	nis, source, err := ReadNIs(ctx, h)
	if err != nil || source != Debugfs || source.ProvesHealth() || len(nis) != 2 || nis[1].Status != "up" || nis[1].Health != nil {
		t.Errorf("%+v, %s, %v", nis, source, err)
	}
	h = recorded(t, "client-healthy-2.17.0")
	b, err := fs.ReadFile(h.FS, "sys/kernel/debug/lnet/peers")
	if err != nil {
		t.Fatal(err)
	}
	old := &host.Host{FS: fstest.MapFS{"proc/sys/lnet/peers": {Data: b}, "proc/sys/lnet/routes": {Data: []byte("Routing disabled\nnet hops state router\n")}}}
	peers, source, err := ReadPeers(ctx, old)
	if err != nil || source != Procfs || len(peers) != 10 {
		t.Errorf("%d peers, %s, %v", len(peers), source, err)
	}
	if routes, source, err := ReadRoutes(ctx, old); err != nil || source != Procfs || routes != nil {
		t.Errorf("%v, %s, %v", routes, source, err)
	}
	if s, err := ReadStats(ctx, &host.Host{FS: h.FS}); err != nil || s["msgs_max"] != 49 {
		t.Errorf("%v, %v", s, err)
	}
	for what, err := range map[string]error{
		"nis": func() error { _, _, err := ReadNIs(ctx, old); return err }(), "global": func() error { _, err := ReadGlobal(ctx, &host.Host{FS: fstest.MapFS{}}); return err }(),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
	denied := &host.Host{FS: deniedFS{}}
	if _, _, err := ReadNIs(ctx, denied); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("debugfs of others gives %v", err)
	}
}

type deniedFS struct{}

func (deniedFS) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

// lineFS gives files as LNet does: a line a read, EINVAL for a buffer that is shorter.
type lineFS struct{ fstest.MapFS }

type lineFile struct {
	fs.File
	text string
}

func (l lineFS) Open(name string) (fs.File, error) {
	f, err := l.MapFS.Open(name)
	if err != nil {
		return nil, err
	}
	return &lineFile{f, string(l.MapFS[name].Data)}, nil
}

func (f *lineFile) Read(p []byte) (int, error) {
	line, _, _ := strings.Cut(f.text, "\n")
	switch {
	case f.text == "":
		return 0, io.EOF
	case len(line) >= len(p):
		return 0, syscall.EINVAL
	}
	n := copy(p, line+"\n")
	f.text = f.text[n:]
	return n, nil
}

func TestReadLineByLine(t *testing.T) {
	table := text(t, "client-healthy-2.17.0", "sys/kernel/debug/lnet/peers")
	table = append(table, bytes.Repeat(table[bytes.IndexByte(table, '\n')+1:], 30)...)
	h := &host.Host{FS: lineFS{fstest.MapFS{"sys/kernel/debug/lnet/peers": {Data: table}}}}
	f, err := h.FS.Open("sys/kernel/debug/lnet/peers")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(f); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("the file does not do as LNet's: %v", err)
	}
	if peers, source, err := ReadPeers(t.Context(), h); err != nil || source != Debugfs || len(peers) != 310 {
		t.Errorf("%d peers, %s, %v", len(peers), source, err)
	}
}

// fake is an lnetctl that answers by flags, and notes what it was asked.
type fake struct {
	asked   []string
	answers map[string]func() (string, error)
}

func (f *fake) host() *host.Host {
	return &host.Host{FS: fstest.MapFS{}, Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
		words := strings.Join(append([]string{name}, args...), " ")
		f.asked = append(f.asked, words)
		if a, ok := f.answers[words]; ok {
			out, err := a()
			return []byte(out), err
		}
		return nil, fmt.Errorf("run %s: %w", words, fs.ErrNotExist)
	}}
}

func says(out string) func() (string, error) { return func() (string, error) { return out, nil } }

func fails(status int, out, stderr string) func() (string, error) {
	return func() (string, error) {
		return out, &host.CommandError{Command: "lnetctl", Status: status, Stderr: stderr, TimedOut: status < 0}
	}
}

func TestReadTries(t *testing.T) {
	const v4, v3, v2, v, bare = "lnetctl net show -v 4", "lnetctl net show -v 3", "lnetctl net show -v 2", "lnetctl net show -v", "lnetctl net show"
	good := says(string(text(t, "shaped", "2.8/net")))
	usage := string(text(t, "shaped", "usage/2.8-net"))
	down := string(text(t, "shaped", "failures/down-2.12"))
	unpriv := string(text(t, "answers-2.17.0", "client/healthy/lnetctl_net_show_unpriv/stderr"))
	type answers = map[string]func() (string, error)
	for name, tc := range map[string]struct {
		answers answers
		asked   []string
		nis     int
		is      error
	}{
		"at once":                  {answers{v4: good}, []string{v4}, 2, nil},
		"usage with status 0":      {answers{v4: says(usage), v3: good}, []string{v4, v3}, 2, nil},
		"usage with a status":      {answers{v4: fails(255, usage, "lnetctl: invalid option -- 'v'"), v3: fails(1, "", "what?"), v2: good}, []string{v4, v3, v2}, 2, nil},
		"recorded with less":       {answers{v: good}, []string{v4, v3, v2, v}, 2, nil},
		"recorded bare":            {answers{bare: good}, []string{v4, v3, v2, v, bare}, 2, nil},
		"not root":                 {answers{v4: fails(234, "", unpriv)}, []string{v4}, 0, fs.ErrPermission},
		"down on standard error":   {answers{v4: fails(156, "", down)}, []string{v4}, 0, ErrDown},
		"down on standard output":  {answers{v4: fails(156, down, "")}, []string{v4}, 0, ErrDown},
		"down with status 0":       {answers{v4: says(down)}, []string{v4}, 0, ErrDown},
		"empty":                    {answers{v4: says("")}, []string{v4}, 0, ErrDown},
		"nothing that understands": {answers{v4: says(usage)}, []string{v4, v3, v2, v, bare}, 0, errNoAnswer},
		"missing":                  {nil, []string{v4, v3, v2, v, bare}, 0, fs.ErrNotExist},
		"hangs":                    {answers{v4: fails(-1, "", "")}, []string{v4}, 0, nil},
	} {
		f := fake{answers: tc.answers}
		nis, source, err := ReadNIs(t.Context(), f.host())
		if !slices.Equal(f.asked, tc.asked) || len(nis) != tc.nis {
			t.Errorf("%s: %d interfaces, asked %q", name, len(nis), f.asked)
		}
		if (err == nil) != (tc.nis > 0) || tc.is != nil && !errors.Is(err, tc.is) || tc.nis > 0 && source != Lnetctl {
			t.Errorf("%s: %s, %v", name, source, err)
		}
	}
}

// TestReadEnded: whoever gave up is asked no further.
func TestReadEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := ReadNIs(ctx, recorded(t, "client-healthy-2.17.0")); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context gives %v", err)
	}
}

// TestReadRefusalOnStandardError: status 0, nothing on standard output.
func TestReadRefusalOnStandardError(t *testing.T) {
	h := recorded(t, "-- commands/x/cmd --\nlnetctl net show -v 4\n-- commands/x/stderr --\nshow:\n- net:\n  errno: -100\n  descr: x\n")
	var f *Failure
	if _, _, err := ReadNIs(t.Context(), h); !errors.As(err, &f) || f.Errno != -100 {
		t.Errorf("%v", err)
	}
	for why, is := range map[string]error{"No such file or directory": ErrDown, "No such device": ErrDown, "Permission denied": fs.ErrPermission} {
		h := recorded(t, "-- commands/x/cmd --\nlnetctl net show -v 4\n-- commands/x/stderr --\nopening /dev/lnet failed: "+why+
			"\nhint: the kernel modules may not be loaded\n-- sys/kernel/debug/lnet/nis --\nnid status\n0@lo up\n")
		if _, source, err := ReadNIs(t.Context(), h); !errors.Is(err, is) || source != Lnetctl {
			t.Errorf("%s: %s, %v", why, source, err)
		}
	}
	h = recorded(t, "-- commands/x/cmd --\nlnetctl route show -v 4\n-- commands/x/stderr --\nlnetctl: invalid option\n"+
		"-- commands/y/cmd --\nlnetctl route show -v\n-- commands/y/stdout --\nroute:\n- net: tcp1\n  gateway: 1@gni\n")
	if routes, _, err := ReadRoutes(t.Context(), h); err != nil || len(routes) != 1 {
		t.Errorf("%v, %v", routes, err)
	}
}

func TestTables(t *testing.T) {
	i := func(n int64) *int64 { return &n }
	nis, err := ParseNIs([]byte(`nid                      status alive refs peer  rtr   max    tx   min
0@lo                         up     0    2    0    0     0     0     0
0@lo                         up     0    0    0    0     0     0     0
10.0.0.1@o2ib              down    -1    2    8    4   128   120    12
10.0.0.1@o2ib              down    -1    1    8    4   128   128   -10
`))
	want := []NI{
		{NID: NID{"0", Net{Type: "lo"}}, Status: "up", PeerCredits: i(0), PeerBufferCredits: i(0), Credits: i(0), AvailableCredits: i(0), MinCredits: i(0)},
		{NID: NID{"10.0.0.1", Net{Type: "o2ib"}}, Status: "down", PeerCredits: i(8), PeerBufferCredits: i(4), Credits: i(256), AvailableCredits: i(248), MinCredits: i(-10)},
	}
	if d := cmp.Diff(want, nis); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	peers, err := ParsePeers(text(t, "client-healthy-2.17.0", "sys/kernel/debug/lnet/peers"))
	wantPeer := Peer{PrimaryNID: NID{"10.77.0.1", Net{Type: "o2ib"}}, NIs: []PeerNI{{NID: NID{"10.77.0.1", Net{Type: "o2ib"}}, State: "NA", RefCount: i(2),
		MaxTxCredits: i(8), AvailableRtrCredits: i(8), MinRtrCredits: i(8), AvailableTxCredits: i(7), MinTxCredits: i(-40), TxQueue: i(552)}}}
	if d := cmp.Diff(wantPeer, peers[3]); d != "" || err != nil || len(peers) != 10 {
		t.Errorf("%d, %v (-want +got):\n%s", len(peers), err, d)
	}
	routes, err := ParseRoutes([]byte("Routing enabled\nnet      hops   state router\no2ib18  4294967295  down 172.19.1.55@o2ib100\nnonsense\n"))
	wantRoute := []Route{{Net: Net{"o2ib", 18}, Gateway: NID{"172.19.1.55", Net{"o2ib", 100}}, Hop: i(-1), State: "down"}}
	if d := cmp.Diff(wantRoute, routes); d != "" || err == nil || !strings.Contains(err.Error(), `line 4: not a row: "nonsense"`) {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	for _, text := range []string{"", "nonsense\n", "nid\nx\n"} {
		if nis, err := ParseNIs([]byte(text)); err == nil || nis != nil {
			t.Errorf("%q: %v, %v", text, nis, err)
		}
	}
	for _, text := range []string{"", "1 2 3", "1 2 3 4 5 6 7 8 9 10 x", "1 2 3 4 5 6 7 8 9 10 11 12"} {
		if v, err := ParseStats([]byte(text)); err == nil || v != nil {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
}

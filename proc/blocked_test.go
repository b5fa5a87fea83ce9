package proc

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const ptlrpcd = "431 (ptlrpcd_00_01) D 2 0 0 0 -1 69238848 0 0 0 0 12 52 0 0 20 0 1 0 4242 0 0 18446744073709551615 0 0\n"

func TestParseProcessStat(t *testing.T) {
	tests := []struct {
		name, text string
		want       Process
		err        bool
	}{
		{"plain", ptlrpcd, Process{PID: 431, Name: "ptlrpcd_00_01", State: 'D', Start: 4242, Kernel: true}, false},
		{"hostile name", "7 (a) D 1 (b)) S 2 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n", Process{PID: 7, Name: "a) D 1 (b)", State: 'S', Start: 99}, false},
		{"no name", "431 D 2", Process{}, true},
		{"cut", ptlrpcd[:40], Process{}, true},
		{"empty", "", Process{}, true},
		{"no pid", "x (a) D 2 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n", Process{}, true},
	}
	for _, tt := range tests {
		got, err := ParseProcessStat([]byte(tt.text))
		if d := cmp.Diff(tt.want, got); d != "" || (err != nil) != tt.err {
			t.Errorf("%s: %v\n%s", tt.name, err, d)
		}
	}
}

func TestReadBlocked(t *testing.T) {
	fsys := fstest.MapFS{
		"proc/431/stat":  {Data: []byte(ptlrpcd)},
		"proc/431/wchan": {Data: []byte("ptlrpc_set_wait")},
		"proc/8/stat":    {Data: []byte("8 (idle) S 2 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n")},
		"proc/9/stat":    {Data: []byte("rubbish")},
		"proc/10":        {Mode: 0o755 | 1<<31}, // ended
		"proc/stat":      {Data: []byte("cpu 1 2 3")},
	}
	blocked := Process{PID: 431, Name: "ptlrpcd_00_01", State: 'D', Start: 4242, Wait: "ptlrpc_set_wait", Kernel: true}
	got, err := ReadBlocked(fsys, nil)
	if d := cmp.Diff([]Process{blocked}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	// Asleep in Lustre, and not in D state; one of the kernel's own threads; one elsewhere.
	fsys["proc/20/stat"] = &fstest.MapFile{Data: []byte("20 (ls) S 2 0 0 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n")}
	fsys["proc/20/wchan"] = &fstest.MapFile{Data: []byte("ptlrpc_queue_wait")}
	fsys["proc/21/stat"] = &fstest.MapFile{Data: []byte("21 (ptlrpcd_rcv) S 2 0 0 0 -1 69238848 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n")}
	fsys["proc/21/wchan"] = &fstest.MapFile{Data: []byte("ptlrpcd")}
	fsys["proc/22/stat"] = &fstest.MapFile{Data: []byte("22 (sh) S 2 0 0 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n")}
	fsys["proc/22/wchan"] = &fstest.MapFile{Data: []byte("do_wait")}
	got, err = ReadBlocked(fsys, func(wait string) bool { return strings.HasPrefix(wait, "ptlrpc") })
	if d := cmp.Diff([]Process{{PID: 20, Name: "ls", State: 'S', Start: 77, Wait: "ptlrpc_queue_wait"}, blocked}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
}

func TestParseMemory(t *testing.T) {
	u := func(v uint64) *uint64 { return &v }
	got, err := ParseMemory([]byte("MemTotal:        1014488 kB\nMemAvailable:     700000 kB\nDirty:               148 kB\nWriteback:             0 kB\nHugePages_Total:       0\n"))
	if d := cmp.Diff(Memory{u(1014488 << 10), u(700000 << 10), u(148 << 10), u(0)}, got); d != "" || err != nil {
		t.Errorf("%v\n%s", err, d)
	}
	got, err = ParseMemory([]byte("Dirty: many kB\nWriteback: 3 kB\n"))
	if err == nil || got.Dirty != nil || got.Writeback == nil || *got.Writeback != 3<<10 {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParseProcessStat(f *testing.F) {
	f.Add([]byte(ptlrpcd))
	f.Add([]byte("7 (a) D 1 (b)) S 2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ParseProcessStat(b); err == nil && p.PID <= 0 {
			t.Errorf("pid %d", p.PID)
		}
	})
}

func FuzzParseMemory(f *testing.F) {
	f.Add([]byte("MemTotal:        1014488 kB\nDirty: 148 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := ParseMemory(b); err == nil && m.Total == nil {
			t.Error("neither a total nor an error")
		}
	})
}

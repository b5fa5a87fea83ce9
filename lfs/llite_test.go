package lfs

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ioguard"
)

// lliteSum reads the only mount of a machine.
func lliteSum(t testing.TB, machine string) LliteSum {
	t.Helper()
	mounts, err := ReadLlite(fixtureMachine(t, machine))
	if err != nil || len(mounts) != 1 {
		t.Fatalf("%d mounts, %v", len(mounts), err)
	}
	return mounts[0].Sum()
}

// The same mount twice, three quarters of an hour apart, with a file of JSON in between.
func TestDiffLliteMachines(t *testing.T) {
	prev, cur := lliteSum(t, "client-2.17.0"), lliteSum(t, "client-healthy-2.17.0")
	want := LliteSum{FS: "lustre", Instance: "ffff8880086b6800", Time: time.Unix(1795243671, 937087964).UTC(), Start: time.Unix(1795241779, 503161864).UTC(),
		LliteCounts: LliteCounts{ReadBytes: ptr(uint64(7204864)), WriteBytes: ptr(uint64(2125463884)), Reads: ptr(uint64(1249)), Writes: ptr(uint64(2089)),
			Opens: ptr(uint64(356)), Creates: ptr(uint64(21500)), Mkdirs: ptr(uint64(58)), Getattrs: ptr(uint64(507)), Fsyncs: ptr(uint64(522))}}
	if diff := cmp.Diff(want, prev); diff != "" {
		t.Error(diff)
	}
	text, err := json.Marshal(prev)
	if err != nil || len(text) > 500 {
		t.Fatal(string(text), err)
	}
	var kept LliteSum
	if err := json.Unmarshal(text, &kept); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(prev, kept); diff != "" {
		t.Error(diff)
	}
	d := DiffLlite(kept, cur)
	if d.Kind != ioguard.DeltaValue || d.FS != "lustre" || *d.WriteBytes != *cur.WriteBytes-*prev.WriteBytes || *d.Opens != *cur.Opens-*prev.Opens {
		t.Errorf("%+v", d)
	}
	if d.Unlinks == nil || *d.Unlinks != *cur.Unlinks { // the first came in between
		t.Errorf("%+v", d)
	}
	if back := DiffLlite(cur, kept); back.Kind != ioguard.DeltaReset || *back.Opens != *prev.Opens || back.Unlinks != nil {
		t.Errorf("%+v", back)
	}
}

func TestDiffLlite(t *testing.T) {
	n := func(v uint64) *uint64 { return &v }
	start := time.Unix(1795241779, 0)
	base := LliteSum{FS: "fs", Instance: "ff", Start: start, LliteCounts: LliteCounts{Opens: n(10), ReadBytes: n(4096)}}
	with := func(f func(*LliteSum)) LliteSum {
		s := base
		f(&s)
		return s
	}
	for name, tc := range map[string]struct {
		cur  LliteSum
		want LliteDelta
	}{
		"same":             {base, LliteDelta{FS: "fs", Instance: "ff", Kind: ioguard.DeltaValue, LliteCounts: LliteCounts{Opens: n(0), ReadBytes: n(0)}}},
		"more, and first":  {with(func(s *LliteSum) { s.Opens, s.Mkdirs = n(12), n(3) }), LliteDelta{FS: "fs", Instance: "ff", Kind: ioguard.DeltaValue, LliteCounts: LliteCounts{Opens: n(2), ReadBytes: n(0), Mkdirs: n(3)}}},
		"fell":             {with(func(s *LliteSum) { s.Opens, s.ReadBytes = n(3), n(5000) }), LliteDelta{FS: "fs", Instance: "ff", Kind: ioguard.DeltaReset, LliteCounts: LliteCounts{Opens: n(3), ReadBytes: n(5000)}}},
		"gone":             {with(func(s *LliteSum) { s.Opens = nil }), LliteDelta{FS: "fs", Instance: "ff", Kind: ioguard.DeltaReset, LliteCounts: LliteCounts{ReadBytes: n(4096)}}},
		"another start":    {with(func(s *LliteSum) { s.Start, s.Opens = start.Add(time.Second), n(20) }), LliteDelta{FS: "fs", Instance: "ff", Kind: ioguard.DeltaReset, LliteCounts: LliteCounts{Opens: n(20), ReadBytes: n(4096)}}},
		"another instance": {with(func(s *LliteSum) { s.Instance, s.Opens = "ee", n(20) }), LliteDelta{FS: "fs", Instance: "ee", Kind: ioguard.DeltaReset, LliteCounts: LliteCounts{Opens: n(20), ReadBytes: n(4096)}}},
		"start not told":   {with(func(s *LliteSum) { s.Start = time.Time{} }), LliteDelta{FS: "fs", Instance: "ff", Kind: ioguard.DeltaValue, LliteCounts: LliteCounts{Opens: n(0), ReadBytes: n(0)}}},
	} {
		if diff := cmp.Diff(tc.want, DiffLlite(base, tc.cur)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestReadLlite(t *testing.T) {
	stats := &fstest.MapFile{Data: []byte("snapshot_time             9223372036854775807.1 secs.nsecs\nread_bytes                5 samples [bytes]\n")}
	fsys := fstest.MapFS{procRoot + "llite/my-fs-ffff88/stats": stats, procRoot + "llite/b-ffff99/stats": stats, procRoot + "llite/odd/stats": stats}
	mounts, err := ReadLlite(fixtureDenied{fsys, []string{procRoot + "llite/b-ffff99/stats", "sys"}})
	if !isPermission(err) || len(mounts) != 2 || mounts[0].FS != "my-fs" || mounts[0].Instance != "ffff88" || mounts[1].FS != "" || mounts[1].Instance != "odd" {
		t.Errorf("%+v, %v", mounts, err)
	}
	// A counter without a sum tells no bytes, and a time out of range is none.
	if s := mounts[0].Sum(); s.ReadBytes != nil || *s.Reads != 5 || !s.Time.IsZero() {
		t.Errorf("%+v", s)
	}
	if _, err := ReadLlite(fstest.MapFS{}); !isNotExist(err) {
		t.Error(err)
	}
	if _, err := ReadLlite(fixtureDenied{fixtureMachine(t, "client-2.17.0"), []string{"sys/kernel/debug"}}); !isPermission(err) {
		t.Error(err)
	}
}

func FuzzDiffLlite(f *testing.F) {
	text := fixtureFile(f, fixtureMachine(f, "client-2.17.0"), debugRoot+"llite/lustre-ffff8880086b6800/stats")
	f.Add(slices.Concat(text, []byte("\f"), text[:1000]))
	f.Add([]byte("open 5 samples [reqs]\nread_bytes 1 samples [bytes] 1 1 1\fopen 7 samples [reqs]\n"))
	f.Fuzz(func(t *testing.T, both []byte) {
		a, b, _ := bytes.Cut(both, []byte("\f"))
		prev, cur := Llite{FS: "fs", Stats: ParseStats(a)}, Llite{FS: "fs", Stats: ParseStats(b)}
		p, c := prev.Sum(), cur.Sum()
		if _, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		}
		d := DiffLlite(p, c)
		for i, field := range d.lliteFields() {
			of := *c.lliteFields()[i].value
			if (*field.value == nil) != (of == nil) || of != nil && **field.value > *of {
				t.Fatalf("%s: more than there is: %+v", field.counter, d)
			}
		}
	})
}

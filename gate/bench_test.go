package gate

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"testing"

	"ioguard/bench/nodetest"
	"ioguard/host"
	"ioguard/ib"
	"ioguard/kmsg"
	"ioguard/lfs"
	"ioguard/lnet"
)

// largeNode is a recorded node of a large cluster, and its files as a live machine
// reads them: for a recorded one the way to each file is walked anew, so that no
// link leads out, which takes several times the system calls.
func largeNode(b *testing.B) (*host.Host, fs.FS) {
	b.Helper()
	root, err := nodetest.Large().Write(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	h, err := host.OpenMachine(root)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { h.Close() })
	return h, os.DirFS(root)
}

// benchSite is what the default configuration expects.
var benchSite = Site{JobIDVar: "SLURM_JOB_ID", MinFree: 0.01}

func benchRun(b *testing.B, h *host.Host, last *Memory) Result {
	b.Helper()
	l := &Looker{Host: h, Site: benchSite, Cursor: last.Log}
	r := Run(b.Context(), l, last, &Policy{Brake: DefaultBrake}, Needs{Node: nodetest.Name}, 0)
	if !r.Verdict.Healthy() || len(r.Seen.Imports.Value) != 210 {
		b.Fatalf("%d imports, found %q", len(r.Seen.Imports.Value), found(&r.Verdict))
	}
	return r
}

// BenchmarkRun is a run on a healthy node, the first and those behind it.
func BenchmarkRun(b *testing.B) {
	h, _ := largeNode(b)
	first := benchRun(b, h, &Memory{})
	for _, c := range []struct {
		name string
		last *Memory
	}{{"first", &Memory{}}, {"again", &first.Memory}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				benchRun(b, h, c.last)
			}
		})
	}
}

// BenchmarkRead is each source by itself.
func BenchmarkRead(b *testing.B) {
	h, files := largeNode(b)
	cursor := benchRun(b, h, &Memory{}).Memory.Log
	sources := []struct {
		name string
		read func(context.Context) error
	}{
		{"imports", func(context.Context) error { _, err := lfs.ReadImports(files); return err }},
		{"imports-recorded", func(context.Context) error { _, err := lfs.ReadImports(h.FS); return err }},
		{"llite", func(context.Context) error { _, err := lfs.ReadLlite(files); return err }},
		{"devices", func(ctx context.Context) error { _, err := lfs.ReadDevices(ctx, h); return err }},
		{"jobid", func(context.Context) error { _, err := lfs.ReadJobSettings(files, nil); return err }},
		{"version", func(context.Context) error { _, err := lfs.ReadVersion(files); return err }},
		{"mounts", func(context.Context) error { _, err := readMounts(h, nil); return err }},
		{"fstab", func(context.Context) error { _, err := readFstab(h); return err }},
		{"ib", func(context.Context) error { _, err := ib.Read(h); return err }},
		{"nis", func(ctx context.Context) error { _, _, err := lnet.ReadNIs(ctx, h); return err }},
		{"peers", func(ctx context.Context) error { _, _, err := lnet.ReadPeers(ctx, h); return err }},
		{"log", func(ctx context.Context) error { _, err := kmsg.Read(ctx, h, cursor); return err }},
		{"local", func(context.Context) error { _, err := readLocal(h, nil, false); return err }},
	}
	for _, s := range sources {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.read(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVerdict is what is thought about the answers of a second run.
func BenchmarkVerdict(b *testing.B) {
	h, _ := largeNode(b)
	first := benchRun(b, h, &Memory{})
	again := benchRun(b, h, &first.Memory)
	b.ReportAllocs()
	for b.Loop() {
		v := Decide(Judge(again.Seen, &benchSite, &first.Memory), &Policy{Brake: DefaultBrake}, Needs{Node: nodetest.Name}, again.Seen.Mounts.Value)
		if !v.Healthy() {
			b.Fatalf("found %q", found(&v))
		}
	}
}

// BenchmarkMemory is what the last run left, read and written again.
func BenchmarkMemory(b *testing.B) {
	h, _ := largeNode(b)
	memory := benchRun(b, h, &Memory{}).Memory
	text, err := json.Marshal(memory)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var m Memory
		if err := json.Unmarshal(text, &m); err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(m); err != nil {
			b.Fatal(err)
		}
	}
}

package collect

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"ioguard/host"
	"ioguard/lfs"
)

const recordMachine = `
-- oss1/1795243432.950/proc/stat --
cpu  1 2 3 4
-- oss1/1795243432.950/proc/pressure/io --
some avg10=0.00
-- oss1/1795243432.950/proc/fs/lustre/obdfilter/fs-OST0000/job_stats --
job_stats:
- job_id:          "1234:0:node"
-- oss1/1795243432.950/proc/fs/lustre/lod/fs-MDT0000-mdtlov/pools/ssd --
fs-OST0000_UUID
-- oss1/1795243432.950/sys/fs/lustre/version --
2.17.0
-- oss1/1795243432.950/sys/fs/lustre/osd-zfs/fs-OST0000/mntdev --
pool0/ost0
-- oss1/1795243432.950/sys/kernel/debug/lustre/obdfilter/fs-OST0000/exports/10.0.0.1@o2ib/stats --
snapshot_time 1.2 secs.nsecs
-- oss1/1795243432.950/sys/kernel/debug/lustre/osc/fs-OST0000-osc-MDT0000/import --
import:
-- oss1/1795243432.950/sys/kernel/debug/lustre/mds/MDS/mdt/nrs_tbf_rule --
regular_requests:
-- oss1/1795243432.950/sys/block/sda/queue/rotational --
1
-- oss1/1795243432.950/commands/zpool_status/cmd --
zpool status -P
-- oss1/1795243432.950/commands/zpool_status/stdout --
  pool: pool0
-- oss1/1795243432.950/commands/zpool_status/stderr --
-- oss1/1795243432.950/commands/zpool_status/status --
0
-- oss1/1795243432.950/commands/lctl_dl/cmd --
lctl dl
-- oss1/1795243432.950/commands/lctl_dl/stdout --
  0 UP mgs
-- oss1/1795243432.950/commands/lctl_dl/stderr --
opening /dev/obd failed
-- oss1/1795243432.950/commands/lctl_dl/status --
2
`

func recordTestMachine(t *testing.T) *host.Host {
	t.Helper()
	h, err := host.Txtar([]byte(recordMachine))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// contents maps every file of a machine to its text.
func contents(t *testing.T, fsys fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func recordInto(t *testing.T, out string, h *host.Host, opts RecordOptions) RecordReport {
	t.Helper()
	w, err := CreateRecording(out)
	if err != nil {
		t.Fatal(err)
	}
	report, err := Record(context.Background(), h, w, opts)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRecordRoundTrip(t *testing.T) {
	for _, name := range []string{"out", "out.tar.zst"} {
		t.Run(name, func(t *testing.T) {
			h := recordTestMachine(t)
			out := filepath.Join(t.TempDir(), name)
			report := recordInto(t, out, h, RecordOptions{Count: 1})
			r, err := host.OpenRecording(out)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if p := r.Problems(); len(p) > 0 {
				t.Errorf("problems %q", p)
			}
			l := r.Snapshots("oss1")
			if len(l) != 1 || !l[0].Time.Equal(h.Time) {
				t.Fatalf("snapshots %v, want one at %v", l, h.Time)
			}
			want := contents(t, h.FS)
			got := contents(t, r.Machine(l[0]).FS)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if report.Files != len(want) || report.LustreFiles != 7 || len(report.LeftOut) > 0 {
				t.Errorf("report %+v of %d files", report, len(want))
			}
			if _, err := r.Machine(l[0]).Run(context.Background(), "lctl", "dl"); err == nil {
				t.Error("the failure of lctl dl was lost")
			}
			modes(t, out)
			if _, err := CreateRecording(out); !errors.Is(err, fs.ErrExist) {
				t.Errorf("existing OUT: %v", err)
			}
			again, err := host.OpenMachine(out)
			if err != nil {
				t.Fatal(err)
			}
			again.Close()
		})
	}
}

// modes checks that only the owner may read what names users.
func modes(t *testing.T, out string) {
	t.Helper()
	err := filepath.WalkDir(out, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil && st.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", name, st.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever ioguard reads of Lustre must be in a recording, in every release's place.
func TestRecordTakesWhatIsRead(t *testing.T) {
	files := fstest.MapFS{}
	for _, p := range lfs.Params() {
		if p.Name == "exports" {
			continue // folders
		}
		for _, pattern := range p.Paths {
			name := strings.ReplaceAll(strings.ReplaceAll(pattern, "osd-*", "osd-zfs"), "*", "x")
			files[name] = &fstest.MapFile{Data: []byte(name)}
		}
	}
	for _, name := range []string{
		"proc/stat", "proc/diskstats", "proc/loadavg", "proc/meminfo", "proc/uptime", "proc/mounts", "proc/version",
		"proc/pressure/io", "sys/block/sda/queue/rotational", "sys/block/sda/size",
		"sys/kernel/debug/lustre/osc/x/import", "proc/fs/lustre/mdc/x/import", "proc/fs/lustre/ost/OSS/ost_io/nrs_tbf_rule",
		"sys/fs/lustre/jobid_var", "sys/fs/lustre/jobid_name",
	} {
		files[name] = &fstest.MapFile{Data: []byte(name)}
	}
	delete(files, "sys/kernel/debug/lustre/obdfilter/x/exports")
	w := &memoryWriter{}
	if _, err := Record(context.Background(), &host.Host{Name: "h", FS: files, Time: time.Unix(1, 0)}, w, RecordOptions{}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for name := range files {
		want = append(want, name)
	}
	slices.Sort(want)
	slices.Sort(w.files)
	if d := cmp.Diff(want, w.files); d != "" {
		t.Error(d)
	}
}

// memoryWriter remembers names and times.
type memoryWriter struct {
	files []string
	begun []time.Time
	ended int
	note  string
	fail  error
}

func (w *memoryWriter) Begin(s host.Snapshot) error { w.begun = append(w.begun, s.Time); return nil }
func (w *memoryWriter) End() error                  { w.ended++; return nil }
func (w *memoryWriter) Note(_ string, b []byte) error {
	w.note = string(b)
	return nil
}
func (w *memoryWriter) File(name string, _ []byte) error {
	w.files = append(w.files, name)
	return w.fail
}

// troubled is a machine some files of which cannot be had.
type troubled struct{ fstest.MapFS }

func (f troubled) Open(name string) (fs.File, error) {
	switch {
	case strings.HasPrefix(name, "sys/kernel/debug/"), strings.HasSuffix(name, "/health_check"):
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	case strings.HasSuffix(name, "OST0001/job_stats"):
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case strings.HasSuffix(name, "/nrs_tbf_rule"):
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.ENODEV}
	}
	return f.MapFS.Open(name)
}

// Stat sees what Open then does not get.
func (f troubled) Stat(name string) (fs.FileInfo, error) { return f.MapFS.Stat(name) }

func (f troubled) ReadDir(name string) ([]fs.DirEntry, error) {
	if strings.HasPrefix(name, "sys/kernel/debug/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	return f.MapFS.ReadDir(name)
}

func TestRecordSaysWhatIsMissing(t *testing.T) {
	h := &host.Host{Name: "oss1", Time: time.Unix(1, 0), ReadLimit: 100, FS: troubled{fstest.MapFS{
		"proc/stat": {Data: []byte("cpu")}, "sys/fs/lustre/health_check": {},
		"proc/mounts": {Data: make([]byte, 101)},
		"proc/fs/lustre/obdfilter/fs-OST0000/job_stats":   {},
		"proc/fs/lustre/obdfilter/fs-OST0001/job_stats":   {},
		"proc/fs/lustre/ost/OSS/ost_io/nrs_tbf_rule":      {},
		"sys/kernel/debug/lustre/obdfilter/fs-OST0000/st": {},
	}}}
	h.Run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
		if name == "zpool" {
			return nil, &host.CommandError{Command: "zpool", Status: -1, TimedOut: true, Err: context.DeadlineExceeded}
		}
		return nil, fs.ErrNotExist
	}
	w := &memoryWriter{}
	report, err := Record(context.Background(), h, w, RecordOptions{Count: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"proc/fs/lustre/obdfilter/fs-OST0000/job_stats", "proc/stat"}; !slices.Equal(w.files, want) {
		t.Errorf("recorded %q, want %q", w.files, want)
	}
	for _, want := range []string{
		"left out, larger than 100 B: 1 time, such as proc/mounts\n",
		"left out, vanished while being read: 1 time, such as proc/fs/lustre/obdfilter/fs-OST0001/job_stats\n",
		"left out, no such device: 1 time, such as proc/fs/lustre/ost/OSS/ost_io/nrs_tbf_rule\n",
		"left out, no answer in time: 1 time, such as zpool status -P\n",
		"sys/fs/lustre/health_check", "; root may read them\n", "sys/kernel/debug/lustre",
	} {
		if !strings.Contains(w.note, want) {
			t.Errorf("the note lacks %q:\n%s", want, w.note)
		}
	}
	if strings.Contains(w.note, "lctl") {
		t.Errorf("a command that is not there is no trouble:\n%s", w.note)
	}
	if strings.Join(report.Lines(), "\n")+"\n" != w.note {
		t.Errorf("report %q is not the note %q", report.Lines(), w.note)
	}
}

func liveMachine() *host.Host {
	return &host.Host{Name: "oss1", FS: fstest.MapFS{"proc/stat": {Data: []byte("cpu")}}}
}

// Snapshots start at their ticks, however long one takes.
func TestRecordTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := liveMachine(), &memoryWriter{}
		asked := 0
		h.Run = func(context.Context, string, ...string) ([]byte, error) {
			asked++
			time.Sleep(200 * time.Millisecond)
			return nil, nil
		}
		begin := time.Now()
		report, err := Record(t.Context(), h, w, RecordOptions{Interval: 2 * time.Second, Count: 40})
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range w.begun {
			if d := at.Sub(begin); d != time.Duration(i)*2*time.Second {
				t.Fatalf("snapshot %d starts after %v", i, d)
			}
		}
		if report.Snapshots != 40 || report.Late != 0 || !report.Repeated {
			t.Errorf("report %+v", report)
		}
		if asked != 2*len(recordCommands) { // 78 seconds
			t.Errorf("%d commands were run, want each twice", asked)
		}
	})
}

// An interrupt lets the snapshot at hand end and is no error.
func TestRecordInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := liveMachine(), &memoryWriter{}
		ctx, cancel := context.WithCancel(t.Context())
		h.Run = func(ctx context.Context, _ string, _ ...string) ([]byte, error) {
			if w.ended == 2 {
				cancel()
			}
			return []byte("x"), ctx.Err()
		}
		report, err := Record(ctx, h, w, RecordOptions{Interval: time.Minute, Count: 0})
		if err != nil || report.Snapshots != 3 || w.ended != 3 || w.note == "" {
			t.Errorf("report %+v, %v, note %q", report, err, w.note)
		}
	})
}

// A command that hangs is asked once only.
func TestRecordStuckCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, w := liveMachine(), &memoryWriter{}
		asked := 0
		h.Run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
			asked++
			<-ctx.Done()
			return nil, &host.CommandError{Command: name, Status: -1, TimedOut: true, Err: ctx.Err()}
		}
		report, err := Record(t.Context(), h, w, RecordOptions{Interval: time.Minute, Count: 5})
		if err != nil || asked != len(recordCommands) || report.Snapshots != 5 {
			t.Errorf("asked %d times, %d snapshots, %v", asked, report.Snapshots, err)
		}
	})
}

func TestRecordRefuses(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	bad := errors.New("disk full")
	for _, tt := range []struct {
		name string
		ctx  context.Context
		h    *host.Host
		w    *memoryWriter
		opts RecordOptions
		want string
	}{
		{"host name", nil, &host.Host{Name: "a/b", FS: fstest.MapFS{}}, nil, RecordOptions{Count: 1}, `host name "a/b"`},
		{"dots", nil, &host.Host{Name: "..", FS: fstest.MapFS{}}, nil, RecordOptions{Count: 1}, `host name ".."`},
		{"no interval", nil, liveMachine(), nil, RecordOptions{Count: 2}, "not positive"},
		{"nothing", nil, &host.Host{Name: "h", FS: fstest.MapFS{"etc/x": {}}}, nil, RecordOptions{Count: 1}, "nothing of what ioguard reads"},
		{"ended", ended, liveMachine(), nil, RecordOptions{Count: 1}, "canceled"},
		{"full", nil, liveMachine(), &memoryWriter{fail: bad}, RecordOptions{Count: 1}, "disk full"},
	} {
		if tt.ctx == nil {
			tt.ctx = context.Background()
		}
		if tt.w == nil {
			tt.w = &memoryWriter{}
		}
		_, err := Record(tt.ctx, tt.h, tt.w, tt.opts)
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.w.ended > 0 {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// writeSnapshots writes n whole snapshots and begins one more.
func writeSnapshots(t *testing.T, w RecordingWriter, n int) {
	t.Helper()
	for i := range n + 1 {
		err := w.Begin(host.Snapshot{Host: "h", Time: time.Unix(int64(100+i), 0)})
		for j := range 20 {
			err = errors.Join(err, w.File(fmt.Sprintf("proc/fs/lustre/obdfilter/%d/job_stats", j), []byte(strings.Repeat("x", 5000))))
		}
		if i < n {
			err = errors.Join(err, w.End())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A recorder that is killed leaves its whole snapshots, one on a full disk too.
func TestRecordKilled(t *testing.T) {
	for _, name := range []string{"out", "out.tar.zst"} {
		for _, closed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s closed %v", name, closed), func(t *testing.T) {
				out := filepath.Join(t.TempDir(), name)
				w, err := CreateRecording(out)
				if err != nil {
					t.Fatal(err)
				}
				writeSnapshots(t, w, 3)
				if closed {
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
				} else {
					defer w.Close()
				}
				r, err := host.OpenRecording(out)
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				if n := len(r.Snapshots("h")); n != 3 {
					t.Errorf("%d snapshots, want the 3 whole ones; problems %q", n, r.Problems())
				}
				if p := r.Problems(); closed && len(p) > 0 {
					t.Errorf("problems %q", p)
				}
			})
		}
	}
}

func TestRecordNothing(t *testing.T) {
	for _, name := range []string{"out", "out.tar.zst"} {
		out := filepath.Join(t.TempDir(), name)
		w, err := CreateRecording(out)
		if err != nil {
			t.Fatal(err)
		}
		writeSnapshots(t, w, 0)
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s without a snapshot stays: %v", name, err)
		}
	}
	if _, err := CreateRecording(filepath.Join(t.TempDir(), "no/such/out")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing parent: %v", err)
	}
}

// Other tools must read the archive too: names, and the bytes of a plain tar.
func TestRecordArchiveIsPlainTar(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.tar.zst")
	recordInto(t, out, recordTestMachine(t), RecordOptions{Count: 1})
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	tr, notes := tar.NewReader(z), 0
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Mode != 0o600 || path.Clean(h.Name) != h.Name || !strings.HasPrefix(h.Name, "oss1/") {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
		if h.Name == "oss1/NOTE" {
			notes++
		}
	}
	if notes != 1 {
		t.Errorf("%d notes", notes)
	}
}

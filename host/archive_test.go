package host

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"

	"ioguard"
)

type entry struct {
	name, text string
	kind       byte // 0 is a file
}

// tarOf makes a tar; without the end mark where a recorder was killed.
func tarOf(t testing.TB, end bool, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Size: int64(len(e.text)), Mode: 0o600}
		if e.kind != 0 {
			h.Typeflag, h.Linkname = e.kind, e.text
			h.Size = 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if end {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func zst(t testing.TB, b []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return w.EncodeAll(b, nil)
}

func inFile(t *testing.T, name string, b []byte) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// noise does not compress, so that a cut in the archive is a cut in its content.
func noise(seed uint64, size int) string {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(seed)})
	_, _ = r.Read(b)
	return string(b)
}

func threeSnapshots(size int) []entry {
	var all []entry
	for i := range 3 {
		dir := fmt.Sprintf("./top/oss1/%d.000/", 100+i)
		all = append(all,
			entry{dir, "", tar.TypeDir},
			entry{dir + "proc/stat", fmt.Sprintf("cpu %d\n", i), 0},
			entry{dir + "proc/fs/lustre/obdfilter/fs-OST0000/job_stats", noise(uint64(i), size), 0},
			entry{dir + "proc/uptime", "1 1\n", 0})
	}
	return append(all, entry{"./top/labels.json", "{}", 0}, entry{"./top/oss1.recorder.log", "x", 0})
}

func TestOpenRecordingArchive(t *testing.T) {
	whole := tarOf(t, true, threeSnapshots(1000)...)
	for _, name := range []string{inFile(t, "a.tar", whole), inFile(t, "a.tar.zst", zst(t, whole)), inFile(t, "misnamed", zst(t, whole))} {
		r, err := OpenRecording(name)
		if err != nil {
			t.Fatal(err)
		}
		if p := r.Problems(); len(p) > 0 {
			t.Errorf("problems %q", p)
		}
		if l := r.Snapshots("oss1"); !slices.Equal(r.Hosts(), []string{"oss1"}) || len(l) != 3 || l[0].Dir() != "oss1/100.000" {
			t.Errorf("hosts %q, snapshots %v", r.Hosts(), l)
		}
		h := r.Machine(r.Snapshots("oss1")[1])
		if b, err := h.ReadFile("proc/fs/lustre/obdfilter/fs-OST0000/job_stats"); err != nil || string(b) != noise(1, 1000) {
			t.Errorf("job_stats: %d bytes, %v", len(b), err)
		}
		if err := fstest.TestFS(h.FS, "proc/stat", "proc/uptime"); err != nil {
			t.Error(err)
		}
		if b, err := r.Labels(); err != nil || string(b) != "{}" {
			t.Errorf("labels %q, %v", b, err)
		}
		absent := r.Machine(Snapshot{Host: "nobody"})
		if _, err := absent.ReadFile("proc/stat"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("an absent machine gives %v", err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLabelsMissing(t *testing.T) {
	r, err := OpenRecording(inFile(t, "a.tar", tarOf(t, true, entry{"h/1/proc/stat", "x", 0})))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := r.Labels(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("labels %q, %v", b, err)
	}
}

// A cut archive keeps its whole snapshots and says what it lost.
func TestCutArchive(t *testing.T) {
	whole := tarOf(t, true, threeSnapshots(300<<10)...)
	for _, tt := range []struct {
		name string
		data []byte
	}{
		{"in a file of a tar", whole[:2*len(whole)/3+100<<10]},
		{"in a file of a zst", zst(t, whole)[:len(whole)*5/6]},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := inFile(t, "a.tar.zst", tt.data)
			r, err := OpenRecording(name)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if n := len(r.Snapshots("oss1")); n != 2 {
				t.Errorf("%d snapshots, want the 2 whole ones", n)
			}
			p := strings.Join(r.Problems(), "\n")
			if !strings.Contains(p, "cut short") || !strings.Contains(p, "top/oss1/102.000 is incomplete") {
				t.Errorf("problems %q", p)
			}
			if h, err := OpenMachine(name); err == nil {
				t.Errorf("a cut archive of several is machine %s", h.Name)
			}
		})
	}
	one := tarOf(t, true, threeSnapshots(300 << 10)[:4]...)
	name := inFile(t, "one.tar", one[:len(one)/2])
	if r, err := OpenRecording(name); err == nil || !strings.Contains(err.Error(), "no whole snapshot") {
		t.Errorf("half a snapshot is %v, %v", r, err)
	}
	if h, err := OpenMachine(name); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("half a snapshot is machine %v, %v", h, err)
	}
}

func TestArchiveWithoutEndMark(t *testing.T) {
	open := tarOf(t, false, threeSnapshots(300 << 10)[:8]...) // two snapshots
	for _, tt := range []struct {
		data []byte
		want int
	}{{zst(t, open), 2}, {open, 1}} { // a frame of zstd that ends is whole, a tar may have lost its rest
		r, err := OpenRecording(inFile(t, "a", tt.data))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(r.Snapshots("oss1")); n != tt.want || !strings.Contains(strings.Join(r.Problems(), " "), "no end mark") {
			t.Errorf("%d snapshots, want %d; problems %q", n, tt.want, r.Problems())
		}
		r.Close()
	}
}

func TestOpenRecordingRefuses(t *testing.T) {
	ok := entry{"h/1/proc/stat", "x", 0}
	damaged := zst(t, tarOf(t, true, threeSnapshots(300<<10)...))
	damaged[100] ^= 0xff
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"traversal", tarOf(t, true, ok, entry{"h/1/../../../../etc/passwd", "x", 0}), "leads out of the archive"},
		{"absolute", tarOf(t, true, ok, entry{"/etc/passwd", "x", 0}), "leads out of the archive"},
		{"symlink", tarOf(t, true, ok, entry{"h/1/proc/x", "/etc/passwd", tar.TypeSymlink}), "symbolic link"},
		{"hard link", tarOf(t, true, ok, entry{"h/1/proc/x", "h/1/proc/stat", tar.TypeLink}), "hard link"},
		{"fifo", tarOf(t, true, ok, entry{"h/1/proc/x", "", tar.TypeFifo}), "FIFO"},
		{"device", tarOf(t, true, ok, entry{"h/1/proc/x", "", tar.TypeChar}), "device"},
		{"deep", tarOf(t, true, ok, entry{strings.Repeat("a/", 70) + "x", "", 0}), "too deep"},
		{"long", tarOf(t, true, ok, entry{strings.Repeat("a", 5000), "", 0}), "too long"},
		{"file and folder", tarOf(t, true, ok, entry{"h/1/proc/stat/x", "", 0}), "both a file and a folder"},
		{"gzip", []byte("\x1f\x8b\x08\x00"), "gzip"},
		{"text", []byte(strings.Repeat("no archive\n", 100)), "not a tar archive"},
		{"short text", []byte("hello\n"), "not a tar archive"},
		{"empty", nil, "empty"},
		{"bad zstd", append([]byte{0x28, 0xb5, 0x2f, 0xfd}, "xxxxxxxxxxxxxxxx"...), "not a tar archive"},
		{"damaged zstd", damaged, ""},
		{"no recording", tarOf(t, true, entry{"a/b/c", "x", 0}), "no snapshot"},
		{"one machine", tarOf(t, true, entry{"proc/stat", "x", 0}), "one machine"},
		{"two recordings", tarOf(t, true, entry{"a/h/1/x", "", 0}, entry{"b/h/1/x", "", 0}), "several recordings"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := inFile(t, "x.tar.zst", tt.data)
			r, err := OpenRecording(name)
			if err == nil {
				r.Close()
				t.Fatalf("it is opened, with %v", r.Snapshots("h"))
			}
			var hint *ioguard.HintError
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), name) || !errors.As(err, &hint) {
				t.Errorf("error %q, want %q, the file and a hint", err, tt.want)
			}
		})
	}
	missing := filepath.Join(t.TempDir(), "nosuch")
	if _, err := OpenRecording(missing); !errors.Is(err, fs.ErrNotExist) || strings.Count(err.Error(), missing) != 1 {
		t.Errorf("missing file: %v", err)
	}
}

func TestArchiveLimit(t *testing.T) {
	name := inFile(t, "a.tar.zst", zst(t, tarOf(t, true, entry{"h/1/proc/x", strings.Repeat("0", 1<<20), 0})))
	if a, err := openArchive(name, 1<<20); !errors.Is(err, errArchiveLimit) || !strings.Contains(err.Error(), "1048576 bytes") {
		t.Errorf("openArchive = %v, %v", a, err)
	}
	a, err := openArchive(name, 2<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if n := unlinked(t, a); n != 0 {
		t.Errorf("the unpacked file has %d names", n)
	}
}

// unlinked looks for the unpacked file in the temporary folder.
func unlinked(t *testing.T, a *archive) int {
	if _, err := os.Stat(a.data.Name()); err == nil {
		return 1
	}
	return 0
}

// Of two files with one name the later counts, as when tar unpacks them.
func TestArchiveLaterWins(t *testing.T) {
	h, err := OpenMachine(inFile(t, "a.tar", tarOf(t, true, entry{"proc/stat", "old", 0}, entry{"./proc//stat", "new", 0})))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if b, err := h.ReadFile("proc/stat"); err != nil || string(b) != "new" {
		t.Errorf("proc/stat = %q, %v", b, err)
	}
}

func TestUnixTime(t *testing.T) {
	for _, tt := range []struct {
		in, out string
		ok      bool
	}{
		{"1795243432.950", "h/1795243432.950", true}, {"1795243432", "h/1795243432.000", true},
		{"1.123456789", "h/1.123456789", true}, {"0", "h/0.000", true},
		{"", "", false}, {".5", "", false}, {"1.", "", false}, {"-1", "", false}, {"1e9", "", false}, {"1.2.3", "", false},
		{"1234567890123", "", false}, {"1.1234567890", "", false}, {"+1", "", false},
	} {
		at, ok := parseUnixTime(tt.in)
		if ok != tt.ok || ok && (Snapshot{"h", at}).Dir() != tt.out {
			t.Errorf("parseUnixTime(%q) = %v, %v, want %q", tt.in, at, ok, tt.out)
		}
	}
}

// memory is where fuzzing unpacks to.
type memory struct{ bytes.Buffer }

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(m.Bytes()).ReadAt(p, off)
}

func FuzzUnpack(f *testing.F) {
	whole := tarOf(f, true, threeSnapshots(100)...)
	f.Add(whole)
	f.Add(zst(f, whole))
	f.Add(whole[:len(whole)/2])
	f.Add(tarOf(f, true, entry{"../x", "y", 0}, entry{"a", "b", tar.TypeSymlink}))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := unpack(bytes.NewReader(b), &memory{}, 1<<20)
		if err != nil {
			return
		}
		r := &Recording{fsys: a.tree, problems: a.problems}
		_ = r.index("x", a.cutAfter)
		_, _ = oneMachine(a.tree, "x")
		err = fs.WalkDir(a.tree, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || !fs.ValidPath(name) {
				t.Errorf("walk %q: %v", name, err)
			}
			if !d.IsDir() {
				if _, err := fs.ReadFile(a.tree, name); err != nil {
					t.Errorf("read %q: %v", name, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func FuzzCommands(f *testing.F) {
	f.Add("lctl dl\n", "out", "0\n")
	f.Add(`lctl get_param -n "a b" 'c'`, "", "2")
	f.Add(`lctl "dl`, "", "unkillable (D state)")
	f.Add("lctl \\", "\x00", "-1")
	f.Fuzz(func(t *testing.T, cmd, stdout, status string) {
		fsys := fstest.MapFS{"proc/stat": {}}
		for name, text := range map[string]string{"cmd": cmd, "stdout": stdout, "status": status} {
			fsys["commands/x/"+name] = &fstest.MapFile{Data: []byte(text)}
		}
		h := recorded(Snapshot{"h", epoch}, fsys)
		words := commandWords(cmd)
		if len(words) == 0 {
			words = []string{"lctl", "dl"}
		}
		a, err := h.Command(t.Context(), words[0], words[1:]...)
		if (err == nil) != (a.Status == 0) {
			t.Errorf("status %d with error %v", a.Status, err)
		}
		if err == nil && string(a.Stdout) != stdout {
			t.Errorf("stdout %q, recorded %q", a.Stdout, stdout)
		}
	})
}

func FuzzTxtar(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte("-- ../x --\n-- a/../b --\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Txtar(b)
		if err == nil && (h.Time.IsZero() || h.FS == nil) {
			t.Errorf("machine %+v looks live", h)
		}
	})
}

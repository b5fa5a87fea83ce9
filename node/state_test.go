package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// nobody is a uid that is not ours.
const nobody = 65534

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("root alone gives files away")
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB) *State {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "state"))
	check(t, err)
	return s
}

// mode makes a folder with exactly these permissions.
func mode(t *testing.T, dir string, m fs.FileMode) string {
	t.Helper()
	check(t, os.MkdirAll(dir, 0o755))
	check(t, os.Chmod(dir, m))
	return dir
}

func TestOpen(t *testing.T) {
	needsRoot(t)
	theirs := func(t *testing.T, name string) { check(t, os.Lchown(name, nobody, nobody)) }
	tests := []struct {
		name string
		make func(t *testing.T, dir string) string // gives the state directory
		err  string
	}{
		{"new", func(_ *testing.T, d string) string { return d + "/a/b" }, ""},
		{"there", func(t *testing.T, d string) string { return mode(t, d+"/a", 0o700) }, ""},
		{"our link", func(t *testing.T, d string) string {
			mode(t, d+"/a", 0o755)
			check(t, os.Symlink("a", d+"/link"))
			return d + "/link"
		}, ""},
		{"below a shared folder that is sticky", func(t *testing.T, d string) string { return mode(t, d+"/tmp", 0o777|fs.ModeSticky) + "/a" }, ""},
		{"relative", func(*testing.T, string) string { return "state" }, "no absolute path"},
		{"empty", func(*testing.T, string) string { return "" }, "no absolute path"},
		{"another's", func(t *testing.T, d string) string {
			theirs(t, mode(t, d+"/a", 0o755))
			return d + "/a"
		}, "must be a directory of uid 0"},
		{"a link to another's", func(t *testing.T, d string) string {
			theirs(t, mode(t, d+"/a", 0o755))
			check(t, os.Symlink("a", d+"/link"))
			return d + "/link"
		}, "must be a directory of uid 0"},
		{"another's link to ours", func(t *testing.T, d string) string {
			mode(t, d+"/a", 0o755)
			check(t, os.Symlink(d+"/a", d+"/link"))
			theirs(t, d+"/link")
			return d + "/link"
		}, "symbolic link of uid 65534"},
		{"below another's link", func(t *testing.T, d string) string {
			mode(t, d+"/a/state", 0o755)
			check(t, os.Symlink(d+"/a", d+"/link"))
			theirs(t, d+"/link")
			return d + "/link/state"
		}, "symbolic link of uid 65534"},
		{"the group writes", func(t *testing.T, d string) string { return mode(t, d+"/a", 0o775) }, "nobody else can write"},
		{"all write", func(t *testing.T, d string) string { return mode(t, d+"/a", 0o757) }, "nobody else can write"},
		{"all write above", func(t *testing.T, d string) string { return mode(t, d+"/a", 0o777) + "/state" }, "everybody can write"},
		{"all write above what a link leads to", func(t *testing.T, d string) string {
			mode(t, d+"/open/state", 0o755)
			mode(t, d+"/open", 0o777)
			check(t, os.Symlink(d+"/open/state", d+"/link"))
			return d + "/link"
		}, "everybody can write"},
		{"a file", func(t *testing.T, d string) string {
			check(t, os.WriteFile(d+"/a", nil, 0o600))
			return d + "/a"
		}, "must be a directory"},
		{"below a file", func(t *testing.T, d string) string {
			check(t, os.WriteFile(d+"/a", nil, 0o600))
			return d + "/a/b"
		}, "not a directory"},
		{"a loop", func(t *testing.T, d string) string {
			check(t, os.Symlink("loop", d+"/loop"))
			return d + "/loop"
		}, "open state directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := tt.make(t, t.TempDir())
			s, err := Open(dir)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				return
			}
			check(t, err)
			check(t, s.Save("x/y.json", 1))
		})
	}
}

func TestSaveLoad(t *testing.T) {
	s := open(t)
	type thing struct {
		Name  string
		Times map[string]time.Time
	}
	var got thing
	if err := s.Load("a/b.json", &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	want := thing{"n\n1", map[string]time.Time{"x": time.Unix(5, 0).UTC()}}
	check(t, s.Save("a/b.json", want))
	check(t, s.Load("a/b.json", &got))
	if got.Name != want.Name || !got.Times["x"].Equal(want.Times["x"]) {
		t.Errorf("got %+v", got)
	}
	if st, err := os.Stat(s.Dir("a/b.json")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	check(t, s.Forget("a/b.json"))
	check(t, s.Forget("a/b.json"))
	if err := s.Load("a/b.json", &got); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("forgotten: %v", err)
	}
	if err := s.Save("c.json", func() {}); err == nil {
		t.Error("a function was saved")
	}
	if err := s.Save("d.json", strings.Repeat("x", maxFile)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("too large: %v", err)
	}
	if left, _ := filepath.Glob(s.Dir("*/" + newPrefix + "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestNames: nothing outside the state directory is read, written or removed.
func TestNames(t *testing.T) {
	s := open(t)
	outside := filepath.Join(filepath.Dir(s.Dir("")), "outside.json")
	check(t, os.WriteFile(outside, []byte("1"), 0o600))
	for _, name := range []string{"../outside.json", "nodes/../../outside.json", outside, "", ".", "a//b", "a/./b", "a\xff"} {
		var n int
		if s.Save(name, 2) == nil || s.Load(name, &n) == nil || s.Forget(name) == nil {
			t.Errorf("%q was taken", name)
		}
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "1" {
		t.Errorf("outside: %q, %v", b, err)
	}
}

func TestLoadBad(t *testing.T) {
	s := open(t)
	dir := s.Dir("")
	files := map[string]string{"garbage.json": "\x00{", "half.json": `{"job_id": "1`, "empty.json": "", "other.json": `["x"]`, "large.json": strings.Repeat(" ", maxFile+1)}
	for name, text := range files {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	check(t, os.WriteFile(filepath.Join(dir, "good"), []byte(`{"job_id": "1"}`), 0o600))
	check(t, os.Symlink("good", filepath.Join(dir, "link.json")))
	check(t, os.Mkdir(filepath.Join(dir, "dir.json"), 0o700))
	fifo(t, filepath.Join(dir, "fifo.json"))
	names := []string{"link.json", "dir.json", "fifo.json"}
	for name := range files {
		names = append(names, name)
	}
	for _, name := range names {
		var j Job
		if err := s.Load(name, &j); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, %+v", name, err, j)
		}
	}
	if os.Geteuid() == 0 {
		check(t, os.Chown(filepath.Join(dir, "good"), nobody, nobody))
		var j Job
		if err := s.Load("good", &j); err == nil || !strings.Contains(err.Error(), "no plain file of uid 0") {
			t.Errorf("another's file: %v", err)
		}
	}
}

// TestReplacedWhole: who reads while others write finds one of the versions, always.
func TestReplacedWhole(t *testing.T) {
	s := open(t)
	type version struct {
		Number int
		Text   string
	}
	check(t, s.Save("n/x.json", version{}))
	const writers, rounds = 4, 50
	var wg, readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				var v version
				if err := s.Load("n/x.json", &v); err != nil || v.Text != strings.Repeat("x", v.Number*1000) {
					t.Errorf("torn: %d, %d bytes, %v", v.Number, len(v.Text), err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				n := (w*rounds + i) % 37
				if err := s.Save("n/x.json", version{n, strings.Repeat("x", n*1000)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	close(done)
	readers.Wait()
	if entries, err := os.ReadDir(s.Dir("n")); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestUmask: users get through to what is theirs, however careful root's shell was.
func TestUmask(t *testing.T) {
	s, name := underUmask(t, 0o077, func() (*State, string) {
		s := open(t)
		check(t, s.SaveTask("n1", "1", 0, Task{}))
		return s, s.Dir("tasks")
	})
	for _, dir := range []string{s.Dir(""), name} {
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm()&0o001 == 0 {
			t.Errorf("%s: %v, %v", dir, st.Mode(), err)
		}
	}
}

package host

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// filesIn lists the plain files below a folder with their text.
func filesIn(t *testing.T, root string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			t.Errorf("%s is no plain file", name)
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		found[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// dirOf gives what Dir copied, and checks that done leaves nothing behind.
func dirOf(t *testing.T, h *Host, name string) map[string]string {
	t.Helper()
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	root, done, err := h.Dir(name)
	if err != nil {
		t.Fatal(err)
	}
	got := filesIn(t, root)
	done()
	checkEmpty(t, temp)
	return got
}

func checkEmpty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDirOfTxtar(t *testing.T) {
	h := mustTxtar(t, "-- proc/stat --\ncpu\n-- sys/class/infiniband/a/ports/1/state --\n4: ACTIVE\n-- sys/class/infiniband/b/fw_ver --\n-- sys/class/net/ib0/mtu --\n1\n")
	want := map[string]string{"sys/class/infiniband/a/ports/1/state": "4: ACTIVE\n", "sys/class/infiniband/b/fw_ver": ""}
	if diff := cmp.Diff(want, dirOf(t, h, "sys/class/infiniband")); diff != "" {
		t.Error(diff)
	}
}

func TestDirOfArchive(t *testing.T) {
	packed := zst(t, tarOf(t, true, entry{name: "client/1795246371/sys/class/a/b", text: "b"},
		entry{name: "client/1795246371/proc/stat", text: "cpu"}))
	h, err := OpenMachine(inFile(t, "m.tar.zst", packed))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if diff := cmp.Diff(map[string]string{"sys/class/a/b": "b"}, dirOf(t, h, "sys")); diff != "" {
		t.Error(diff)
	}
}

// A recorded folder may come from anybody: nothing outside of it is copied, and
// neither a FIFO nor a loop of symlinks holds the copy up.
func TestDirOfFolderStaysInside(t *testing.T) {
	top := t.TempDir()
	secret := filepath.Join(top, "secret")
	machine := filepath.Join(top, "m")
	class := filepath.Join(machine, "sys/class/infiniband")
	device := filepath.Join(machine, "sys/devices/mlx5_0")
	for _, d := range []string{class, filepath.Join(device, "ports/1"), filepath.Join(machine, "proc"), secret} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(secret, "key"), []byte("secret"), 0o644),
		os.WriteFile(filepath.Join(device, "ports/1/state"), []byte("4: ACTIVE\n"), 0o644),
		syscall.Mkfifo(filepath.Join(device, "fw_ver"), 0o644),
		os.Symlink("../../devices/mlx5_0", filepath.Join(class, "mlx5_0")), // as sysfs has it
		os.Symlink(".", filepath.Join(device, "loop")),
		os.Symlink(secret, filepath.Join(class, "outside")),
		os.Symlink("../../../../secret", filepath.Join(class, "dots")),
		os.Symlink(filepath.Join(secret, "key"), filepath.Join(class, "file")),
		os.Symlink("nowhere", filepath.Join(class, "dangling")),
		os.Symlink("../../../../../secret/key", filepath.Join(device, "key")))
	if err != nil {
		t.Fatal(err)
	}
	h, err := OpenMachine(machine)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	want := map[string]string{"sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n"}
	if diff := cmp.Diff(want, dirOf(t, h, "sys/class/infiniband")); diff != "" {
		t.Error(diff)
	}
}

func TestDirOfLiveMachine(t *testing.T) {
	root, done, err := Local().Dir("proc/self")
	if err != nil || root != "/" {
		t.Errorf("%q, %v", root, err)
	}
	done()
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Error(err)
	}
}

// sick is a tree of which one file and one folder cannot be read.
type sick struct{ fs.FS }

func (s sick) Open(name string) (fs.File, error) {
	if filepath.Base(name) == "eio" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EIO}
	}
	return s.FS.Open(name)
}

func TestDirLeavesOutWhatCannotBeRead(t *testing.T) {
	h := &Host{FS: sick{fstest.MapFS{
		"sys/a":     {Data: []byte("a")},
		"sys/b/eio": {Data: []byte("b")},
		"eio/x":     {Data: []byte("x")},
		"sys/z":     {Data: []byte("z")},
	}}}
	if diff := cmp.Diff(map[string]string{"sys/a": "a", "sys/z": "z"}, dirOf(t, h, "sys")); diff != "" {
		t.Error(diff)
	}
	if _, done, err := h.Dir("eio"); !errors.Is(err, syscall.EIO) || done == nil {
		t.Errorf("error %v", err)
	}
}

func TestDirErrors(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for name, tt := range map[string]struct {
		fsys fs.FS
		dir  string
		want error
	}{
		"missing":    {fstest.MapFS{}, "sys", fs.ErrNotExist},
		"live":       {os.DirFS("/"), "no/such/folder", fs.ErrNotExist},
		"not a path": {fstest.MapFS{}, "../sys", fs.ErrInvalid},
		"live dots":  {os.DirFS("/"), "../sys", fs.ErrInvalid},
	} {
		root, done, err := (&Host{FS: tt.fsys}).Dir(tt.dir)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || root != "" {
			t.Errorf("%s: %q, %v, want %v", name, root, err, tt.want)
		}
		done()
	}
	checkEmpty(t, temp)
}

func TestDirLimits(t *testing.T) {
	deep := "sys" + strings.Repeat("/d", maxDepth+2) + "/f"
	fsys := fstest.MapFS{"sys/a": {Data: []byte("12345")}, "sys/b": {Data: []byte("678")}, "sys/c": {}, deep: {}}
	for _, tt := range []struct {
		entries, bytes int64
		without        string
		want           error
	}{
		{3, 8, deep, nil},
		{2, 8, deep, errTooMuch},
		{3, 7, deep, errTooMuch},
		{3, 4, deep, errTooMuch},
		{1 << 16, 8, "", errTooMuch},
	} {
		tree := maps.Clone(fsys)
		delete(tree, tt.without)
		c := copier{from: Host{FS: tree}, entries: tt.entries, bytes: tt.bytes}
		if err := c.copy(t.TempDir(), "sys"); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if _, _, err := (&Host{FS: fsys}).Dir("sys"); !errors.Is(err, errTooMuch) {
		t.Errorf("err = %v", err)
	}
	checkEmpty(t, temp)
}

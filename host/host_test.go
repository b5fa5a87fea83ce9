package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"
)

const small = `
-- oss1/1795243432.950/proc/stat --
cpu  1 2 3 4
-- oss1/1795243432.950/proc/fs/lustre/obdfilter/fs-OST0000/job_stats --
job_stats:
-- oss1/1795243432.950/proc/fs/lustre/obdfilter/fs-OST0001/job_stats --
job_stats:
-- oss1/1795243432.950/proc/fs/lustre/obdfilter/fs-OST0001/exports/10.0.0.1@o2ib/stats --
snapshot_time 1.2 secs.nsecs
-- oss1/1795243432.950/proc/fs/lustre/version --
2.17.0
-- oss1/1795243432.950/commands/lctl_dl/cmd --
/usr/sbin/lctl dl
-- oss1/1795243432.950/commands/lctl_dl/stdout --
  0 UP osd-zfs fs-OST0000-osd fs-OST0000-osd_UUID 5
-- oss1/1795243432.950/commands/some/cmd --
lctl get_param -n 'osc.*.import' nosuch
-- oss1/1795243432.950/commands/some/stdout --
import:
-- oss1/1795243432.950/commands/some/stderr --
error: get_param: param_path 'nosuch': No such file or directory
-- oss1/1795243432.950/commands/some/status --
2
-- oss1/1795243432.950/commands/stuck/cmd --
lfs check servers
-- oss1/1795243432.950/commands/stuck/status --
unkillable (D state)
-- oss1/1795243432.950/commands/broken/cmd --
lctl "dl
`

func mustTxtar(t *testing.T, text string) *Host {
	t.Helper()
	h, err := Txtar([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestTxtar(t *testing.T) {
	h := mustTxtar(t, small)
	if h.Name != "oss1" || !h.Time.Equal(time.Unix(1795243432, 950e6)) {
		t.Errorf("machine %s at %v", h.Name, h.Time)
	}
	if err := fstest.TestFS(h.FS, "proc/stat", "proc/fs/lustre/obdfilter/fs-OST0001/exports/10.0.0.1@o2ib/stats"); err != nil {
		t.Error(err)
	}
	bare := mustTxtar(t, "-- proc/sys/kernel/hostname --\nmds2\n")
	if bare.Name != "mds2" || bare.Time.IsZero() {
		t.Errorf("bare machine %s at %v, which must not look live", bare.Name, bare.Time)
	}
	for _, bad := range []string{"", "-- ../proc/stat --\n", "-- /proc/stat --\n", "-- proc --\n-- proc/stat --\n",
		"-- a/1/proc/stat --\n-- a/2/proc/stat --\n", "-- a/1/proc/stat --\n-- b/1/proc/stat --\n"} {
		if h, err := Txtar([]byte(bad)); err == nil {
			t.Errorf("Txtar(%q) = %+v, want an error", bad, h)
		}
	}
}

func TestRunRecorded(t *testing.T) {
	h := mustTxtar(t, small)
	ctx := context.Background()
	for _, name := range []string{"lctl", "/opt/lustre/sbin/lctl"} {
		if out, err := h.Run(ctx, name, "dl"); err != nil || !strings.Contains(string(out), "UP osd-zfs") {
			t.Errorf("%s dl = %q, %v", name, out, err)
		}
	}

	out, err := h.Run(ctx, "lctl", "get_param", "-n", "osc.*.import", "nosuch")
	var ce *CommandError
	if !errors.As(err, &ce) || ce.Status != 2 || ce.TimedOut || string(out) != "import:\n" {
		t.Errorf("failing command = %q, %#v", out, err)
	}
	want := "run lctl get_param -n osc.*.import nosuch: exit status 2: error: get_param: param_path 'nosuch': No such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("error %q\nwant  %q", err, want)
	}

	if _, err = h.Run(ctx, "lfs", "check", "servers"); !errors.As(err, &ce) || !ce.TimedOut || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a command that never ended gives %v", err)
	}
	if _, err = h.Run(ctx, "lctl", "dl", "-t"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "was not recorded") {
		t.Errorf("a command that was not recorded gives %v", err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err = h.Run(gone, "lctl", "dl"); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context gives %v", err)
	}
}

func TestPermit(t *testing.T) {
	allowed := []string{
		"lctl get_param -n health_check", "lctl get_param -NFR *", "lctl dl", "lctl dl -t", "lctl list_nids",
		"lctl pool_list fs", "lctl --version", "lnetctl net show -v 4", "lnetctl stats show", "lfs df", "lfs df -i /mnt",
		"lfs getstripe -d -y /mnt/x", "lfs check servers", "squeue -h -o %i", "scontrol show job 12 -o",
		"scontrol -o show node", "scontrol --json show job 1", "scontrol --json=v0.0.40 show job 1", "sacct -j 12 -P",
		"sacctmgr -n -P show user", "zpool status -P", "zpool list -v", "zfs list -H -o name", "lsblk -J", "dmesg -T",
		"ip -o link", "ip link show eth1", "lctl ping 10.0.0.1@o2ib", "lctl ping fe80::a12:3@tcp3", "lctl ping 4@gni", "/opt/slurm/bin/squeue -h",
	}
	refused := []string{
		"lctl", "lctl set_param x=1", "lctl --device 3 deactivate", "lctl ping", "lctl ping --", "lctl ping NID", "lctl ping mgs1",
		"lctl ping 10.0.0.1", "lctl ping @o2ib", "lctl ping 10.0.0.1@", "lctl ping -1@o2ib", "lctl ping 10.0.0.1@o2ib 5", "lctl ping 10.0.0.1@o2ib 10.0.0.2@o2ib",
		"lctl ping 10.0.0.1@o2ib@tcp", "lctl ping 10.0.0.1@o2ib;reboot", "lctl ping --foo 10.0.0.1@o2ib", "lctl --foo ping 10.0.0.1@o2ib", "lctl dl x --foo",
		"lctl -n get_param x", "lnetctl net add --net tcp", "lnetctl net", "lnetctl peer del show", "lnetctl import", "lfs setstripe -c 1 x",
		"lfs migrate x", "lfs df=x setstripe", "scontrol update NodeName=n1 State=DRAIN", "scontrol -o update show", "scontrol requeue 1",
		"sacctmgr -i delete user x", "sacctmgr -i show user", "zpool status -c script", "zpool status -vc script", "zpool scrub tank",
		"zfs destroy tank/x", "dmesg -c", "dmesg -C", "dmesg -Tc", "ip link set eth1 down", "ip link eth1 down", "rm -rf x", "sh -c true",
		"squeuex", "./lctl/../rm x",
	}
	for _, line := range allowed {
		if w := strings.Fields(line); permit(w[0], w[1:]) != nil {
			t.Errorf("%q is refused", line)
		}
	}
	for _, line := range refused {
		w := strings.Fields(line)
		err := permit(w[0], w[1:])
		var re *RefusedError
		if !errors.As(err, &re) || re.Command != line {
			t.Errorf("%q gives %v, want it refused", line, err)
		}
	}
	// a recorded machine refuses what a live one would, though it holds an answer
	h := mustTxtar(t, "-- proc/stat --\n-- commands/x/cmd --\nlctl set_param a=1\n")
	var re *RefusedError
	if _, err := h.Run(context.Background(), "lctl", "set_param", "a=1"); !errors.As(err, &re) {
		t.Errorf("recorded set_param gives %v", err)
	}
}

func TestGlob(t *testing.T) {
	h := mustTxtar(t, small)
	for _, tt := range []struct {
		pattern string
		want    []string
	}{
		{"proc/stat", []string{"proc/stat"}},
		{"proc/fs/lustre/obdfilter/*/job_stats", []string{
			"proc/fs/lustre/obdfilter/fs-OST0000/job_stats", "proc/fs/lustre/obdfilter/fs-OST0001/job_stats"}},
		{"proc/fs/lustre/obd*/*/exports/*@o2ib/stats", []string{"proc/fs/lustre/obdfilter/fs-OST0001/exports/10.0.0.1@o2ib/stats"}},
		{"proc/fs/lustre/*/*", []string{"proc/fs/lustre/obdfilter/fs-OST0000", "proc/fs/lustre/obdfilter/fs-OST0001"}},
		{"proc/fs/lustre/*/*/nosuch", nil},
		{"proc/fs/lustre/version/*", nil},
		{"sys/*/x", nil},
		{"proc/fs/lustre/[v]ersion", []string{"proc/fs/lustre/version"}},
	} {
		got, err := h.Glob(tt.pattern)
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("Glob(%s) = %q, %v, want %q", tt.pattern, got, err, tt.want)
		}
	}
	for _, bad := range []string{"/proc/stat", "proc/[", "../x/*", ""} {
		if got, err := h.Glob(bad); err == nil {
			t.Errorf("Glob(%q) = %q, want an error", bad, got)
		}
	}
}

// forbidden answers as debugfs does to everybody but root.
type forbidden struct{ fs.FS }

func (f forbidden) Open(name string) (fs.File, error) {
	if strings.HasPrefix(name, "sys/kernel/debug/") {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES}
	}
	return f.FS.Open(name)
}

func TestForbiddenIsNotMissing(t *testing.T) {
	h := Host{FS: forbidden{fstest.MapFS{"proc/x": {}, "proc/y": {}}}}
	if got, err := h.Glob("sys/kernel/debug/lustre/*/*/stats"); !errors.Is(err, fs.ErrPermission) || len(got) > 0 {
		t.Errorf("Glob = %q, %v", got, err)
	}
	if _, err := h.ReadFile("sys/kernel/debug/x"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("ReadFile: %v", err)
	}
	if _, err := h.ReadFile("sys/kernel/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile: %v", err)
	}
	if _, err := h.Command(context.Background(), "lctl", "dl"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Command without Run: %v", err)
	}
}

// procFile reads like /proc: size 0, content by reading.
type procFS struct{ fstest.MapFS }

type procFile struct{ fs.File }
type procInfo struct{ fs.FileInfo }

func (procInfo) Size() int64 { return 0 }
func (f procFile) Stat() (fs.FileInfo, error) {
	st, err := f.File.Stat()
	return procInfo{st}, err
}
func (p procFS) Open(name string) (fs.File, error) {
	f, err := p.MapFS.Open(name)
	return procFile{f}, err
}

func TestReadFileLimit(t *testing.T) {
	files := fstest.MapFS{"a": {Data: []byte("12345")}, "d/e": {}}
	for _, fsys := range []fs.FS{files, procFS{files}} {
		h := Host{FS: fsys, ReadLimit: 5}
		if b, err := h.ReadFile("a"); err != nil || string(b) != "12345" {
			t.Errorf("%T: at the limit %q, %v", fsys, b, err)
		}
		h.ReadLimit = 4
		b, err := h.ReadFile("a")
		var se *SizeError
		if !errors.As(err, &se) || b != nil || se.Name != "a" || se.Limit != 4 {
			t.Errorf("%T: above the limit %q, %v", fsys, b, err)
		}
		if _, err := h.ReadFile("d"); !errors.Is(err, syscall.EISDIR) {
			t.Errorf("%T: a folder gives %v", fsys, err)
		}
	}
}

func TestLocal(t *testing.T) {
	h := Local()
	if !h.Time.IsZero() || h.Name == "" {
		t.Errorf("live machine %q at %v", h.Name, h.Time)
	}
	b, err := h.ReadFile("proc/self/stat")
	if err != nil || !strings.Contains(string(b), "host.test") {
		t.Errorf("proc/self/stat: %.40q, %v", b, err)
	}
	if h, err := OpenMachine("/"); err != nil || !h.Time.IsZero() {
		t.Errorf("OpenMachine(/) = %+v, %v", h, err)
	}
}

// hostile is a recorded machine with links out of it and a FIFO.
func hostile(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "rec", "oss1", "100.5")
	for _, d := range []string{"proc/fs", "sys"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(top, "secret"), "secret")
	write(filepath.Join(dir, "proc/stat"), "cpu 1\n")
	for link, to := range map[string]string{
		"proc/abs": filepath.Join(top, "secret"), "proc/rel": "../../../../secret", "proc/dir": "../../../..",
		"proc/good": "stat", "sys/fs": "../proc",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "proc/fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(top, "rec")
}

func TestFolderKeepsInside(t *testing.T) {
	rec := hostile(t)
	for _, name := range []string{rec, filepath.Join(rec, "oss1"), filepath.Join(rec, "oss1", "100.5")} {
		h, err := OpenMachine(name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if h.Name != "oss1" || !h.Time.Equal(time.Unix(100, 5e8)) {
			t.Errorf("%s is %s at %v", name, h.Name, h.Time)
		}
		for _, link := range []string{"proc/good", "sys/fs/stat"} {
			if b, err := h.ReadFile(link); err != nil || string(b) != "cpu 1\n" {
				t.Errorf("%s: %q, %v", link, b, err)
			}
		}
		for _, bad := range []string{"proc/abs", "proc/rel", "proc/dir/secret", "proc/fifo", "../100.5/proc/stat", "/proc/stat"} {
			if b, err := h.ReadFile(bad); err == nil {
				t.Errorf("%s gives %q", bad, b)
			}
		}
		if got, _ := h.Glob("proc/*/secret"); len(got) > 0 {
			t.Errorf("Glob leads to %q", got)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFolderFS(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "proc/fs/10.0.0.1@o2ib"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"proc/stat", "proc/fs/10.0.0.1@o2ib/a:b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := OpenMachine(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if err := fstest.TestFS(h.FS, "proc/stat", "proc/fs/10.0.0.1@o2ib/a:b"); err != nil {
		t.Error(err)
	}
}

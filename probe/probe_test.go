package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHealthy(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "new\nline \xff\xfe -n '\"$(x)")
	if err := os.Mkdir(odd, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, mount := range []string{"/", "/proc", t.TempDir(), t.TempDir() + "//", odd} {
		a := ask(t, site(t), mount)
		var fs unix.Statfs_t
		var st unix.Stat_t
		if err := errors.Join(unix.Statfs(mount, &fs), unix.Stat(mount, &st)); err != nil {
			t.Fatal(err)
		}
		if !a.OK || a.Shared || a.Took > deadline || a.Took < 0 || time.Since(a.Since) > time.Minute {
			t.Errorf("%q: %+v", mount, a)
		}
		if a.Seen.FSType != int64(fs.Type) || a.Seen.Device != uint64(st.Dev) || a.Seen.Inode != st.Ino {
			t.Errorf("%q: saw %+v, want type %#x device %d inode %d", mount, a.Seen, fs.Type, st.Dev, st.Ino)
		}
	}
}

// A good answer counts for a second; a probe that lives on as a zombie is buried.
func TestFresh(t *testing.T) {
	c, mount := site(t), t.TempDir()
	first, second := ask(t, c, mount), ask(t, c, mount+"/")
	if !second.OK || !second.Shared || second.PID != first.PID || second.Seen != first.Seen || !second.Since.Equal(first.Since) {
		t.Errorf("not shared: %+v\n%+v", first, second)
	}
	c.Fresh = -1
	third := ask(t, c, mount)
	if !third.OK || third.Shared || third.PID == first.PID {
		t.Errorf("shared: %+v", third)
	}
	c.Fresh = time.Minute
	if a := ask(t, c, mount+"/other"); !errors.Is(a.Err, unix.ENOENT) {
		t.Errorf("another mount: %+v", a)
	}
	eventually(t, "probes are buried", func() bool { return buried(first.PID) && buried(third.PID) })
}

// However many ask at once, few probes are started.
func TestManyAtOnce(t *testing.T) {
	c, mount := site(t), t.TempDir()
	c.Deadline = 20 * time.Second
	start := time.Now()
	pids := map[int]int{}
	for _, a := range askMany(t, 200, c, mount) {
		if !a.OK {
			t.Fatalf("%+v", a)
		}
		pids[a.PID]++
	}
	if most := 1 + int(time.Since(start)/defaultFresh); len(pids) > most {
		t.Errorf("%d probes in %v: %v", len(pids), time.Since(start), pids)
	}
	missing := mount + "/missing"
	pids = map[int]int{}
	for _, a := range askMany(t, 50, c, missing) {
		if !errors.Is(a.Err, unix.ENOENT) {
			t.Fatalf("%+v", a)
		}
		pids[a.PID]++
	}
	if len(pids) > 40 {
		t.Errorf("%d probes for 50 who asked at once", len(pids))
	}
}

func askMany(t *testing.T, n int, c Config, mount string) []Answer {
	answers := make([]Answer, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { answers[i] = ask(t, c, mount) })
	}
	all.Wait()
	return answers
}

func TestErrors(t *testing.T) {
	c := site(t)
	missing := filepath.Join(t.TempDir(), "missing")
	a := ask(t, c, missing)
	if !errors.Is(a.Err, unix.ENOENT) || a.Shared || !strings.HasPrefix(a.Err.Error(), "statfs \"/") {
		t.Errorf("%+v", a)
	}
	if again := ask(t, c, missing); !errors.Is(again.Err, syscall.ENOENT) || again.Shared {
		t.Errorf("a bad answer of before was shared: %+v", again)
	}
	if a := ask(t, c, "/"+strings.Repeat("a", 5000)); !errors.Is(a.Err, unix.ENAMETOOLONG) {
		t.Errorf("a long path: %+v", a)
	}
}

// An ordinary user gets the errors of one.
func TestErrorsOfUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another")
	}
	const nobody = 65534
	base, err := os.MkdirTemp("", "ioguard-probe-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	state, private := filepath.Join(base, "state"), filepath.Join(base, "private")
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(state, 0o700), os.Chown(state, nobody, nobody), os.Mkdir(private, 0o700)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		state:                         `ok=false stuck=false err=statfs "` + private + `/mnt": permission denied skipped=""`,
		filepath.Join(base, "none"):   "permission denied\" pid=0",
		filepath.Join(private, "any"): "permission denied\" pid=0",
	} {
		cmd := hookCommand(t, Config{Dir: dir, Deadline: 5 * time.Second}, private+"/mnt")
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %q, %v; want %q", dir, out, err, want)
		}
	}
	if a := ask(t, Config{Dir: state, Deadline: deadline}, "/"); !strings.Contains(a.Skipped, "belongs to uid 65534") {
		t.Errorf("a folder of another's: %+v", a)
	}
}

// Trouble of the probe is neither a stuck mount nor a bad one.
func TestSkipped(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	good := filepath.Join(base, "good")
	for _, d := range []string{good, filepath.Join(base, "open")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Chmod(filepath.Join(base, "open"), 0o777), os.Symlink(good, filepath.Join(base, "link")),
		os.WriteFile(filepath.Join(base, "file"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	tests := []struct {
		name, mount string
		c           Config
		want        string
	}{
		{"no folder", "/", Config{}, "no folder for locks"},
		{"relative folder", "/", Config{Dir: "state"}, "not an absolute path"},
		{"link", "/", Config{Dir: base + "/link"}, "not a directory"},
		{"link with a slash", "/", Config{Dir: base + "/link/"}, "not a directory"},
		{"file", "/", Config{Dir: base + "/file"}, "not a directory"},
		{"below a file", "/", Config{Dir: base + "/file/probe"}, "not a directory"},
		{"open to all", "/", Config{Dir: base + "/open"}, "open to others: mode 0777"},
		{"folder on the mount", base, Config{Dir: good}, "lies on the mount"},
		{"folder is the mount", good, Config{Dir: good + "/"}, "lies on the mount"},
		{"program on the mount", filepath.Dir(self), Config{Dir: good}, "lies on the mount"},
		{"relative mount", "mnt", Config{Dir: good}, "not an absolute path"},
		{"empty mount", "", Config{Dir: good}, "not an absolute path"},
		{"NUL", "/a\x00b", Config{Dir: good}, "not an absolute path"},
		{"no program", "/", Config{Dir: good, Program: []string{"/nonexistent/ioguard"}}, "no such file"},
		{"too long to start", "/" + strings.Repeat("a", 200_000), Config{Dir: good}, "argument list too long"},
		{"no probe", "/", Config{Dir: good, Program: []string{"/bin/true"}}, "ended without an answer: exit status 0"},
		{"complains", "/", Config{Dir: good, Program: sh("echo '\x1bno' >&2; exit 5")}, `exit status 5: "\x1bno"`},
		{"dies", "/", Config{Dir: good, Program: sh("kill -9 $$")}, "signal: killed"},
		{"endless", "/", Config{Dir: good, Program: []string{"/usr/bin/yes"}}, "ended without an answer"},
		{"answers unasked", "/", Config{Dir: good, Program: sh(`echo '{"ended":{"ended_usec":5}}'`)}, "ended without an answer"},
		{"does not begin", "/", Config{Dir: good, Program: sh("exec sleep 1000")}, "did not begin within"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.c.Deadline, tt.c.Fresh = deadline, -1
			if a := ask(t, tt.c, tt.mount); !strings.Contains(a.Skipped, tt.want) {
				t.Errorf("got  %+v\nwant %s", a, tt.want)
			}
		})
	}
	// None of them is in the way of a good one.
	if a := ask(t, Config{Dir: good, Deadline: 5 * time.Second}, "/"); !a.OK {
		t.Errorf("after all: %+v", a)
	}
}

// A program that forgot to call Main does not start itself for ever.
func TestNoProbeOfAProbe(t *testing.T) {
	cmd := hookCommand(t, site(t), "/")
	cmd.Env = append(os.Environ(), lockVariable+"=3")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "this is a probe itself") {
		t.Errorf("%q, %v", out, err)
	}
}

// The folder is made as it must be, and what is above it stays readable.
func TestFolder(t *testing.T) {
	c := site(t)
	if a := ask(t, c, "/"); !a.OK {
		t.Fatalf("%+v", a)
	}
	for name, want := range map[string]os.FileMode{
		filepath.Dir(c.Dir):                    0o755,
		c.Dir:                                  0o700,
		filepath.Join(c.Dir, "root"):           0,
		filepath.Join(c.Dir, fileName("/")):    0o600,
		filepath.Join(c.Dir, fileName("/tmp")): 0,
	} {
		st, err := os.Stat(name)
		if want == 0 && err != nil {
			continue
		}
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", name, st, err, want)
		}
	}
}

func TestFileName(t *testing.T) {
	seen := map[string]string{}
	for _, mount := range []string{"/", "/lustre", "/lustre/", "/lus/tre", "/lus_tre", "/..", "/a\nb", "/\xff\xfe", strings.Repeat("/ä", 2000), strings.Repeat("/ä", 2001)} {
		name := fileName(mount)
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q are both %s", mount, other, name)
		}
		seen[name] = mount
		if len(name) > 80 || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Errorf("%q: %q", mount, name)
		}
	}
	if name := fileName("/lustre/scratch"); !strings.HasPrefix(name, "lustre_scratch-") {
		t.Error(name)
	}
}

// What lies in the lock file's place is neither followed, waited for nor spoiled.
func TestPlanted(t *testing.T) {
	mount := t.TempDir()
	precious := filepath.Join(t.TempDir(), "precious")
	for name, plant := range map[string]func(file string) error{
		"link":          func(file string) error { return os.Symlink(precious, file) },
		"dangling link": func(file string) error { return os.Symlink(precious+".new", file) },
		"fifo":          func(file string) error { return unix.Mkfifo(file, 0o600) },
		"folder":        func(file string) error { return os.Mkdir(file, 0o700) },
		"open to all": func(file string) error {
			return errors.Join(os.WriteFile(file, nil, 0o600), os.Chmod(file, 0o666))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := site(t)
			err := errors.Join(os.WriteFile(precious, []byte("precious"), 0o600), os.MkdirAll(c.Dir, 0o700), plant(filepath.Join(c.Dir, fileName(mount))))
			if err != nil {
				t.Fatal(err)
			}
			if a := ask(t, c, mount); a.Skipped == "" {
				t.Errorf("%+v", a)
			}
			if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
				t.Errorf("%q, %v", text, err)
			}
			if _, err := os.Lstat(precious + ".new"); err == nil {
				t.Error("a dangling link was followed")
			}
		})
	}
}

// Records of the past, true or not, are no answer and no obstacle.
func TestOldRecords(t *testing.T) {
	t.Parallel()
	bootID, err := readBootID()
	if err != nil {
		t.Fatal(err)
	}
	now := monotonicUsec()
	tell := func(boot string, pid int, at int64, end string) string {
		return fmt.Sprintf(`{"begun":{"pid":%d,"start_ticks":1,"boot_id":%q,"mount":"/","since":"2026-01-01T00:00:00Z","begun_usec":%d}}`+"\n%s\n", pid, boot, at, end)
	}
	for name, text := range map[string]string{
		"empty":            "",
		"garbage":          "\x00\xff{{{\n\n[]\nnull\n",
		"large":            strings.Repeat("x", 1<<20),
		"cut":              tell(bootID, 4711, now-10, `{"ended":{"ended_usec":`),
		"stuck, gone":      tell(bootID, 99999999, 5, ""),
		"stuck, reused":    tell(bootID, os.Getpid(), 5, ""),
		"previous boot":    tell("0d6c0d6c", 4711, now-10, fmt.Sprintf(`{"ended":{"ended_usec":%d}}`, now)),
		"of the future":    tell(bootID, 4711, now-10, fmt.Sprintf(`{"ended":{"ended_usec":%d}}`, now+1e12)),
		"before it began":  tell(bootID, 4711, now-10, fmt.Sprintf(`{"ended":{"ended_usec":%d}}`, now-20)),
		"good, long ago":   tell(bootID, 4711, 1, `{"ended":{"ended_usec":2}}`),
		"bad, a while ago": tell(bootID, 4711, 1, fmt.Sprintf(`{"ended":{"ended_usec":%d,"call":"stat","errno":5}}`, now)),
	} {
		t.Run(name, func(t *testing.T) {
			c, mount := site(t), t.TempDir()
			file := filepath.Join(c.Dir, fileName(mount))
			if err := errors.Join(os.MkdirAll(c.Dir, 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			a := ask(t, c, mount)
			if !a.OK || a.Shared {
				t.Errorf("%+v", a)
			}
			if again := ask(t, c, mount); !again.Shared || again.PID != a.PID {
				t.Errorf("the new record is not read: %+v", again)
			}
			// While somebody takes the lock and has not yet emptied the file, the old record is not his.
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			holder := holdLock(t, c, mount)
			defer holder.Close()
			c.Fresh, c.Deadline = -1, deadline/10
			if a := ask(t, c, mount); a.Skipped == "" {
				t.Errorf("lock held: %+v", a)
			}
		})
	}
}

// holdLock takes a mount's lock as one does who is about to start a probe.
func holdLock(t *testing.T, c Config, mount string) *os.File {
	t.Helper()
	dir, err := openDir(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	f, err := openLock(dir, fileName(mount))
	if err != nil {
		t.Fatal(err)
	}
	// The last probe may still be on its way out.
	eventually(t, "the lock is free", func() bool { ok, err := tryLock(f); return ok && err == nil })
	return f
}

// The lock's file may be tidied away while we look at it.
func TestRemovedLock(t *testing.T) {
	c, mount := site(t), t.TempDir()
	ask(t, c, mount)
	f := holdLock(t, c, mount)
	defer f.Close()
	if removed(f) {
		t.Error("removed")
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	if !removed(f) {
		t.Error("not removed")
	}
	if a := ask(t, c, mount); !a.OK || a.Shared {
		t.Errorf("%+v", a)
	}
}

func TestGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if a := askWith(t, ctx, site(t), "/"); a.Stuck || a.Err != nil {
		t.Errorf("%+v", a)
	}
}

// A full disk keeps the answer from others, not from who asks.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a tmpfs")
	}
	dir := t.TempDir()
	if err := unix.Mount("ioguard-probe-test", dir, "tmpfs", 0, "size=4k,mode=700"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "records"), make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	c, mount := Config{Dir: dir, Deadline: deadline}, t.TempDir()
	for range 3 {
		if a := ask(t, c, mount); !a.OK || a.Shared {
			t.Errorf("%+v", a)
		}
	}
	h := mountHanging(t)
	if a := ask(t, c, h.dir); !a.Stuck {
		t.Errorf("%+v", a)
	}
	if a := ask(t, c, h.dir); !strings.Contains(a.Skipped, "did not begin") {
		t.Errorf("%+v", a)
	}
}

// By hand it prints, and leaves alone what it was not given.
func TestMainByHand(t *testing.T) {
	notes := filepath.Join(t.TempDir(), "notes")
	f, err := os.Create(notes)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{[]string{"/"}, 0, `{"ended":{"ended_usec":`},
		{[]string{"/nonexistent"}, 3, `"call":"statfs","errno":2,`},
		{[]string{}, 2, "ioguard: error: probe: want one mount\n"},
		{[]string{"/", "/"}, 2, "ioguard: error: probe: want one mount\n"},
	} {
		cmd := exec.Command("/proc/self/exe", append([]string{"probe"}, tt.args...)...)
		cmd.ExtraFiles = []*os.File{f}
		out, _ := cmd.CombinedOutput()
		if status := cmd.ProcessState.ExitCode(); status != tt.status || !strings.Contains(string(out), tt.want) {
			t.Errorf("%q: %d, %s", tt.args, status, out)
		}
	}
	if text, err := os.ReadFile(notes); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
}

func BenchmarkRun(b *testing.B) {
	for name, fresh := range map[string]time.Duration{"probe": -1, "shared": time.Hour} {
		b.Run(name, func(b *testing.B) {
			c := Config{Dir: filepath.Join(b.TempDir(), "probe"), Deadline: 10 * time.Second, Fresh: fresh}
			var mounts []string // so many that none is still held by its last probe on its way out
			for range 16 {
				mounts = append(mounts, b.TempDir())
			}
			for i := 0; b.Loop(); i++ {
				if a := Run(context.Background(), c, mounts[i%len(mounts)]); !a.OK {
					b.Fatalf("%+v", a)
				}
			}
		})
	}
}

package doctor

import (
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

	"github.com/google/go-cmp/cmp"

	"ioguard/host"
	"ioguard/lfs"
	"ioguard/slurm"
)

func done[T any](v T) Answer[T] { return Answer[T]{Value: v, Asked: true, Done: true} }

// TestJudgeLocal holds what this machine may grant to what must be told.
func TestJudgeLocal(t *testing.T) {
	good := StateDir{Exists: true, Dir: true, Mode: fs.ModeDir | 0o755, Above: "/var/lib/ioguard", Free: 1 << 40, FreeInodes: 1 << 20, Sized: true}
	denied := &fs.PathError{Op: "open", Path: "/dev/kmsg", Err: syscall.EPERM}
	tests := []struct {
		name string
		edit func(*Seen, *StateDir, *Site)
		want map[string]string
	}{
		{"good", func(*Seen, *StateDir, *Site) {}, nil},
		{"remote", func(_ *Seen, d *StateDir, _ *Site) { *d = StateDir{Remote: "/var is on a file system of type nfs"} },
			map[string]string{"local-state": "fail: /var/lib/ioguard: /var is on a file system of type nfs"}},
		{"other's", func(_ *Seen, d *StateDir, _ *Site) { d.UID = 1000 }, map[string]string{"local-state": "fail: /var/lib/ioguard belongs to uid 1000"}},
		{"SlurmUser's", func(_ *Seen, d *StateDir, _ *Site) { d.UID = 64030 },
			map[string]string{"local-state": "note: /var/lib/ioguard belongs to SlurmUser (uid 64030): right on the controller alone"}},
		{"SlurmUser's on a compute node", func(s *Seen, d *StateDir, _ *Site) { d.UID, s.Local.Value.Slurmd = 64030, true },
			map[string]string{"local-state": "fail: /var/lib/ioguard belongs to uid 64030"}},
		{"open to all", func(_ *Seen, d *StateDir, _ *Site) { d.Mode = fs.ModeDir | 0o777 },
			map[string]string{"local-state": "fail: /var/lib/ioguard of uid 0, mode 0777; others may write there (mode 0777)"}},
		{"a file", func(_ *Seen, d *StateDir, _ *Site) { d.Dir, d.Mode = false, 0o644 },
			map[string]string{"local-state": "fail: /var/lib/ioguard is no folder (-rw-r--r--)"}},
		{"not there yet", func(_ *Seen, d *StateDir, _ *Site) { d.Exists, d.Above = false, "/var/lib" }, nil},
		{"cannot be made", func(_ *Seen, d *StateDir, _ *Site) { d.Exists, d.Above, d.Err = false, "/var/lib", syscall.EROFS },
			map[string]string{"local-state": "fail: read-only file system"}},
		{"full", func(_ *Seen, d *StateDir, _ *Site) { d.Free = 1 << 20 },
			map[string]string{"local-space": "warn: 1.00M and 1.05M inodes free in /var/lib/ioguard"}},
		{"no inodes", func(_ *Seen, d *StateDir, _ *Site) { d.FreeInodes = 3 },
			map[string]string{"local-space": "warn: 1.00T and 3 inodes free in /var/lib/ioguard"}},
		{"closed to users", func(_ *Seen, d *StateDir, _ *Site) { d.Closed = "/var/lib" }, map[string]string{"local-users": "warn: users cannot search /var/lib"}},
		{"closed to users, not used", func(s *Seen, d *StateDir, _ *Site) { d.Closed, s.Hooks.Value = "/var/lib", nil },
			map[string]string{"slurm-prolog": "", "slurm-epilog": ""}},
		{"bad records", func(s *Seen, _ *StateDir, _ *Site) { s.Records.Err = errors.New("a database, but not of ioguard") },
			map[string]string{"local-records": "fail: a database, but not of ioguard"}},
		{"no records", func(s *Seen, _ *StateDir, _ *Site) { s.Records.Err = fs.ErrNotExist }, nil},
		{"no kernel log", func(s *Seen, _ *StateDir, _ *Site) { s.Local.Value.Kmsg = denied },
			map[string]string{"local-kmsg": "warn: open /dev/kmsg: operation not permitted"}},
		{"locked down", func(s *Seen, _ *StateDir, _ *Site) { s.Local.Value.Debugfs = denied },
			map[string]string{"local-debugfs": "fail: root may not list it: the kernel is locked down, or this is a container"}},
		{"no debugfs", func(s *Seen, _ *StateDir, _ *Site) { s.Local.Value.Debugfs = errNotMounted }, map[string]string{"local-debugfs": "fail: not mounted"}},
		{"no lnetctl", func(s *Seen, _ *StateDir, _ *Site) { s.Tools["lnetctl"].Err = fs.ErrNotExist },
			map[string]string{"local-lustre-tools": "fail: file does not exist"}},
		{"scontrol without slurm.conf", func(s *Seen, _ *StateDir, _ *Site) { s.Tools["scontrol"].Err = &host.CommandError{Status: 1} }, nil},
		{"scontrol that hangs", func(s *Seen, _ *StateDir, _ *Site) {
			s.Tools["scontrol"].Err = &host.CommandError{Status: -1, TimedOut: true}
		},
			map[string]string{"local-slurm-tools": "unknown: scontrol --version: no answer in time"}},
		{"slurm.bin is wrong", func(s *Seen, _ *StateDir, c *Site) { c.SlurmBin, s.Tools["scontrol"].Err = "/opt/bin", fs.ErrNotExist },
			map[string]string{"local-slurm-tools": "fail: file does not exist"}},
		{"no syslog", func(s *Seen, _ *StateDir, _ *Site) { s.Syslog.Err = fs.ErrNotExist }, map[string]string{"local-syslog": "warn: file does not exist"}},
		{"syslog off", func(_ *Seen, _ *StateDir, c *Site) { c.Syslog = "" }, map[string]string{"local-syslog": "note: switched off"}},
		{"not root", func(s *Seen, _ *StateDir, _ *Site) {
			s.UID, s.Local.Value.Kmsg, s.Local.Value.Debugfs, s.Records.Err = 1000, denied, denied, denied
		}, map[string]string{"local-root": "note: uid 1000", "local-kmsg": "unknown: not root: " + denied.Error(), "local-debugfs": "unknown: not root: " + denied.Error(),
			"local-records": "unknown: not root: " + denied.Error()}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, state := site(), good
			seen := &Seen{Lustre: true, Slurm: done(slurm.Config{Values: map[string]string{"SlurmUser": "slurm(64030)"}}), Records: done(struct{}{}), Syslog: done(struct{}{}),
				Hooks: done(Hooks{"TaskProlog": {{Path: "/etc/t", Calls: true}}}), Local: done(Local{}), Tools: map[string]*Answer[string]{},
				Mounts: done([]lfs.Mount(nil)), Targets: done([]lfs.TargetInfo(nil))}
			for _, name := range []string{"lctl", "lnetctl", "lfs", "scontrol", "sinfo"} {
				a := done(name + " 2.17.0")
				seen.Tools[name] = &a
			}
			tt.edit(seen, &state, &c)
			seen.Local.Value.State = state
			got := told(Judge(seen, &c))
			for code := range got {
				if !strings.HasPrefix(code, "local-") {
					delete(got, code)
				}
			}
			want := map[string]string{}
			for code, text := range tt.want {
				if text != "" {
					want[code] = text
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadStateDir(t *testing.T) {
	top := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"open": 0o755, "closed": 0o700} {
		if err := os.Mkdir(filepath.Join(top, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]StateDir{
		"open":         {Exists: true, Dir: true, Mode: fs.ModeDir | 0o755, Above: "open"},
		"closed":       {Exists: true, Dir: true, Mode: fs.ModeDir | 0o700, Above: "closed", Closed: "closed"},
		"open/a/b":     {Above: "open"},
		"closed/state": {Above: "closed", Closed: "closed"},
		"file":         {Exists: true, Mode: 0o644, Above: "file", Closed: "file"},
	} {
		got := readStateDir(filepath.Join(top, name))
		if !got.Sized || got.UID != os.Getuid() && got.Exists {
			t.Errorf("%s: %+v", name, got)
		}
		got.Sized, got.Free, got.FreeInodes, got.UID = false, 0, 0, 0
		got.Above = strings.TrimPrefix(got.Above, top+"/")
		if c, ok := strings.CutPrefix(got.Closed, top+"/"); ok {
			got.Closed = c
		} else {
			got.Closed = "" // the folder of the tests themselves may be closed
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if got := readStateDir(filepath.Join(top, "file", "below")); got.Err == nil || got.Exists {
		t.Errorf("below a file: %+v", got)
	}
}

func TestOpenRecords(t *testing.T) {
	s := site()
	s.StateDir = t.TempDir()
	opened := 0
	s.OpenRecords = func(string) error { opened++; return nil }
	if err := openRecords(&s); !errors.Is(err, fs.ErrNotExist) || opened != 0 {
		t.Errorf("%v, opened %d times", err, opened)
	}
	name := filepath.Join(s.StateDir, "ioguard.db")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openRecords(&s); err == nil || opened != 0 { // and it did not wait for a writer
		t.Errorf("a FIFO: %v, opened %d times", err, opened)
	}
	if err := errors.Join(os.Remove(name), os.WriteFile(name, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := openRecords(&s); err != nil || opened != 1 {
		t.Errorf("%v, opened %d times", err, opened)
	}
}

// watched is a file system that notes what is opened.
type watched struct {
	fs.FS
	opened *[]string
}

func (w watched) Open(name string) (fs.File, error) {
	*w.opened = append(*w.opened, name)
	return w.FS.Open(name)
}

// TestNoLustreTouched: hooks, Slurm's folder and syslog on a mount of Lustre are told
// of, and never looked at. Other remote file systems are the site's choice.
func TestNoLustreTouched(t *testing.T) {
	const mounts = "/dev/sda1 / ext4 rw 0 0\n10.0.0.1@o2ib:/scratch /scratch lustre rw 0 0\nhead:/opt /opt nfs4 rw 0 0\n"
	var opened []string
	script := &fstest.MapFile{Data: []byte("#!/bin/sh\nioguard prolog\n"), Mode: 0o755}
	h := &host.Host{FS: watched{fstest.MapFS{"proc/self/mounts": {Data: []byte(mounts)}, "opt/prolog": script, "scratch/prolog": script}, &opened}}
	s := site()
	s.IsLocal = func(table, name string) error {
		for line := range strings.Lines(table) {
			if f := strings.Fields(line); f[1] != "/" && strings.HasPrefix(name+"/", f[1]+"/") {
				return errors.New(name + " is on " + f[2])
			}
		}
		return nil
	}
	c := &slurm.Config{Values: map[string]string{"Prolog": "/scratch/prolog", "Epilog": "/scratch/*.d/*", "TaskProlog": "/opt/prolog", "SLURM_CONF": "/scratch/slurm.conf",
		"HealthCheckProgram": "health"}}
	hooks, err := readHooks(h, &s, c)
	if err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{"Prolog": "/scratch/prolog is on lustre", "Epilog": "/scratch is on lustre", "HealthCheckProgram": "/scratch/health is on lustre"} {
		if f := hooks[setting]; len(f) != 1 || f[0].Err == nil || f[0].Err.Error() != want {
			t.Errorf("%s: %+v, want %s", setting, f, want)
		}
	}
	if f := hooks["TaskProlog"]; len(f) != 1 || !f[0].Calls || f[0].Err != nil {
		t.Errorf("%+v", f)
	}
	if slices.ContainsFunc(opened, func(name string) bool { return strings.HasPrefix(name, "scratch") }) {
		t.Errorf("opened %q", opened)
	}
	s.SlurmBin, s.Syslog = "/scratch/bin", "/scratch/log"
	k := &look{Looker: &Looker{Host: h, Site: s}, seen: &Seen{}}
	if _, err := k.slurmCommand("scontrol"); err == nil {
		t.Error("scontrol on Lustre is started")
	}
	if err := k.dialSyslog(t.Context()); err == nil || err.Error() != "/scratch/log is on lustre" {
		t.Error(err)
	}
}

// TestHookFiles: what root would run is read only where root alone decides it.
func TestHookFiles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs files of several owners")
	}
	top := t.TempDir()
	write := func(name string, mode fs.FileMode) string {
		file := filepath.Join(top, name)
		if err := os.WriteFile(file, []byte("#!/bin/sh\nioguard prolog\n"), mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	others, plain := write("others", 0o755), write("plain", 0o644)
	write("good", 0o755)
	fifo := filepath.Join(top, "fifo")
	if err := errors.Join(os.Chown(others, 1000, -1), syscall.Mkfifo(fifo, 0o755)); err != nil {
		t.Fatal(err)
	}
	s := site()
	got := map[string]string{}
	for _, f := range readHook(host.Local(), &s, top+"/*") {
		text := "calls"
		if f.Err != nil {
			text = f.Err.Error()
		}
		got[filepath.Base(f.Path)] = text
	}
	want := map[string]string{"good": "calls", filepath.Base(plain): "it is not executable", "fifo": "it is no plain file (prwxr-xr-x)",
		"others": "it belongs to uid 1000, not to root: whoever that is decides what root runs"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestMentions(t *testing.T) {
	for text, want := range map[string]bool{
		"#!/bin/sh\n/usr/sbin/ioguard prolog\n": true, "#!/bin/sh\n  # ioguard prolog\n": false, "#!/opt/ioguard\n": false, "": false,
		"x || ioguard prolog # no\n": true,
	} {
		if got := mentions([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	for pattern, want := range map[string]string{"/etc/slurm/prolog.d/*": "/etc/slurm/prolog.d", "/etc/p*/x": "/etc", "/etc/prolog": "/etc/prolog", "/[ab]": "/"} {
		if got := plainPart(pattern); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
	if hasDefaultRule([]byte("regular_requests:\nCPT 0:\nj {1} 10, ref 1\nhigh_priority_requests:\nCPT 0:\ndefault {*} 10000, ref 0\n")) {
		t.Error("the rule of the other queue counts")
	}
}

func TestPatience(t *testing.T) {
	if Patience >= 10*time.Second {
		t.Errorf("%v", Patience)
	}
}

// FuzzJobID: ids that a client writes are never longer than Lustre keeps, and one that
// begins with the job is always understood.
func FuzzJobID(f *testing.F) {
	for _, format := range []string{"%e.%u", "%j:%u:%h", "%.4e %j?x", "%", "%99.9", "%h%j%%"} {
		f.Add(format)
	}
	f.Fuzz(func(t *testing.T, format string) {
		for _, parts := range []map[byte]string{shortParts, longParts} {
			if id := writeJobID(format, parts); len(id) > lfs.JobIDSize {
				t.Errorf("%q is %d bytes", id, len(id))
			}
		}
		if id := writeJobID("%j:"+format, longParts); !understood(id, "") {
			t.Errorf("%q is not understood", id)
		}
		if compound(format) && !strings.Contains(format, "j") && !strings.Contains(format, sampleJob) {
			t.Errorf("%q holds no job", format)
		}
	})
}

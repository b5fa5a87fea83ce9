package lfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ioguard"
)

var cmpEmpty = cmpopts.EquateEmpty()

func isNotExist(err error) bool   { return errors.Is(err, fs.ErrNotExist) }
func isPermission(err error) bool { return errors.Is(err, fs.ErrPermission) }

// The table is the only place that knows paths: keep it well formed.
func TestParamsTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Params() {
		if seen[p.Name] || p.Name == "" || p.What == "" || len(p.Paths) == 0 {
			t.Errorf("%+v", p)
		}
		seen[p.Name] = true
		if p.Readable != everybody && p.Readable != rootOnly {
			t.Errorf("%s: readable by %q", p.Name, p.Readable)
		}
		for _, pattern := range p.Paths {
			root := slices.ContainsFunc([]string{procRoot, sysRoot, debugRoot}, func(r string) bool { return strings.HasPrefix(pattern, r) })
			if !root || !fs.ValidPath(pattern) || strings.Count(pattern, "/*") > 2 {
				t.Errorf("%s: %s", p.Name, pattern)
			}
		}
	}
	var target TargetInfo
	for _, f := range targetFields(&target) {
		if !seen[f.param] {
			t.Errorf("TargetInfo has %s, the table has not", f.param)
		}
	}
}

func TestTargetsMachine(t *testing.T) {
	targets, err := Targets(fixtureMachine(t, "oss-2.17.0-zfs"))
	if err != nil {
		t.Fatal(err)
	}
	osd := sysRoot + "osd-zfs/"
	want := []TargetInfo{
		{Name: "lustre-MDT0000", Kind: ioguard.MDT},
		{Name: "lustre-OST0000", Kind: ioguard.OST},
		{Name: "lustre-OST0004", Kind: ioguard.OST},
	}
	for i := range want {
		w, name := &want[i], want[i].Name
		class, stats := "obdfilter/", debugRoot+"obdfilter/"+name+"/stats"
		if w.Kind == ioguard.MDT {
			class, stats = "mdt/", procRoot+"mdt/"+name+"/md_stats"
		}
		w.OSD, w.Stats = "osd-zfs", stats
		w.JobStats = procRoot + class + name + "/job_stats"
		w.Exports = debugRoot + class + name + "/exports"
		w.RecoveryStatus = debugRoot + class + name + "/recovery_status"
		w.BRWStats = debugRoot + "osd-zfs/" + name + "/brw_stats"
		w.OSDStats = debugRoot + "osd-zfs/" + name + "/stats"
		w.KBytesTotal, w.KBytesFree, w.KBytesAvail = osd+name+"/kbytestotal", osd+name+"/kbytesfree", osd+name+"/kbytesavail"
		w.FilesTotal, w.FilesFree, w.MntDev = osd+name+"/filestotal", osd+name+"/filesfree", osd+name+"/mntdev"
		w.JobCleanupInterval = sysRoot + class + name + "/job_cleanup_interval"
		w.NumExports = sysRoot + class + name + "/num_exports"
	}
	if diff := cmp.Diff(want, targets); diff != "" {
		t.Error(diff)
	}
}

// An ordinary user sees the targets and what procfs and sysfs tell, and is told
// that debugfs hides the rest.
func TestTargetsWithoutRoot(t *testing.T) {
	fsys := fixtureDenied{fixtureMachine(t, "oss-2.17.0-zfs"), []string{"sys/kernel/debug"}}
	targets, err := Targets(fsys)
	if err != nil || len(targets) != 3 {
		t.Fatalf("%+v, %v", targets, err)
	}
	ost := targets[1]
	if ost.JobStats == "" || ost.MntDev == "" || ost.Stats != "" || ost.BRWStats != "" {
		t.Errorf("%+v", ost)
	}
	if diff := cmp.Diff([]string{"sys/kernel/debug/lustre"}, ost.Denied); diff != "" {
		t.Error(diff)
	}
	if _, err := Targets(fixtureDenied{fsys.FS, []string{"sys", "proc"}}); !isPermission(err) {
		t.Error(err)
	}
	if _, err := Targets(fstest.MapFS{"proc/fs/lustre/version": {}}); !isNotExist(err) {
		t.Error(err)
	}
}

func TestTargetsComeAndGo(t *testing.T) {
	dir := t.TempDir()
	names := func() string {
		targets, err := Targets(os.DirFS(dir))
		if err != nil && !isNotExist(err) {
			t.Fatal(err)
		}
		s := ""
		for _, x := range targets {
			s += x.Name + "(" + filepath.Base(x.JobStats) + ") "
		}
		return s
	}
	add := func(name string) {
		d := filepath.Join(dir, procRoot, "obdfilter", name)
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "job_stats"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, ""},
		{func() { add("fs-OST0001") }, "fs-OST0001(job_stats) "},
		{func() { add("fs-OST0000") }, "fs-OST0000(job_stats) fs-OST0001(job_stats) "},
		{func() { os.RemoveAll(filepath.Join(dir, procRoot, "obdfilter/fs-OST0001")) }, "fs-OST0000(job_stats) "},
		{func() { os.RemoveAll(filepath.Join(dir, "proc")) }, ""},
	} {
		step.do()
		if got := names(); got != step.want {
			t.Errorf("%q, want %q", got, step.want)
		}
	}
}

// Where two trees offer the same thing the readable and non-empty one counts;
// a path that is denied is better told than an empty leftover.
func TestTwoTrees(t *testing.T) {
	osd, link := procRoot+"osd-ldiskfs/fs-OST0000/brw_stats", procRoot+"obdfilter/fs-OST0000/brw_stats"
	full, empty := &fstest.MapFile{Data: []byte("snapshot_time: 1\n")}, &fstest.MapFile{}
	for name, tc := range map[string]struct {
		osd, link *fstest.MapFile
		denied    []string
		want      string
		err       bool
	}{
		"both full":                 {osd: full, link: full, want: osd},
		"only the link":             {link: full, want: link},
		"the first empty":           {osd: empty, link: full, want: link},
		"the link empty":            {osd: full, link: empty, want: osd},
		"both empty":                {osd: empty, link: empty, want: osd},
		"the first denied":          {osd: full, link: full, denied: []string{osd}, want: link},
		"denied, and an empty link": {osd: full, link: empty, denied: []string{osd}, want: osd, err: true},
		"both denied":               {osd: full, link: full, denied: []string{osd, link}, want: osd, err: true},
	} {
		m := fstest.MapFS{procRoot + "obdfilter/fs-OST0000/stats": full, procRoot + "obdfilter/num_refs": full}
		if tc.osd != nil {
			m[osd] = tc.osd
		}
		if tc.link != nil {
			m[link] = tc.link
		}
		fsys := fixtureDenied{m, tc.denied}
		targets, err := Targets(fsys)
		if err != nil || len(targets) != 1 || targets[0].BRWStats != tc.want {
			t.Errorf("%s: targets %+v, %v", name, targets, err)
		}
		found, err := Find(fsys, "brw_stats")
		if err != nil || len(found) != 1 || found[0].Path != tc.want || found[0].Target != "fs-OST0000" || isPermission(found[0].Err) != tc.err {
			t.Errorf("%s: found %+v, %v", name, found, err)
		}
	}
}

func TestFind(t *testing.T) {
	fsys := fixtureMachine(t, "oss-2.17.0-zfs")
	for name, want := range map[string]string{
		"job_stats":            "lustre-MDT0000 lustre-OST0000 lustre-OST0004",
		"mntdev":               "lustre-MDT0000 lustre-OST0000 lustre-OST0004",
		"exports":              "lustre-MDT0000 lustre-OST0000 lustre-OST0004",
		"version":              "",
		"nrs_policies":         "mdt ost_io",
		"pool":                 "lustre-MDT0000-mdtlov/hdd_pool lustre-MDT0000-mdtlov/ssd_pool lustre-MDT0001-mdtlov/hdd_pool lustre-MDT0001-mdtlov/ssd_pool",
		"job_cleanup_interval": "lustre-MDT0000 lustre-OST0000 lustre-OST0004",
	} {
		found, err := Find(fsys, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []string
		for _, f := range found {
			s := f.Target
			if f.Item != "" {
				s += "/" + f.Item
			}
			got = append(got, s)
			if f.Err != nil {
				t.Errorf("%s: %v", f.Path, f.Err)
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: %q, want %q", name, s, want)
		}
	}
	if found, err := Find(fsys, "export_stats"); err != nil || len(found) != 9 || found[0].Item != "0@lo" {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := Find(fsys, "nonrotational"); !isNotExist(err) {
		t.Error(err)
	}
	if _, err := Find(fsys, "nosuch"); err == nil || isNotExist(err) {
		t.Error(err)
	}
	if _, err := Find(fixtureDenied{fsys, []string{"sys/kernel/debug"}}, "brw_stats"); !isPermission(err) {
		t.Error(err)
	}
}

func TestReadSmallFiles(t *testing.T) {
	fsys := fixtureMachine(t, "oss-2.17.0-zfs")
	targets, err := Targets(fsys)
	if err != nil {
		t.Fatal(err)
	}
	ost := targets[1]
	c, err := ReadCapacity(fsys, ost)
	want := ioguard.Capacity{TotalBytes: 5542912 << 10, FreeBytes: 5514240 << 10, AvailableBytes: 5512192 << 10, TotalInodes: 172853, FreeInodes: 172320}
	if c != want || err != nil {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := ReadNonRotational(fsys, ost); !isNotExist(err) {
		t.Error(err)
	}
	s, err := ReadJobSettings(fsys, targets)
	if err != nil || *s.Var != "SLURM_JOB_ID" || *s.Name != "%e.%u" || s.ThisSession != nil || s.Environment() != "SLURM_JOB_ID" || s.Disabled() || s.NodeLocal() {
		t.Errorf("%+v, %v", s, err)
	}
	for _, x := range targets {
		if d, ok := s.CleanupInterval[x.Name]; !ok || d != 10*time.Minute {
			t.Errorf("%s: %v", x.Name, d)
		}
	}
	if v, err := ReadVersion(fsys); err != nil || !v.AtLeast(2, 17, 0) {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestReadSmallFilesBad(t *testing.T) {
	fsys := fstest.MapFS{
		"ok": {Data: []byte("7\n\x00\x00\x00")}, "big": {Data: []byte("18014398509481984\n")}, "text": {Data: []byte("seven\n")},
		"empty": {}, "one": {Data: []byte("1\n")}, "zero": {Data: []byte("0\n")},
		"long":                 {Data: []byte("99999999999\n")},
		sysRoot + "jobid_var":  {Data: []byte("nodelocal\n")},
		sysRoot + "jobid_name": {Data: []byte("4711\n")},
	}
	full := TargetInfo{Name: "t", KBytesTotal: "ok", KBytesFree: "ok", KBytesAvail: "ok", FilesTotal: "ok", FilesFree: "ok"}
	if c, err := ReadCapacity(fsys, full); err != nil || c.FreeBytes != 7168 || c.FreeInodes != 7 {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"big", "text", "empty", "nosuch", ""} {
		x := full
		x.KBytesAvail = bad
		if c, err := ReadCapacity(fsys, x); err == nil || c != (ioguard.Capacity{}) || !strings.HasPrefix(err.Error(), "read kbytesavail of t: ") {
			t.Errorf("%q: %+v, %v", bad, c, err)
		}
	}
	for name, want := range map[string]bool{"one": true, "zero": false} {
		if v, err := ReadNonRotational(fsys, TargetInfo{NonRotational: name}); err != nil || v != want {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	s, err := ReadJobSettings(fsys, []TargetInfo{{Name: "a", JobCleanupInterval: "ok"}, {Name: "b", JobCleanupInterval: "text"}, {Name: "c"}, {Name: "d", JobCleanupInterval: "zero"}, {Name: "e", JobCleanupInterval: "gone"}, {Name: "f", JobCleanupInterval: "long"}})
	if err == nil || !strings.Contains(err.Error(), "job_cleanup_interval of b: ") || !strings.Contains(err.Error(), "of f: 99999999999 seconds") || strings.Contains(err.Error(), "of e") {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]time.Duration{"a": 7 * time.Second, "d": 0}, s.CleanupInterval); diff != "" {
		t.Error(diff)
	}
	if !s.NodeLocal() || s.Environment() != "" || *s.Name != "4711" {
		t.Errorf("%+v", s)
	}
	if s, err := ReadJobSettings(fstest.MapFS{}, nil); err != nil || s.Var != nil || s.Disabled() || s.Environment() != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestExports(t *testing.T) {
	fsys := fixtureMachine(t, "oss-2.17.0-zfs")
	dir := debugRoot + "obdfilter/lustre-OST0000/exports"
	var r ExportReader
	got := map[string]uint64{}
	err := r.Read(fsys, dir, func(nid string, s *Stats) {
		if err := s.Unparsed.Err(nid); err != nil {
			t.Error(err)
		}
		if c := s.Counter("write_bytes"); c != nil {
			got[nid] = c.Sum
		} else {
			got[nid] = 0
		}
	})
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]uint64{"0@lo": 0, "10.77.0.11@o2ib": 276954064, "10.77.0.12@o2ib": 0}, got); diff != "" {
		t.Error(diff)
	}
	// One that cannot be read does not hide the others; one that is gone is no error.
	seen := 0
	err = r.Read(fixtureDenied{fsys, []string{dir + "/10.77.0.11@o2ib/stats"}}, dir, func(string, *Stats) { seen++ })
	if seen != 2 || !isPermission(err) || !strings.Contains(err.Error(), "1 of 3 failed") {
		t.Errorf("%d seen, %v", seen, err)
	}
	gone := fstest.MapFS{"exports/1.2.3.4@tcp/uuid": {}, "exports/clear": {}}
	if err := r.Read(gone, "exports", func(string, *Stats) { t.Error("stats of a client without any") }); err != nil {
		t.Error(err)
	}
	if _, err := ListExports(fsys, "nosuch"); !isNotExist(err) {
		t.Error(err)
	}
}

// benchServer writes a server of 16 OSTs with many clients into a directory.
func benchServer(b *testing.B, clients int) string {
	b.Helper()
	dir := b.TempDir()
	fsys := fixtureMachine(b, "oss-2.17.0-zfs")
	stats := fixtureFile(b, fsys, debugRoot+"obdfilter/lustre-OST0000/exports/10.77.0.11@o2ib/stats")
	put := func(name string, data []byte) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 16 {
		ost := fmt.Sprintf("lustre-OST%04x", i)
		put(procRoot+"obdfilter/"+ost+"/job_stats", nil)
		put(debugRoot+"obdfilter/"+ost+"/stats", stats)
		put(debugRoot+"osd-zfs/"+ost+"/brw_stats", nil)
		put(debugRoot+"osd-zfs/"+ost+"/stats", nil)
		for _, f := range []string{"kbytestotal", "kbytesfree", "kbytesavail", "filestotal", "filesfree"} {
			put(sysRoot+"osd-zfs/"+ost+"/"+f, []byte("1\n"))
			put(sysRoot+"obdfilter/"+ost+"/"+f, []byte("1\n"))
		}
		for f := range 40 {
			put(fmt.Sprintf("%sobdfilter/%s/setting%d", sysRoot, ost, f), nil)
		}
	}
	for i := range clients {
		put(fmt.Sprintf("%sobdfilter/lustre-OST0000/exports/10.0.%d.%d@o2ib/stats", debugRoot, i/256, i%256), stats)
	}
	return dir
}

func BenchmarkTargets(b *testing.B) {
	fsys := os.DirFS(benchServer(b, 0))
	b.ReportAllocs()
	for b.Loop() {
		if targets, err := Targets(fsys); err != nil || len(targets) != 16 || targets[3].KBytesFree == "" {
			b.Fatal(err)
		}
	}
}

func BenchmarkExports(b *testing.B) {
	const clients = 2000
	fsys := os.DirFS(benchServer(b, clients))
	var r ExportReader
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if err := r.Read(fsys, debugRoot+"obdfilter/lustre-OST0000/exports", func(string, *Stats) { n++ }); err != nil || n != clients {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/clients, "ns/client")
}

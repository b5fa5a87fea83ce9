package lfs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// sampleParser tells for a file's name what parser it belongs to; the parser
// gives what it did not understand.
func sampleParser(name string) func([]byte) Unparsed {
	switch base := path.Base(name); {
	case base == "brw_stats":
		return func(b []byte) Unparsed { return ParseBRWStats(b).Unparsed }
	case base == "recovery_status":
		return func(b []byte) Unparsed { return ParseRecovery(b).Unparsed }
	case base == "nrs_policies":
		return func(b []byte) Unparsed { return ParseNRSPolicies(b).Unparsed }
	case base == "health_check":
		return func(b []byte) Unparsed { return ParseHealth(b).Unparsed }
	case base == "stats" || base == "md_stats":
		return func(b []byte) Unparsed { return ParseStats(b).Unparsed }
	}
	return nil
}

// TestSamplesUnderstood: no line of any tree of real servers, 1.8 to 2.15, is
// left over.
func TestSamplesUnderstood(t *testing.T) {
	for _, tree := range []struct {
		dir   string
		files int // at least
	}{
		{"LLNL__lmt/test/lustre_versions", 60},
		{"HewlettPackard__lustre_exporter", 100},
		{"GSI-HPC__lustre_exporter", 100},
		{"influxdata__telegraf/plugins/inputs/lustre2/testcases", 10},
		{"DDNStorage__LustrePerfMon/xml_definition/tests", 1},
	} {
		t.Run(path.Base(tree.dir), func(t *testing.T) {
			fsys := os.DirFS(fixtureSamples(t, tree.dir))
			n := 0
			err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
				parse := sampleParser(name)
				if err != nil || d.IsDir() || parse == nil || strings.Contains(name, "sys/lnet") || strings.Contains(name, "debug/lnet") {
					return err
				}
				text, err := fs.ReadFile(fsys, name)
				if err != nil {
					return err
				}
				if strings.HasPrefix(string(text), "../") {
					return nil // a link, kept as text
				}
				n++
				odd := parse(text)
				if err := odd.Err(name); err != nil {
					t.Error(err)
				}
				return nil
			})
			if err != nil || n < tree.files {
				t.Errorf("%d files, %v", n, err)
			}
		})
	}
}

// TestSamplesLctl: the same for `lctl get_param` dumps of DDN's builds.
func TestSamplesLctl(t *testing.T) {
	for _, dir := range []string{"whamcloud__lustrefs-exporter/lustre-collector/src/fixtures", "whamcloud__lustre-collector/src/fixtures", "whamcloud__lustre-collector/fixtures"} {
		fsys := os.DirFS(fixtureSamples(t, dir))
		n := 0
		err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || path.Ext(name) != ".txt" {
				return err
			}
			text, err := fs.ReadFile(fsys, name)
			if err != nil {
				return err
			}
			for param, value := range fixtureLctl(string(text)) {
				last := param[strings.LastIndexByte(param, '.')+1:]
				parse := sampleParser(last)
				if parse == nil {
					continue
				}
				n++
				odd := parse([]byte(value))
				if err := odd.Err(name + " " + param); err != nil {
					t.Error(err)
				}
			}
			return nil
		})
		if err != nil || n < 10 {
			t.Errorf("%s: %d parameters, %v", dir, n, err)
		}
	}
}

// lmtVersions gives the trees of LMT's own tests, whose outputs are answers that
// another parser gave to the same files.
func lmtVersions(t *testing.T) []string {
	dir := fixtureSamples(t, "LLNL__lmt/test/lustre_versions")
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for _, e := range entries {
		dirs = append(dirs, dir+"/"+e.Name())
	}
	return dirs
}

// lmtAnswers gives the lines of an answer of LMT, and none where it failed.
func lmtAnswers(t *testing.T, dir, name string) []string {
	t.Helper()
	b, err := os.ReadFile(dir + "/outputs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimRight(string(b), "\n"), "\n")
}

func TestSamplesBRWStatsAgainstLMT(t *testing.T) {
	checked := 0
	for _, dir := range lmtVersions(t) {
		want := lmtAnswers(t, dir, "t03.exp")
		if len(want) < 2 {
			continue // LMT wants a good version number first
		}
		found, err := Find(os.DirFS(dir), "brw_stats")
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, f := range found {
			s, err := ReadBRWStats(os.DirFS(dir), f.Path)
			if err != nil {
				t.Fatal(err)
			}
			for _, sec := range s.Sections {
				if sec.Name == BRWBlockMaps {
					continue // LMT does not know it
				}
				got = append(got, "tbrw_stats: "+sec.Name)
				for _, r := range sec.Rows {
					got = append(got, fmt.Sprintf("tbrw_stats: %d: %d, %d", r.Bucket, r.Read, r.Write))
				}
			}
		}
		checked += len(got)
		lmtSame(t, dir, want, got)
	}
	if checked < 500 {
		t.Errorf("only %d lines compared", checked)
	}
}

func TestSamplesStatsAgainstLMT(t *testing.T) {
	checked := 0
	for _, dir := range lmtVersions(t) {
		fsys := os.DirFS(dir)
		answers := lmtAnswers(t, dir, "t05.exp")
		targets, err := Targets(fsys)
		if err != nil {
			t.Error(err)
		}
		for _, x := range targets {
			var p StatsParser
			var buf FileBuffer
			s, err := ReadStats(fsys, x.Stats, &p, &buf)
			if err != nil {
				t.Error(err)
				continue
			}
			var want []string
			for _, line := range answers {
				if strings.HasPrefix(line, "tstats: "+x.Name+":") && !strings.Contains(line, "_time='") {
					want = append(want, line)
				}
			}
			// LMT keeps the last of two counters of one name.
			lines := make(map[string]string)
			for i := range s.Counters {
				lines[s.Counters[i].Name] = lmtCounter(x.Name, &s.Counters[i])
			}
			if strings.Contains(x.Name, "MDT") && (x.Exports != "" || len(want) == 0) {
				// LMT adds up the exports of an MDT of 2.0, and gives up on MDTs
				// without a good version number.
				continue
			}
			checked += len(lines)
			lmtSame(t, dir+" "+x.Name, want, slices.Collect(maps.Values(lines)))
		}
	}
	if checked < 300 {
		t.Errorf("only %d counters compared", checked)
	}
}

func lmtCounter(target string, c *Counter) string {
	// LMT cuts the prefix that md_stats of 2.0 had.
	name := strings.TrimPrefix(c.Name, "mds_")
	line := fmt.Sprintf("tstats: %s: %s='%d samples [%s]", target, name, c.Samples, c.Unit)
	for i, v := range []uint64{c.Min, c.Max, c.Sum, c.SumSq} {
		if c.Has&(1<<i) != 0 {
			line += fmt.Sprintf(" %d", v)
		}
	}
	return line + "'"
}

func TestSamplesRecoveryAgainstLMT(t *testing.T) {
	checked := 0
	for _, dir := range lmtVersions(t) {
		fsys := os.DirFS(dir)
		answers := lmtAnswers(t, dir, "t06.exp")
		targets, err := Targets(fsys)
		if err != nil {
			t.Error(err)
		}
		for _, x := range targets {
			r, err := ReadRecovery(fsys, x.RecoveryStatus)
			if err != nil {
				t.Error(err)
				continue
			}
			if !slices.Contains(answers, "trecov: ost: "+x.Name) && !slices.Contains(answers, "trecov: mdt: "+x.Name) {
				continue // LMT gives up on MDTs without a good version number
			}
			want := func(field string) string {
				for _, line := range answers {
					if v, ok := strings.CutPrefix(line, "trecov: "+x.Name+": "+field+":='"); ok {
						return strings.TrimSuffix(v, "'")
					}
				}
				return ""
			}
			clients := func(n *uint64) string {
				if n != nil && r.MaxClients != nil && r.Status == RecoveryComplete {
					return fmt.Sprintf("%d/%d", *n, *r.MaxClients)
				}
				return lmtNumber(n)
			}
			for field, got := range map[string]string{
				"status": string(r.Status), "recovery_start": lmtNumber(r.StartSec), "recovery_duration": lmtNumber(r.DurationSec),
				"time_remaining": lmtNumber(r.TimeRemainingSec), "replayed_requests": lmtNumber(r.ReplayedRequests),
				"queued_requests": lmtNumber(r.QueuedRequests), "last_transno": lmtNumber(r.LastTransno), "next_transno": lmtNumber(r.NextTransno),
				"completed_clients": clients(r.CompletedClients),
			} {
				if w := want(field); got != w {
					t.Errorf("%s %s: %s is %q, LMT says %q", dir, x.Name, field, got, w)
				} else if w != "" {
					checked++
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d fields compared", checked)
	}
}

func lmtNumber[T int64 | uint64](n *T) string {
	if n == nil {
		return ""
	}
	return fmt.Sprint(*n)
}

func TestSamplesVersionAgainstLMT(t *testing.T) {
	for _, dir := range lmtVersions(t) {
		want := lmtAnswers(t, dir, "t11.exp")[0]
		v, err := ReadVersion(os.DirFS(dir))
		got := fmt.Sprintf("tversion: proc_fs_lustre_version:  major: %d, minor: %d, patch: %d, fix: %d", v.Major, v.Minor, v.Patch, v.Fix)
		switch {
		case isNotExist(err):
			got = "tversion: proc_fs_lustre_version: No such file or directory"
		case err != nil:
			got = "tversion: proc_fs_lustre_version: Input/output error"
		}
		if got != want {
			t.Errorf("%s: %s, LMT says %s", dir, got, want)
		}
	}
}

// TestSamplesCapacityAgainstLMT: LMT's line of an OSS holds for each OST
// name;free inodes;inodes;free KiB;KiB;...
func TestSamplesCapacityAgainstLMT(t *testing.T) {
	dir := fixtureSamples(t, "LLNL__lmt/test/lustre_versions/2.15.4_1")
	fsys := os.DirFS(dir)
	line := lmtAnswers(t, dir, "t10.exp")[0]
	targets, err := Targets(fsys)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, x := range targets {
		if !strings.Contains(x.Name, "OST") {
			continue
		}
		n++
		c, err := ReadCapacity(fsys, x)
		want := fmt.Sprintf(";%s;%d;%d;%d;%d;", x.Name, c.FreeInodes, c.TotalInodes, c.FreeBytes/1024, c.TotalBytes/1024)
		if err != nil || !strings.Contains(line, want) {
			t.Errorf("%s: %v not in %s", want, err, line)
		}
	}
	if n != 4 {
		t.Errorf("%d OSTs", n)
	}
}

// TestSamplesOldLayout: 2.10 keeps all tables in procfs.
func TestSamplesOldLayout(t *testing.T) {
	fsys := os.DirFS(fixtureSamples(t, "HewlettPackard__lustre_exporter"))
	targets, err := Targets(fsys)
	if err != nil || len(targets) != 5 {
		t.Fatalf("%d targets, %v", len(targets), err)
	}
	for _, x := range targets {
		if x.OSD != "osd-zfs" || x.BRWStats != procRoot+"osd-zfs/"+x.Name+"/brw_stats" || x.Exports == "" || x.JobStats == "" {
			t.Errorf("%+v", x)
		}
		var r ExportReader
		n := 0
		if err := r.Read(fsys, x.Exports, func(nid string, s *Stats) {
			n++
			if !strings.Contains(nid, "@") || !s.Snapshot.Known {
				t.Errorf("%s %s", x.Name, nid)
			}
		}); err != nil || n == 0 {
			t.Errorf("%s: %d exports, %v", x.Name, n, err)
		}
	}
	services, err := Services(fsys)
	if err != nil || len(services) != 15 {
		t.Errorf("%d services, %v", len(services), err)
	}
	var p StatsParser
	var buf FileBuffer
	for _, svc := range services {
		s, err := ReadStats(fsys, svc.Stats, &p, &buf)
		if err != nil || (len(s.Counters) > 0 && s.Service().Wait == nil) {
			t.Errorf("%s: %v", svc.Name, err)
		}
		n, err := ReadNRSPolicies(fsys, svc.NRSPolicies)
		if err != nil || len(n.Regular) < 4 || n.Regular[0].Name != "fifo" || n.Primary() != nil {
			t.Errorf("%s: %+v, %v", svc.Name, n, err)
		}
	}
}

// lmtSame compares lines without regard to their order where sorting is LMT's.
func lmtSame(t *testing.T, what string, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("%s: LMT says\n%s\nnot\n%s", what, strings.Join(want, "\n"), strings.Join(got, "\n"))
	}
}

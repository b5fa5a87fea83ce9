package kmsg

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// recorded gives the files of an archive in testdata by name.
func recorded(t testing.TB, name string) map[string][]byte {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range a.Files {
		files[f.Name] = f.Data
	}
	return files
}

// counts is "kind N, kind N", with what the kernel skipped.
func counts(events []Event) string {
	sum := map[Kind]uint64{}
	for _, e := range events {
		sum[e.Kind] += e.Count
	}
	var all []string
	for _, k := range slices.Sorted(maps.Keys(sum)) {
		all = append(all, fmt.Sprintf("%s %d", k, sum[k]))
	}
	return strings.Join(all, ", ")
}

func TestClassifyRealLogs(t *testing.T) {
	for name, want := range map[string]string{
		"client-link-cut":           "connection_lost 2, connection_restored 1, dirty_discard 1, evicted 8, ib_port 2, lnet_error 3, lnet_recovery 3, lustre_error 6, request_timeout 9",
		"client-mdt0-umount":        "connection_lost 2, connection_restored 2, evicted 1, lustre_error 18, request_timeout 1",
		"client-osc-deactivate":     "connection_lost 1, evicted 1",
		"client-ost-umount-writing": "connection_lost 1, connection_restored 1, lustre_error 1, operation_failed 1",
		"server-link-cut":           "client_evicted 3",
		"server-mdt0-umount":        "connection_lost 7, connection_restored 7, evicted 1, lustre_error 343, operation_failed 1, request_timeout 1",
		"server-ost-umount-writing": "connection_lost 2, connection_restored 1, lustre_error 45, operation_failed 2",
	} {
		messages, bad := ParseKmsg(recorded(t, name)["kmsg_raw"])
		if bad.Count > 0 {
			t.Errorf("%s: %d lines are not understood: %v", name, bad.Count, bad.Lines)
		}
		if got := counts(Classify(messages)); got != want {
			t.Errorf("%s: got  %s\nwant %s", name, got, want)
		}
	}
}

// Whatever wrote the log down, the messages are the same.
func TestSameLogInAllForms(t *testing.T) {
	for _, name := range []string{"client-link-cut", "server-link-cut"} {
		files := recorded(t, name)
		want, _ := ParseKmsg(files["kmsg_raw"])
		for form, knows := range map[string]Message{"dmesg": {Boot: 1}, "dmesg_x": {Boot: 1, Level: 1}, "dmesg_T": {}} {
			got := ParseDmesg(files[form], nil)
			if len(got) != len(want) {
				t.Fatalf("%s, %s: %d messages, want %d", name, form, len(got), len(want))
			}
			for i, m := range got {
				w := Message{Text: want[i].Text, Boot: UnknownBoot, Level: UnknownLevel, User: m.User, Time: m.Time}
				if knows.Boot > 0 {
					w.Boot = want[i].Boot
				}
				if knows.Level > 0 {
					w.Level, w.User = want[i].Level, want[i].User
				}
				if diff := cmp.Diff(w, m); diff != "" {
					t.Errorf("%s, %s, message %d (-want +got):\n%s", name, form, i, diff)
				}
				if m.Time.IsZero() == (form == "dmesg_T") {
					t.Errorf("%s, %s, message %d has time %v", name, form, i, m.Time)
				}
			}
		}
	}
}

func TestLBUGOfARealServer(t *testing.T) {
	messages := ParseDmesg(recorded(t, "server-lbug")["dmesg"], nil)
	var got []string
	for _, e := range Classify(messages) {
		if e.Kind == LBUG {
			got = append(got, e.Text)
		}
	}
	want := []string{
		"LustreError: 2529:0:(lprocfs_jobstats.c:499:lprocfs_job_stats_fini()) ASSERTION( atomic64_read(&stats->ojs_jobs) == 0 ) failed: jobs:6 flags:c",
		"LustreError: 2529:0:(lprocfs_jobstats.c:499:lprocfs_job_stats_fini()) LBUG",
		"Kernel panic - not syncing: LBUG",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Logs of other sites and versions, where they are at hand.
func TestClassifyLogsOfOthers(t *testing.T) {
	for name, want := range map[string]string{
		"uzh_oss1_ib_port_disabled_2014-06-25": "connection_lost 3, request_timeout 1",
		"cscs_capstor_client_dmesg_2025-01-15": "connection_lost 3, connection_restored 4, lnet_error 4, request_timeout 4",
		"dias_mds_lost_ost_2023-10-06":         "connection_lost 1",
	} {
		b, err := os.ReadFile("../../shared/samples/_found_text/" + name + ".log")
		if err != nil {
			t.Skip(err)
		}
		messages := ParseDmesg(b, nil)
		if strings.HasPrefix(name, "uzh") {
			messages, _ = ParseSyslog(b, messages[0].Time)
		}
		if got := counts(Classify(messages)); got != want {
			t.Errorf("%s: got  %s\nwant %s", name, got, want)
		}
	}
}

package host

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// shared finds recordings of real servers beside the checkout; tests that need
// them skip where they are absent.
func shared(t *testing.T, pattern string) []string {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join("../../shared/lustre-2.17", pattern))
	if len(names) == 0 {
		t.Skip("no real recordings beside the checkout")
	}
	return names
}

// The number of snapshots is counted in the archive's own list of folders.
func TestOpenRecordingReal(t *testing.T) {
	want := map[string]int{
		"00_idle": 20, "01_benign_only": 50, "1_checkpoint_storm": 55, "2_smallfile_flood": 50, "3_read_storm": 50,
		"4_randwrite_hdd": 50, "5_scan_flood": 55, "6_benign_seqwriter": 45, "7_benign_slowreads": 45,
		"8_tbf_throttle": 75, "8b_tbf_jobid_policy": 65,
	}
	for _, name := range shared(t, "recordings/*.tar.zst") {
		scenario := strings.TrimSuffix(filepath.Base(name), ".tar.zst")
		t.Run(scenario, func(t *testing.T) {
			r, err := OpenRecording(name)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if p := r.Problems(); len(p) > 0 {
				t.Errorf("problems: %q", p)
			}
			for _, h := range []string{"client", "server"} {
				if n := len(r.Snapshots(h)); n != want[scenario] {
					t.Errorf("%s has %d snapshots, want %d", h, n, want[scenario])
				}
			}
			checkServer(t, r)
		})
	}
}

func checkServer(t *testing.T, r *Recording) {
	if b, err := r.Labels(); err != nil || !strings.Contains(string(b), `"scenario"`) {
		t.Errorf("labels: %q, %v", b, err)
	}
	l := r.Snapshots("server")
	for i := range l[1:] {
		if !l[i].Time.Before(l[i+1].Time) {
			t.Errorf("snapshots %d and %d are not in order", i, i+1)
		}
	}
	h := r.Machine(l[len(l)-1])
	if h.Name != "server" || !h.Time.Equal(l[len(l)-1].Time) {
		t.Errorf("machine %s at %v", h.Name, h.Time)
	}
	names, err := h.Glob("proc/fs/lustre/obdfilter/*/job_stats")
	if err != nil || len(names) != 6 {
		t.Errorf("Glob = %q, %v, want the 6 OSTs", names, err)
	}
	names, err = h.Glob("sys/kernel/debug/lustre/obdfilter/*/exports/10.77.0.11@o2ib/stats")
	if err != nil || len(names) != 6 {
		t.Errorf("Glob = %q, %v, want 6 exports", names, err)
	}
	if b, err := h.ReadFile("proc/stat"); err != nil || !strings.HasPrefix(string(b), "cpu ") {
		t.Errorf("proc/stat: %.20q, %v", b, err)
	}
}

func TestOpenMachineReal(t *testing.T) {
	for _, name := range shared(t, "machines/*.tar.zst") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			h, err := OpenMachine(name)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			if h.Name != "client" || h.Time.Year() != 2026 {
				t.Errorf("machine %s at %v", h.Name, h.Time)
			}
			answerEverything(t, h)
		})
	}
}

// answerEverything asks for each recorded command by its own command line.
func answerEverything(t *testing.T, h *Host) {
	dirs, err := fs.ReadDir(h.FS, "commands")
	if err != nil || len(dirs) < 17 {
		t.Fatalf("%d commands, %v", len(dirs), err)
	}
	for _, d := range dirs {
		cmd, err := h.ReadFile("commands/" + d.Name() + "/cmd")
		if err != nil {
			t.Fatal(err)
		}
		want, _ := h.ReadFile("commands/" + d.Name() + "/stdout")
		words := strings.Fields(string(cmd))
		if strings.HasSuffix(strings.TrimSpace(string(cmd)), "--version") && words[0] == "lctl" {
			words[0] = "/usr/sbin/lctl" // the folder does not matter
		}
		got, err := h.Run(context.Background(), words[0], words[1:]...)
		if refused := new(RefusedError); errors.As(err, &refused) && words[1] == "ping" {
			continue // of no NID, or of several
		}
		if string(got) != string(want) {
			t.Errorf("%q answers %d bytes, recorded are %d", words, len(got), len(want))
		}
		status, _ := h.ReadFile("commands/" + d.Name() + "/status")
		if ok := strings.TrimSpace(string(status)) == "0"; ok != (err == nil) {
			t.Errorf("%q: status %q gives error %v", words, status, err)
		}
	}
}

package gate

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// again looks at a machine a second time, with the memory of the first as it comes
// back from its file.
func again(t *testing.T, first, second string, e edits) Verdict {
	t.Helper()
	seen, v := lookAt(t, machine(t, first, edits{}), Site{}, &Memory{}, Needs{})
	m := (&Memory{}).After(seen, &v, time.Now())
	m.Time = seen.Now.Add(-time.Hour)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var last Memory
	if err := json.Unmarshal(b, &last); err != nil {
		t.Fatal(err)
	}
	_, v = lookAt(t, machine(t, second, e), Site{}, &last, Needs{})
	return v
}

// TestSecondRun: what changed since the last run is told, and only that.
func TestSecondRun(t *testing.T) {
	healthy := machine(t, "client-healthy", edits{})
	const counters = "sys/class/infiniband/rxe0/ports/1/hw_counters/"
	stats, err := healthy.Run(t.Context(), "lnetctl", "stats", "show")
	if err != nil {
		t.Fatal(err)
	}
	history := read(t, healthy, mdt0State)
	tests := []struct {
		name, second string
		edits        edits
		want         []string
		seen         string // somewhere in the findings
	}{
		{name: "nothing", second: "client-healthy"},
		{name: "the link was lost", second: "client-healthy", edits: edits{files: map[string]string{counters + "link_downed": "3\n"}},
			want: []string{"ib-flap rxe0/1"}, seen: "link lost 2 times"},
		{name: "many lost packets", second: "client-healthy", edits: edits{files: map[string]string{counters + "rcvd_seq_err": "5000\n"}},
			want: []string{"ib-errors rxe0/1"}, seen: "rcvd_seq_err +5000"},
		{name: "a counter was cleared", second: "client-healthy", edits: edits{files: map[string]string{counters + "completer_retry_err": "0\n"}}},
		{name: "the cable is out now", second: "client-link-cut",
			want: []string{"ib-port rxe0/1", "lnet-ni 10.77.0.11@o2ib <- ib-port", "lfs-mdt lustre-MDT[0000-0001] <- ib-port", "lfs-ost lustre-OST[0000-0005] <- ib-port"}, seen: "; was Active/LinkUp"},
		{name: "the adapter is gone", second: "client-healthy", edits: edits{files: map[string]string{"sys/class/infiniband/rxe0": ""}},
			want: []string{"ib-gone rxe0"}, seen: "gone"},
		{name: "slower than it was", second: "client-healthy", edits: edits{files: map[string]string{"sys/class/infiniband/rxe0/ports/1/rate": "1.25 Gb/sec (1X SDR)\n"}},
			want: []string{"ib-rate rxe0/1"}, seen: "its own best"},
		{name: "unmounted", second: "client-healthy", edits: edits{files: map[string]string{"proc/mounts": "/dev/vda / ext4 rw 0 0\n"}},
			want: []string{"lfs-unmounted /mnt/lustre"}},
		{name: "evicted and back", second: "client-healthy", want: []string{"lfs-evicted lustre-MDT0000"},
			edits: edits{files: map[string]string{mdt0State: strings.Replace(history, "DISCONN", "EVICTED", 1)}}},
		{name: "messages lost", second: "client-healthy", seen: "",
			edits: edits{commands: map[string]string{"lnetctl stats show": strings.Replace(string(stats), "network_timeout_count: 1530", "network_timeout_count: 1540", 1)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := again(t, "client-healthy", tt.second, tt.edits)
			got := slices.DeleteFunc(found(&v), func(s string) bool { return strings.HasPrefix(s, "kmsg-fabric") })
			if !slices.Equal(got, tt.want) {
				t.Errorf("found\n%q, want\n%q", got, tt.want)
			}
			text := ""
			for _, f := range v.Findings() {
				text += f.Seen + "; " + f.Expected + "\n"
			}
			if !strings.Contains(text, tt.seen) {
				t.Errorf("findings say\n%s, want %q", text, tt.seen)
			}
			if tt.name == "messages lost" && !strings.Contains(text, "network_timeout_count +10") {
				t.Errorf("findings say\n%s", text)
			}
		})
	}
}

// TestStuckProcesses: a process that was in D state in Lustre a minute ago and still is
// is stuck; one that sleeps there is at work, unless a connection is down.
func TestStuckProcesses(t *testing.T) {
	process := func(state string) map[string]string {
		return map[string]string{"proc/77/stat": "77 (dd) " + state + " 2 0 0 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n", "proc/77/wchan": "ptlrpc_queue_wait"}
	}
	for _, tt := range []struct {
		machine, state string
		want           bool
	}{{"client-healthy", "D", true}, {"client-healthy", "S", false}, {"client-ost-away", "S", true}, {"client-ost-away", "R", false}} {
		h := machine(t, tt.machine, edits{files: process(tt.state)})
		seen, v := lookAt(t, h, Site{}, &Memory{}, Needs{})
		if slices.Contains(found(&v), "local-dstate 1 process <- lfs-ost") || slices.Contains(found(&v), "local-dstate 1 process") {
			t.Errorf("%s %s: found at the first run", tt.machine, tt.state)
		}
		last := (&Memory{}).After(seen, &v, time.Now())
		last.Time = seen.Now.Add(-2 * time.Minute)
		for i := range last.Blocked {
			last.Blocked[i].Since = last.Time
		}
		_, v = lookAt(t, h, Site{}, &last, Needs{})
		got := slices.ContainsFunc(found(&v), func(s string) bool { return strings.HasPrefix(s, "local-dstate 1 process") })
		if got != tt.want {
			t.Errorf("%s %s: found %q", tt.machine, tt.state, found(&v))
		}
	}
}

// TestUntilBoot: what only a reboot ends is told at every run until then, though its
// message is read once.
func TestUntilBoot(t *testing.T) {
	log := "<0>[ 1.0] LustreError: 4711:0:(osc_cache.c:3021:osc_cache_writeback_range()) LBUG\n"
	h := machine(t, "client-healthy", edits{commands: map[string]string{"dmesg -r": strings.Replace(log, "1.0", "5679.0", 1)}, files: map[string]string{"proc/stat": ""}})
	seen, v := lookAt(t, h, Site{}, &Memory{}, Needs{})
	if got := found(&v); !slices.Equal(got, []string{"kmsg-lbug kernel log"}) {
		t.Fatalf("found %q", got)
	}
	last := (&Memory{}).After(seen, &v, time.Now())
	for range 2 {
		seen, v = lookAt(t, machine(t, "client-healthy", edits{}), Site{}, &last, Needs{})
		if got := found(&v); !slices.Equal(got, []string{"kmsg-lbug kernel log"}) || !strings.Contains(v.Reason(), "ioguard: lbug lbug 1 since 07:") {
			t.Errorf("again: %q, %s", got, v.Reason())
		}
		last = last.After(seen, &v, time.Now())
	}
	last.Boot = "another"
	_, v = lookAt(t, machine(t, "client-healthy", edits{}), Site{}, &last, Needs{})
	if got := found(&v); len(got) > 0 {
		t.Errorf("after a reboot: %q", got)
	}
}

// TestReboot: nothing of before a reboot is compared with.
func TestReboot(t *testing.T) {
	seen, v := lookAt(t, machine(t, "client-healthy", edits{}), Site{}, &Memory{}, Needs{})
	last := (&Memory{}).After(seen, &v, time.Now())
	last.Boot = "another"
	_, v = lookAt(t, machine(t, "client-healthy", edits{files: map[string]string{"sys/class/infiniband/rxe0": "", "proc/mounts": "/dev/vda / ext4 rw 0 0\n"}}), Site{}, &last, Needs{})
	if got := found(&v); len(got) > 0 {
		t.Errorf("found %q", got)
	}
}

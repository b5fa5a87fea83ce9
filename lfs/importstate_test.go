package lfs

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// importHistory makes a history of "SECOND STATE" words, the last the present one.
func importHistory(changes ...string) *ImportHistory {
	var b strings.Builder
	state := ""
	for _, c := range changes {
		var sec string
		sec, state, _ = strings.Cut(c, " ")
		b.WriteString(" - [ " + sec + ", " + state + " ]\n")
	}
	return ParseImportState([]byte("current_state: " + state + "\nstate_history:\n" + b.String()))
}

func TestImportHistory(t *testing.T) {
	for name, tc := range map[string]struct {
		h       *ImportHistory
		since   int64 // 0: not told
		away    int64
		exact   bool
		evicted []int64 // since second 100
	}{
		"connected":   {importHistory("10 CONNECTING", "11 FULL"), 11, 0, true, nil},
		"idle":        {importHistory("10 FULL", "50 CONNECTING", "50 IDLE"), 50, 0, true, nil},
		"away":        {importHistory("10 FULL", "20 DISCONN", "20 CONNECTING", "25 DISCONN", "26 CONNECTING"), 26, 20, true, nil},
		"recovering":  {importHistory("10 IDLE", "20 CONNECTING", "25 REPLAY", "26 REPLAY_LOCKS"), 26, 20, true, nil},
		"long away":   {importHistory("20 DISCONN", "20 CONNECTING", "25 DISCONN"), 25, 20, false, nil},
		"new":         {importHistory(" NEW"), 0, 0, false, nil},
		"evicted":     {importHistory("99 EVICTED", "100 EVICTED", "100 RECOVER", "100 FULL", "130 EVICTED", "131 FULL"), 131, 0, true, []int64{100, 130}},
		"another now": {ParseImportState([]byte("current_state: DISCONN\nstate_history:\n - [10, FULL]\n")), 0, 0, true, nil},
	} {
		unix := func(at time.Time) int64 {
			if at.IsZero() {
				return 0
			}
			return at.Unix()
		}
		if got := unix(tc.h.Since()); got != tc.since {
			t.Errorf("%s: since %d", name, got)
		}
		if away, exact := tc.h.DisconnectedSince(); unix(away) != tc.away || exact != tc.exact {
			t.Errorf("%s: away since %d, %v", name, unix(away), exact)
		}
		var evicted []int64
		for _, at := range tc.h.EvictedAfter(time.Unix(100, 999)) {
			evicted = append(evicted, at.Unix())
		}
		if !slices.Equal(evicted, tc.evicted) {
			t.Errorf("%s: evicted %v", name, evicted)
		}
	}
}

func TestParseImportState(t *testing.T) {
	at := func(sec int64, state string) StateChange { return StateChange{time.Unix(sec, 0).UTC(), state} }
	for name, tc := range map[string]struct {
		text string
		want ImportHistory
	}{
		"2.17": {"current_state: FULL\nstate_history:\n - [ 1795241780, CONNECTING ]\n - [ 1795241780, FULL ]\n",
			ImportHistory{Current: ImportFull, Changes: []StateChange{at(1795241780, ImportConnecting), at(1795241780, ImportFull)}}},
		"2.5":      {"current_state: EVICTED\nstate_history:\n - [1795241780, EVICTED]\n", ImportHistory{Current: ImportEvicted, Changes: []StateChange{at(1795241780, ImportEvicted)}}},
		"no entry": {"current_state: NEW\nstate_history:\n", ImportHistory{Current: ImportNew}},
		"odd values": {"current_state: PONDERING\nstate_history:\n - [ -1, FULL ]\n - [ x, FULL ]\n - [ 253402300800, FULL ]\n - [ 5 ]\n - [ 5, FULL\n - [ 5, ]\n - [ 6, <UNKNOWN> ]\nmore",
			ImportHistory{Current: "PONDERING", Changes: []StateChange{at(6, "<UNKNOWN>")}, Unparsed: Unparsed{7, []UnparsedLine{
				{3, "- [ -1, FULL ]", whyNegative}, {4, "- [ x, FULL ]", whyNotNumber}, {5, "- [ 253402300800, FULL ]", "time out of range"},
				{6, "- [ 5 ]", "not a change of state"}, {7, "- [ 5, FULL", "not a change of state"}}}}},
	} {
		if diff := cmp.Diff(&tc.want, ParseImportState([]byte(tc.text)), cmpEmpty); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// With the cable out, and after it: recorded.
func TestImportHistoryMachines(t *testing.T) {
	imports, err := ReadImports(fixtureMachine(t, "client-link-cut-2.17.0"))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range imports[1:] {
		away, exact := i.History.DisconnectedSince()
		if sec := away.Unix(); !exact || sec < 1795242670 || sec > 1795242675 {
			t.Errorf("%s: away since %v", i.Device, away)
		}
	}
	for param, text := range fixtureLctl(string(importFailing(t, "mdt1_umount/state"))) {
		h := ParseImportState([]byte(text))
		evicted := h.EvictedAfter(time.Unix(1795242197, 0))
		switch {
		case strings.Contains(param, "OST0002") && (len(evicted) != 1 || evicted[0].Unix() != 1795242197):
			t.Error(param, evicted)
		case strings.Contains(param, "MDT0001"):
			if away, exact := h.DisconnectedSince(); away.Unix() != 1795242221 || !exact {
				t.Error(away, exact)
			}
		}
	}
	// While a server is away the history forgets when that began.
	for param, text := range fixtureLctl(string(importFailing(t, "mdt0_umount/state"))) {
		if away, exact := ParseImportState([]byte(text)).DisconnectedSince(); strings.Contains(param, "MDT0000") && (exact || away.Unix() != 1795242436) {
			t.Error(away, exact)
		}
	}
}

func FuzzParseImportState(f *testing.F) {
	f.Add(fixtureFile(f, fixtureMachine(f, "client-link-cut-2.17.0"), debugRoot+"osc/lustre-OST0002-osc-ffff8880086b6800/state"))
	f.Add([]byte("current_state: EVICTED\nstate_history:\n - [1795241780, EVICTED]\n - [1, FULL ]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := ParseImportState(text)
		away, exact := h.DisconnectedSince()
		if connected(h.Current) && !away.IsZero() || !away.IsZero() && len(h.Changes) == 0 || !exact && connected(h.Current) {
			t.Fatalf("%+v: %v %v", h, away, exact)
		}
		if n := len(h.EvictedAfter(time.Time{})); n > len(h.Changes) {
			t.Fatal(n)
		}
		for _, c := range h.Changes {
			if _, err := c.Time.MarshalJSON(); err != nil || c.State == "" {
				t.Fatal(c, err)
			}
		}
	})
}

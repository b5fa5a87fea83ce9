package lnet

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ioguard"
)

func reading(t testing.TB, archive string) ([]NI, []Peer) {
	t.Helper()
	nis, err := ParseNetShow(text(t, archive, healthyNet))
	if err != nil {
		t.Fatal(err)
	}
	peers, err := ParsePeerShow(text(t, archive, healthyPeer))
	if err != nil {
		t.Fatal(err)
	}
	return nis, peers
}

// stored is a memory after a stay in the state file.
func stored(t testing.TB, m Memory) (back Memory, size int) {
	t.Helper()
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	return back, len(b)
}

func TestClassifyRecorded(t *testing.T) {
	nis, peers := reading(t, "client-link-cut-2.17.0")
	if r := Classify(Memory{}, nis, peers); r != nil {
		t.Errorf("a first reading has risen: %v", r)
	}
	before, size := stored(t, Remember(nis, peers))
	if size > 400 {
		t.Errorf("the memory takes %d bytes", size)
	}
	if r := Classify(before, nis, peers); r != nil {
		t.Errorf("the same reading has risen: %v", r)
	}
	nis, peers = reading(t, "client-healthy-2.17.0") // an hour later
	o2ib := func(addr string) NID { return NID{addr, Net{Type: "o2ib"}} }
	want := []Rise{
		{o2ib("10.77.0.1"), RemoteInterface, "dropped", 16, ioguard.DeltaValue},
		{o2ib("10.77.0.1"), NetworkTimeout, "network timeout", 1489, ioguard.DeltaValue},
		{o2ib("10.77.0.11"), RemoteInterface, "dropped", 3, ioguard.DeltaValue},
		{o2ib("10.77.0.99"), NetworkTimeout, "network timeout", 1, ioguard.DeltaValue}, // a dead NID
	}
	if d := cmp.Diff(want, Classify(before, nis, peers)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestClassify(t *testing.T) {
	a, b := NID{"10.0.0.1", Net{"o2ib", 0}}, NID{"10.0.0.2", Net{"o2ib", 0}}
	lo := NID{"0", Net{"lo", 0}}
	ni := func(nid NID, v [6]uint64) NI { return NI{NID: nid, Local: sixCounters(v)} }
	peer := func(nid NID, v [4]uint64) Peer {
		return Peer{NIs: []PeerNI{{NID: nid, Remote: RemoteCounters{&v[0], &v[1], &v[2], &v[3]}}}}
	}
	before := Remember([]NI{ni(a, [6]uint64{100, 0, 5, 0, 0, 0}), ni(b, [6]uint64{}), ni(lo, [6]uint64{1, 1, 1, 1, 1, 1})},
		[]Peer{peer(b, [4]uint64{0, 0, 1<<32 - 2, 9})})
	before, _ = stored(t, before)
	got := Classify(before,
		[]NI{ni(b, [6]uint64{1, 2, 3, 4, 5, 6}), ni(a, [6]uint64{7, 0, 5, 0, 0, 0}), ni(lo, [6]uint64{9, 9, 9, 9, 9, 9})},
		[]Peer{peer(a, [4]uint64{0, 2, 0, 1}), peer(b, [4]uint64{1, 0, 3, 9})})
	want := []Rise{
		{a, LocalInterface, "interrupts", 7, ioguard.DeltaReset}, // a lower bound
		{b, LocalInterface, "interrupts", 1, ioguard.DeltaValue}, // all 0 before, so left out of the memory
		{b, LocalInterface, "dropped", 2, ioguard.DeltaValue},
		{b, LocalInterface, "aborted", 3, ioguard.DeltaValue},
		{b, LocalInterface, "no route", 4, ioguard.DeltaValue},
		{b, LocalInterface, "timeouts", 5, ioguard.DeltaValue},
		{b, LocalInterface, "error", 6, ioguard.DeltaValue},
		{a, RemoteInterface, "timeout", 2, ioguard.DeltaValue}, // new since then
		{a, NetworkTimeout, "network timeout", 1, ioguard.DeltaValue},
		{b, RemoteInterface, "dropped", 1, ioguard.DeltaValue},
		{b, RemoteInterface, "error", 5, ioguard.DeltaValue}, // 32 bits, wrapped
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestClassifyUnknown: a counter that was or is not told has not risen.
func TestClassifyUnknown(t *testing.T) {
	nid := NID{"10.0.0.1", Net{"tcp", 0}}
	known, unknown := NI{NID: nid, Local: sixCounters([6]uint64{4, 4, 4, 4, 4, 4})}, NI{NID: nid}
	partly := known
	partly.Local.Errors, partly.Local.NoRoute = nil, nil
	for name, tc := range map[string]struct {
		before, now NI
		rises       int
	}{
		"from debugfs":      {unknown, known, 0},
		"to debugfs":        {known, unknown, 0},
		"told only now":     {partly, known, 0},
		"told only then":    {known, partly, 0},
		"told then and now": {NI{NID: nid, Local: sixCounters([6]uint64{})}, partly, 4},
	} {
		before, _ := stored(t, Remember([]NI{tc.before}, nil))
		if r := Classify(before, []NI{tc.now}, nil); len(r) != tc.rises {
			t.Errorf("%s: %v", name, r)
		}
	}
	damaged := Memory{NIs: map[NID][]*uint64{nid: {at(uint64(1))}}}
	if r := Classify(damaged, []NI{known}, nil); len(r) != 1 || r[0].Count != 3 {
		t.Errorf("a short list of a state file gives %v", r)
	}
}

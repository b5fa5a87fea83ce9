package nodetest

import (
	"iter"
	"slices"
	"strings"
	"testing"

	"ioguard/host"
	"ioguard/ib"
	"ioguard/lfs"
	"ioguard/lnet"
)

// TestNode holds what is written to what the readers make of it.
func TestNode(t *testing.T) {
	n := Large()
	n.Away = "work-OST0007"
	root, err := n.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.OpenMachine(root)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if h.Name != Name || !h.Time.Equal(Recorded()) {
		t.Errorf("machine %s of %v", h.Name, h.Time)
	}
	imports, err := lfs.ReadImports(h.FS)
	if err != nil || len(imports) != 2*(1+4+100) {
		t.Fatalf("%d imports, %v", len(imports), err)
	}
	for _, i := range imports {
		if i.Healthy() == (i.Target == n.Away) || i.Unparsed.Count > 0 {
			t.Errorf("%s of %s is %s, not understood %v", i.Device, i.Target, i.State, i.Unparsed)
		}
	}
	devices, err := ib.Read(h)
	if err != nil || len(devices) != 2 {
		t.Fatalf("%d adapters, %v", len(devices), err)
	}
	for _, d := range devices {
		if p := d.Ports[0]; d.Err != nil || p.Err != nil || !p.Up() || len(p.Counters) < 20 || len(p.NetDevs) != 1 {
			t.Errorf("%+v", d)
		}
	}
	nis, _, err := lnet.ReadNIs(t.Context(), h)
	if err != nil || len(nis) != 3 {
		t.Errorf("%d interfaces of LNet, %v", len(nis), err)
	}
	peers, _, err := lnet.ReadPeers(t.Context(), h)
	if err != nil || len(peers) != 110 || len(peers[0].NIs) != 2 {
		t.Errorf("%d peers, %v", len(peers), err)
	}
}

type pair struct{ name, text string }

func pairs(n Node) iter.Seq[pair] {
	return func(yield func(pair) bool) {
		for name, text := range n.Files() {
			if !yield(pair{name, text}) {
				return
			}
		}
	}
}

func TestSameBytes(t *testing.T) {
	one, other := slices.Collect(pairs(Large())), slices.Collect(pairs(Large()))
	if !slices.Equal(one, other) {
		t.Error("two nodes differ")
	}
	slices.SortFunc(one, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	if twice := len(one) - len(slices.CompactFunc(one, func(a, b pair) bool { return a.name == b.name })); twice > 0 {
		t.Errorf("%d files are written twice", twice)
	}
	count := 0
	for range Large().Files() {
		if count++; count == 3 {
			break // nothing is handed to who left
		}
	}
}

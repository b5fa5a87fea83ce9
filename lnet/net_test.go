package lnet

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sixCounters, five and three are counters that stand at these values.
func sixCounters(v [6]uint64) LocalCounters {
	return LocalCounters{&v[0], &v[1], &v[2], &v[3], &v[4], &v[5]}
}

func fiveTypes(v [5]uint64) *Messages { return &Messages{&v[0], &v[1], &v[2], &v[3], &v[4]} }

var recordedLND = map[string]string{
	"peercredits_hiw": "4", "concurrent_sends": "8", "map_on_demand": "true", "fmr_pool_size": "512", "fmr_flush_trigger": "384",
	"fmr_cache": "1", "ntx": "512", "conns_per_peer": "1", "timeout": "50", "tos": "-1",
}

func TestParseNetShowRecorded(t *testing.T) {
	lo := NI{
		NID: NID{"0", Net{Type: "lo"}}, Status: "up", FatalError: at(false), Health: at(int64(0)), Local: sixCounters([6]uint64{}),
		PingCount: at(uint64(0)), NextPing: at(int64(0)), SendCount: at(uint64(0)), RecvCount: at(uint64(0)), DropCount: at(uint64(0)),
		Sent: fiveTypes([5]uint64{}), Received: fiveTypes([5]uint64{}), Dropped: fiveTypes([5]uint64{}),
		PeerTimeout: at(int64(0)), PeerCredits: at(int64(0)), PeerBufferCredits: at(int64(0)), Credits: at(int64(0)), CPT: "[0]", DevCPT: at(int64(0)),
	}
	o2ib := lo
	o2ib.NID, o2ib.Interfaces = NID{"10.77.0.11", Net{Type: "o2ib"}}, []string{"eth1"}
	o2ib.PeerTimeout, o2ib.PeerCredits, o2ib.Credits = at(int64(180)), at(int64(8)), at(int64(256))
	o2ib.LND, o2ib.DevCPT = recordedLND, at(int64(-1))

	healthy, cut := o2ib, o2ib
	healthy.Health, healthy.NextPing = at(int64(1000)), at(int64(5505))
	healthy.SendCount, healthy.RecvCount = at(uint64(167200)), at(uint64(180657))
	healthy.Sent, healthy.Received = fiveTypes([5]uint64{166650, 550}), fiveTypes([5]uint64{166630, 264, 13760, 3})
	cut.Status, cut.FatalError, cut.Health, cut.NextPing = "down", at(true), at(int64(800)), at(int64(2001))
	cut.SendCount, cut.RecvCount = at(uint64(8037)), at(uint64(8686))
	cut.Sent, cut.Received = fiveTypes([5]uint64{7955, 82}), fiveTypes([5]uint64{7946, 36, 703, 1})

	for machine, want := range map[string][]NI{"client-healthy-2.17.0": {lo, healthy}, "client-link-cut-2.17.0": {lo, cut}} {
		nis, err := ParseNetShow(text(t, machine, healthyNet))
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, nis); d != "" {
			t.Errorf("%s (-want +got):\n%s", machine, d)
		}
	}
}

func TestParseNetShowReleases(t *testing.T) {
	lo := NID{"0", Net{Type: "lo"}}
	tunables := func(ni NI, timeout, credits, all int64) NI {
		ni.PeerTimeout, ni.PeerCredits, ni.PeerBufferCredits, ni.Credits = &timeout, &credits, at(int64(0)), &all
		return ni
	}
	i, u := func(n int64) *int64 { return &n }, func(n uint64) *uint64 { return &n }
	for file, want := range map[string][]NI{
		"2.8/net": {
			tunables(NI{NID: lo, Status: "up"}, 0, 0, 0),
			tunables(NI{NID: NID{"192.168.1.5", Net{Type: "o2ib"}}, Status: "up", Interfaces: []string{"ib0"}, CPT: "[0,1]"}, 180, 8, 256),
		},
		"2.10/net": {
			tunables(NI{NID: lo, Status: "up", SendCount: u(0), RecvCount: u(0), DropCount: u(0), CPT: "[0,1]", DevCPT: i(0)}, 0, 0, 0),
			tunables(NI{NID: NID{"10.0.0.5", Net{Type: "tcp"}}, Status: "up", Interfaces: []string{"eth1", "eth2"},
				SendCount: u(12), RecvCount: u(11), DropCount: u(1), CPT: "[0,1]", DevCPT: i(-1)}, 180, 8, 256),
		},
		"2.12/net": {
			{NID: lo, Status: "up", Health: i(0), Local: sixCounters([6]uint64{}), CPT: "[0,1]", DevCPT: i(0)},
			tunables(NI{NID: NID{"10.3.0.5", Net{"o2ib", 3}}, Status: "up", Interfaces: []string{"ib0"}, Health: i(1000),
				Local: sixCounters([6]uint64{4: 3}), SendCount: u(4294967295), RecvCount: u(7), DropCount: u(0),
				Sent: fiveTypes([5]uint64{4, 3, 2, 1, 0}), CPT: "[0]", DevCPT: i(0),
				LND: map[string]string{"peercredits_hiw": "16", "map_on_demand": "0", "concurrent_sends": "63", "fmr_pool_size": "1280",
					"fmr_flush_trigger": "1024", "fmr_cache": "1", "ntx": "2048", "conns_per_peer": "4"}}, 180, 32, 1024),
			tunables(NI{NID: NID{"10.3.0.6", Net{"o2ib", 3}}, Status: "down", Interfaces: []string{"ib1"}, Health: i(700),
				Local: sixCounters([6]uint64{3: 9, 5: 2}), CPT: "[1]", DevCPT: i(1)}, 180, 32, 1024),
		},
		"2.17/net": { // IPv6, another order, a key of the future
			{NID: NID{"fe80::a00:27ff:fe4e:66a1", Net{Type: "tcp"}}, Status: "up", Interfaces: []string{"eth0"}, Health: i(1000),
				FatalError: at(false), CPT: "[0,1,2,3]", Unknown: []string{"health stats/novelty: 7"}},
			{NID: NID{"4711", Net{Type: "kfi"}}, Status: "up"},
		},
	} {
		nis, err := ParseNetShow(text(t, "shaped", file))
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, nis); d != "" {
			t.Errorf("%s (-want +got):\n%s", file, d)
		}
	}
}

func TestParsePeerShow(t *testing.T) {
	i, u := func(n int64) *int64 { return &n }, func(n uint64) *uint64 { return &n }
	for _, tc := range []struct {
		archive, file string
		want          Peer // the first
		peers         int
	}{
		{"client-link-cut-2.17.0", healthyPeer, Peer{PrimaryNID: NID{"10.77.0.1", Net{Type: "o2ib"}}, MultiRail: at(true), State: i(1049969),
			NIs: []PeerNI{{NID: NID{"10.77.0.1", Net{Type: "o2ib"}}, State: "NA", Health: i(1000), Remote: RemoteCounters{u(1), u(0), u(0), u(5)},
				MaxTxCredits: i(8), AvailableTxCredits: i(7), MinTxCredits: i(-12), TxQueue: i(120), AvailableRtrCredits: i(8), MinRtrCredits: i(8),
				RefCount: i(2), SendCount: u(7967), RecvCount: u(8616), DropCount: u(0), PingCount: u(0), NextPing: i(0),
				Sent: fiveTypes([5]uint64{7955, 12}), Received: fiveTypes([5]uint64{7946, 1, 668, 1}), Dropped: fiveTypes([5]uint64{})}}}, 10},
		{"answers-2.17.0", "client/healthy/lnetctl_peer_show_v0/stdout", Peer{PrimaryNID: NID{"10.77.0.1", Net{Type: "o2ib"}}, MultiRail: at(true),
			NIs: []PeerNI{{NID: NID{"10.77.0.1", Net{Type: "o2ib"}}, State: "NA"}}}, 1},
		{"shaped", "2.8/peer", Peer{PrimaryNID: NID{"192.168.1.1", Net{Type: "o2ib"}},
			NIs: []PeerNI{{NID: NID{"192.168.1.1", Net{Type: "o2ib"}}, State: "up", RefCount: i(1), MaxTxCredits: i(8), AvailableTxCredits: i(8),
				AvailableRtrCredits: i(8), MinRtrCredits: i(8), TxQueue: i(0)}}}, 1},
		{"shaped", "2.12/peer", Peer{PrimaryNID: NID{"10.3.0.1", Net{"o2ib", 3}}, MultiRail: at(true), State: i(0),
			NIs: []PeerNI{
				{NID: NID{"10.3.0.1", Net{"o2ib", 3}}, State: "up", Health: i(900), Remote: RemoteCounters{u(1), u(2), u(3), u(4)},
					MaxTxCredits: i(32), AvailableTxCredits: i(-3), MinTxCredits: i(-92), TxQueue: i(4096), AvailableRtrCredits: i(32),
					MinRtrCredits: i(32), RefCount: i(4), SendCount: u(5), RecvCount: u(6), DropCount: u(0)},
				{NID: NID{"10.3.0.2", Net{"o2ib", 3}}, State: "down"},
			}}, 1},
	} {
		peers, err := ParsePeerShow(text(t, tc.archive, tc.file))
		if err != nil || len(peers) != tc.peers {
			t.Errorf("%s %s: %d peers, %v", tc.archive, tc.file, len(peers), err)
			continue
		}
		if d := cmp.Diff(tc.want, peers[0]); d != "" {
			t.Errorf("%s %s (-want +got):\n%s", tc.archive, tc.file, d)
		}
	}
	peers, err := ParsePeerShow(manyPeers(t, 200))
	if err != nil || len(peers) != 200 || peers[199].PrimaryNID.Addr != "10.0.199.1" {
		t.Errorf("%d peers, %v", len(peers), err)
	}
}

func TestParseRouteShow(t *testing.T) {
	i := func(n int64) *int64 { return &n }
	for file, want := range map[string][]Route{
		"2.8/route": {{Net: Net{"tcp", 2}, Gateway: NID{"192.168.1.9", Net{Type: "o2ib"}}, Hop: i(-1), Priority: i(0), State: "down"}},
		"2.15/route": {
			{Net: Net{"o2ib", 18}, Gateway: NID{"172.19.1.54", Net{"o2ib", 100}}, Hop: i(-1), Priority: i(0), State: "up", Type: "single-hop", HealthSensitivity: i(1)},
			{Net: Net{"o2ib", 18}, Gateway: NID{"172.19.1.55", Net{"o2ib", 100}}, Hop: i(2), Priority: i(1), State: "down", Type: "multi-hop", HealthSensitivity: i(1)},
		},
		"2.17/route": {{Net: Net{Type: "tcp"}, Gateway: NID{"2001:db8::1", Net{"o2ib", 3}}, Hop: i(-1), Priority: i(0), State: "up", Type: "single-hop", HealthSensitivity: i(1)}},
	} {
		routes, err := ParseRouteShow(text(t, "shaped", file))
		if err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, routes); d != "" {
			t.Errorf("%s (-want +got):\n%s", file, d)
		}
	}
}

func TestParseValues(t *testing.T) {
	g, err := ParseGlobalShow(text(t, "client-healthy-2.17.0", "commands/lnetctl_global_show/stdout"))
	want := Values{"numa_range": 0, "max_interfaces": 200, "discovery": 1, "drop_asym_route": 0, "retry_count": 2, "transaction_timeout": 150,
		"health_sensitivity": 100, "recovery_interval": 1, "router_sensitivity": 100, "lnd_timeout": 49, "response_tracking": 3,
		"recovery_limit": 0, "max_recovery_ping_interval": 900}
	if d := cmp.Diff(want, g); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	s, err := ParseStatsShow(text(t, "client-healthy-2.17.0", "commands/lnetctl_stats_show/stdout"))
	if err != nil || len(s) != 26 || s["network_timeout_count"] != 1530 || s["send_length"] != 10894031288 {
		t.Errorf("%v, %v", s, err)
	}
	if v, err := ParseGlobalShow([]byte("global:\n  a: x\n  b: 1\n  b: 2\n  c:\n")); err != nil || !maps.Equal(v, Values{"b": 1}) {
		t.Errorf("%v, %v", v, err)
	}
}

// TestUnknown: what is not understood is told, and costs nothing but itself.
func TestUnknown(t *testing.T) {
	nis, err := ParseNetShow([]byte(`net:
    - net type: tcp
      local NI(s):
        - nid: <?>
          status: up
          tunables:
              credits: many
              peer_credits: 8
          statistics: none
          shiny:
              a: 1
        - text
    - text
`))
	want := []NI{
		{Status: "up", PeerCredits: at(int64(8)), Unknown: []string{"nid: <?>", "tunables/credits: many", "statistics: none", "shiny: "}},
		{Unknown: []string{": text"}}, {Unknown: []string{": text"}},
	}
	if d := cmp.Diff(want, nis); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	nis, _ = ParseNetShow([]byte("net:\n- nid: 1@gni\n" + strings.Repeat("  x: 1\n", 1000) + "  status: up\n"))
	if len(nis) != 1 || len(nis[0].Unknown) != unknownMost || nis[0].Status != "up" {
		t.Errorf("%+v", nis)
	}
}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		archive, file string
		want          Failure
		is            error
	}{
		{"answers-2.17.0", "client/healthy/lnetctl_net_show_unpriv/stderr", Failure{"show net", -1, "Operation not permitted"}, fs.ErrPermission},
		{"answers-2.17.0", "client/healthy/lnetctl_net_show_net_missing/stderr", Failure{"show net", -3, "Network is down"}, ErrDown},
		{"answers-2.17.0", "client/failing/lnetctl_discover_dead/stdout",
			Failure{"manage discover", -113, "failed to discover 10.77.0.95@o2ib: No route to host"}, nil},
		{"shaped", "failures/down-2.12", Failure{"show net", -100, "cannot get networks: Network is down"}, ErrDown},
		{"shaped", "failures/down-2.16", Failure{"show net", -100, "Network is down"}, ErrDown},
		{"shaped", "failures/ping-2.10", Failure{"manage ping", -1, "failed to ping 10.0.0.9@tcp: Input/output error"}, nil},
	} {
		_, err := ParseNetShow(text(t, tc.archive, tc.file))
		var f *Failure
		if !errors.As(err, &f) || *f != tc.want {
			t.Errorf("%s: %v", tc.file, err)
			continue
		}
		for _, is := range []error{fs.ErrPermission, ErrDown, fs.ErrNotExist} {
			if errors.Is(err, is) != (is == tc.is) {
				t.Errorf("%s is %v: %v", tc.file, is, !errors.Is(err, is))
			}
		}
	}
	both := append(slices.Clone(text(t, "shaped", "2.8/net")), text(t, "shaped", "failures/down-2.12")...)
	nis, err := ParseNetShow(both)
	if len(nis) != 2 || !errors.Is(err, ErrDown) {
		t.Errorf("%d interfaces, %v", len(nis), err)
	}
	for _, text := range []string{"usage: lnetctl\n", string(text(t, "shaped", "usage/2.8-net")), "peer:\n- nid: 1@gni\n", "show:\n- net:\n    errno: 0\n"} {
		var f *Failure
		if nis, err := ParseNetShow([]byte(text)); err == nil || errors.As(err, &f) || nis != nil {
			t.Errorf("%q: %v, %v", text, nis, err)
		}
	}
	for _, text := range []string{"", "\n", "---\n...\n", "net:\n", "net: []\n"} {
		if nis, err := ParseNetShow([]byte(text)); err != nil || nis != nil {
			t.Errorf("%q: %v, %v", text, nis, err)
		}
	}
}

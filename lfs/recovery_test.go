package lfs

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestParseRecovery(t *testing.T) {
	u := func(n uint64) *uint64 { return &n }
	i := func(n int64) *int64 { return &n }
	b := func(v bool) *bool { return &v }
	for name, tc := range map[string]struct {
		text string
		want Recovery
		busy bool
	}{
		"inactive":            {text: "status: INACTIVE\n", want: Recovery{Status: RecoveryInactive}},
		"waiting for clients": {text: "status: WAITING_FOR_CLIENTS", want: Recovery{Status: RecoveryWaitingForClients}, busy: true},
		"waiting": {
			text: "status: WAITING\nnon-ready MDTs:  0001 0003\nrecovery_start: 1795240000\ntime_waited: 17\n",
			want: Recovery{Status: RecoveryWaiting, NonReadyMDTs: "0001 0003", StartSec: i(1795240000), TimeWaitedSec: i(17)}, busy: true},
		"recovering": {
			text: "status: RECOVERING\nrecovery_start: 1795240000\ntime_remaining: 119\nconnected_clients: 3/7\nreq_replay_clients: 1\nlock_repay_clients: 2\ncompleted_clients: 0\nevicted_clients: 4\nreplayed_requests: 5\nqueued_requests: 6\nnext_transno: 4294967310\n",
			want: Recovery{Status: RecoveryRecovering, StartSec: i(1795240000), TimeRemainingSec: i(119),
				ConnectedClients: u(3), MaxClients: u(7), ReqReplayClients: u(1), LockReplayClients: u(2), CompletedClients: u(0),
				EvictedClients: u(4), ReplayedRequests: u(5), QueuedRequests: u(6), NextTransno: u(4294967310)}, busy: true},
		"recovering, oldest": {
			text: "status: RECOVERING\nconnected_clients: 434\nlock_replay_clients: 3\ndelayed_clients: 1/2471\n",
			want: Recovery{Status: RecoveryRecovering, ConnectedClients: u(434), LockReplayClients: u(3), DelayedClients: u(1), MaxClients: u(2471)}, busy: true},
		"complete": {
			text: "status: COMPLETE\nrecovery_start: 1795240747\nrecovery_duration: -1\ncompleted_clients: 2/2\nreplayed_requests: 0\nlast_transno: 4294967351\nVBR: DISABLED\nIR: ENABLED\n",
			want: Recovery{Status: RecoveryComplete, StartSec: i(1795240747), DurationSec: i(-1), CompletedClients: u(2), MaxClients: u(2),
				ReplayedRequests: u(0), LastTransno: u(4294967351), VBR: b(false), IR: b(true)}},
		"2.0":       {text: "status: COMPLETE\nVBR: ON\n", want: Recovery{Status: RecoveryComplete, VBR: b(true)}},
		"new state": {text: "status: PONDERING\n", want: Recovery{Status: "PONDERING"}},
		"odd values": {
			text: "status:\nVBR: PERHAPS\nevicted_clients: -1\nreplayed_requests: 18446744073709551616\ntime_remaining: 9223372036854775808\ncompleted_clients: 3/x\nnew_field: 1\nno colon\n",
			want: Recovery{CompletedClients: u(3), Unparsed: Unparsed{Count: 8, Lines: []UnparsedLine{
				{1, "status:", "status without a value"}, {2, "VBR: PERHAPS", "neither ENABLED nor DISABLED"},
				{3, "evicted_clients: -1", whyNegative}, {4, "replayed_requests: 18446744073709551616", whyOverflow},
				{5, "time_remaining: 9223372036854775808", whyOverflow}}}}},
	} {
		got := ParseRecovery([]byte(tc.text))
		if diff := cmp.Diff(&tc.want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if got.Busy() != tc.busy {
			t.Errorf("%s: busy %v", name, got.Busy())
		}
	}
}

func TestReadRecoveryMachine(t *testing.T) {
	fsys := fixtureMachine(t, "oss-2.17.0-zfs")
	for target, want := range map[string]RecoveryStatus{"mdt/lustre-MDT0000": RecoveryInactive, "obdfilter/lustre-OST0000": RecoveryComplete} {
		r, err := ReadRecovery(fsys, debugRoot+target+"/recovery_status")
		if err != nil || r.Status != want || r.Unparsed.Count > 0 {
			t.Errorf("%s: %+v, %v", target, r, err)
		}
	}
	if _, err := ReadRecovery(fsys, "nosuch"); !isNotExist(err) {
		t.Error(err)
	}
}

func TestParseHealth(t *testing.T) {
	yes, no := true, false
	for text, want := range map[string]Health{
		"healthy\n":     {Healthy: &yes},
		"healthy":       {Healthy: &yes},
		"\nhealthy\n":   {Healthy: &yes},
		"NOT HEALTHY\n": {Healthy: &no},
		"LBUG\n":        {Healthy: &no, LBUG: true},
		"":              {},
		"device fs-OST0001 reported unhealthy\ndevice fs-OST0002 reported unhealthy\nNOT HEALTHY\n": {Healthy: &no, Devices: []string{"fs-OST0001", "fs-OST0002"}},
		"device reported unhealthy\n": {Unparsed: Unparsed{1, []UnparsedLine{{1, "device reported unhealthy", "no verdict"}}}},
		"feeling fine\n":              {Unparsed: Unparsed{1, []UnparsedLine{{1, "feeling fine", "no verdict"}}}},
	} {
		if diff := cmp.Diff(&want, ParseHealth([]byte(text))); diff != "" {
			t.Errorf("%q:\n%s", text, diff)
		}
	}
}

func TestReadHealth(t *testing.T) {
	h, err := ReadHealth(fixtureMachine(t, "oss-2.17.0-zfs"))
	if err != nil || h.Healthy == nil || !*h.Healthy {
		t.Errorf("%+v, %v", h, err)
	}
	ill := fstest.MapFS{
		sysRoot + "health_check":   {Data: []byte("NOT HEALTHY\n")},
		debugRoot + "health_check": {Data: []byte("device fs-OST0001 reported unhealthy\n")},
	}
	if h, err := ReadHealth(ill); err != nil || *h.Healthy || len(h.Devices) != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	// The devices are a courtesy: without root the verdict stands.
	if h, err := ReadHealth(fixtureDenied{ill, []string{"sys/kernel/debug"}}); err != nil || *h.Healthy || len(h.Devices) != 0 {
		t.Errorf("%+v, %v", h, err)
	}
	if _, err := ReadHealth(fstest.MapFS{}); !isNotExist(err) {
		t.Error(err)
	}
	if _, err := ReadHealth(fixtureDenied{ill, []string{sysRoot + "health_check"}}); !isPermission(err) {
		t.Error(err)
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"2.17.0\n":        {Text: "2.17.0", Major: 2, Minor: 17},
		"2.15.4_1.site\n": {Text: "2.15.4_1.site", Major: 2, Minor: 15, Patch: 4},
		"2.14.0_ddn145":   {Text: "2.14.0_ddn145", Major: 2, Minor: 14},
		"2.15.58.3":       {Text: "2.15.58.3", Major: 2, Minor: 15, Patch: 58, Fix: 3},
		"2.16":            {Text: "2.16", Major: 2, Minor: 16},
		"lustre: 2.5.3\nkernel: patchless_client\nbuild:  2.5.3-RC1\n": {Text: "2.5.3", Major: 2, Minor: 5, Patch: 3, Build: "2.5.3-RC1"},
	} {
		got, err := ParseVersion([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "\n", "2", "2=15=4", "x.y.z", "99999999999999999999.1", "lustre:\n"} {
		if v, err := ParseVersion([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, v)
		}
	}
	v := Version{Major: 2, Minor: 15, Patch: 2}
	for _, tc := range []struct {
		major, minor, patch int
		want                bool
	}{{2, 15, 2, true}, {2, 15, 3, false}, {2, 14, 9, true}, {2, 16, 0, false}, {1, 99, 0, true}, {3, 0, 0, false}} {
		if v.AtLeast(tc.major, tc.minor, tc.patch) != tc.want {
			t.Errorf("2.15.2 at least %d.%d.%d: not %v", tc.major, tc.minor, tc.patch, tc.want)
		}
	}
}

func TestSmallParsersBadInput(t *testing.T) {
	for name, text := range fixtureBad() {
		if r := ParseRecovery([]byte(text)); r.Status != "" {
			t.Errorf("%s: recovery %q", name, r.Status)
		}
		if h := ParseHealth([]byte(text)); h.Healthy != nil {
			t.Errorf("%s: a verdict", name)
		}
		if _, err := ParseVersion([]byte(text)); err == nil {
			t.Errorf("%s: a version", name)
		}
		if p := ParseNRSPolicies([]byte(text)); len(p.Regular)+len(p.HighPriority) > 0 {
			t.Errorf("%s: policies", name)
		}
	}
}

func FuzzParseRecovery(f *testing.F) {
	f.Add([]byte("status: RECOVERING\nconnected_clients: 3/7\nlock_repay_clients: 2\nVBR: ON\n"))
	f.Add([]byte("status: WAITING\nnon-ready MDTs:  0001\ntime_waited: -17\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r := ParseRecovery(text); r.Busy() && r.Status == "" {
			t.Fatal("busy without a state")
		}
	})
}

func FuzzParseHealth(f *testing.F) {
	f.Add([]byte("LBUG\ndevice fs-OST0001 reported unhealthy\nNOT HEALTHY\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := ParseHealth(text)
		if h.Healthy == nil && (h.LBUG || len(h.Devices) > 0) {
			t.Fatalf("%+v", h)
		}
	})
}

func FuzzParseVersion(f *testing.F) {
	f.Add([]byte("lustre: 2.5.3\nkernel: patchless_client\nbuild:  2.5.3-RC1\n"))
	f.Add([]byte("2.15.4_1.site\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if v, err := ParseVersion(text); err == nil && v.Text == "" {
			t.Fatal("a version out of nothing")
		}
	})
}

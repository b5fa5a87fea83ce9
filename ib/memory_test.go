package ib

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var t0 = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return t0.Add(time.Duration(minutes) * time.Minute) }

func TestRemember(t *testing.T) {
	first := mlx5()
	m := Remember(Memory{}, at(0), first)
	want := PortMemory{State: "ACTIVE", PhysState: "LinkUp", Since: at(0), LastUp: at(0), LastSeen: at(0),
		BestRateGbps: new(200.), BestWidth: "4X", BestSpeed: "HDR", Counters: map[string]uint64{}}
	for _, c := range first[0].Ports[0].Counters {
		want.Counters[c.Path] = c.Value
	}
	got, ok := m.Port("mlx5_0", 1)
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("(-want +got):\n%s", diff)
	}
	down, _ := m.Port("mlx5_1", 1)
	if !down.LastUp.IsZero() || down.BestRateGbps != nil {
		t.Errorf("a port never seen up has %+v", down)
	}
	if _, ok := m.Port("mlx5_0", 2); ok {
		t.Error("port 2 is remembered")
	}

	// The link trains down, then is lost.
	slow := mlx5()
	slow[0].Ports[0].RateGbps, slow[0].Ports[0].Width = new(50.), "1X"
	if !got.Slower(&slow[0].Ports[0]) || got.Slower(&first[0].Ports[0]) {
		t.Error("the slower link is not told from the faster one")
	}
	cut := mlx5()
	cut[0].Ports[0].State, cut[0].Ports[0].PhysState = "DOWN", "Polling"
	m = Remember(Remember(Remember(m, at(1), slow), at(2), cut), at(3), cut)
	want.State, want.PhysState, want.Since, want.LastUp, want.LastSeen = "DOWN", "Polling", at(2), at(1), at(3)
	got, _ = m.Port("mlx5_0", 1)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Slower(&cut[0].Ports[0]) {
		t.Error("a port that is down is slower")
	}
}

// What a reading could not tell is neither forgotten nor a change.
func TestRememberUnknown(t *testing.T) {
	m := Remember(Memory{}, at(0), mlx5())
	blind := mlx5()
	blind[0].GUID = ""
	blind[0].Ports[0] = Port{Device: "mlx5_0", Number: 1, Err: errors.New("eio")}
	later := Remember(m, at(1), blind)
	got, _ := later.Port("mlx5_0", 1)
	want, _ := m.Port("mlx5_0", 1)
	want.LastSeen = at(1)
	if diff := cmp.Diff(want, got); diff != "" || later.Devices["mlx5_0"].GUID == "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// A clock that was set back does not leave a state of the future.
	got, _ = Remember(later, at(-60), mlx5()).Port("mlx5_0", 1)
	if !got.Since.Equal(at(-60)) {
		t.Errorf("since %v", got.Since)
	}
}

func TestRememberLeavesPrev(t *testing.T) {
	m := Remember(Memory{}, at(0), mlx5())
	before, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	more := mlx5()
	more[0].Ports[0].Counters[0].Value = 99
	more[0].Ports[0].State = "DOWN"
	more[0].Ports = append(more[0].Ports, Port{Device: "mlx5_0", Number: 2})
	Remember(m, at(1), append(more, Device{Name: "new"}))
	if after, _ := json.Marshal(m); string(after) != string(before) {
		t.Errorf("prev changed:\n%s\n%s", before, after)
	}
	if empty := Remember(Memory{}, at(0), nil); empty.Devices != nil {
		t.Errorf("%+v", empty)
	}
}

func TestMemoryJSON(t *testing.T) {
	m := Remember(Memory{}, at(0), rxe("DOWN", "Polling", false))
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"devices":{"rxe0":{"guid":"5054:00ff:fe77:0011","last_seen":"2026-11-21T12:00:00Z","ports":{"1":{"state":"DOWN",` +
		`"phys_state":"Polling","since":"2026-11-21T12:00:00Z","last_seen":"2026-11-21T12:00:00Z","counters":{` +
		`"hw_counters/completer_retry_err":10,"hw_counters/duplicate_request":0,"hw_counters/link_downed":1,` +
		`"hw_counters/out_of_seq_request":0,"hw_counters/rcvd_rnr_err":0,"hw_counters/rcvd_seq_err":0,` +
		`"hw_counters/retry_exceeded_err":2,"hw_counters/retry_rnr_exceeded_err":0,"hw_counters/send_err":0}}}}}}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	var back Memory
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, back); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestGone(t *testing.T) {
	m := Remember(Memory{}, at(0), append(mlx5(), mlx4()...))
	onePort, noPorts := mlx4(), mlx4()
	onePort[0].Ports = onePort[0].Ports[:1]
	noPorts[0].Ports, noPorts[0].Err = nil, errors.New("eio")
	replaced := mlx4()
	replaced[0].GUID, replaced[0].Ports = "other", replaced[0].Ports[:1]
	for name, tt := range map[string]struct {
		cur  []Device
		want []string
	}{
		"all there": {append(mlx4(), mlx5()...), nil},
		"none":      {nil, []string{"mlx4_0", "mlx5_0", "mlx5_1"}},
		"one":       {append(mlx4(), mlx5()[:1]...), []string{"mlx5_1"}},
		"a port":    {append(onePort, mlx5()...), []string{"mlx4_0/2"}},
		"unread":    {append(noPorts, mlx5()...), nil},
		"replaced":  {append(replaced, mlx5()...), nil},
	} {
		if diff := cmp.Diff(tt.want, Gone(m, tt.cur)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if Gone(Memory{}, mlx5()) != nil {
		t.Error("gone from nothing")
	}
	// It stays gone until the caller forgets it.
	if later := Remember(m, at(1), mlx5()); !cmp.Equal(Gone(later, mlx5()), []string{"mlx4_0"}) {
		t.Errorf("gone: %v", Gone(later, mlx5()))
	}
}

func TestDiff(t *testing.T) {
	const all = 1<<64 - 1
	for name, tt := range map[string]struct {
		path      string
		prev, cur uint64
		want      Rise // without its names
	}{
		"rose":                {path: "counters/symbol_error", prev: 3, cur: 10, want: Rise{By: new(uint64(7))}},
		"same":                {path: "counters/symbol_error", prev: 3, cur: 3},
		"reset":               {path: "counters/symbol_error", prev: 10, cur: 0, want: Rise{Reset: true}},
		"reset, no wrap":      {path: "counters/link_downed", prev: 250, cur: 3, want: Rise{Reset: true}},
		"reset when stuck":    {path: "counters/link_downed", prev: 255, cur: 1, want: Rise{Reset: true}},
		"rose until stuck":    {path: "counters/link_downed", prev: 250, cur: 255, want: Rise{By: new(uint64(5)), Stuck: true}},
		"stuck":               {path: "counters/local_link_integrity_errors", prev: 15, cur: 15, want: Rise{Stuck: true}},
		"wider than declared": {path: "counters/symbol_error", prev: 65534, cur: 65536, want: Rise{By: new(uint64(2))}},
		"wrapped":             {path: "hw_counters/out_of_buffer", prev: 1<<32 - 2, cur: 3, want: Rise{By: new(uint64(5))}},
		"hw reset":            {path: "hw_counters/out_of_buffer", prev: 5000, cur: 3, want: Rise{Reset: true}},
		"64 bits":             {path: "hw_counters/link_downed", prev: 0, cur: all, want: Rise{By: new(uint64(all))}},
		"not in the table":    {path: "counters/port_rcv_data", prev: 0, cur: 1},
	} {
		devices := func(v uint64) []Device {
			return []Device{{Name: "a", GUID: "1", Ports: []Port{{Device: "a", Number: 2, Counters: []Counter{{tt.path, v}}}}}}
		}
		prev := Remember(Memory{}, at(0), devices(tt.prev))
		var want []Rise
		if !cmp.Equal(tt.want, Rise{}) {
			m, _ := MetricOf(tt.path)
			tt.want.Device, tt.want.Port, tt.want.Metric, tt.want.Prev, tt.want.Cur = "a", 2, m, tt.prev, tt.cur
			want = []Rise{tt.want}
		}
		cur := devices(tt.cur)
		if diff := cmp.Diff(want, Diff(prev, cur)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if Diff(Memory{}, cur) != nil {
			t.Errorf("%s: a first reading has rises", name)
		}
		cur[0].GUID = "2"
		if Diff(prev, cur) != nil {
			t.Errorf("%s: compared with another adapter", name)
		}
	}
}

// A counter that was unreadable once is compared with what it was before that.
func TestDiffOverAGap(t *testing.T) {
	m := Remember(Memory{}, at(0), mlx5())
	blind := mlx5()
	blind[0].Ports[0].Counters = nil
	if Diff(m, blind[:1]) != nil {
		t.Error("an unreadable counter rose")
	}
	more := mlx5()
	more[0].Ports[0].Counters[0].Value = 4 // link_downed was 1
	got := Diff(Remember(m, at(1), blind), more[:1])
	want := []Rise{{Device: "mlx5_0", Port: 1, Prev: 1, Cur: 4, By: new(uint64(3))}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Rise{}, "Metric")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

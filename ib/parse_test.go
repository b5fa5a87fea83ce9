package ib

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ioguard/host"
)

func TestParseState(t *testing.T) {
	for text, want := range map[string]string{
		"4: ACTIVE\n": "ACTIVE", "1: DOWN": "DOWN", "5: ACTIVE_DEFER\n": "ACTIVE_DEFER", "7: Phy Test\n": "Phy Test",
		"4:PortConfigurationTraining": "PortConfigurationTraining",
		"0: <unknown>\n":              "", "9: UNKNOWN\n": "", "3:": "",
	} {
		if got, err := ParseState([]byte(text)); got != want || err != nil {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "\n", "ACTIVE", "x: ACTIVE", "-1: DOWN", ": DOWN", "99999999999: DOWN", "\x00"} {
		if got, err := ParseState([]byte(text)); err == nil || got != "" {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{
		"100 Gb/sec (4X EDR)\n":   {new(100.), "4X", "EDR"},
		"2.5 Gb/sec (1X SDR)\n":   {new(2.5), "1X", "SDR"},
		"1600 Gb/sec (8X XDR)":    {new(1600.), "8X", "XDR"},
		"10 Gb/sec (4X)\n":        {new(10.), "4X", ""},
		"56 Gb/sec":               {new(56.), "", ""},
		"40 Gb/sec (4X FDR10)":    {new(40.), "4X", "FDR10"},
		"0 GB/sec":                {new(0.), "", ""},
		"Unknown":                 {},
		"":                        {},
		"100 Gb/sec (4X EDR) new": {new(100.), "4X", "EDR"},
	} {
		got, err := ParseRate([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"fast", "100", "100 Mb/sec", "NaN Gb/sec", "Inf Gb/sec (4X)", "-1 Gb/sec", "1e999 Gb/sec", "Gb/sec 100"} {
		if got, err := ParseRate([]byte(text)); err == nil || got != (Rate{}) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestParseCounter(t *testing.T) {
	for text, want := range map[string]*uint64{
		"0\n": new(uint64(0)), "65535\n": new(uint64(65535)), "18446744073709551615": new(uint64(math.MaxUint64)),
		"N/A (no PMA)\n": nil, "N/A (not available)": nil,
	} {
		got, err := ParseCounter([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"", "-1", "18446744073709551616", "1.5", "0x10", "1 2", "many"} {
		if got, err := ParseCounter([]byte(text)); err == nil || got != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func seed(f *testing.F, names ...string) {
	for _, fixtureName := range []string{"rxe-healthy", "rxe-link-cut", "mlx5", "mlx4", "hfi1"} {
		for _, file := range fixture(f, fixtureName).Files {
			if slices.ContainsFunc(names, func(n string) bool { return strings.Contains(file.Name, n) }) {
				f.Add(file.Data)
			}
		}
	}
}

func FuzzParseState(f *testing.F) {
	seed(f, "state")
	f.Fuzz(func(t *testing.T, b []byte) {
		word, err := ParseState(b)
		if err != nil && word != "" || word != strings.TrimSpace(word) || !strings.Contains(string(b), word) {
			t.Errorf("%q: %q, %v", b, word, err)
		}
	})
}

func FuzzParseRate(f *testing.F) {
	seed(f, "/rate")
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRate(b)
		if err != nil && r != (Rate{}) || r.Gbps == nil && r.Width+r.Speed != "" {
			t.Errorf("%q: %+v, %v", b, r, err)
		}
		if r.Gbps != nil && !(*r.Gbps >= 0 && *r.Gbps <= math.MaxFloat64) {
			t.Errorf("%q: %v Gb/s", b, *r.Gbps)
		}
	})
}

func FuzzParseCounter(f *testing.F) {
	seed(f, "counters/")
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := ParseCounter(b)
		if err != nil && v != nil {
			t.Errorf("%q: %v, %v", b, v, err)
		}
		if v != nil {
			again, err := ParseCounter(strconv.AppendUint(nil, *v, 10))
			if err != nil || *again != *v {
				t.Errorf("%q: %d again is %v, %v", b, *v, again, err)
			}
		}
	})
}

// FuzzRead: what stands in one port's files hides nothing of the other device.
func FuzzRead(f *testing.F) {
	f.Add("4: ACTIVE\n", "100 Gb/sec (4X EDR)\n", "N/A (no PMA)\n", "ib0\n")
	f.Add("4", "Unknown", "many", "../..")
	want := mlx5()[1]
	f.Fuzz(func(t *testing.T, state, rate, counter, netDev string) {
		for _, text := range []string{state, rate, counter, netDev} {
			if strings.Contains(text, "-- ") || text == "-" {
				t.Skip("would be another file")
			}
		}
		h := machine(t, "mlx5", map[string]string{port0 + "state": state, port0 + "rate": rate,
			port0 + "counters/symbol_error": counter, port0 + "gid_attrs/ndevs/0": netDev})
		first := Remember(Memory{}, t0, read(t, h))
		devices, err := Read(&host.Host{FS: h.FS})
		if err != nil || len(devices) != 2 {
			t.Fatalf("%d devices, %v", len(devices), err)
		}
		if diff := cmp.Diff(want, devices[1], sameText); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(Gone(first, devices)) > 0 || slices.ContainsFunc(Diff(first, devices), func(r Rise) bool { return r.By != nil || r.Reset }) {
			t.Errorf("reading twice: gone %v, rises %+v", Gone(first, devices), Diff(first, devices))
		}
		NetDevMap(devices)
	})
}

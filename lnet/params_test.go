package lnet

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestReadParams(t *testing.T) {
	p, err := ReadParams(recorded(t, "client-healthy-2.17.0").FS)
	if err != nil || len(p) != 2 || len(p["lnet"]) != 41 || len(p["ko2iblnd"]) != 27 {
		t.Errorf("%d modules, %d and %d parameters, %v", len(p), len(p["lnet"]), len(p["ko2iblnd"]), err)
	}
	if v := p["lnet"]; v["cpu_pattern"] != "N" || v["networks"] != "" || v["accept"] != "secure" || v["dead_router_check_interval"] != "-2147483648" {
		t.Errorf("%q", v)
	}
	if p, err := ReadParams(fstest.MapFS{"sys/module/ext4/parameters/x": {Data: []byte("1")}}); !errors.Is(err, fs.ErrNotExist) || p != nil {
		t.Errorf("%v, %v", p, err)
	}
	if _, err := ReadParams(deniedFS{}); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	p, err = ReadParams(fstest.MapFS{
		"sys/module/lnet/parameters/networks": {Data: []byte("o2ib(ib0)\n")},
		"sys/module/lnet/parameters/huge":     {Data: []byte(strings.Repeat("x", paramLimit+1))},
		"sys/module/lnet/parameters/dir/x":    {},
	})
	if p["lnet"]["networks"] != "o2ib(ib0)" || len(p["lnet"]) != 1 || err == nil || !strings.Contains(err.Error(), "huge: more than") {
		t.Errorf("%v, %v", p, err)
	}
}

func TestDiffer(t *testing.T) {
	have := Params{
		"lnet":     {"networks": "o2ib0(ib0), tcp(eth0)", "lock_prim_nid": "1", "retry_count": "2", "routes": "tcp  10.0.0.[1-2]@o2ib", "ip2nets": ""},
		"ko2iblnd": {"map_on_demand": "Y", "credits": "0x100", "dev": "010"},
	}
	for _, want := range []Params{
		nil, {}, {"lnet": {}},
		{"lnet": {"networks": ` "o2ib0( ib0 ),tcp(eth0)" `, "lock_prim_nid": "Y", "retry_count": "2 ", "routes": "tcp 10.0.0.[1-2]@o2ib", "ip2nets": "''"}},
		{"lnet": {"lock_prim_nid": "true", "retry_count": "02"}, "ko2iblnd": {"map_on_demand": "1", "credits": "256", "dev": "10"}},
		{"lnet": {"lock_prim_nid": "'on'"}, "ko2iblnd": {"map_on_demand": "yes"}},
	} {
		if d := have.Differ(want); d != nil {
			t.Errorf("%v differs: %+v", want, d)
		}
	}
	got := have.Differ(Params{
		"lnet":     {"retry_count": "3", "lock_prim_nid": "N", "ip2nets": "x", "nosuch": "", "routes": "tcp10.0.0.[1-2]@o2ib"},
		"ko2iblnd": {"map_on_demand": "2", "dev": "8"},
		"kgnilnd":  {"credits": "1"},
	})
	want := []Difference{
		{"kgnilnd", "credits", "1", "", true},
		{"ko2iblnd", "dev", "8", "010", false},
		{"ko2iblnd", "map_on_demand", "2", "Y", false},
		{"lnet", "ip2nets", "x", "", false},
		{"lnet", "lock_prim_nid", "N", "1", false},
		{"lnet", "nosuch", "", "", true},
		{"lnet", "retry_count", "3", "2", false},
		{"lnet", "routes", "tcp10.0.0.[1-2]@o2ib", "tcp  10.0.0.[1-2]@o2ib", false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if d := Params(nil).Differ(Params{"lnet": {"a": ""}}); len(d) != 1 || !d[0].Missing {
		t.Errorf("%+v", d)
	}
}

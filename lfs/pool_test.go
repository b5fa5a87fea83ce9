package lfs

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestReadPools(t *testing.T) {
	want := []Pool{
		{"lustre", "hdd_pool", []string{"lustre-OST0000", "lustre-OST0001", "lustre-OST0002", "lustre-OST0003"}},
		{"lustre", "ssd_pool", []string{"lustre-OST0004", "lustre-OST0005"}},
	}
	for _, machine := range []string{"oss-2.17.0-zfs", "client-2.17.0"} {
		pools, err := ReadPools(fixtureMachine(t, machine))
		if diff := cmp.Diff(want, pools); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", machine, err, diff)
		}
	}
	if _, err := ReadPools(fixtureMachine(t, "mds-2.17.0-tbf-jobid")); !isNotExist(err) {
		t.Error(err)
	}
}

// A target of two pools, pools of two file systems, an empty one, and a client
// of several mounts.
func TestPoolsByTarget(t *testing.T) {
	fsys := fstest.MapFS{
		procRoot + "lov/a-clilov-ffff1/pools/slow":        {Data: []byte("a-OST0000_UUID\na-OST0001_UUID\n")},
		procRoot + "lov/a-clilov-ffff1/pools/all":         {Data: []byte("a-OST0001_UUID\n")},
		procRoot + "lov/a-clilov-ffff2/pools/all":         {Data: []byte("a-OST0001_UUID\n")},
		procRoot + "lov/my-fs-b-clilov-ffff3/pools/slow":  {Data: []byte("my-fs-b-OST0000_UUID")},
		procRoot + "lov/my-fs-b-clilov-ffff3/pools/empty": {},
		procRoot + "lov/my-fs-b-clilov-ffff3/target_obd":  {Data: []byte("0: x ACTIVE\n")},
	}
	pools, err := ReadPools(fsys)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{"a-OST0000": {"slow"}, "a-OST0001": {"all", "slow"}, "my-fs-b-OST0000": {"slow"}}
	if diff := cmp.Diff(want, PoolsByTarget(pools)); diff != "" {
		t.Error(diff)
	}
	if len(pools) != 4 {
		t.Errorf("%+v", pools)
	}
}

func TestParsePoolList(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []Pool
		odd  int
	}{
		"pools": {text: "Pools from lustre:\nlustre.hdd_pool\nlustre.ssd_pool\n", want: []Pool{{"lustre", "hdd_pool", nil}, {"lustre", "ssd_pool", nil}}},
		"one":   {text: "Pool: lustre.ssd_pool\nlustre-OST0004_UUID\nlustre-OST0005_UUID\n", want: []Pool{{"lustre", "ssd_pool", []string{"lustre-OST0004", "lustre-OST0005"}}}},
		"both": {text: "Pools from lustre:\nlustre.hdd_pool\nlustre.ssd_pool\nPool: lustre.hdd_pool\nlustre-OST0000_UUID\nPool: lustre.ssd_pool\nlustre-OST0004_UUID\n",
			want: []Pool{{"lustre", "hdd_pool", []string{"lustre-OST0000"}}, {"lustre", "ssd_pool", []string{"lustre-OST0004"}}}},
		"none":  {text: "Pools from lustre:\n"},
		"empty": {},
		"error": {text: "lfs pool_list: cannot find it\nPool: nodot\nnodot\n.x\nx.\n", odd: 5},
	} {
		got, odd := ParsePoolList([]byte(tc.text))
		if diff := cmp.Diff(tc.want, got); diff != "" || odd.Count != tc.odd {
			t.Errorf("%s: %+v\n%s", name, odd, diff)
		}
	}
}

func FuzzParsePoolList(f *testing.F) {
	f.Add([]byte("Pools from lustre:\nlustre.hdd_pool\nPool: lustre.ssd_pool\nlustre-OST0004_UUID\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		pools, _ := ParsePoolList(text)
		for _, p := range pools {
			if p.FS == "" || p.Name == "" {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func FuzzParsePool(f *testing.F) {
	f.Add([]byte("lustre-OST0000_UUID\nlustre-OST0001_UUID\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		PoolsByTarget([]Pool{{"f", "p", ParsePool(text)}})
	})
}

package lnet

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseNID(t *testing.T) {
	for s, want := range map[string]NID{
		"10.0.0.1@o2ib3":                {"10.0.0.1", Net{"o2ib", 3}},
		"10.0.0.1@tcp":                  {"10.0.0.1", Net{"tcp", 0}},
		"10.0.0.1@tcp0":                 {"10.0.0.1", Net{"tcp", 0}},
		"10.0.0.1@o2ib65535":            {"10.0.0.1", Net{"o2ib", 65535}},
		"0@lo":                          {"0", Net{"lo", 0}},
		"4711@gni":                      {"4711", Net{"gni", 0}},
		"4711@gni1":                     {"4711", Net{"gni", 1}},
		"0x1267@kfi":                    {"4711", Net{"kfi", 0}},
		"4711@ptlf":                     {"4711", Net{"ptlf", 0}},
		"fe80::1@tcp":                   {"fe80::1", Net{"tcp", 0}},
		"2001:DB8:0::01@o2ib":           {"2001:db8::1", Net{"o2ib", 0}},
		"login1@tcp":                    {"login1", Net{"tcp", 0}},
		"MDS-1.storage.example@o2ib1":   {"mds-1.storage.example", Net{"o2ib", 1}},
		"10.1.1.1@gip":                  {"10.1.1.1", Net{"gip", 0}},
		"fe80::a00:27ff:fe4e:66a1@efa2": {"fe80::a00:27ff:fe4e:66a1", Net{"efa", 2}},
	} {
		got, err := ParseNID(s)
		if err != nil || got != want {
			t.Errorf("%s is %+v, %v", s, got, err)
		}
		if again, err := ParseNID(got.String()); err != nil || again != got {
			t.Errorf("%s, printed as %s, is %+v, %v", s, got, again, err)
		}
		if got.IsLoopback() != (s == "0@lo") {
			t.Errorf("%s: loopback is %v", s, got.IsLoopback())
		}
	}
}

func TestParseNIDRefuses(t *testing.T) {
	for _, s := range []string{"", "@", "10.0.0.1", "@tcp", "10.0.0.1@", "10.0.0.[1-3]@tcp", "10.0.0.1-3@tcp", "*@tcp", "10.0.0.*@tcp",
		"10.0.0.1/24@tcp", "10.0.0.1,10.0.0.2@tcp", "10.0.0.1@tcp,10.0.0.2@tcp", "10.0.0.1@tcp@tcp", "10.0.0.1@tcp65536", "10.0.0.1@TCP",
		"10.0.0.1@3", "10.0.0.1@tcp-3", "10.0.0.1@tcp[1-3]", "10.0.0.1@*", "10.0.0.300@tcp", "010.0.0.1@tcp", "10.0.0@tcp", "4711@tcp",
		"login1@gni", "10.0.0.1@gni", "4294967296@gni", "-1@gni", "0x@kfi", "+1@gni", "1@lo", "0@lo1", "fe80::1%eth0@tcp", "-a@tcp", ".a@tcp", "a b@tcp",
		" 10.0.0.1@tcp", "10.0.0.1@tcp ", "10.0.0.1@tcp\n", "<?>", "ä@tcp", strings.Repeat("a", 300) + "@tcp", "10.0.0.1@" + strings.Repeat("a", 33),
		"10.0.0.1@tcp99999999999999999999"} {
		if n, err := ParseNID(s); err == nil || n != (NID{}) {
			t.Errorf("%q is %+v", s, n)
		}
	}
}

func TestNet(t *testing.T) {
	for s, want := range map[string]string{"tcp": "tcp", "tcp0": "tcp", "tcp007": "tcp7", "o2ib": "o2ib", "o2ib18": "o2ib18", "lo": "lo"} {
		if n, err := ParseNet(s); err != nil || n.String() != want {
			t.Errorf("%s is %s, %v", s, n, err)
		}
	}
}

func TestNIDInJSON(t *testing.T) {
	type all struct {
		One  NID
		None NID
		Key  map[NID]int
	}
	in := all{NID{"fe80::1", Net{"tcp", 2}}, NID{}, map[NID]int{{"4711", Net{"gni", 0}}: 1}}
	b, err := json.Marshal(in)
	if want := `{"One":"fe80::1@tcp2","None":"","Key":{"4711@gni":1}}`; err != nil || string(b) != want {
		t.Errorf("%s, %v", b, err)
	}
	var out all
	if err := json.Unmarshal(b, &out); err != nil || out.One != in.One || out.None != in.None || out.Key[NID{"4711", Net{"gni", 0}}] != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"One":"x"}`), &out); err == nil {
		t.Error("x is a NID")
	}
}

func FuzzParseNID(f *testing.F) {
	for _, s := range []string{"10.0.0.1@o2ib3", "0@lo", "0x1@kfi", "fe80::1@tcp", "login1@tcp07", "10.0.0.[1-3]@tcp", "::ffff:10.0.0.1@o2ib"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseNID(s)
		if err != nil {
			if n != (NID{}) {
				t.Fatalf("%+v with %v", n, err)
			}
			return
		}
		if again, err := ParseNID(n.String()); err != nil || again != n || strings.ContainsAny(n.String(), " \t\r\n*[],/") {
			t.Fatalf("%q is %+v, printed again %+v, %v", s, n, again, err)
		}
	})
}

func FuzzParseNet(f *testing.F) {
	f.Add("o2ib3")
	f.Add("tcp007")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseNet(s); err == nil {
			if again, err := ParseNet(n.String()); err != nil || again != n || n.Number > maxNetNumber {
				t.Fatalf("%q is %+v, printed again %+v, %v", s, n, again, err)
			}
		}
	})
}

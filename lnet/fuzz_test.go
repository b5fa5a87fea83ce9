package lnet

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// seed gives a fuzz target all answers of testdata that hold a key, whole and cut,
// and the failures.
func seed(f *testing.F, key string) {
	f.Helper()
	for _, archive := range []string{"client-healthy-2.17.0", "client-link-cut-2.17.0", "answers-2.17.0", "shaped"} {
		for _, b := range texts(f, archive) {
			if bytes.Contains(b, []byte(key)) && len(b) < 6000 || bytes.Contains(b, []byte("errno")) {
				f.Add(b)
				f.Add(b[:len(b)/2])
			}
		}
	}
	f.Add([]byte("\x00\n- \n :\n\"\n"))
	f.Add([]byte("net:\n- nid: 1@gni\n  health stats:\n    health value: 18446744073709551616\n"))
}

// sound checks what holds for every answer: a failure says something, and what is
// told is valid text.
func sound[T any](t *testing.T, v []T, err error) {
	t.Helper()
	var f *Failure
	if errors.As(err, &f) {
		if f.Errno == 0 || f.Op == "" || f.Error() == "" {
			t.Fatalf("%+v", f)
		}
	} else if err != nil && len(v) > 0 {
		t.Fatalf("%d with %v", len(v), err)
	}
	if _, err := json.Marshal(v); err != nil {
		t.Fatal(err)
	}
}

func FuzzParseNetShow(f *testing.F) {
	seed(f, "net:")
	f.Fuzz(func(t *testing.T, b []byte) {
		nis, err := ParseNetShow(b)
		sound(t, nis, err)
		for _, ni := range nis {
			if len(ni.Unknown) > unknownMost {
				t.Fatalf("%d unknown", len(ni.Unknown))
			}
		}
		if r := Classify(Remember(nis, nil), nis, nil); len(nis) < 2 && r != nil {
			t.Fatalf("%v", r)
		}
	})
}

func FuzzParsePeerShow(f *testing.F) {
	seed(f, "peer:")
	f.Fuzz(func(t *testing.T, b []byte) {
		peers, err := ParsePeerShow(b)
		sound(t, peers, err)
		for _, p := range peers {
			for _, ni := range p.NIs {
				if c := ni.MinTxCredits; c != nil && *c > 1<<31-1 && *c < 1<<32 {
					t.Fatalf("%d credits", *c)
				}
			}
		}
	})
}

func FuzzParseRouteShow(f *testing.F) {
	seed(f, "route:")
	f.Fuzz(func(t *testing.T, b []byte) {
		routes, err := ParseRouteShow(b)
		sound(t, routes, err)
	})
}

func FuzzParseValues(f *testing.F) {
	seed(f, "global:")
	seed(f, "statistics:")
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (Values, error){
			func(b []byte) (Values, error) { return ParseGlobalShow(b) },
			func(b []byte) (Values, error) { return ParseStatsShow(b) },
		} {
			v, err := parse(b)
			var f *Failure
			if err != nil && v != nil && !errors.As(err, &f) {
				t.Fatalf("%v with %v", v, err)
			}
		}
	})
}

// FuzzTables: each row is taken or complained of.
func FuzzTables(f *testing.F) {
	for _, name := range []string{"nis", "peers", "routes", "stats"} {
		f.Add(text(f, "client-healthy-2.17.0", "sys/kernel/debug/lnet/"+name))
	}
	f.Add([]byte("Routing enabled\nnet      hops   state router\no2ib18  -1  up 172.19.1.55@o2ib100\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		rows := 0
		for _, line := range bytes.Split(b, []byte("\n")) {
			if len(bytes.Fields(line)) > 0 {
				rows++
			}
		}
		nis, errN := ParseNIs(b)
		peers, errP := ParsePeers(b)
		routes, errR := ParseRoutes(b)
		if len(nis) >= max(rows, 1) || len(peers) >= max(rows, 1) || len(routes) >= max(rows, 1) {
			t.Fatalf("%d rows: %d interfaces, %d peers, %d routes", rows, len(nis), len(peers), len(routes))
		}
		if rows == 0 && (errN == nil || errP == nil || errR == nil) || errP == nil && errN == nil && len(nis) > len(peers) {
			t.Fatalf("%v; %v; %v", errN, errP, errR)
		}
		if v, err := ParseStats(b); (err == nil) != (len(v) == len(statsNames)) {
			t.Fatalf("%v, %v", v, err)
		}
	})
}

// FuzzTree holds the tree parser against goccy/go-yaml: where both take a text,
// they make the same of it.
func FuzzTree(f *testing.F) {
	seed(f, ":")
	for _, s := range []string{"a: \"b\\tc\"\n", "- a: 1\n  b: 'c''d'\n- e\n", "a:\n- b\n-\n", "x: y # z\n", "a: -1\nb: 0x10\nc: 1e3\n", "k: ! \"v\"\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		root, err := parseTree(b)
		if err != nil || len(b) > 2000 || bytes.Contains(b, []byte("\n---")) || bytes.Contains(b, []byte("\n...")) {
			return // the library takes the first document only
		}
		ours, comparable := plainTree(root)
		theirs, ok := library(b)
		if comparable && ok && !sameAsLibrary(ours, theirs) {
			t.Fatalf("%q: %#v\nthe library says %#v", b, ours, theirs)
		}
	})
}

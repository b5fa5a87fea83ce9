package lnet

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSamples parses what others captured, which is not part of the repository:
// all of it must be understood.
func TestSamples(t *testing.T) {
	walked := map[string]int{}
	for _, up := range []string{"../../shared/", "../shared/"} {
		for _, dir := range []string{"samples", "lustre-2.17/commands"} {
			if _, err := os.Stat(up + dir); err != nil {
				continue
			}
			err := filepath.WalkDir(up+dir, func(name string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					sample(t, name, walked)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(walked) == 0 {
		t.Skip("no samples here")
	}
	for what, least := range map[string]int{"net": 20, "peer": 10, "stats": 4, "global": 2, "routes": 9, "rawstats": 10, "failure": 5} {
		if walked[what] < least {
			t.Errorf("%d samples of %s, want %d", walked[what], what, least)
		}
	}
}

func sample(t *testing.T, name string, walked map[string]int) {
	if st, err := os.Stat(name); err != nil || st.Size() > 1<<20 {
		return
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	understood := func(what string, n int, unknown []string, err error) {
		walked[what]++
		if err != nil || n == 0 || len(unknown) > 0 {
			t.Errorf("%s: %d of %s, unknown %q, %v", name, n, what, unknown, err)
		}
	}
	b = bytes.TrimPrefix(b, []byte("---\n"))
	switch base := filepath.Base(name); {
	case bytes.HasPrefix(b, []byte("show:")) || bytes.HasPrefix(b, []byte("manage:")):
		var f *Failure
		if _, err := ParseNetShow(b); !errors.As(err, &f) {
			t.Errorf("%s: %v", name, err)
		}
		walked["failure"]++
	case bytes.HasPrefix(b, []byte("net:\n")):
		nis, err := ParseNetShow(b)
		var unknown []string
		for _, ni := range nis {
			unknown = append(unknown, ni.Unknown...)
		}
		understood("net", len(nis), unknown, err)
	case bytes.HasPrefix(b, []byte("peer:\n")):
		peers, err := ParsePeerShow(b)
		var unknown []string
		for _, p := range peers {
			unknown = append(unknown, p.Unknown...)
			for _, ni := range p.NIs {
				unknown = append(unknown, ni.Unknown...)
			}
		}
		understood("peer", len(peers), unknown, err)
	case bytes.HasPrefix(b, []byte("statistics:\n")):
		v, err := ParseStatsShow(b)
		understood("stats", len(v), nil, err)
	case bytes.HasPrefix(b, []byte("global:\n")):
		v, err := ParseGlobalShow(b)
		understood("global", len(v), nil, err)
	case strings.HasSuffix(name, "lnet/routes"):
		_, err := ParseRoutes(b)
		understood("routes", 1, nil, err)
	case strings.HasSuffix(name, "lnet/stats") || base == "stats.txt" && strings.Contains(name, "lnet"):
		v, err := ParseStats(b)
		understood("rawstats", len(v), nil, err)
	}
}

package lnet

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"ioguard/host"
)

// texts gives the files of an archive of testdata.
func texts(t testing.TB, name string) map[string][]byte {
	t.Helper()
	ar, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range ar.Files {
		files[f.Name] = f.Data
	}
	return files
}

// text gives one file of an archive of testdata.
func text(t testing.TB, archive, name string) []byte {
	t.Helper()
	b, ok := texts(t, archive)[name]
	if !ok {
		t.Fatalf("%s holds no %s", archive, name)
	}
	return b
}

// recorded gives a recorded machine of testdata, or one that is written out.
func recorded(t testing.TB, archive string) *host.Host {
	t.Helper()
	b := []byte(archive)
	if !strings.Contains(archive, "\n") {
		var err error
		if b, err = os.ReadFile("testdata/" + archive + ".txtar"); err != nil {
			t.Fatal(err)
		}
	}
	h, err := host.Txtar(b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const (
	healthyNet  = "commands/lnetctl_net_show/stdout"
	healthyPeer = "commands/lnetctl_peer_show/stdout"
)

// manyPeers is what a client with n peers prints.
func manyPeers(t testing.TB, n int) []byte {
	t.Helper()
	_, rest, _ := bytes.Cut(text(t, "client-healthy-2.17.0", healthyPeer), []byte("peer:\n"))
	one := rest[:bytes.Index(rest, []byte("-     primary nid: 10.77.0.98"))]
	out := []byte("peer:\n")
	for i := range n {
		out = append(out, bytes.ReplaceAll(one, []byte("10.77.0.1@"), fmt.Appendf(nil, "10.%d.%d.1@", i/250, i%250))...)
	}
	return out
}

func at[T any](v T) *T { return &v }

package lnet

import (
	"testing"

	"github.com/goccy/go-yaml"
)

func BenchmarkNetShow(b *testing.B) {
	in := text(b, "client-healthy-2.17.0", healthyNet)
	b.Run("ours", func(b *testing.B) { benchmark(b, in, ParseNetShow) })
	b.Run("goccy", func(b *testing.B) { benchmark(b, in, goccy) })
}

func BenchmarkPeers200(b *testing.B) {
	in := manyPeers(b, 200)
	b.Run("ours", func(b *testing.B) { benchmark(b, in, ParsePeerShow) })
	b.Run("goccy", func(b *testing.B) { benchmark(b, in, goccy) })
}

// goccy is the tree alone, without taking anything out of it.
func goccy(in []byte) ([]any, error) {
	var v any
	return []any{v}, yaml.Unmarshal(in, &v)
}

func benchmark[T any](b *testing.B, in []byte, parse func([]byte) ([]T, error)) {
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if v, err := parse(in); err != nil || len(v) == 0 {
			b.Fatalf("%d, %v", len(v), err)
		}
	}
}

func BenchmarkClassify200(b *testing.B) {
	peers, err := ParsePeerShow(manyPeers(b, 200))
	if err != nil {
		b.Fatal(err)
	}
	before := Remember(nil, peers)
	b.ReportAllocs()
	for b.Loop() {
		if r := Classify(before, nil, peers); len(r) != 0 {
			b.Fatal(r)
		}
	}
}

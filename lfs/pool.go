package lfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// Pool is a named set of OSTs.
type Pool struct {
	FS      string   // "lustre"
	Name    string   // "ssd_pool"
	Targets []string // "lustre-OST0004", in the pool's order
}

// PoolsByTarget maps each OST to the names of its pools, sorted. Targets carry
// their file system in their names, so pools of several never mix.
func PoolsByTarget(pools []Pool) map[string][]string {
	m := make(map[string][]string)
	for _, p := range pools {
		for _, t := range p.Targets {
			if !slices.Contains(m[t], p.Name) {
				m[t] = append(m[t], p.Name)
			}
		}
	}
	for _, names := range m {
		slices.Sort(names)
	}
	return m
}

// ReadPools reads the pools that this machine knows: a server with an MDT or a
// client. An OSS alone knows none, which is fs.ErrNotExist, as is a file system
// without pools. Several MDTs and mounts of one file system tell the same pools;
// the first that can be read counts.
func ReadPools(fsys fs.FS) ([]Pool, error) {
	found, err := Find(fsys, "pool")
	if err != nil {
		return nil, fmt.Errorf("read pools: %w", err)
	}
	type key struct{ fs, name string }
	seen := make(map[key]bool)
	var pools []Pool
	var first error
	var buf FileBuffer
	for _, f := range found {
		k := key{poolFS(f.Target), f.Item}
		if seen[k] {
			continue
		}
		text, err := buf.ReadFile(fsys, f.Path)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		seen[k] = true
		pools = append(pools, Pool{k.fs, k.name, ParsePool(text)})
	}
	if len(pools) == 0 {
		return nil, fmt.Errorf("read pools: %w", first)
	}
	return pools, nil
}

// poolFS gives the file system of a LOD or LOV device: "lustre" of
// "lustre-MDT0000-mdtlov" and "lustre-clilov-ffff8880086b6800".
func poolFS(device string) string {
	for _, mark := range []string{"-clilov", "-MDT", "-mdtlov"} {
		if i := strings.LastIndex(device, mark); i > 0 {
			return device[:i]
		}
	}
	return device
}

// ParsePool parses a pools/NAME file into target names.
//
// FILE: lustre/lod/lod_pool.c and lustre/lov/lov_pool.c, pool_proc_show:
//
//	lustre-OST0000_UUID
//	lustre-OST0001_UUID
//	lustre-OST0002_UUID
func ParsePool(text []byte) []string {
	var targets []string
	for len(text) > 0 {
		line, rest, _ := textLine(text)
		text = rest
		if name := poolMember(textStrip(line)); name != "" {
			targets = append(targets, name)
		}
	}
	return targets
}

// poolMember is the target's name in a line of a pool; "" where the line is none.
func poolMember(line []byte) string {
	if len(line) == 0 || bytes.ContainsAny(line, " \t:") {
		return ""
	}
	return string(bytes.TrimSuffix(line, []byte("_UUID")))
}

// ParsePoolList parses what `lctl pool_list` and `lfs pool_list` print: for a
// file system the names of its pools (Targets is nil), for a pool its targets.
// Outputs may follow each other.
//
// FILE: lustre/utils/obd.c, jt_pool_cmd and lustre/utils/liblustreapi.c,
// llapi_get_poollist, llapi_get_poolmembers:
//
//	Pools from lustre:
//	lustre.hdd_pool
//	Pool: lustre.ssd_pool
//	lustre-OST0004_UUID
func ParsePoolList(text []byte) ([]Pool, Unparsed) {
	var pools []Pool
	var odd Unparsed
	index := make(map[string]int)
	enter := func(name []byte) bool {
		fsname, pool, ok := strings.Cut(string(name), ".")
		if !ok || fsname == "" || pool == "" {
			return false
		}
		if _, seen := index[string(name)]; !seen {
			index[string(name)] = len(pools)
			pools = append(pools, Pool{FS: fsname, Name: pool})
		}
		return true
	}
	var members *string // the pool whose members follow; nil: names of pools follow
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := textLine(text)
		text = rest
		line = textStrip(line)
		switch name, isPool := bytes.CutPrefix(line, []byte("Pool: ")); {
		case len(line) == 0:
		case isPool && enter(textStrip(name)):
			s := string(textStrip(name))
			members = &s
		case bytes.HasPrefix(line, []byte("Pools from ")):
			members = nil
		case members == nil && !bytes.ContainsAny(line, " \t:") && enter(line):
		case members != nil && poolMember(line) != "":
			p := &pools[index[*members]]
			p.Targets = append(p.Targets, poolMember(line))
		default:
			odd.add(n, line, "neither pool nor target")
		}
	}
	return pools, odd
}

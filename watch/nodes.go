package watch

import (
	"io/fs"
	"strings"
)

// NodesOf tells the node of a client by its NID, from the machine's etc/hosts: the
// shortest name of the address. Lustre servers commonly list the cluster there;
// where they do not, clients stay addresses.
func NodesOf(fsys fs.FS) func(nid string) string {
	names := map[string]string{}
	b, err := fs.ReadFile(fsys, "etc/hosts")
	if err == nil {
		names = parseHosts(string(b))
	}
	return func(nid string) string {
		address, _, _ := strings.Cut(nid, "@")
		return names[address]
	}
}

// parseHosts reads hosts(5): an address and its names per line, # comments.
func parseHosts(text string) map[string]string {
	names := map[string]string{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		short := f[1]
		for _, n := range f[2:] {
			if len(n) < len(short) {
				short = n
			}
		}
		if _, taken := names[f[0]]; !taken {
			names[f[0]] = short
		}
	}
	return names
}

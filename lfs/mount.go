package lfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
)

// Mount is one Lustre client mount.
type Mount struct {
	Device  string     // as mounted: "10.77.0.1@o2ib:/lustre/sub"
	FS      string     // "lustre"
	Fileset string     // "/sub" where a part of the file system is mounted, else ""
	Dir     string     // "/mnt/lustre"
	MGS     [][]string // NIDs of each node that may run the MGS, in the order they are tried
	Options []string

	ReadOnly bool
}

// mountsFile is a link to self/mounts: what the reading process sees.
const mountsFile = "proc/mounts"

// ReadMounts reads the Lustre client mounts. It looks at the list only and
// nothing under a mount, which may hang. No mount is no error.
func ReadMounts(fsys fs.FS) ([]Mount, error) {
	var buf FileBuffer
	text, err := buf.ReadFile(fsys, mountsFile)
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return ParseMounts(text), nil
}

// ParseMounts picks the Lustre client mounts out of /proc/mounts, or out of
// /etc/fstab, which has the same form. Targets of servers (lustre_tgt, or a
// device without ":/") are none, and lines that are not understood are other
// people's mounts.
//
// FILE: fs/proc_namespace.c, show_vfsmnt; the options are printed by
// lustre/llite/llite_lib.c, ll_show_options:
//
//	10.77.0.1@o2ib:/lustre /mnt/lustre lustre rw,checksum,flock,lazystatfs 0 0
//	10.0.0.1@o2ib,10.1.0.1@tcp:10.0.0.2@o2ib:/lustre/sub /mnt/with\040blank lustre ro,flock 0 0
//	ost0/ost0 /mnt/ost0 lustre rw,svname=lustre-OST0000,mgsnode=10.77.0.1@o2ib,osd=osd-zfs 0 0
func ParseMounts(b []byte) []Mount {
	var mounts []Mount
	for len(b) > 0 {
		var line []byte
		line, b, _ = textLine(b)
		device, rest := textWord(line)
		dir, rest := textWord(rest)
		kind, rest := textWord(rest)
		options, _ := textWord(rest)
		if string(kind) != "lustre" || len(options) == 0 || device[0] == '#' { // a comment of fstab
			continue
		}
		if m, ok := mountOf(mountUnescape(device)); ok {
			m.Dir = mountUnescape(dir)
			m.setOptions(string(options))
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// mountOf takes the device of a client mount apart.
func mountOf(device string) (Mount, bool) {
	nids, name, ok := strings.Cut(device, ":/")
	if !ok || nids == "" {
		return Mount{}, false
	}
	m := Mount{Device: device, FS: name, MGS: mountNodes(nids)}
	if i := strings.IndexByte(name, '/'); i >= 0 {
		m.FS = name[:i]
		m.Fileset = strings.TrimRight(name[i:], "/")
	}
	return m, m.FS != "" && len(m.MGS) > 0
}

// mountNodes cuts "a@o2ib,a2@tcp:b@o2ib" into nodes and their NIDs. The address
// of an IPv6 NID has colons of its own: one before the "@" separates nothing,
// unless no NID has an "@".
func mountNodes(nids string) [][]string {
	bare := !strings.Contains(nids, "@")
	var nodes [][]string
	var node []string
	start, net := 0, bare
	for i := 0; i <= len(nids); i++ {
		end := i == len(nids)
		switch {
		case !end && nids[i] == '@':
			net = true
			continue
		case !end && nids[i] != ',' && (nids[i] != ':' || !net):
			continue
		}
		if nid := nids[start:i]; nid != "" {
			node = append(node, nid)
		}
		if (end || nids[i] == ':') && len(node) > 0 {
			nodes, node = append(nodes, node), nil
		}
		start, net = i+1, bare
	}
	return nodes
}

func (m *Mount) setOptions(list string) {
	for option := range strings.SplitSeq(list, ",") {
		if option == "" {
			continue
		}
		m.ReadOnly = m.ReadOnly || option == "ro"
		m.Options = append(m.Options, mountUnescape([]byte(option)))
	}
}

// mountUnescape undoes what the kernel does to blanks, backslashes and "#": \040.
func mountUnescape(b []byte) string {
	if bytes.IndexByte(b, '\\') < 0 {
		return string(b)
	}
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		if v, ok := mountOctal(b[i:]); ok {
			out = append(out, v)
			i += 3
			continue
		}
		out = append(out, b[i])
	}
	return string(out)
}

// mountOctal is the byte that an escape at the beginning of b stands for.
func mountOctal(b []byte) (byte, bool) {
	if len(b) < 4 || b[0] != '\\' || b[1] > '3' {
		return 0, false
	}
	v := byte(0)
	for _, c := range b[1:4] {
		if c < '0' || c > '7' {
			return 0, false
		}
		v = v<<3 | (c - '0')
	}
	return v, true
}

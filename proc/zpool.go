package proc

import "strings"

// ParseZpoolStatus reads the text of `zpool status`, with or without -P and -L,
// and gives the data devices of each pool by the names that zpool prints
// (print_status_config in cmd/zpool/zpool_main.c):
//
//	  pool: ost0
//	 state: ONLINE
//	config:
//
//		NAME           STATE     READ WRITE CKSUM
//		ost0           ONLINE       0     0     0
//		  mirror-0     ONLINE       0     0     0
//		    virtio-a   ONLINE       0     0     0
//
// Each level is indented by two blanks behind the tab; the rows without a deeper
// one below them are devices. Logs, caches, spares and special vdevs stand under
// headings of their own at the pool's level and are left out: they say little
// about how busy the pool's data disks are. What is not understood is skipped.
func ParseZpoolStatus(b []byte) map[string][]string {
	pools := make(map[string][]string)
	var pool string
	var rows []vdevRow
	flush := func() {
		if pool != "" {
			pools[pool] = leaves(pool, rows)
		}
		pool, rows = "", nil
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimRight(line, "\r\n")
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "pool: "); ok && !strings.HasPrefix(line, "\t") {
			flush()
			pool = strings.TrimSpace(name)
			continue
		}
		row, ok := strings.CutPrefix(line, "\t")
		name := strings.TrimLeft(row, " ")
		if !ok || name == "" || pool == "" {
			continue
		}
		depth := len(row) - len(name)
		name, _, _ = strings.Cut(name, " ")
		rows = append(rows, vdevRow{name: name, depth: depth})
	}
	flush()
	return pools
}

type vdevRow struct {
	name  string
	depth int
}

// leaves gives the rows below the pool's own that have no deeper row below them.
func leaves(pool string, rows []vdevRow) []string {
	var names []string
	within := false
	for i, r := range rows {
		if r.depth == 0 {
			within = r.name == pool
			continue
		}
		leaf := i+1 == len(rows) || rows[i+1].depth <= r.depth
		if within && leaf {
			names = append(names, r.name)
		}
	}
	return names
}

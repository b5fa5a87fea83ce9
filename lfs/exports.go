package lfs

import (
	"errors"
	"fmt"
	"io/fs"
)

// ListExports gives the client NIDs of a target from its exports directory, in
// the directory's order: "10.77.0.11@o2ib", and "0@lo" for the server itself.
func ListExports(fsys fs.FS, dir string) ([]string, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("list exports: %w", err)
	}
	nids := make([]string, 0, len(entries))
	for _, e := range entries {
		// "clear" is a file that empties the list when written to.
		if e.IsDir() {
			nids = append(nids, e.Name())
		}
	}
	return nids, nil
}

// ExportReader reads the stats of a target's exports, thousands of files at each
// sample, with one buffer and one parser. The zero value is ready; it serves one
// goroutine at a time.
type ExportReader struct {
	buf    FileBuffer
	parser StatsParser
}

// Read calls visit with each client NID of the exports directory and its stats,
// which hold until visit returns. Clients that went away meanwhile are left out.
// Those that cannot be read do not stop the others: the error tells how many
// there were and the first cause.
//
// FILE: lustre/obdclass/lprocfs_status_server.c, lprocfs_exp_setup (the
// directories) and lustre/obdclass/lprocfs_status.c, lprocfs_stats_seq_show:
//
//	snapshot_time             1795240910.476165058 secs.nsecs
//	read_bytes                20 samples [bytes] 1048576 1048576 20971520 21990232555520
//	getattr                   2 samples [usecs] 285 2372 2657 5707609
func (r *ExportReader) Read(fsys fs.FS, dir string, visit func(nid string, s *Stats)) error {
	nids, err := ListExports(fsys, dir)
	if err != nil {
		return err
	}
	var first error
	failed := 0
	for _, nid := range nids {
		s, err := ReadStats(fsys, dir+"/"+nid+"/stats", &r.parser, &r.buf)
		switch {
		case err == nil:
			visit(nid, s)
		case errors.Is(err, fs.ErrNotExist):
		default:
			failed++
			if first == nil {
				first = err
			}
		}
	}
	if first != nil {
		return fmt.Errorf("read exports of %s: %d of %d failed, first: %w", dir, failed, len(nids), first)
	}
	return nil
}

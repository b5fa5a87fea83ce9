package lfs

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// serviceDirs are the directories of ptlrpc services, the same under each tree.
var serviceDirs = []string{"ost/OSS", "mds/MDS", "mgs/MGS", "ldlm/services"}

// ServiceInfo is a ptlrpc service of this server and where its files are; ""
// where the system has no such file or hides it.
type ServiceInfo struct {
	Name           string // "ost/OSS/ost_io"
	Stats          string
	NRSPolicies    string
	ThreadsStarted string
	ThreadsMax     string
}

// Services lists the ptlrpc services of this server, sorted by name, anew at
// each call. The error is fs.ErrNotExist where there is none, fs.ErrPermission
// where the files are hidden (debugfs is open to root only).
func Services(fsys fs.FS) ([]ServiceInfo, error) {
	byName := make(map[string]*ServiceInfo)
	var denied error
	for _, dir := range serviceDirs {
		for _, root := range []string{debugRoot, procRoot, sysRoot} {
			entries, err := fs.ReadDir(fsys, root+dir)
			if errors.Is(err, fs.ErrPermission) && denied == nil {
				denied = err
			}
			for _, e := range entries {
				// mgs/MGS is a device too: of its directories only those with
				// requests to serve are services.
				if e.IsDir() {
					addService(fsys, byName, dir+"/"+e.Name(), root+dir+"/"+e.Name())
				}
			}
		}
	}
	var services []ServiceInfo
	for _, s := range byName {
		if s.Stats != "" || s.NRSPolicies != "" {
			services = append(services, *s)
		}
	}
	switch {
	case len(services) > 0:
		slices.SortFunc(services, func(a, b ServiceInfo) int { return strings.Compare(a.Name, b.Name) })
		return services, nil
	case denied != nil:
		return nil, fmt.Errorf("find services: %w", denied)
	}
	return nil, fmt.Errorf("find services: %w", fs.ErrNotExist)
}

func addService(fsys fs.FS, byName map[string]*ServiceInfo, name, dir string) {
	entries, _ := fs.ReadDir(fsys, dir) // one that cannot be listed offers nothing
	for _, e := range entries {
		s := byName[name]
		if s == nil {
			s = &ServiceInfo{Name: name}
		}
		var field *string
		switch e.Name() {
		case "stats":
			field = &s.Stats
		case "nrs_policies":
			field = &s.NRSPolicies
		case "threads_started":
			field = &s.ThreadsStarted
		case "threads_max":
			field = &s.ThreadsMax
		default:
			continue
		}
		byName[name] = s
		if *field == "" {
			*field = dir + "/" + e.Name()
		}
	}
}

// ServiceStats is a service's stats, sorted into what concerns all requests and
// what concerns one opcode. A counter that the file does not print is nil.
//
// The means over all requests are Sum/Samples: of Wait the microseconds between
// arrival and start, of QueueDepth the requests found queued at arrival, of
// Active the requests in service at start (this one included), of Timeout the
// seconds that clients are told to wait, of Buffers the request buffers free.
type ServiceStats struct {
	Wait, QueueDepth, Active, Timeout, Buffers *Counter
	// Ops are the opcodes. Those in usecs sum the time in service; those in reqs
	// (ldlm_*_enqueue, mds_reint_*) only count: their Sum equals Samples.
	Ops []*Counter
}

// Service sorts the counters of a ptlrpc service's stats. The result points into s.
//
// FILE: lustre/ptlrpc/lproc_ptlrpc.c, ptlrpc_ldebugfs_register (counters) and
// lustre/obdclass/lprocfs_status.c, lprocfs_stats_seq_show (text):
//
//	req_waittime              3885 samples [usecs] 41 312212 7896409 493510347563
//	req_qdepth                3885 samples [reqs] 0 1 1 1
//	ost_read                  1379 samples [usecs] 509 170787 8294599 546819564293
func (s *Stats) Service() ServiceStats {
	var v ServiceStats
	for i := range s.Counters {
		c := &s.Counters[i]
		switch c.Name {
		case "req_waittime":
			v.Wait = c
		case "req_qdepth":
			v.QueueDepth = c
		case "req_active":
			v.Active = c
		case "req_timeout":
			v.Timeout = c
		case "reqbuf_avail":
			v.Buffers = c
		default:
			v.Ops = append(v.Ops, c)
		}
	}
	return v
}

// ReadThreads reads how many threads a service runs and how many it may start.
// Either is nil where the system does not tell.
func ReadThreads(fsys fs.FS, s ServiceInfo) (started, limit *uint64) {
	read := func(name string) *uint64 {
		if name == "" {
			return nil
		}
		n, err := readNumber(fsys, name)
		if err != nil {
			return nil
		}
		return &n
	}
	return read(s.ThreadsStarted), read(s.ThreadsMax)
}

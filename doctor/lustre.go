package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"ioguard/host"
	"ioguard/lfs"
)

// Service is a request service of a server and its schedulers.
type Service struct {
	Name        string // "ost/OSS/ost_io"
	Policies    *lfs.NRSPolicies
	DefaultRule *bool // of TBF; nil where TBF is not started, or it is not told
}

// throttled are the services on which jobs are throttled.
var throttled = []string{"ost/OSS/ost_io", "mds/MDS/mdt"}

// readServices reads the schedulers of the services that matter.
func readServices(fsys fs.FS) ([]Service, error) {
	infos, err := lfs.Services(fsys)
	if err != nil {
		return nil, err
	}
	var all []Service
	var errs []error
	for _, name := range throttled {
		for _, info := range infos {
			if info.Name != name || info.NRSPolicies == "" {
				continue
			}
			policies, err := lfs.ReadNRSPolicies(fsys, info.NRSPolicies)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			all = append(all, Service{name, policies, readDefaultRule(fsys, policies, path.Dir(info.NRSPolicies))})
		}
	}
	return all, errors.Join(errs...)
}

// readDefaultRule looks for the rule default where TBF is started: reading the rules
// while it is not is an error.
func readDefaultRule(fsys fs.FS, policies *lfs.NRSPolicies, dir string) *bool {
	if p := policies.Primary(); p == nil || p.Name != "tbf" {
		return nil
	}
	b, err := fs.ReadFile(fsys, path.Join(dir, "nrs_tbf_rule"))
	if err != nil {
		return nil
	}
	has := hasDefaultRule(b)
	return &has
}

// hasDefaultRule tells whether the rule default stands in the regular queue.
//
// FILE: lustre/ptlrpc/nrs_tbf.c, nrs_tbf_rule_dump_all:
//
//	regular_requests:
//	CPT 0:
//	default {*} 10000, ref 4
func hasDefaultRule(b []byte) bool {
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "high_priority_requests") {
			return false
		}
		if strings.HasPrefix(line, "default ") {
			return true
		}
	}
	return false
}

// Pools are the OST pools that this machine knows.
type Pools struct {
	Told bool // this machine would know of pools if there were any
	All  []lfs.Pool
}

// maxFileSystems bounds for how many file systems an MGS asks lctl.
const maxFileSystems = 8

// readPools reads the pools of a client or MDS from its files. An MGS has none of
// these, and lctl is asked by the names of the file systems; an OSS knows no pools.
func readPools(ctx context.Context, h *host.Host) (Pools, error) {
	pools, err := lfs.ReadPools(h.FS)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return Pools{true, pools}, err
	}
	for _, pattern := range []string{"proc/fs/lustre/lod/*", "proc/fs/lustre/lov/*", "sys/kernel/debug/lustre/lod/*", "sys/kernel/debug/lustre/lov/*"} {
		if found, _ := h.Glob(pattern); len(found) > 0 {
			return Pools{Told: true}, nil
		}
	}
	live, _ := h.Glob("proc/fs/lustre/mgs/MGS/live/*")
	p := Pools{}
	for _, name := range live[:min(len(live), maxFileSystems)] {
		if fsname := path.Base(name); fsname != "params" {
			out, err := h.Run(ctx, "lctl", "pool_list", fsname)
			if err != nil {
				return p, err
			}
			some, _ := lfs.ParsePoolList(out)
			p.All, p.Told = append(p.All, some...), true
		}
	}
	return p, nil
}

// Timeouts are Lustre's, in seconds; nil is unknown.
type Timeouts struct {
	Timeout, LDLM, AtMin, AtMax *uint64
}

// readTimeouts reads the settings of this node.
//
// FILE: lustre/obdclass/obd_sysfs.c, and lustre/obdclass/linux/linux-sysctl.c for
// proc/sys/lustre of older releases: a number.
func readTimeouts(fsys fs.FS) (Timeouts, error) {
	var t Timeouts
	var errs []error
	for _, f := range []struct {
		name string
		to   **uint64
	}{{"timeout", &t.Timeout}, {"ldlm_timeout", &t.LDLM}, {"at_min", &t.AtMin}, {"at_max", &t.AtMax}} {
		b, err := fs.ReadFile(fsys, "sys/fs/lustre/"+f.name)
		if errors.Is(err, fs.ErrNotExist) {
			b, err = fs.ReadFile(fsys, "proc/sys/lustre/"+f.name)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		n, bad := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
		if err == nil && bad == nil {
			*f.to = &n
			continue
		}
		errs = append(errs, fmt.Errorf("read %s: %w", f.name, errors.Join(err, bad)))
	}
	if t == (Timeouts{}) && len(errs) == 0 {
		return t, fmt.Errorf("read timeout: %w", fs.ErrNotExist)
	}
	return t, errors.Join(errs...)
}

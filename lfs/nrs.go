package lfs

import (
	"bytes"
	"fmt"
	"io/fs"
)

// NRSPolicy is one request scheduler of a service.
type NRSPolicy struct {
	Name     string // "fifo", "crrn", "orr", "trr", "tbf", "delay"
	Arg      string // what stands after the name: "jobid" of "tbf jobid"
	State    string // "started", "stopped", "starting", "stopping"
	Fallback bool   // takes what the primary policy refuses
	Queued   *uint64
	Active   *uint64 // in service
}

// NRSPolicies is a service's nrs_policies, summed over its CPU partitions by the kernel.
type NRSPolicies struct {
	Regular      []NRSPolicy
	HighPriority []NRSPolicy // nil where the service has no such queue
	Unparsed     Unparsed
}

// Totals sums the requests queued and in service over both queues. Stopped
// policies hold none; a stopping one may, and counts.
func (p *NRSPolicies) Totals() (queued, active uint64) {
	for _, queue := range [][]NRSPolicy{p.Regular, p.HighPriority} {
		for _, pol := range queue {
			if pol.State == "stopped" {
				continue
			}
			if pol.Queued != nil {
				queued += *pol.Queued
			}
			if pol.Active != nil {
				active += *pol.Active
			}
		}
	}
	return queued, active
}

// Primary is the started policy of the regular queue that is no fallback, nil
// where the fallback (fifo) does the work.
func (p *NRSPolicies) Primary() *NRSPolicy {
	for i := range p.Regular {
		if pol := &p.Regular[i]; pol.State == "started" && !pol.Fallback {
			return pol
		}
	}
	return nil
}

// ReadNRSPolicies reads and parses a service's nrs_policies.
func ReadNRSPolicies(fsys fs.FS, path string) (*NRSPolicies, error) {
	var buf FileBuffer
	text, err := buf.ReadFile(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("read nrs_policies: %w", err)
	}
	return ParseNRSPolicies(text), nil
}

// ParseNRSPolicies parses nrs_policies. It never fails: see Unparsed.
//
// FILE: lustre/ptlrpc/lproc_ptlrpc.c, ptlrpc_lprocfs_nrs_policies_seq_show
// (ptlrpc_lprocfs_nrs_seq_show in older releases):
//
//	regular_requests:
//	  - name: tbf jobid
//	    queued: 0
func ParseNRSPolicies(text []byte) *NRSPolicies {
	p := &NRSPolicies{}
	var queue *[]NRSPolicy
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := textLine(text)
		text = rest
		line = textStrip(line)
		switch {
		case len(line) == 0:
		case string(line) == "regular_requests:":
			queue = &p.Regular
		case string(line) == "high_priority_requests:":
			queue = &p.HighPriority
		case queue == nil:
			p.Unparsed.add(n, line, "line before the first queue")
		default:
			if why := nrsLine(queue, line); why != "" {
				p.Unparsed.add(n, line, why)
			}
		}
	}
	return p
}

// nrsLine takes one line of a queue.
func nrsLine(queue *[]NRSPolicy, line []byte) (why string) {
	line, first := bytes.CutPrefix(line, []byte("- "))
	key, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return "not a field"
	}
	value = textStrip(value)
	if string(key) == "name" {
		name, arg := textWord(value)
		if len(name) == 0 || !first {
			return "policy without a name"
		}
		*queue = append(*queue, NRSPolicy{Name: string(name), Arg: string(textStrip(arg))})
		return ""
	}
	if len(*queue) == 0 {
		return "field before the first policy"
	}
	return nrsField(&(*queue)[len(*queue)-1], string(key), value)
}

func nrsField(pol *NRSPolicy, key string, value []byte) (why string) {
	switch key {
	case "state":
		pol.State = string(value)
	case "fallback":
		if string(value) != "yes" && string(value) != "no" {
			return "neither yes nor no"
		}
		pol.Fallback = string(value) == "yes"
	case "queued":
		return textUintTo(&pol.Queued, value)
	case "active":
		return textUintTo(&pol.Active, value)
	default:
		return "unknown field"
	}
	return ""
}

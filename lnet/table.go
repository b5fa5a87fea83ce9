package lnet

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// row is a line of one of debugfs' tables, by the names of its columns.
type row struct{ columns, words []string }

// parseTable cuts a table whose first column in the head is named. Lines before
// the head say whether routing is on. each tells whether it took the row; those
// that it did not take are in the error, and cost only themselves.
func parseTable(b []byte, what, first string, each func(row) bool) error {
	var head []string
	var errs []error
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case head == nil:
			if words[0] == first {
				head = words
			}
		case len(words) != len(head) || !each(row{head, words}):
			errs = append(errs, fmt.Errorf("parse %s: line %d: not a row: %.80q", what, n, strings.TrimSpace(line)))
		}
	}
	if head == nil {
		return fmt.Errorf("parse %s: no head in it", what)
	}
	return errors.Join(errs[:min(len(errs), 5)]...)
}

// word is what stands in a column, the nth of that name; "" where there is none.
func (r row) word(column string, nth int) string {
	for i := range r.columns {
		if r.columns[i] == column {
			if nth--; nth == 0 {
				return r.words[i]
			}
		}
	}
	return ""
}

func (r row) int(column string, nth int) *int64 {
	n, err := strconv.ParseInt(r.word(column, nth), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// ParseNIs parses the table nis of debugfs or procfs. It says "up" with the cable
// out, so it proves no health. Rows that make no sense are in the error, the
// others are there all the same.
//
// SOURCE: lnet/lnet/router_proc.c, proc_lnet_nis. An interface has a line for each
// of its CPU partitions, which have credits of their own; here they are one:
//
//	nid                      status alive refs peer  rtr   max    tx   min
//	0@lo                         up     0    2    0    0     0     0     0
//	10.77.0.11@o2ib              up    -1    2    8    0   256   255   246
func ParseNIs(b []byte) ([]NI, error) {
	var nis []NI
	err := parseTable(b, "nis", "nid", func(r row) bool {
		nid, err := ParseNID(r.word("nid", 1))
		if err != nil {
			return false
		}
		ni := NI{NID: nid, Status: r.word("status", 1), PeerCredits: r.int("peer", 1), PeerBufferCredits: r.int("rtr", 1),
			Credits: r.int("max", 1), AvailableCredits: r.int("tx", 1), MinCredits: r.int("min", 1)}
		i := slices.IndexFunc(nis, func(other NI) bool { return other.NID == nid })
		if i < 0 {
			nis = append(nis, ni)
			return true
		}
		sumTo(&nis[i].Credits, ni.Credits)
		sumTo(&nis[i].AvailableCredits, ni.AvailableCredits)
		if a, b := nis[i].MinCredits, ni.MinCredits; a != nil && b != nil {
			*a = min(*a, *b)
		}
		return true
	})
	return nis, err
}

// sumTo adds; a sum with an unknown part is unknown.
func sumTo(p **int64, n *int64) {
	if *p == nil || n == nil {
		*p = nil
		return
	}
	**p += *n
}

// ParsePeers parses the table peers of debugfs or procfs, which does not know
// which interfaces are one peer's.
//
// SOURCE: lnet/lnet/router_proc.c, proc_lnet_peers; the first min is that of the
// routing credits:
//
//	nid                      refs state  last   max   rtr   min    tx   min queue
//	10.77.0.1@o2ib              2    NA    -1     8     8     8     7   -40 552
func ParsePeers(b []byte) ([]Peer, error) {
	var peers []Peer
	err := parseTable(b, "peers", "nid", func(r row) bool {
		nid, err := ParseNID(r.word("nid", 1))
		if err != nil {
			return false
		}
		peers = append(peers, Peer{PrimaryNID: nid, NIs: []PeerNI{{NID: nid, State: r.word("state", 1), RefCount: r.int("refs", 1),
			MaxTxCredits: r.int("max", 1), AvailableRtrCredits: r.int("rtr", 1), MinRtrCredits: r.int("min", 1),
			AvailableTxCredits: r.int("tx", 1), MinTxCredits: r.int("min", 2), TxQueue: r.int("queue", 1)}}})
		return true
	})
	return peers, err
}

// ParseRoutes parses the table routes of debugfs or procfs.
//
// SOURCE: lnet/lnet/router_proc.c, proc_lnet_routes; 2.5 and before have no
// priority:
//
//	Routing disabled
//	net      hops priority   state router
//	o2ib18     -1        0      up 172.19.1.54@o2ib100
func ParseRoutes(b []byte) ([]Route, error) {
	var routes []Route
	err := parseTable(b, "routes", "net", func(r row) bool {
		net, err := ParseNet(r.word("net", 1))
		if err != nil {
			return false
		}
		gateway, err := ParseNID(r.word("router", 1))
		if err != nil {
			return false
		}
		route := Route{Net: net, Gateway: gateway, Hop: r.int("hops", 1), Priority: r.int("priority", 1), State: r.word("state", 1)}
		if route.Hop != nil && *route.Hop == 1<<32-1 {
			*route.Hop = -1
		}
		routes = append(routes, route)
		return true
	})
	return routes, err
}

// statsNames are the numbers of the file stats, by lnetctl's names for them.
var statsNames = []string{
	"msgs_alloc", "msgs_max", "errors", "send_count", "recv_count", "route_count", "drop_count",
	"send_length", "recv_length", "route_length", "drop_length",
}

// ParseStats parses the file stats of debugfs or procfs, and gives each number the
// name that lnetctl has for it.
//
// SOURCE: lnet/lnet/router_proc.c, proc_lnet_stats:
//
//	1 49 0 167185 180642 0 0 10894023848 2630925432 0 0
func ParseStats(b []byte) (Values, error) {
	words := strings.Fields(string(b))
	if len(words) != len(statsNames) {
		return nil, fmt.Errorf("parse stats: %d numbers, want %d: %.80q", len(words), len(statsNames), b)
	}
	v := Values{}
	for i, name := range statsNames {
		n, err := strconv.ParseInt(words[i], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("parse stats: not a number: %.40q", words[i])
		}
		v[name] = n
	}
	return v, nil
}

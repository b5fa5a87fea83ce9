package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// Node is a node as the controller sees it.
type Node struct {
	Name       string
	State      string    // as sinfo's %T: "idle", "draining", "drained*"
	Reason     string    // why it is drained or down, up to 60,000 characters of any kind; "" for none
	ReasonUser string    // who gave it, "" where that is unknown
	ReasonTime time.Time // when, zero where that is unknown
	Partitions []string  // sorted: sinfo's order differs from call to call
}

// Drained tells whether a node takes no new jobs because somebody or something has
// drained it, its jobs done or not. Flags behind the state (node_state_string in
// slurm_protocol_defs.c) do not matter: * no answer, ~ # % powered down, on its way
// up or down, $ in a maintenance reservation, @ ^ about to reboot, - planned.
func (n *Node) Drained() bool {
	state := strings.ToLower(strings.TrimRight(n.State, "*~#!%$@^-"))
	switch state {
	case "drained", "draining", "drain", "drng":
		return true
	}
	return false
}

// nodeFormat is what sinfo is asked for (sinfo(1), -o). As in format the mark
// stands first and the only field that holds anything, the reason, last.
func nodeFormat(mark string) string {
	return mark + "|%N|%T|%R|%H|%u|%E"
}

// ParseNodes reads what sinfo printed in the format above, with times in loc; the
// nodes come in sinfo's order, each once:
//
//	MARK|node1|idle|debug|Unknown|Unknown|none
//	MARK|node2|drained|debug|2026-11-21T12:41:07|root|ioguard: ib port down
//	MARK|node3|down*|debug|2026-11-21T12:45:00|slurm|Not responding
//
// Rows that are not understood are counted in the error and do not harm the others.
func ParseNodes(out []byte, mark string, loc *time.Location) ([]Node, error) {
	var nodes []Node
	at := make(map[string]int)
	bad, total := 0, 0
	rows := strings.Split("\n"+string(out), "\n"+mark+"|")
	for _, row := range rows[1:] {
		total++
		n, ok := parseNode(strings.TrimSuffix(row, "\n"), loc)
		if !ok {
			bad++
			continue
		}
		i, seen := at[n.Name]
		if !seen {
			at[n.Name] = len(nodes)
			nodes = append(nodes, n)
			continue
		}
		nodes[i].Partitions = append(nodes[i].Partitions, n.Partitions...)
	}
	for i := range nodes {
		slices.Sort(nodes[i].Partitions)
		nodes[i].Partitions = slices.Compact(nodes[i].Partitions)
	}
	if bad > 0 {
		return nodes, fmt.Errorf("parse sinfo: %d of %d rows not understood", bad, total)
	}
	return nodes, nil
}

func parseNode(row string, loc *time.Location) (Node, bool) {
	f := strings.SplitN(row, "|", 6)
	if len(f) < 6 || !IsNodeName(f[0]) || f[1] == "" {
		return Node{}, false
	}
	n := Node{Name: f[0], State: f[1], ReasonUser: f[4], Reason: f[5]}
	if p := known(f[2]); p != "" {
		n.Partitions = []string{p}
	}
	if t, err := time.ParseInLocation("2006-01-02T15:04:05", f[3], loc); err == nil {
		n.ReasonTime = t
	}
	// sinfo's words for "nothing"; an administrator's "none" has a time.
	if n.ReasonUser == "Unknown" {
		n.ReasonUser = ""
	}
	if n.Reason == "none" && n.ReasonTime.IsZero() {
		n.Reason = ""
	}
	return n, true
}

// IsNodeName tells whether a name can be that of one node: letters, digits, dots,
// dashes and underscores. Brackets and commas, by which Slurm takes many nodes for
// one argument, are not among them.
func IsNodeName(name string) bool {
	if name == "" || len(name) > 255 || name[0] == '-' || strings.Trim(name, ".") == "" {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-", c) >= 0) {
			return false
		}
	}
	return true
}

// Run runs a command, without a shell, and gives its standard output; its error
// holds what the command said on standard error. It is called with "sinfo", and may
// start that from wherever the site keeps it. It is host.Host's Run.
type Run = func(ctx context.Context, name string, args ...string) ([]byte, error)

// ReadNodes asks once for all nodes that are in a partition, hidden ones too. The
// context bounds the time: sinfo itself tries for longer than a hook may wait when
// its controller is away.
func ReadNodes(ctx context.Context, run Run) ([]Node, error) {
	return askSinfo(ctx, run)
}

// ReadNode asks for one node. One that Slurm does not know wraps fs.ErrNotExist.
func ReadNode(ctx context.Context, run Run, name string) (Node, error) {
	if !IsNodeName(name) {
		return Node{}, fmt.Errorf("read node: %.100q is no name of a node", name)
	}
	nodes, err := askSinfo(ctx, run, "--nodes="+name)
	if i := slices.IndexFunc(nodes, func(n Node) bool { return n.Name == name }); i >= 0 {
		return nodes[i], nil
	}
	if err == nil {
		err = fmt.Errorf("read node %s: sinfo does not list it: %w", name, fs.ErrNotExist)
	}
	return Node{}, err
}

func askSinfo(ctx context.Context, run Run, which ...string) ([]Node, error) {
	if run == nil {
		return nil, errors.New("ask sinfo: no commands here")
	}
	mark := newMark()
	args := append([]string{"--noheader", "--Node", "--all", "--format=" + nodeFormat(mark)}, which...)
	out, err := run(ctx, "sinfo", args...)
	if err != nil {
		return nil, fmt.Errorf("ask sinfo: %w", err)
	}
	return ParseNodes(out, mark, time.Local)
}

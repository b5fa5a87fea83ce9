package slurm

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"ioguard/slurm/slurmtest"

	"github.com/google/go-cmp/cmp"
)

// recordedNodes is what sinfo 22.05.8 printed on a real cluster with two
// partitions, one of them hidden, with the mark "MARK". node2's reason has two lines.
const recordedNodes = `MARK|node1|idle|debug|Unknown|Unknown|none
MARK|node1|idle|hid|Unknown|Unknown|none
MARK|node2|drained|debug|2026-11-21T12:41:44|root|two
lines|with pipes
MARK|node2|drained|hid|2026-11-21T12:41:44|root|two
lines|with pipes
MARK|node3|drained|debug|2026-11-21T12:41:44|root|none
MARK|node4|down|debug|2026-11-21T12:41:44|root|quo"ted
`

func TestParseNodesRecorded(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 41, 44, 0, time.UTC)
	want := []Node{
		{Name: "node1", State: "idle", Partitions: []string{"debug", "hid"}},
		{Name: "node2", State: "drained", Reason: "two\nlines|with pipes", ReasonUser: "root", ReasonTime: at, Partitions: []string{"debug", "hid"}},
		{Name: "node3", State: "drained", Reason: "none", ReasonUser: "root", ReasonTime: at, Partitions: []string{"debug"}},
		{Name: "node4", State: "down", Reason: `quo"ted`, ReasonUser: "root", ReasonTime: at, Partitions: []string{"debug"}},
	}
	got, err := ParseNodes([]byte(recordedNodes), "MARK", time.UTC)
	if err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseNodesOddities(t *testing.T) {
	long := strings.Repeat("x|\n", 20_000)
	for name, tt := range map[string]struct {
		out  string
		want []string // name, reason
		bad  bool
	}{
		"empty":             {"", nil, false},
		"words before":      {"sinfo: warning\nM|n1|idle|p|Unknown|Unknown|r\n", []string{"n1", "r"}, false},
		"long reason":       {"M|n1|drained|p|2026-11-21T12:41:44|root|" + long + "\n", []string{"n1", long}, false},
		"mark in a reason":  {"M|n1|drained|p|x|root|aM|n2|idle|p|x|y|z\n", []string{"n1", "aM|n2|idle|p|x|y|z"}, false},
		"cut off":           {"M|n1|idle|p|Unknown|Unknown|none\nM|n2|idle|p", []string{"n1", ""}, true},
		"a list for a name": {"M|n[1-2]|idle|p|Unknown|Unknown|none\nM|n3|idle|p|Unknown|Unknown|none", []string{"n3", ""}, true},
		"no partition":      {"M|n1|idle||Unknown|Unknown|none\n", []string{"n1", ""}, false},
	} {
		nodes, err := ParseNodes([]byte(tt.out), "M", time.UTC)
		if (err != nil) != tt.bad {
			t.Errorf("%s: err = %v", name, err)
		}
		var got []string
		for _, n := range nodes {
			got = append(got, n.Name, n.Reason)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %.200q, want %.200q", name, got, tt.want)
		}
	}
}

func TestDrained(t *testing.T) {
	for state, want := range map[string]bool{
		"drained": true, "draining": true, "drained*": true, "draining@": true, "drng": true, "drain": true, "DRAIN~": true, "drained$": true, "draining*#": true,
		"": false, "idle": false, "idle*": false, "mixed": false, "allocated": false, "down": false, "down*": false, "reboot": false, "planned": false, "drainage": false, "mixed-": false,
	} {
		if n := (Node{State: state}); n.Drained() != want {
			t.Errorf("%q: drained %v", state, !want)
		}
	}
}

func TestIsNodeName(t *testing.T) {
	for _, name := range []string{"node1", "n-1_a.cluster.example", "nid001234", "1"} {
		if !IsNodeName(name) {
			t.Errorf("%q is a name", name)
		}
	}
	for _, name := range []string{"", ".", "..", "n[1-2]", "n1,n2", "-n1", "--all", "n1 ", "n/1", "n\n", "nöde", "ALL State=DOWN", strings.Repeat("n", 256)} {
		if IsNodeName(name) {
			t.Errorf("%q is no name", name)
		}
	}
}

func TestReadNode(t *testing.T) {
	var asked []string
	answer := "M|node1|idle|debug|Unknown|Unknown|none\nM|bad\n"
	var fails error
	run := func(_ context.Context, name string, args ...string) ([]byte, error) {
		asked = append([]string{name}, args...)
		mark, _, _ := strings.Cut(strings.TrimPrefix(args[3], "--format="), "|")
		return []byte(strings.ReplaceAll(answer, "M|", mark+"|")), fails
	}
	if n, err := ReadNode(t.Context(), run, "node1"); err != nil || n.State != "idle" || !slices.Contains(asked, "--nodes=node1") || asked[0] != "sinfo" {
		t.Errorf("%+v, %v, asked %q", n, err, asked)
	}
	if _, err := ReadNode(t.Context(), run, "node2"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a node whose row may be the one that is not understood: %v", err)
	}
	if nodes, err := ReadNodes(t.Context(), run); len(nodes) != 1 || err == nil {
		t.Errorf("%+v, %v", nodes, err)
	}
	answer = ""
	if _, err := ReadNode(t.Context(), run, "node2"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	fails = context.DeadlineExceeded
	if _, err := ReadNode(t.Context(), run, "node1"); !errors.Is(err, fails) {
		t.Error(err)
	}
	asked = nil
	if _, err := ReadNode(t.Context(), run, "node[1-9]"); err == nil || asked != nil {
		t.Errorf("%v, asked %q", err, asked)
	}
	if _, err := ReadNodes(t.Context(), nil); err == nil {
		t.Error("no commands, no error")
	}
}

// TestRealNodes holds ReadNodes against a real sinfo: long and forged reasons,
// nodes that work, hidden partitions.
func TestRealNodes(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{Nodes: 4, Conf: map[string]string{
		"PartitionName": "debug Nodes=ALL Default=YES State=UP\nPartitionName=hidden Nodes=node1,node2 Hidden=YES"}})
	long := strings.Repeat("x|\n", 20_000) + "end"
	forged := "done\nMARK|node9|idle|debug|Unknown|Unknown|none"
	c.UntilJob(c.Submit("--nodelist=node3", "--wrap=sleep 60"), 20*time.Second, "RUNNING")
	c.Must("scontrol", "update", "NodeName=node2", "State=DRAIN", "Reason="+long)
	c.Must("scontrol", "update", "NodeName=node3", "State=DRAIN", "Reason="+forged)
	nodes, err := ReadNodes(t.Context(), c.Run)
	if err != nil || len(nodes) != 4 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for i, want := range []Node{
		{Name: "node1", State: "idle", Partitions: []string{"debug", "hidden"}},
		{Name: "node2", State: "drained", Reason: long, ReasonUser: "root", Partitions: []string{"debug", "hidden"}},
		{Name: "node3", State: "draining", Reason: forged, ReasonUser: "root", Partitions: []string{"debug"}},
		{Name: "node4", State: "idle", Partitions: []string{"debug"}},
	} {
		got := nodes[i]
		if drained := want.Reason != ""; drained != got.Drained() || drained == got.ReasonTime.IsZero() || drained && time.Since(got.ReasonTime).Abs() > time.Minute {
			t.Errorf("%s: drained %v, at %v", got.Name, got.Drained(), got.ReasonTime)
		}
		got.ReasonTime = time.Time{}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	if n, err := ReadNode(t.Context(), c.Run, "node3"); err != nil || n.State != "draining" || n.Reason != forged {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := ReadNode(t.Context(), c.Run, "node5"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func FuzzParseNodes(f *testing.F) {
	f.Add([]byte(recordedNodes), "MARK")
	f.Add([]byte("M|n|s|p|t|u|r\nM|n|s|q|t|u|r\nM|n"), "M")
	f.Add([]byte("|||||||"), "")
	f.Fuzz(func(t *testing.T, out []byte, mark string) {
		nodes, _ := ParseNodes(out, mark, time.UTC)
		seen := make(map[string]bool)
		for _, n := range nodes {
			if !slices.IsSorted(n.Partitions) || !IsNodeName(n.Name) || n.State == "" || seen[n.Name] || len(n.Reason) > len(out) {
				t.Fatalf("%+v", n)
			}
			seen[n.Name] = true
		}
	})
}

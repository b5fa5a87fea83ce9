package main

import (
	"context"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ioguard"
	"ioguard/store"
)

// noderecords FILE keeps what hooks tell of three jobs, of an hour ago: 4711, task
// 3 of array 4700, that ended on n12 and runs on n13; 4712, beside it on n12; and
// 4713, which never ran since its node was drained three days ago.
func noderecords(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: noderecords FILE")
	}
	known := func(n uint64) *uint64 { return &n }
	start := time.Now().Add(-time.Hour)
	end := start.Add(90 * time.Second)
	old := start.Add(-72 * time.Hour)
	status, beside := 768, false
	on := func(node, user, id string, start time.Time) ioguard.NodeJob {
		return ioguard.NodeJob{Cluster: "c", JobID: id, Node: node, User: user, Partition: "batch", NodeList: "n[12-13]", WorkDir: "/lustre/\x1b[2J" + user, Start: start}
	}
	ended := on("n12", "alice", "4711", start)
	ended.End, ended.ExitCode, ended.Exclusive = end, &status, &beside
	ended.FS = []ioguard.NodeFS{{FS: "lustre", ReadBytes: known(3 << 20), Reads: known(3), Opens: known(1), Getattrs: known(12345), Fsyncs: known(0)}, {FS: "idle"}}
	r := store.NodeRecords{Jobs: []ioguard.NodeJob{
		{Cluster: "c", JobID: "4711", ArrayJobID: "4700", ArrayTaskID: "3", User: "alice", Account: "physics", Name: "big", Start: start.Add(-time.Second)},
		ended, on("n13", "alice", "4711", start), on("n12", "bob", "4712", start),
	}, Events: []ioguard.NodeEvent{
		{Time: start, Cluster: "c", Node: "n12", Hook: "prolog", JobID: "4711", User: "alice", Kind: ioguard.EventFailOpen, Check: "lustre-stat", Text: "no answer in 2s", Took: 2 * time.Second},
		{Time: end, Cluster: "c", Node: "n13", Hook: "epilog", JobID: "4711", User: "alice", Kind: ioguard.EventFinding, Check: "lnet", Subject: "10.0.0.5@o2ib", Text: "odd\x1b[2J\xff" + "text"},
		{Time: old, Cluster: "c", Node: "n14", Hook: "prolog", JobID: "4713", User: "bob", Kind: ioguard.EventDrain, Check: "ib-port", Subject: "mlx5_0/1",
			Severity: ioguard.Critical, Text: "Down/Polling since three hours, and here the sentence goes on", Shared: []string{"switch:7"}},
	}}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ts.Check(store.AppendNode(ctx, ts.MkAbs(args[0]), r))
}

func TestExitText(t *testing.T) {
	for status, want := range map[int]string{0: "exit 0 (also of jobs that Slurm ended)", 768: "exit 3", 9: "killed by signal 9 (killed)",
		139: "killed by signal 11 (segmentation fault), core dumped", -1: "wait status -1", 0x7f: "wait status 127", 1 << 20: "wait status 1048576"} {
		if got := exitText(status); got != want {
			t.Errorf("%d is %q, want %q", status, got, want)
		}
	}
}

func TestSpanText(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	for _, x := range []struct {
		start, end time.Time
		want       string
	}{
		{at, at.Add(90 * time.Second), "from 2026-11-21 12:00:00 for 1m30s"},
		{at, time.Time{}, "since 2026-11-21 12:00:00, no end was told"},
		{time.Time{}, at, "until 2026-11-21 12:00:00"},
		{at, at.Add(-time.Second), "from 2026-11-21 12:00:00 to 2026-11-21 11:59:59"},
	} {
		if got := spanText(x.start, x.end); got != x.want {
			t.Errorf("%q, want %q", got, x.want)
		}
	}
}

package gate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ioguard/lfs"
	"ioguard/slurm"
)

func TestChecksTable(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if c.Code == "" || seen[c.Code] || !strings.HasPrefix(c.Code, c.Group+"-") || c.Title == "" || c.Text == "" || c.Fix == "" || c.Do == "" {
			t.Errorf("%+v: not whole, or twice", c)
		}
		for _, cause := range c.Causes {
			if !seen[cause] {
				t.Errorf("%s: its cause %q does not stand before it", c.Code, cause)
			}
		}
		seen[c.Code] = true
	}
}

func TestRule(t *testing.T) {
	retry := 7 * time.Second
	p := &Policy{
		Checks: map[string]Override{"lfs": {Do: Warn}, "lfs-ost": {Do: Requeue, Retry: &retry}},
		Where: []Where{
			{Partitions: []string{"debug*"}, Checks: map[string]Override{"ib-port": {Do: Warn}}},
			{Nodes: "gpu[01-16],login*", Checks: map[string]Override{"ib": {Do: Ignore}}},
			{Nodes: "gpu03", Partitions: []string{"big"}, Checks: map[string]Override{"ib-port": {Do: Requeue}}},
		},
	}
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), "brake: do") {
		t.Errorf("a policy without a brake: %v", err)
	}
	p.Brake = DefaultBrake
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		code, node, partition string
		want                  Rule
	}{
		{"lfs-mdt", "n1", "", Rule{Warn, flapRetry}},
		{"lfs-ost", "n1", "", Rule{Requeue, retry}},
		{"ib-port", "n1", "batch", Rule{Drain, flapRetry}},
		{"ib-port", "n1", "debug2", Rule{Warn, flapRetry}},
		{"ib-port", "n1", "", Rule{Drain, flapRetry}},
		{"ib-port", "gpu03", "", Rule{Ignore, flapRetry}},
		{"ib-port", "gpu17", "", Rule{Drain, flapRetry}},
		{"ib-port", "login9", "", Rule{Ignore, flapRetry}},
		{"ib-port", "gpu03", "big", Rule{Requeue, flapRetry}},
	}
	for _, tt := range tests {
		c, _ := CheckOf(tt.code)
		if got := p.Rule(c, tt.node, tt.partition); got != tt.want {
			t.Errorf("%s on %q in %q: %+v, want %+v", tt.code, tt.node, tt.partition, got, tt.want)
		}
	}
}

func TestPolicyCheck(t *testing.T) {
	minus := -time.Second
	tests := []struct {
		p    Policy
		want string
	}{
		{Policy{Checks: map[string]Override{"ib-prot": {Do: Drain}}, Brake: DefaultBrake}, `no check "ib-prot"`},
		{Policy{Checks: map[string]Override{"ib-port": {Do: "drane"}}, Brake: DefaultBrake}, `"drane" is none of`},
		{Policy{Checks: map[string]Override{"ib-port": {Retry: &minus}}, Brake: DefaultBrake}, "negative"},
		{Policy{Where: []Where{{}}, Brake: DefaultBrake}, "partitions or nodes"},
		{Policy{Where: []Where{{Nodes: "n[1-"}}, Brake: DefaultBrake}, "nodes:"},
		{Policy{Where: []Where{{Partitions: []string{"[a"}}}, Brake: DefaultBrake}, "no pattern"},
		{Policy{Brake: Brake{Share: 2, Do: BrakeStarts}}, "no share"},
		{Policy{Brake: Brake{Do: "stop"}}, "neither start nor hold"},
	}
	for _, tt := range tests {
		if err := tt.p.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}

// TestUnusedFileSystem: what the job does not use is not held against it.
func TestUnusedFileSystem(t *testing.T) {
	mounts := []lfs.Mount{{FS: "scratch", Dir: "/lustre/scratch"}, {FS: "home", Dir: "/home"}, {FS: "old", Dir: "/lustre"}}
	outcome := []Outcome{{Check: "lfs-ost", Findings: []Finding{{Check: "lfs-ost", Subject: "home-OST0001", FS: []string{"home"}}}}}
	tests := []struct {
		name     string
		paths    []string
		required []string
		want     Action
	}{
		{"by hand", nil, nil, Drain},
		{"elsewhere", []string{"/lustre/scratch/u/job"}, nil, Warn},
		{"there", []string{"/lustre/scratch/u", "/home/u/x.out"}, nil, Drain},
		{"no Lustre at all", []string{"/tmp", "/var/x"}, nil, Drain},
		{"the mount itself", []string{"/home"}, nil, Drain},
		{"a name that only begins so", []string{"/homes/u", "/lustre/x"}, nil, Warn},
		{"required", []string{"/lustre/scratch/u"}, []string{"/home"}, Drain},
	}
	for _, tt := range tests {
		v := Decide(outcome, &Policy{}, Needs{Paths: tt.paths, Required: tt.required}, mounts)
		if v.Action != tt.want || (tt.want == Warn) != (len(v.Roots) == 0) {
			t.Errorf("%s: %s, roots %v; want %s", tt.name, v.Action, v.Roots, tt.want)
		}
	}
	if outcome[0].Findings[0].Action != "" {
		t.Error("Decide changed what it was given")
	}
}

func TestLimit(t *testing.T) {
	tests := []struct {
		brake Brake
		nodes int
		want  int
	}{
		{DefaultBrake, 1, 1}, {DefaultBrake, 2, 1}, {DefaultBrake, 3, 1}, {DefaultBrake, 4, 2}, {DefaultBrake, 8, 2}, {DefaultBrake, 20, 2},
		{DefaultBrake, 30, 3}, {DefaultBrake, 50, 5}, {DefaultBrake, 5000, 5},
		{Brake{Share: 0.1}, 5000, 500}, {Brake{Nodes: 3}, 8, 3}, {Brake{Nodes: 1, Share: 0.5}, 8, 1}, {Brake{}, 8, -1},
	}
	for _, tt := range tests {
		if got := tt.brake.Limit(tt.nodes); got != tt.want {
			t.Errorf("%+v of %d nodes: %d, want %d", tt.brake, tt.nodes, got, tt.want)
		}
	}
	for n := 2; n < 2000; n++ { // never the cluster, nor more than half of it
		if l := DefaultBrake.Limit(n); l > max(1, n/2) {
			t.Errorf("%d of %d nodes", l, n)
		}
	}
}

func drainedNode(name, reason string, at time.Time) slurm.Node {
	return slurm.Node{Name: name, State: "drained", Reason: reason, ReasonTime: at}
}

func verdictOf(findings ...Finding) *Verdict {
	var outcomes []Outcome
	for _, f := range findings {
		outcomes = append(outcomes, Outcome{Check: f.Check, Findings: []Finding{f}})
	}
	v := Decide(outcomes, &Policy{}, Needs{}, nil)
	return &v
}

func TestBraked(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	brake := Brake{Nodes: 2, Within: 15 * time.Minute, Do: BrakeStarts}
	ost := Finding{Check: "lfs-ost", Subject: "fs-OST0002", Seen: "DISCONN", Shared: []string{"fs-OST0002", "10.0.0.5@o2ib"}}
	port := Finding{Check: "ib-port", Subject: "mlx5_0/1", Seen: "Down/Polling", Shared: []string{"fabric"}}
	full := Finding{Check: "kmsg-lbug", Subject: "kernel log", Seen: "lbug 1"}
	ostReason, portReason := verdictOf(ost).Reason(), verdictOf(port).Reason()
	cluster := func(nodes ...slurm.Node) []slurm.Node {
		return append(nodes, slurm.Node{Name: "me"}, slurm.Node{Name: "well"})
	}
	tests := []struct {
		name    string
		verdict *Verdict
		nodes   []slurm.Node
		key     string
	}{
		{"nobody else", verdictOf(ost), cluster(), ""},
		{"one other", verdictOf(ost), cluster(drainedNode("a", ostReason, now)), ""},
		{"two others", verdictOf(ost), cluster(drainedNode("a", ostReason, now), drainedNode("b", ostReason, now)), "fs-OST0002"},
		{"two of the same server", verdictOf(ost), cluster(drainedNode("a", "ioguard: OST0007 x [fs-OST0007 10.0.0.5@o2ib]", now), drainedNode("b", ostReason, now)), "10.0.0.5@o2ib"},
		{"a server's fault is not forgotten", verdictOf(ost), cluster(drainedNode("a", ostReason, now.Add(-24*time.Hour)), drainedNode("b", ostReason, now)), "fs-OST0002"},
		{"cables of last week", verdictOf(port), cluster(drainedNode("a", portReason, now.Add(-24*time.Hour)), drainedNode("b", portReason, now)), ""},
		{"cables of now", verdictOf(port), cluster(drainedNode("a", portReason, now.Add(-time.Minute)), drainedNode("b", portReason, now)), "fabric"},
		{"an administrator's words", verdictOf(port), cluster(drainedNode("a", "broken [fabric]", now), drainedNode("b", portReason, now)), ""},
		{"this node itself", verdictOf(port), cluster(drainedNode("me", portReason, now), drainedNode("b", portReason, now)), ""},
		{"another fault of its own", verdictOf(ost, full), cluster(drainedNode("a", ostReason, now), drainedNode("b", ostReason, now)), ""},
		{"a consequence of the fabric's", verdictOf(port, ost), cluster(drainedNode("a", portReason, now), drainedNode("b", portReason, now)), "fabric"},
		{"a key by no name", verdictOf(full), cluster(drainedNode("a", verdictOf(full).Reason(), now), drainedNode("b", verdictOf(full).Reason(), now)), "check:kmsg-lbug"},
	}
	for _, tt := range tests {
		held := tt.verdict.Braked(brake, "me", tt.nodes, now)
		if got := held != nil; got != (tt.key != "") || got && held.Key != tt.key {
			t.Errorf("%s: %+v, want key %q", tt.name, held, tt.key)
		}
	}
}

// TestBrakeInTime plays many nodes that fail for the same thing at the same time, in
// any order of asking, draining, asking again and taking back. However they mix,
// no more than the limit stay drained.
func TestBrakeInTime(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	v := verdictOf(Finding{Check: "lfs-mdt", Subject: "fs-MDT0000", Seen: "DISCONN", Shared: []string{"fs-MDT0000"}})
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes := make([]slurm.Node, 2+r.IntN(30))
		step := make([]int, len(nodes))
		for i := range nodes {
			nodes[i].Name = fmt.Sprint("n", i)
		}
		limit := DefaultBrake.Limit(len(nodes))
		for running := len(nodes); running > 0; {
			i := r.IntN(len(nodes))
			held := v.Braked(DefaultBrake, nodes[i].Name, nodes, now) != nil
			switch {
			case step[i] == 0 && held, step[i] == 2: // starts its job, or asked again
				if step[i] == 2 && held {
					nodes[i].Reason = ""
				}
				step[i], running = 3, running-1
			case step[i] == 0: // saw too few others
				step[i] = 1
			case step[i] == 1:
				nodes[i].Reason, nodes[i].ReasonTime, step[i] = v.Reason(), now, 2
			}
		}
		drained := 0
		for _, n := range nodes {
			if n.Reason != "" {
				drained++
			}
		}
		if drained > limit {
			t.Fatalf("seed %d: %d of %d nodes drained, the limit is %d", seed, drained, len(nodes), limit)
		}
	}
}

func TestReason(t *testing.T) {
	long := strings.Repeat("\x1b[31mö\n", 300)
	v := verdictOf(Finding{Check: "ib-port", Subject: long, Seen: "x", Shared: []string{"fabric"}})
	r := v.Reason()
	if len(r) > maxReason || strings.ContainsAny(r, "\n\x1b") || !slices.Equal(reasonKeys(r), []string{"fabric"}) {
		t.Errorf("%d bytes: %q", len(r), r)
	}
	for _, text := range []string{"", "x", "ioguard: ", "ioguard: ]", "ioguard: [", "ioguard: a [b", "NHC: a [b]"} {
		if keys := reasonKeys(text); len(keys) > 0 {
			t.Errorf("%q: keys %q", text, keys)
		}
	}
}

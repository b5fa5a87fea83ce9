package prolog

import (
	"context"
	"errors"
	"testing"
	"time"

	"ioguard/action"
	"ioguard/gate"
	"ioguard/host"
	"ioguard/slurm"
)

// TestBlock is every way that a sick node can go.
func TestBlock(t *testing.T) {
	others := []string{"node2", "node3", "node4"}
	tests := []struct {
		name    string
		do      gate.Action
		set     func(*site)
		did     string // of Slurm
		kinds   string // recorded
		blocked bool
		reason  string // of the node afterwards
		forgets bool   // no drain of ours is remembered
	}{
		{name: "drained", did: "sinfo, drain node1, sinfo", kinds: "drain finding", blocked: true, reason: awayReason},
		{name: "requeued", do: gate.Requeue, did: "sinfo, drain node1, sinfo, requeue 7", kinds: "drain requeue finding", blocked: true, reason: awayReason},
		{name: "cannot be requeued", do: gate.Requeue, set: func(s *site) { s.slurm.fail[action.Requeue] = true },
			did: "sinfo, drain node1, sinfo, requeue 7", kinds: "drain fail_open finding", blocked: true, reason: awayReason},
		{name: "Slurm does not answer", set: func(s *site) { s.slurm.silent = true }, did: "sinfo", kinds: "fail_open finding", forgets: true},
		{name: "Slurm lists no nodes", set: func(s *site) { s.slurm.nodes = nil }, did: "sinfo", kinds: "fail_open finding", forgets: true},
		{name: "no Slurm", set: func(s *site) { s.edit = func(n *Node) { n.Slurm = Slurm{} } }, kinds: "fail_open finding", forgets: true},
		{name: "not allowed to drain", set: func(s *site) { s.slurm.fail[action.Drain] = true }, did: "sinfo, drain node1", kinds: "fail_open finding"},
		{name: "no answer to the drain, which was made", set: func(s *site) { s.slurm.fail[action.Drain], s.slurm.anyway = true, true },
			did: "sinfo, drain node1", kinds: "fail_open finding", reason: awayReason},
		{name: "drained by a person", set: func(s *site) { s.slurm.drained("bob: RAM", "node1") },
			did: "sinfo", kinds: "skip finding", blocked: true, reason: "bob: RAM", forgets: true},
		{name: "drained by a person, requeued", do: gate.Requeue, set: func(s *site) { s.slurm.drained("bob: RAM", "node1") },
			did: "sinfo, requeue 7", kinds: "skip requeue finding", blocked: true, reason: "bob: RAM", forgets: true},
		{name: "drained by us", set: func(s *site) { s.slurm.drained("ioguard: x [y]", "node1") },
			did: "sinfo", kinds: "skip finding", blocked: true, reason: "ioguard: x [y]"},
		{name: "drained by us, requeued", do: gate.Requeue, set: func(s *site) { s.slurm.drained("ioguard: x [y]", "node1") },
			did: "sinfo, requeue 7", kinds: "skip requeue finding", blocked: true, reason: "ioguard: x [y]"},
		{name: "Slurm does not know the node", set: func(s *site) { s.slurm.nodes[0].Name = "elsewhere"; s.slurm.fail[action.Drain] = true },
			did: "sinfo, drain node1", kinds: "fail_open finding"},
		{name: "braked at the first look", set: func(s *site) { s.slurm.drained(awayReason, others...) }, did: "sinfo", kinds: "brake finding", forgets: true},
		{name: "braked and held", set: func(s *site) { s.policy.Brake.Do = gate.BrakeHolds; s.slurm.drained(awayReason, others...) },
			did: "sinfo, requeue_hold 7", kinds: "brake hold finding", forgets: true},
		{name: "braked and cannot be held", set: func(s *site) {
			s.policy.Brake.Do = gate.BrakeHolds
			s.slurm.drained(awayReason, others...)
			s.slurm.fail[action.RequeueHold] = true
		}, did: "sinfo, requeue_hold 7", kinds: "brake fail_open finding", forgets: true},
		{name: "braked at the second look", set: func(s *site) { s.slurm.onDrain = func() { s.slurm.drained(awayReason, others...) } },
			did: "sinfo, drain node1, sinfo, undrain node1", kinds: "brake finding", forgets: true},
		{name: "braked at the second look and cannot take it back", set: func(s *site) {
			s.slurm.onDrain = func() { s.slurm.drained(awayReason, others...) }
			s.slurm.fail[action.Undrain] = true
		}, did: "sinfo, drain node1, sinfo, undrain node1", kinds: "drain finding", blocked: true, reason: awayReason},
		{name: "no answer at the second look", set: func(s *site) { s.slurm.onDrain = func() { s.slurm.silent = true } },
			did: "sinfo, drain node1, sinfo", kinds: "drain finding", blocked: true, reason: awayReason},
		{name: "drained by us beyond the brake: about to be taken back", set: func(s *site) { s.slurm.drained(awayReason, append(others, "node1")...) },
			did: "sinfo", kinds: "brake finding", reason: awayReason, forgets: true},
		{name: "others are drained for something else", set: func(s *site) { s.slurm.drained("ioguard: x [lustre-OST0009]", others...) },
			did: "sinfo, drain node1, sinfo", kinds: "drain finding", blocked: true, reason: awayReason},
		{name: "no configuration", set: func(s *site) { s.edit = func(n *Node) { n.TellOnly = true } }, kinds: "skip finding", forgets: true},
		{name: "only warned", do: gate.Warn, kinds: "finding", forgets: true},
		{name: "no state directory", set: func(s *site) { s.dir = "" }, did: "sinfo, drain node1, sinfo", kinds: "drain finding", blocked: true, reason: awayReason},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.do == "" {
				tt.do = gate.Drain
			}
			s := newSite(t, 8).fast(tt.do)
			if tt.set != nil {
				tt.set(s)
			}
			out := s.job("client-ost-away", "7")
			if out.Blocked != tt.blocked {
				t.Errorf("blocked %v", out.Blocked)
			}
			if did := s.did(); did != tt.did {
				t.Errorf("did %q, want %q", did, tt.did)
			}
			if kinds := s.kinds(); kinds != tt.kinds {
				t.Errorf("recorded %q, want %q", kinds, tt.kinds)
			}
			if len(s.slurm.nodes) > 0 && s.slurm.nodes[0].Reason != tt.reason {
				t.Errorf("reason %q, want %q", s.slurm.nodes[0].Reason, tt.reason)
			}
			if s.dir == "" {
				return
			}
			if s.jobKept("7") == tt.blocked {
				t.Errorf("job kept %v", !tt.blocked)
			}
			if m, err := s.node("client-healthy").Memory(); err != nil || (m.Drained == nil) != tt.forgets {
				t.Errorf("remembered %+v, %v", m.Drained, err)
			}
		})
	}
}

// TestUndrain: only a drain of ours is taken back, and only from a node that has been
// healthy for long enough.
func TestUndrain(t *testing.T) {
	s := newSite(t, 8).fast(gate.Drain)
	step := func(machine string, later time.Duration, did, kinds string) {
		t.Helper()
		s.later = later
		s.check(machine, true, true)
		if d, k := s.did(), s.but(); d != did || k != kinds {
			t.Errorf("at %v: did %q, recorded %q; want %q, %q", later, d, k, did, kinds)
		}
	}
	step("client-healthy", 0, "", "")
	step("client-healthy", 6*time.Minute, "sinfo", "") // once: a node without a disk remembers nothing
	step("client-healthy", 7*time.Minute, "", "")
	s.slurm.drained(awayReason, "node1")
	s.boot = "second"
	step("client-healthy", 0, "", "")
	step("client-healthy", 6*time.Minute, "sinfo, resume node1", "resume")
	step("client-ost-away", 0, "sinfo, drain node1, sinfo", "drain")
	step("client-ost-away", time.Minute, "sinfo", "skip")
	step("client-healthy", 0, "", "")
	step("client-healthy", 4*time.Minute, "", "")
	s.slurm.fail[action.Resume] = true
	step("client-healthy", 6*time.Minute, "sinfo, resume node1", "fail_open")
	delete(s.slurm.fail, action.Resume)
	s.slurm.silent = true
	step("client-healthy", 6*time.Minute, "sinfo", "fail_open")
	s.slurm.silent = false
	step("client-healthy", 6*time.Minute, "sinfo, resume node1", "resume")
	step("client-healthy", 6*time.Minute, "", "")
	if n := s.slurm.node("node1"); n.Drained() || n.Reason != "" {
		t.Errorf("%+v", n)
	}
	step("client-ost-away", 0, "sinfo, drain node1, sinfo", "drain")
	s.slurm.drained("bob: mine now", "node1")
	step("client-healthy", 0, "", "")
	step("client-healthy", 6*time.Minute, "sinfo", "")
	step("client-healthy", 6*time.Minute, "", "")
	if r := s.slurm.node("node1").Reason; r != "bob: mine now" {
		t.Errorf("reason %q", r)
	}
}

// TestUndrainUnproved: a check that drained the node and cannot be carried out any
// more does not make it healthy.
func TestUndrainUnproved(t *testing.T) {
	s := newSite(t, 8).fast(gate.Drain)
	s.edit = func(n *Node) { n.Undrain = 0 }
	s.check("client-ost-away", true, true)
	s.did()
	s.host = func(h *host.Host) { h.FS = noImports{h.FS} }
	if out := s.check("client-healthy", true, true); len(out.Verdict.Roots) > 0 || s.did() != "" || !out.Memory.Healthy.IsZero() {
		t.Errorf("resumed: %q", s.kinds())
	}
	s.host = nil
	if s.check("client-healthy", true, true); s.did() != "sinfo, resume node1" {
		t.Errorf("not resumed: %q", s.kinds())
	}
}

// TestForgottenDrain: a hook that looked before the fault and ends behind the one that
// drained the node does not make it forget the drain.
func TestForgottenDrain(t *testing.T) {
	s := newSite(t, 8).fast(gate.Drain)
	slow := s.node("client-healthy")
	last := slow.look(t.Context(), hookOf("1"), 0)
	s.job("client-ost-away", "2")
	slow.keep(hookOf("1"), &last)
	if m, err := s.node("client-healthy").Memory(); err != nil || m.Drained == nil || m.Drained.Reason != awayReason {
		t.Errorf("%+v, %v", m.Drained, err)
	}
}

// TestCheckEndedJob: a check that is no prolog drains the node and leaves the job in
// its environment alone, as that of an epilog, which has ended.
func TestCheckEndedJob(t *testing.T) {
	for _, braked := range []bool{false, true} {
		s := newSite(t, 8).fast(gate.Requeue)
		s.policy.Brake.Do = gate.BrakeHolds
		want := "sinfo, drain node1, sinfo"
		if braked {
			s.slurm.drained(awayReason, "node2", "node3", "node4")
			want = "sinfo"
		}
		out := s.node("client-ost-away").Check(t.Context(), hookOf("7"), true, false)
		if did := s.did(); did != want || out.Blocked == braked {
			t.Errorf("did %q, want %q; %+v", did, want, out)
		}
	}
}

// TestUnasked: while Slurm does not answer, or takes no drain, a fault that is the
// node's own blocks the job all the same; one that may be shared does not.
func TestUnasked(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  func(*site)
	}{
		{"does not answer", func(s *site) { s.slurm.silent = true }},
		{"is not there", func(s *site) { s.edit = func(n *Node) { n.Slurm = Slurm{} } }},
		{"takes no drain", func(s *site) { s.slurm.fail[action.Drain] = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for machine, blocked := range map[string]bool{"client-link-cut": true, "client-ost-away": false} {
				s := newSite(t, 8).fast(gate.Drain)
				tt.set(s)
				if out := s.job(machine, "7"); out.Blocked != blocked {
					t.Errorf("%s: blocked %v, recorded %q", machine, out.Blocked, s.kinds())
				}
			}
		})
	}
}

// TestOddRow: a row of sinfo that is not understood does not keep a sick node in service.
func TestOddRow(t *testing.T) {
	s := newSite(t, 8).fast(gate.Drain)
	s.edit = func(n *Node) {
		ask := n.Slurm.Nodes
		n.Slurm.Nodes = func(ctx context.Context) ([]slurm.Node, error) {
			nodes, err := ask(ctx)
			return nodes, errors.Join(err, errors.New("parse nodes: 1 row not understood"))
		}
	}
	if out := s.job("client-ost-away", "7"); !out.Blocked {
		t.Errorf("not blocked, recorded %q", s.kinds())
	}
}

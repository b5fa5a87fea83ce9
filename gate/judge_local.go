package gate

import (
	"fmt"
	"strings"
	"time"

	"ioguard/proc"
	"ioguard/view"
)

const (
	stuckFor       = time.Minute // that a process must be blocked to count
	writebackShare = 0.05        // of all memory
	writebackLeast = 1 << 30     // bytes
	stallShare     = 0.20        // of the last minute in which all tasks waited for memory
)

// local judges the node's own memory, disks and processes.
func (j *judge) local() {
	a := &j.seen.Local
	if unread(j, a, a.Value.Memory.Total != nil, "local-dstate", "local-writeback", "local-space") {
		return
	}
	j.dstate()
	j.writeback()
	for _, s := range a.Value.Space {
		j.space(s)
	}
	if len(a.Value.Space) == 0 {
		why := "nothing local to look at"
		if j.seen.Recorded {
			why = "a recorded machine does not tell"
		}
		j.without(Skipped, why, "local-space")
	}
}

// inLustre tells kernel functions of Lustre and LNet by their names.
func inLustre(wait string) bool {
	for _, prefix := range []string{"ptlrpc", "ldlm", "ll_", "osc_", "mdc_", "lov_", "lmv_", "cl_", "vvp_", "lnet", "LNet", "ksocknal", "kiblnd", "obd_", "l_wait", "cl_sync"} {
		if strings.HasPrefix(wait, prefix) {
			return true
		}
	}
	return false
}

// dstate needs two runs: how long a process has been blocked is nowhere to be read. A
// job that does much I/O is found asleep in Lustre at any two times: that counts only
// while a connection is in doubt.
func (j *judge) dstate() {
	var stuck []string
	blocked := 0
	doubt := len(sickFileSystems(j.seen.Imports.Value)) > 0
	for _, p := range j.seen.Local.Value.Blocked {
		if !inLustre(p.Wait) {
			continue
		}
		blocked++
		if since := j.last.blockedSince(p); (p.State == 'D' || doubt) && j.ran() && !since.IsZero() && j.seen.Now.Sub(since) >= stuckFor {
			stuck = append(stuck, fmt.Sprintf("%d (%s) in %s since %s", p.PID, view.Safe(p.Name), p.Wait, clock(since, j.seen.Now)))
		}
	}
	if len(stuck) > 0 {
		j.found(Finding{Check: "local-dstate", Subject: plural(len(stuck), "process", "processes"), Seen: "blocked in Lustre for a minute or more", Expected: "none", Evidence: stuck[:min(8, len(stuck))]})
	}
	j.ok("local-dstate", "%d wait in Lustre now", blocked)
}

// blockedSince is when a process was first seen blocked; zero for one that was not.
func (m *Memory) blockedSince(p proc.Process) time.Time {
	for _, b := range m.Blocked {
		if b.PID == p.PID && b.Start == p.Start {
			return b.Since
		}
	}
	return time.Time{}
}

func (j *judge) writeback() {
	m := j.seen.Local.Value.Memory
	if m.Total == nil || m.Writeback == nil || *m.Total == 0 {
		j.without(Unknown, "/proc/meminfo does not tell", "local-writeback")
		return
	}
	much := *m.Writeback >= writebackLeast && float64(*m.Writeback) >= writebackShare*float64(*m.Total)
	seen := view.Bytes(float64(*m.Writeback)) + " being written"
	stall := j.seen.Local.Value.Stall
	switch {
	case much && j.ran() && j.last.Writeback > 0 && *m.Writeback >= j.last.Writeback && j.seen.Now.Sub(j.last.Time) >= 30*time.Second:
		j.found(Finding{Check: "local-writeback", Subject: "memory", Seen: seen + ", not less than at " + clock(j.last.Time, j.seen.Now), Expected: "it gets less"})
	case much && stall != nil && *stall >= stallShare:
		j.found(Finding{Check: "local-writeback", Subject: "memory", Seen: fmt.Sprintf("%s, and all tasks wait for memory %.0f%% of the time", seen, 100**stall), Expected: "no stall"})
	}
	j.ok("local-writeback", "%s", seen)
}

func (j *judge) space(s Space) {
	if s.Size == 0 {
		return
	}
	free := float64(s.Free) / float64(s.Size)
	what := "space"
	if s.Inodes > 0 {
		if inodes := float64(s.FreeInodes) / float64(s.Inodes); inodes < free {
			free, what = inodes, "inodes"
		}
	}
	if free < j.site.MinFree {
		j.found(Finding{Check: "local-space", Subject: s.Dir, Seen: fmt.Sprintf("%.2g%% of %s free", 100*free, what), Expected: fmt.Sprintf("%g%% or more", 100*j.site.MinFree)})
	}
	j.ok("local-space", "%s: %.0f%% free", s.Dir, 100*free)
}

package lfs

import (
	"bytes"
	"time"
)

// States of an import. Others are kept by the name they are printed with.
const (
	ImportFull        = "FULL"
	ImportIdle        = "IDLE" // disconnected for want of work, 2.12 and later: healthy
	ImportDisconn     = "DISCONN"
	ImportConnecting  = "CONNECTING"
	ImportReplay      = "REPLAY"
	ImportReplayLocks = "REPLAY_LOCKS"
	ImportReplayWait  = "REPLAY_WAIT"
	ImportRecover     = "RECOVER"
	ImportEvicted     = "EVICTED"
	ImportNew         = "NEW"
	ImportClosed      = "CLOSED"
)

var importStates = []string{ImportFull, ImportIdle, ImportConnecting, ImportDisconn, ImportReplay, ImportReplayLocks,
	ImportReplayWait, ImportRecover, ImportEvicted, ImportNew, ImportClosed}

// importState is the name of a state; those known cost no memory.
func importState(b []byte) string {
	for _, s := range importStates {
		if string(b) == s {
			return s
		}
	}
	return string(b)
}

// connected reports whether a state is one that work can be done in.
func connected(state string) bool { return state == ImportFull || state == ImportIdle }

// StateChange is one entry of an import's history.
type StateChange struct {
	Time  time.Time // whole seconds by the client's clock
	State string
}

// ImportHistory is the state of an import and how it came to it: the last 16
// changes, oldest first. While a server is away an import adds two each few
// seconds, so that 16 may be no more than the last minute.
type ImportHistory struct {
	Current  string
	Changes  []StateChange
	Unparsed Unparsed
}

// Since is when the present state began; zero where that is not told.
func (h *ImportHistory) Since() time.Time {
	if n := len(h.Changes); n > 0 && h.Changes[n-1].State == h.Current {
		return h.Changes[n-1].Time
	}
	return time.Time{}
}

// EvictedAfter gives the times of evictions since t. Those in the same second
// count: the history is no finer.
func (h *ImportHistory) EvictedAfter(t time.Time) []time.Time {
	var times []time.Time
	for _, c := range h.Changes {
		if c.State == ImportEvicted && c.Time.Unix() >= t.Unix() {
			times = append(times, c.Time)
		}
	}
	return times
}

// DisconnectedSince is when the present spell of not being FULL or IDLE began,
// however often the import went from DISCONN to CONNECTING and back. exact is
// false where the history does not reach back to a FULL or IDLE: then it began
// then or earlier. The time is zero when the import is connected, or its
// history is not told.
func (h *ImportHistory) DisconnectedSince() (since time.Time, exact bool) {
	if connected(h.Current) {
		return time.Time{}, true
	}
	for i := len(h.Changes) - 1; i >= 0; i-- {
		if connected(h.Changes[i].State) {
			return since, true
		}
		since = h.Changes[i].Time
	}
	return since, false
}

// ParseImportState parses an import's state file. It never fails: see Unparsed.
//
// FILE: lustre/obdclass/lprocfs_status.c, lprocfs_state_seq_show (lprocfs_rd_state
// up to 2.5, without the blanks inside the brackets):
//
//	current_state: FULL
//	state_history:
//	 - [ 1795241780, CONNECTING ]
func ParseImportState(text []byte) *ImportHistory {
	h := &ImportHistory{}
	h.parse(text)
	return h
}

func (h *ImportHistory) parse(text []byte) {
	if n := min(bytes.Count(text, []byte("- [")), 16); n > 0 {
		h.Changes = make([]StateChange, 0, n)
	}
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := textLine(text)
		text = rest
		line = textStrip(line)
		why := ""
		if current, ok := bytes.CutPrefix(line, []byte("current_state:")); ok {
			h.Current = importState(textStrip(current))
		} else if change, ok := bytes.CutPrefix(line, []byte("- [")); ok {
			why = h.change(change)
		} else if len(line) > 0 && string(line) != "state_history:" {
			why = "not a field"
		}
		if why != "" {
			h.Unparsed.add(n, line, why)
		}
	}
}

// latest is the end of the year 9999: no later time can be written as JSON.
const latest = 253402300799

// change takes " 1795241780, CONNECTING ]".
func (h *ImportHistory) change(b []byte) (why string) {
	b, closed := bytes.CutSuffix(b, []byte("]"))
	when, state, ok := bytes.Cut(b, []byte(","))
	state = textStrip(state)
	if !ok || !closed || len(state) == 0 {
		return "not a change of state"
	}
	sec, why := textUint(textStrip(when))
	if why != "" {
		return why
	}
	if sec > latest {
		return "time out of range"
	}
	h.Changes = append(h.Changes, StateChange{time.Unix(int64(sec), 0).UTC(), importState(state)})
	return ""
}

package lfs

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
)

// RecoveryStatus is the state of a target's recovery, as printed. A state that a
// later release adds is kept by its own name.
type RecoveryStatus string

// The states of recovery.
const (
	RecoveryInactive          RecoveryStatus = "INACTIVE"            // never had clients to recover
	RecoveryWaitingForClients RecoveryStatus = "WAITING_FOR_CLIENTS" // none has come back yet
	RecoveryWaiting           RecoveryStatus = "WAITING"             // for other MDTs
	RecoveryRecovering        RecoveryStatus = "RECOVERING"
	RecoveryComplete          RecoveryStatus = "COMPLETE"
)

// Recovery is a target's recovery_status. Fields that the state does not print are nil.
type Recovery struct {
	Status RecoveryStatus // "" where the file does not tell

	StartSec         *int64 // seconds since 1970
	DurationSec      *int64 // COMPLETE
	TimeRemainingSec *int64 // RECOVERING
	TimeWaitedSec    *int64 // WAITING

	CompletedClients *uint64 // recovered
	ConnectedClients *uint64 // RECOVERING
	DelayedClients   *uint64 // 1.8
	MaxClients       *uint64 // clients known before the restart
	EvictedClients   *uint64

	ReqReplayClients  *uint64 // still replaying requests
	LockReplayClients *uint64 // still replaying locks
	ReplayedRequests  *uint64
	QueuedRequests    *uint64
	LastTransno       *uint64 // COMPLETE
	NextTransno       *uint64 // RECOVERING

	VBR *bool // version based recovery took place
	IR  *bool // imperative recovery

	NonReadyMDTs string // WAITING: as printed, "0001 0002"
	Unparsed     Unparsed
}

// Busy reports whether the target does not serve ordinary requests yet.
func (r *Recovery) Busy() bool {
	return r.Status == RecoveryRecovering || r.Status == RecoveryWaiting || r.Status == RecoveryWaitingForClients
}

// ReadRecovery reads and parses a recovery_status file.
func ReadRecovery(fsys fs.FS, path string) (*Recovery, error) {
	var buf FileBuffer
	text, err := buf.ReadFile(fsys, path)
	if err != nil {
		return nil, fmt.Errorf("read recovery_status: %w", err)
	}
	return ParseRecovery(text), nil
}

// ParseRecovery parses recovery_status. It never fails: see Unparsed.
//
// FILE: lustre/obdclass/lprocfs_status_server.c, lprocfs_recovery_status_seq_show:
//
//	status: RECOVERING
//	connected_clients: 1/2
//	lock_repay_clients: 0
func ParseRecovery(text []byte) *Recovery {
	r := &Recovery{}
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := textLine(text)
		text = rest
		if line = textStrip(line); len(line) == 0 {
			continue
		}
		key, value, ok := bytes.Cut(line, []byte(":"))
		why := "not a field"
		if ok {
			why = r.field(string(key), textStrip(value))
		}
		if why != "" {
			r.Unparsed.add(n, line, why)
		}
	}
	return r
}

func (r *Recovery) field(key string, value []byte) (why string) {
	switch key {
	case "status":
		if len(value) == 0 {
			return "status without a value"
		}
		r.Status = RecoveryStatus(value)
	case "recovery_start":
		return recoveryInt(&r.StartSec, value)
	case "recovery_duration":
		return recoveryInt(&r.DurationSec, value)
	case "time_remaining":
		return recoveryInt(&r.TimeRemainingSec, value)
	case "time_waited":
		return recoveryInt(&r.TimeWaitedSec, value)
	case "completed_clients":
		return r.clients(&r.CompletedClients, value)
	case "connected_clients":
		return r.clients(&r.ConnectedClients, value)
	case "delayed_clients":
		return r.clients(&r.DelayedClients, value)
	case "evicted_clients":
		return textUintTo(&r.EvictedClients, value)
	case "req_replay_clients":
		return textUintTo(&r.ReqReplayClients, value)
	case "lock_repay_clients", "lock_replay_clients": // misspelt since 2.0
		return textUintTo(&r.LockReplayClients, value)
	case "replayed_requests":
		return textUintTo(&r.ReplayedRequests, value)
	case "queued_requests":
		return textUintTo(&r.QueuedRequests, value)
	case "last_transno":
		return textUintTo(&r.LastTransno, value)
	case "next_transno":
		return textUintTo(&r.NextTransno, value)
	case "VBR":
		return recoveryBool(&r.VBR, value)
	case "IR":
		return recoveryBool(&r.IR, value)
	case "non-ready MDTs":
		r.NonReadyMDTs = strings.Join(strings.Fields(string(value)), " ")
	default:
		return "unknown field"
	}
	return ""
}

// clients takes "3/7" and, as some states print it, "3".
func (r *Recovery) clients(p **uint64, value []byte) string {
	count, all, ok := bytes.Cut(value, []byte("/"))
	why := textUintTo(p, textStrip(count))
	if ok {
		if w := textUintTo(&r.MaxClients, textStrip(all)); why == "" {
			why = w
		}
	}
	return why
}

func recoveryInt(p **int64, value []byte) string {
	n, why := textInt(value)
	if why == "" {
		*p = &n
	}
	return why
}

// recoveryBool takes ENABLED and DISABLED, and ON and OFF of 2.0.
func recoveryBool(p **bool, value []byte) string {
	switch string(value) {
	case "ENABLED", "ON":
		v := true
		*p = &v
	case "DISABLED", "OFF":
		v := false
		*p = &v
	default:
		return "neither ENABLED nor DISABLED"
	}
	return ""
}

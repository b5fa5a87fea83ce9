package kmsg

import (
	"strconv"
	"strings"
	"time"
)

// on takes the device in front of a message and tells what follows.
func (e *Event) on(body string) (rest string, ok bool) {
	device, rest, ok := strings.Cut(body, ": ")
	if !ok || device == "" || strings.ContainsAny(device, " \t") {
		return "", false
	}
	e.device(device)
	return rest, true
}

// device tells target, file system and side by the name of a device:
//
//	lustre-OST0002-osc-ffff8880086b6800   client (osc, mdc)
//	lustre-OST0002-osc-MDT0000            MDS (osc, osp)
//	lustre-MDT0000-lwp-OST0001            the server of OST0001
//	lustre-OST0002                        the target itself
//	MGC10.77.0.1@o2ib                     any node
func (e *Event) device(name string) {
	e.Device = name
	switch {
	case strings.HasPrefix(name, "MGC"):
		e.Target = "MGS"
		return
	case name == "MGS":
		e.Target, e.Side = name, MGS
		return
	}
	i := targetAt(name)
	if i < 0 {
		return
	}
	e.FS, e.Target = name[:i], name[:i+8]
	e.Side = sideOf(name[i:])
}

// sideOf tells the side by a device's name without the file system's.
func sideOf(name string) Side {
	target, rest := name[1:4], name[8:]
	switch {
	case rest == "":
		return serverOf(target)
	case strings.HasPrefix(rest, "-lwp-"), strings.HasPrefix(rest, "-osp-"), strings.HasPrefix(rest, "-osc-MDT"):
		if len(rest) >= 8 {
			return serverOf(rest[5:8])
		}
	case strings.HasPrefix(rest, "-osc-"), strings.HasPrefix(rest, "-mdc-"):
		if p := rest[5:]; len(p) >= 8 && hexDigits(p) == len(p) {
			return Client
		}
	}
	return ""
}

func serverOf(target string) Side {
	switch target {
	case "OST":
		return OSS
	case "MDT":
		return MDS
	}
	return ""
}

// targetAt is where "-OST0002" or "-MDT0000" begins in a name, -1 for nowhere.
func targetAt(name string) int {
	for i := 1; i+8 <= len(name); i++ {
		if name[i] == '-' && serverOf(name[i+1:i+4]) != "" && hexDigits(name[i+4:i+8]) == 4 &&
			(i+8 == len(name) || name[i+8] == '-' || name[i+8] == '_') {
			return i
		}
	}
	return -1
}

// target takes a target's name that the message tells, where the device did not.
func (e *Event) target(name string) {
	if e.Target != "" {
		return
	}
	e.Target = name
	if i := targetAt(name); i >= 0 {
		e.FS, e.Target = name[:i], name[:i+8]
	}
}

// takeLost: lustre/ptlrpc/import.c, ptlrpc_set_import_discon.
//
//	lustre-OST0002-osc-ffff8880086b6800: Connection to lustre-OST0002 (at 10.77.0.1@o2ib) was lost; in progress operations using this service will wait for recovery to complete
func takeLost(e *Event, p *parts) bool {
	rest, _ := e.on(p.body)
	rest, ok := strings.CutPrefix(rest, "Connection to ")
	target, rest, ok2 := strings.Cut(rest, " (at ")
	nid, rest, ok3 := strings.Cut(rest, ") was lost; ")
	if !ok || !ok2 || !ok3 {
		return false
	}
	e.target(target)
	e.NID = nid
	switch _, will, _ := strings.Cut(rest, " will "); {
	case strings.HasPrefix(will, "wait"):
		e.How = "waits"
	case strings.HasPrefix(will, "fail"):
		e.How = "fails"
	}
	return true
}

// takeRestored: the same file, ptlrpc_connect_interpret and others. Between "to"
// and the NID stand a target, a UUID, the NID once more, or nothing.
func takeRestored(e *Event, p *parts) bool {
	rest, _ := e.on(p.body)
	rest, ok := strings.CutPrefix(rest, "Connection restored to ")
	peer, rest, ok2 := strings.Cut(rest, "(at ")
	nid, _, ok3 := strings.Cut(rest, ")")
	if !ok || !ok2 || !ok3 {
		return false
	}
	e.Peer, e.NID = strings.TrimSpace(peer), nid
	return true
}

// takeEvicted: the same file, ptlrpc_connect_interpret.
//
//	lustre-OST0002-osc-ffff8880086b6800: This client was evicted by lustre-OST0002; in progress operations using this service will fail.
func takeEvicted(e *Event, p *parts) bool {
	rest, _ := e.on(p.body)
	by, ok := strings.CutPrefix(rest, "This client was evicted by ")
	by, _, ok2 := strings.Cut(by, ";")
	e.target(by)
	return ok && ok2
}

// takeEvictedFrom: the same file.
//
//	Evicted from MGS (at 10.77.0.1@o2ib) after server handle changed from 0x8b0b1beb0acd7936 to 0xa5e2a8e3c1a49d77
func takeEvictedFrom(e *Event, p *parts) bool {
	rest := strings.TrimPrefix(p.body, "Evicted from ")
	from, rest, ok := strings.Cut(rest, " (at ")
	nid, rest, ok2 := strings.Cut(rest, ") ")
	if !ok || !ok2 || !strings.HasPrefix(rest, "after server handle changed") {
		return false
	}
	e.target(from)
	e.NID = nid
	return true
}

// takeSilent: lustre/ptlrpc/pinger.c, ping_evictor_main.
//
//	lustre-MDT0001: haven't heard from client e0ccf427-7220-40df-9533-dc99439cefc0 (at 10.77.0.11@o2ib) in 104 seconds. I think it's dead, and I am evicting it. exp 0000000028e3741e, ...
func takeSilent(e *Event, p *parts) bool {
	rest, _ := e.on(p.body)
	rest, ok := strings.CutPrefix(rest, "haven't heard from client ")
	peer, rest, ok2 := strings.Cut(rest, " (at ")
	nid, _, ok3 := strings.Cut(rest, ")")
	e.Peer, e.NID, e.How = peer, nid, "silent"
	return ok && ok2 && ok3
}

// takeLockEviction: lustre/ldlm/ldlm_lockd.c, ldlm_failed_ast.
//
//	lustre-OST0000: A client on nid 10.77.0.11@o2ib was evicted due to a lock blocking callback time out: rc -107
func takeLockEviction(e *Event, p *parts) bool {
	rest, _ := e.on(p.body)
	rest, ok := strings.CutPrefix(rest, "A client on nid ")
	nid, rest, ok2 := strings.Cut(rest, " was evicted ")
	e.NID, e.How, e.RC = nid, "lock_timeout", findRC(rest)
	return ok && ok2
}

// takeLockTimer: the same file, expired_lock_main.
//
//	### lock callback timer expired after 102s: evicting client at 10.77.0.11@o2ib  ns: mdt-lustre-MDT0000_UUID lock: ...
func takeLockTimer(e *Event, p *parts) bool {
	_, rest, ok := strings.Cut(p.body, ": evicting client at ")
	nid, rest, _ := strings.Cut(rest, " ")
	space, ok2 := strings.CutPrefix(strings.TrimLeft(rest, " "), "ns: ")
	space, _, _ = strings.Cut(space, " ")
	_, space, _ = strings.Cut(space, "-") // "mdt-", "filter-"
	if i := targetAt(space); ok2 && i >= 0 {
		e.device(space[:i+8])
	}
	e.NID, e.How = nid, "lock_timeout"
	return ok
}

// takeAdminEviction: lustre/obdclass/genops.c, obd_export_evict_by_nid and obd_export_evict_by_uuid.
//
//	lustre-OST0000: evicting 44cb5e1e-9b7a-48ce-a07f-6dc48c70a9e6 at adminstrative request
func takeAdminEviction(e *Event, p *parts) bool {
	rest, _ := e.on(p.body)
	rest, ok := strings.CutPrefix(rest, "evicting ")
	peer, rest, ok2 := strings.Cut(rest, " at ")
	e.Peer, e.How = strings.TrimPrefix(peer, "client "), "administrator"
	return ok && ok2 && strings.HasPrefix(rest, "admin") && !strings.Contains(e.Peer, " ")
}

// takeRequest: lustre/ptlrpc/client.c, ptlrpc_expire_one_request, with the request
// as debug_req prints it.
//
//	@@@ Request sent has timed out for slow reply: [sent 1736957925/real 1736957925]  req@000000005ab3b574 x1820705849269056/t0(0) o4->capstor-OST003a-osc-ffff3000ef06c000@172.28.1.43@tcp:6/4 lens ...
func takeRequest(e *Event, p *parts) bool {
	rest := strings.TrimPrefix(p.body, "@@@ Request sent has ")
	why, rest, ok := strings.Cut(rest, ": [sent ")
	sent, rest, ok2 := strings.Cut(rest, "/real ")
	left, rest, ok3 := strings.Cut(rest, "]")
	if !ok || !ok2 || !ok3 {
		return false
	}
	switch why {
	case "failed due to network error":
		e.How = "network_error"
	case "timed out for sent delay":
		e.How = "sent_delay"
	case "timed out for slow reply":
		e.How = "slow_reply"
	}
	e.Sent, e.Real = unixTime(sent), unixTime(left)
	e.request(rest)
	return true
}

// unixTime parses seconds; 0 and what is no time is zero.
func unixTime(s string) time.Time {
	n, ok := number(s)
	if !ok || n == 0 || n > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(n), 0).UTC()
}

// request takes opcode, device and NID of "req@... o4->DEVICE@NID:6/4 lens".
func (e *Event) request(s string) {
	before, to, ok := strings.Cut(s, "->")
	i := strings.LastIndexByte(before, ' ')
	op, ok2 := strings.CutPrefix(before[i+1:], "o")
	if n, isNumber := number(op); ok && ok2 && isNumber {
		e.Op = opName(n)
	}
	to, _, _ = strings.Cut(to, " ")
	if i := strings.LastIndexByte(to, ':'); i >= 0 { // the portals; an address may have colons
		to = to[:i]
	}
	net := strings.LastIndexByte(to, '@')
	if net < 0 {
		return
	}
	if at := strings.LastIndexByte(to[:net], '@'); at >= 0 {
		e.device(to[:at])
		e.NID = to[at+1:]
	}
}

// takeOperation: lustre/ptlrpc/client.c, ptlrpc_check_status; before 2.6 in other words.
//
//	lustre-OST0002-osc-ffff8880086b6800: operation ost_write to node 10.77.0.1@o2ib failed: rc = -107
//	lustre-OST0002-osc-ffff88103b8d9800: Communicating with 10.130.93.10@o2ib, operation ost_connect failed with -16.
func takeOperation(e *Event, p *parts) bool {
	rest, _ := e.on(p.body)
	old, isOld := strings.CutPrefix(rest, "Communicating with ")
	if isOld {
		nid, rest, ok := strings.Cut(old, ", operation ")
		op, rc, ok2 := strings.Cut(rest, " failed with ")
		e.NID, e.Op, e.RC = nid, op, returnCode(rc)
		return ok && ok2
	}
	rest, ok := strings.CutPrefix(rest, "operation ")
	op, rest, ok2 := strings.Cut(rest, " to node ")
	nid, rest, ok3 := strings.Cut(rest, " failed: ")
	e.Op, e.NID, e.RC = op, nid, findRC(rest)
	return ok && ok2 && ok3 && !strings.Contains(op, " ")
}

// takeDiscard: lustre/llite/llite_lib.c, ll_dirty_page_discard_warn. The path is the user's.
//
//	lustre: dirty page discard: 10.77.0.1@o2ib:/lustre/fid: [0x200000bd4:0x33:0x0]// may get corrupted (rc -5)
func takeDiscard(e *Event, p *parts) bool {
	fs, rest, _ := strings.Cut(p.body, ": ")
	if !strings.HasPrefix(rest, "dirty page discard: ") || strings.Contains(fs, " ") {
		return false
	}
	e.FS, e.RC = fs, findRC(rest)
	return true
}

func takeLustre(e *Event, p *parts) bool {
	if device, _, ok := strings.Cut(p.body, ": "); ok && (targetAt(device) >= 0 || strings.HasPrefix(device, "MG")) {
		e.on(p.body)
	}
	e.NID, e.RC = findNID(p.body), findRC(p.body)
	return true
}

func takeLNet(e *Event, p *parts) bool {
	e.NID, e.RC = findNID(p.body), findRC(p.body)
	return true
}

// takeRecovery: lnet/lnet/lib-msg.c and lib-move.c, lnet_recover_local_nis and
// lnet_recover_peer_nis.
//
//	1 local NIs in recovery (showing 1): 10.77.0.11@o2ib
func takeRecovery(e *Event, p *parts) bool {
	count, rest, _ := strings.Cut(p.body, " ")
	rest, ok := strings.CutPrefix(strings.TrimPrefix(strings.TrimPrefix(rest, "local "), "peer "), "NIs in recovery (showing ")
	_, list, ok2 := strings.Cut(rest, "): ")
	if _, isNumber := number(count); !isNumber || !ok || !ok2 {
		return false
	}
	for nid := range strings.SplitSeq(list, ",") {
		if nid = strings.TrimSpace(nid); nid != "" && len(e.NIDs) < 64 {
			e.NIDs = append(e.NIDs, nid)
		}
	}
	if len(e.NIDs) > 0 {
		e.NID = e.NIDs[0]
	}
	return true
}

// findRC takes "rc = -110", "rc: -5" or "rc -5", the last in the text.
func findRC(s string) *int {
	i := strings.LastIndex(s, "rc")
	if i < 0 || i > 0 && s[i-1] != ' ' && s[i-1] != '(' {
		return nil
	}
	return returnCode(strings.TrimLeft(s[i+2:], " =:"))
}

// returnCode parses "-107" and what follows it.
func returnCode(s string) *int {
	rest, minus := strings.CutPrefix(s, "-")
	n := digits(rest)
	rc, err := strconv.Atoi(rest[:min(n, 6)])
	if err != nil || n > 5 {
		return nil
	}
	if minus {
		rc = -rc
	}
	return &rc
}

// findNID gives the first NID in a text, without the "12345-" of a process id.
func findNID(s string) string {
	for {
		i := strings.IndexByte(s, '@')
		if i < 0 {
			return ""
		}
		from := strings.LastIndexAny(s[:i], " ([<,'") + 1
		to := i + 1
		for to < len(s) && (s[to] >= 'a' && s[to] <= 'z' || s[to] >= '0' && s[to] <= '9') {
			to++
		}
		if isNet(s[i+1:to]) && from < i {
			nid := s[from:to]
			if _, rest, ok := strings.Cut(nid, "12345-"); ok {
				nid = rest
			}
			return strings.TrimPrefix(nid, "MGC")
		}
		s = s[i+1:]
	}
}

// isNet tells the nets of LNet: a driver's name and perhaps a number.
func isNet(s string) bool {
	switch strings.TrimRight(s, "0123456789") {
	case "tcp", "o", "o2ib", "gni", "kfi", "lo", "ptlf":
		return s != "o" && !strings.HasPrefix(s, "o") || strings.HasPrefix(s, "o2ib")
	}
	return false
}

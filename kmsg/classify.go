package kmsg

import (
	"strings"
	"time"
)

// Kind is what a message says. The strings are stable.
type Kind string

// The kinds; Kinds documents them.
const (
	ConnectionLost     Kind = "connection_lost"
	ConnectionRestored Kind = "connection_restored"
	Evicted            Kind = "evicted"
	ClientEvicted      Kind = "client_evicted"
	RequestTimeout     Kind = "request_timeout"
	OperationFailed    Kind = "operation_failed"
	DirtyDiscard       Kind = "dirty_discard"
	LBUG               Kind = "lbug"
	LustreError        Kind = "lustre_error"
	LNetRecovery       Kind = "lnet_recovery"
	LNetPeerRecovery   Kind = "lnet_peer_recovery"
	LNetError          Kind = "lnet_error"
	MLX5Health         Kind = "mlx5_health"
	MLX5Timeout        Kind = "mlx5_timeout"
	MLX5Async          Kind = "mlx5_async"
	MLX5Port           Kind = "mlx5_port"
	HFI1               Kind = "hfi1"
	IBPort             Kind = "ib_port"
	PCIeAER            Kind = "pcie_aer"
	HungTask           Kind = "hung_task"
	SoftLockup         Kind = "soft_lockup"
	HardLockup         Kind = "hard_lockup"
	RCUStall           Kind = "rcu_stall"
	OOM                Kind = "oom"
)

// KindDoc documents a kind in one line.
type KindDoc struct {
	Kind Kind
	Doc  string
}

// Kinds gives all kinds, in the order in which the documentation shows them.
func Kinds() []KindDoc {
	return []KindDoc{
		{ConnectionLost, "an import lost its target; How: waits (for recovery) or fails (MGS, or not replayable)"},
		{ConnectionRestored, "an import has its target back"},
		{Evicted, "a target threw this client out: its locks and dirty data are gone"},
		{ClientEvicted, "this server threw a client (Peer) out; How: silent, lock_timeout or administrator"},
		{RequestTimeout, "an RPC got no reply; How: network_error, sent_delay (never or late out of this node) or slow_reply (the server is slow)"},
		{OperationFailed, "a target answered an RPC with an error; Op, RC"},
		{DirtyDiscard, "written data never reached the target: a file may be corrupt"},
		{LBUG, "an assertion failed in Lustre: this kernel needs a restart"},
		{LustreError, "any other LustreError; alone no sign of illness"},
		{LNetRecovery, "interfaces of this node that LNet tries to get back, NIDs"},
		{LNetPeerRecovery, "interfaces of other nodes that LNet tries to get back, NIDs"},
		{LNetError, "any LNetError; alone no sign of illness"},
		{MLX5Health, "the adapter's firmware or hardware reports itself ill"},
		{MLX5Timeout, "the adapter does not answer a command (Op) or does not send"},
		{MLX5Async, "the adapter completed work with an error"},
		{MLX5Port, "a cable or the link of an adapter; How: up, down, plugged, unplugged or error"},
		{HFI1, "the Omni-Path adapter's link or an error of it; How: up, down or error"},
		{IBPort, "the link of an RDMA device or of IPoIB; How: up or down"},
		{PCIeAER, "an error on the PCI Express bus; How: corrected, nonfatal, fatal or \"\""},
		{HungTask, "a task (Task) waits in the kernel for minutes"},
		{SoftLockup, "a CPU ran kernel code for many seconds without a break"},
		{HardLockup, "a CPU took no interrupt for many seconds"},
		{RCUStall, "a CPU or task held up the kernel's grace periods"},
		{OOM, "memory ran out and a process was killed; How: node or cgroup"},
	}
}

// Side is the kind of node on which a device lives.
type Side string

// The sides that a device name tells; "" where it does not, as with an MGC.
const (
	Client Side = "client"
	MDS    Side = "mds"
	OSS    Side = "oss"
	MGS    Side = "mgs"
)

// Event is a message that says something about storage or fabric. What the
// message does not tell is "" or nil.
type Event struct {
	Kind   Kind
	Target string   // "lustre-OST0002", "MGS"
	FS     string   // "lustre"
	Device string   // "lustre-OST0002-osc-ffff8880086b6800", "0000:61:00.0", "mlx5_0"
	Side   Side     // of the device
	NID    string   // of the other end
	NIDs   []string // of lnet_recovery and lnet_peer_recovery: those shown
	Peer   string   // UUID or name of the other end where the message tells it
	Op     string   // "ost_write", "obd_ping", "CREATE_DCT"
	How    string   // see Kinds
	Task   string   // "NAME:PID" as printed; the user chooses the name
	RC     *int     // negative errno
	// Sent and Real, of request_timeout, are when the request was queued and when
	// it left this node, by the node's clock. A zero Real is one that never left.
	Sent, Real time.Time
	Count      uint64 // 1 and the similar messages that the kernel skipped
	Message
}

// family is by what a message begins.
type family int

const (
	other family = iota
	lustre
	lustreError
	lnet
	lnetError
	mlx5
	infiniband
	hfi1
	pci
	families
)

// form is a form of message. A message is of the first form in which its family
// and place are, whose begins and has (cheap, "" for any) are of its body, and
// whose take agrees, which also fills the event in. Where a user's words can
// follow, has is only the cheap gate, and take looks at the place.
type form struct {
	kind   Kind
	in     [2]family
	place  place
	begins string
	has    string
	take   func(*Event, *parts) bool
}

// place tells whether Lustre's message names its place in the source; those for
// the console (LCONSOLE_WARN) do not, all others do.
type place int

const (
	anywhere place = iota
	console
	sourced
)

func (p place) admits(site string) bool {
	return p == anywhere || p == console && site == "" || p == sourced && site != ""
}

var forms = [...]form{
	{ConnectionLost, [2]family{lustre, lustreError}, console, "", ": Connection to ", takeLost},
	{ConnectionRestored, [2]family{lustre, lustre}, console, "", ": Connection restored to ", takeRestored},
	{Evicted, [2]family{lustre, lustreError}, console, "", ": This client was evicted by ", takeEvicted},
	{Evicted, [2]family{lustre, lustreError}, console, "Evicted from ", "", takeEvictedFrom},
	{ClientEvicted, [2]family{lustre, lustreError}, console, "", ": haven't heard from client ", takeSilent},
	{ClientEvicted, [2]family{lustre, lustreError}, console, "", ": A client on nid ", takeLockEviction},
	{ClientEvicted, [2]family{lustre, lustreError}, sourced, "### lock callback timer expired after ", "evicting client at ", takeLockTimer},
	{ClientEvicted, [2]family{lustre, lustreError}, anywhere, "", ": evicting ", takeAdminEviction},
	{RequestTimeout, [2]family{lustre, lustreError}, sourced, "@@@ Request sent has ", "", takeRequest},
	{OperationFailed, [2]family{lustre, lustreError}, console, "", " operation ", takeOperation},
	{DirtyDiscard, [2]family{lustre, lustreError}, sourced, "", ": dirty page discard: ", takeDiscard},
	{LBUG, [2]family{lustre, lustreError}, sourced, "ASSERTION(", "", takeAny},
	{LBUG, [2]family{lustre, lustreError}, sourced, "LBUG", "", takeAny},
	{LustreError, [2]family{lustreError, lustreError}, anywhere, "", "", takeLustre},
	{LNetRecovery, [2]family{lnet, lnet}, anywhere, "", " local NIs in recovery (showing ", takeRecovery},
	{LNetPeerRecovery, [2]family{lnet, lnet}, anywhere, "", " peer NIs in recovery (showing ", takeRecovery},
	{LNetError, [2]family{lnetError, lnetError}, anywhere, "", "", takeLNet},

	{MLX5Timeout, [2]family{mlx5, mlx5}, anywhere, "", "timeout. Will cause a leak of a command resource", takeCommand},
	{MLX5Timeout, [2]family{mlx5, mlx5}, anywhere, "", "No done completion", takeCommand},
	{MLX5Timeout, [2]family{mlx5, mlx5}, anywhere, "TX timeout ", "", takeAny},
	{MLX5Timeout, [2]family{mlx5, mlx5}, anywhere, "NETDEV WATCHDOG", "", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "", "health compromised", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "Health issue observed", "", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "assert_var[0]", "", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "synd 0x", "", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "", "firmware internal error", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "Fatal error ", "", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "", "handling bad device", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "", "health recovery", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "", "health poll failed", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "", "in error state", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "High temperature", "", takeAny},
	{MLX5Health, [2]family{mlx5, mlx5}, anywhere, "Detected insufficient power", "", takeAny},
	{MLX5Async, [2]family{mlx5, mlx5}, anywhere, "", "rror cqe", takeAny},
	{MLX5Async, [2]family{mlx5, mlx5}, anywhere, "CQE error", "", takeAny},
	{MLX5Async, [2]family{mlx5, mlx5}, anywhere, "WC error", "", takeAny},
	{MLX5Async, [2]family{mlx5, mlx5}, anywhere, "CQ error on CQN", "", takeAny},
	{MLX5Async, [2]family{mlx5, mlx5}, anywhere, "", "async error", takeAny},
	{MLX5Port, [2]family{mlx5, mlx5}, anywhere, "Port module event", "", takeModule},
	{MLX5Port, [2]family{mlx5, mlx5}, anywhere, "Link ", "", takeLink},
	{MLX5Port, [2]family{mlx5, mlx5}, anywhere, "Port: ", " Link ", takeLink},
	{MLX5Port, [2]family{mlx5, mlx5}, anywhere, "port down", "", takePortDown},
	{HFI1, [2]family{hfi1, hfi1}, anywhere, "", "", takeHFI1},
	{IBPort, [2]family{infiniband, mlx5}, anywhere, "set ", "", takeSet},
	{PCIeAER, [2]family{pci, pci}, anywhere, "", "", takeAER},

	{IBPort, [2]family{other, other}, anywhere, "IPv6: ADDRCONF(NETDEV_", ": ib", takeIPoIB},
	{IBPort, [2]family{other, other}, anywhere, "ib", ": link ", takeIBLink},
	{HungTask, [2]family{other, other}, anywhere, "INFO: task ", " blocked ", takeHung},
	{SoftLockup, [2]family{other, other}, anywhere, "watchdog: BUG: soft lockup", "", takeLockup},
	{SoftLockup, [2]family{other, other}, anywhere, "BUG: soft lockup", "", takeLockup},
	{SoftLockup, [2]family{other, other}, anywhere, "NMI watchdog: BUG: soft lockup", "", takeLockup},
	{HardLockup, [2]family{other, other}, anywhere, "NMI watchdog: Watchdog detected hard LOCKUP", "", takeAny},
	{HardLockup, [2]family{other, other}, anywhere, "watchdog: Watchdog detected hard LOCKUP", "", takeAny},
	{HardLockup, [2]family{other, other}, anywhere, "Watchdog detected hard LOCKUP", "", takeAny},
	{RCUStall, [2]family{other, other}, anywhere, "rcu: INFO: rcu_", " stall", takeStall},
	{RCUStall, [2]family{other, other}, anywhere, "INFO: rcu_", " stall", takeStall},
	{LBUG, [2]family{other, other}, anywhere, "Kernel panic - not syncing: LBUG", "", takeAny},
	{OOM, [2]family{other, other}, anywhere, "Out of memory: ", "", takeOOM},
	{OOM, [2]family{other, other}, anywhere, "Memory cgroup out of memory: ", "", takeOOM},
}

// levelError is KERN_ERR.
const levelError = 3

func takeAny(*Event, *parts) bool { return true }

// Classify gives the messages that say something about storage or fabric, in the
// order of the log. Messages that a process wrote into the log are none. "Skipped
// N previous similar messages" adds to the event of the same place in the source,
// and is dropped where that was no event.
func Classify(messages []Message) []Event {
	c := classifier{}
	for i := range messages {
		if !messages[i].User {
			c.add(&messages[i])
		}
	}
	return c.events
}

type classifier struct {
	events []Event
	sites  map[string]int // place in the source -> its last event, counted from 1; 0 was none
	plain  [families]int  // the same for messages that do not name their place
}

func (c *classifier) add(m *Message) {
	p := split(m.Text)
	if m.Level > levelError && (p.family == lustreError || p.family == lnetError) {
		return // Lustre prints those as errors or worse: this is of a task with that name
	}
	if n, ok := p.skipped(); ok {
		if at := c.last(&p); at > 0 {
			c.events[at-1].Count += n
		}
		return
	}
	at := 0
	if e, ok := p.event(); ok {
		e.Message, e.Count = *m, 1
		c.events = append(c.events, e)
		at = len(c.events)
	}
	c.remember(&p, at)
}

func (c *classifier) last(p *parts) int {
	if p.site != "" {
		return c.sites[p.site]
	}
	return c.plain[p.family]
}

func (c *classifier) remember(p *parts, at int) {
	switch {
	case !p.lustre():
	case p.site == "":
		c.plain[p.family] = at
	default:
		if c.sites == nil {
			c.sites = map[string]int{}
		}
		c.sites[p.site] = at
	}
}

// event is what the message says, if anything.
func (p *parts) event() (Event, bool) {
	for i := range forms {
		f := &forms[i]
		if f.in[0] != p.family && f.in[1] != p.family || !f.place.admits(p.site) {
			continue
		}
		if !strings.HasPrefix(p.body, f.begins) || f.has != "" && !strings.Contains(p.body, f.has) {
			continue
		}
		e := Event{Kind: f.kind, Device: p.device}
		if f.take(&e, p) {
			return e, true
		}
	}
	return Event{}, false
}

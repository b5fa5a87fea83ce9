package lnet

// NI is a network interface of this node. What its lnetctl does not tell is nil.
type NI struct {
	NID        NID
	Status     string   // "up", "down"
	Interfaces []string // "ib0", in their order

	FatalError *bool  // the driver says that the port is dead; 2.13 and later
	Health     *int64 // 0 to 1000, which is healthy; 2.12 and later
	Local      LocalCounters
	PingCount  *uint64 // recovery pings since the interface was last well
	NextPing   *int64  // seconds of the kernel's own clock

	SendCount, RecvCount, DropCount *uint64 // messages
	Sent, Received, Dropped         *Messages

	PeerTimeout       *int64 // seconds
	PeerCredits       *int64 // messages in flight to one peer
	PeerBufferCredits *int64
	Credits           *int64 // messages in flight to all peers
	AvailableCredits  *int64 // now; only debugfs and procfs tell it
	MinCredits        *int64 // lowest ever, below zero where messages waited; likewise

	LND    map[string]string // tunables of the driver, as printed
	CPT    string            // "[0,1]"
	DevCPT *int64            // -1 is unknown to the kernel

	Unknown []string // "tunables/new_one: 3", what this package does not know
}

// LocalCounters count the failures that LNet lays on the local interface, by
// lnet/lnet/lib-msg.c, lnet_incr_hstats. 32 bits in the kernel.
type LocalCounters struct {
	Interrupts, Dropped, Aborted, NoRoute, Timeouts, Errors *uint64
}

// Messages are counted by their type.
type Messages struct {
	Put, Get, Reply, Ack, Hello *uint64
}

// ParseNetShow parses `lnetctl net show` of any verbosity. A refusal is a
// *Failure, which may come with what was told before it. No text is no interface.
//
// SOURCE: lnet/utils/lnetconfig/liblnetconfig.c, lustre_lnet_show_net, and since
// 2.16 lnet/lnet/api-ni.c, lnet_net_show_dump:
//
//	net:
//	-     net type: o2ib
//	      local NI(s):
//	      -     nid: 10.77.0.11@o2ib
//
// Up to 2.9 a net had one interface, whose keys stood beside "net: o2ib".
func ParseNetShow(b []byte) ([]NI, error) {
	nets, err := answer(b, "net show", "net")
	var nis []NI
	for n := nets.items(); n != nil; n = n.next {
		list := n.get("local NI(s)")
		if list == nil {
			nis = append(nis, newNI(n))
			continue
		}
		for ni := list.items(); ni != nil; ni = ni.next {
			nis = append(nis, newNI(ni))
		}
	}
	return nis, err
}

func newNI(n *node) NI {
	ni := NI{}
	u := unknown{}
	if !u.take(n, "", func(e *node) bool { return ni.field(e, &u) }) {
		u.note("", n)
	}
	if len(u) > 0 {
		ni.Unknown = u
	}
	return ni
}

func (ni *NI) field(n *node, u *unknown) bool {
	switch n.key {
	case "nid":
		return nidTo(&ni.NID, n)
	case "status":
		return textTo(&ni.Status, n)
	case "interfaces":
		return u.below(n, ni.addInterface)
	case "statistics":
		return u.below(n, func(e *node) bool { return countsTo(&ni.SendCount, &ni.RecvCount, &ni.DropCount, e) })
	case "sent_stats":
		return messagesTo(&ni.Sent, n, u)
	case "received_stats":
		return messagesTo(&ni.Received, n, u)
	case "dropped_stats":
		return messagesTo(&ni.Dropped, n, u)
	case "health stats":
		return u.below(n, ni.health)
	case "tunables":
		return u.below(n, ni.tunable)
	case "lnd tunables":
		return ni.lnd(n, u)
	case "dev cpt":
		return creditsTo(&ni.DevCPT, n)
	case "CPT":
		return textTo(&ni.CPT, n)
	case "net type", "net", "udsp info", "tcp bonding": // said by the NID, or of no use
		return true
	}
	return false
}

func (ni *NI) addInterface(n *node) bool {
	name := ""
	ok := textTo(&name, n)
	if ok {
		ni.Interfaces = append(ni.Interfaces, name)
	}
	return ok
}

func (ni *NI) health(n *node) bool {
	switch n.key {
	case "fatal_error":
		return boolTo(&ni.FatalError, n)
	case "health value":
		return intTo(&ni.Health, n)
	case "interrupts":
		return uintTo(&ni.Local.Interrupts, n)
	case "dropped":
		return uintTo(&ni.Local.Dropped, n)
	case "aborted":
		return uintTo(&ni.Local.Aborted, n)
	case "no route":
		return uintTo(&ni.Local.NoRoute, n)
	case "timeouts":
		return uintTo(&ni.Local.Timeouts, n)
	case "error":
		return uintTo(&ni.Local.Errors, n)
	case "ping_count":
		return uintTo(&ni.PingCount, n)
	case "next_ping":
		return intTo(&ni.NextPing, n)
	}
	return false
}

func (ni *NI) tunable(n *node) bool {
	switch n.key {
	case "peer_timeout":
		return creditsTo(&ni.PeerTimeout, n)
	case "peer_credits":
		return creditsTo(&ni.PeerCredits, n)
	case "peer_buffer_credits":
		return creditsTo(&ni.PeerBufferCredits, n)
	case "credits":
		return creditsTo(&ni.Credits, n)
	case "CPT": // up to 2.9
		return textTo(&ni.CPT, n)
	}
	return false
}

// lnd keeps all tunables of the driver: each driver and release has others.
func (ni *NI) lnd(n *node, u *unknown) bool {
	return u.below(n, func(e *node) bool {
		value := ""
		if !textTo(&value, e) {
			return false
		}
		if ni.LND == nil {
			ni.LND = map[string]string{}
		}
		ni.LND[e.key] = value
		return true
	})
}

func countsTo(send, recv, drop **uint64, n *node) bool {
	switch n.key {
	case "send_count":
		return uintTo(send, n)
	case "recv_count":
		return uintTo(recv, n)
	case "drop_count":
		return uintTo(drop, n)
	}
	return false
}

func messagesTo(p **Messages, n *node, u *unknown) bool {
	if n.kind != mapping {
		return false
	}
	m := &Messages{}
	*p = m
	return u.below(n, func(e *node) bool {
		switch e.key {
		case "put":
			return uintTo(&m.Put, e)
		case "get":
			return uintTo(&m.Get, e)
		case "reply":
			return uintTo(&m.Reply, e)
		case "ack":
			return uintTo(&m.Ack, e)
		case "hello":
			return uintTo(&m.Hello, e)
		}
		return false
	})
}

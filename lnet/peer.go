package lnet

// Peer is another node, under its primary NID. That it stands here proves nothing:
// a ping of a dead NID leaves one behind, with health value 1000.
type Peer struct {
	PrimaryNID NID
	MultiRail  *bool
	State      *int64 // bits of lnet/include/lnet/lib-types.h, LNET_PEER_*
	NIs        []PeerNI
	Unknown    []string
}

// PeerNI is a network interface of a peer.
type PeerNI struct {
	NID   NID
	State string // "up", "down"; "NA" where the driver does not watch

	Health *int64 // 0 to 1000, which is healthy, and also that of a peer never heard of
	Remote RemoteCounters

	MaxTxCredits        *int64
	AvailableTxCredits  *int64 // now; below zero as many messages wait
	MinTxCredits        *int64 // lowest ever
	AvailableRtrCredits *int64
	MinRtrCredits       *int64
	TxQueue             *int64 // bytes waiting for credits
	RefCount            *int64

	SendCount, RecvCount, DropCount *uint64 // messages
	Sent, Received, Dropped         *Messages

	PingCount *uint64
	NextPing  *int64 // seconds of the kernel's own clock

	Unknown []string
}

// RemoteCounters count the failures that LNet lays on the other side, and the one
// that it cannot lay on either: a network timeout, of a message that was sent and
// never answered, counts here but is both ends' failure. 32 bits in the kernel.
type RemoteCounters struct {
	Dropped, Timeout, Error, NetworkTimeout *uint64
}

// ParsePeerShow parses `lnetctl peer show` of any verbosity. A refusal is a
// *Failure. No text is no peer.
//
// SOURCE: lnet/utils/lnetconfig/liblnetconfig.c, lustre_lnet_show_peer, and since
// 2.16 lnet/lnet/api-ni.c, lnet_peer_ni_show_dump:
//
//	peer:
//	-     primary nid: 10.77.0.1@o2ib
//	      Multi-Rail: true
//	      peer ni:
//
// Up to 2.9 a peer had one interface and no primary NID.
func ParsePeerShow(b []byte) ([]Peer, error) {
	list, err := answer(b, "peer show", "peer")
	var peers []Peer
	for n := list.items(); n != nil; n = n.next {
		if n.get("primary nid") == nil && n.get("nid") != nil {
			ni := newPeerNI(n)
			peers = append(peers, Peer{PrimaryNID: ni.NID, NIs: []PeerNI{ni}})
			continue
		}
		peers = append(peers, newPeer(n))
	}
	return peers, err
}

func newPeer(n *node) Peer {
	p := Peer{}
	u := unknown{}
	if !u.take(n, "", p.field) {
		u.note("", n)
	}
	if len(u) > 0 {
		p.Unknown = u
	}
	return p
}

func (p *Peer) field(n *node) bool {
	switch n.key {
	case "primary nid":
		return nidTo(&p.PrimaryNID, n)
	case "Multi-Rail":
		return boolTo(&p.MultiRail, n)
	case "peer state":
		return intTo(&p.State, n)
	case "peer ni":
		for e := n.items(); e != nil; e = e.next {
			p.NIs = append(p.NIs, newPeerNI(e))
		}
		return n.kind == sequence
	}
	return false
}

func newPeerNI(n *node) PeerNI {
	ni := PeerNI{}
	u := unknown{}
	if !u.take(n, "", func(e *node) bool { return ni.field(e, &u) }) {
		u.note("", n)
	}
	if len(u) > 0 {
		ni.Unknown = u
	}
	return ni
}

func (ni *PeerNI) field(n *node, u *unknown) bool {
	switch n.key {
	case "nid":
		return nidTo(&ni.NID, n)
	case "state":
		return textTo(&ni.State, n)
	case "max_ni_tx_credits":
		return creditsTo(&ni.MaxTxCredits, n)
	case "available_tx_credits":
		return creditsTo(&ni.AvailableTxCredits, n)
	case "min_tx_credits":
		return creditsTo(&ni.MinTxCredits, n)
	case "available_rtr_credits":
		return creditsTo(&ni.AvailableRtrCredits, n)
	case "min_rtr_credits":
		return creditsTo(&ni.MinRtrCredits, n)
	case "tx_q_num_of_buf":
		return intTo(&ni.TxQueue, n)
	case "refcount":
		return intTo(&ni.RefCount, n)
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
	case "udsp info":
		return true
	}
	return false
}

func (ni *PeerNI) health(n *node) bool {
	switch n.key {
	case "health value":
		return intTo(&ni.Health, n)
	case "dropped":
		return uintTo(&ni.Remote.Dropped, n)
	case "timeout":
		return uintTo(&ni.Remote.Timeout, n)
	case "error":
		return uintTo(&ni.Remote.Error, n)
	case "network timeout":
		return uintTo(&ni.Remote.NetworkTimeout, n)
	case "ping_count":
		return uintTo(&ni.PingCount, n)
	case "next_ping":
		return intTo(&ni.NextPing, n)
	}
	return false
}

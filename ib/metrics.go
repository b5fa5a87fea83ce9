package ib

import (
	"strings"

	"github.com/prometheus/procfs/sysfs"
)

// Class says what the rise of a counter means.
type Class string

// The classes.
const (
	Flap       Class = "flap"       // the link was lost and came back
	Link       Class = "link"       // bits arrive broken: cable, optics or the port itself
	Loss       Class = "loss"       // packets were lost on the way and sent again, or given up
	Congestion Class = "congestion" // the network or a receiver did not keep up
)

// Metric is a counter of a port. A counter of the directory counters is kept by
// the port's performance management agent, which lets it stick at its maximum;
// those of hw_counters wrap.
type Metric struct {
	Name  string // "symbol_error"
	Path  string // below the port: "counters/symbol_error"
	Bits  int    // the width of the narrowest adapter known
	Unit  string
	Class Class
	Doc   string
}

// Max is the value at which the counter sticks, 0 for one that wraps.
func (m Metric) Max() uint64 {
	if !strings.HasPrefix(m.Path, "counters/") {
		return 0
	}
	return 1<<m.Bits - 1
}

// Metrics is the table of counters that are read: those whose rise says something
// about the fabric. What is merely traffic, or an application's own fault
// (access and length errors), is not in it.
func Metrics() []Metric {
	all := make([]Metric, len(table))
	for i, r := range table {
		all[i] = r.Metric
	}
	return all
}

// MetricOf gives the row of a Counter's path.
func MetricOf(path string) (Metric, bool) {
	r, ok := byPath[path]
	return r.Metric, ok
}

type row struct {
	Metric
	parsed func(*sysfs.InfiniBandPort) *uint64 // where procfs has it; nil for a counter that it does not know
}

var byPath = func() map[string]row {
	rows := make(map[string]row, len(table))
	for _, r := range table {
		rows[r.Path] = r
	}
	return rows
}()

// pma is a row of the directory counters, whose widths drivers/infiniband/core/sysfs.c
// has in its PORT_PMA_ATTR lines.
func pma(name string, bits int, unit string, class Class, doc string, parsed func(*sysfs.InfiniBandCounters) *uint64) row {
	return row{Metric{name, "counters/" + name, bits, unit, class, doc},
		func(p *sysfs.InfiniBandPort) *uint64 { return parsed(&p.Counters) }}
}

// hw is a row of the directory hw_counters, in which each driver has its own. mlx5
// counts its Q counters in 32 bits (drivers/infiniband/hw/mlx5/counters.c).
func hw(name string, bits int, class Class, doc string, parsed func(*sysfs.InfiniBandHwCounters) *uint64) row {
	r := row{Metric: Metric{name, "hw_counters/" + name, bits, "events", class, doc}}
	if parsed != nil {
		r.parsed = func(p *sysfs.InfiniBandPort) *uint64 { return parsed(&p.HwCounters) }
	}
	return r
}

var table = []row{
	pma("link_downed", 8, "events", Flap, "the port failed to recover its link and took it down",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.LinkDowned }),
	pma("link_error_recovery", 8, "events", Link, "the port retrained its link and recovered it",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.LinkErrorRecovery }),
	pma("symbol_error", 16, "symbols", Link, "broken symbols received on one lane or more",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.SymbolError }),
	pma("local_link_integrity_errors", 4, "events", Link, "local physical errors passed their threshold",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.LocalLinkIntegrityErrors }),
	pma("excessive_buffer_overrun_errors", 4, "events", Link, "the receive buffer overran again and again: flow control is broken",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.ExcessiveBufferOverrunErrors }),
	pma("port_rcv_errors", 16, "packets", Link, "packets received with an error: bad CRC, malformed, buffer overrun",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.PortRcvErrors }),
	pma("port_rcv_remote_physical_errors", 16, "packets", Loss, "packets that another link had marked as bad: the fault is further away",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.PortRcvRemotePhysicalErrors }),
	pma("port_xmit_discards", 16, "packets", Congestion, "packets not sent, as the port was down or congested for too long",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.PortXmitDiscards }),
	pma("VL15_dropped", 16, "packets", Congestion, "subnet management packets dropped for want of buffers",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.VL15Dropped }),
	pma("port_xmit_wait", 32, "ticks", Congestion, "time with data to send and no credit to send it",
		func(c *sysfs.InfiniBandCounters) *uint64 { return c.PortXmitWait }),

	// mlx5; some names rxe and others have as well.
	hw("local_ack_timeout_err", 32, Loss, "no acknowledgement came in time, sent again",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.LocalAckTimeoutErr }),
	hw("out_of_sequence", 32, Loss, "requests or answers received out of order: one before was lost",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.OutOfSequence }),
	hw("packet_seq_err", 32, Loss, "the receiver said that a packet was missing (NAK)",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.PacketSeqErr }),
	hw("implied_nak_seq_err", 32, Loss, "a later answer showed that one before was lost",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.ImpliedNakSeqErr }),
	hw("duplicate_request", 32, Loss, "requests that came twice: the sender missed the answer",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.DuplicateRequest }),
	hw("roce_adp_retrans", 32, Loss, "adaptive retransmissions",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.RoceAdpRetrans }),
	hw("roce_adp_retrans_to", 32, Loss, "adaptive retransmissions that ran into the timeout",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.RoceAdpRetransTo }),
	hw("roce_slow_restart", 32, Loss, "restarts at a low rate after a loss",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.RoceSlowRestart }),
	hw("req_transport_retries_exceeded", 32, Loss, "requests given up after all retries: the connection broke", nil),
	hw("req_rnr_retries_exceeded", 32, Congestion, "requests given up as the receiver was never ready: the connection broke", nil),
	hw("rnr_nak_retry_err", 32, Congestion, "the receiver was not ready, sent again",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.RnrNakRetryErr }),
	hw("out_of_buffer", 32, Congestion, "packets dropped as no receive buffer was posted",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.OutOfBuffer }),
	hw("rx_icrc_encapsulated", 64, Link, "RoCE packets received with a broken checksum (ICRC)",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.RxIcrcEncapsulated }),
	hw("np_cnp_sent", 64, Congestion, "congestion notifications sent to senders (CNP)",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.NpCnpSent }),
	hw("np_ecn_marked_roce_packets", 64, Congestion, "packets received that a switch had marked as congested (ECN)",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.NpEcnMarkedRocePackets }),
	hw("rp_cnp_handled", 64, Congestion, "congestion notifications received, rate lowered (CNP)",
		func(c *sysfs.InfiniBandHwCounters) *uint64 { return c.RpCnpHandled }),

	// rxe (drivers/infiniband/sw/rxe/rxe_hw_counters.c)
	hw("link_downed", 64, Flap, "the network device below lost its link", nil),
	hw("retry_exceeded_err", 64, Loss, "requests given up after all retries: the connection broke", nil),
	hw("completer_retry_err", 64, Loss, "requests sent again", nil),
	hw("rcvd_seq_err", 64, Loss, "the receiver said that a packet was missing (NAK)", nil),
	hw("out_of_seq_request", 64, Loss, "requests received out of order: one before was lost", nil),
	hw("send_err", 64, Loss, "packets that the network device did not take", nil),
	hw("rcvd_rnr_err", 64, Congestion, "the receiver was not ready, sent again", nil),
	hw("retry_rnr_exceeded_err", 64, Congestion, "requests given up as the receiver was never ready: the connection broke", nil),

	// bnxt_re (drivers/infiniband/hw/bnxt_re/hw_counters.c)
	hw("to_retransmits", 64, Loss, "no acknowledgement came in time, sent again", nil),
	hw("seq_err_naks_rcvd", 64, Loss, "the receiver said that a packet was missing (NAK)", nil),
	hw("max_retry_exceeded", 64, Loss, "requests given up after all retries: the connection broke", nil),
	hw("oos_drop_count", 64, Loss, "requests received out of order and dropped: one before was lost", nil),
	hw("rnr_naks_rcvd", 64, Congestion, "the receiver was not ready, sent again", nil),
	hw("rx_roce_discards", 64, Congestion, "RoCE packets received and dropped", nil),
}

package ib

import "fmt"

// Fabric is the kind of network behind a port.
type Fabric string

// The fabrics. An Omni-Path port calls its link layer InfiniBand too.
const (
	InfiniBand    Fabric = "InfiniBand"
	OmniPath      Fabric = "OmniPath"
	RoCE          Fabric = "RoCE"
	IWARP         Fabric = "iWARP"
	UnknownFabric Fabric = ""
)

// Device is an adapter as /sys/class/infiniband has it: with mlx5 each port of
// a card is a device of its own.
type Device struct {
	Name     string // "mlx5_0"
	Firmware string // "20.35.1012"; "" where the driver has none
	Board    string // "MT_0000000223"
	GUID     string // the node's, "b859:9f03:00d4:3a1c"; "" where it is all zero, as of a new virtual function
	HCA      string // "MT4123"
	Ports    []Port // in order of their number
	Err      error  // what of the device itself could not be read or understood
}

// Port is one port of a device at the time of the reading.
type Port struct {
	Device    string
	Number    uint   // from 1
	State     string // the kernel's word: "ACTIVE", "INIT" (no subnet manager), "DOWN", ...; "" unknown
	PhysState string // the kernel's word: "LinkUp", "Polling", "Disabled", ...; "" unknown
	LinkLayer string // "InfiniBand", "Ethernet"; "" unknown
	Fabric    Fabric
	RateGbps  *float64 // nil where the kernel does not tell; of a port that is not Up it means nothing
	Width     string   // "4X"
	Speed     string   // "EDR"
	NetDevs   []NetDev
	Counters  []Counter // those of the table that the port has, in the table's order
	Err       error     // what of the port could not be read or understood
}

// NetDev is a network device on a port.
type NetDev struct {
	Name    string
	Up      *bool // has a carrier; nil where the kernel does not tell
	AdminUp *bool // was switched on (ip link set up); nil where the kernel does not tell
}

// Counter is the value of one counter of the table; see MetricOf.
type Counter struct {
	Path  string // "counters/symbol_error"
	Value uint64
}

// String names the port as ibstat and Lustre do: "mlx5_0/1".
func (p *Port) String() string { return fmt.Sprintf("%s/%d", p.Device, p.Number) }

// Up reports whether the port carries traffic. A port of unknown state does not.
func (p *Port) Up() bool { return p.State == "ACTIVE" && p.PhysState == "LinkUp" }

// Cabled reports whether the other end is seen now: a link that is up, or a
// signal that is being trained. False is no proof of a missing cable: Polling is
// what a port without a cable, with a dead one, and before a switched-off peer
// says alike. Whether a port that sees nothing is merely unused is told by
// PortMemory.LastUp.
func (p *Port) Cabled() bool {
	switch p.PhysState {
	case "LinkUp", "PortConfigurationTraining", "LinkErrorRecovery":
		return true
	}
	for _, n := range p.NetDevs {
		if p.overEthernet() && n.Up != nil && *n.Up {
			return true
		}
	}
	return false
}

// SwitchedOff reports whether an admin is known to have switched the port off:
// an InfiniBand or Omni-Path port that is Disabled, or one over Ethernet of
// which all network devices are. There Disabled alone proves nothing, as mlx5,
// irdma and others say it of every port without a carrier.
func (p *Port) SwitchedOff() bool {
	if !p.overEthernet() {
		return p.PhysState == "Disabled"
	}
	for _, n := range p.NetDevs {
		if n.AdminUp == nil || *n.AdminUp {
			return false
		}
	}
	return len(p.NetDevs) > 0
}

func (p *Port) overEthernet() bool { return p.LinkLayer == "Ethernet" }

package lnet

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Net is a network: the part of a NID behind the @. "o2ib3" is {"o2ib", 3}, "tcp"
// and "tcp0" are both {"tcp", 0}.
type Net struct {
	Type   string // the driver's name: "tcp", "o2ib", "gni", "kfi", "lo"
	Number uint
}

// NID is the address of a network interface. Two NIDs that name the same
// interface are equal, except by host name.
type NID struct {
	Addr string // "10.0.0.1", "2001:db8::1", "4711", "login1"
	Net  Net
}

// maxNetNumber is what 16 bits hold.
const maxNetNumber = 1<<16 - 1

// ParseNet parses the name of a network.
func ParseNet(s string) (Net, error) {
	typ := strings.TrimRight(s, "0123456789")
	if typ == "" || len(s) > 32 || typ[0] < 'a' || typ[0] > 'z' || strings.Trim(typ, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return Net{}, fmt.Errorf("parse net %.40q: want a type and perhaps a number, as o2ib3", s)
	}
	if typ == s {
		return Net{Type: typ}, nil
	}
	n, err := strconv.ParseUint(s[len(typ):], 10, 32)
	if err != nil || n > maxNetNumber || typ == "lo" && n != 0 {
		return Net{}, fmt.Errorf("parse net %.40q: no such number of a net", s)
	}
	return Net{typ, uint(n)}, nil
}

func (n Net) String() string {
	if n.Number == 0 {
		return n.Type
	}
	return n.Type + strconv.FormatUint(uint64(n.Number), 10)
}

// ParseNID parses one NID. Unlike Lustre's own parser it wants the net: a bare
// address is no NID. Ranges and lists are refused.
//
// SOURCE: lnet/lnet/nidstrings.c, libcfs_strnid and libcfs_nidstr_r:
//
//	10.77.0.11@o2ib
//	fe80::a00:27ff:fe4e:66a1@tcp
//	4711@gni
func ParseNID(s string) (NID, error) {
	addr, net, ok := strings.Cut(s, "@")
	if !ok {
		return NID{}, fmt.Errorf("parse NID %.80q: no @ and net in it", s)
	}
	n, err := ParseNet(net)
	if err != nil {
		return NID{}, fmt.Errorf("parse NID %.80q: %w", s, err)
	}
	canonical, ok := parseAddr(addr, n.Type)
	if !ok {
		return NID{}, fmt.Errorf("parse NID %.80q: not one address of net type %s", s, n.Type)
	}
	return NID{canonical, n}, nil
}

// parseAddr gives the one way to write an address on a type of net.
func parseAddr(s, netType string) (string, bool) {
	switch netType {
	case "lo":
		return s, s == "0"
	case "gni", "ptlf", "kfi":
		return parseNumber(s)
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return a.String(), a.Zone() == ""
	}
	return strings.ToLower(s), isHostName(s)
}

// parseNumber takes 4711 and 0x1267; the kernel prints the former.
func parseNumber(s string) (string, bool) {
	base := 10
	if h, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		s, base = h, 16
	}
	n, err := strconv.ParseUint(s, base, 32)
	return strconv.FormatUint(n, 10), err == nil
}

// isHostName wants a letter, so that 10.0.0.300 and 10.0.0.1-3 are none.
func isHostName(s string) bool {
	letter := false
	for i := range len(s) {
		switch c := s[i] | 0x20; {
		case c >= 'a' && c <= 'z':
			letter = true
		case s[i] >= '0' && s[i] <= '9':
		case (s[i] == '-' || s[i] == '.' || s[i] == '_') && i > 0:
		default:
			return false
		}
	}
	return letter && len(s) <= 255
}

// String is the NID as Lustre prints it; "" for the zero NID.
func (n NID) String() string {
	if n == (NID{}) {
		return ""
	}
	return n.Addr + "@" + n.Net.String()
}

// IsLoopback tells 0@lo, by which a node speaks to itself.
func (n NID) IsLoopback() bool { return n.Net.Type == "lo" }

// MarshalText makes a NID a string in JSON, also as a key.
func (n NID) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText takes what MarshalText gives.
func (n *NID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*n = NID{}
		return nil
	}
	var err error
	*n, err = ParseNID(string(b))
	return err
}

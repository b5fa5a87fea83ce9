package ib

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"ioguard/view"
)

// netDevs finds the network devices of a port: those of its GIDs (RoCE), else
// the one below a software device (rxe, siw), else those of the same adapter
// that carry the port's number (IPoIB, and RoCE before it has any GID).
func (r *reader) netDevs(dir string, number uint, problems *problems) []NetDev {
	device := path.Dir(path.Dir(dir))
	names := r.gidNetDevs(path.Join(dir, "gid_attrs/ndevs"), problems)
	if len(names) == 0 {
		if parent, err := r.text(path.Join(device, "parent")); err == nil {
			names = append(names, parent)
		}
	}
	if len(names) == 0 {
		names = r.adapterNetDevs(device, number, problems)
	}
	var found []NetDev
	seen := map[string]bool{}
	for _, name := range names {
		// The name is part of a path.
		if !seen[name] && fs.ValidPath(name) && path.Base(name) == name && name != "." {
			found = append(found, r.netDev(name))
		}
		seen[name] = true
	}
	return found
}

// gidNetDevs lists the network devices of the port's GIDs. A GID that is not set
// answers EINVAL, as do all of an InfiniBand port.
func (r *reader) gidNetDevs(dir string, problems *problems) []string {
	entries, err := fs.ReadDir(r.FS, dir)
	if !absent(err) {
		problems.add(err)
	}
	var names []string
	for _, e := range entries {
		name, err := r.text(path.Join(dir, e.Name()))
		switch {
		case err == nil:
			names = append(names, name)
		case !absent(err):
			problems.add(err)
		}
	}
	return names
}

// adapterNetDevs lists the network devices of the PCI function that have the
// port's number: in dev_port, of older drivers in dev_id. Both count from 0.
func (r *reader) adapterNetDevs(device string, number uint, problems *problems) []string {
	dir := path.Join(device, "device/net")
	entries, err := fs.ReadDir(r.FS, dir)
	if !absent(err) {
		problems.add(err)
	}
	var names []string
	for _, e := range entries {
		id, errID := r.number(path.Join(dir, e.Name(), "dev_id"))
		port, errPort := r.number(path.Join(dir, e.Name(), "dev_port"))
		if (errID == nil || errPort == nil) && max(id, port)+1 == uint64(number) {
			names = append(names, e.Name())
		}
	}
	return names
}

// number reads a number of up to 32 bits, decimal or, as dev_id and flags are, "0x1".
func (r *reader) number(name string) (uint64, error) {
	text, err := r.text(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(text, 0, 32)
}

const iffUp = 1 // IFF_UP of netdevice(7)

// netDev reads the state of a network device. One that is switched off has an
// unreadable carrier; what keeps no operstate says "unknown" there.
func (r *reader) netDev(name string) NetDev {
	dir := path.Join("sys/class/net", name)
	n := NetDev{Name: name}
	carrier, errCarrier := r.text(dir + "/carrier")
	state, _ := r.text(dir + "/operstate")
	switch {
	case carrier == "1" || carrier == "0":
		n.Up = new(carrier == "1")
	case state == "up":
		n.Up = new(true)
	case state == "down" || state == "lowerlayerdown" || state == "notpresent":
		n.Up = new(false)
	}
	flags, err := r.number(dir + "/flags")
	switch {
	case err == nil:
		n.AdminUp = new(flags&iffUp != 0)
	case errCarrier == nil:
		n.AdminUp = new(true)
	case !errors.Is(errCarrier, fs.ErrNotExist) && absent(errCarrier):
		n.AdminUp = new(false)
	}
	return n
}

// NetDevMap lists which network device is on which port, as ibdev2netdev does:
// "mlx5_0 port 1 ==> ib0 (Up)". A port without any has no line.
func NetDevMap(devices []Device) []string {
	var lines []string
	for _, d := range devices {
		for _, p := range d.Ports {
			for _, n := range p.NetDevs {
				lines = append(lines, fmt.Sprintf("%s port %d ==> %s (%s)",
					view.Safe(d.Name), p.Number, view.Safe(n.Name), upWord(n.Up)))
			}
		}
	}
	return lines
}

// upWord is ibdev2netdev's word.
func upWord(up *bool) string {
	switch {
	case up == nil:
		return "NA"
	case *up:
		return "Up"
	}
	return "Down"
}

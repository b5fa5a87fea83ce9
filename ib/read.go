package ib

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/prometheus/procfs/sysfs"

	"ioguard/host"
)

const class = "sys/class/infiniband"

// Read reads all devices of a machine, in order of their name. A machine without
// any gives none and no error. What of a device or port could not be read stands
// in its Err and hides no other.
func Read(h *host.Host) ([]Device, error) {
	entries, err := fs.ReadDir(h.FS, class)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read InfiniBand devices: %w", err)
	}
	r, done := newReader(h)
	defer done()
	var devices []Device
	for _, e := range entries {
		if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
			devices = append(devices, r.device(e.Name()))
		}
	}
	return devices, nil
}

// reader reads through procfs, and what that refuses through FS.
type reader struct {
	*host.Host
	root string // of sysfs's machine
	lib  sysfs.FS
	err  error // why there is no lib
}

func newReader(h *host.Host) (*reader, func()) {
	r := &reader{Host: h}
	var done func()
	r.root, done, r.err = h.Dir(class)
	if r.err == nil {
		r.lib, r.err = newLib(r.root)
	}
	return r, done
}

func newLib(root string) (sysfs.FS, error) { return sysfs.NewFS(path.Join(root, "sys")) }

// libError is an error of procfs without the temporary folder in which a
// recorded machine was copied.
type libError struct {
	err  error
	root string
}

func (e *libError) Error() string {
	if e.root == "/" {
		return e.err.Error()
	}
	return strings.ReplaceAll(e.err.Error(), e.root, "")
}

func (e *libError) Unwrap() error { return e.err }

func (r *reader) device(name string) Device {
	d := Device{Name: name}
	dir := path.Join(class, name)
	parsed, err := (*sysfs.InfiniBandDevice)(nil), r.err
	if err == nil {
		parsed, err = r.lib.InfiniBandDevice(name)
	}
	var numbers []uint
	var problems problems
	if err == nil {
		for n := range parsed.Ports {
			numbers = append(numbers, n)
		}
	} else {
		problems.add(fmt.Errorf("read device %s: %w", name, &libError{err, r.root}))
		parsed, numbers = r.attributes(dir, &problems)
	}
	d.Firmware, d.Board, d.HCA, d.GUID = parsed.FirmwareVersion, parsed.BoardID, parsed.HCAType, parsed.NodeGUID
	if strings.Trim(d.GUID, "0:") == "" {
		d.GUID = ""
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		p, whole := parsed.Ports[n]
		d.Ports = append(d.Ports, r.port(&d, n, &p, whole))
	}
	d.Err = problems.join()
	return d
}

// attributes reads what procfs refused: the device's own files, and the numbers of its ports.
func (r *reader) attributes(dir string, problems *problems) (*sysfs.InfiniBandDevice, []uint) {
	d := &sysfs.InfiniBandDevice{}
	for _, f := range []struct {
		name string
		to   *string
	}{{"fw_ver", &d.FirmwareVersion}, {"board_id", &d.BoardID}, {"hca_type", &d.HCAType}, {"node_guid", &d.NodeGUID}} {
		text, err := r.text(path.Join(dir, f.name))
		*f.to = text
		if !absent(err) {
			problems.add(err)
		}
	}
	entries, err := fs.ReadDir(r.FS, path.Join(dir, "ports"))
	problems.add(err)
	var numbers []uint
	for _, e := range entries {
		n, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil {
			problems.add(fmt.Errorf("parse port %.40q: not a number", e.Name()))
			continue
		}
		numbers = append(numbers, uint(n))
	}
	return d, slices.Compact(slices.Sorted(slices.Values(numbers)))
}

// port completes what procfs has of a port. Where it has nothing (not whole), parsed is empty.
func (r *reader) port(d *Device, number uint, parsed *sysfs.InfiniBandPort, whole bool) Port {
	dir := path.Join(class, d.Name, "ports", strconv.FormatUint(uint64(number), 10))
	p := Port{Device: d.Name, Number: number}
	var problems problems
	if whole {
		p.State, p.PhysState, p.LinkLayer = known(parsed.State), known(parsed.PhysState), known(parsed.LinkLayer)
	} else {
		p.State = r.state(dir+"/state", &problems)
		p.PhysState = r.state(dir+"/phys_state", &problems)
		text, err := r.text(dir + "/link_layer")
		problems.add(err)
		p.LinkLayer = known(text)
	}
	rate := r.rate(dir+"/rate", &problems)
	p.RateGbps, p.Width, p.Speed = rate.Gbps, rate.Width, rate.Speed
	p.Fabric = r.fabric(d, p.LinkLayer)
	p.NetDevs = r.netDevs(dir, number, &problems)
	p.Counters = r.counters(dir, parsed, &problems)
	p.Err = problems.join()
	return p
}

func (r *reader) state(name string, problems *problems) string {
	b, err := r.ReadFile(name)
	if err != nil {
		problems.add(err)
		return ""
	}
	word, err := ParseState(b)
	problems.addIn(name, err)
	return word
}

// rate is not known of a port without a width: the kernel answers EINVAL.
func (r *reader) rate(name string, problems *problems) Rate {
	b, err := r.ReadFile(name)
	if err != nil {
		if !errors.Is(err, syscall.EINVAL) {
			problems.add(err)
		}
		return Rate{}
	}
	rate, err := ParseRate(b)
	problems.addIn(name, err)
	return rate
}

// fabric tells Omni-Path by the driver's name, the name that udev gives, or the
// board, and iWARP by the node type ("4: RNIC").
func (r *reader) fabric(d *Device, linkLayer string) Fabric {
	switch linkLayer {
	case "InfiniBand":
		for _, prefix := range []string{"hfi", "opa"} {
			if strings.HasPrefix(d.Name, prefix) {
				return OmniPath
			}
		}
		if strings.Contains(d.Board, "Omni-Path") {
			return OmniPath
		}
		return InfiniBand
	case "Ethernet":
		if nodeType, _ := r.text(path.Join(class, d.Name, "node_type")); strings.HasSuffix(nodeType, "RNIC") {
			return IWARP
		}
		return RoCE
	}
	return UnknownFabric
}

// counters takes the table's counters from procfs, and reads those that it does
// not know or left out: it skips some errors in silence.
func (r *reader) counters(dir string, parsed *sysfs.InfiniBandPort, problems *problems) []Counter {
	there := map[string]bool{}
	for _, group := range []string{"counters", "hw_counters"} {
		entries, err := fs.ReadDir(r.FS, path.Join(dir, group))
		if !absent(err) {
			problems.add(err)
		}
		for _, e := range entries {
			there[group+"/"+e.Name()] = true
		}
	}
	var found []Counter
	for _, row := range table {
		var v *uint64
		if row.parsed != nil {
			v = row.parsed(parsed)
		}
		if v == nil && there[row.Path] {
			v = r.counter(path.Join(dir, row.Path), problems)
		}
		if v != nil {
			found = append(found, Counter{row.Path, *v})
		}
	}
	return found
}

func (r *reader) counter(name string, problems *problems) *uint64 {
	b, err := r.ReadFile(name)
	if err != nil {
		if !absent(err) {
			problems.add(err)
		}
		return nil
	}
	v, err := ParseCounter(b)
	problems.addIn(name, err)
	return v
}

// text reads a file of one line.
func (r *reader) text(name string) (string, error) {
	b, err := r.ReadFile(name)
	return strings.TrimSpace(string(b)), err
}

// absent tells the errors by which the kernel says that a port or driver does
// not have a thing.
func absent(err error) bool {
	for _, e := range []error{fs.ErrNotExist, syscall.EINVAL, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.ENODATA} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// problems gathers what could not be read, and goes on.
type problems []error

func (p *problems) add(err error) {
	if err != nil {
		*p = append(*p, err)
	}
}

func (p *problems) addIn(name string, err error) {
	if err != nil {
		p.add(fmt.Errorf("%s: %w", name, err))
	}
}

func (p problems) join() error { return errors.Join(p...) }

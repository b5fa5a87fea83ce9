package ib

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"ioguard"
	"ioguard/series"
)

// Memory is what is kept between two readings, as JSON in a file. The zero value
// remembers nothing. A device that is gone stays in it until the caller deletes
// it or drops the file.
type Memory struct {
	Devices map[string]DeviceMemory `json:"devices,omitempty"`
}

// DeviceMemory is what is remembered of a device.
type DeviceMemory struct {
	GUID     string              `json:"guid,omitempty"`
	LastSeen time.Time           `json:"last_seen"`
	Ports    map[uint]PortMemory `json:"ports,omitempty"`
}

// PortMemory is what is remembered of a port.
type PortMemory struct {
	State        string            `json:"state,omitempty"` // the last that was known
	PhysState    string            `json:"phys_state,omitempty"`
	Since        time.Time         `json:"since"`                    // the first reading of State and PhysState as they are
	LastUp       time.Time         `json:"last_up,omitzero"`         // zero: never seen up, so perhaps unused
	LastSeen     time.Time         `json:"last_seen"`                // the last reading that had the port at all
	BestRateGbps *float64          `json:"best_rate_gbps,omitempty"` // of all readings at which it was up
	BestWidth    string            `json:"best_width,omitempty"`
	BestSpeed    string            `json:"best_speed,omitempty"`
	Counters     map[string]uint64 `json:"counters,omitempty"` // by Counter.Path
}

// Port gives what is remembered of a port.
func (m Memory) Port(device string, number uint) (PortMemory, bool) {
	p, ok := m.Devices[device].Ports[number]
	return p, ok
}

// Slower reports whether the port is up at less than its own best: a link that
// trained down (4X EDR to 1X).
func (m PortMemory) Slower(p *Port) bool {
	return p.Up() && p.RateGbps != nil && m.BestRateGbps != nil && *p.RateGbps < *m.BestRateGbps
}

// Remember adds a reading to what was known; prev stays as it is. What this
// reading could not tell keeps its earlier value.
func Remember(prev Memory, now time.Time, devices []Device) Memory {
	m := Memory{Devices: maps.Clone(prev.Devices)}
	if m.Devices == nil && len(devices) > 0 {
		m.Devices = map[string]DeviceMemory{}
	}
	for i := range devices {
		d := &devices[i]
		m.Devices[d.Name] = prev.same(d).remember(d, now)
	}
	return m
}

// same is what is remembered of a device, nothing where another adapter has
// taken its name.
func (m Memory) same(d *Device) DeviceMemory {
	old := m.Devices[d.Name]
	if old.GUID != "" && d.GUID != "" && old.GUID != d.GUID {
		return DeviceMemory{}
	}
	return old
}

func (m DeviceMemory) remember(d *Device, now time.Time) DeviceMemory {
	m.LastSeen = now
	if d.GUID != "" {
		m.GUID = d.GUID
	}
	m.Ports = maps.Clone(m.Ports)
	if m.Ports == nil && len(d.Ports) > 0 {
		m.Ports = map[uint]PortMemory{}
	}
	for i := range d.Ports {
		p := &d.Ports[i]
		m.Ports[p.Number] = m.Ports[p.Number].remember(p, now)
	}
	return m
}

func (m PortMemory) remember(p *Port, now time.Time) PortMemory {
	state, phys := p.State, p.PhysState
	if state == "" {
		state = m.State
	}
	if phys == "" {
		phys = m.PhysState
	}
	if state != m.State || phys != m.PhysState || m.Since.IsZero() || m.Since.After(now) {
		m.State, m.PhysState, m.Since = state, phys, now
	}
	m.LastSeen = now
	if p.Up() {
		m.LastUp = now
		m.rate(p)
	}
	if len(p.Counters) > 0 {
		m.Counters = maps.Clone(m.Counters)
		if m.Counters == nil {
			m.Counters = map[string]uint64{}
		}
		for _, c := range p.Counters {
			m.Counters[c.Path] = c.Value
		}
	}
	return m
}

// rate takes the rate of a port that is up.
func (m *PortMemory) rate(p *Port) {
	if p.RateGbps == nil || m.BestRateGbps != nil && *m.BestRateGbps >= *p.RateGbps {
		return
	}
	m.BestRateGbps, m.BestWidth, m.BestSpeed = new(*p.RateGbps), p.Width, p.Speed
}

// Gone lists what was there before and is not now: devices as "mlx5_1", ports of
// devices that still are as "mlx5_0/2". A device whose ports could not be listed
// has lost none.
func Gone(prev Memory, cur []Device) []string {
	now := map[string]*Device{}
	for i := range cur {
		now[cur[i].Name] = &cur[i]
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(prev.Devices)) {
		d, ok := now[name]
		if !ok {
			gone = append(gone, name)
			continue
		}
		if d.Err != nil && len(d.Ports) == 0 {
			continue
		}
		for _, number := range slices.Sorted(maps.Keys(prev.same(d).Ports)) {
			if !slices.ContainsFunc(d.Ports, func(p Port) bool { return p.Number == number }) {
				gone = append(gone, fmt.Sprintf("%s/%d", name, number))
			}
		}
	}
	return gone
}

// Rise is a counter that is not what it was, or that can count no further.
type Rise struct {
	Device string
	Port   uint
	Metric Metric
	Prev   uint64
	Cur    uint64
	// By is the increase; nil where it is not known, since the counter was Reset,
	// or was Stuck before already. Of one that is Stuck now it is the least.
	By    *uint64
	Reset bool // it has fallen: cleared by perfquery -R, or the driver was loaded anew
	Stuck bool // it is at its maximum and stays there until it is cleared
}

// Diff lists the counters that rose, were reset or are stuck since prev, in the
// order of devices, ports and the table. A counter that either side does not
// have, or that belongs to another adapter of the same name, is not compared.
func Diff(prev Memory, cur []Device) []Rise {
	var rises []Rise
	for i := range cur {
		old := prev.same(&cur[i])
		for j := range cur[i].Ports {
			p := &cur[i].Ports[j]
			rises = append(rises, p.rises(old.Ports[p.Number].Counters)...)
		}
	}
	return rises
}

func (p *Port) rises(before map[string]uint64) []Rise {
	var rises []Rise
	for _, c := range p.Counters {
		old, ok := before[c.Path]
		m, known := MetricOf(c.Path)
		if !ok || !known {
			continue
		}
		r := Rise{Device: p.Device, Port: p.Number, Metric: m, Prev: old, Cur: c.Value}
		if r.compare() {
			rises = append(rises, r)
		}
	}
	return rises
}

// compare fills in what became of the counter, and reports whether anything did.
// One that sticks never wraps, so a fall is a reset whatever its width.
func (r *Rise) compare() bool {
	bits := uint(r.Metric.Bits)
	if r.Metric.Max() > 0 {
		bits = 64
		r.Stuck = r.Cur == r.Metric.Max()
	}
	by, kind := series.Diff(r.Prev, r.Cur, bits)
	switch {
	case kind == ioguard.DeltaReset:
		r.Reset = true
	case by > 0:
		r.By = &by
	}
	return r.Reset || r.Stuck || r.By != nil
}

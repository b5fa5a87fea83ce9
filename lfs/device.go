package lfs

import (
	"context"
	"errors"
	"fmt"
	"math"

	"ioguard/host"
)

// Device is one line of `lctl dl`: a device of this node's Lustre. Its status
// says nothing about the connection to a server: see Import.
type Device struct {
	Index  int
	Status string // "UP", "IN" (deactivated), "AT" (attached, not set up), "ST" (stopping), "--"
	Type   string // "osc", "mdc", "mgc", "lov", ...; on a server "obdfilter", "mdt", ...
	Name   string // "lustre-OST0002-osc-ffff8880086b6800"
	UUID   string
	Refs   int // the devices file counts its own reader
}

// ReadDevices reads the devices of this node: from the devices file, which takes
// root and no process, else from `lctl dl`. Of a recorded machine the answer of
// lctl counts first: its files may be of another time. Lines that are not
// understood come as an error beside the others.
func ReadDevices(ctx context.Context, h *host.Host) ([]Device, error) {
	file := func() ([]byte, string, error) {
		text, err := readParam(h.FS, "devices")
		return []byte(text), "devices", err
	}
	lctl := func() ([]byte, string, error) {
		answer, err := h.Command(ctx, "lctl", "dl")
		return answer.Stdout, "lctl dl", err
	}
	sources := []func() ([]byte, string, error){file, lctl}
	if !h.Time.IsZero() {
		sources[0], sources[1] = lctl, file
	}
	var errs []error
	for _, source := range sources {
		text, name, err := source()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		devices, odd := ParseDevices(text)
		return devices, odd.Err(name)
	}
	return nil, fmt.Errorf("read devices: %w", errors.Join(errs...))
}

// ParseDevices parses the devices file and what `lctl dl` and `lctl dl -t` print.
//
// FILE: lustre/obdclass/linux/linux-module.c, obd_device_list_seq_show; the
// NIDs behind the references are lctl's:
//
//	0 UP mgc MGC10.77.0.1@o2ib 44cb5e1e-9b7a-48ce-a07f-6dc48c70a9e6 5
//	7 IN osc lustre-OST0002-osc-ffff8880086b6800 e0ccf427-7220-40df-9533-dc99439cefc0 5
//	8 UP osc lustre-OST0003-osc-ffff8880086b6800 e0ccf427-7220-40df-9533-dc99439cefc0 5 10.77.0.1@o2ib
func ParseDevices(text []byte) ([]Device, Unparsed) {
	var devices []Device
	var odd Unparsed
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := textLine(text)
		text = rest
		if line = textTrim(line); len(line) == 0 {
			continue
		}
		if d, why := deviceOf(line); why != "" {
			odd.add(n, line, why)
		} else {
			devices = append(devices, d)
		}
	}
	return devices, odd
}

func deviceOf(line []byte) (d Device, why string) {
	index, line := textWord(line)
	for _, s := range []*string{&d.Status, &d.Type, &d.Name, &d.UUID} {
		var word []byte
		word, line = textWord(line)
		*s = string(word)
	}
	refs, _ := textWord(line)
	if len(refs) == 0 {
		return d, "not a device"
	}
	if d.Index, why = deviceNumber(index); why != "" {
		return d, why
	}
	d.Refs, why = deviceNumber(refs)
	return d, why
}

func deviceNumber(b []byte) (int, string) {
	n, why := textInt(b)
	if why == "" && (n < math.MinInt32 || n > math.MaxInt32) {
		return 0, "number out of range"
	}
	return int(n), why
}

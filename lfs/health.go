package lfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Health is what health_check tells. It looks at the devices of this node only:
// with a cable out or a target unmounted it still says healthy.
type Health struct {
	Healthy  *bool    // nil where the file gives no verdict
	LBUG     bool     // an assertion failed in this kernel: it needs a restart
	Devices  []string // that reported themselves unhealthy, where the file names them
	Unparsed Unparsed
}

// ReadHealth reads health_check. The verdict in sysfs (2.10 and later) does
// not name the devices; they are added from debugfs where it may be read.
func ReadHealth(fsys fs.FS) (*Health, error) {
	text, err := readParam(fsys, "health_check")
	if err != nil {
		return nil, fmt.Errorf("read health: %w", err)
	}
	h := ParseHealth([]byte(text))
	if h.Healthy == nil || *h.Healthy || len(h.Devices) > 0 {
		return h, nil
	}
	if text, err := readParam(fsys, "health_devices"); err == nil {
		h.Devices = ParseHealth([]byte(text)).Devices
	}
	return h, nil
}

// ParseHealth parses health_check. It never fails: see Unparsed.
//
// FILE: lustre/obdclass/linux/linux-module.c, health_check_show; in 2.5
// lustre/obdclass/linux/linux-module.c, obd_proc_read_health:
//
//	device lustre-OST0002 reported unhealthy
//	LBUG
//	NOT HEALTHY
func ParseHealth(text []byte) *Health {
	h := &Health{}
	verdict := func(v bool) { h.Healthy = &v }
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := textLine(text)
		text = rest
		line = textTrim(line)
		switch {
		case len(line) == 0:
		case string(line) == "healthy":
			verdict(true)
		case string(line) == "NOT HEALTHY":
			verdict(false)
		case string(line) == "LBUG":
			h.LBUG = true
			verdict(false)
		case bytes.HasPrefix(line, healthDevice) && bytes.HasSuffix(line, healthUnhealthy) && len(line) > len(healthDevice)+len(healthUnhealthy):
			h.Devices = append(h.Devices, string(line[len(healthDevice):len(line)-len(healthUnhealthy)]))
			verdict(false)
		default:
			h.Unparsed.add(n, line, "no verdict")
		}
	}
	return h
}

var (
	healthDevice    = []byte("device ")
	healthUnhealthy = []byte(" reported unhealthy")
)

// readParam reads the file of a parameter that a machine has once.
func readParam(fsys fs.FS, name string) (string, error) {
	found, err := Find(fsys, name)
	if err != nil {
		return "", err
	}
	if found[0].Err != nil {
		return "", found[0].Err
	}
	return readText(fsys, found[0].Path)
}

// Version is a Lustre release. It does not tell the form of any file: vendors
// port forms back.
type Version struct {
	Text                     string // as printed: "2.15.4_1.site"
	Major, Minor, Patch, Fix int
	Build                    string // 2.9 and before, "" where not printed
}

// AtLeast reports whether the release is that one or later.
func (v Version) AtLeast(major, minor, patch int) bool {
	if v.Major != major {
		return v.Major > major
	}
	if v.Minor != minor {
		return v.Minor > minor
	}
	return v.Patch >= patch
}

// ReadVersion reads the release of this machine's Lustre.
func ReadVersion(fsys fs.FS) (Version, error) {
	text, err := readParam(fsys, "version")
	if err != nil {
		return Version{}, fmt.Errorf("read version: %w", err)
	}
	return ParseVersion([]byte(text))
}

// ParseVersion parses the version file: one line from 2.10 on, three before.
//
// FILE: lustre/obdclass/linux/linux-module.c, version_show; before
// obd_proc_read_version:
//
//	2.17.0
//	lustre: 2.5.3
//	build:  2.5.3-RC1--PRISTINE-2.6.32-431.23.3.el6_lustre.x86_64
func ParseVersion(text []byte) (Version, error) {
	var v Version
	for n := 1; len(text) > 0; n++ {
		line, rest, _ := textLine(text)
		text = rest
		line = textTrim(line)
		key, value, keyed := bytes.Cut(line, []byte(":"))
		switch {
		case keyed && string(key) == "lustre":
			v.Text = string(textStrip(value))
		case keyed && string(key) == "build":
			v.Build = string(textStrip(value))
		case !keyed && len(line) > 0 && v.Text == "":
			v.Text = string(line)
		}
	}
	if err := v.numbers(); err != nil {
		return v, fmt.Errorf("parse version: %w: %.60q", err, v.Text)
	}
	return v, nil
}

// numbers takes the numbers in front: at least major and minor.
func (v *Version) numbers() error {
	rest := v.Text
	for i, p := range []*int{&v.Major, &v.Minor, &v.Patch, &v.Fix} {
		end := 0
		for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(rest[:end])
		if err != nil && i < 2 {
			return errors.New("not a release number")
		}
		if err != nil {
			return nil
		}
		*p = n
		var dot bool
		if rest, dot = strings.CutPrefix(rest[end:], "."); !dot {
			if i == 0 {
				return errors.New("not a release number")
			}
			return nil
		}
	}
	return nil
}

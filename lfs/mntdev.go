package lfs

import (
	"fmt"
	"io/fs"
	"strings"
)

// MntDev is what a target lies on.
type MntDev struct {
	Text    string // as printed
	Device  string // ldiskfs: "/dev/mapper/ost0"; "" with zfs
	Dataset string // zfs: "ost0/ost0"; "" with ldiskfs
}

// ZPool is the zfs pool of the dataset, "" with ldiskfs.
func (d MntDev) ZPool() string {
	pool, _, _ := strings.Cut(d.Dataset, "/")
	return pool
}

// ReadMntDev reads the device under a target. fs.ErrNotExist: the system does not tell.
func ReadMntDev(fsys fs.FS, t TargetInfo) (MntDev, error) {
	if t.MntDev == "" {
		return MntDev{}, fmt.Errorf("read mntdev of %s: %w", t.Name, fs.ErrNotExist)
	}
	text, err := readText(fsys, t.MntDev)
	if err != nil {
		return MntDev{}, fmt.Errorf("read mntdev of %s: %w", t.Name, err)
	}
	d := ParseMntDev([]byte(text))
	if d.Text == "" {
		return d, fmt.Errorf("read mntdev of %s: %w", t.Name, fs.ErrNotExist)
	}
	return d, nil
}

// ParseMntDev tells devices and datasets apart: the former begin with a slash.
//
// FILE: lustre/osd-ldiskfs/osd_lproc.c and lustre/osd-zfs/osd_lproc.c, mntdev_show:
//
//	/dev/mapper/ost0
//	ost0/ost0
func ParseMntDev(text []byte) MntDev {
	d := MntDev{Text: string(textTrim(text))}
	if strings.HasPrefix(d.Text, "/") {
		d.Device = d.Text
	} else {
		d.Dataset = d.Text
	}
	return d
}

// ReadNonRotational tells whether a target's device does not rotate, as Lustre
// was told or found out. fs.ErrNotExist: the system does not tell.
func ReadNonRotational(fsys fs.FS, t TargetInfo) (bool, error) {
	if t.NonRotational == "" {
		return false, fmt.Errorf("read nonrotational of %s: %w", t.Name, fs.ErrNotExist)
	}
	n, err := readNumber(fsys, t.NonRotational)
	if err != nil {
		return false, fmt.Errorf("read nonrotational of %s: %w", t.Name, err)
	}
	return n != 0, nil
}

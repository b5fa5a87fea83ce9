package lfs

import (
	"errors"
	"fmt"
	"io/fs"

	"ioguard"
)

// ReadCapacity reads the space of a target. A target without the files gives
// fs.ErrNotExist; one number missing makes the whole unknown.
//
// FILE: lustre/obdclass/lprocfs_status.c, kbytestotal_show, kbytesfree_show,
// kbytesavail_show, filestotal_show, filesfree_show:
//
//	5542912
//	5514240
//	5512192
func ReadCapacity(fsys fs.FS, t TargetInfo) (ioguard.Capacity, error) {
	var c ioguard.Capacity
	for _, f := range []struct {
		name, path string
		unit       uint64
		value      *uint64
	}{
		{"kbytestotal", t.KBytesTotal, 1024, &c.TotalBytes},
		{"kbytesfree", t.KBytesFree, 1024, &c.FreeBytes},
		{"kbytesavail", t.KBytesAvail, 1024, &c.AvailableBytes},
		{"filestotal", t.FilesTotal, 1, &c.TotalInodes},
		{"filesfree", t.FilesFree, 1, &c.FreeInodes},
	} {
		n, err := readSpace(fsys, f.path, f.unit)
		if err != nil {
			return ioguard.Capacity{}, fmt.Errorf("read %s of %s: %w", f.name, t.Name, err)
		}
		*f.value = n
	}
	return c, nil
}

func readSpace(fsys fs.FS, path string, unit uint64) (uint64, error) {
	if path == "" {
		return 0, fs.ErrNotExist
	}
	n, err := readNumber(fsys, path)
	if err == nil && n*unit/unit != n {
		err = errors.New(whyOverflow)
	}
	if err != nil {
		return 0, err
	}
	return n * unit, nil
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

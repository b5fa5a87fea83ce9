package proc

import (
	"io/fs"
	"path"
	"strings"

	"github.com/prometheus/procfs/blockdevice"
)

// wholeDisks keeps disks, device-mapper, md and zvol devices of a diskstats
// file and leaves out partitions, which would count their disk's work twice,
// and loops, RAM disks and removable media, which carry no target.
//
// A device with a folder in /sys/block is whole. Where sysfs is missing, as in
// a recording, its name decides: on a cloud machine "xvda1" may be whole, so a
// name is a partition only when its disk stands in the same file.
func wholeDisks(fsys fs.FS, all []blockdevice.Diskstats) []blockdevice.Diskstats {
	names := make(map[string]bool, len(all))
	for i := range all {
		names[all[i].DeviceName] = true
	}
	whole := sysBlock(fsys)
	var disks []blockdevice.Diskstats
	for _, d := range all {
		name := d.DeviceName
		if isPseudo(name) || (!whole[name] && names[partitionOf(name)]) {
			continue
		}
		disks = append(disks, d)
	}
	return disks
}

// sysBlock gives the kernel names of the folders in /sys/block; it is empty
// where sysfs is not to be seen. Sysfs writes '!' for the '/' of "cciss/c0d0".
func sysBlock(fsys fs.FS) map[string]bool {
	entries, _ := fs.ReadDir(fsys, "sys/block")
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[strings.ReplaceAll(e.Name(), "!", "/")] = true
	}
	return names
}

// sysBlockPath is a file of a device in sysfs.
func sysBlockPath(device, file string) string {
	return path.Join("sys/block", strings.ReplaceAll(device, "/", "!"), file)
}

// isPseudo tells loops, RAM disks, floppies and optical drives by their names.
func isPseudo(name string) bool {
	for _, prefix := range []string{"loop", "ram", "zram", "sr", "fd"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "" && trimDigits(rest) == "" {
			return true
		}
	}
	return false
}

// partitionOf gives the disk that a device would be a partition of by its name,
// as the kernel makes such names (bdev_name in block/genhd.c): "sda" of "sda1",
// and with a p between digits "nvme0n1" of "nvme0n1p2". A name without a
// partition number gives "".
func partitionOf(name string) string {
	base := trimDigits(name)
	if base == name || base == "" {
		return ""
	}
	if disk, ok := strings.CutSuffix(base, "p"); ok && trimDigits(disk) != disk {
		return disk
	}
	return base
}

func trimDigits(s string) string { return strings.TrimRight(s, "0123456789") }

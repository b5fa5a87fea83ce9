package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ioguard"
)

// TargetDevices says which block devices carry a Lustre target.
type TargetDevices struct {
	Target  string
	Source  string   // as Lustre names it: "/dev/mapper/ost0", "ost0/ost0"
	Devices []string // kernel names as in diskstats, sorted; none where unknown
	Spin    *bool    // a device of it rotates; nil where unknown
}

// Device is the one block device under the target, "" where it is unknown or
// where several carry it.
func (t *TargetDevices) Device() string {
	if len(t.Devices) == 1 {
		return t.Devices[0]
	}
	return ""
}

// Busiest is the device of the target with the highest Util in an interval. A
// pool is as slow as its slowest disk. It reports false where none is known.
func (t *TargetDevices) Busiest(devices []ioguard.DeviceDelta) (ioguard.DeviceDelta, bool) {
	var busiest ioguard.DeviceDelta
	found := false
	for i := range devices {
		if slices.Contains(t.Devices, devices[i].Device) && (!found || devices[i].Util > busiest.Util) {
			busiest, found = devices[i], true
		}
	}
	return busiest, found
}

// MapTargets finds the block devices of the targets that this server has
// mounted, sorted by target. It reads osd-*.*.mntdev and proc/mounts for what a
// target lies on, and sysfs and dev/disk for the kernel's name of it.
// zpoolStatus is the text of `zpool status -P`, nil where there is no ZFS.
// A target whose devices cannot be told has none; that is no error. The error
// says that proc/mounts could not be read and no mntdev was there either.
func MapTargets(fsys fs.FS, zpoolStatus []byte) ([]TargetDevices, error) {
	mounts, err := targetSources(fsys)
	if err != nil {
		return nil, fmt.Errorf("map targets to devices: %w", err)
	}
	pools := ParseZpoolStatus(zpoolStatus)
	f := newDeviceFinder(fsys)
	targets := make([]TargetDevices, 0, len(mounts))
	for _, m := range mounts {
		names := []string{m.Source}
		if !strings.HasPrefix(m.Source, "/") {
			pool, _, _ := strings.Cut(m.Source, "/")
			names = pools[pool]
		}
		t := TargetDevices{Target: m.Target, Source: m.Source, Devices: f.findAll(names)}
		t.Spin = spinOf(fsys, t.Devices)
		targets = append(targets, t)
	}
	slices.SortFunc(targets, func(a, b TargetDevices) int { return strings.Compare(a.Target, b.Target) })
	return targets, nil
}

// targetSources joins the targets of proc/mounts with those of osd-*.*.mntdev,
// where releases before 2.10, whose mounts name no target, still tell.
func targetSources(fsys fs.FS) ([]TargetMount, error) {
	var mounts []TargetMount
	b, err := fs.ReadFile(fsys, "proc/mounts")
	if err == nil {
		mounts = ParseTargetMounts(b)
	}
	known := make(map[string]bool, len(mounts))
	for _, m := range mounts {
		known[m.Target] = true
	}
	for _, root := range []string{"sys/fs/lustre", "proc/fs/lustre"} {
		files, _ := fs.Glob(fsys, root+"/osd-*/*/mntdev") // errs only on a bad pattern
		for _, file := range files {
			target := path.Base(path.Dir(file))
			source, e := fs.ReadFile(fsys, file)
			if e != nil || known[target] {
				continue
			}
			known[target] = true
			osd := path.Base(path.Dir(path.Dir(file)))
			mounts = append(mounts, TargetMount{Target: target, Source: strings.TrimSpace(string(source)), OSD: osd})
		}
	}
	if len(mounts) == 0 && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(mounts) == 0 && err != nil {
		return nil, fmt.Errorf("neither proc/mounts nor osd-*.*.mntdev: %w", err)
	}
	return mounts, nil
}

// deviceFinder turns names of devices as people and tools write them into the
// kernel's.
type deviceFinder struct {
	fsys    fs.FS
	whole   map[string]bool   // whole devices of this machine
	mapped  map[string]string // device-mapper name -> dm-N
	serials map[string]string // serial number -> device; "" where two share it
}

func newDeviceFinder(fsys fs.FS) *deviceFinder {
	f := &deviceFinder{fsys: fsys, whole: wholeNames(fsys), mapped: map[string]string{}, serials: map[string]string{}}
	for name := range f.whole {
		if dm := readLine(fsys, sysBlockPath(name, "dm/name")); dm != "" {
			f.mapped[dm] = name
		}
		for _, file := range []string{"serial", "device/serial"} { // virtio; NVMe
			serial := readLine(fsys, sysBlockPath(name, file))
			if serial == "" {
				continue
			}
			if _, taken := f.serials[serial]; taken {
				f.serials[serial] = ""
				continue
			}
			f.serials[serial] = name
		}
	}
	return f
}

// wholeNames lists the whole devices: those in /sys/block, or where a recording
// has no sysfs, those of proc/diskstats.
func wholeNames(fsys fs.FS) map[string]bool {
	names := sysBlock(fsys)
	if len(names) > 0 {
		return names
	}
	b, err := fs.ReadFile(fsys, "proc/diskstats")
	if err != nil {
		return names
	}
	all, _ := ParseDiskstats(b) // lines that are not understood name no device
	for _, d := range wholeDisks(fsys, all) {
		names[d.DeviceName] = true
	}
	return names
}

// findAll gives the devices of all names, or none when one of them is unknown:
// half a pool's disks would speak for the whole.
func (f *deviceFinder) findAll(names []string) []string {
	var devices []string
	for _, name := range names {
		d := f.find(name)
		if d == "" {
			return nil
		}
		devices = append(devices, d)
	}
	slices.Sort(devices)
	return slices.Compact(devices)
}

// find gives the whole disk, md, dm or zvol device of a path ("/dev/sda1",
// "/dev/mapper/ost0", "/dev/disk/by-id/...") or of a bare name as zpool prints
// it, "" where it is unknown.
func (f *deviceFinder) find(name string) string {
	rel, isPath := strings.CutPrefix(name, "/dev/")
	if !isPath && strings.HasPrefix(name, "/") {
		return "" // a file as vdev
	}
	if d := f.kernelName(rel); d != "" {
		return d
	}
	if dm, ok := strings.CutPrefix(rel, "mapper/"); ok {
		return f.mapped[dm]
	}
	if isPath {
		if d := f.followLink(path.Join("dev", rel)); d != "" {
			return d
		}
		if vg, lv, ok := strings.Cut(rel, "/"); ok && f.mapped[dmName(vg, lv)] != "" {
			return f.mapped[dmName(vg, lv)]
		}
		return f.bySerial(path.Base(rel))
	}
	if d := f.mapped[rel]; d != "" {
		return d
	}
	// zpool prints the last part of a path below one of these; whole disks
	// given to ZFS are used through their first partition, which it hides.
	dirs, _ := fs.Glob(f.fsys, "dev/disk/by-*")
	for _, dir := range dirs {
		for _, suffix := range []string{"", "-part1"} {
			if d := f.followLink(path.Join(dir, rel+suffix)); d != "" {
				return d
			}
		}
	}
	return f.bySerial(rel)
}

// kernelName gives the whole device of a kernel name, of a partition too.
func (f *deviceFinder) kernelName(name string) string {
	if f.whole[name] {
		return name
	}
	if disk := partitionOf(name); f.whole[disk] {
		return disk
	}
	return ""
}

// followLink gives the device that a udev link such as
// dev/disk/by-id/x -> ../../sdb1 points to, through links to links.
func (f *deviceFinder) followLink(link string) string {
	for range 8 {
		to, err := fs.ReadLink(f.fsys, link)
		if err != nil {
			return ""
		}
		if !strings.HasPrefix(to, "/") {
			to = path.Join("/", path.Dir(link), to)
		}
		link = strings.TrimPrefix(path.Clean(to), "/")
		if d := f.kernelName(strings.TrimPrefix(link, "dev/")); d != "" {
			return d
		}
	}
	return ""
}

// bySerial matches names that udev builds in dev/disk/by-id, which end in the
// serial number: "virtio-ost0", "nvme-MODEL_SERIAL-part1". It is the way where
// links cannot be read, as in a recorded machine.
func (f *deviceFinder) bySerial(name string) string {
	if i := strings.LastIndex(name, "-part"); i >= 0 && trimDigits(name[i+len("-part"):]) == "" {
		name = name[:i]
	}
	for i := len(name) - 1; i > 0; i-- {
		if name[i-1] != '-' && name[i-1] != '_' {
			continue
		}
		if d := f.serials[name[i:]]; d != "" {
			return d
		}
	}
	return ""
}

// dmName is the device-mapper name of a logical volume: dashes within the
// names are doubled.
func dmName(vg, lv string) string {
	return strings.ReplaceAll(vg, "-", "--") + "-" + strings.ReplaceAll(lv, "-", "--")
}

// spinOf tells whether one of the devices rotates. Virtio disks say that they
// do whatever lies under them (the queue's default), so their 1 is no answer.
func spinOf(fsys fs.FS, devices []string) *bool {
	spin := false
	for _, d := range devices {
		switch readLine(fsys, sysBlockPath(d, "queue/rotational")) {
		case "0":
		case "1":
			if isVirtio(d) {
				return nil
			}
			spin = true
		default:
			return nil
		}
	}
	if len(devices) == 0 {
		return nil
	}
	return &spin
}

func isVirtio(device string) bool { return strings.HasPrefix(device, "vd") }

// readLine gives a one-line file without its newline, "" where it cannot be read.
func readLine(fsys fs.FS, name string) string {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

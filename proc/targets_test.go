package proc

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"ioguard"

	"github.com/google/go-cmp/cmp"
)

func link(to string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
}

func read(t *testing.T, fsys fs.FS, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMapTargetsRecordedZFS(t *testing.T) {
	fsys := archive(t, "zfs-server.txtar")
	targets, err := MapTargets(fsys, read(t, fsys, "zpool_status"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range targets {
		if m.Spin != nil {
			t.Errorf("%s: spin is %v, a virtio disk cannot tell", m.Target, *m.Spin)
		}
		got = append(got, m.Target+" "+m.Source+" "+m.Device())
	}
	want := []string{
		"lustre-MDT0000 mdt0/mdt0 vdb", "lustre-MDT0001 mdt1/mdt1 vdc",
		"lustre-OST0000 ost0/ost0 vdd", "lustre-OST0001 ost1/ost1 vde", "lustre-OST0002 ost2/ost2 vdf",
		"lustre-OST0003 ost3/ost3 vdg", "lustre-OST0004 ost4/ost4 vdh", "lustre-OST0005 ost5/ost5 vdi",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// Without zpool's answer nothing is known, and nothing is guessed.
	targets, err = MapTargets(fsys, nil)
	if err != nil || len(targets) != 8 || targets[2].Device() != "" || targets[2].Devices != nil {
		t.Errorf("without zpool status: %+v, %v", targets, err)
	}
}

func TestMapTargets(t *testing.T) {
	const mounts = `proc /proc proc rw 0 0
10.0.0.1@o2ib:/lustre /mnt/lustre lustre rw,flock 0 0
/dev/sdb /mnt/ost0 lustre ro,svname=lustre-OST0000,mgsnode=10.0.0.1@o2ib,osd=osd-ldiskfs,errors=remount-ro 0 0
/dev/sdc1 /mnt/ost1 lustre_tgt ro,svname=lustre-OST0001,osd=osd-ldiskfs 0 0
/dev/mapper/mpatha /mnt/ost2 lustre ro,svname=lustre-OST0002,osd=osd-ldiskfs 0 0
/dev/vg-a/ost3 /mnt/ost3 lustre ro,svname=lustre-OST0003,osd=osd-ldiskfs 0 0
/dev/disk/by-id/wwn-0x5-part2 /mnt/ost4 lustre ro,svname=lustre-OST0004,osd=osd-ldiskfs 0 0
/dev/md/ost5 /mnt/ost5 lustre ro,svname=lustre-OST0005,osd=osd-ldiskfs 0 0
/dev/gone /mnt/ost6 lustre ro,svname=lustre-OST0006,osd=osd-ldiskfs 0 0
pool7/ost7 /mnt/ost7 lustre rw,svname=lustre-OST0007,osd=osd-zfs 0 0
pool8/ost8 /mnt/ost8 lustre rw,svname=lustre-OST0008,osd=osd-zfs 0 0
nopool/ost9 /mnt/ost9 lustre rw,svname=lustre-OST0009,osd=osd-zfs 0 0
/dev/nvme0n1p1 /mnt/my\040mgs lustre ro,svname=MGS,osd=osd-ldiskfs 0 0
`
	const zpool = `  pool: pool7
 state: DEGRADED
status: One or more devices has been taken offline by the administrator.
action: Online the device using 'zpool online'.
  scan: resilvered 1.2T in 05:11:41 with 0 errors on Sun Nov 15 06:11:41 2026
config:

	NAME                                  STATE     READ WRITE CKSUM
	pool7                                 DEGRADED     0     0     0
	  raidz2-0                            DEGRADED     0     0     0
	    /dev/disk/by-vdev/e0s1-part1      ONLINE       0     0     0
	    replacing-1                       DEGRADED     0     0     0
	      /dev/disk/by-vdev/e0s2-part1    OFFLINE      0     0     0  was here
	      /dev/disk/by-vdev/e0s3-part1    ONLINE       0     0     0  (resilvering)
	  mirror-1                            ONLINE       0     0     0
	    e0s4                              ONLINE       0     0     0
	special
	  mirror-2                            ONLINE       0     0     0
	    nvme0n1                           ONLINE       0     0     0
	logs
	  nvme1n1                             ONLINE       0     0     0
	spares
	  e0s9                                AVAIL

errors: No known data errors

  pool: pool8
 state: DEGRADED
config:

	NAME                   STATE     READ WRITE CKSUM
	pool8                  DEGRADED     0     0     0
	  sdb                  ONLINE       0     0     0
	  3141592653589793238  UNAVAIL      0     0     0  was /dev/sdq1
`
	fsys := fstest.MapFS{
		"proc/mounts": file(mounts),
		"sys/fs/lustre/osd-ldiskfs/lustre-OST0010/mntdev": file("/dev/sdc\n"),
		"sys/fs/lustre/osd-ldiskfs/lustre-OST0000/mntdev": file("/dev/elsewhere\n"),
		"dev/disk/by-id/wwn-0x5-part2":                    link("../../sdd2"),
		"dev/disk/by-vdev/e0s1-part1":                     link("../../sde1"),
		"dev/disk/by-vdev/e0s2-part1":                     link("../../sdf1"),
		"dev/disk/by-vdev/e0s3-part1":                     link("/dev/disk/by-path/p3"),
		"dev/disk/by-path/p3":                             link("../../sdg1"),
		"dev/disk/by-vdev/e0s4":                           link("../../dm-2"),
		"dev/disk/by-id/loop":                             link("loop"),
		"dev/md/ost5":                                     link("../md127"),
		"sys/block/dm-0/dm/name":                          file("mpatha\n"),
		"sys/block/dm-0/queue/rotational":                 file("1\n"),
		"sys/block/dm-1/dm/name":                          file("vg--a-ost3\n"),
		"sys/block/dm-1/queue/rotational":                 file("0\n"),
		"sys/block/dm-2/queue/rotational":                 file("0\n"),
		"sys/block/sdb/queue/rotational":                  file("0\n"),
		"sys/block/sdc/queue/rotational":                  file("1\n"),
		"sys/block/md127/queue/rotational":                file("oops\n"),
		"sys/block/nvme0n1/queue/rotational":              file("0\n"),
	}
	for _, sd := range []string{"sdd", "sde", "sdf", "sdg"} {
		fsys["sys/block/"+sd+"/queue/rotational"] = file("1\n")
	}
	targets, err := MapTargets(fsys, []byte(zpool))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range targets {
		spin := "?"
		if m.Spin != nil {
			spin = map[bool]string{true: "disk", false: "flash"}[*m.Spin]
		}
		got = append(got, strings.Join([]string{m.Target, m.Source, strings.Join(m.Devices, "+"), spin}, " "))
	}
	want := []string{
		"MGS /dev/nvme0n1p1 nvme0n1 flash",
		"lustre-OST0000 /dev/sdb sdb flash",
		"lustre-OST0001 /dev/sdc1 sdc disk",
		"lustre-OST0002 /dev/mapper/mpatha dm-0 disk",
		"lustre-OST0003 /dev/vg-a/ost3 dm-1 flash",
		"lustre-OST0004 /dev/disk/by-id/wwn-0x5-part2 sdd disk",
		"lustre-OST0005 /dev/md/ost5 md127 ?",
		"lustre-OST0006 /dev/gone  ?",
		"lustre-OST0007 pool7/ost7 dm-2+sde+sdf+sdg disk",
		"lustre-OST0008 pool8/ost8  ?",
		"lustre-OST0009 nopool/ost9  ?",
		"lustre-OST0010 /dev/sdc sdc disk",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestMapTargetsWithoutSysfs(t *testing.T) {
	fsys := fstest.MapFS{
		"proc/mounts":    file("/dev/sdb1 /mnt/ost0 lustre ro,svname=lustre-OST0000 0 0\n"),
		"proc/diskstats": file("8 16 sdb 1 2 3 4 5 6 7 8 9 10 11\n8 17 sdb1 1 2 3 4 5 6 7 8 9 10 11\n"),
	}
	targets, err := MapTargets(fsys, nil)
	if err != nil || len(targets) != 1 || targets[0].Device() != "sdb" || targets[0].Spin != nil {
		t.Errorf("%+v, %v", targets, err)
	}
	if _, err := MapTargets(fstest.MapFS{}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("err = %v, want fs.ErrNotExist", err)
	}
}

func TestSerialsThatTwoDevicesShare(t *testing.T) {
	f := newDeviceFinder(fstest.MapFS{
		"sys/block/vda/serial":            file("same\n"),
		"sys/block/vdb/serial":            file("same\n"),
		"sys/block/vdc/serial":            file("same\n"),
		"sys/block/nvme0n1/device/serial": file("S1_X  \n"),
	})
	for name, want := range map[string]string{
		"virtio-same": "", "nvme-MODEL_S1_X-part1": "nvme0n1", "/dev/disk/by-id/nvme-MODEL_S1_X": "nvme0n1",
		"xS1_X": "", "": "", "-": "", "/some/file": "", "vdb": "vdb", "/dev/vdb3": "vdb",
	} {
		if got := f.find(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestBusiest(t *testing.T) {
	devices := []ioguard.DeviceDelta{{Device: "sda", Util: 0.9}, {Device: "sdb", Util: 0.1}, {Device: "sdc", Util: 0.4}}
	m := TargetDevices{Devices: []string{"sdb", "sdc", "sdz"}}
	if d, ok := m.Busiest(devices); !ok || d.Device != "sdc" {
		t.Errorf("%+v, %v", d, ok)
	}
	if d, ok := new(TargetDevices).Busiest(devices); ok {
		t.Errorf("unknown target has %+v", d)
	}
}

package lfs

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestReadMountsMachine(t *testing.T) {
	mounts, err := ReadMounts(fixtureMachine(t, "client-healthy-2.17.0"))
	want := []Mount{{Device: "10.77.0.1@o2ib:/lustre", FS: "lustre", Dir: "/mnt/lustre", MGS: [][]string{{"10.77.0.1@o2ib"}},
		Options: []string{"rw", "checksum", "encrypt", "flock", "lazystatfs", "lruresize", "nolock", "statfs_project", "nouser_fid2path", "user_xattr", "verbose"}}}
	if diff := cmp.Diff(want, mounts); diff != "" || err != nil {
		t.Error(err, diff)
	}
	if mounts, err := ReadMounts(fstest.MapFS{"proc/mounts": {}}); err != nil || mounts != nil {
		t.Error(mounts, err)
	}
	if _, err := ReadMounts(fstest.MapFS{}); !isNotExist(err) {
		t.Error(err)
	}
}

func TestParseMounts(t *testing.T) {
	for line, want := range map[string]*Mount{
		"10.0.0.1@o2ib,10.1.0.1@tcp:10.0.0.2@o2ib,10.1.0.2@tcp:/scratch/project/x /mnt/a\\040b\\134c lustre ro,flock 0 0": {
			FS: "scratch", Fileset: "/project/x", Dir: `/mnt/a b\c`, ReadOnly: true, Options: []string{"ro", "flock"},
			MGS: [][]string{{"10.0.0.1@o2ib", "10.1.0.1@tcp"}, {"10.0.0.2@o2ib", "10.1.0.2@tcp"}}},
		"fe80::1@tcp,2001:db8::2@tcp1:fe80::3@tcp:/fs /fs lustre rw": {
			FS: "fs", Dir: "/fs", Options: []string{"rw"}, MGS: [][]string{{"fe80::1@tcp", "2001:db8::2@tcp1"}, {"fe80::3@tcp"}}},
		"mgs1:mgs2:/fs/ /fs lustre rw,,relro 0 0": {FS: "fs", Dir: "/fs", Options: []string{"rw", "relro"}, MGS: [][]string{{"mgs1"}, {"mgs2"}}},
		"0@lo:/my-fs\\043/sub\\011dir/ /m lustre rw,context=\"a\\054b\" 0 0": {
			FS: "my-fs#", Fileset: "/sub\tdir", Dir: "/m", Options: []string{"rw", `context="a,b"`}, MGS: [][]string{{"0@lo"}}},
		`1@tcp:/fs /a\9\04\777 lustre rw 0 0`:                          {FS: "fs", Dir: `/a\9\04\777`, Options: []string{"rw"}, MGS: [][]string{{"1@tcp"}}},
		"ost0/ost0 /mnt/ost0 lustre rw,svname=lustre-OST0000 0 0":      nil,
		"/dev/mapper/mdt /mnt/mdt lustre rw,svname=lustre-MDT0000 0 0": nil,
		"10.0.0.1@o2ib:/lustre /mnt/lustre lustre_tgt rw 0 0":          nil,
		"10.0.0.1:/export /home nfs4 rw,vers=4.2 0 0":                  nil,
		"10.0.0.1@o2ib:/lustre /mnt/lustre lustre":                     nil,
		":/lustre /mnt lustre rw 0 0":                                  nil,
		"1@tcp:/ /mnt lustre rw 0 0":                                   nil,
		"::,,:/fs /mnt lustre rw 0 0":                                  nil,
		"1@tcp:// /mnt lustre rw 0 0":                                  nil,
		"#10.0.0.1@o2ib:/lustre /mnt lustre rw 0 0":                    nil,
		"lustre":                 nil,
		"proc /proc proc rw 0 0": nil,
		"10.0.0.1@o2ib:/lustre lustre lustre-x rw 0 0":                    nil,
		"10.0.0.1@o2ib:lustre /mnt/lustre lustre rw,svname=:/lustre 0 0 ": nil,
	} {
		got := ParseMounts([]byte("sysfs /sys sysfs rw 0 0\n" + line + "\nnone /x tmpfs rw 0 0\n"))
		if want == nil {
			if len(got) != 0 {
				t.Errorf("%s: %+v", line, got)
			}
			continue
		}
		want.Device = mountUnescape([]byte(strings.Fields(line)[0]))
		if diff := cmp.Diff([]Mount{*want}, got); diff != "" {
			t.Errorf("%s:\n%s", line, diff)
		}
	}
}

func FuzzParseMounts(f *testing.F) {
	f.Add([]byte("10.0.0.1@o2ib,10.1.0.1@tcp:10.0.0.2@o2ib:/scratch/x /mnt/a\\040b lustre ro,flock 0 0\n"))
	f.Add([]byte("fe80::1@tcp:/fs /fs lustre rw\nmgs1:mgs2:/fs / lustre rw"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, m := range ParseMounts(text) {
			if m.FS == "" || strings.Contains(m.FS, "/") || len(m.MGS) == 0 || len(m.Options) == 0 && !m.ReadOnly && !strings.Contains(string(text), ",") {
				t.Fatalf("%+v", m)
			}
			if m.Fileset != "" && m.Fileset[0] != '/' {
				t.Fatalf("%+v", m)
			}
			for _, node := range m.MGS {
				for _, nid := range node {
					if nid == "" || strings.Contains(nid, ",") || !strings.Contains(m.Device, nid) {
						t.Fatalf("%+v", m)
					}
				}
			}
		}
	})
}

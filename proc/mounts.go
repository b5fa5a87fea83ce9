package proc

import (
	"strings"
)

// TargetMount is a line of /proc/mounts that mounts a Lustre target.
type TargetMount struct {
	Target string // svname: "lustre-OST0000"; "MGS" for an MGS of its own
	Source string // "/dev/mapper/ost0" (ldiskfs) or "ost0/ost0" (a ZFS dataset)
	OSD    string // "osd-zfs", "osd-ldiskfs"; "" where the release does not say
}

// ParseTargetMounts picks the mounted targets out of /proc/mounts
// (server_show_options in lustre/obdclass/obd_mount_server.c prints the options):
//
//	ost0/ost0 /mnt/ost0 lustre rw,svname=lustre-OST0000,mgsnode=10.77.0.1@o2ib,osd=osd-zfs 0 0
//	/dev/mapper/ost1 /mnt/ost1 lustre rw,svname=lustre-OST0001,mgsnode=10.77.0.1@o2ib,osd=osd-ldiskfs 0 0
//
// Clients' mounts have no svname and are no targets. 2.15 and later can mount a
// target as type lustre_tgt. Lines that are not understood are other people's
// mounts.
func ParseTargetMounts(b []byte) []TargetMount {
	var mounts []TargetMount
	for _, line := range lines(b) {
		fields := strings.Fields(line)
		if len(fields) < 4 || (fields[2] != "lustre" && fields[2] != "lustre_tgt") {
			continue
		}
		m := TargetMount{Source: unescapeMount(fields[0])}
		for option := range strings.SplitSeq(fields[3], ",") {
			if v, ok := strings.CutPrefix(option, "svname="); ok {
				m.Target = v
			} else if v, ok := strings.CutPrefix(option, "osd="); ok {
				m.OSD = v
			}
		}
		if m.Target != "" {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// unescapeMount undoes what mangle in fs/seq_file.c does to blanks: "\040".
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && s[i+1] <= '3' && isOctal(s[i+1]) && isOctal(s[i+2]) && isOctal(s[i+3]) {
			out.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

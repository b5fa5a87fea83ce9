package doctor

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"ioguard/host"
	"ioguard/view"
)

func (j *judge) conf() {
	j.confFile()
	switch m := j.site.Machine; m {
	case "", "/":
		j.is("conf-machine", OK, "/")
	default:
		j.is("conf-machine", Warned, "%s", m)
	}
	p := &j.site.Policy
	switch {
	case p.Err != nil:
		j.is("conf-policy", Failed, "%s", firstLine(p.Err.Error()))
		j.fix("conf-policy", "ioguard policy check %s", p.Path)
	case p.Path == "":
		j.is("conf-policy", OK, "%d built-in rules", p.Rules)
	default:
		j.is("conf-policy", OK, "%d rules, with those of %s", p.Rules, p.Path)
	}
}

func (j *judge) confFile() {
	c := &j.site.Config
	switch {
	case c.Remote != "":
		j.is("conf-file", Failed, "not read: %s", c.Remote)
		j.fix("conf-file", "move it to a local disk: /etc/ioguard/ioguard.yaml")
	case errors.Is(c.Err, fs.ErrPermission) && j.site.UID != 0:
		j.without(Unknown, j.reason(c.Err), "conf-file")
	case errors.Is(c.Err, fs.ErrNotExist):
		j.is("conf-file", Failed, "%s", firstLine(c.Err.Error()))
		j.fix("conf-file", "IOGUARD_CONFIG names it: unset it, or make the file")
	case c.Err != nil:
		j.is("conf-file", Failed, "%s", firstLine(c.Err.Error()))
		j.fix("conf-file", "correct it, and try: IOGUARD_CONFIG=%s ioguard doctor", c.Path)
	case c.Missing:
		j.is("conf-file", Note, "%s is missing: every job starts", c.Path)
	default:
		j.is("conf-file", OK, "%s", c.Path)
	}
}

// localOnly are the checks of which a recorded machine cannot tell anything.
var localOnly = []string{"local-root", "local-debugfs", "local-kmsg", "local-lustre-tools", "local-slurm-tools", "local-state", "local-space", "local-users",
	"local-records", "local-syslog"}

func (j *judge) local() {
	if j.seen.Recorded {
		j.without(Skipped, "a recorded machine", localOnly...)
		return
	}
	if j.seen.UID == 0 {
		j.is("local-root", OK, "uid 0")
	} else {
		j.is("local-root", Note, "uid %d", j.seen.UID)
	}
	j.lustreTools()
	j.slurmTools()
	j.syslog()
	if unread(j, &j.seen.Local, true, "local-debugfs", "local-kmsg", "local-state", "local-space", "local-users", "local-records") {
		return
	}
	j.debugfs()
	if err := j.seen.Local.Value.Kmsg; err != nil {
		j.denied("local-kmsg", Warned, err)
	} else {
		j.is("local-kmsg", OK, "/dev/kmsg")
	}
	if err := j.seen.Local.Err; err != nil {
		j.without(Unknown, j.reason(err), "local-state", "local-space", "local-users", "local-records")
		return
	}
	j.state()
	j.space()
	j.users()
	j.records()
}

// denied tells what root cannot do; of others it is only unknown what root could.
func (j *judge) denied(code string, status Status, err error) {
	if j.seen.UID != 0 && (errors.Is(err, fs.ErrPermission)) {
		j.without(Unknown, j.reason(err), code)
		return
	}
	j.is(code, status, "%s", err)
}

func (j *judge) debugfs() {
	const code = "local-debugfs"
	err := j.seen.Local.Value.Debugfs
	switch {
	case err == nil:
		j.is(code, OK, "/sys/kernel/debug")
	case !j.seen.Lustre:
		j.without(Skipped, "no Lustre here", code)
	case errors.Is(err, fs.ErrPermission) && j.seen.UID == 0:
		j.is(code, Failed, "root may not list it: the kernel is locked down, or this is a container")
		j.fix(code, "cat /sys/kernel/security/lockdown; boot without lockdown=confidentiality")
	default:
		j.denied(code, Failed, err)
	}
}

func (j *judge) lustreTools() {
	if !j.seen.Lustre {
		j.without(Skipped, "no Lustre here", "local-lustre-tools")
		return
	}
	j.tools("local-lustre-tools", "lctl", "lnetctl", "lfs")
}

func (j *judge) slurmTools() {
	const code = "local-slurm-tools"
	if err := j.seen.Tools["scontrol"]; j.site.SlurmBin == "" && err != nil && errors.Is(err.Err, fs.ErrNotExist) {
		j.without(Skipped, "no Slurm here: "+err.Err.Error(), code)
		return
	}
	j.tools(code, "scontrol", "sinfo")
}

// tools tells which commands start. One that starts and is not content is there:
// Slurm's want to see slurm.conf first.
func (j *judge) tools(code string, names ...string) {
	var found []string
	for _, name := range names {
		a := j.seen.Tools[name]
		var failed *host.CommandError
		switch {
		case a == nil || !a.Done, errors.As(a.Err, &failed) && failed.TimedOut:
			j.without(Unknown, name+" --version: no answer in time", code)
		case errors.As(a.Err, &failed):
			found = append(found, name)
		case a.Err != nil:
			j.is(code, Failed, "%s", a.Err)
		case strings.HasPrefix(a.Value, name):
			found = append(found, a.Value)
		default:
			found = append(found, name+" "+a.Value)
		}
	}
	if j.out[code].Status == OK {
		j.is(code, OK, "%s", strings.Join(found, ", "))
	}
}

func (j *judge) syslog() {
	const code = "local-syslog"
	switch {
	case j.site.Syslog == "":
		j.is(code, Note, "switched off")
	case unread(j, &j.seen.Syslog, true, code):
	case j.seen.Syslog.Err != nil:
		j.is(code, Warned, "%s", j.seen.Syslog.Err)
	default:
		j.is(code, OK, "%s", j.site.Syslog)
	}
}

func (j *judge) state() {
	const code = "local-state"
	s, dir := &j.seen.Local.Value.State, j.site.StateDir
	j.fix(code, "install -d -m 755 -o root -g root %s", dir)
	switch {
	case s.Remote != "":
		j.is(code, Failed, "%s: %s", dir, s.Remote)
		j.fix(code, "state_dir: /var/lib/ioguard in the configuration, or another folder on a local disk")
	case !s.Exists && s.Err == nil:
		j.is(code, OK, "%s: the first hook makes it", dir)
	case s.Err != nil:
		j.denied(code, Failed, s.Err)
	case !s.Dir:
		j.is(code, Failed, "%s is no folder (%v)", dir, s.Mode)
	default:
		j.stateOwner(s)
	}
}

// stateOwner wants root, or on the controller SlurmUser, who runs PrologSlurmctld.
func (j *judge) stateOwner(s *StateDir) {
	const code = "local-state"
	dir := j.site.StateDir
	slurmUser := uidOf(j.seen.Slurm.Value.Values["SlurmUser"])
	switch {
	case s.UID == 0:
		j.is(code, OK, "%s of uid 0, mode %04o", dir, s.Mode.Perm())
	case s.UID == slurmUser && !j.seen.Local.Value.Slurmd:
		j.is(code, Note, "%s belongs to SlurmUser (uid %d): right on the controller alone", dir, s.UID)
	default:
		j.is(code, Failed, "%s belongs to uid %d", dir, s.UID)
	}
	if s.Mode.Perm()&0o022 != 0 {
		j.is(code, Failed, "others may write there (mode %04o)", s.Mode.Perm())
	}
}

// uidOf is the number in "slurm(64030)", -1 for none.
func uidOf(user string) int {
	_, rest, _ := strings.Cut(user, "(")
	if n, err := strconv.Atoi(strings.TrimSuffix(rest, ")")); err == nil && n >= 0 {
		return n
	}
	return -1
}

// What the records should find free.
const (
	minFree       = 200 << 20
	minFreeInodes = 1000
)

func (j *judge) space() {
	const code = "local-space"
	s := &j.seen.Local.Value.State
	switch {
	case s.Remote != "":
		j.without(Skipped, "not on a local disk", code)
	case !s.Sized:
		j.without(Unknown, s.Above+" does not tell", code)
	case s.Free < minFree || s.FreeInodes < minFreeInodes:
		j.is(code, Warned, "%s and %s inodes free in %s", view.Bytes(float64(s.Free)), view.Count(float64(s.FreeInodes)), s.Above)
	default:
		j.is(code, OK, "%s free in %s", view.Bytes(float64(s.Free)), s.Above)
	}
}

func (j *judge) users() {
	const code = "local-users"
	s := &j.seen.Local.Value.State
	switch _, used := j.seen.Hooks.Value.calls("TaskProlog"); {
	case !used:
		j.without(Skipped, "no TaskProlog calls ioguard", code)
	case s.Remote != "" || s.Above == "":
		j.without(Skipped, "the state directory cannot be looked at", code)
	case s.Closed != "":
		j.is(code, Warned, "users cannot search %s", s.Closed)
		j.fix(code, "chmod o+x %s", s.Closed)
	default:
		j.is(code, OK, "%s", s.Above)
	}
}

func (j *judge) records() {
	const code = "local-records"
	s := &j.seen.Local.Value.State
	err := j.seen.Records.Err
	switch {
	case s.Remote != "" || !s.Exists:
		j.without(Skipped, "no state directory", code)
	case unread(j, &j.seen.Records, true, code):
	case errors.Is(err, fs.ErrNotExist):
		j.is(code, OK, "none yet: the first hook makes the file")
	case err != nil:
		j.denied(code, Failed, err)
	default:
		j.is(code, OK, "%s/ioguard.db", strings.TrimSuffix(j.site.StateDir, "/"))
	}
}

package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"ioguard/lfs"
)

// onServers are the checks of Lustre servers, onClients those of clients.
var (
	onServers = []string{"jobstats", "jobstats-cleanup", "jobstats-format", "tbf", "tbf-release", "tbf-default"}
	onClients = []string{"jobid-var", "jobid-name", "version"}
)

func (j *judge) lustre() {
	s := j.seen
	if !s.Lustre {
		j.without(Skipped, "no Lustre here", onServers...)
		j.without(Skipped, "no Lustre here", onClients...)
		j.without(Skipped, "no Lustre here", "pools", "timeout-lustre")
		return
	}
	switch {
	case s.Client():
		j.jobID()
		j.version()
	case s.Mounts.Done:
		j.without(Skipped, "no Lustre is mounted here", onClients...)
	default:
		j.without(Unknown, "no answer in time", onClients...)
	}
	switch {
	case s.Server():
		j.jobStats()
		j.format()
		j.tbf()
	case errors.Is(s.Targets.Err, fs.ErrPermission):
		j.without(Unknown, j.reason(s.Targets.Err), onServers...)
	case s.Targets.Done:
		j.without(Skipped, "no targets here", onServers...)
	default:
		j.without(Unknown, "no answer in time", onServers...)
	}
	j.pools()
	j.timeouts()
}

func (j *judge) jobID() {
	a := &j.seen.Jobs
	if unread(j, a, a.Value != nil && a.Value.Var != nil, "jobid-var", "jobid-name") {
		return
	}
	if a.Value.Var == nil {
		j.without(Skipped, "this machine does not tell", "jobid-var", "jobid-name")
		return
	}
	j.jobVar(a.Value)
	j.jobName(a.Value)
}

func (j *judge) jobVar(s *lfs.JobSettings) {
	const code = "jobid-var"
	want := j.site.JobIDVar
	if want != "" {
		j.wants(code, "jobid_var %s", want)
		j.fix(code, "on the MGS: lctl set_param -P jobid_var=%s; here at once: lctl set_param jobid_var=%s", want, want)
	}
	seen := *s.Var
	switch {
	case s.Disabled():
		j.is(code, Failed, "%s: servers see no jobs of this node", strings.TrimSpace("jobid_var "+seen))
	case want == "":
		j.is(code, OK, "jobid_var %s", seen)
	case seen == want:
		j.is(code, OK, "jobid_var %s", seen)
	case s.NodeLocal(), seen == lfs.JobVarSession:
		j.is(code, Warned, "jobid_var %s: the jobs of a shared node cannot be told apart", seen)
	case seen == lfs.JobVarProcnameUID:
		j.is(code, Failed, "jobid_var %s: servers see programs, not jobs", seen)
	default:
		j.is(code, Warned, "jobid_var %s", seen)
	}
}

func (j *judge) jobName(s *lfs.JobSettings) {
	const code = "jobid-name"
	if s.Name == nil {
		j.without(Skipped, "this release has no jobid_name", code)
		return
	}
	name, want := *s.Name, j.site.JobIDName
	if s.Disabled() || s.NodeLocal() {
		j.without(Skipped, "jobid_var "+*s.Var, code)
		return
	}
	if _, err := lfs.ParseJobIDFormat(name); err != nil {
		j.is(code, Warned, "jobid_name %s: %s", name, err)
		return
	}
	j.is(code, OK, "jobid_name %s", name)
	id := writeJobID(name, shortParts)
	switch {
	case !compound(name):
	case !understood(id, want):
		j.is(code, Failed, "ioguard does not find the job in %s", id)
	case !understood(writeJobID(name, longParts), want):
		j.is(code, Warned, "a long host name or command pushes the job out of 31 bytes")
	}
	if want != "" && want != name {
		j.is(code, Warned, "the configuration has jobid_name %s", want)
	}
	if j.out[code].Status != OK {
		j.fix(code, "jobid_name: %q in the configuration; on the MGS: lctl set_param -P jobid_name=%%j:%%u:%%h", name)
	}
}

// version compares the client's release with those of its servers.
func (j *judge) version() {
	const code = "version"
	a := &j.seen.Version
	if unread(j, a, false, code) {
		return
	}
	mine := a.Value
	imports := &j.seen.Imports
	if unread(j, imports, len(imports.Value) > 0, code) {
		return
	}
	var servers, far []string
	for i := range imports.Value {
		text := imports.Value[i].TargetVersion
		theirs, err := lfs.ParseVersion([]byte(text))
		if err != nil || slices.Contains(servers, text) {
			continue
		}
		servers = append(servers, text)
		if mine.Major != theirs.Major || max(series(mine), series(theirs))-min(series(mine), series(theirs)) > 1 {
			far = append(far, text)
		}
	}
	switch {
	case len(servers) == 0 && imports.Err != nil:
		j.without(Unknown, j.reason(imports.Err), code)
	case len(servers) == 0:
		j.without(Skipped, "no import tells its server's release", code)
	case len(far) > 0:
		j.is(code, Warned, "client %s, servers %s", mine.Text, list(far, 3))
	default:
		j.is(code, OK, "client %s, servers %s", mine.Text, list(servers, 3))
	}
}

// series is the minor release that a version belongs to: from patch 50 on it is on
// the way to the next.
func series(v lfs.Version) int {
	if v.Patch >= 50 {
		return v.Minor + 1
	}
	return v.Minor
}

// The bounds of job_cleanup_interval.
const (
	minCleanup = time.Minute
	maxCleanup = time.Hour
)

func (j *judge) jobStats() {
	var without []string
	for _, t := range j.seen.Targets.Value {
		if t.JobStats == "" {
			without = append(without, t.Name)
		}
	}
	if len(without) > 0 {
		j.is("jobstats", Failed, "none for %s", list(without, 4))
	} else {
		j.is("jobstats", OK, "%d targets", len(j.seen.Targets.Value))
	}
	j.cleanup()
}

func (j *judge) cleanup() {
	const code = "jobstats-cleanup"
	a := &j.seen.Jobs
	if unread(j, a, a.Value != nil, code) {
		return
	}
	if len(a.Value.CleanupInterval) == 0 {
		j.without(Skipped, "this machine does not tell", code)
		return
	}
	byTime := map[time.Duration][]string{}
	for target, d := range a.Value.CleanupInterval {
		byTime[d] = append(byTime[d], target)
	}
	for _, d := range sortedKeys(byTime) {
		targets := byTime[d]
		slices.Sort(targets)
		switch {
		case d == 0:
			j.is(code, Warned, "0 (never) on %s", list(targets, 3))
		case d < minCleanup:
			j.is(code, Warned, "%v on %s", d, list(targets, 3))
		case d > maxCleanup:
			j.is(code, Note, "%v on %s", d, list(targets, 3))
		default:
			j.is(code, OK, "%v on %s", d, list(targets, 3))
		}
	}
}

func (j *judge) format() {
	const code = "jobstats-format"
	if unread(j, &j.seen.Version, false, code) {
		return
	}
	v := j.seen.Version.Value
	if v.Major == 2 && v.Minor == 15 && v.Patch <= 1 {
		j.is(code, Note, "release %s: ioguard reads its job_stats, with boot clocks", v.Text)
		return
	}
	j.is(code, OK, "release %s", v.Text)
}

// tbf tells whether the servers' scheduler for throttling is there and safe.
func (j *judge) tbf() {
	a := &j.seen.Services
	if unread(j, a, len(a.Value) > 0, "tbf", "tbf-default", "tbf-release") {
		return
	}
	if len(a.Value) == 0 {
		j.without(Skipped, "no ost_io and no mdt here", "tbf", "tbf-default", "tbf-release")
		return
	}
	started := j.tbfServices(a.Value)
	switch {
	case j.out["tbf"].Status != OK:
		j.without(Skipped, "no tbf here", "tbf-release")
	case !unread(j, &j.seen.Version, false, "tbf-release"):
		j.tbfRelease(j.seen.Version.Value, started)
	}
}

// tbfServices judges each service and tells whether TBF is started on one.
func (j *judge) tbfServices(services []Service) bool {
	started := false
	for _, s := range services {
		has := slices.ContainsFunc(s.Policies.Regular, func(p lfs.NRSPolicy) bool { return p.Name == "tbf" })
		primary := s.Policies.Primary()
		switch {
		case !has:
			j.is("tbf", Warned, "%s has no tbf", s.Name)
			continue
		case primary != nil && primary.Name == "tbf":
			started = true
			j.is("tbf", OK, "%s: started (%s)", s.Name, strings.TrimSpace("tbf "+primary.Arg))
			j.defaultRule(s)
		default:
			j.is("tbf", OK, "%s: not started", s.Name)
		}
	}
	if !started {
		j.without(Skipped, "tbf is not started", "tbf-default")
	}
	return started
}

func (j *judge) defaultRule(s Service) {
	switch {
	case s.DefaultRule == nil:
		j.without(Unknown, s.Name+": nrs_tbf_rule cannot be read", "tbf-default")
	case *s.DefaultRule:
		j.is("tbf-default", OK, "%s", s.Name)
	default:
		j.is("tbf-default", Failed, "%s has no rule default", s.Name)
	}
}

// tbfRelease: crashes that are known are a reason to act only where TBF is in use.
func (j *judge) tbfRelease(v lfs.Version, started bool) {
	status := Note
	if started {
		status = Warned
	}
	switch {
	case !v.AtLeast(2, 15, 0):
		j.is("tbf-release", status, "release %s: LU-15130, LU-15056, LU-15059 and LU-18400 crash servers that throttle", v.Text)
	case !v.AtLeast(2, 17, 0):
		j.is("tbf-release", status, "release %s: LU-18400 crashes servers that throttle", v.Text)
	default:
		j.is("tbf-release", OK, "release %s", v.Text)
	}
}

func (j *judge) pools() {
	const code = "pools"
	if unread(j, &j.seen.Pools, false, code) {
		return
	}
	p := &j.seen.Pools.Value
	switch {
	case !p.Told:
		j.without(Skipped, "no client, MDS or MGS: nothing here knows of pools", code)
	case len(p.All) == 0:
		j.is(code, Note, "none: layouts cannot choose SSDs")
	default:
		var names []string
		for _, pool := range p.All {
			text := pool.FS + "." + pool.Name
			if pool.Targets != nil {
				text += fmt.Sprintf(" (%d OSTs)", len(pool.Targets))
			}
			names = append(names, text)
		}
		j.is(code, OK, "%s", list(names, 4))
	}
}

func (j *judge) timeouts() {
	const code = "timeout-lustre"
	a := &j.seen.Timeouts
	if unread(j, a, a.Value != (Timeouts{}), code) {
		return
	}
	t := &a.Value
	j.is(code, OK, "timeout %s, at_min %s, at_max %s, ldlm_timeout %s", number(t.Timeout), number(t.AtMin), number(t.AtMax), number(t.LDLM))
	if t.AtMax != nil && *t.AtMax == 0 {
		j.is(code, Warned, "adaptive time-outs are switched off")
	} else if t.AtMax != nil && t.AtMin != nil && *t.AtMin > *t.AtMax {
		j.is(code, Warned, "at_min is above at_max")
	}
	if t.Timeout != nil && t.LDLM != nil && *t.LDLM >= *t.Timeout {
		j.is(code, Warned, "ldlm_timeout is not below timeout")
	}
}

// number is a setting for people.
func number(n *uint64) string {
	if n == nil {
		return "unknown"
	}
	return fmt.Sprint(*n)
}

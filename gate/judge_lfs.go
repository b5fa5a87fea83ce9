package gate

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ioguard/lfs"
)

var importCodes = []string{"lfs-mdt", "lfs-ost", "lfs-mgs", "lfs-evicted"}

// lfs judges the Lustre client.
func (j *judge) lfs() {
	j.wantedMounts()
	j.imports()
	j.devices()
	j.version()
	j.jobID()
}

// wantedMounts compares what is mounted with what should be.
func (j *judge) wantedMounts() {
	a := &j.seen.Mounts
	if unread(j, a, false, "lfs-mount", "lfs-unmounted") {
		return
	}
	mounted := map[string]bool{}
	var dirs []string
	for _, m := range a.Value {
		mounted[m.Dir] = true
		dirs = append(dirs, m.Dir)
	}
	wanted := map[string]string{}
	for _, m := range j.seen.Fstab.Value {
		wanted[path.Clean(m.Dir)] = "in /etc/fstab"
	}
	for _, dir := range j.site.Mounts {
		wanted[path.Clean(dir)] = "in gate.mounts"
	}
	for _, dir := range sortedKeys(wanted) {
		if !mounted[dir] {
			fs := j.fsOfDir(dir)
			f := Finding{Check: "lfs-mount", Subject: dir, Seen: "not mounted", Expected: "mounted: it is " + wanted[dir], FS: fs,
				Shared: append([]string{"mount:" + keyWord(dir)}, prefixed("fs:", fs)...), brief: "not mounted: " + dir}
			j.found(f)
		}
	}
	if j.ran() {
		for _, dir := range j.last.Mounts {
			if _, also := wanted[dir]; !also && !mounted[dir] {
				j.found(Finding{Check: "lfs-unmounted", Subject: dir, Seen: "not mounted", Expected: "mounted, as at the last run"})
			}
		}
	}
	if len(dirs) == 0 && len(wanted) == 0 {
		j.without(Skipped, "no Lustre is mounted, and none is wanted in gate.mounts or /etc/fstab", "lfs-mount", "lfs-unmounted")
	}
	j.ok("lfs-mount", "%s", list(dirs, 4))
	j.ok("lfs-unmounted", "%s", list(dirs, 4))
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// fsOfDir is the file system that a directory belongs to when it is mounted.
func (j *judge) fsOfDir(dir string) []string {
	for _, m := range slices.Concat(j.seen.Fstab.Value, j.seen.Mounts.Value) {
		if path.Clean(m.Dir) == dir && m.FS != "" {
			return []string{m.FS}
		}
	}
	return nil
}

// sick is imports of one server with the same trouble.
type sick struct {
	code, fs, state, nid string
	targets              []string
	since                time.Time
	evidence             []string
}

func (j *judge) imports() {
	a := &j.seen.Imports
	if unread(j, a, len(a.Value) > 0, append(slices.Clone(importCodes), "lfs-inactive")...) {
		if errors.Is(a.Err, fs.ErrNotExist) && len(j.seen.lustreMounts()) > 0 {
			j.without(Unknown, "Lustre is mounted, but its connections cannot be read: "+a.Err.Error(), importCodes...)
		}
		return
	}
	var groups []*sick
	for i := range a.Value {
		m := &a.Value[i]
		j.inactive(m)
		j.evicted(m)
		if doubtful(m) && !j.notMounted(m.FS) {
			groups = j.group(groups, m)
		}
	}
	for _, g := range groups {
		j.found(j.importFinding(g))
	}
	for _, k := range []struct{ code, kind, name string }{{"lfs-mdt", "mdc", "MDT"}, {"lfs-ost", "osc", "OST"}, {"lfs-mgs", "mgc", "MGS"}} {
		n := 0
		for i := range a.Value {
			if a.Value[i].Kind == k.kind {
				n++
			}
		}
		if n == 0 {
			j.without(Skipped, "this client has no "+k.name, k.code)
		}
		j.ok(k.code, "%s FULL or IDLE", plural(n, k.name, k.name+"s"))
	}
	j.ok("lfs-evicted", "none")
	if j.out["lfs-inactive"].Status == OK {
		j.ok("lfs-inactive", "all active")
	}
}

// notMounted tells file systems that are known not to be mounted: what is left of
// their devices is going away.
func (j *judge) notMounted(fs string) bool {
	return fs != "" && j.seen.Mounts.Done && j.seen.Mounts.Err == nil &&
		!slices.ContainsFunc(j.seen.Mounts.Value, func(m lfs.Mount) bool { return m.FS == fs })
}

// group puts imports of one file system, server and state together, so that an OSS
// that is away is one finding and not twelve.
func (j *judge) group(groups []*sick, m *lfs.Import) []*sick {
	code := map[string]string{"mdc": "lfs-mdt", "osc": "lfs-ost", "mgc": "lfs-mgs"}[m.Kind]
	nid := m.Connection
	if nid == "" && len(m.FailoverNIDs) > 0 {
		nid = m.FailoverNIDs[0]
	}
	state := spell(m.State)
	i := slices.IndexFunc(groups, func(g *sick) bool { return g.code == code && g.fs == m.FS && g.state == state && g.nid == nid })
	if i < 0 {
		i = len(groups)
		groups = append(groups, &sick{code: code, fs: m.FS, state: state, nid: nid})
	}
	g := groups[i]
	g.targets = append(g.targets, m.Target)
	since, _ := disconnected(m)
	if !since.IsZero() && (g.since.IsZero() || since.Before(g.since)) {
		g.since = since
	}
	if len(m.FailoverNIDs) > 1 {
		g.addEvidence("tries " + strings.Join(m.FailoverNIDs, ", "))
	}
	return groups
}

func (g *sick) addEvidence(text string) {
	if !slices.Contains(g.evidence, text) && len(g.evidence) < 4 {
		g.evidence = append(g.evidence, text)
	}
}

// spell is the state by which imports are grouped: one that is away changes between
// DISCONN and CONNECTING every few seconds.
func spell(state string) string {
	if state == lfs.ImportConnecting {
		return lfs.ImportDisconn
	}
	return state
}

func disconnected(m *lfs.Import) (time.Time, bool) {
	if m.History == nil {
		return time.Time{}, false
	}
	return m.History.DisconnectedSince()
}

func (j *judge) importFinding(g *sick) Finding {
	f := Finding{Check: g.code, Subject: targetList(g.targets), Since: g.since, Expected: "FULL or IDLE", Evidence: g.evidence}
	f.Seen = g.state
	if g.nid != "" {
		f.Seen += " from " + g.nid
	}
	f.Seen += sinceText(g.since, j.seen.Now)
	if g.fs != "" {
		f.FS = []string{g.fs}
	}
	if p := j.seen.Pings[g.nid]; p != nil && p.Done && p.Err == nil {
		if p.Value.OK {
			f.Evidence = append(f.Evidence, "ping "+g.nid+" answers: the server is there, the target is not")
		} else {
			f.Evidence = append(f.Evidence, "ping "+g.nid+": "+oneLine(strings.TrimPrefix(p.Value.Text, "failed to ping "+g.nid+": ")))
		}
	}
	f.Shared = sharedOf(g)
	f.brief = briefTargets(g) + " " + f.Seen
	return f
}

// targetList writes targets of one file system as a hostlist does nodes:
// "lustre-OST[0000-0005,000a]". Their indices are hexadecimal.
func targetList(targets []string) string {
	prefix, indices := "", []uint64(nil)
	for _, t := range targets {
		i := len(t) - 4
		if i < 0 || prefix != "" && t[:i] != prefix {
			return list(targets, 4)
		}
		n, err := strconv.ParseUint(t[i:], 16, 16)
		if err != nil {
			return list(targets, 4)
		}
		prefix, indices = t[:i], append(indices, n)
	}
	if len(indices) < 2 {
		return list(targets, 4)
	}
	slices.Sort(indices)
	var ranges []string
	for from := 0; from < len(indices); {
		to := from
		for to+1 < len(indices) && indices[to+1] == indices[to]+1 {
			to++
		}
		text := fmt.Sprintf("%04x", indices[from])
		if to > from {
			text += fmt.Sprintf("-%04x", indices[to])
		}
		ranges = append(ranges, text)
		from = to + 1
	}
	if len(ranges) > 8 {
		ranges = append(ranges[:8], "...")
	}
	return prefix + "[" + strings.Join(ranges, ",") + "]"
}

// sharedOf names what other nodes would fail with: the targets when they are few,
// and their server.
func sharedOf(g *sick) []string {
	var keys []string
	if len(g.targets) <= 3 {
		keys = append(keys, g.targets...)
	} else {
		keys = append(keys, "fs:"+g.fs)
	}
	if g.nid != "" {
		keys = append(keys, g.nid)
	}
	return keys
}

// briefTargets puts the target's own part first, since sinfo -R shows 20 characters
// of which ioguard's mark takes nine.
func briefTargets(g *sick) string {
	short := g.targets[0]
	if i := strings.LastIndexByte(short, '-'); i >= 0 {
		short = short[i+1:]
	}
	if n := len(g.targets); n > 1 {
		short = fmt.Sprintf("%s+%d", short, n-1)
	}
	if g.fs != "" {
		short += " of " + g.fs
	}
	return short
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (j *judge) inactive(m *lfs.Import) {
	if m.Deactivated {
		j.found(Finding{Check: "lfs-inactive", Subject: m.Target, Seen: "deactivated", Expected: "active", FS: []string{m.FS}, Shared: []string{m.Target}})
	}
}

// evicted tells evictions since the last run. Without one they are shown by the
// history of the imports, but are no finding: what came before the first look is
// not this run's news. The MGS evicts a client without harm.
func (j *judge) evicted(m *lfs.Import) {
	if m.History == nil || m.Kind == "mgc" || !j.ran() || doubtful(m) {
		return
	}
	times := m.History.EvictedAfter(j.since())
	if len(times) == 0 {
		return
	}
	j.found(Finding{Check: "lfs-evicted", Subject: m.Target, Seen: "evicted at " + clock(times[len(times)-1], j.seen.Now), Expected: "no eviction",
		Since: times[0], FS: []string{m.FS}, Shared: []string{m.Target}, Evidence: []string{"connected again: " + m.State}})
}

func (j *judge) devices() {
	a := &j.seen.Devices
	if unread(j, a, len(a.Value) > 0, "lfs-device") {
		return
	}
	for _, d := range a.Value {
		switch {
		case d.Status == "UP":
		case d.Status == "IN":
			target := targetOf(d.Name)
			if !slices.ContainsFunc(j.out["lfs-inactive"].Findings, func(f Finding) bool { return f.Subject == target }) {
				j.found(Finding{Check: "lfs-inactive", Subject: target, Seen: "IN: deactivated", Expected: "UP", FS: []string{lfs.FSOf(d.Name)}, Shared: []string{target}})
			}
		default:
			j.found(Finding{Check: "lfs-device", Subject: d.Name, Seen: d.Status, Expected: "UP"})
		}
	}
	j.ok("lfs-device", "%s UP", plural(len(a.Value), "device", "devices"))
}

// targetOf is the target in the name of a device.
func targetOf(device string) string {
	if fs := lfs.FSOf(device); fs != "" {
		rest := strings.TrimPrefix(device, fs+"-")
		kind, _, _ := strings.Cut(rest, "-")
		return fs + "-" + kind
	}
	return device
}

func (j *judge) version() {
	want := j.site.LustreVersion
	if want == "" {
		j.without(Skipped, "gate.lustre_version names none", "lfs-version")
		if j.seen.Version.Done && j.seen.Version.Err == nil {
			j.out["lfs-version"].Seen = j.seen.Version.Value
		}
		return
	}
	if unread(j, &j.seen.Version, false, "lfs-version") {
		return
	}
	have := j.seen.Version.Value
	if have != want && !strings.HasPrefix(have, want+".") && !strings.HasPrefix(have, want+"_") && !strings.HasPrefix(have, want+"-") {
		j.found(Finding{Check: "lfs-version", Subject: "lustre", Seen: have, Expected: want})
	}
	j.ok("lfs-version", "%s", have)
}

func (j *judge) jobID() {
	want := j.site.JobIDVar
	a := &j.seen.Jobs
	if want == "" {
		j.without(Skipped, "gate.jobid_var is empty", "lfs-jobid")
		return
	}
	if unread(j, a, a.Value != nil && a.Value.Var != nil, "lfs-jobid") {
		return
	}
	if a.Value == nil || a.Value.Var == nil {
		j.without(Skipped, "this machine does not tell jobid_var", "lfs-jobid")
		return
	}
	if len(j.seen.lustreMounts()) == 0 {
		j.without(Skipped, "no Lustre is mounted", "lfs-jobid")
		return
	}
	have := *a.Value.Var
	if have != want && !(a.Value.NodeLocal() && a.Value.Name != nil && *a.Value.Name != "") {
		j.found(Finding{Check: "lfs-jobid", Subject: "jobid_var", Seen: have, Expected: want})
	}
	j.ok("lfs-jobid", "jobid_var=%s", have)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

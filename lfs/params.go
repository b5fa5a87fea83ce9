package lfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ioguard"
)

// Param is one row of the table of what Lustre tells and where.
type Param struct {
	Name string
	What string
	// Paths are patterns of slash-separated paths under "/", best first. A "*"
	// stands for one path element, "osd-*" for those that begin so. Elements
	// that are "*" alone name the target (the first) and the item (the second).
	Paths    []string
	Readable string // who may read it by default: "everybody" or "root"
	Since    string // first release, "" where older than 2.5 or not known
	Note     string
}

const (
	procRoot  = "proc/fs/lustre/"
	sysRoot   = "sys/fs/lustre/"
	debugRoot = "sys/kernel/debug/lustre/"
)

const (
	everybody = "everybody"
	rootOnly  = "root" // debugfs is mounted with mode 0700
)

// Params is the table: each parameter with the places where releases 2.5 to
// 2.17 keep it. Plain values moved from procfs to sysfs and tables to debugfs
// between 2.10 and 2.15; job_stats, md_stats and pools stayed in procfs.
func Params() []Param {
	return []Param{
		{Name: "job_stats", What: "operations of each job on a target", Readable: everybody,
			Paths: []string{procRoot + "obdfilter/*/job_stats", procRoot + "mdt/*/job_stats"}},
		{Name: "stats", What: "operations of all clients on a target", Readable: rootOnly,
			Paths: []string{debugRoot + "obdfilter/*/stats", procRoot + "obdfilter/*/stats",
				procRoot + "mdt/*/md_stats", debugRoot + "mdt/*/md_stats"},
			Note: "md_stats of an MDT is in procfs and open to everybody"},
		{Name: "exports", What: "directory with one entry per client NID", Readable: rootOnly,
			Paths: []string{debugRoot + "obdfilter/*/exports", procRoot + "obdfilter/*/exports",
				debugRoot + "mdt/*/exports", procRoot + "mdt/*/exports"}},
		{Name: "export_stats", What: "operations of one client node on a target", Readable: rootOnly,
			Paths: []string{debugRoot + "obdfilter/*/exports/*/stats", procRoot + "obdfilter/*/exports/*/stats",
				debugRoot + "mdt/*/exports/*/stats", procRoot + "mdt/*/exports/*/stats"}},
		{Name: "brw_stats", What: "histograms of a target's disk I/O", Readable: rootOnly,
			Paths: []string{debugRoot + "osd-*/*/brw_stats", procRoot + "osd-*/*/brw_stats", procRoot + "obdfilter/*/brw_stats"},
			Note:  "obdfilter's is a link to the back end's, and gone in 2.17"},
		{Name: "osd_stats", What: "page cache counters of a target's back end", Readable: rootOnly,
			Paths: []string{debugRoot + "osd-*/*/stats", procRoot + "osd-*/*/stats"}},
		{Name: "kbytestotal", What: "size of a target, KiB", Readable: everybody, Paths: spacePaths("kbytestotal")},
		{Name: "kbytesfree", What: "free space of a target, KiB", Readable: everybody, Paths: spacePaths("kbytesfree")},
		{Name: "kbytesavail", What: "free space that users can fill, KiB", Readable: everybody, Paths: spacePaths("kbytesavail")},
		{Name: "filestotal", What: "inodes of a target", Readable: everybody, Paths: spacePaths("filestotal")},
		{Name: "filesfree", What: "free inodes of a target", Readable: everybody, Paths: spacePaths("filesfree")},
		{Name: "mntdev", What: "device or zfs dataset under a target", Readable: everybody,
			Paths: []string{sysRoot + "osd-*/*/mntdev", procRoot + "osd-*/*/mntdev"}},
		{Name: "nonrotational", What: "1 when a target's device does not rotate", Readable: everybody,
			Paths: []string{sysRoot + "osd-*/*/nonrotational", procRoot + "osd-*/*/nonrotational"}},
		{Name: "recovery_status", What: "state of recovery after a target's restart", Readable: rootOnly,
			Paths: []string{debugRoot + "obdfilter/*/recovery_status", procRoot + "obdfilter/*/recovery_status",
				debugRoot + "mdt/*/recovery_status", procRoot + "mdt/*/recovery_status"},
			Note: "in procfs and open to everybody up to 2.15"},
		{Name: "job_cleanup_interval", What: "seconds after which an idle job leaves job_stats; 0 is never", Readable: everybody,
			Paths: bothRoots("job_cleanup_interval")},
		{Name: "num_exports", What: "connections to a target", Readable: everybody, Paths: bothRoots("num_exports")},

		{Name: "service_stats", What: "requests of a ptlrpc service: waits, queue depth, time per opcode", Readable: rootOnly,
			Paths: servicePaths("stats", debugRoot, procRoot)},
		{Name: "nrs_policies", What: "request schedulers of a service, requests queued and in service", Readable: rootOnly,
			Paths: servicePaths("nrs_policies", debugRoot, procRoot), Since: "2.4"},
		{Name: "threads_started", What: "threads of a service", Readable: everybody,
			Paths: servicePaths("threads_started", sysRoot, procRoot)},
		{Name: "threads_max", What: "most threads that a service may start", Readable: everybody,
			Paths: servicePaths("threads_max", sysRoot, procRoot)},

		{Name: "pool", What: "OSTs of a pool", Readable: everybody,
			Paths: []string{procRoot + "lod/*/pools/*", procRoot + "lov/*/pools/*",
				debugRoot + "lod/*/pools/*", debugRoot + "lov/*/pools/*"},
			Note: "lod on a server with an MDT, lov on a client; an OSS without an MDT knows no pools"},
		{Name: "health_check", What: "healthy, or what is not", Readable: everybody,
			Paths: []string{sysRoot + "health_check", procRoot + "health_check"}},
		{Name: "health_devices", What: "devices that report themselves unhealthy", Readable: rootOnly,
			Paths: []string{debugRoot + "health_check"}},
		{Name: "version", What: "release", Readable: everybody,
			Paths: []string{sysRoot + "version", procRoot + "version"}},
		{Name: "jobid_var", What: "where this node takes job ids from: disable, nodelocal, session, procname_uid or an environment variable", Readable: everybody,
			Paths: []string{sysRoot + "jobid_var", procRoot + "jobid_var"}},
		{Name: "jobid_name", What: "format of job ids, or the id itself with nodelocal", Readable: everybody,
			Paths: []string{sysRoot + "jobid_name", procRoot + "jobid_name"}},
		{Name: "jobid_this_session", What: "job id of the reading session", Readable: everybody,
			Paths: []string{sysRoot + "jobid_this_session"}},
		{Name: "enable_stats_header", What: "1 when stats print start_time and elapsed_time", Readable: everybody, Since: "2.16",
			Paths: []string{sysRoot + "enable_stats_header"}},
		{Name: "llite_stats", What: "calls of a client mount", Readable: rootOnly,
			Paths: []string{debugRoot + "llite/*/stats", procRoot + "llite/*/stats"}},
		{Name: "import", What: "connection of a client's device to its target", Readable: rootOnly,
			Paths: importPaths("import", debugRoot, procRoot), Note: "in procfs and open to everybody up to 2.11"},
		{Name: "import_state", What: "state of that connection and its last 16 changes", Readable: rootOnly,
			Paths: importPaths("state", debugRoot, procRoot)},
		{Name: "server_uuid", What: "target of that connection, its state, DEACTIVATED", Readable: rootOnly,
			Paths: importPaths("server_uuid", debugRoot, procRoot)},
		{Name: "import_active", What: "0 when that connection is deactivated", Readable: everybody,
			Paths: importPaths("active", sysRoot, procRoot)},
		{Name: "devices", What: "devices of this node", Readable: rootOnly,
			Paths: []string{debugRoot + "devices", procRoot + "devices"}, Note: "lctl dl tells it to everybody"},
	}
}

// spacePaths: what obdfilter tells is the users' view, with grants taken off the
// space available; an MDT has only its OSD's.
func spacePaths(file string) []string {
	return []string{
		sysRoot + "obdfilter/*/" + file, procRoot + "obdfilter/*/" + file,
		sysRoot + "osd-*/*/" + file, procRoot + "osd-*/*/" + file,
		procRoot + "mdt/*/" + file,
	}
}

func bothRoots(file string) []string {
	return []string{
		sysRoot + "obdfilter/*/" + file, procRoot + "obdfilter/*/" + file,
		sysRoot + "mdt/*/" + file, procRoot + "mdt/*/" + file,
	}
}

func servicePaths(file string, roots ...string) []string {
	var p []string
	for _, dir := range serviceDirs {
		for _, root := range roots {
			p = append(p, root+dir+"/*/"+file)
		}
	}
	return p
}

// LookupParam gives the row of that name.
func LookupParam(name string) (Param, bool) {
	for _, p := range Params() {
		if p.Name == name {
			return p, true
		}
	}
	return Param{}, false
}

// Found is one file of a parameter.
type Found struct {
	Target string // what the first "*" stands for; "" in a pattern without one
	Item   string // what the second stands for: NID, pool
	Path   string
	Err    error // why it cannot be read, nil when it can: fs.ErrPermission
}

// Find looks for a parameter's files on this machine, anew at each call. Each
// target (and item) is told once: where several places have it, the first that
// can be read and is not empty counts. A file that may not be read is told with
// its error. Where nothing is found the error is fs.ErrPermission when a
// directory on the way may not be looked into, else fs.ErrNotExist.
func Find(fsys fs.FS, name string) ([]Found, error) {
	p, ok := LookupParam(name)
	if !ok {
		return nil, fmt.Errorf("find %s: no such parameter in the table", name)
	}
	type key struct{ dir, target, item string }
	best := make(map[key]int)
	var found []Found
	var ranks []int
	var denied error
	for _, pattern := range p.Paths {
		matches, err := expand(fsys, pattern)
		if err != nil && denied == nil {
			denied = err
		}
		for _, f := range matches {
			var rank int
			if rank, f.Err = probe(fsys, f.Path); rank == probeMissing {
				continue
			}
			k := key{foundDir(p, pattern), f.Target, f.Item}
			i, seen := best[k]
			switch {
			case !seen:
				best[k] = len(found)
				found, ranks = append(found, f), append(ranks, rank)
			case rank > ranks[i]:
				found[i], ranks[i] = f, rank
			}
		}
	}
	switch {
	case len(found) > 0:
		slices.SortStableFunc(found, func(a, b Found) int {
			return strings.Compare(a.Target+"\x00"+a.Item, b.Target+"\x00"+b.Item)
		})
		return found, nil
	case denied != nil:
		return nil, fmt.Errorf("find %s: %w", name, denied)
	}
	return nil, fmt.Errorf("find %s: %w", name, fs.ErrNotExist)
}

// foundDir tells same-named items apart: services of OSS and MDS are different
// things, the same target under two trees is not.
func foundDir(p Param, pattern string) string {
	for _, dir := range serviceDirs {
		if strings.Contains(pattern, "/"+dir+"/*/") {
			return dir
		}
	}
	return ""
}

// What probe finds, from useless to useful.
const (
	probeMissing = iota
	probeEmpty   // a link's leftover, or nothing to tell
	probeDenied  // the real thing, perhaps: better told than hidden by an empty one
	probeReadable
)

// probe tells what a file is worth, by reading a little: in procfs, sysfs and
// debugfs a file's size says nothing. A directory counts as readable when it can be listed.
func probe(fsys fs.FS, name string) (int, error) {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrPermission) {
		return probeDenied, err
	}
	if err != nil {
		return probeMissing, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.IsDir() {
		return probeReadable, nil
	}
	var b [16]byte
	n, err := f.Read(b[:])
	switch {
	case n > 0:
		return probeReadable, nil
	case err == nil || errors.Is(err, io.EOF):
		return probeEmpty, nil
	case errors.Is(err, fs.ErrNotExist):
		return probeMissing, err
	}
	return probeDenied, err
}

// expand gives the files that a pattern may stand for; the last elements are not
// checked to exist. The error is the first directory that may not be listed.
func expand(fsys fs.FS, pattern string) ([]Found, error) {
	list := []Found{{Path: "."}}
	var denied error
	for _, elem := range strings.Split(pattern, "/") {
		if !strings.HasSuffix(elem, "*") {
			for i := range list {
				list[i].Path = path.Join(list[i].Path, elem)
			}
			continue
		}
		var next []Found
		for _, f := range list {
			entries, err := fs.ReadDir(fsys, f.Path)
			if errors.Is(err, fs.ErrPermission) && denied == nil {
				denied = err
			}
			for _, e := range entries {
				if !strings.HasPrefix(e.Name(), elem[:len(elem)-1]) {
					continue
				}
				m := f
				m.Path = path.Join(f.Path, e.Name())
				if elem == "*" {
					if m.Target == "" {
						m.Target = e.Name()
					} else {
						m.Item = e.Name()
					}
				}
				next = append(next, m)
			}
		}
		list = next
	}
	return list, denied
}

// TargetInfo is an OST or MDT of this server and where its files are. A path is
// "" where the system has no such file, or hides it: then Denied is not empty.
type TargetInfo struct {
	Name string             // "lustre-OST0000"
	Kind ioguard.TargetKind // OST or MDT, by the directory it was found in
	OSD  string             // "osd-zfs", "osd-ldiskfs"; "" where unknown

	JobStats           string
	Stats              string // OST: obdfilter's stats, MDT: md_stats
	Exports            string // directory
	BRWStats           string
	OSDStats           string
	KBytesTotal        string
	KBytesFree         string
	KBytesAvail        string
	FilesTotal         string
	FilesFree          string
	MntDev             string
	NonRotational      string
	RecoveryStatus     string
	JobCleanupInterval string
	NumExports         string

	Denied []string // directories that may not be listed: files may be hidden in them
}

// targetFields couples rows of the table with fields of TargetInfo.
func targetFields(t *TargetInfo) []struct {
	param string
	path  *string
} {
	return []struct {
		param string
		path  *string
	}{
		{"job_stats", &t.JobStats}, {"stats", &t.Stats}, {"exports", &t.Exports},
		{"brw_stats", &t.BRWStats}, {"osd_stats", &t.OSDStats},
		{"kbytestotal", &t.KBytesTotal}, {"kbytesfree", &t.KBytesFree}, {"kbytesavail", &t.KBytesAvail},
		{"filestotal", &t.FilesTotal}, {"filesfree", &t.FilesFree},
		{"mntdev", &t.MntDev}, {"nonrotational", &t.NonRotational},
		{"recovery_status", &t.RecoveryStatus},
		{"job_cleanup_interval", &t.JobCleanupInterval}, {"num_exports", &t.NumExports},
	}
}

// Targets lists the OSTs and MDTs of this server, sorted by name, with their
// files, anew at each call: targets come and go with failover. It lists
// directories and opens a file only where two places offer the same thing. A
// machine without targets gives fs.ErrNotExist, or fs.ErrPermission when none of
// the trees may be listed.
func Targets(fsys fs.FS) ([]TargetInfo, error) {
	w := newTargetWalk(fsys)
	byName := make(map[string]int)
	var targets []TargetInfo
	for _, class := range []struct {
		dir  string
		kind ioguard.TargetKind
	}{{"obdfilter", ioguard.OST}, {"mdt", ioguard.MDT}} {
		for _, root := range []string{procRoot, sysRoot, debugRoot} {
			for name, dir := range w.list(root + class.dir) {
				// procfs holds plain files such as num_refs beside the targets,
				// and up to 2.3 "mdt/MDS" is a service.
				if _, seen := byName[name]; seen || !dir || name == "MDS" {
					continue
				}
				byName[name] = len(targets)
				targets = append(targets, TargetInfo{Name: name, Kind: class.kind})
			}
		}
	}
	rows := targetRows()
	for i := range targets {
		w.resolve(&targets[i], rows)
	}
	switch {
	case len(targets) > 0:
		slices.SortFunc(targets, func(a, b TargetInfo) int { return strings.Compare(a.Name, b.Name) })
		return targets, nil
	case len(w.denied) > 0:
		return nil, fmt.Errorf("find targets: list %s: %w", w.denied[0], fs.ErrPermission)
	}
	return nil, fmt.Errorf("find targets: %w", fs.ErrNotExist)
}

// targetRow is a path of the table cut at its target: "proc/fs/lustre/", "osd-*", "mntdev".
type targetRow struct {
	param             string
	root, class, file string
}

func targetRows() []targetRow {
	wanted := make(map[string]bool)
	for _, f := range targetFields(&TargetInfo{}) {
		wanted[f.param] = true
	}
	var rows []targetRow
	for _, p := range Params() {
		if !wanted[p.Name] {
			continue
		}
		for _, pattern := range p.Paths {
			dir, file, _ := strings.Cut(pattern, "/*/")
			root, class := path.Split(dir)
			rows = append(rows, targetRow{p.Name, root, class, file})
		}
	}
	return rows
}

// targetWalk lists each directory at most once per call of Targets.
type targetWalk struct {
	fsys   fs.FS
	lists  map[string]map[string]bool // directory -> name -> may be a directory
	osds   []string                   // "osd-zfs", ... over all trees
	denied []string
}

func newTargetWalk(fsys fs.FS) *targetWalk {
	w := &targetWalk{fsys: fsys, lists: make(map[string]map[string]bool)}
	for _, root := range []string{procRoot, sysRoot, debugRoot} {
		for name := range w.list(strings.TrimSuffix(root, "/")) {
			if strings.HasPrefix(name, "osd-") && !slices.Contains(w.osds, name) {
				w.osds = append(w.osds, name)
			}
		}
	}
	slices.Sort(w.osds)
	return w
}

// list gives the names in a directory, and whether each may be a directory
// itself; none when it cannot be listed.
func (w *targetWalk) list(dir string) map[string]bool {
	if l, ok := w.lists[dir]; ok {
		return l
	}
	if parent, ok := w.lists[path.Dir(dir)]; ok && parent == nil {
		return nil
	}
	entries, err := fs.ReadDir(w.fsys, dir)
	if errors.Is(err, fs.ErrPermission) {
		w.denied = append(w.denied, dir)
	}
	var l map[string]bool
	if len(entries) > 0 {
		l = make(map[string]bool, len(entries))
		for _, e := range entries {
			l[e.Name()] = e.IsDir() || e.Type()&fs.ModeSymlink != 0
		}
	}
	w.lists[dir] = l
	return l
}

// has reports whether a directory holds a name, looking only into directories that exist.
func (w *targetWalk) has(dir, name string) bool {
	_, ok := w.list(dir)[name]
	return ok
}

func (w *targetWalk) resolve(t *TargetInfo, rows []targetRow) {
	own := "obdfilter"
	if t.Kind == ioguard.MDT {
		own = "mdt"
	}
	for _, osd := range w.osds {
		for _, root := range []string{procRoot, sysRoot, debugRoot} {
			if w.has(root+osd, t.Name) {
				t.OSD = osd
			}
		}
	}
	for _, f := range targetFields(t) {
		rank := probeMissing
		for _, row := range rows {
			class := row.class
			if class == "osd-*" {
				class = t.OSD
			}
			if row.param != f.param || class == "" || (row.class != "osd-*" && class != own) {
				continue
			}
			dir := row.root + class
			if !w.has(dir, t.Name) || !w.has(dir+"/"+t.Name, row.file) {
				continue
			}
			found := dir + "/" + t.Name + "/" + row.file
			if *f.path == "" {
				*f.path = found
				continue
			}
			// Two places offer it: only now is it worth opening them.
			if rank == probeMissing {
				rank, _ = probe(w.fsys, *f.path)
			}
			if rank == probeReadable {
				break
			}
			if r, _ := probe(w.fsys, found); r > rank {
				*f.path, rank = found, r
			}
		}
	}
	t.Denied = slices.Clone(w.denied)
}

package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ioguard"
)

// Snapshot names one host at one time of a recording.
type Snapshot struct {
	Host string
	Time time.Time
}

// Dir is the folder of a snapshot in a recording, HOST/UNIX-TIME, with as many
// decimals as the time has but at least three.
func (s Snapshot) Dir() string {
	frac := strings.TrimRight(fmt.Sprintf("%09d", s.Time.Nanosecond()), "0")
	for len(frac) < 3 {
		frac += "0"
	}
	return fmt.Sprintf("%s/%d.%s", s.Host, s.Time.Unix(), frac)
}

// parseUnixTime reads seconds since 1970 with up to nine decimals, exactly.
func parseUnixTime(s string) (time.Time, bool) {
	whole, frac, dot := strings.Cut(s, ".")
	if whole == "" || len(whole) > 12 || len(frac) > 9 || dot && frac == "" {
		return time.Time{}, false
	}
	for _, c := range whole + frac {
		if c < '0' || c > '9' {
			return time.Time{}, false
		}
	}
	sec, _ := strconv.ParseInt(whole, 10, 64)
	nsec, _ := strconv.ParseInt((frac + "000000000")[:9], 10, 64)
	return time.Unix(sec, nsec).UTC(), true
}

// found is a snapshot and the folder that holds it.
type found struct {
	Snapshot
	dir string
}

// snapshotsIn lists the snapshots of HOST/UNIX-TIME folders in dir. Anything else
// beside them (labels.json, a recorder's log) is passed over.
func snapshotsIn(fsys fs.FS, dir string) ([]found, error) {
	hosts, err := fs.ReadDir(fsys, dir)
	if err != nil {
		return nil, err
	}
	var out []found
	for _, h := range hosts {
		if !h.IsDir() {
			continue
		}
		times, err := fs.ReadDir(fsys, path.Join(dir, h.Name()))
		if err != nil {
			return nil, err
		}
		for _, t := range times {
			if at, ok := parseUnixTime(t.Name()); ok && t.IsDir() {
				out = append(out, found{Snapshot{h.Name(), at}, path.Join(dir, h.Name(), t.Name())})
			}
		}
	}
	return out, nil
}

// locate finds the folder of a tree in which the hosts are, which may be the tree
// itself or its one top folder. name is what a tree of bare UNIX-TIME folders is
// called. Without any snapshot it gives none and no error.
func locate(fsys fs.FS, name string) ([]found, string, error) {
	all, err := snapshotsIn(fsys, ".")
	if err != nil || len(all) > 0 {
		return all, ".", err
	}
	tops, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, "", err
	}
	base := ""
	for _, t := range tops {
		if !t.IsDir() {
			continue
		}
		if at, ok := parseUnixTime(t.Name()); ok {
			all, base = append(all, found{Snapshot{name, at}, t.Name()}), "."
			continue
		}
		in, err := snapshotsIn(fsys, t.Name())
		if err != nil {
			return nil, "", err
		}
		if len(in) == 0 {
			continue
		}
		if base != "" {
			return nil, "", ioguard.WithHint(
				fmt.Errorf("holds several recordings, %s and %s among them", base, t.Name()), "name one of them")
		}
		all, base = in, t.Name()
	}
	return all, base, nil
}

// isMachine reports whether a folder is the root of one host at one time.
func isMachine(fsys fs.FS, dir string) bool {
	for _, d := range []string{"proc", "sys", "commands"} {
		if st, err := fs.Stat(fsys, path.Join(dir, d)); err == nil && st.IsDir() {
			return true
		}
	}
	return false
}

// Recording is hosts over time. It is safe for concurrent use until Close.
type Recording struct {
	fsys     fs.FS
	base     string
	byHost   map[string][]found // by time
	problems []string
	close    func() error
}

// OpenRecording opens a folder, .tar or .tar.zst that holds HOST/UNIX-TIME/...,
// bare or in one top folder. An archive is unpacked into an unlinked temporary
// file; above 16 GiB it is refused, as is one with symlinks or names that lead out
// of it. Of an archive that is cut short the whole snapshots are kept, and
// Problems says what was lost.
func OpenRecording(name string) (*Recording, error) {
	r, err := openRecording(name)
	if err != nil {
		return nil, fmt.Errorf("open recording %s: %w", name, withoutPath(err))
	}
	return r, nil
}

func openRecording(name string) (*Recording, error) {
	t, err := openTree(name)
	if err != nil {
		return nil, err
	}
	r := &Recording{fsys: t.fsys, problems: t.problems, close: t.close}
	if err := r.index(name, t.cutAfter); err != nil {
		t.close()
		return nil, err
	}
	return r, nil
}

// withoutPath shortens an error of the file itself, which the caller names.
func withoutPath(err error) error {
	if pe, ok := err.(*fs.PathError); ok {
		return pe.Err
	}
	return err
}

// opened is a tree of files on disk or in an archive.
type opened struct {
	fsys     fs.FS
	cutAfter string
	problems []string
	close    func() error
}

func openTree(name string) (opened, error) {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return opened{}, err
	case st.IsDir():
		f, err := openFolder(name)
		if err != nil {
			return opened{}, err
		}
		return opened{fsys: f, close: func() error { return errors.Join(f.base.Close(), f.root.Close()) }}, nil
	case !st.Mode().IsRegular():
		return opened{}, ioguard.WithHint(errNotRegular, recordingHint)
	}
	a, err := openArchive(name, archiveLimit)
	if err != nil {
		return opened{}, err
	}
	return opened{a.tree, a.cutAfter, a.problems, a.Close}, nil
}

func (r *Recording) index(name, cutAfter string) error {
	if isMachine(r.fsys, ".") {
		return ioguard.WithHint(errors.New("is one machine, not a recording"),
			"give it as --machine, or name the folder above HOST/UNIX-TIME")
	}
	all, base, err := locate(r.fsys, baseName(name))
	if err != nil {
		return err
	}
	if cutAfter != "" {
		all = r.dropCut(all, path.Clean(cutAfter))
	}
	if len(all) == 0 {
		err := errors.New("holds no snapshot")
		if len(r.problems) > 0 {
			err = fmt.Errorf("holds no whole snapshot: %s", r.problems[len(r.problems)-1])
		}
		return ioguard.WithHint(err, recordingHint)
	}
	r.base, r.byHost = base, map[string][]found{}
	for _, f := range all {
		r.byHost[f.Host] = append(r.byHost[f.Host], f)
	}
	for _, l := range r.byHost {
		slices.SortStableFunc(l, func(a, b found) int { return a.Time.Compare(b.Time) })
	}
	return nil
}

// dropCut leaves out the snapshot in which the archive ended: half a server looks
// like targets that went away.
func (r *Recording) dropCut(all []found, last string) []found {
	return slices.DeleteFunc(all, func(f found) bool {
		if last != f.dir && !strings.HasPrefix(last, f.dir+"/") {
			return false
		}
		r.problems = append(r.problems, fmt.Sprintf("snapshot %s is incomplete and left out", f.dir))
		return true
	})
}

// baseName is the file's or folder's name without the endings of archives.
func baseName(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		name = abs
	}
	name = filepath.Base(name)
	return strings.TrimSuffix(strings.TrimSuffix(name, ".zst"), ".tar")
}

// Hosts lists the recorded hosts by name.
func (r *Recording) Hosts() []string {
	out := make([]string, 0, len(r.byHost))
	for h := range r.byHost {
		out = append(out, h)
	}
	slices.Sort(out)
	return out
}

// Snapshots lists a host's snapshots by time; none for a host that is not there.
func (r *Recording) Snapshots(host string) []Snapshot {
	out := make([]Snapshot, 0, len(r.byHost[host]))
	for _, f := range r.byHost[host] {
		out = append(out, f.Snapshot)
	}
	return out
}

// Machine is the host as it was at a snapshot. It reads until the Recording is
// closed. A snapshot that is not in the recording is a machine without files.
func (r *Recording) Machine(s Snapshot) *Host {
	l := r.byHost[s.Host]
	i, ok := slices.BinarySearchFunc(l, s.Time, func(f found, t time.Time) int { return f.Time.Compare(t) })
	if !ok {
		return recorded(s, &tree{root: &node{name: ".", size: -1}})
	}
	return recorded(s, sub(r.fsys, l[i].dir))
}

// Labels is labels.json from beside the hosts: which jobs ran and who was the
// offender. It is fs.ErrNotExist where the recording has none.
func (r *Recording) Labels() ([]byte, error) {
	h := Host{FS: r.fsys}
	return h.ReadFile(path.Join(r.base, "labels.json"))
}

// Problems says in words what of the recording could not be read.
func (r *Recording) Problems() []string { return slices.Clone(r.problems) }

// Close frees the recording; its machines cannot be read any more.
func (r *Recording) Close() error { return r.close() }

// sub is fs.Sub for a folder that is known to exist.
func sub(fsys fs.FS, dir string) fs.FS {
	s, err := fs.Sub(fsys, dir)
	if err != nil {
		return &tree{root: &node{name: ".", size: -1}}
	}
	return s
}

var epoch = time.Unix(0, 0).UTC()

package doctor

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"ioguard/host"
	"ioguard/slurm"
)

// Hooks are the programs that Slurm's configuration names, by the setting.
type Hooks map[string][]HookFile

// HookFile is one program of a setting.
type HookFile struct {
	Path  string
	Calls bool  // it calls ioguard
	Err   error // why it was not read; fs.ErrNotExist where it is not on this machine
}

// hookSettings are the settings that are followed.
var hookSettings = []string{"Prolog", "Epilog", "TaskProlog", "HealthCheckProgram"}

// readHooks follows the settings to the files. Programs that root runs and that are
// not root's, or no plain files, are not opened.
func readHooks(h *host.Host, site *Site, c *slurm.Config) (Hooks, error) {
	hooks := Hooks{}
	for _, setting := range hookSettings {
		for _, pattern := range c.List(setting) {
			if !path.IsAbs(pattern) { // newer releases: beside slurm.conf
				pattern = path.Join(path.Dir(c.Values["SLURM_CONF"]), pattern)
			}
			hooks[setting] = append(hooks[setting], readHook(h, site, path.Clean(pattern))...)
		}
	}
	return hooks, nil
}

// maxHookFiles bounds how many programs of a pattern are read.
const maxHookFiles = 100

func readHook(h *host.Host, site *Site, pattern string) []HookFile {
	if !path.IsAbs(pattern) {
		return []HookFile{{Path: pattern, Err: fmt.Errorf("%q is no absolute path", pattern)}}
	}
	if h.Time.IsZero() {
		if err := site.avoidLustre(h, plainPart(pattern)); err != nil {
			return []HookFile{{Path: pattern, Err: err}}
		}
	}
	names, err := h.Glob(strings.TrimPrefix(pattern, "/"))
	if len(names) == 0 {
		if err == nil {
			err = fs.ErrNotExist
		}
		return []HookFile{{Path: pattern, Err: err}}
	}
	var files []HookFile
	for _, name := range names[:min(len(names), maxHookFiles)] {
		f := HookFile{Path: "/" + name}
		f.Calls, f.Err = callsIOGuard(h, site, name)
		files = append(files, f)
	}
	return files
}

// plainPart is the part of a pattern before its first wildcard.
func plainPart(pattern string) string {
	if i := strings.IndexAny(pattern, `*?[\`); i >= 0 {
		return path.Dir(pattern[:i] + "x")
	}
	return pattern
}

func callsIOGuard(h *host.Host, site *Site, name string) (bool, error) {
	live := h.Time.IsZero()
	if live {
		if err := site.avoidLustre(h, "/"+name); err != nil {
			return false, err
		}
	}
	st, err := fs.Stat(h.FS, name)
	if err != nil {
		return false, err
	}
	if !st.Mode().IsRegular() {
		return false, fmt.Errorf("it is no plain file (%v)", st.Mode())
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok && live && sys.Uid != 0 {
		return false, fmt.Errorf("it belongs to uid %d, not to root: whoever that is decides what root runs", sys.Uid)
	}
	if live && st.Mode().Perm()&0o111 == 0 {
		return false, fmt.Errorf("it is not executable")
	}
	b, err := h.ReadFile(name)
	if err != nil {
		return false, err
	}
	return strings.Contains(path.Base(name), "ioguard") && !isScript(b) || mentions(b), nil
}

// isScript tells a script, whose text counts, from a program, whose name does.
func isScript(b []byte) bool { return bytes.HasPrefix(b, []byte("#!")) }

// mentions tells whether ioguard stands in a line that is no comment.
func mentions(b []byte) bool {
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if !bytes.HasPrefix(line, []byte("#")) && bytes.Contains(line, []byte("ioguard")) {
			return true
		}
	}
	return false
}

// calls tells whether one of a setting's programs calls ioguard, and which.
func (h Hooks) calls(setting string) (file string, ok bool) {
	i := slices.IndexFunc(h[setting], func(f HookFile) bool { return f.Calls })
	if i < 0 {
		return "", false
	}
	return h[setting][i].Path, true
}

package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/shlex"
	"golang.org/x/tools/txtar"

	"ioguard"
)

// OpenMachine opens a machine: "/" is the live one; a folder, .tar or .tar.zst is
// a recorded one, with proc, sys or commands at its top or as the only
// HOST/UNIX-TIME in it. Close it when done.
func OpenMachine(name string) (*Host, error) {
	if name != "" && filepath.Clean(name) == "/" {
		return Local(), nil
	}
	t, err := openTree(name)
	if err != nil {
		return nil, fmt.Errorf("open machine %s: %w", name, withoutPath(err))
	}
	h, err := oneMachine(t.fsys, name)
	if err == nil && t.cutAfter != "" {
		err = ioguard.WithHint(errors.New(strings.Join(t.problems, "; ")), "copy the archive again, or record it anew")
	}
	if err != nil {
		t.close()
		return nil, fmt.Errorf("open machine %s: %w", name, err)
	}
	h.close = t.close
	return h, nil
}

// Txtar is a machine from a txtar archive, for tests: its files by real path
// without the leading slash, commands/NAME/{cmd,stdout,stderr,status}, all bare or
// under HOST/UNIX-TIME. A bare one is named by its proc/sys/kernel/hostname, else
// "machine", and its time is the epoch.
func Txtar(data []byte) (*Host, error) {
	b := newBuilder()
	var content []byte
	for _, f := range txtar.Parse(data).Files {
		err := checkName(f.Name)
		if err == nil {
			err = b.file(f.Name, int64(len(content)), int64(len(f.Data)), 0)
		}
		if err != nil {
			return nil, fmt.Errorf("read txtar: %w", err)
		}
		content = append(content, f.Data...)
	}
	t, err := b.tree(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("read txtar: %w", err)
	}
	h, err := oneMachine(t, "machine")
	if err != nil {
		return nil, fmt.Errorf("read txtar: %w", err)
	}
	return h, nil
}

// oneMachine finds the one host at one time in a tree.
func oneMachine(fsys fs.FS, name string) (*Host, error) {
	if isMachine(fsys, ".") {
		return recorded(bareSnapshot(fsys, name), fsys), nil
	}
	all, _, err := locate(fsys, baseName(name))
	if err != nil {
		return nil, err
	}
	switch {
	case len(all) == 1:
		return recorded(all[0].Snapshot, sub(fsys, all[0].dir)), nil
	case len(all) > 1:
		return nil, ioguard.WithHint(fmt.Errorf("is a recording of %d snapshots, not one machine", len(all)),
			"unpack it and name one folder HOST/UNIX-TIME, or use a command that reads recordings")
	}
	if top := topMachine(fsys); top != "" {
		in := sub(fsys, top)
		return recorded(bareSnapshot(in, top), in), nil
	}
	return nil, ioguard.WithHint(errors.New("holds no machine"),
		"a machine is a folder, .tar or .tar.zst with proc, sys or commands in it")
}

// topMachine is the only folder of a tree that is a machine, "" where there is not just one.
func topMachine(fsys fs.FS) string {
	entries, _ := fs.ReadDir(fsys, ".")
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() || !isMachine(fsys, e.Name()) })
	if len(entries) != 1 {
		return ""
	}
	return entries[0].Name()
}

// bareSnapshot guesses the host and time of a machine that stands alone: from its
// path where that ends in HOST/UNIX-TIME, else from its recorded host name and
// the age of its folder.
func bareSnapshot(fsys fs.FS, name string) Snapshot {
	if abs, err := filepath.Abs(name); err == nil {
		if t, ok := parseUnixTime(filepath.Base(abs)); ok {
			return Snapshot{filepath.Base(filepath.Dir(abs)), t}
		}
	}
	s := Snapshot{baseName(name), epoch}
	if st, err := fs.Stat(fsys, "."); err == nil && st.ModTime().Unix() > 0 {
		s.Time = st.ModTime().UTC()
	}
	h := Host{FS: fsys}
	if b, err := h.ReadFile("proc/sys/kernel/hostname"); err == nil && len(bytes.TrimSpace(b)) > 0 {
		s.Host = string(bytes.TrimSpace(b))
	}
	return s
}

// recorded is a Host that answers from files.
func recorded(s Snapshot, fsys fs.FS) *Host {
	a := &answers{fsys: fsys}
	h := newHost(s.Host, fsys, a.run)
	h.Time = s.Time
	if h.Time.IsZero() {
		h.Time = epoch
	}
	return h
}

// answers looks recorded commands up. The folder's name is for people; what was
// run is in its file cmd.
type answers struct {
	fsys fs.FS
	once sync.Once
	list []recordedCommand
	err  error
}

type recordedCommand struct {
	words []string
	dir   string
}

func (a *answers) load() {
	dirs, err := fs.ReadDir(a.fsys, "commands")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.err = err
	}
	h := Host{FS: a.fsys}
	for _, d := range dirs {
		dir := path.Join("commands", d.Name())
		b, err := h.ReadFile(path.Join(dir, "cmd"))
		if err != nil {
			continue // not a command
		}
		if words := commandWords(string(b)); len(words) > 0 {
			a.list = append(a.list, recordedCommand{words, dir})
		}
	}
}

// commandWords splits a command line as a shell does, without the folder of the
// program; nil where the quotes do not close.
func commandWords(line string) []string {
	words, err := shlex.Split(line)
	if err != nil || len(words) == 0 {
		return nil
	}
	words[0] = path.Base(words[0])
	return words
}

func notRecorded(name string, args []string) error {
	return fmt.Errorf("run %s: the command was not recorded: %w", commandLine(name, args), fs.ErrNotExist)
}

func (a *answers) run(ctx context.Context, name string, args ...string) (Answer, error) {
	failed := Answer{Status: -1}
	if err := ctx.Err(); err != nil {
		return failed, fmt.Errorf("run %s: %w", commandLine(name, args), err)
	}
	if err := permit(name, args); err != nil {
		return failed, err
	}
	a.once.Do(a.load)
	if a.err != nil {
		return failed, fmt.Errorf("run %s: %w", commandLine(name, args), a.err)
	}
	words := append([]string{path.Base(name)}, args...)
	for _, c := range a.list {
		if slices.Equal(c.words, words) {
			return a.answer(c.dir, commandLine(name, args))
		}
	}
	return failed, notRecorded(name, args)
}

// answer reads what was recorded of a command. A missing stdout, stderr or status
// is empty, empty and 0; a status that is no number is a command that never ended.
func (a *answers) answer(dir, command string) (Answer, error) {
	h := Host{FS: a.fsys}
	ans := Answer{Status: -1}
	var status []byte
	for _, f := range []struct {
		name string
		to   *[]byte
	}{{"stdout", &ans.Stdout}, {"stderr", &ans.Stderr}, {"status", &status}} {
		b, err := h.ReadFile(path.Join(dir, f.name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ans, fmt.Errorf("run %s: %w", command, err)
		}
		*f.to = b
	}
	text := strings.TrimSpace(string(status))
	n, err := strconv.Atoi(text)
	switch {
	case text == "" || err == nil && n == 0:
		ans.Status = 0
		return ans, nil
	case err == nil && n > 0 && n <= 255:
		ans.Status = n
		return ans, &CommandError{Command: command, Status: n, Stderr: string(ans.Stderr)}
	}
	return ans, &CommandError{Command: command, Status: -1, Stderr: string(ans.Stderr), TimedOut: true,
		Err: context.DeadlineExceeded}
}

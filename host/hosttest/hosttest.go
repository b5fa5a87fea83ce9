// Package hosttest changes recorded machines in one thing, so that tests can ask what
// becomes of a verdict then. Only tests import it.
package hosttest

import (
	"context"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing/fstest"

	"ioguard/host"
)

// edited is a machine with edits on top: files by their path ("" takes one away).
type edited struct {
	fs.FS
	files map[string]string
}

func (e edited) Open(name string) (fs.File, error) {
	if text, ok := e.files[name]; ok {
		if text == "" {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return fstest.MapFS{name: {Data: []byte(text)}}.Open(name)
	}
	return e.FS.Open(name)
}

func (e edited) ReadFile(name string) ([]byte, error) {
	f, err := e.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func (e edited) Stat(name string) (fs.FileInfo, error) {
	f, err := e.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

func (e edited) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(e.FS, name)
	entries = slices.DeleteFunc(entries, func(d fs.DirEntry) bool {
		return e.files[path.Join(name, d.Name())] == "" && e.has(path.Join(name, d.Name()))
	})
	added := fstest.MapFS{}
	for file, text := range e.files {
		if rest, below := strings.CutPrefix(file, name+"/"); below && text != "" {
			added[rest] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	more, _ := fs.ReadDir(added, ".")
	for _, d := range more {
		if !slices.ContainsFunc(entries, func(old fs.DirEntry) bool { return old.Name() == d.Name() }) {
			entries = append(entries, d)
		}
	}
	if len(more) > 0 {
		err = nil
	}
	return entries, err
}

func (e edited) has(name string) bool { _, ok := e.files[name]; return ok }

// With puts edits on a machine: files by their path ("" takes one away), and answers of
// commands by their words. An answer that begins with "FAIL " is one with exit status 1.
func With(h *host.Host, files, commands map[string]string) *host.Host {
	return &host.Host{Name: h.Name, Time: h.Time, FS: edited{h.FS, files}, Run: func(ctx context.Context, name string, args ...string) ([]byte, error) {
		if text, ok := commands[strings.Join(append([]string{name}, args...), " ")]; ok {
			if status, failed := strings.CutPrefix(text, "FAIL "); failed {
				return []byte(status), &host.CommandError{Command: name, Status: 1, Stderr: status}
			}
			return []byte(text), nil
		}
		return h.Run(ctx, name, args...)
	}}
}

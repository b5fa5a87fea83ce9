package lfs

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// fixtureMachine gives a recorded machine of testdata as a file system.
func fixtureMachine(t testing.TB, name string) fs.FS {
	t.Helper()
	ar, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	fsys, err := txtar.FS(ar)
	if err != nil {
		t.Fatal(err)
	}
	return fsys
}

// fixtureFile gives one file of a recorded machine.
func fixtureFile(t testing.TB, fsys fs.FS, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fixtureSamples gives a folder of third-party samples, which are not part of the
// repository; without them the test is skipped.
func fixtureSamples(t testing.TB, dir string) string {
	t.Helper()
	for _, up := range []string{"../../shared/samples/", "../shared/samples/"} {
		if _, err := os.Stat(up + dir); err == nil {
			return up + dir
		}
	}
	t.Skip("no samples here")
	return ""
}

// fixtureBad is input that no parser may trip over.
func fixtureBad() map[string]string {
	return map[string]string{
		"empty":         "",
		"newlines":      "\n\n\n",
		"binary":        "\x00\xff\xfe samples [\x01] \x80\n%|%\n:::\n\x00",
		"one long line": strings.Repeat("x", 1<<20),
		"long samples":  strings.Repeat(" samples", 1<<17),
		"long numbers":  "x " + strings.Repeat("9", 1<<20) + " samples [reqs]\n1:" + strings.Repeat("9", 1<<20) + "|0\n",
		"only blanks":   strings.Repeat(" ", 1<<16),
	}
}

// fixtureDenied hides whole trees, as debugfs does from ordinary users, or
// single files.
type fixtureDenied struct {
	fs.FS
	prefixes []string
}

func (d fixtureDenied) denied(name string) bool {
	for _, p := range d.prefixes {
		if name == p || strings.HasPrefix(name, p+"/") {
			return true
		}
	}
	return false
}

func (d fixtureDenied) Open(name string) (fs.File, error) {
	if d.denied(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

// fixtureLctl cuts an `lctl get_param` dump into parameters and their text.
func fixtureLctl(text string) map[string]string {
	params := make(map[string]string)
	name := ""
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, "=")
		if ok && !strings.ContainsAny(key, " \t{:") {
			name = key
			params[name] = ""
			if line = strings.TrimPrefix(value, "\n"); line == "" {
				continue
			}
		}
		params[name] += line
	}
	return params
}

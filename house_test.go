package ioguard_test

import (
	"bytes"
	"errors"
	"go/ast"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/module"
)

func TestEveryPackageHasAComment(t *testing.T) {
	comments := map[string]int{}
	for _, s := range goSources(t) {
		if s.test && comments[s.pkg] == 0 {
			continue
		}
		comments[s.pkg] += 0
		if s.file.Doc != nil {
			comments[s.pkg]++
		}
	}
	for pkg, n := range comments {
		if n != 1 {
			t.Errorf("%s: %d files have a package comment, want 1", pkg, n)
		}
	}
}

// TestRuleFolders: a rule never comes without its tests.
func TestRuleFolders(t *testing.T) {
	const dir = "policy/default"
	rules, err := os.ReadDir(dir)
	if err != nil || len(rules) == 0 {
		t.Fatalf("%d rules: %v", len(rules), err)
	}
	for _, rule := range rules {
		var names []string
		files, err := os.ReadDir(path.Join(dir, rule.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			names = append(names, f.Name())
		}
		if !slices.Equal(names, []string{"policy.yaml", "tests.yaml"}) {
			t.Errorf("%s/%s holds %v, want policy.yaml and tests.yaml", dir, rule.Name(), names)
		}
	}
}

// TestPaths: one file with a colon or an asterisk in its name, as sysfs has many,
// and the module cannot be fetched any more. Such files go into txtar archives.
func TestPaths(t *testing.T) {
	walkRepository(t, func(name string, d fs.DirEntry) {
		if err := module.CheckFilePath(name); err != nil {
			t.Error(err)
		}
		if !d.IsDir() && !d.Type().IsRegular() {
			t.Errorf("%s is no regular file, so it is not in the module", name)
		}
	})
}

// TestNoLooseEnds: what is to be done stands in one place outside the code, or is done.
func TestNoLooseEnds(t *testing.T) {
	words := []string{"TO" + "DO", "FIX" + "ME", "X" + "XX"}
	walkRepository(t, func(name string, d fs.DirEntry) {
		if d.IsDir() || !isText(name) {
			return
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range bytes.Split(data, []byte("\n")) {
			for _, w := range words {
				if bytes.Contains(line, []byte(w)) {
					t.Errorf("%s:%d: %s", name, i+1, bytes.TrimSpace(line))
				}
			}
		}
	})
}

func isText(name string) bool {
	return slices.Contains([]string{".go", ".md", ".yaml", ".sql", ".sh"}, path.Ext(name)) || path.Base(name) == "Makefile" || name == ".ci/run"
}

// fuzzedThrough are parsers that a fuzz target reaches by a longer way, or that
// need none.
var fuzzedThrough = map[string]string{
	"proc.ParseDiskstats":    "FuzzDiff",
	"proc.ParseTargetMounts": "FuzzMapTargets",
	"proc.ParseZpoolStatus":  "FuzzMapTargets",
}

// TestParsersAreFuzzed: each exported parser of a reader is called by a fuzz target.
func TestParsersAreFuzzed(t *testing.T) {
	layers := layersOf(t)
	parsers, fuzz := map[string][]string{}, map[string]string{}
	for _, s := range goSources(t) {
		if layers[s.pkg].number != 2 {
			continue
		}
		if s.test {
			data, err := os.ReadFile(s.path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(data, []byte("\nfunc Fuzz")) {
				fuzz[s.pkg] += string(data)
			}
			continue
		}
		parsers[s.pkg] = append(parsers[s.pkg], parsersOf(s)...)
	}
	if len(parsers["lfs"]) == 0 || len(fuzz) == 0 {
		t.Fatalf("no parser or no fuzz target found: %v", parsers)
	}
	for pkg, names := range parsers {
		for _, name := range names {
			through := fuzzedThrough[pkg+"."+name]
			if !strings.Contains(fuzz[pkg], name+"(") && (through == "" || strings.HasPrefix(through, "Fuzz") && !strings.Contains(fuzz[pkg], through+"(")) {
				t.Errorf("%s.%s has no fuzz target", pkg, name)
			}
		}
	}
}

// parsersOf are the exported functions of a file that are called Parse-something.
func parsersOf(s *source) []string {
	var names []string
	for _, decl := range s.file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Parse") {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

// TestTargetsOfTheDocuments: every `make x` that a document speaks of is there.
func TestTargetsOfTheDocuments(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "changelog/README.md", ".ci/run"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range makeTargets(string(text)) {
			n++
			if !bytes.Contains(makefile, []byte("\n"+target+":")) {
				t.Errorf("%s: make %s: no such target", name, target)
			}
		}
	}
	if n == 0 {
		t.Error("no document says `make ...`")
	}
}

// TestREADMEShowsWhatIsPrinted runs the commands of README.md's sample and looks
// for its lines in what they print.
func TestREADMEShowsWhatIsPrinted(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "ioguard")
	if out, err := exec.Command("go", "build", "-o", binary, "./cmd/ioguard").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	printed, n := "", 0
	for line := range strings.Lines(string(readme)) {
		line, sample := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    ")
		command, run := strings.CutPrefix(line, "$ ioguard ")
		switch {
		case !sample:
			printed = ""
		case run:
			cmd := exec.Command(binary, strings.Fields(strings.ReplaceAll(command, "demo.db", filepath.Join(dir, "demo.db")))...)
			cmd.Env = append(os.Environ(), "TZ=UTC", "IOGUARD_CONFIG="+os.DevNull)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) { // 1 is a finding
				t.Fatalf("ioguard %s: %v\n%s", command, err, out)
			}
			printed, n = string(out), n+1
		case printed != "" && !strings.Contains(printed, line+"\n"):
			t.Errorf("README.md shows %q, but printed is\n%s", line, printed)
		}
	}
	if n != 3 {
		t.Errorf("%d commands in README.md's sample, want 3", n)
	}
}

// makeTargets are the words behind "make " in code, that is behind a backquote,
// four blanks or the begin of a line.
func makeTargets(text string) []string {
	var targets []string
	for line := range strings.Lines(text) {
		for _, begin := range []string{"`make ", "    make ", "exec make "} {
			for _, rest := range strings.Split(line, begin)[1:] {
				end := strings.IndexFunc(rest, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' })
				if end > 0 {
					targets = append(targets, rest[:end])
				}
			}
		}
	}
	return targets
}

// TestChangelog: one file per change that a user sees, named NNNN-what.md.
func TestChangelog(t *testing.T) {
	entries, err := os.ReadDir("changelog/unreleased")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		number, _, ok := strings.Cut(e.Name(), "-")
		if !ok || len(number) != 4 || strings.Trim(number, "0123456789") != "" || path.Ext(e.Name()) != ".md" {
			t.Errorf("changelog/unreleased/%s: want NNNN-what.md", e.Name())
		}
		text, err := os.ReadFile(path.Join("changelog/unreleased", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if title, body, _ := strings.Cut(string(text), "\n\n"); strings.Contains(title, "\n") || len(strings.TrimSpace(body)) < 20 {
			t.Errorf("changelog/unreleased/%s: want a line, an empty line, and what it means for a user", e.Name())
		}
	}
}

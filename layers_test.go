package ioguard_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// self is the module, as go.mod names it.
const self = "ioguard"

// layer is a row of ARCHITECTURE.md's table, for one package.
type layer struct {
	pkg     string // folder, "." for the root
	number  int
	machine string // yes, given, no
	clock   bool
	log     bool
}

// readLayers reads the table, so that what a newcomer reads is what is enforced.
func readLayers(text string) (map[string]layer, error) {
	layers := map[string]layer{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		number, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil {
			continue // not a row of this table
		}
		if len(cells) != 6 {
			return nil, fmt.Errorf("%d cells, want 6: %s", len(cells), line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		l := layer{number: number, machine: cells[3], clock: cells[4] == "yes", log: cells[5] == "yes"}
		if !slices.Contains([]string{"yes", "given", "no"}, l.machine) || !yesNo(cells[4]) || !yesNo(cells[5]) {
			return nil, fmt.Errorf("a cell is neither yes nor no: %s", line)
		}
		for _, name := range strings.Fields(cells[1]) {
			l.pkg = strings.Trim(name, "`")
			if l.pkg == self {
				l.pkg = "."
			}
			if _, twice := layers[l.pkg]; twice {
				return nil, fmt.Errorf("%s stands twice", l.pkg)
			}
			layers[l.pkg] = l
		}
	}
	return layers, nil
}

func yesNo(s string) bool { return s == "yes" || s == "no" }

// source is a parsed Go file.
type source struct {
	path string // from the root of the repository
	pkg  string // its folder
	test bool
	file *ast.File
	fset *token.FileSet
}

// imports gives the files' imports, and the name each is used by.
func (s *source) imports() map[string]string {
	all := map[string]string{}
	for _, i := range s.file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		all[p] = name
	}
	return all
}

// named tells the names in a list from others.
func named(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

// uses lists where the file names those of a package's things, as "file:line: pkg.Name".
func (s *source) uses(pkg string, which func(name string) bool) []string {
	local, ok := s.imports()[pkg]
	if !ok {
		return nil
	}
	var found []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && which(sel.Sel.Name) {
			found = append(found, fmt.Sprintf("%s: %s.%s", s.fset.Position(n.Pos()), local, sel.Sel.Name))
		}
		return true
	})
	return found
}

// walkRepository visits the files that are the project's own.
func walkRepository(t *testing.T, visit func(name string, d fs.DirEntry)) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == ".git" || name == "bin") {
			return fs.SkipDir
		}
		if name != "." {
			visit(filepath.ToSlash(name), d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func goSources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	walkRepository(t, func(name string, d fs.DirEntry) {
		if d.IsDir() || path.Ext(name) != ".go" {
			return
		}
		s := &source{path: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), fset: token.NewFileSet()}
		var err error
		if s.file, err = parser.ParseFile(s.fset, name, nil, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	})
	if len(all) < 20 {
		t.Fatalf("found %d Go files: is this the root of the repository?", len(all))
	}
	return all
}

func layersOf(t *testing.T) map[string]layer {
	t.Helper()
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	layers, err := readLayers(string(text))
	if err != nil {
		t.Fatalf("ARCHITECTURE.md: %v", err)
	}
	return layers
}

func TestEveryPackageHasALayer(t *testing.T) {
	layers, found := layersOf(t), map[string]bool{}
	for _, s := range goSources(t) {
		found[s.pkg] = true
	}
	for pkg := range found {
		if _, ok := layers[pkg]; !ok {
			t.Errorf("%s is not in ARCHITECTURE.md's table: which layer is it of?", pkg)
		}
	}
	for pkg := range layers {
		if !found[pkg] {
			t.Errorf("ARCHITECTURE.md's table has %s, which holds no Go file", pkg)
		}
	}
}

func TestLayers(t *testing.T) {
	layers := layersOf(t)
	for _, s := range goSources(t) {
		if s.test {
			continue
		}
		for _, problem := range breaches(s, layers) {
			t.Error(problem)
		}
	}
}

// owners are libraries that one package hides from all others.
var owners = []struct{ library, pkg string }{
	{"database/sql", "store"},
	{"github.com/mattn/go-sqlite3", "store"},
	{"cel.dev/cel-go", "policy"},
	{"github.com/urfave/cli", "cmd/ioguard"},
	{"github.com/klauspost/compress", "host"},
	{"github.com/prometheus/procfs", "proc"},
}

// mayAlso are the packages that share an owner's library, with the reason.
var mayAlso = map[string]string{
	"collect github.com/klauspost/compress": "the recorder writes the archives that host reads",
	"ib github.com/prometheus/procfs":       "proc reads /proc through it, ib the class infiniband",
}

// starting are the packages that may start processes: to ask, to probe, to act, and for tests.
var starting = []string{"host", "probe", "action", "bench", "slurm/slurmtest"}

// forTests are packages that only tests (and bench) may import.
var forTests = []string{"host/hosttest", "lfs/lfstest", "slurm/slurmtest", "bench/nodetest"}

// touching are the packages by which code gets at the machine that it runs on.
var touching = []string{"os", "os/signal", "os/user", "path/filepath", "io/ioutil", "net", "net/http"}

// notErrno are the names of package syscall but its error numbers, which pure
// code compares with too.
func notErrno(name string) bool {
	return !strings.HasPrefix(name, "E") || strings.ToUpper(name) != name
}

// breaches are the ways in which a file breaks the rules of its layer.
func breaches(s *source, layers map[string]layer) []string {
	me, ok := layers[s.pkg]
	if !ok {
		return nil // TestEveryPackageHasALayer says so
	}
	var out []string
	complain := func(format string, args ...any) {
		out = append(out, s.path+": "+fmt.Sprintf(format, args...))
	}
	for imported := range s.imports() {
		if imported == self || strings.HasPrefix(imported, self+"/") {
			pkg := strings.TrimPrefix(strings.TrimPrefix(imported, self), "/")
			if pkg == "" {
				pkg = "."
			}
			other, known := layers[pkg]
			switch {
			case !known:
				complain("imports %s, which has no layer", imported)
			case other.number >= me.number:
				complain("layer %d imports %s of layer %d", me.number, imported, other.number)
			case pkg == "host" && me.machine == "no":
				complain("is pure and imports host")
			case slices.Contains(forTests, pkg) && s.pkg != "bench":
				complain("%s is for tests", pkg)
			}
			continue
		}
		if me.number == 0 && strings.Contains(imported, ".") {
			complain("the root imports the standard library only, not %s", imported)
		}
		if me.machine != "yes" && slices.Contains(touching, imported) {
			complain("imports %s, but may not touch the machine", imported)
		}
		if !me.log && (imported == "github.com/hashicorp/go-hclog" || imported == "log" || imported == "log/slog") {
			complain("imports %s, but may not log: return the error", imported)
		}
		if imported == "regexp" && me.number < 4 {
			complain("imports regexp: parsers here are written by hand")
		}
		for _, o := range owners {
			if strings.HasPrefix(imported, o.library) && s.pkg != o.pkg && mayAlso[s.pkg+" "+o.library] == "" {
				complain("imports %s, which only %s knows", imported, o.pkg)
			}
		}
	}
	if !me.clock {
		out = append(out, s.uses("time", named("Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"))...)
	}
	if me.machine != "yes" {
		out = append(out, s.uses("syscall", notErrno)...)
		out = append(out, s.uses("golang.org/x/sys/unix", notErrno)...)
	}
	if !slices.Contains(starting, s.pkg) {
		out = append(out, s.uses("os/exec", named("Command", "CommandContext", "LookPath"))...)
		out = append(out, s.uses("os", named("StartProcess"))...)
		out = append(out, s.uses("syscall", named("Exec", "ForkExec", "StartProcess"))...)
	}
	slices.Sort(out)
	return out
}

// TestBreaches shows that each rule can be broken.
func TestBreaches(t *testing.T) {
	layers, err := readLayers(`
| layer | packages | what they are | machine | clock | log |
|---|---|---|---|---|---|
| 0 | ` + "`ioguard`" + ` | root | no | no | no |
| 1 | ` + "`host`" + ` | door | yes | yes | no |
| 1 | ` + "`series` `view`" + ` | sums | no | no | no |
| 2 | ` + "`lfs`" + ` | reader | given | no | no |
| 2 | ` + "`policy`" + ` | rules | no | no | no |
| 3 | ` + "`store`" + ` | records | yes | no | no |
`)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ pkg, code, want string }{
		{"series", `import "ioguard/lfs"`, "layer 1 imports ioguard/lfs of layer 2"},
		{"series", `import "ioguard/view"`, "layer 1 imports ioguard/view of layer 1"},
		{"series", `import "ioguard/nosuch"`, "has no layer"},
		{"policy", `import "ioguard/host"`, "is pure and imports host"},
		{"lfs", `import "ioguard/host"`, ""},
		{"policy", `import "os"`, "may not touch the machine"},
		{"lfs", `import "path/filepath"`, "may not touch the machine"},
		{"lfs", `import "syscall"; var _ = syscall.Stat`, "syscall.Stat"},
		{"lfs", `import "syscall"; var _ = syscall.ENOTDIR`, ""},
		{"store", `import "os"`, ""},
		{"store", `import "os/exec"; var _ = exec.Command`, "exec.Command"},
		{"lfs", `import "os/exec"; var _ *exec.ExitError`, ""},
		{"policy", `import clock "time"; var _ = clock.Now()`, "clock.Now"},
		{"policy", `import "time"; var _ time.Duration`, ""},
		{"host", `import "time"; var _ = time.Now()`, ""},
		{".", `import "github.com/google/shlex"`, "standard library only"},
		{"store", `import "github.com/hashicorp/go-hclog"`, "may not log"},
		{"lfs", `import "regexp"`, "written by hand"},
		{"host", `import "database/sql"`, "which only store knows"},
	}
	for _, tt := range tests {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x\n"+tt.code+"\n", 0)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(breaches(&source{path: "x.go", pkg: tt.pkg, file: file, fset: fset}, layers), "\n")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s\n got %q\nwant %q", tt.pkg, tt.code, got, tt.want)
		}
	}
}

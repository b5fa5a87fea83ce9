package policy

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"sync"
)

// The names of the files in a rule's folder.
const (
	RuleFile  = "policy.yaml"
	TestsFile = "tests.yaml"
)

// Policy is a set of rules, one per code, in the order of their codes.
type Policy struct {
	Rules []*Rule
}

// Rule gives the rule of a code, or nil.
func (p *Policy) Rule(code string) *Rule {
	for _, r := range p.Rules {
		if r.Code == code {
			return r
		}
	}
	return nil
}

// With is p with a site's rules laid over it: a rule of the same code replaces,
// a disabled one removes, another is added. Neither p nor site changes.
func (p *Policy) With(site *Policy) *Policy {
	out := &Policy{}
	for _, r := range p.Rules {
		if site.Rule(r.Code) == nil {
			out.Rules = append(out.Rules, r)
		}
	}
	for _, r := range site.Rules {
		if !r.Disabled {
			out.Rules = append(out.Rules, r)
		}
	}
	out.sort()
	return out
}

func (p *Policy) sort() {
	sort.Slice(p.Rules, func(i, j int) bool { return p.Rules[i].Code < p.Rules[j].Code })
}

//go:embed default
var defaultFiles embed.FS

// DefaultFS holds the folders of the built-in rules.
func DefaultFS() fs.FS {
	sub, err := fs.Sub(defaultFiles, "default")
	if err != nil {
		panic("policy: " + err.Error()) // "default" is a valid path
	}
	return sub
}

// Default is the built-in policy. Its rules are shared: do not change them.
func Default() *Policy {
	p, err := builtin()
	if err != nil { // a test loads it, so a build with a bad rule does not pass
		panic("policy: built-in rules: " + err.Error())
	}
	return &Policy{Rules: append([]*Rule(nil), p.Rules...)}
}

// builtin compiles a condition when it is first evaluated: a test has checked them.
var builtin = sync.OnceValues(func() (*Policy, error) { return loadWith(DefaultFS(), compileLater) })

// Load reads every policy.yaml in a tree; each stands in a folder of its own,
// named after the rule's code, with its tests.yaml. The error is Problems where
// the files are wrong, and another where they cannot be read.
func Load(fsys fs.FS) (*Policy, error) { return loadWith(fsys, compileNow) }

func loadWith(fsys fs.FS, compile compiler) (*Policy, error) {
	p, problems, err := load(fsys, compile)
	if err != nil {
		return nil, err
	}
	if err := problems.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// Check is Load that reads the tests too, without running them.
func Check(fsys fs.FS) (*Policy, error) {
	p, problems, err := load(fsys, compileNow)
	if err != nil {
		return nil, err
	}
	files, err := find(fsys, TestsFile)
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		data, err := readFile(fsys, name)
		if err != nil {
			return nil, err
		}
		_, testProblems := parseTests(name, data)
		problems = append(problems, testProblems...)
	}
	if err := problems.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// load gives the rules that are right, and the problems of the others.
func load(fsys fs.FS, compile compiler) (*Policy, Problems, error) {
	files, err := find(fsys, RuleFile)
	if err != nil {
		return nil, nil, err
	}
	p := &Policy{}
	var problems Problems
	byCode := map[string]string{}
	for _, name := range files {
		data, err := readFile(fsys, name)
		if err != nil {
			return nil, nil, err
		}
		r, fileProblems := loadRule(fsys, name, data, compile)
		problems = append(problems, fileProblems...)
		if r == nil || r.Code == "" {
			continue
		}
		if first, twice := byCode[r.Code]; twice {
			problems = append(problems, &Problem{File: name, Line: 1, Column: 1, Rule: r.Code,
				Message: fmt.Sprintf("code %q is already that of %s", r.Code, first)})
			continue
		}
		byCode[r.Code] = name
		if len(fileProblems) == 0 {
			p.Rules = append(p.Rules, r)
		}
	}
	p.sort()
	return p, problems, nil
}

// loadRule reads a rule and looks at its folder.
func loadRule(fsys fs.FS, name string, data []byte, compile compiler) (*Rule, Problems) {
	d := &document{file: name}
	r := parseRule(d, data, compile)
	if r == nil || r.Code == "" {
		return r, d.problems
	}
	if dir := path.Base(path.Dir(name)); dir != "." && dir != r.Code {
		d.problem(place{1, 1}, "name the folder "+r.Code, "folder %q holds the rule %q", dir, r.Code)
	}
	if _, err := fs.Stat(fsys, path.Join(path.Dir(name), TestsFile)); err != nil && !r.Disabled {
		d.problem(place{}, "write "+path.Join(path.Dir(name), TestsFile)+" with a case that fires and one that does not",
			"rule %q has no tests", r.Code)
	}
	return r, d.problems
}

// find lists the files of a name in a tree, in order.
func find(fsys fs.FS, base string) ([]string, error) {
	var names []string
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path.Base(name) == base && !e.IsDir() {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	return names, nil
}

// readFile reads at most a little over the limit, which the parser refuses.
func readFile(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("read rules: %s has %d bytes, more than %d", name, info.Size(), maxFile)
	}
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read rules: %w", err)
	}
	return data, nil
}

// IsInvalid reports whether an error says that rule or test files are wrong, not
// that they could not be read.
func IsInvalid(err error) bool {
	var ps Problems
	return errors.As(err, &ps)
}

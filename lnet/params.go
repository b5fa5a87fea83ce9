package lnet

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Params are parameters of kernel modules: module, parameter, value.
type Params map[string]map[string]string

// modules are LNet's core and its drivers.
var modules = []string{"lnet", "libcfs", "ksocklnd", "ko2iblnd", "kkfilnd", "kgnilnd", "kptl4lnd", "kefalnd"}

// paramLimit bounds a value, in bytes; sysfs gives a page at most.
const paramLimit = 64 << 10

// ReadParams reads /sys/module/MODULE/parameters of the modules that are loaded;
// none of them is fs.ErrNotExist. What could be read comes also with an error
// that names what could not.
func ReadParams(fsys fs.FS) (Params, error) {
	p := Params{}
	var errs []error
	for _, module := range modules {
		dir := "sys/module/" + module + "/parameters"
		entries, err := fs.ReadDir(fsys, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
		}
		values := map[string]string{}
		p[module] = values
		for _, e := range entries {
			v, err := readParam(fsys, dir+"/"+e.Name())
			if err != nil {
				errs = append(errs, err)
				continue
			}
			values[e.Name()] = v
		}
	}
	if len(p) == 0 && len(errs) == 0 {
		return nil, fmt.Errorf("read module parameters: no module of LNet in /sys/module: %w", fs.ErrNotExist)
	}
	if err := errors.Join(errs...); err != nil {
		return p, fmt.Errorf("read module parameters: %w", err)
	}
	return p, nil
}

func readParam(fsys fs.FS, name string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, paramLimit+1))
	if err != nil {
		return "", err
	}
	if len(b) > paramLimit {
		return "", fmt.Errorf("read %s: more than %d bytes", name, paramLimit)
	}
	return string(bytes.Trim(b, " \t\r\n\x00")), nil
}

// Difference is a parameter that is not as it is wanted.
type Difference struct {
	Module, Param string
	Want, Have    string
	Missing       bool // the module is not loaded, or has no such parameter; Have is ""
}

// Differ compares with the parameters that are wanted, and looks at no others.
// Blanks around separators, quotes around the whole, the way to write a truth
// value or a number make no difference. The order is by module and parameter.
func (p Params) Differ(want Params) []Difference {
	var out []Difference
	for module, params := range want {
		for param, value := range params {
			have, ok := p[module][param]
			if !ok || !sameParam(have, value) {
				out = append(out, Difference{module, param, value, have, !ok})
			}
		}
	}
	slices.SortFunc(out, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Module, b.Module), cmp.Compare(a.Param, b.Param))
	})
	return out
}

func sameParam(a, b string) bool {
	a, b = plainParam(a), plainParam(b)
	if a == b {
		return true
	}
	x, okX := parseBool(a)
	y, okY := parseBool(b)
	if okX && okY {
		return x == y
	}
	n, okN := paramNumber(a)
	m, okM := paramNumber(b)
	return okN && okM && n == m
}

// plainParam removes what does not matter.
func plainParam(s string) string {
	s = strings.TrimSpace(s)
	for len(s) > 1 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		s = strings.TrimSpace(s[1 : len(s)-1])
	}
	words := strings.Fields(s)
	out := make([]byte, 0, len(s))
	for _, w := range words {
		const separators = ",;()"
		if len(out) > 0 && !strings.ContainsRune(separators, rune(out[len(out)-1])) && !strings.ContainsRune(separators, rune(w[0])) {
			out = append(out, ' ')
		}
		out = append(out, w...)
	}
	return string(out)
}

// paramNumber takes decimal and 0x; a leading 0 is no octal.
func paramNumber(s string) (int64, bool) {
	base := 10
	if h, ok := strings.CutPrefix(strings.ToLower(s), "0x"); ok {
		s, base = h, 16
	}
	n, err := strconv.ParseInt(s, base, 64)
	return n, err == nil
}

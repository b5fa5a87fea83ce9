package lnet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// plainTree is a tree as the library would give it, with all scalars as text. It
// reports false where the two may differ: flow, null in words, keys that stand
// twice or are no text (the library makes "null" of ~ and 16 of 0x10), and an item
// without a value (the library takes the key of the next line into it, even where
// that stands at the column of the dash and so belongs to what is around).
func plainTree(n *node) (any, bool) {
	switch n.kind {
	case null:
		return nil, true
	case plain:
		return n.value, !n.isNull()
	case quoted:
		return n.value, true
	case mapping:
		m, same := map[string]any{}, true
		for e := n.first; e != nil; e = e.next {
			if _, twice := m[e.key]; twice {
				same = false
			}
			v, ok := plainTree(e)
			m[e.key], same = v, same && ok && isTextKey(e.key)
		}
		return m, same
	case sequence:
		l, same := []any{}, true
		for e := n.first; e != nil; e = e.next {
			v, ok := plainTree(e)
			l, same = append(l, v), same && ok && v != nil
		}
		return l, same
	}
	return n.value, false
}

func isTextKey(key string) bool {
	v, ok := library([]byte(key))
	return ok && v != nil && fmt.Sprint(v) == key
}

func TestTree(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want any
	}{
		"empty":    {"", nil},
		"comments": {"# a\n\n  # b\n", nil},
		"dashes below the key, and right of it": {"a:\n- x: 1\n  y:\n  - z\nb:\n    - 2\n", map[string]any{
			"a": []any{map[string]any{"x": "1", "y": []any{"z"}}}, "b": []any{"2"}}},
		"null between":      {"a:\nb:\n  c:\nd: 1\n", map[string]any{"a": nil, "b": map[string]any{"c": nil}, "d": "1"}},
		"null at the end":   {"a:\n  b:\n", map[string]any{"a": map[string]any{"b": nil}}},
		"keys with blanks":  {"local NI(s):\n-     nid: 2001:db8::1@tcp\n", map[string]any{"local NI(s)": []any{map[string]any{"nid": "2001:db8::1@tcp"}}}},
		"quotes":            {`a: "x: \"y\" # z\n"` + "\n'b c': 'it''s' # so\nd: ! \"e\"\n", map[string]any{"a": "x: \"y\" # z\n", "b c": "it's", "d": "e"}},
		"comment behind":    {"a: b # c\nd: e#f\n", map[string]any{"a": "b", "d": "e#f"}},
		"colon in a value":  {"descr: cannot: do it\n", map[string]any{"descr": "cannot: do it"}},
		"line ends of DOS":  {"a: 1\r\nb:\r\n  - 2\r\n", map[string]any{"a": "1", "b": []any{"2"}}},
		"document marks":    {"---\na: 1\n...\n", map[string]any{"a": "1"}},
		"two documents":     {"a: 1\n---\nb: 2\n", map[string]any{"a": "1", "b": "2"}},
		"dash alone":        {"-\n  a: 1\n-\n- b\n", []any{map[string]any{"a": "1"}, nil, "b"}},
		"flow as it stands": {"CPT: [0,1]\n", map[string]any{"CPT": "[0,1]"}},
	} {
		root, err := parseTree([]byte(tc.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, _ := plainTree(root)
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestTreeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"no key":              "a\n",
		"tab":                 "a:\n\tb: 1\n",
		"too far right":       "a: 1\n  b: 2\n",
		"too far left":        "  a: 1\n b: 2\n",
		"mixed":               "a: 1\n- b\n",
		"mixed below":         "x:\n  a: 1\n  - b\n",
		"two kinds of roots":  "a: 1\n---\n- b\n",
		"open quotes":         "a: \"b\n",
		"behind quotes":       "a: \"b\" c\n",
		"escape":              `a: "\q"` + "\n",
		"anchor":              "a: &b 1\n",
		"alias":               "a: *b\n",
		"tag":                 "a: !!str 1\n",
		"block":               "a: |\n  b\n",
		"complex key":         "? a\n",
		"flow key":            "{a}: 1\n",
		"sequence in one row": "- - a\n",
		"control character":   "a: \x00\n",
		"not UTF-8":           "a: \xff\n",
		"deep":                strings.Repeat("-\n", 1) + deep(40),
	} {
		if root, err := parseTree([]byte(text)); err == nil {
			v, _ := plainTree(root)
			t.Errorf("%s: %v", name, v)
		}
	}
}

func deep(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%*s-\n", i+1, "")
	}
	return b.String()
}

// library is what goccy/go-yaml makes of a text, with all scalars as text. It
// reports false where the text is outside of what both can tell.
func library(b []byte) (v any, ok bool) {
	defer func() {
		if recover() != nil { // the library's own trouble
			ok = false
		}
	}()
	var items any
	if err := yaml.UnmarshalWithOptions(b, &items, yaml.UseOrderedMap()); err != nil {
		return nil, false
	}
	return items, true
}

// sameAsLibrary compares by kind and by text; numbers and truth values, which the
// library has read already, by what they are in YAML.
func sameAsLibrary(ours, theirs any) bool {
	switch o := ours.(type) {
	case nil:
		return theirs == nil
	case map[string]any:
		m, ok := theirs.(yaml.MapSlice)
		if !ok || len(m) != len(o) {
			return false
		}
		for _, e := range m {
			v, has := o[fmt.Sprint(e.Key)]
			if !has || !sameAsLibrary(v, e.Value) {
				return false
			}
		}
		return true
	case []any:
		l, ok := theirs.([]any)
		if !ok || len(l) != len(o) {
			return false
		}
		for i := range l {
			if !sameAsLibrary(o[i], l[i]) {
				return false
			}
		}
		return true
	case string:
		text, isText := theirs.(string)
		if isText {
			return text == o
		}
		var again any
		return yaml.Unmarshal([]byte(o), &again) == nil && fmt.Sprint(again) == fmt.Sprint(theirs)
	}
	return false
}

func TestTreeAgainstLibrary(t *testing.T) {
	n := 0
	for _, archive := range []string{"client-healthy-2.17.0", "client-link-cut-2.17.0", "answers-2.17.0", "shaped"} {
		for name, b := range texts(t, archive) {
			root, err := parseTree(b)
			if err != nil {
				continue
			}
			ours, comparable := plainTree(root)
			theirs, ok := library(b)
			if !comparable || !ok {
				continue
			}
			n++
			if !sameAsLibrary(ours, theirs) {
				t.Errorf("%s %s: %v\nthe library says %v", archive, name, ours, theirs)
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d texts compared", n)
	}
}

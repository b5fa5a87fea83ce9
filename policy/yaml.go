package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFile bounds a rule or test file, in bytes. A longer one is an error, not cut.
const maxFile = 256 << 10

// document is one YAML file being read. Its methods report what is wrong and go
// on, so that one reading finds everything.
type document struct {
	file     string
	source   string
	lines    [][]rune // of source, split when the first position is asked for
	problems Problems
}

func (d *document) problem(at place, hint, format string, args ...any) {
	d.problems = append(d.problems, &Problem{
		File: d.file, Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...), Hint: hint,
	})
}

// place is a position in the file, both parts from 1; 0 is unknown.
type place struct{ line, column int }

func placeOf(tk *token.Token) place {
	if tk == nil || tk.Position == nil {
		return place{}
	}
	return place{tk.Position.Line, max(1, tk.Position.Column)}
}

// parse gives the body of the file's only document; nil after a problem.
func (d *document) parse(data []byte) (body ast.Node) {
	if len(data) > maxFile {
		d.problem(place{}, "", "file has %d bytes, more than %d", len(data), maxFile)
		return nil
	}
	d.source = string(data)
	// The YAML parser has panicked on garbage before; a bad file must not end
	// the program that reads it.
	defer func() {
		if r := recover(); r != nil {
			d.problem(place{}, "", "cannot be read as YAML: %v", r)
			body = nil
		}
	}()
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		var ye yaml.Error
		if errors.As(err, &ye) {
			d.problem(placeOf(ye.GetToken()), "", "%s", ye.GetMessage())
		} else {
			d.problem(place{}, "", "%v", err)
		}
		return nil
	}
	for _, doc := range f.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			d.problem(d.start(doc.Body), "one file holds one rule", "second YAML document")
		default:
			body = doc.Body
		}
	}
	if body == nil {
		d.problem(place{1, 1}, "", "file is empty")
	}
	return body
}

// field is a key of a mapping with its value.
type field struct {
	at    place
	value ast.Node
}

// mapping reads a mapping whose keys must be among allowed.
func (d *document) mapping(n ast.Node, what string, allowed []string) map[string]field {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		d.problem(d.start(n), "keys are "+strings.Join(allowed, ", "), "%s must be a mapping (key: value)", what)
		return nil
	}
	fields := make(map[string]field, len(values))
	for _, mv := range values {
		key, ok := mv.Key.(*ast.StringNode)
		if !ok {
			d.problem(placeOf(mv.Key.GetToken()), "", "key in %s is not a plain word", what)
			continue
		}
		at := placeOf(key.Token)
		switch _, twice := fields[key.Value]; {
		case !contains(allowed, key.Value):
			d.problem(at, didYouMean(key.Value, allowed), "unknown key %q in %s", key.Value, what)
		case twice:
			d.problem(at, "", "key %q twice in %s", key.Value, what)
		default:
			fields[key.Value] = field{at, mv.Value}
		}
	}
	return fields
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// list reads a sequence; a single value stands for a list of one.
func (d *document) list(n ast.Node) []ast.Node {
	if s, ok := n.(*ast.SequenceNode); ok {
		return s.Values
	}
	return []ast.Node{n}
}

func (d *document) start(n ast.Node) place {
	if n == nil {
		return place{}
	}
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return placeOf(m.Values[0].Key.GetToken()) // a mapping's own token is its first colon
	}
	return placeOf(n.GetToken())
}

// text is a scalar with what is needed to point into it.
type text struct {
	value string
	at    place // where the scalar starts: its first character, quote or | sign
	block bool  // a | or > scalar: its text starts on the next line
	quote bool
	doc   *document
}

// scalar reads a string. Numbers and bools are taken as they are written.
func (d *document) scalar(n ast.Node, what string) (text, bool) {
	t := text{at: d.start(n), doc: d}
	switch n := n.(type) {
	case *ast.StringNode:
		t.value = n.Value
		t.quote = n.Token.Type == token.SingleQuoteType || n.Token.Type == token.DoubleQuoteType
	case *ast.LiteralNode:
		if n.Value != nil {
			t.value = n.Value.Value
		}
		t.at, t.block = placeOf(n.Start), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		t.value = n.GetToken().Value
	case *ast.NullNode:
		d.problem(t.at, "", "%s is empty", what)
		return text{}, false
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.problem(t.at, "a text that starts with &, * or ! needs quotes", "%s: YAML anchors, aliases and tags are not used here", what)
		return text{}, false
	default:
		d.problem(t.at, "", "%s must be a text", what)
		return text{}, false
	}
	if strings.TrimSpace(t.value) == "" {
		d.problem(t.at, "", "%s is empty", what)
		return text{}, false
	}
	return t, true
}

// place gives where the rune at an offset of the value stands in the file. The
// value and the source have the same characters that are not blank, in the same
// order, in every style of scalar (escapes in double quotes apart), so both are
// walked side by side.
func (t *text) place(offset int) place {
	d := t.doc
	if d.lines == nil {
		for _, l := range strings.Split(d.source, "\n") {
			d.lines = append(d.lines, []rune(strings.TrimSuffix(l, "\r")))
		}
	}
	c := cursor{d.lines, t.at.line - 1, t.at.column - 1}
	switch {
	case t.block:
		c = cursor{d.lines, t.at.line, 0}
	case t.quote:
		c.column++
	}
	last := t.at
	for i, r := range []rune(t.value) {
		if unicode.IsSpace(r) {
			if i >= offset {
				return last
			}
			continue
		}
		if !c.find(r) {
			return last
		}
		if i >= offset {
			return place{c.line + 1, c.column + 1}
		}
		c.column++
		last = place{c.line + 1, c.column + 1}
	}
	return last
}

// cursor walks the file's runes.
type cursor struct {
	lines        [][]rune
	line, column int
}

// find moves to the next r, over blanks and a few characters of an escape.
func (c *cursor) find(r rune) bool {
	for skipped := 0; c.line < len(c.lines); {
		if c.column >= len(c.lines[c.line]) {
			c.line, c.column = c.line+1, 0
			continue
		}
		at := c.lines[c.line][c.column]
		if at == r {
			return true
		}
		if !unicode.IsSpace(at) {
			if skipped++; skipped > 10 {
				return false
			}
		}
		c.column++
	}
	return false
}

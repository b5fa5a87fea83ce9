package lnet

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Why no YAML library: with goccy/go-yaml the answer of a client with 200 peers
// (270 KB) takes some 60 ms into an any, of which nothing is taken out yet; here
// the typed peers take 2.5 ms, and a prolog has a few ms in all. For net show of
// two nets alone (3 KB; 0.5 ms against 0.03 ms) the library would do. These are the
// best of twelve runs each on a busy machine of two cores, ratios of 25 and 15, by
// the medians 22 and 19; BenchmarkPeers200 and BenchmarkNetShow measure anew.
//
// What lnetctl prints is a small part of YAML: block mappings and sequences, one
// scalar per line. This parser takes that part and refuses the rest, but for two
// things that lnetctl does: a bare value may hold ": ", and a further document adds
// to the first. FuzzTree checks it against the library.

// kind is what stands behind a key or a dash.
type kind uint8

const (
	null     kind = iota // nothing: "lnd tunables:"
	plain                // a bare scalar
	quoted               // a string for sure
	flow                 // [0,1] or {}: kept as it stands, not looked into
	mapping              // entries have keys
	sequence             // entries have none
)

// node is an entry of a mapping or sequence, or the root.
type node struct {
	key, value  string
	kind        kind
	first, next *node // entries, in their order
}

// get finds an entry of a mapping; nil where there is none. Of several with the
// same key it is the first.
func (n *node) get(key string) *node {
	if n == nil || n.kind != mapping {
		return nil
	}
	for e := n.first; e != nil; e = e.next {
		if e.key == key {
			return e
		}
	}
	return nil
}

// items starts the walk over a sequence; nil where it is none.
func (n *node) items() *node {
	if n == nil || n.kind != sequence {
		return nil
	}
	return n.first
}

// isNull is an entry without a value, in each of YAML's ways.
func (n *node) isNull() bool {
	return n.kind == null || n.kind == plain && (n.value == "~" || n.value == "null")
}

// level is a container that further lines may add to.
type level struct {
	of     *node
	last   *node
	indent int // the column at which its entries begin; -1 while none has come
	floor  int // entries of one without an indent must begin right of this column
}

// maxDepth bounds nesting: lnetctl has six levels.
const maxDepth = 32

type treeParser struct {
	slab  []node
	stack []level
}

// parseTree parses the part of YAML that lnetctl prints. An empty text is a root
// of kind null. Further documents add to the first.
func parseTree(b []byte) (*node, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("not UTF-8")
	}
	text := string(b)
	p := treeParser{slab: make([]node, 0, strings.Count(text, "\n")+strings.Count(text, "- ")+2), stack: make([]level, 0, 8)}
	root := p.node("")
	p.open(root, -1)
	for number := 1; text != ""; number++ {
		line, rest, _ := strings.Cut(text, "\n")
		text = rest
		if err := p.line(strings.TrimSuffix(line, "\r")); err != nil {
			return nil, fmt.Errorf("line %d: %w: %.60q", number, err, line)
		}
	}
	return root, nil
}

// node takes a node from the slab, which never moves: it holds one for the root,
// one for each line, and another for each "- key: value".
func (p *treeParser) node(key string) *node {
	p.slab = append(p.slab, node{key: key})
	return &p.slab[len(p.slab)-1]
}

func (p *treeParser) open(n *node, floor int) {
	p.stack = append(p.stack, level{of: n, indent: -1, floor: floor})
}

var (
	errIndent   = errors.New("indentation fits nothing above")
	errMixed    = errors.New("keys and dashes mixed")
	errNoKey    = errors.New("neither a key nor a dash")
	errDepth    = errors.New("nested too deep")
	errQuote    = errors.New("quotes do not close, or something behind them")
	errEscape   = errors.New("unknown escape in quotes")
	errOddYAML  = errors.New("more of YAML than is read here")
	errControl  = errors.New("control character")
	errTwoRoots = errors.New("documents of different kinds")
)

func (p *treeParser) line(s string) error {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f { // lnetctl prints tabs only where it explains its usage
			return errControl
		}
	}
	body := strings.TrimLeft(s, " ")
	indent := len(s) - len(body)
	switch {
	case body == "" || body[0] == '#':
		return nil
	case indent == 0 && (strings.TrimRight(s, " ") == "---" || strings.TrimRight(s, " ") == "..."):
		p.stack = p.stack[:1]
		return nil
	}
	dash := body == "-" || strings.HasPrefix(body, "- ")
	if err := p.close(indent, dash); err != nil {
		return err
	}
	if dash {
		return p.item(indent, body)
	}
	return p.entry(body)
}

// close ends the containers that a line at this column does not belong to, and
// settles what the innermost one is.
func (p *treeParser) close(indent int, dash bool) error {
	for len(p.stack) > 1 && !p.top().takes(indent, dash) {
		p.stack = p.stack[:len(p.stack)-1]
	}
	l, want := p.top(), mapping
	if dash {
		want = sequence
	}
	if l.indent < 0 {
		l.indent, l.of.kind = indent, want
	}
	switch {
	case l.indent != indent:
		return errIndent
	case l.of.kind != want && l.of.key == "" && len(p.stack) == 1:
		return errTwoRoots
	case l.of.kind != want:
		return errMixed
	}
	return nil
}

func (p *treeParser) top() *level { return &p.stack[len(p.stack)-1] }

// takes tells whether a line may belong to a container. The dashes of a sequence
// may stand below the key that holds it.
func (l *level) takes(indent int, dash bool) bool {
	if l.indent < 0 {
		return indent > l.floor || dash && indent == l.floor && l.of.key != ""
	}
	return indent > l.indent || indent == l.indent && (dash || l.of.kind == mapping)
}

func (p *treeParser) add(n *node) {
	l := p.top()
	if l.last == nil {
		l.of.first = n
	} else {
		l.last.next = n
	}
	l.last = n
}

// item takes "- key: value", "- value" and "-".
func (p *treeParser) item(indent int, body string) error {
	rest := strings.TrimLeft(body[1:], " ")
	n := p.node("")
	p.add(n)
	switch {
	case rest == "" || rest[0] == '#':
		p.open(n, indent)
		return p.depth()
	case rest == "-" || strings.HasPrefix(rest, "- "):
		return errOddYAML
	}
	if _, _, ok := cutKey(rest); !ok {
		return n.scalar(rest)
	}
	n.kind = mapping
	p.stack = append(p.stack, level{of: n, indent: indent + len(body) - len(rest)})
	return p.entry(rest)
}

// entry takes "key: value" and "key:".
func (p *treeParser) entry(body string) error {
	key, value, ok := cutKey(body)
	if !ok {
		return errNoKey
	}
	name := node{}
	if err := name.scalar(key); err != nil || name.kind == flow || name.kind == null {
		return errOddYAML
	}
	n := p.node(name.value)
	p.add(n)
	if value == "" || value[0] == '#' {
		p.open(n, p.top().indent)
		return p.depth()
	}
	return n.scalar(value)
}

func (p *treeParser) depth() error {
	if len(p.stack) > maxDepth {
		return errDepth
	}
	return nil
}

// cutKey splits at the first colon that a blank or the end follows; the colons of
// an IPv6 address are none.
func cutKey(s string) (key, value string, ok bool) {
	i := 0
	if s[0] == '"' || s[0] == '\'' {
		if i = closing(s); i < 0 {
			return "", "", false
		}
	}
	for ; i < len(s); i++ {
		if s[i] == '#' && i > 0 && s[i-1] == ' ' {
			return "", "", false
		}
		if s[i] == ':' && (i+1 == len(s) || s[i+1] == ' ') {
			return strings.TrimRight(s[:i], " "), strings.TrimLeft(s[i+1:], " "), i > 0
		}
	}
	return "", "", false
}

// closing is where the quotes that s begins with end; -1 where they do not.
func closing(s string) int {
	q := s[0]
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && q == '"':
			i++
		case s[i] == q && q == '\'' && i+1 < len(s) && s[i+1] == q:
			i++
		case s[i] == q:
			return i + 1
		}
	}
	return -1
}

// scalar takes a value that is not empty.
func (n *node) scalar(s string) error {
	if rest, ok := strings.CutPrefix(s, "! "); ok { // "this is a string"
		s = strings.TrimLeft(rest, " ")
		if s == "" || s[0] != '"' && s[0] != '\'' {
			return errOddYAML
		}
	}
	switch s[0] {
	case '"', '\'':
		return n.quotes(s)
	case '[', '{':
		n.kind, n.value = flow, strings.TrimRight(s, " ")
		return nil
	case '!', '&', '*', '|', '>', '%', '@', '`', ',', ']', '}', '#':
		return errOddYAML
	case '?', '-', ':':
		if len(s) == 1 || s[1] == ' ' {
			return errOddYAML
		}
	}
	if i := strings.Index(s, " #"); i >= 0 {
		s = s[:i]
	}
	n.kind, n.value = plain, strings.TrimRight(s, " ")
	return nil
}

func (n *node) quotes(s string) error {
	end := closing(s)
	if end < 0 {
		return errQuote
	}
	if rest := strings.TrimLeft(s[end:], " "); rest != "" && (rest[0] != '#' || len(rest) == len(s)-end) {
		return errQuote
	}
	n.kind = quoted
	inner := s[1 : end-1]
	if s[0] == '\'' {
		n.value = strings.ReplaceAll(inner, "''", "'")
		return nil
	}
	n.value = inner
	if strings.IndexByte(inner, '\\') < 0 {
		return nil
	}
	// Go's escapes are those of YAML that lnetctl's emitter uses.
	for i := 0; i+1 < len(inner); i++ {
		if inner[i] == '\\' {
			if i++; strings.IndexByte(`"\nrtabfv`, inner[i]) < 0 {
				return errEscape
			}
		}
	}
	v, err := strconv.Unquote(`"` + inner + `"`)
	if err != nil {
		return errEscape
	}
	n.value = v
	return nil
}

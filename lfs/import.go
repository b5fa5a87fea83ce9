package lfs

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"time"

	"ioguard"
)

// Import is the connection of a client's device to its target.
type Import struct {
	Device   string // "lustre-OST0002-osc-ffff8880086b6800", "MGC10.77.0.1@o2ib"
	Kind     string // "mdc", "osc", "mgc"; of a server's devices "osp", "lwp"
	Target   string // "lustre-OST0002", "MGS"
	FS       string // "lustre"; "" for the MGS
	Instance string // "ffff8880086b6800", the same for all devices of a mount; "" for the MGS

	State       string   // ImportFull, ...; "" where it is not told
	Flags       []string // "replayable", "pingable", "invalid", "deactive", ...
	Deactivated bool     // by an administrator; its State may be FULL all the same

	FailoverNIDs  []string       // of the nodes that may serve the target
	Connection    string         // NID in use; "" for none
	Attempts      *uint64        // to connect, in all
	Generation    *uint64        // grows with each connection lost
	Idle          *time.Duration // since the last reply, 2.12 and later
	TargetVersion string         // "2.17.0.0", 2.6 and later

	InFlight *uint64
	Timeouts *uint64        // requests that timed out on this connection
	AvgWait  *time.Duration // of all requests since the device was made

	History  *ImportHistory // nil where it is not told, or could not be read
	Unparsed Unparsed
}

// Healthy reports whether the import is known to be connected and not
// deactivated. One whose State is "" is neither healthy nor known to be ill.
func (i *Import) Healthy() bool { return connected(i.State) && !i.Deactivated }

// Client reports whether the device is one of a client: servers have devices of
// the same kinds to reach each other.
func (i *Import) Client() bool {
	switch i.Kind {
	case "mgc":
		return true
	case "mdc", "osc":
		return i.Instance != "" && !strings.HasPrefix(i.Instance, "MDT")
	}
	return false
}

// FSOf is the file system in the name of a target or of a device of one:
// "lustre" of "lustre-OST0002_UUID" and of "lustre-OST0002-osc-ffff8880086b6800".
// A name that holds no OST or MDT gives "".
func FSOf(name string) string {
	target, _ := cutTarget(name)
	return ioguard.FSName(target)
}

// cutTarget cuts a name behind its target: "lustre-OST0002", "-osc-ffff8880086b6800".
// File systems have names of at most 8 characters, also dashes; none of them can
// hold a "-OST0002" that is not the first in the name.
func cutTarget(name string) (target, rest string) {
	for i := 1; i+8 <= len(name); i++ {
		if kind := name[i : i+4]; kind != "-OST" && kind != "-MDT" {
			continue
		}
		end := i + 4
		for end < len(name) && isHex(name[end]) {
			end++
		}
		if end >= i+8 && (end == len(name) || name[end] == '-' || name[end] == '_') {
			return name[:end], name[end:]
		}
	}
	return "", name
}

func isHex(c byte) bool { return c-'0' <= 9 || c-'a' <= 5 || c-'A' <= 5 }

// named fills in what a device's name tells.
func (i *Import) named(device string) {
	i.Device = device
	target, rest := cutTarget(device)
	if target == "" {
		if strings.HasPrefix(device, "MGC") {
			i.Kind, i.Target = "mgc", "MGS"
		}
		return
	}
	i.Target, i.FS = target, ioguard.FSName(target)
	kind, ok := strings.CutPrefix(rest, "-")
	if ok {
		i.Kind, i.Instance, _ = strings.Cut(kind, "-")
	}
}

// ParseImport parses an import file. It never fails: see Unparsed. What a file
// does not hold, or holds in vain, stays unknown.
//
// FILE: lustre/obdclass/lprocfs_status.c, lprocfs_import_seq_show (2.17 quotes
// NIDs and adds nids_stats; lprocfs_rd_import up to 2.5 prints no blanks inside
// the brackets, and no idle before 2.12):
//
//	state: FULL
//	import_flags: [ replayable, pingable, connect_tried ]
//	   failover_nids: [ "10.77.0.1@o2ib" ]
func ParseImport(text []byte) *Import {
	var p importParser
	i := &Import{}
	p.parse(i, text)
	return i
}

// ParseImports parses the imports that `lctl get_param *.*.import` prints one
// after the other, those of servers too. Lines between them are left out.
func ParseImports(text []byte) []Import {
	var p importParser
	var imports []Import
	for {
		start := importStart(text)
		if start < 0 {
			return imports
		}
		text = text[start:]
		end := importEnd(text)
		imports = append(imports, Import{})
		p.parse(&imports[len(imports)-1], text[:end])
		text = text[end:]
	}
}

var importHeader = []byte("import:")

// importStart is where the next import begins: at a line "import:".
func importStart(text []byte) int {
	for at := 0; ; {
		i := bytes.Index(text[at:], importHeader)
		if i < 0 {
			return -1
		}
		at += i
		if at == 0 || text[at-1] == '\n' {
			return at
		}
		at += len(importHeader)
	}
}

// importEnd is where an import ends: at the next line that is not indented.
func importEnd(text []byte) int {
	at := 0
	for {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text)
		}
		at += i + 1
		if at < len(text) && !textBlank(text[at]) && text[at] != '\n' {
			return at
		}
	}
}

// importParser parses imports, of which a client has hundreds that are much
// alike: what is the same is kept once. The zero value is ready.
type importParser struct {
	lists   map[string][]string
	words   map[string]string
	numbers []uint64
	spans   []time.Duration
}

// maxImportWords bounds what a parser remembers.
const maxImportWords = 4096

func (p *importParser) parse(i *Import, text []byte) {
	if bytes.IndexByte(text, 0) >= 0 { // some releases print a NUL behind the flags (LU-5567)
		text = bytes.ReplaceAll(text, []byte{0}, nil)
	}
	quiet := -1 // indent of a section of which not everything is wanted
	for n := 1; len(text) > 0; n++ {
		raw, rest, _ := textLine(text)
		text = rest
		line := textStrip(raw)
		if len(line) == 0 {
			continue
		}
		indent := 0
		for textBlank(raw[indent]) {
			indent++
		}
		if indent <= quiet {
			quiet = -1
		}
		key, value, ok := bytes.Cut(line, []byte(":"))
		why := "not a field"
		switch {
		case ok && importQuiet(string(key)):
			quiet, why = indent, ""
		case ok:
			why = p.field(i, string(key), textStrip(value))
		}
		if why != "" && (why != whyUnknownField || quiet < 0) {
			i.Unparsed.add(n, line, why)
		}
	}
}

const whyUnknownField = "unknown field"

// importQuiet tells the sections that hold much that is not wanted.
func importQuiet(key string) bool {
	switch key {
	case "connect_data", "nids_stats", "service_estimates", "transactions", "read_data_averages", "write_data_averages":
		return true
	}
	return false
}

func (p *importParser) field(i *Import, key string, value []byte) (why string) {
	switch key {
	case "name":
		if string(value) != i.Device {
			i.named(string(value))
		}
	case "target":
		p.target(i, value)
	case "state":
		i.State = importState(value)
	case "import_flags":
		i.Flags = p.list(value)
		i.Deactivated = slices.Contains(i.Flags, "deactive")
	case "failover_nids":
		i.FailoverNIDs = p.list(value)
	case "current_connection":
		if nid := bytes.Trim(value, `"`); string(nid) != "<none>" {
			i.Connection = p.word(nid)
		}
	case "target_version":
		i.TargetVersion = p.word(value)
	case "connection_attempts":
		return p.number(&i.Attempts, value)
	case "generation":
		return p.number(&i.Generation, value)
	case "inflight":
		return p.number(&i.InFlight, value)
	case "timeouts":
		return p.number(&i.Timeouts, value)
	case "idle":
		return p.span(&i.Idle, value)
	case "avg_waittime":
		return p.span(&i.AvgWait, value)
	case "import", "connection", "rpcs": // begin a section
	case "connect_flags", "instance", "in-progress_invalidations", "unregistering": // not wanted
	default:
		return whyUnknownField
	}
	return ""
}

// target takes "lustre-OST0002_UUID". The device's name tells it too, and more
// cheaply; it counts only where that does not.
func (p *importParser) target(i *Import, value []byte) {
	value = bytes.TrimSuffix(value, []byte("_UUID"))
	if string(value) != i.Target && len(value) > 0 {
		i.Target = p.word(value)
		i.FS = FSOf(i.Target)
	}
}

// list takes "[ a, b ]", "[a, b]" and "[ \"a\" ]". Equal lists share their memory.
func (p *importParser) list(b []byte) []string {
	if l, ok := p.lists[string(b)]; ok {
		return l
	}
	var l []string
	for word := range bytes.SplitSeq(bytes.Trim(b, "[] \t"), []byte(",")) {
		if word = bytes.Trim(word, "\" \t"); len(word) > 0 {
			l = append(l, p.word(word))
		}
	}
	if len(p.lists) < maxImportWords {
		if p.lists == nil {
			p.lists = make(map[string][]string)
		}
		l = slices.Clip(l)
		p.lists[string(b)] = l
	}
	return l
}

// word gives the string of b; equal ones share their memory.
func (p *importParser) word(b []byte) string {
	if s, ok := p.words[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(p.words) < maxImportWords {
		if p.words == nil {
			p.words = make(map[string]string)
		}
		p.words[s] = s
	}
	return s
}

func (p *importParser) number(to **uint64, value []byte) (why string) {
	n, why := textUint(value)
	if why == "" {
		*to = keep(&p.numbers, n)
	}
	return why
}

// span takes "7 sec", "366 usec" and "13137 usecs".
func (p *importParser) span(to **time.Duration, value []byte) (why string) {
	word, unit := textWord(value)
	n, why := textUint(word)
	if why != "" {
		return why
	}
	var one time.Duration
	switch string(textStrip(unit)) {
	case "sec":
		one = time.Second
	case "usec", "usecs":
		one = time.Microsecond
	default:
		return "unknown unit"
	}
	if n > math.MaxInt64/uint64(one) {
		return whyOverflow
	}
	*to = keep(&p.spans, time.Duration(n)*one)
	return ""
}

// keep stores a value among others and gives its address: one allocation for many.
func keep[T any](chunk *[]T, v T) *T {
	if len(*chunk) == cap(*chunk) {
		*chunk = make([]T, 0, max(4, min(2*cap(*chunk), 256)))
	}
	*chunk = append(*chunk, v)
	return &(*chunk)[len(*chunk)-1]
}

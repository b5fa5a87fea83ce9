package lfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// ReadImports reads the imports of this client: those of its MGCs, MDCs and
// OSCs, in this order and sorted by name, and their histories. Nothing that it
// reads sends an RPC or waits for a server. Devices by which servers reach each
// other are left out, and so is a device that goes away meanwhile.
//
// The state file is read after the import file: where they differ, State is what
// state says. Without an import file (or without root, 2.12 and later) the
// server_uuid and active files tell what they can, and the error, which comes
// with all the devices found, is fs.ErrPermission. A machine without a client
// gives fs.ErrNotExist.
func ReadImports(fsys fs.FS) ([]Import, error) {
	r := newImportReader(fsys)
	var imports []Import
	var first error
	failed := 0
	devices := r.list()
	if len(devices) > 0 {
		imports = make([]Import, 0, len(devices))
	}
	for _, d := range devices {
		imports = append(imports, Import{})
		seen, err := r.read(&imports[len(imports)-1], d)
		if !seen {
			imports = imports[:len(imports)-1]
		}
		if err != nil {
			failed++
		}
		if first == nil {
			first = err
		}
	}
	switch {
	case first != nil:
		return imports, fmt.Errorf("read imports: %d of %d devices, first: %w", failed, len(devices), first)
	case len(imports) == 0 && r.denied != nil:
		return nil, fmt.Errorf("read imports: %w", r.denied)
	case len(imports) == 0:
		return nil, fmt.Errorf("read imports: %w", fs.ErrNotExist)
	}
	return imports, nil
}

// importParams are the files read of each device.
var importParams = []string{"import", "import_state", "server_uuid", "import_active"}

// importPaths: MGCs have no active, and server_uuid is named after the kind of server.
func importPaths(file string, roots ...string) []string {
	var p []string
	for _, root := range roots {
		for _, class := range []struct{ name, server string }{{"mgc", "mgs_"}, {"mdc", "mds_"}, {"osc", "ost_"}} {
			switch {
			case file == "server_uuid":
				p = append(p, root+class.name+"/*/"+class.server+file)
			case file != "active" || class.name != "mgc":
				p = append(p, root+class.name+"/*/"+file)
			}
		}
	}
	return p
}

// importPlace is a row of the table cut at its device: "sys/kernel/debug/lustre/osc", "import".
type importPlace struct {
	param, file string
	dir         int // which of importReader.dirs
}

// importDevice is a device and the directories that list it, by their bits.
type importDevice struct {
	class, name string
	dirs        uint32
}

type importReader struct {
	fsys   fs.FS
	dirs   []string // each place's directory once
	places []importPlace
	denied error // the first directory that may not be listed
	parser importParser
	buf    FileBuffer

	seen   bool  // a file of the present device was read
	failed error // the first of its files that is there and cannot be read
}

func newImportReader(fsys fs.FS) *importReader {
	r := &importReader{fsys: fsys}
	for _, p := range Params() {
		if !slices.Contains(importParams, p.Name) {
			continue
		}
		for _, pattern := range p.Paths {
			dir, file, _ := strings.Cut(pattern, "/*/")
			i := slices.Index(r.dirs, dir)
			if i < 0 {
				i = len(r.dirs)
				r.dirs = append(r.dirs, dir)
			}
			r.places = append(r.places, importPlace{p.Name, file, i})
		}
	}
	return r
}

// list gives the client's devices.
func (r *importReader) list() []importDevice {
	type key struct{ class, name string }
	index := make(map[key]int)
	var devices []importDevice
	for i, dir := range r.dirs {
		class := path.Base(dir)
		entries, err := fs.ReadDir(r.fsys, dir)
		if errors.Is(err, fs.ErrPermission) && r.denied == nil {
			r.denied = err
		}
		for _, e := range entries {
			k := key{class, e.Name()}
			at, seen := index[k]
			if !seen {
				var d Import
				if d.named(k.name); d.Kind != class || !d.Client() {
					continue
				}
				at = len(devices)
				index[k] = at
				devices = append(devices, importDevice{class: class, name: k.name})
			}
			devices[at].dirs |= 1 << i
		}
	}
	slices.SortFunc(devices, func(a, b importDevice) int {
		if a.class != b.class {
			return strings.Compare(importOrder(a.class), importOrder(b.class))
		}
		return strings.Compare(a.name, b.name)
	})
	return devices
}

// importOrder sorts as `lctl dl` does.
func importOrder(class string) string {
	if class == "mgc" {
		return ""
	}
	return class
}

// read fills in a device; seen is false when it is there no more. The error is
// the first of a file that is there and cannot be read.
func (r *importReader) read(i *Import, d importDevice) (seen bool, err error) {
	r.seen, r.failed = false, nil
	i.named(d.name)
	if text, ok := r.file("import", d); ok {
		r.parser.parse(i, text)
		if i.Device != d.name {
			i.named(d.name)
		}
	}
	if i.State == "" {
		r.readWithoutImport(i, d)
	}
	if text, ok := r.file("import_state", d); ok {
		i.History = ParseImportState(text)
		if i.History.Current != "" {
			i.State = i.History.Current
		}
	}
	if i.State == "" && r.failed == nil {
		r.failed = r.denied
	}
	return r.seen, r.failed
}

// readWithoutImport takes what server_uuid and active tell.
func (r *importReader) readWithoutImport(i *Import, d importDevice) {
	if text, ok := r.file("server_uuid", d); ok && !r.parser.serverUUID(i, text) {
		i.Unparsed.add(1, text, "not a target and its state")
	}
	if text, ok := r.file("import_active", d); ok && string(textTrim(text)) == "0" {
		i.Deactivated = true
	}
}

// file reads a parameter of a device from the first place that has it and gives it.
func (r *importReader) file(param string, d importDevice) (text []byte, ok bool) {
	for _, p := range r.places {
		if p.param != param || d.dirs&(1<<p.dir) == 0 {
			continue
		}
		text, err := r.buf.ReadFile(r.fsys, r.dirs[p.dir]+"/"+d.name+"/"+p.file)
		if err == nil {
			r.seen = true
			return text, true
		}
		if !errors.Is(err, fs.ErrNotExist) && r.failed == nil {
			r.failed = err
		}
	}
	return nil, false
}

// serverUUID takes ost_server_uuid, mds_server_uuid or mgs_server_uuid, one line
// of two or three words with tabs between.
//
// FILE: lustre/obdclass/lprocfs_status.c, lprocfs_server_uuid_seq_show:
//
//	lustre-OST0001_UUID	FULL
//	lustre-OST0002_UUID	FULL	DEACTIVATED
//	MGS	FULL
func (p *importParser) serverUUID(i *Import, text []byte) bool {
	target, rest := textWord(textTrim(text))
	state, rest := textWord(rest)
	if len(state) == 0 {
		return false
	}
	p.target(i, target)
	i.State = importState(state)
	if flag, _ := textWord(rest); string(flag) == "DEACTIVATED" {
		i.Deactivated = true
	}
	return true
}

package host

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"
)

// The bounds of a tree: a hostile archive must not fill the memory.
const (
	maxNodes = 5 << 20
	maxPath  = 4096
	maxDepth = 64
)

// node is a file or folder of a tree.
type node struct {
	name      string
	off, size int64 // where its bytes are; -1 as size is a folder
	mtime     int64 // seconds since 1970
	kids      []*node
}

func (n *node) isDir() bool { return n.size < 0 }

func (n *node) child(name string) *node {
	i := sort.Search(len(n.kids), func(i int) bool { return n.kids[i].name >= name })
	if i < len(n.kids) && n.kids[i].name == name {
		return n.kids[i]
	}
	return nil
}

// builder gathers files in any order and makes a tree of them.
type builder struct {
	root  *node
	dirs  map[string]*node
	names map[string]string // one copy of each name: job_stats comes thousands of times
	count int
}

func newBuilder() *builder {
	root := &node{name: ".", size: -1}
	return &builder{root: root, dirs: map[string]*node{".": root}, names: map[string]string{}}
}

// checkName refuses names that could mean a place outside of the tree.
func checkName(name string) error {
	switch {
	case len(name) > maxPath || strings.Count(name, "/") > maxDepth:
		return fmt.Errorf("name %.60q... is too long or too deep", name)
	case strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), ".."):
		return fmt.Errorf("name %q leads out of the archive", name)
	case !fs.ValidPath(path.Clean(name)):
		return fmt.Errorf("name %q is not valid", name)
	}
	return nil
}

func (b *builder) add(parent *node, n *node) error {
	if b.count++; b.count > maxNodes {
		return fmt.Errorf("more than %d files", maxNodes)
	}
	name, ok := b.names[n.name]
	if !ok {
		name = strings.Clone(n.name)
		b.names[name] = name
	}
	n.name = name
	parent.kids = append(parent.kids, n)
	return nil
}

// dir gives the folder of a clean name, made with its parents where it is new.
func (b *builder) dir(name string) (*node, error) {
	if d, ok := b.dirs[name]; ok {
		return d, nil
	}
	parent, err := b.dir(path.Dir(name))
	if err != nil {
		return nil, err
	}
	d := &node{name: path.Base(name), size: -1}
	b.dirs[name] = d
	return d, b.add(parent, d)
}

// file adds a file of a checked name.
func (b *builder) file(name string, off, size, mtime int64) error {
	name = path.Clean(name)
	if name == "." {
		return fmt.Errorf("a file without a name")
	}
	parent, err := b.dir(path.Dir(name))
	if err != nil {
		return err
	}
	return b.add(parent, &node{name: path.Base(name), off: off, size: size, mtime: mtime})
}

// tree sorts what was gathered. Of two files of one name the later stays, as tar
// does it. A name that is both file and folder is an error.
func (b *builder) tree(data io.ReaderAt) (*tree, error) {
	for name, d := range b.dirs {
		slices.SortStableFunc(d.kids, func(x, y *node) int { return strings.Compare(x.name, y.name) })
		kept := d.kids[:0]
		for _, k := range d.kids {
			if n := len(kept); n == 0 || kept[n-1].name != k.name {
				kept = append(kept, k)
				continue
			}
			if kept[len(kept)-1].isDir() || k.isDir() {
				return nil, fmt.Errorf("%s is both a file and a folder", path.Join(name, k.name))
			}
			kept[len(kept)-1] = k
		}
		d.kids = slices.Clip(kept)
	}
	return &tree{b.root, data}, nil
}

// tree is a read-only fs.FS of files in one run of bytes.
type tree struct {
	root *node
	data io.ReaderAt
}

func (t *tree) find(op, name string) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	n := t.root
	if name == "." {
		return n, nil
	}
	for rest, more := name, true; more; {
		var first string
		first, rest, more = strings.Cut(rest, "/")
		if n = n.child(first); n == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
	}
	return n, nil
}

func (t *tree) Open(name string) (fs.File, error) {
	n, err := t.find("open", name)
	if err != nil {
		return nil, err
	}
	if n.isDir() {
		return &treeDir{info: info{n}, name: name}, nil
	}
	return &treeFile{io.NewSectionReader(t.data, n.off, n.size), info{n}}, nil
}

func (t *tree) Stat(name string) (fs.FileInfo, error) {
	n, err := t.find("stat", name)
	if err != nil {
		return nil, err
	}
	return info{n}, nil
}

func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	n, err := t.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.isDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	return n.entries(0, len(n.kids)), nil
}

func (t *tree) Sub(dir string) (fs.FS, error) {
	n, err := t.find("sub", dir)
	if err != nil {
		return nil, err
	}
	if !n.isDir() {
		return nil, &fs.PathError{Op: "sub", Path: dir, Err: syscall.ENOTDIR}
	}
	return &tree{&node{name: ".", size: -1, mtime: n.mtime, kids: n.kids}, t.data}, nil
}

func (n *node) entries(from, to int) []fs.DirEntry {
	out := make([]fs.DirEntry, 0, to-from)
	for _, k := range n.kids[from:to] {
		out = append(out, fs.FileInfoToDirEntry(info{k}))
	}
	return out
}

type info struct{ n *node }

func (i info) Name() string       { return i.n.name }
func (i info) Size() int64        { return max(i.n.size, 0) }
func (i info) ModTime() time.Time { return time.Unix(i.n.mtime, 0) }
func (i info) IsDir() bool        { return i.n.isDir() }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.n.isDir() {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

type treeFile struct {
	*io.SectionReader
	info info
}

func (f *treeFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *treeFile) Close() error               { return nil }

type treeDir struct {
	info info
	name string
	pos  int
}

func (d *treeDir) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *treeDir) Close() error               { return nil }
func (d *treeDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: syscall.EISDIR}
}

func (d *treeDir) ReadDir(n int) ([]fs.DirEntry, error) {
	from, to := d.pos, len(d.info.n.kids)
	if n > 0 {
		if from == to {
			return nil, io.EOF
		}
		to = min(to, from+n)
	}
	d.pos = to
	return d.info.n.entries(from, to), nil
}

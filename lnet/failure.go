package lnet

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"syscall"
)

// ErrDown is LNet that is not up: the module is not loaded or holds no network.
var ErrDown = errors.New("LNet is not up")

// Failure is what lnetctl says when it cannot do what it was asked for. It is
// fs.ErrPermission and ErrDown to errors.Is where those are the reason.
type Failure struct {
	Op    string // "show net"
	Errno int    // negative, as printed; of `show` without arguments, -1 is not being root
	Descr string // "cannot get networks: Network is down"
}

func (f *Failure) Error() string {
	return fmt.Sprintf("lnetctl %s: %.200q (errno %d)", f.Op, f.Descr, f.Errno)
}

// Is classes the failure. The errno alone does not tell: lnetctl has codes of its
// own beside the system's, so -1 is a bad argument too, and "Network is down"
// comes with -3 where one net is missing.
func (f *Failure) Is(target error) bool {
	switch target {
	case fs.ErrPermission:
		return f.Errno == -int(syscall.EACCES) || containsAny(f.Descr, "not permitted", "Permission denied")
	case ErrDown:
		return f.Errno == -int(syscall.ENETDOWN) || containsAny(f.Descr, "Network is down", "LNet isn't up", "LNet is not up")
	}
	return false
}

// failureIn finds the first failure in a tree; nil where there is none.
//
// SOURCE: lnet/utils/lnetconfig/cyaml.c, cYAML_build_error, and since 2.16
// lnet/utils/lnetctl.c, which puts errno beside the key and not below it:
//
//	show:
//	    - net:
//	          errno: -100
//	          descr: "cannot get networks: Network is down"
func failureIn(root *node) *Failure {
	if root.kind != mapping {
		return nil
	}
	for op := root.first; op != nil; op = op.next {
		for item := op.items(); item != nil; item = item.next {
			if item.kind != mapping || item.first == nil {
				continue
			}
			f := Failure{Op: op.key + " " + item.first.key}
			if f.fill(item) || f.fill(item.first) {
				return &f
			}
		}
	}
	return nil
}

func (f *Failure) fill(n *node) bool {
	e := n.get("errno")
	if e == nil {
		return false
	}
	var err error
	if f.Errno, err = strconv.Atoi(e.value); err != nil || f.Errno == 0 {
		return false
	}
	if d := n.get("descr"); d != nil {
		f.Descr = d.value
	}
	return true
}

// answer finds what lnetctl tells below a key. An empty text tells nothing and is
// no error; a text that holds neither the key nor a failure is one.
func answer(b []byte, what, key string) (*node, error) {
	root, err := parseTree(b)
	if err != nil {
		return nil, fmt.Errorf("parse lnetctl %s: %w", what, err)
	}
	n := root.get(key)
	if f := failureIn(root); f != nil {
		return n, fmt.Errorf("parse lnetctl %s: %w", what, f)
	}
	if n == nil && root.kind != null {
		return nil, fmt.Errorf("parse lnetctl %s: no %q in it", what, key)
	}
	return n, nil
}

package lnet

import (
	"math"
	"strconv"
	"strings"
)

// unknown gathers what no parser here knows, each as "health stats/foo: 3".
type unknown []string

const (
	unknownMost = 20  // kept of each element
	unknownText = 120 // bytes kept of each
)

func (u *unknown) note(path string, n *node) {
	if len(*u) == unknownMost {
		return
	}
	s := path + n.key + ": " + n.value
	*u = append(*u, strings.ToValidUTF8(s[:min(len(s), unknownText)], ""))
}

// take hands each entry of a mapping to set, and notes those that it refuses. An
// entry without a value is not told, which is no matter.
func (u *unknown) take(n *node, path string, set func(*node) bool) bool {
	if n.kind != mapping {
		return n.isNull()
	}
	for e := n.first; e != nil; e = e.next {
		if !e.isNull() && !set(e) {
			u.note(path, e)
		}
	}
	return true
}

// below is take for what stands below a key.
func (u *unknown) below(n *node, set func(*node) bool) bool {
	return u.take(n, n.key+"/", set)
}

func (n *node) isScalar() bool { return n.kind == plain || n.kind == quoted }

func textTo(p *string, n *node) bool {
	if !n.isScalar() && n.kind != flow {
		return false
	}
	*p = n.value
	return true
}

func nidTo(p *NID, n *node) bool {
	nid, err := ParseNID(n.value)
	if err == nil {
		*p = nid
	}
	return err == nil
}

func uintTo(p **uint64, n *node) bool {
	v, err := strconv.ParseUint(n.value, 10, 64)
	if err == nil {
		*p = &v
	}
	return err == nil
}

func intTo(p **int64, n *node) bool {
	v, err := strconv.ParseInt(n.value, 10, 64)
	if err == nil {
		*p = &v
	}
	return err == nil
}

// creditsTo takes a number that may be negative, although lnetctl prints it
// without sign in 32 bits: 4294967284 is -12.
func creditsTo(p **int64, n *node) bool {
	ok := intTo(p, n)
	if ok && **p > math.MaxInt32 && **p <= math.MaxUint32 {
		**p -= 1 << 32
	}
	return ok
}

func boolTo(p **bool, n *node) bool {
	v, ok := parseBool(n.value)
	if ok {
		*p = &v
	}
	return ok
}

// parseBool takes what lnetctl, sysfs and people write.
func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(s) {
	case "1", "y", "yes", "true", "on":
		return true, true
	case "0", "n", "no", "false", "off":
		return false, true
	}
	return false, false
}

func containsAny(s string, parts ...string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

package slurm

import (
	"fmt"
	"strconv"
	"strings"
)

// ExpandHosts gives the nodes of a hostlist as Slurm prints it, in its order
// (slurm_hostlist.c): "n[1-3,07-08],m3" is n1 n2 n3 n07 n08 m3. Ranges keep
// their leading zeros, and a name may hold several brackets, "rack[1-2]n[1-4]".
// It fails on a list that is malformed or longer than limit nodes.
func ExpandHosts(list string, limit int) ([]string, error) {
	var hosts []string
	for list != "" {
		end := itemEnd(list)
		more, err := expandItem(list[:end], limit-len(hosts))
		if err != nil {
			return nil, fmt.Errorf("expand hostlist %.100q: %w", list, err)
		}
		hosts = append(hosts, more...)
		list = strings.TrimPrefix(list[end:], ",")
	}
	return hosts, nil
}

// itemEnd is where the first item of a list ends: at a comma outside brackets.
func itemEnd(list string) int {
	depth := 0
	for i := range len(list) {
		switch list[i] {
		case '[':
			depth++
		case ']':
			depth--
		case ',':
			if depth <= 0 {
				return i
			}
		}
	}
	return len(list)
}

// expandItem expands "prefix[ranges]rest", where rest may hold brackets again.
func expandItem(item string, limit int) ([]string, error) {
	prefix, rest, bracket := strings.Cut(item, "[")
	if !bracket {
		if item == "" || strings.Contains(item, "]") {
			return nil, fmt.Errorf("bad name %.50q", item)
		}
		if limit < 1 {
			return nil, errTooLong
		}
		return []string{item}, nil
	}
	ranges, rest, closed := strings.Cut(rest, "]")
	if !closed || strings.Contains(prefix, "]") || strings.Contains(ranges, "[") {
		return nil, fmt.Errorf("unbalanced brackets in %.50q", item)
	}
	tails := []string{""}
	if rest != "" {
		var err error
		if tails, err = expandItem(rest, limit); err != nil {
			return nil, err
		}
	}
	var hosts []string
	for r := range strings.SplitSeq(ranges, ",") {
		numbers, err := expandRange(r, (limit-len(hosts))/len(tails))
		if err != nil {
			return nil, err
		}
		for _, n := range numbers {
			for _, tail := range tails {
				hosts = append(hosts, prefix+n+tail)
			}
		}
	}
	return hosts, nil
}

var errTooLong = fmt.Errorf("too many nodes")

// expandRange expands "7" or "007-012".
func expandRange(r string, limit int) ([]string, error) {
	first, last, isRange := strings.Cut(r, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("bad range %.50q", r)
	}
	to, err := strconv.ParseUint(last, 10, 32)
	if err != nil || to < from {
		return nil, fmt.Errorf("bad range %.50q", r)
	}
	if limit < 0 || to-from >= uint64(limit) {
		return nil, errTooLong
	}
	numbers := make([]string, 0, to-from+1)
	for n := from; n <= to; n++ {
		numbers = append(numbers, fmt.Sprintf("%0*d", len(first), n))
	}
	return numbers, nil
}

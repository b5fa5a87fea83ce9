package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"ioguard"
)

// maxValues bounds the values of one series in a test.
const maxValues = 10000

// value is one value of a test series.
type value struct {
	kind   valueKind
	number float64
	text   string
}

type valueKind uint8

const (
	given   valueKind = iota
	unknown           // _ : the subject is there, this variable is not known
	stale             // the series has ended
)

// parseValues reads the notation of Prometheus' rule tests, blanks between:
//
//	0+0.1x5     0 0.1 0.2 0.3 0.4 0.5: the first value and five more
//	5-1x2       5 4 3
//	7x2         7 7 7
//	_ _x3       unknown, once and three times
//	stale       the series has ended
//	"alice"x2   for strings: the same string three times
func parseValues(s string, isText bool) ([]value, error) {
	var out []value
	rest := strings.TrimSpace(s)
	for rest != "" {
		var item string
		var v []value
		var err error
		if rest[0] == '"' {
			v, rest, err = quotedValues(rest, isText)
		} else {
			item, rest, _ = strings.Cut(rest, " ")
			v, err = plainValues(item, isText)
		}
		if err != nil {
			return nil, err
		}
		if len(out)+len(v) > maxValues {
			return nil, fmt.Errorf("more than %d values", maxValues)
		}
		out = append(out, v...)
		rest = strings.TrimLeft(rest, " \t\n\r")
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no values")
	}
	return out, nil
}

func quotedValues(s string, isText bool) ([]value, string, error) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return nil, "", fmt.Errorf("string without its closing quote: %s", s)
	}
	if !isText {
		return nil, "", fmt.Errorf("%s: the variable is a number", q)
	}
	t, err := strconv.Unquote(q)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", q, err)
	}
	rest := s[len(q):]
	count := 1
	if tail, after, _ := strings.Cut(rest, " "); tail != "" {
		if tail[0] != 'x' {
			return nil, "", fmt.Errorf("%q after %s", tail, q)
		}
		if count, err = repeats(tail[1:]); err != nil {
			return nil, "", err
		}
		count++
		rest = after
	}
	return repeat(value{text: t}, count), rest, nil
}

func plainValues(item string, isText bool) ([]value, error) {
	switch {
	case item == "stale":
		return []value{{kind: stale}}, nil
	case item == "_":
		return []value{{kind: unknown}}, nil
	case strings.HasPrefix(item, "_x"):
		n, err := repeats(item[2:])
		return repeat(value{kind: unknown}, n), err
	case isText:
		return nil, fmt.Errorf("%s: the variable is a string: write it in double quotes", item)
	}
	body, times, repeated := cutLast(item, 'x')
	if !repeated {
		n, err := finite(item)
		return []value{{number: n}}, err
	}
	n, err := repeats(times)
	if err != nil {
		return nil, err
	}
	first, step, err := firstAndStep(body)
	if err != nil {
		return nil, err
	}
	out := make([]value, n+1)
	for i := range out {
		out[i].number = first + float64(i)*step
	}
	return out, nil
}

// firstAndStep reads "a", "a+b" or "a-b". A sign at the start, or that of an
// exponent (1e-3), separates nothing.
func firstAndStep(s string) (float64, float64, error) {
	for i := 1; i < len(s); i++ {
		if (s[i] != '+' && s[i] != '-') || s[i-1] == 'e' || s[i-1] == 'E' {
			continue
		}
		first, err := finite(s[:i])
		if err != nil {
			return 0, 0, err
		}
		step, err := finite(strings.TrimPrefix(s[i:], "+"))
		return first, step, err
	}
	first, err := finite(s)
	return first, 0, err
}

func finite(s string) (float64, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%q is no number", s)
	}
	return n, nil
}

func repeats(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n >= maxValues {
		return 0, fmt.Errorf("%q is no number of repeats below %d", s, maxValues)
	}
	return n, nil
}

func repeat(v value, n int) []value {
	out := make([]value, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func cutLast(s string, sep byte) (string, string, bool) {
	i := strings.LastIndexByte(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+1:], true
}

// subjectLabels say whom a series is about; the first that is there is the subject.
var subjectLabels = []string{"job", "ost", "pool", "server"}

var labelNames = append([]string{"fs"}, subjectLabels...)

// parseSeries reads `job.write_share{job="4711", fs="lustre"}`.
func parseSeries(s string) (variable string, subject Subject, err error) {
	name, rest, ok := strings.Cut(strings.TrimSpace(s), "{")
	if !ok || !strings.HasSuffix(rest, "}") {
		return "", Subject{}, fmt.Errorf("%s: write variable{job=\"4711\"}", s)
	}
	labels, err := parseLabels(strings.TrimSuffix(rest, "}"))
	if err != nil {
		return "", Subject{}, err
	}
	subject = Subject{FS: labels["fs"], Server: labels["server"]}
	for _, l := range subjectLabels {
		if id, ok := labels[l]; ok {
			subject.Kind = SubjectKind(l)
			if subject.Target = id; l == "job" {
				subject.JobID, subject.Target = id, ""
			}
			break
		}
	}
	if subject.Kind == "" {
		return "", Subject{}, fmt.Errorf("%s: no label says whom it is about: %s", s, strings.Join(subjectLabels, ", "))
	}
	return strings.TrimSpace(name), subject, nil
}

func parseLabels(s string) (map[string]string, error) {
	labels := map[string]string{}
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		name, rest, ok := strings.Cut(s, "=")
		name = strings.TrimSpace(name)
		if !ok || !contains(labelNames, name) {
			return nil, ioguard.WithHint(fmt.Errorf("no such label: %q", name), didYouMean(name, labelNames))
		}
		q, err := strconv.QuotedPrefix(strings.TrimSpace(rest))
		if err != nil {
			return nil, fmt.Errorf("label %s: its value needs double quotes", name)
		}
		v, err := strconv.Unquote(q)
		if err != nil {
			return nil, fmt.Errorf("label %s: %w", name, err)
		}
		if _, twice := labels[name]; twice {
			return nil, fmt.Errorf("label %s twice", name)
		}
		labels[name] = v
		s = strings.TrimSpace(strings.TrimSpace(rest)[len(q):])
		if after, comma := strings.CutPrefix(s, ","); comma {
			s = after
		} else if s != "" {
			return nil, fmt.Errorf("labels: %q after %s", s, name)
		}
	}
	return labels, nil
}

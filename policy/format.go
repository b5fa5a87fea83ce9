package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FormatNumber prints a number in its unit for people: "1.5 MiB/s", "83%",
// "12 ms". NaN prints as "unknown".
func FormatNumber(v float64, unit Unit) string {
	if math.IsNaN(v) {
		return "unknown"
	}
	if math.IsInf(v, 0) {
		return "unbounded"
	}
	switch unit {
	case Bytes:
		return formatBytes(v)
	case BytesPerSecond:
		return formatBytes(v) + "/s"
	case PerSecond:
		return short(v) + "/s"
	case Fraction:
		return percent(v)
	case Seconds:
		return formatSeconds(v)
	case Microseconds:
		return formatMicroseconds(v)
	case Ratio:
		return formatRatio(v) + "x"
	}
	return short(v)
}

// percent keeps a decimal next to 100: the 0.2% that are left may be what matters.
func percent(v float64) string {
	if v >= 0.995 && v < 0.9995 {
		return strconv.FormatFloat(v*100, 'f', 1, 64) + "%"
	}
	return short(v*100) + "%"
}

// formatRatio keeps the decimal of 3.0: beside 3.2 it says how exact it is.
func formatRatio(v float64) string {
	if a := math.Abs(v); a == 0 || a >= 0.095 && a < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return short(v)
}

// short prints one decimal below 10 and none above; what is below 0.1 keeps one
// digit that counts, so that a small rate does not print as 0.
func short(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 9.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a == 0 || a >= 0.095:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(v, 'g', 1, 64)
}

func formatBytes(v float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	i := 0
	// 1023.5 would print as 1024
	for math.Abs(v) >= 1023.5 && i < len(units)-1 {
		v /= 1024
		i++
	}
	return short(v) + " " + units[i]
}

func formatSeconds(v float64) string {
	switch a := math.Abs(v); {
	case a < 120:
		return short(v) + " s"
	case a < 2*3600:
		return short(v/60) + " min"
	case a < 2*86400:
		return short(v/3600) + " h"
	}
	return short(v/86400) + " days"
}

func formatMicroseconds(v float64) string {
	switch a := math.Abs(v); {
	case a < 1000:
		return short(v) + " us"
	case a < 1e6:
		return short(v/1000) + " ms"
	}
	return formatSeconds(v / 1e6)
}

// safeText makes a string from a job id or a user harmless in a sentence: what
// does not print becomes \xHH.
func safeText(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) {
			for i := range n {
				fmt.Fprintf(&b, "\\x%02X", s[i])
			}
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// template is text with {{variable}}, {{variable | format}} or, to count things,
// {{variable | plural OST}} in it. It has no logic beyond that, on purpose.
type template []piece

type piece struct {
	literal string // used when slot is nil
	slot    *slot
	unit    Unit
	noun    string // what is counted, in the singular; "" for a bare number
	name    string
}

// templateError is what is wrong at a rune offset of the text.
type templateError struct {
	offset        int
	message, hint string
}

// formats are the units by the names that a placeholder may ask for.
var formats = map[string]Unit{
	"bytes": Bytes, "bytes_per_second": BytesPerSecond, "per_second": PerSecond,
	"fraction": Fraction, "percent": Fraction, "seconds": Seconds, "microseconds": Microseconds,
	"ratio": Ratio, "times": Ratio, "count": Count, "number": NoUnit,
}

var formatNames = []string{"bytes", "bytes_per_second", "per_second", "percent", "seconds", "microseconds", "times", "number", "plural NOUN"}

// parseTemplate reads a text whose placeholders name variables of the subject.
func parseTemplate(text string, kind SubjectKind) (template, []templateError) {
	var t template
	var errs []templateError
	offset := 0 // runes
	for text != "" {
		i := strings.Index(text, "{{")
		if i < 0 {
			t = append(t, piece{literal: text})
			break
		}
		if i > 0 {
			t = append(t, piece{literal: text[:i]})
		}
		offset += utf8.RuneCountInString(text[:i])
		inner, rest, closed := strings.Cut(text[i+2:], "}}")
		if !closed {
			errs = append(errs, templateError{offset, "{{ without }}", "write {{variable}} or {{variable | format}}"})
			break
		}
		p, e := parsePlaceholder(inner, kind)
		if e != nil {
			e.offset = offset
			errs = append(errs, *e)
		} else {
			t = append(t, p)
		}
		offset += 4 + utf8.RuneCountInString(inner)
		text = rest
	}
	return t, errs
}

func parsePlaceholder(inner string, kind SubjectKind) (piece, *templateError) {
	name, format, piped := strings.Cut(inner, "|")
	name, format = strings.TrimSpace(name), strings.TrimSpace(format)
	s, ok := slots[name]
	if !ok || !vars[s.row].of(kind) {
		message := fmt.Sprintf("placeholder {{%s}} is no variable", name)
		if ok {
			message = fmt.Sprintf("placeholder {{%s}} is not known for a rule about a %s", name, kind)
		}
		return piece{}, &templateError{0, message, didYouMean(name, varNames(kind))}
	}
	p := piece{slot: &s, unit: vars[s.row].Unit, name: name}
	if !piped {
		return p, nil
	}
	if s.text {
		return piece{}, &templateError{0, fmt.Sprintf("%s is a string and takes no format", name), fmt.Sprintf("write {{%s}}", name)}
	}
	if word, noun, _ := strings.Cut(format, " "); word == "plural" {
		if p.unit, p.noun = NoUnit, strings.TrimSpace(noun); p.noun == "" {
			return piece{}, &templateError{0, "plural of what?", fmt.Sprintf("write {{%s | plural job}}", name)}
		}
		return p, nil
	}
	unit, ok := formats[format]
	if !ok {
		return piece{}, &templateError{0, fmt.Sprintf("no such format: %q", format), didYouMean(format, formatNames)}
	}
	p.unit = unit
	return p, nil
}

// mentions reports whether the text holds one of the variables.
func (t template) mentions(names []string) bool {
	for _, p := range t {
		if p.slot != nil && contains(names, p.name) {
			return true
		}
	}
	return false
}

// render fills the placeholders. It reports false when one of them is unknown.
func (t template) render(f Facts) (string, bool) {
	var b strings.Builder
	known := true
	for _, p := range t {
		if p.slot == nil {
			b.WriteString(p.literal)
			continue
		}
		text, ok := p.value(f)
		known = known && ok
		b.WriteString(text)
	}
	return b.String(), known
}

func (p *piece) value(f Facts) (string, bool) {
	if p.slot.text {
		s := f.Text(TextID(p.slot.place))
		if s == "" {
			return "unknown", false
		}
		return safeText(s), true
	}
	v := f.Number(NumberID(p.slot.place))
	switch {
	case math.IsNaN(v):
		return "unknown", false
	case p.slot.isBool && v == 1:
		return "yes", true
	case p.slot.isBool:
		return "no", true
	}
	text := FormatNumber(v, p.unit)
	switch {
	case p.noun == "":
		return text, true
	case text == "1":
		return text + " " + p.noun, true
	}
	return text + " " + p.noun + "s", true
}

// varNames are the variables that a rule about kind may use.
func varNames(kind SubjectKind) []string {
	var names []string
	for i := range vars {
		if vars[i].of(kind) {
			names = append(names, vars[i].Name)
		}
	}
	return names
}

package policy

import (
	"math"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// maxText bounds a string fact, in bytes. The cost of comparing strings is
// estimated with it before a rule is accepted.
const maxText = 256

// Facts are the values of the variables for one subject. A number that was not
// set is NaN (unknown), a string "". Copies share their values; Clone does not.
type Facts struct {
	numbers []float64
	texts   []string
}

// NewFacts gives facts of which nothing is known.
func NewFacts() Facts {
	f := Facts{make([]float64, numNumbers), make([]string, numTexts)}
	f.Reset()
	return f
}

// Reset forgets everything, so that the memory can be used again.
func (f Facts) Reset() {
	for i := range f.numbers {
		f.numbers[i] = math.NaN()
	}
	clear(f.texts)
}

// Clone gives facts that share nothing with f.
func (f Facts) Clone() Facts {
	return Facts{append([]float64(nil), f.numbers...), append([]string(nil), f.texts...)}
}

// Set sets a number; NaN makes it unknown.
func (f Facts) Set(id NumberID, v float64) { f.numbers[id] = v }

// SetBool sets a bool.
func (f Facts) SetBool(id NumberID, v bool) {
	f.numbers[id] = 0
	if v {
		f.numbers[id] = 1
	}
}

// SetText sets a string. What is longer than 256 bytes is cut, at a rune.
func (f Facts) SetText(id TextID, s string) {
	if len(s) > maxText {
		s = strings.ToValidUTF8(s[:maxText], "")
	}
	f.texts[id] = s
}

// Number is a number's value; NaN is unknown. A bool is 0 or 1.
func (f Facts) Number(id NumberID) float64 {
	if int(id) >= len(f.numbers) {
		return math.NaN()
	}
	return f.numbers[id]
}

// Text is a string's value; "" is unknown.
func (f Facts) Text(id TextID) string {
	if int(id) >= len(f.texts) {
		return ""
	}
	return f.texts[id]
}

// activation lets CEL read Facts without a map per evaluation. A number becomes
// a CEL value once, however many rules ask for it.
type activation struct {
	facts  Facts
	values []ref.Val // of the numbers; nil until asked for
}

func newActivation(f Facts) *activation {
	return &activation{f, make([]ref.Val, numNumbers)}
}

// reset makes the activation read other facts.
func (a *activation) reset(f Facts) {
	a.facts = f
	clear(a.values)
}

func (a *activation) ResolveName(name string) (any, bool) {
	s, ok := slots[name]
	if !ok {
		return nil, false
	}
	if s.text {
		t := a.facts.Text(TextID(s.place))
		if !utf8.ValidString(t) { // a job id may hold any bytes, a CEL string may not
			t = strings.ToValidUTF8(t, "\uFFFD")
		}
		return types.String(t), true
	}
	if a.values[s.place] == nil {
		a.values[s.place] = celNumber(a.facts.Number(NumberID(s.place)), s.isBool)
	}
	return a.values[s.place], true
}

func (a *activation) Parent() cel.Activation { return nil }

// The values that most variables have, made once.
var celZero, celUnknown ref.Val = types.Double(0), types.Double(math.NaN())

func celNumber(v float64, isBool bool) ref.Val {
	switch {
	case isBool:
		return types.Bool(v == 1)
	case v == 0:
		return celZero
	case math.IsNaN(v):
		return celUnknown
	}
	return types.Double(v)
}

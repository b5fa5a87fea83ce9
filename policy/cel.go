package policy

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// The bounds of one condition. costLimit counts CEL's own cost units: about one
// per operator or variable and one per ten bytes of a compared string. The
// language has no loops, so the cost of a condition about numbers is known
// before it runs. Where strings are compared it depends on them too: then the
// limit is watched while it runs as well, which costs more than the comparing.
const (
	maxExpression = 4096 // runes
	maxNodes      = 500
	maxNesting    = 50
	costLimit     = 2000
)

// condition is a CEL expression that gives a bool.
type condition struct {
	source  string
	program func() (cel.Program, error)
	numbers []string // number variables that it mentions, in the table's order; nil when compiled later
}

// eval gives false with an error when the cost limit was passed.
func (c *condition) eval(a *activation) (bool, error) {
	p, err := c.program()
	if err != nil {
		return false, err
	}
	v, _, err := p.Eval(a)
	if err != nil {
		return false, fmt.Errorf("evaluate %q: %w", oneLine(c.source), err)
	}
	return v == types.True, nil
}

func compiled(p cel.Program) func() (cel.Program, error) {
	return func() (cel.Program, error) { return p, nil }
}

// compiler makes conditions.
type compiler func(source string, kind SubjectKind) (*condition, []celProblem)

func compileNow(source string, kind SubjectKind) (*condition, []celProblem) {
	return compile(source, kind, costLimit)
}

// compileLater leaves the work to the first evaluation: CEL's parser takes 0.3 ms
// per condition, and most severities are never asked for. It finds no problem,
// so it is for rules that a test has compiled.
func compileLater(source string, kind SubjectKind) (*condition, []celProblem) {
	return &condition{source: source, program: sync.OnceValues(func() (cel.Program, error) {
		c, problems := compile(source, kind, costLimit)
		if len(problems) > 0 {
			return nil, fmt.Errorf("compile %q: %s", oneLine(source), problems[0].message)
		}
		return c.program()
	})}, nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// language is the CEL environment: all variables, numbers and strings, no loops.
var language = sync.OnceValues(newLanguage)

func newLanguage() (*cel.Env, error) {
	f := func(name string, overloads ...string) *env.Function {
		fn := &env.Function{Name: name}
		for _, o := range overloads {
			fn.Overloads = append(fn.Overloads, &env.Overload{ID: o})
		}
		return fn
	}
	subset := &env.LibrarySubset{DisableMacros: true, IncludeFunctions: []*env.Function{
		f(operators.LogicalAnd), f(operators.LogicalOr), f(operators.LogicalNot), f(operators.Conditional),
		f(operators.Equals), f(operators.NotEquals), f(operators.In, overloads.InList),
		f(operators.Less, overloads.LessDouble), f(operators.LessEquals, overloads.LessEqualsDouble),
		f(operators.Greater, overloads.GreaterDouble), f(operators.GreaterEquals, overloads.GreaterEqualsDouble),
		f(operators.Add, overloads.AddDouble), f(operators.Subtract, overloads.SubtractDouble),
		f(operators.Multiply, overloads.MultiplyDouble), f(operators.Divide, overloads.DivideDouble),
		f(operators.Negate, overloads.NegateDouble),
		f(overloads.StartsWith), f(overloads.EndsWith), f(overloads.Contains),
	}}
	opts := []cel.EnvOption{
		cel.StdLib(cel.StdLibSubset(subset)),
		cel.ParserExpressionSizeLimit(maxExpression), cel.ParserRecursionLimit(maxNesting),
		cel.ExpressionNodeLimit(maxNodes), cel.ExpressionNestingDepthLimit(maxNesting),
		cel.Function("known",
			cel.Overload("known_double", []*cel.Type{cel.DoubleType}, cel.BoolType, cel.UnaryBinding(knownNumber)),
			cel.Overload("known_string", []*cel.Type{cel.StringType}, cel.BoolType, cel.UnaryBinding(knownText))),
		cel.Function("min", cel.Overload("min_double_double", []*cel.Type{cel.DoubleType, cel.DoubleType}, cel.DoubleType,
			cel.BinaryBinding(ofTwo(math.Min)))),
		cel.Function("max", cel.Overload("max_double_double", []*cel.Type{cel.DoubleType, cel.DoubleType}, cel.DoubleType,
			cel.BinaryBinding(ofTwo(math.Max)))),
	}
	for _, v := range vars {
		t := cel.DoubleType
		switch v.Type {
		case String:
			t = cel.StringType
		case Bool:
			t = cel.BoolType
		}
		opts = append(opts, cel.Variable(v.Name, t))
	}
	return cel.NewCustomEnv(opts...)
}

func knownNumber(v ref.Val) ref.Val {
	d, ok := v.(types.Double)
	return types.Bool(ok && !math.IsNaN(float64(d)))
}

func knownText(v ref.Val) ref.Val {
	s, ok := v.(types.String)
	return types.Bool(ok && s != "")
}

// ofTwo wraps math.Min and math.Max, made strict: math.Min(NaN, -Inf) is -Inf,
// but an unknown number must stay unknown.
func ofTwo(f func(a, b float64) float64) func(a, b ref.Val) ref.Val {
	return func(a, b ref.Val) ref.Val {
		x, ok1 := a.(types.Double)
		y, ok2 := b.(types.Double)
		if !ok1 || !ok2 || math.IsNaN(float64(x)) || math.IsNaN(float64(y)) {
			return types.Double(math.NaN())
		}
		return types.Double(f(float64(x), float64(y)))
	}
}

// celProblem is what is wrong at a rune offset of the expression.
type celProblem struct {
	offset        int
	message, hint string
}

// compile turns an expression about a subject into a condition, or tells all
// that is wrong with it. limit is costLimit but in tests.
func compile(source string, kind SubjectKind, limit uint64) (*condition, []celProblem) {
	language, err := language()
	if err != nil {
		return nil, []celProblem{{0, fmt.Sprintf("make the rule language: %v", err), ""}}
	}
	if n := utf8.RuneCountInString(source); n > maxExpression {
		return nil, []celProblem{{0, fmt.Sprintf("expression has %d characters, more than %d", n, maxExpression), "split the rule"}}
	}
	parsed, issues := language.Parse(source)
	if issues.Err() != nil {
		return nil, syntaxProblem(source, issues.Errors())
	}
	w := walker{source: source, info: parsed.NativeRep().SourceInfo(), kind: kind,
		starts: map[int64]int{}, seen: map[string]bool{}}
	w.parsed(parsed.NativeRep().Expr())
	if len(w.problems) > 0 {
		return nil, w.problems
	}
	checked, issues := language.Check(parsed)
	if issues.Err() != nil {
		return nil, w.typeProblems(issues.Errors())
	}
	w.typed(checked.NativeRep())
	if t := checked.OutputType(); len(w.problems) == 0 && !t.IsExactType(cel.BoolType) {
		w.add(checked.NativeRep().Expr(), "compare it with something, as in share.write >= 0.3",
			"gives a %s, not a condition (true or false)", typeWord(t.String()))
	}
	if len(w.problems) > 0 {
		return nil, w.problems
	}
	estimate, err := language.EstimateCost(checked, sizes{})
	if err != nil {
		return nil, []celProblem{{0, fmt.Sprintf("estimate cost: %v", err), ""}}
	}
	if estimate.Max > limit {
		return nil, []celProblem{{0, fmt.Sprintf("costs up to %d units to evaluate, more than %d", estimate.Max, limit),
			"make lists shorter or split the rule"}}
	}
	var opts []cel.ProgramOption
	numbers := w.numbers()
	if len(numbers) < len(w.seen) {
		opts = append(opts, cel.CostLimit(limit))
	}
	p, err := plan(language, checked, opts...)
	if err != nil {
		return nil, []celProblem{{0, err.Error(), ""}}
	}
	return &condition{source, compiled(p), numbers}, nil
}

func plan(language *cel.Env, checked *cel.Ast, opts ...cel.ProgramOption) (cel.Program, error) {
	p, err := language.Program(checked, append(opts, cel.EvalOptions(cel.OptOptimize))...)
	if err != nil {
		return nil, fmt.Errorf("plan expression: %w", err)
	}
	return p, nil
}

// sizes tells the cost estimate how long a string variable can be.
type sizes struct{}

func (sizes) EstimateSize(n cost.AstNode) *cost.SizeEstimate {
	if n.Type() != nil && n.Type().IsExactType(cel.StringType) && len(n.Path()) > 0 {
		return &cost.SizeEstimate{Min: 0, Max: maxText}
	}
	return nil
}

func (sizes) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}

// walker goes over an expression before and after the type check.
type walker struct {
	source   string
	info     *ast.SourceInfo
	kind     SubjectKind
	starts   map[int64]int // rune offsets of variables, whose own place is their dot
	seen     map[string]bool
	problems []celProblem
}

func (w *walker) add(e ast.Expr, hint, format string, args ...any) {
	w.problems = append(w.problems, celProblem{w.offset(leftmost(e).ID()), fmt.Sprintf(format, args...), hint})
}

// offset is where an expression starts, as far as CEL tells.
func (w *walker) offset(id int64) int {
	if o, ok := w.starts[id]; ok {
		return o
	}
	return runeOffset(w.source, w.info.GetStartLocation(id))
}

func isOperator(name string) bool {
	_, ok := operators.FindReverse(name)
	return ok || name == operators.Conditional
}

// leftmost is the part of an expression that is written first, where its own
// place is that of its operator or dot.
func leftmost(e ast.Expr) ast.Expr {
	for {
		switch {
		case e.Kind() == ast.SelectKind:
			e = e.AsSelect().Operand()
		case e.Kind() == ast.CallKind && len(e.AsCall().Args()) > 1 && isOperator(e.AsCall().FunctionName()):
			e = e.AsCall().Args()[0]
		default:
			return e
		}
	}
}

// loops are CEL's macros. They are off, so that no expression can run away.
var loops = []string{"all", "exists", "exists_one", "map", "filter"}

var functionNames = []string{"known", "min", "max", "startsWith", "endsWith", "contains"}

// parsed checks names and kinds, and turns integers into doubles.
func (w *walker) parsed(e ast.Expr) {
	switch e.Kind() {
	case ast.IdentKind, ast.SelectKind:
		w.variable(e)
	case ast.LiteralKind:
		w.literal(e)
	case ast.ListKind:
		for _, x := range e.AsList().Elements() {
			w.parsed(x)
		}
	case ast.CallKind:
		w.call(e)
	default:
		w.add(e, "a rule is built of numbers, strings and comparisons", "maps and messages are not part of the rule language")
	}
}

func (w *walker) literal(e ast.Expr) {
	switch v := e.AsLiteral().(type) {
	case types.Int:
		e.SetKindCase(ast.NewExprFactory().NewLiteral(e.ID(), types.Double(v)))
	case types.Double, types.String, types.Bool:
	default:
		w.add(e, "", "%s is not part of the rule language", typeWord(v.Type().TypeName()))
	}
}

func (w *walker) call(e ast.Expr) {
	name := e.AsCall().FunctionName()
	switch {
	case isOperator(name):
		if symbol, _ := operators.FindReverse(name); symbol == "%" {
			w.add(e, "", "%% is not part of the rule language")
			return
		}
		if name == operators.Index || name == operators.OptIndex || name == operators.OptSelect {
			w.add(e, "", "indexing is not part of the rule language")
			return
		}
	case contains(loops, name):
		w.add(e, "write the comparisons out, joined by && or ||", "loops (%s) are not part of the rule language", strings.Join(loops, ", "))
		return
	case !contains(functionNames, name):
		w.add(e, didYouMean(name, functionNames), "no such function: %s", name)
		return
	}
	if e.AsCall().IsMemberFunction() {
		w.parsed(e.AsCall().Target())
	}
	for _, a := range e.AsCall().Args() {
		w.parsed(a)
	}
}

func (w *walker) variable(e ast.Expr) {
	w.starts[e.ID()] = w.offset(leftmost(e).ID())
	name, ok := dotted(e)
	if !ok {
		w.add(e, "", "only variables have dots in their names")
		return
	}
	s, ok := slots[name]
	switch {
	case !ok && (name == "when" || name == "for" || name == "keep"):
		w.add(e, "", "%s is no variable", name)
	case !ok:
		w.add(e, didYouMean(name, varNames(w.kind)), "no such variable: %s", name)
	case !vars[s.row].of(w.kind):
		w.add(e, fmt.Sprintf("%s is known for: %s", name, joinKinds(vars[s.row].Subjects)),
			"%s is not known for a rule about a %s", name, w.kind)
	default:
		w.seen[name] = true
	}
}

// dotted is the name that a chain of selections spells.
func dotted(e ast.Expr) (string, bool) {
	if e.Kind() == ast.IdentKind {
		return e.AsIdent(), true
	}
	if e.Kind() != ast.SelectKind {
		return "", false
	}
	name, ok := dotted(e.AsSelect().Operand())
	return name + "." + e.AsSelect().FieldName(), ok
}

func (w *walker) numbers() []string {
	var names []string
	for n := range w.seen {
		if !slots[n].text {
			names = append(names, n)
		}
	}
	sort.Slice(names, func(i, j int) bool { return slots[names[i]].row < slots[names[j]].row })
	return names
}

// typed refuses what would make an unknown number true.
func (w *walker) typed(a *ast.AST) {
	var visit func(e ast.Expr, negated bool)
	visit = func(e ast.Expr, negated bool) {
		if e.Kind() == ast.ListKind {
			for _, x := range e.AsList().Elements() {
				visit(x, negated)
			}
		}
		if e.Kind() != ast.CallKind {
			return
		}
		name, args := e.AsCall().FunctionName(), e.AsCall().Args()
		symbol, _ := operators.FindReverse(name)
		isNumber := len(args) == 2 && a.GetType(args[0].ID()).IsExactType(cel.DoubleType)
		isBool := len(args) == 2 && a.GetType(args[0].ID()).IsExactType(cel.BoolType)
		switch name {
		case operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
			if negated {
				w.add(e, "turn the comparison around: <= for !(>), < for !(>=)",
					"a negated comparison would be true when the number is not known")
			}
		case operators.Equals, operators.NotEquals:
			switch {
			case isBool:
				w.add(e, "write x or !x", "%s between conditions", symbol)
			case isNumber && (negated || name == operators.NotEquals):
				w.add(e, "write x < 4 || x > 4", "%s would be true when the number is not known", "!=")
			}
		case operators.In:
			if negated && isNumber {
				w.add(e, "", "a negated \"in\" would be true when the number is not known")
			}
		case operators.LogicalNot:
			negated = !negated
		}
		if e.AsCall().IsMemberFunction() {
			visit(e.AsCall().Target(), negated)
		}
		for _, x := range args {
			visit(x, negated)
		}
	}
	visit(a.Expr(), false)
}

// syntaxProblem keeps the first syntax error: the others follow from it.
func syntaxProblem(source string, errs []*common.Error) []celProblem {
	first := errs[0]
	for _, e := range errs {
		if e.Location.Line() < first.Location.Line() ||
			e.Location.Line() == first.Location.Line() && e.Location.Column() < first.Location.Column() {
			first = e
		}
	}
	message := strings.TrimPrefix(first.Message, "Syntax error: ")
	message, _, _ = strings.Cut(message, " expecting ")
	hint := ""
	switch {
	case strings.HasPrefix(message, "token recognition error at: '='"), strings.HasPrefix(message, "token recognition error at: '= "):
		message, hint = "a single =", "write == to compare"
	case strings.HasPrefix(message, "token recognition error at: '&"):
		message, hint = "a single &", "write && for and"
	case strings.HasPrefix(message, "token recognition error at: '|"):
		message, hint = "a single |", "write || for or"
	case strings.HasPrefix(message, "token recognition error at: "):
		message = "cannot read " + strings.TrimPrefix(message, "token recognition error at: ")
	case strings.HasSuffix(message, "at '<EOF>'"):
		message += ", the end of the expression"
	case strings.HasSuffix(message, "input '<EOF>'"):
		message = "the expression ends too early"
	}
	for _, word := range []string{"and", "or", "not"} {
		if strings.Contains(message, "input '"+word+"'") {
			message, hint = fmt.Sprintf("unexpected %q", word), "write && for and, || for or, ! for not"
		}
	}
	return []celProblem{{runeOffset(source, first.Location), message, hint}}
}

func (w *walker) typeProblems(errs []*common.Error) []celProblem {
	var out []celProblem
	for _, e := range errs {
		offset, ok := w.starts[e.ExprID]
		if !ok {
			offset = runeOffset(w.source, e.Location)
		}
		out = append(out, celProblem{offset, typeMessage(e.Message), typeHint(e.Message)})
	}
	return out
}

// typeMessage says "< does not take (number, string)" where CEL says "found no
// matching overload for '_<_' applied to '(double, string)'".
func typeMessage(message string) string {
	if rest, ok := strings.CutPrefix(message, "found no matching overload for '"); ok {
		name, applied, _ := strings.Cut(rest, "' applied to '")
		if symbol, ok := operators.FindReverse(name); ok && symbol != "" {
			name = symbol
		}
		if name == operators.Conditional {
			name = "?:"
		}
		return fmt.Sprintf("%s does not take %s", name, typeWord(strings.TrimSuffix(applied, "'")))
	}
	return typeWord(message)
}

func typeHint(message string) string {
	switch {
	case strings.HasPrefix(message, "expected type 'bool' but found 'double'"):
		return "&& and || join conditions; compare the number, as in share.write >= 0.3"
	case strings.HasPrefix(message, "expected type 'bool'"):
		return "&& and || join conditions"
	}
	return ""
}

func typeWord(s string) string { return strings.ReplaceAll(s, "double", "number") }

// runeOffset turns CEL's line (from 1) and column (from 0) into an offset.
func runeOffset(source string, at common.Location) int {
	line, offset := 1, 0
	for _, r := range source {
		if line >= at.Line() {
			break
		}
		if r == '\n' {
			line++
		}
		offset++
	}
	return offset + max(0, at.Column())
}

// costExceeded reports whether an evaluation ended at the cost limit.
func costExceeded(err error) bool {
	var cancelled interpreter.EvalCancelledError
	return errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded
}

// Package policy turns facts about jobs, OSTs, pools and servers into findings.
//
// It reads rule files (YAML with positions in every error, conditions in CEL),
// compiles them, and steps a state machine (Tracker) that opens, raises and
// closes findings. It never reads the machine, never asks the clock and never
// logs: time and facts are arguments, so any rule can be replayed from records.
// The engine calls it; `ioguard policy` checks and tests rules with it.
//
// # The rule language
//
// A condition is a CEL expression over the variables of the table in vars.go.
// All numbers are doubles: `5` and `5.0` are the same and 5 / 2 is 2.5. There
// are the operators && || ! ?: < <= > >= == != in + - * /, the functions
// known(x), min(a, b), max(a, b), and on strings startsWith, endsWith and
// contains. There are no loops, no regular expressions and no dates: the size
// of an expression bounds its cost. The cost is limited before the rule is
// accepted, and again while it runs where it compares strings.
//
// An unknown number is NaN and compares false with everything; arithmetic with
// it, min and max included, stays unknown. So an unknown number never makes a
// comparison true. Where a negation would turn that around, as in
// !(job.osts > 4), the rule is refused; write job.osts <= 4. The one way left is
// the second branch of ?: whose condition is unknown. An unknown string is "",
// an unknown bool is false; known(x) tells.
//
// In facts and advice {{share.write}} is a variable in its unit, {{share.write |
// number}} in another, and {{job.osts | plural OST}} counts: "1 OST", "4 OSTs". A
// sentence of the facts with an unknown variable in it is left out, so one that
// may stand alone should: a rate in one sentence, its ratio to the calm in another.
package policy

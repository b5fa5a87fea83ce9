package policy

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"ioguard"
)

// The actions that a rule may ask for.
const (
	FlagAction     = "flag"
	ThrottleAction = "throttle"
)

// Rule is one compiled rule.
type Rule struct {
	Code     string
	Title    string
	Subject  SubjectKind
	For      Span // how long the condition must hold before a finding opens
	Keep     Span // how long it must be false before the finding closes
	Action   string
	Disabled bool   // switches the rule of this code off; nothing else is set
	File     string // where it was read

	when, keepWhen *condition
	exempt         []*condition
	levels         []level // highest severity first
	advice         template
	facts          []fact
	evidence       []string // number variables
}

// Severities are the severities that the rule can give, highest first.
func (r *Rule) Severities() []ioguard.Severity {
	var out []ioguard.Severity
	for _, l := range r.levels {
		out = append(out, l.severity)
	}
	return out
}

// Conditions are the sources of the rule's conditions by their keys in the
// file: when, keep_when, exempt, severity.critical.
func (r *Rule) Conditions() map[string][]string {
	m := map[string][]string{}
	add := func(key string, c *condition) {
		if c != nil {
			m[key] = append(m[key], strings.TrimSpace(c.source))
		}
	}
	add("when", r.when)
	add("keep_when", r.keepWhen)
	for _, c := range r.exempt {
		add("exempt", c)
	}
	for _, l := range r.levels {
		add("severity."+string(l.severity), l.when)
	}
	return m
}

// level is a severity with its condition; nil holds always.
type level struct {
	severity ioguard.Severity
	when     *condition
}

// fact is a sentence that proves a finding.
type fact struct {
	group   string
	text    template
	running bool // it mentions a running variable
}

// factGroups are what a rule judges by, in the order in which people read it.
var factGroups = []string{"pattern", "share", "pressure", "harm"}

// Span is a time, or a number of samples. The zero Span is over at once.
type Span struct {
	Time    time.Duration
	Samples int
}

func (s Span) String() string {
	switch {
	case s.Samples == 1:
		return "1 sample"
	case s.Samples > 1:
		return strconv.Itoa(s.Samples) + " samples"
	}
	return s.Time.String()
}

// over reports whether something that lasted for a time and a number of samples
// has filled the span.
func (s Span) over(lasted time.Duration, samples int) bool {
	if s.Samples > 0 {
		return samples >= s.Samples
	}
	return lasted >= s.Time
}

// The longest spans that a rule may ask for.
const (
	maxSpan        = 24 * time.Hour
	maxSpanSamples = 10000
)

const spanHint = "write 30s, 2m or 3 samples"

// parseSpan reads "4s" or "2 samples".
func parseSpan(s string) (Span, error) {
	if words := strings.Fields(s); len(words) == 2 && (words[1] == "samples" || words[1] == "sample") {
		n, err := strconv.Atoi(words[0])
		if err != nil || n < 1 || n > maxSpanSamples {
			return Span{}, fmt.Errorf("%q is no number of samples from 1 to %d", words[0], maxSpanSamples)
		}
		return Span{Samples: n}, nil
	}
	t, err := time.ParseDuration(strings.TrimSpace(s))
	if err != nil || t < 0 || t > maxSpan {
		return Span{}, fmt.Errorf("%q is no time up to %v", s, maxSpan)
	}
	return Span{Time: t}, nil
}

var ruleKeys = []string{
	"code", "title", "subject", "severity", "when", "for", "keep", "keep_when", "exempt",
	"action", "advice", "facts", "evidence", "disabled",
}

// ParseRule reads one rule file. file only names it in errors. The error is
// Problems: all that is wrong, not the first alone.
func ParseRule(file string, data []byte) (*Rule, error) {
	d := &document{file: file}
	r := parseRule(d, data, compileNow)
	if err := d.problems.err(); err != nil {
		return nil, err
	}
	return r, nil
}

func parseRule(d *document, data []byte, compile compiler) *Rule {
	body := d.parse(data)
	if body == nil {
		return nil
	}
	fields := d.mapping(body, "rule", ruleKeys)
	if fields == nil {
		return nil
	}
	p := ruleParser{document: d, compile: compile, fields: fields, rule: &Rule{File: d.file, Action: FlagAction}}
	defer func() {
		for _, problem := range d.problems {
			problem.Rule = p.rule.Code
		}
	}()
	p.code()
	if p.disabled() {
		return p.rule
	}
	for _, key := range []string{"title", "subject", "severity", "when", "advice"} {
		if _, ok := fields[key]; !ok {
			d.problem(d.start(body), "", "rule has no %s", key)
		}
	}
	p.words()
	if !p.subject() {
		return p.rule // without it no name can be checked
	}
	p.spans()
	p.conditions()
	p.severity()
	p.texts()
	p.evidence()
	return p.rule
}

// ruleParser reads the fields of one rule.
type ruleParser struct {
	*document
	compile compiler
	fields  map[string]field
	rule    *Rule
}

// optional gives the scalar of a key that may be missing.
func (p *ruleParser) optional(key string) (text, bool) {
	f, ok := p.fields[key]
	if !ok {
		return text{}, false
	}
	return p.scalar(f.value, key)
}

func (p *ruleParser) code() {
	if _, ok := p.fields["code"]; !ok {
		p.problem(place{1, 1}, "", "rule has no code")
	}
	t, ok := p.optional("code")
	if !ok {
		return
	}
	for i, c := range t.value {
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' && i > 0 || c == '-' && i > 0) || i >= 40 {
			p.problem(t.place(i), "up to 40 lower-case letters, digits and dashes: metadata-flood", "code %q", t.value)
			return
		}
	}
	p.rule.Code = t.value
}

func (p *ruleParser) disabled() bool {
	t, ok := p.optional("disabled")
	if !ok {
		return false
	}
	switch t.value {
	case "true":
		p.rule.Disabled = true
	case "false":
	default:
		p.problem(t.at, "true or false", "disabled: %s", t.value)
	}
	return p.rule.Disabled
}

func (p *ruleParser) words() {
	if t, ok := p.optional("title"); ok {
		p.rule.Title = strings.TrimSpace(t.value)
		if strings.Contains(p.rule.Title, "\n") || len(p.rule.Title) > 100 {
			p.problem(t.at, "one line of up to 100 characters", "title is too long")
		}
	}
	if t, ok := p.optional("action"); ok {
		if p.rule.Action = t.value; t.value != FlagAction && t.value != ThrottleAction {
			p.problem(t.at, didYouMean(t.value, []string{FlagAction, ThrottleAction}), "no such action: %q", t.value)
		}
	}
}

func (p *ruleParser) subject() bool {
	t, ok := p.optional("subject")
	if !ok {
		return false
	}
	var words []string
	for _, k := range subjectKinds {
		if string(k) == t.value {
			p.rule.Subject = k
			return true
		}
		words = append(words, string(k))
	}
	p.problem(t.at, didYouMean(t.value, words), "no such subject: %q", t.value)
	return false
}

func (p *ruleParser) spans() {
	for key, to := range map[string]*Span{"for": &p.rule.For, "keep": &p.rule.Keep} {
		t, ok := p.optional(key)
		if !ok {
			continue
		}
		s, err := parseSpan(t.value)
		if err != nil {
			p.problem(t.at, spanHint, "%s: %v", key, err)
		}
		*to = s
	}
}

func (p *ruleParser) conditions() {
	if f, ok := p.fields["when"]; ok {
		p.rule.when = p.condition(f.value, "when")
	}
	if f, ok := p.fields["keep_when"]; ok {
		p.rule.keepWhen = p.condition(f.value, "keep_when")
	}
	if f, ok := p.fields["exempt"]; ok {
		for _, n := range p.list(f.value) {
			if c := p.condition(n, "exempt"); c != nil {
				p.rule.exempt = append(p.rule.exempt, c)
			}
		}
	}
}

// condition compiles a scalar; nil after a problem.
func (p *ruleParser) condition(n ast.Node, what string) *condition {
	t, ok := p.scalar(n, what)
	if !ok {
		return nil
	}
	c, problems := p.compile(t.value, p.rule.Subject)
	for _, cp := range problems {
		p.problem(t.place(cp.offset), cp.hint, "%s: %s", what, cp.message)
	}
	return c
}

var severityWords = []string{string(ioguard.Critical), string(ioguard.Warning), string(ioguard.Notice)}

func (p *ruleParser) severity() {
	f, ok := p.fields["severity"]
	if !ok {
		return
	}
	switch f.value.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		levels := p.mapping(f.value, "severity", severityWords)
		if len(levels) == 0 {
			p.problem(p.start(f.value), "", "severity names no level")
		}
		for _, word := range severityWords {
			if l, ok := levels[word]; ok {
				p.rule.levels = append(p.rule.levels, level{ioguard.Severity(word), p.condition(l.value, "severity "+word)})
			}
		}
	default:
		t, ok := p.scalar(f.value, "severity")
		if !ok {
			return
		}
		if !contains(severityWords, t.value) {
			p.problem(t.at, didYouMean(t.value, severityWords), "no such severity: %q", t.value)
		}
		p.rule.levels = []level{{severity: ioguard.Severity(t.value)}}
	}
}

func (p *ruleParser) texts() {
	if f, ok := p.fields["advice"]; ok {
		p.rule.advice = p.template(f.value, "advice")
	}
	f, ok := p.fields["facts"]
	if !ok {
		return
	}
	groups := p.mapping(f.value, "facts", factGroups)
	for _, g := range factGroups {
		group, ok := groups[g]
		if !ok {
			continue
		}
		for _, n := range p.list(group.value) {
			if t := p.template(n, "facts "+g); t != nil {
				p.rule.facts = append(p.rule.facts, fact{g, t, t.mentions(running)})
			}
		}
	}
}

func (p *ruleParser) template(n ast.Node, what string) template {
	t, ok := p.scalar(n, what)
	if !ok {
		return nil
	}
	tmpl, errs := parseTemplate(t.value, p.rule.Subject)
	for _, e := range errs {
		p.problem(t.place(e.offset), e.hint, "%s: %s", what, e.message)
	}
	return tmpl
}

// evidence defaults to all numbers that when, keep_when and severity mention.
func (p *ruleParser) evidence() {
	f, ok := p.fields["evidence"]
	if !ok {
		p.rule.evidence = p.rule.mentioned()
		return
	}
	for _, n := range p.list(f.value) {
		t, ok := p.scalar(n, "evidence")
		if !ok {
			continue
		}
		s, ok := slots[t.value]
		switch {
		case !ok || !vars[s.row].of(p.rule.Subject):
			p.problem(t.at, didYouMean(t.value, varNames(p.rule.Subject)), "evidence: no such variable for a %s: %s", p.rule.Subject, t.value)
		case s.text:
			p.problem(t.at, "", "evidence: %s is a string; evidence is numbers", t.value)
		default:
			p.rule.evidence = append(p.rule.evidence, t.value)
		}
	}
}

func (r *Rule) mentioned() []string {
	seen := map[string]bool{}
	var names []string
	add := func(c *condition) {
		if c == nil {
			return
		}
		for _, n := range c.numbers {
			if !seen[n] {
				seen[n] = true
				names = append(names, n)
			}
		}
	}
	add(r.when)
	add(r.keepWhen)
	for _, l := range r.levels {
		add(l.when)
	}
	sort.Slice(names, func(i, j int) bool { return slots[names[i]].row < slots[names[j]].row })
	return names
}

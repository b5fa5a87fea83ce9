package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"ioguard"
	"ioguard/policy"
)

func policyCommand() *cli.Command {
	return &cli.Command{
		Name:         "policy",
		Usage:        "check and test the rules that findings come from",
		OnUsageError: onUsageError,
		Subcommands:  policySubcommands(),
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError("ioguard policy --help lists them", "no such subcommand of policy: %q", c.Args().First())
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

// policySubcommands is the one list of what policy can do: a line each.
func policySubcommands() []*cli.Command {
	return []*cli.Command{
		policyCheckCommand(),
		policyTestCommand(),
		policyVarsCommand(),
		policyReplayCommand(),
	}
}

func policyJSONFlag() cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON"}
}

func policyCheckCommand() *cli.Command {
	return &cli.Command{
		Name:         "check",
		Usage:        "read rules and their tests, and say all that is wrong",
		ArgsUsage:    "FILE|DIR...",
		Description:  "A DIR is searched for folders with policy.yaml and tests.yaml. Exit code 4 when something is wrong.",
		Flags:        []cli.Flag{policyJSONFlag()},
		OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return usageError("ioguard policy check /etc/ioguard/policy", "no file or directory to check")
			}
			return policyCheck(c.App.ErrWriter, c.Args().Slice(), c.Bool("json"))
		},
	}
}

func policyCheck(errw io.Writer, args []string, asJSON bool) error {
	rules := []string{}
	problems := policy.Problems{}
	for _, arg := range args {
		p, err := policyCheckOne(arg)
		if err := policyCollect(&problems, err); err != nil {
			return err
		}
		if p != nil {
			for _, r := range p.Rules {
				rules = append(rules, r.Code)
			}
		}
	}
	if asJSON {
		if err := printJSON(map[string]any{"rules": rules, "problems": problems}); err != nil {
			return err
		}
	} else if len(problems) == 0 {
		fmt.Fprintf(stdout, "%s checked, no problems\n", policyCount(len(rules), "rule"))
	}
	return policyInvalid(errw, problems, asJSON)
}

// policyCheckOne reads a directory's rules, or one rule file of any name.
func policyCheckOne(arg string) (*policy.Policy, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() && filepath.Base(arg) != policy.RuleFile && filepath.Base(arg) != policy.TestsFile {
		data, err := os.ReadFile(arg)
		if err != nil {
			return nil, err
		}
		r, err := policy.ParseRule(arg, data)
		if err != nil {
			return nil, err
		}
		return &policy.Policy{Rules: []*policy.Rule{r}}, nil
	}
	fsys, dir := policyTree(arg, info)
	p, err := policy.Check(fsys)
	if err == nil && len(p.Rules) == 0 {
		err = policy.Problems{{File: "", Message: "no " + policy.RuleFile + " in it", Hint: "name a rule's folder, or a directory of such folders"}}
	}
	return p, policyRelocate(err, dir)
}

// policyTree is the folder that an argument stands for.
func policyTree(arg string, info fs.FileInfo) (fs.FS, string) {
	if !info.IsDir() {
		arg = filepath.Dir(arg)
	}
	return os.DirFS(arg), arg
}

// policyRelocate names files as the caller can open them.
func policyRelocate(err error, dir string) error {
	var ps policy.Problems
	if !errors.As(err, &ps) {
		return err
	}
	for _, p := range ps {
		p.File = filepath.Join(dir, p.File)
	}
	return ps
}

// policyCollect keeps what is invalid and gives back what could not be read.
func policyCollect(problems *policy.Problems, err error) error {
	var ps policy.Problems
	switch {
	case err == nil:
	case errors.As(err, &ps):
		*problems = append(*problems, ps...)
	default:
		return readError(err)
	}
	return nil
}

// policyInvalid prints all problems but the last, which the caller's error
// prints, so that each has its hint below it.
func policyInvalid(errw io.Writer, problems policy.Problems, asJSON bool) error {
	if len(problems) == 0 {
		return nil
	}
	if asJSON {
		return configError(nil)
	}
	for _, p := range problems[:len(problems)-1] {
		report(errw, configError(ioguard.WithHint(p, p.Hint)))
	}
	last := problems[len(problems)-1]
	return configError(ioguard.WithHint(last, last.Hint))
}

func policyTestCommand() *cli.Command {
	return &cli.Command{
		Name:      "test",
		Usage:     "run the tests beside the rules",
		ArgsUsage: "[DIR|FILE...]",
		Description: "Without arguments the built-in rules are tested. A FILE stands for its folder.\n" +
			"Exit code 1 when a test fails, 4 when a rule or test is not valid.",
		Flags:        []cli.Flag{policyJSONFlag(), &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "name the tests that pass, too"}},
		OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			return policyTest(c.App.ErrWriter, c.Args().Slice(), c.Bool("json"), c.Bool("verbose"))
		},
	}
}

func policyTest(errw io.Writer, args []string, asJSON, verbose bool) error {
	results := []policy.TestResult{}
	problems := policy.Problems{}
	if len(args) == 0 {
		r, err := policy.RunTests(policy.DefaultFS())
		if err := policyCollect(&problems, err); err != nil {
			return err
		}
		results = r
	}
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return readError(err)
		}
		fsys, dir := policyTree(arg, info)
		r, err := policy.RunTests(fsys)
		if err == nil && len(r) == 0 {
			err = policy.Problems{{Message: "no tests in it", Hint: "tests stand in " + policy.TestsFile + " beside " + policy.RuleFile}}
		}
		if err := policyCollect(&problems, policyRelocate(err, dir)); err != nil {
			return err
		}
		for i := range r {
			r[i].File = filepath.Join(dir, r[i].File)
		}
		results = append(results, r...)
	}
	failed := 0
	for i := range results {
		if !results[i].Passed {
			failed++
		}
	}
	if asJSON {
		out := map[string]any{"passed": len(results) - failed, "failed": failed, "tests": results, "problems": problems}
		if err := printJSON(out); err != nil {
			return err
		}
	} else {
		policyResults(results, verbose)
		if len(problems) == 0 {
			fmt.Fprintf(stdout, "%d passed, %d failed\n", len(results)-failed, failed)
		}
	}
	if err := policyInvalid(errw, problems, asJSON); err != nil {
		return err
	}
	if failed > 0 {
		return &exitError{exitFinding, nil}
	}
	return nil
}

func policyResults(results []policy.TestResult, verbose bool) {
	for _, r := range results {
		if r.Passed {
			if verbose {
				fmt.Fprintf(stdout, "ok   %s:%d: %s\n", r.File, r.Line, r.Name)
			}
			continue
		}
		fmt.Fprintf(stdout, "FAIL %s:%d: %s\n", r.File, r.Line, r.Name)
		for _, f := range r.Failures {
			fmt.Fprintf(stdout, "  at %s\n    exp: %s\n    got: %s\n", f.At, policyNone(f.Exp), policyNone(f.Got))
		}
	}
}

func policyNone(findings []string) string {
	if len(findings) == 0 {
		return "none"
	}
	return strings.Join(findings, "\n         ")
}

func policyCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func policyVarsCommand() *cli.Command {
	return &cli.Command{
		Name:         "vars",
		Usage:        "list the variables that conditions may use",
		Flags:        []cli.Flag{policyJSONFlag(), &cli.BoolFlag{Name: "markdown", Usage: "print the page docs/policy-vars.md"}},
		OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError("ioguard policy vars --help", "unexpected argument: %q", c.Args().First())
			}
			switch {
			case c.Bool("json") && c.Bool("markdown"):
				return usageError("ioguard policy vars --help", "--json and --markdown exclude each other")
			case c.Bool("json"):
				return printJSON(policy.Vars())
			case c.Bool("markdown"):
				_, err := io.WriteString(stdout, policy.VarsMarkdown())
				return err
			}
			return policyVarsTable()
		},
	}
}

func policyVarsTable() error {
	w := tabwriter.NewWriter(stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "VARIABLE\tTYPE\tUNIT\tMEANING")
	for _, v := range policy.Vars() {
		unit := string(v.Unit)
		if unit == "" {
			unit = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Name, v.Type, unit, v.Doc)
	}
	return w.Flush()
}

func printJSON(v any) error {
	e := json.NewEncoder(stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

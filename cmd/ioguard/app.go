package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"

	"ioguard"
)

// The exit codes, as ARCHITECTURE.md and --help state them.
const (
	exitOK       = 0
	exitFinding  = 1
	exitUsage    = 2
	exitUnread   = 3
	exitConfig   = 4
	exitInternal = 70
)

// exitError carries an exit code with an error. A nil err exits silently.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

// usageError is a wrong call: exit 2 with a hint.
func usageError(hint, format string, args ...any) error {
	return &exitError{exitUsage, ioguard.WithHint(fmt.Errorf(format, args...), hint)}
}

// readError is a machine or file that could not be read: exit 3.
func readError(err error) error { return &exitError{exitUnread, err} }

// configError is an invalid configuration or policy: exit 4.
func configError(err error) error { return &exitError{exitConfig, err} }

// newApp lists the commands in the order in which help shows them.
func newApp() *cli.App {
	return &cli.App{
		Name:                   "ioguard",
		Usage:                  "keep jobs on Slurm and Lustre from hurting each other's I/O",
		UsageText:              "ioguard COMMAND [options] [arguments]",
		Version:                version(),
		HideHelpCommand:        true,
		EnableBashCompletion:   true,
		UseShortOptionHandling: false,
		Commands:               commands(),
		Description: `Exit codes: 0 done or healthy; 1 a finding (check and doctor; others with --fail); 2 usage;
3 a machine or file could not be read; 4 configuration or policy invalid;
70 a defect in ioguard.`,
		OnUsageError:    onUsageError,
		ExitErrHandler:  func(*cli.Context, error) {}, // report does it
		CommandNotFound: func(c *cli.Context, name string) {},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usageError("ioguard --help lists the commands", "no such command: %q", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
	}
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	hint := "ioguard --help"
	if c.Command != nil && c.Command.HelpName != "" {
		hint = c.Command.HelpName + " --help"
	}
	return usageError(hint, "%v", err)
}

// report prints an error as the house does and gives the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	code := exitInternal
	var ee *exitError
	if errors.As(err, &ee) {
		code = ee.code
		if ee.err == nil {
			return code
		}
	}
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(w, "ioguard: interrupted")
		return 130
	}
	fmt.Fprintf(w, "ioguard: error: %v\n", err)
	var he *ioguard.HintError
	if errors.As(err, &he) && he.Hint != "" {
		fmt.Fprintf(w, "ioguard: hint: %s\n", he.Hint)
	}
	return code
}

// reorder moves flags before arguments, since urfave/cli v2 silently ignores
// flags that follow an argument (its issues 1177 and 1733). Everything behind
// "--" stays. A flag that takes a value keeps it.
func reorder(app *cli.App, argv []string) []string {
	if len(argv) == 0 || argv[len(argv)-1] == completeFlag {
		return argv
	}
	out := []string{argv[0]}
	rest := argv[1:]
	cmds, flags := app.Commands, app.Flags
	for len(rest) > 0 {
		c := find(cmds, rest[0])
		if c == nil {
			break
		}
		out = append(out, rest[0])
		rest, cmds, flags = rest[1:], c.Subcommands, c.Flags
	}
	var front, back []string
	for i := 0; i < len(rest); i++ {
		a := rest[i]
		switch {
		case a == "--":
			back = append(back, rest[i:]...)
			i = len(rest)
		case len(a) > 1 && a[0] == '-':
			front = append(front, a)
			if !strings.Contains(a, "=") && takesValue(flags, strings.TrimLeft(a, "-")) && i+1 < len(rest) {
				i++
				front = append(front, rest[i])
			}
		default:
			back = append(back, a)
		}
	}
	return append(append(out, front...), back...)
}

func find(cmds []*cli.Command, name string) *cli.Command {
	for _, c := range cmds {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

func takesValue(flags []cli.Flag, name string) bool {
	for _, f := range flags {
		for _, n := range f.Names() {
			if n == name {
				_, boolean := f.(*cli.BoolFlag)
				return !boolean
			}
		}
	}
	return false
}

// version is the module version or the commit that the binary was built from.
func version() string {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := bi.Main.Version
	if v == "" {
		v = "(devel)"
	}
	return v
}

// stdout is where answers go; script tests see the process's own.
var stdout io.Writer = os.Stdout

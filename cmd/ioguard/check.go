package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"ioguard/action"
	"ioguard/gate"
	"ioguard/ib"
	"ioguard/prolog"
	"ioguard/slurm"
	"ioguard/view"
)

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "run the prolog's checks by hand: can this node reach its storage?",
		UsageText: "ioguard check [--machine PATH] [--json] [--verbose] [--list]",
		Description: `Prints each check with what was seen and what is expected, and what to do
about findings. Exits 0 when nothing was found, 1 on a finding (status warn or
fail), 3 when the machine cannot be read. Run it as root: LNet and much of
Lustre's state are in debugfs.

Status: ok; note, found but ignored by the policy; warn; fail, a job would not
start here; skip, there is nothing to look at; unknown, could not be looked at,
which is never held against the node.

  ioguard check                       this node, now
  ioguard check --machine n12.tar.zst a recorded one (ioguard record)
  ioguard check --list                the checks, what they mean and their fixes
  ioguard check --drain --undrain     as HealthCheckProgram: see examples/slurm
  ioguard check --drain --dry-run     what would it do?

--drain drains a sick node as the prolog does, with the same policy and brake.
--undrain resumes the node if, and only if, ioguard drained it and it has been
healthy for gate.undrain_after.`,
		Flags: []cli.Flag{
			machineFlag(),
			&cli.BoolFlag{Name: "list", Usage: "list the checks and stop"},
			&cli.BoolFlag{Name: "drain", Usage: "drain the node on a finding that drains"},
			&cli.BoolFlag{Name: "undrain", Usage: "resume the node if ioguard drained it and it is healthy again"},
			&cli.BoolFlag{Name: "dry-run", Usage: "with --drain or --undrain: say what would be done and do nothing"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "also checks that had nothing to look at, and which network device is on which port"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing; the exit status tells"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		OnUsageError: onUsageError,
		Action:       check,
	}
}

func check(c *cli.Context) error {
	if c.Args().Present() {
		return usageError("ioguard check --help", "check takes no arguments: %q", c.Args().First())
	}
	if c.Bool("list") {
		return listChecks(c.Bool("json"))
	}
	conf, err := loadConfig()
	if err != nil {
		return err
	}
	h, err := machineOf(c, conf)
	if err != nil {
		return err
	}
	defer h.Close()
	acts := c.Bool("drain") || c.Bool("undrain")
	if c.Bool("dry-run") && !acts {
		return usageError("ioguard check --drain --dry-run", "--dry-run wants --drain or --undrain")
	}
	if acts && c.IsSet("machine") {
		return usageError("leave --machine out", "--drain and --undrain act on this node, not on a recorded machine")
	}
	log := hclog.NewNullLogger()
	if acts {
		log = hookLog(conf, "check")
	}
	hook := slurm.ParseHook(os.Environ())
	n := newNode(conf, nil, hook, h, log)
	n.Looker.Deep = true
	if c.IsSet("machine") { // a recorded machine has no last run, and this node's is not its own
		n.State = nil
	}
	if c.Bool("dry-run") {
		n.Dry, n.Slurm.Do = true, action.DryRun{Tell: func(change action.Change) {
			fmt.Fprintf(c.App.ErrWriter, "ioguard: would %s %s\n", change, view.Safe(change.Reason))
		}}
	}
	if !acts {
		n.Records = nil
	}
	ctx, cancel := context.WithTimeout(c.Context, time.Duration(conf.Gate.Budget))
	defer cancel()
	out := n.Check(ctx, hook, c.Bool("drain"), c.Bool("undrain"))
	if err := printCheck(c, n, &out); err != nil {
		return err
	}
	if !out.Verdict.Healthy() {
		return &exitError{code: exitFinding}
	}
	return nil
}

// checkReport is what --json prints.
type checkReport struct {
	Node    string         `json:"node"`
	Time    time.Time      `json:"time"`
	Healthy bool           `json:"healthy"`
	Action  gate.Action    `json:"action"` // the strongest of all findings
	Blocked bool           `json:"blocked"`
	Reason  string         `json:"reason,omitempty"` // as the node's reason would read
	Held    string         `json:"held,omitempty"`   // what held back a drain
	Checks  []gate.Outcome `json:"checks"`
}

func printCheck(c *cli.Context, n *prolog.Node, out *prolog.Outcome) error {
	v := &out.Verdict
	switch {
	case c.Bool("quiet"):
		return nil
	case c.Bool("json"):
		action := v.Action
		if action == "" {
			action = gate.Ignore
		}
		return printJSON(checkReport{n.Name, out.Seen.Now, v.Healthy(), action, out.Blocked, v.Reason(), out.Held, v.Outcomes})
	}
	if err := printOutcomes(v, c.Bool("verbose")); err != nil {
		return err
	}
	if lines := ib.NetDevMap(out.Seen.IB.Value); c.Bool("verbose") && len(lines) > 0 {
		fmt.Fprintf(stdout, "\n%s\n", strings.Join(lines, "\n"))
	}
	printFaults(v)
	fmt.Fprintln(stdout, summary(n.Name, out))
	return nil
}

func printOutcomes(v *gate.Verdict, verbose bool) error {
	t := view.Table{Header: []view.Column{{Name: "CHECK"}, {Name: "STATUS"}, {Name: "SEEN"}, {Name: "EXPECTED"}}}
	for _, o := range v.Outcomes {
		if o.Status == gate.Skipped && !verbose {
			continue
		}
		seen := o.Seen
		if o.Status == gate.Skipped || o.Status == gate.Unknown {
			seen = o.Why
		}
		t.Rows = append(t.Rows, []string{o.Check, string(o.Status), seen, o.Expected})
	}
	return t.Write(stdout, checkWidth)
}

// checkWidth is wide: what was seen is the point, and numbers are never cut.
const checkWidth = 160

// printFaults says what each finding means and what to do, causes first.
func printFaults(v *gate.Verdict) {
	for _, f := range v.Findings() {
		if f.Action == gate.Ignore {
			continue
		}
		c, _ := gate.CheckOf(f.Check)
		fmt.Fprintf(stdout, "\n%s: %s: %s\n", f.Check, c.Title, view.Safe(f.Subject+" "+f.Seen))
		if f.Expected != "" {
			fmt.Fprintf(stdout, "  expected  %s\n", view.Safe(f.Expected))
		}
		for _, e := range f.Evidence {
			fmt.Fprintf(stdout, "  evidence  %s\n", view.Safe(e))
		}
		if f.Cause != "" {
			fmt.Fprintf(stdout, "  cause     most likely %s above\n", f.Cause)
			continue
		}
		fmt.Fprintf(stdout, "  means     %s\n  fix       %s\n", c.Text, c.Fix)
		fmt.Fprintf(stdout, "  policy    %s\n", policyText(f))
	}
}

func policyText(f gate.Finding) string {
	text := string(f.Action)
	if f.Why != "" {
		text += ": " + f.Why
	}
	return text
}

func summary(node string, out *prolog.Outcome) string {
	counts := map[gate.Status]int{}
	for _, o := range out.Verdict.Outcomes {
		counts[o.Status]++
	}
	var parts []string
	for _, s := range []gate.Status{gate.OK, gate.Note, gate.Warned, gate.Failed, gate.Skipped, gate.Unknown} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	verdict := "healthy"
	switch {
	case len(out.Verdict.Roots) == 0 && out.Verdict.Healthy() && counts[gate.Unknown] > 0:
		verdict = fmt.Sprintf("nothing found, but not all could be looked at (%d unknown; as root?)", counts[gate.Unknown])
	case len(out.Verdict.Roots) > 0:
		verdict = "no job would start here"
	case !out.Verdict.Healthy():
		verdict = "jobs start, with warnings"
	}
	if out.Held != "" {
		verdict += " (" + out.Held + ")"
	}
	return fmt.Sprintf("\n%s: %s (%s)", view.Safe(node), verdict, strings.Join(parts, ", "))
}

func listChecks(asJSON bool) error {
	if asJSON {
		return printJSON(gate.Checks())
	}
	for _, c := range gate.Checks() {
		fmt.Fprintf(stdout, "%-16s %s (%s: %s", c.Code, c.Title, c.Severity(), c.Do)
		if c.Retry > 0 {
			fmt.Fprintf(stdout, ", looked at again for %v", c.Retry)
		}
		fmt.Fprintf(stdout, ")\n    %s\n    fix: %s\n", c.Text, c.Fix)
	}
	return nil
}

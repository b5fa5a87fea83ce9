package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"ioguard/doctor"
	"ioguard/gate"
	"ioguard/host"
	"ioguard/store"
	"ioguard/view"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "look whether this machine is set up so that ioguard can do its work",
		UsageText: "ioguard doctor [--machine PATH] [--json] [--verbose] [--list]",
		Description: `Looks once at the machine it runs on, a compute node, a Lustre server or Slurm's
controller, and prints each check with what was seen and what is expected; for
each that is not right also the command or line that fixes it. Nothing is
changed, nothing below a Lustre mount is touched, and it ends within 10 s.
Exits 0 when all is well, 1 when something should be done (status warn or fail).
Run it as root: what an ordinary user may not look at is unknown.

Status: ok; note, worth knowing; warn, ioguard does less than it could; fail, it
cannot do its work or does harm; skip, there is nothing to look at here; unknown,
could not be looked at.

  ioguard doctor                       this machine, now
  ioguard doctor --machine n12.tar.zst a recorded one (ioguard record)
  ioguard doctor --list                the checks, what they mean and their fixes

Whether this node can reach its storage right now: ioguard check.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "machine", Usage: "look at the recorded machine at `PATH` instead of this one"},
			&cli.BoolFlag{Name: "list", Usage: "list the checks and stop"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "also checks that had nothing to look at"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		OnUsageError: onUsageError,
		Action:       runDoctor,
	}
}

func runDoctor(c *cli.Context) error {
	if c.Args().Present() {
		return usageError("ioguard doctor --help", "doctor takes no arguments: %q", c.Args().First())
	}
	if c.Bool("list") {
		return listDoctor(c.Bool("json"))
	}
	name := c.String("machine")
	if name == "" {
		name = "/" // whatever the configuration names: that is one of the checks
	}
	h, err := host.OpenMachine(name)
	if err != nil {
		return readError(err)
	}
	defer h.Close()
	ctx, cancel := context.WithTimeout(c.Context, doctor.Patience)
	defer cancel()
	l := &doctor.Looker{Host: h, Site: doctorSite(c)}
	outcomes := doctor.Judge(l.Look(ctx), &l.Site)
	if err := printDoctor(c, h.Name, outcomes); err != nil {
		return err
	}
	if slices.ContainsFunc(outcomes, func(o doctor.Outcome) bool { return o.Bad() }) {
		return &exitError{code: exitFinding}
	}
	return nil
}

// doctorSite is the configuration in force; the defaults where it cannot be used.
func doctorSite(c *cli.Context) doctor.Site {
	table, _ := os.ReadFile("/proc/self/mounts")
	mounts := doctor.LustreMounts(string(table))
	conf, file := doctorConfig(mounts)
	if os.Getenv("SLURM_CONF") == "" && conf.Slurm.Conf != "" {
		_ = os.Setenv("SLURM_CONF", conf.Slurm.Conf) // for scontrol, which package host starts
	}
	return doctor.Site{
		Config: file, Machine: conf.Machine, Policy: doctorPolicy(c, conf, mounts),
		JobIDVar: conf.Gate.JobIDVar, JobIDName: conf.JobIDName,
		Budget: time.Duration(conf.Gate.Budget), Drains: !conf.missing && file.Err == nil && drains(conf),
		StateDir: conf.StateDir, Syslog: conf.Gate.Syslog, SlurmBin: conf.Slurm.Bin, UID: os.Geteuid(),
		IsLocal:     gate.IsLocal,
		OpenRecords: tryRecords,
	}
}

// doctorConfig loads the configuration unless that would touch a mount of Lustre.
func doctorConfig(mounts string) (*config, doctor.ConfigFile) {
	name := os.Getenv("IOGUARD_CONFIG")
	if name == "" {
		name = defaultConfig
	}
	file := doctor.ConfigFile{Path: absolute(name)}
	if err := gate.IsLocal(mounts, file.Path); err != nil {
		file.Remote = err.Error()
		return defaultConfiguration(), file
	}
	conf, err := loadConfig()
	if file.Err = err; err != nil {
		return defaultConfiguration(), file
	}
	file.Missing = conf.missing
	return conf, file
}

// absolute is filepath.Abs that does not look at the working directory, which may
// be on Lustre.
func absolute(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	buf := make([]byte, syscall.PathMax)
	n, err := syscall.Getcwd(buf)
	if err != nil || n < 1 {
		return name
	}
	return filepath.Join(string(buf[:n-1]), name)
}

func doctorPolicy(c *cli.Context, conf *config, mounts string) doctor.PolicyDir {
	dir := doctor.PolicyDir{Path: conf.Policy}
	if dir.Path != "" {
		if dir.Err = gate.IsLocal(mounts, absolute(dir.Path)); dir.Err != nil {
			return dir
		}
	}
	p, err := policyOf(c, conf)
	if dir.Err = err; err == nil {
		dir.Rules = len(p.Rules)
	}
	return dir
}

// drains tells whether the policy drains nodes on any finding.
func drains(conf *config) bool {
	p := conf.Gate.policy()
	return slices.ContainsFunc(gate.Checks(), func(check gate.Check) bool { return p.Rule(check, "", "").Do.Blocks() })
}

// tryRecords opens the records. An older file is none of doctor's business: whoever
// next writes to it brings it up to date.
func tryRecords(file string) error {
	s, err := store.OpenReadOnly(file)
	if older := (*store.OlderError)(nil); errors.As(err, &older) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// doctorReport is what --json prints.
type doctorReport struct {
	Node   string           `json:"node"`
	Good   bool             `json:"good"` // nothing is to be done
	Checks []doctor.Outcome `json:"checks"`
}

func printDoctor(c *cli.Context, node string, outcomes []doctor.Outcome) error {
	bad := slices.ContainsFunc(outcomes, func(o doctor.Outcome) bool { return o.Bad() })
	if c.Bool("json") {
		return printJSON(doctorReport{node, !bad, outcomes})
	}
	t := view.Table{Header: []view.Column{{Name: "CHECK"}, {Name: "STATUS"}, {Name: "SEEN", Flex: true}, {Name: "EXPECTED"}}}
	for _, o := range outcomes {
		if o.Status == doctor.Skipped && !c.Bool("verbose") {
			continue
		}
		seen := o.Seen
		if seen == "" {
			seen = o.Why
		}
		t.Rows = append(t.Rows, []string{o.Check, string(o.Status), seen, o.Expected})
	}
	if err := t.Write(stdout, checkWidth); err != nil {
		return err
	}
	for i := range outcomes {
		printAdvice(&outcomes[i])
	}
	_, err := fmt.Fprintln(stdout, doctorSummary(node, outcomes))
	return err
}

// printAdvice says of what is not right what it means and how to go on.
func printAdvice(o *doctor.Outcome) {
	if !o.Bad() && o.Status != doctor.Note {
		return
	}
	check, _ := doctor.CheckOf(o.Check)
	fmt.Fprintf(stdout, "\n%s (%s): %s: %s\n  expected  %s\n  means     %s\n  fix       %s\n", o.Check, o.Status, o.Title, view.Safe(o.Seen),
		view.Safe(o.Expected), check.Text, view.Safe(o.Fix))
}

func doctorSummary(node string, outcomes []doctor.Outcome) string {
	counts := map[doctor.Status]int{}
	for _, o := range outcomes {
		counts[o.Status]++
	}
	var parts []string
	for _, s := range []doctor.Status{doctor.OK, doctor.Note, doctor.Warned, doctor.Failed, doctor.Skipped, doctor.Unknown} {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	verdict := "nothing to put right"
	switch n := counts[doctor.Warned] + counts[doctor.Failed]; {
	case n == 1:
		verdict = "1 thing to put right"
	case n > 1:
		verdict = fmt.Sprintf("%d things to put right", n)
	}
	return fmt.Sprintf("\n%s: %s (%s)", view.Safe(node), verdict, strings.Join(parts, ", "))
}

func listDoctor(asJSON bool) error {
	if asJSON {
		return printJSON(doctor.Checks())
	}
	for _, c := range doctor.Checks() {
		fmt.Fprintf(stdout, "%-18s %s\n    %s\n    expected: %s\n    fix: %s\n", c.Code, c.Title, c.Text, c.Expected, c.Fix)
	}
	return nil
}

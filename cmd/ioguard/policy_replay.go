package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"ioguard"
	"ioguard/engine"
	"ioguard/host"
	"ioguard/store"
	"ioguard/view"
	"ioguard/watch"
)

const replayHelp = "ioguard policy replay --help"

func policyReplayCommand() *cli.Command {
	return &cli.Command{
		Name:      "replay",
		Usage:     "what would a policy have flagged in a recording, or in the records?",
		UsageText: "ioguard policy replay RECORDING|DB... [--policy DIR] [--json]",
		Description: `Runs the policy over recordings ('ioguard record' makes them) or over the
windows kept in a database, and lists the findings. Where a recording has a
labels.json, it compares: precision is the share of the flagged jobs that are
offenders, recall the share of the offenders that are flagged, and for each
offender the delay until the rule held.

  ioguard policy replay oss1.tar.zst
  ioguard policy replay oss1.tar.zst --policy /etc/ioguard/policy
  ioguard policy replay /var/lib/ioguard/ioguard.db --since 7d

A database holds minutes: what lasts for less is blurred in it, and hidden work
and clients are not known.`,
		Flags: []cli.Flag{
			policyFlag(),
			&cli.StringFlag{Name: "since", Usage: "of a database: the last `SPAN`"},
			&cli.StringFlag{Name: "jobid-name", Usage: "the clients' jobid_name `FORMAT`, e.g. '%j:%u:%H'"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON (one recording: an object; several: a list of them)"},
			&cli.BoolFlag{Name: "fail", Usage: "exit 1 unless precision and recall are 1 and every rule is the right one"},
		},
		OnUsageError: onUsageError,
		Action:       policyReplay,
	}
}

// replayed is what one replay came to.
type replayed struct {
	name    string
	sum     *watch.Summary
	verdict *watch.Verdict // nil without labels
}

// replayJSON is stable.
type replayJSON struct {
	Recording string             `json:"recording"`
	Findings  []findingJSON      `json:"findings"`
	Precision *float64           `json:"precision,omitempty"`
	Recall    *float64           `json:"recall,omitempty"`
	Jobs      []watch.JobVerdict `json:"jobs,omitempty"`
	Problems  []string           `json:"problems,omitempty"`
}

func policyReplay(c *cli.Context) error {
	names := c.Args().Slice()
	if len(names) == 0 {
		return usageError(replayHelp, "which recording or database?")
	}
	conf, err := loadConfig()
	if err != nil {
		return err
	}
	rules, err := policyOf(c, conf)
	if err != nil {
		return err
	}
	var all []replayed
	for _, name := range names {
		cfg := engine.Config{Policy: rules, JobIDName: c.String("jobid-name")}
		r, err := replayOne(c, name, cfg)
		if err != nil {
			return err
		}
		all = append(all, *r)
	}
	if err := printReplays(c, all); err != nil {
		return err
	}
	if c.Bool("fail") {
		for i := range all {
			if !all[i].perfect() {
				return &exitError{code: exitFinding}
			}
		}
	}
	return nil
}

func (r *replayed) perfect() bool {
	if r.verdict == nil {
		return len(r.sum.Findings) == 0
	}
	for _, j := range r.verdict.Jobs {
		if !j.RightRule {
			return false
		}
	}
	return r.verdict.Precision == 1 && r.verdict.Recall == 1
}

func replayOne(c *cli.Context, name string, cfg engine.Config) (*replayed, error) {
	if isDatabase(name) {
		return replayRecords(c, name, cfg)
	}
	r, err := host.OpenRecording(name)
	if err != nil {
		return nil, readError(err)
	}
	defer r.Close()
	out := &replayed{name: recordingName(name)}
	p := watch.Replay{Recording: r, Engine: engine.New(cfg)}
	if out.sum, err = p.Run(c.Context); err != nil {
		return nil, readError(fmt.Errorf("%s: %w", name, err))
	}
	out.sum.Problems = append(r.Problems(), out.sum.Problems...)
	text, err := r.Labels()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return out, nil
	case err != nil:
		return nil, readError(err)
	}
	labels, err := watch.ParseLabels(text)
	if err != nil {
		return nil, readError(fmt.Errorf("%s: %w", name, err))
	}
	out.verdict = watch.Judge(labels, out.sum.Findings, out.sum.Interval)
	return out, nil
}

func recordingName(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ".zst"), ".tar")
}

// isDatabase looks at the first bytes, as file(1) does.
func isDatabase(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var b [16]byte
	n, _ := f.Read(b[:])
	return string(b[:n]) == "SQLite format 3\x00"
}

func replayRecords(c *cli.Context, name string, cfg engine.Config) (*replayed, error) {
	s, err := store.OpenReadOnly(name)
	if err != nil {
		return nil, readError(err)
	}
	defer s.Close()
	since, err := sinceOf(c, time.Now())
	if err != nil {
		return nil, err
	}
	sum, err := watch.ReplayRecords(c.Context, s, cfg, since, time.Time{})
	if err != nil {
		return nil, readError(fmt.Errorf("%s: %w", name, err))
	}
	return &replayed{name: filepath.Base(name), sum: sum}, nil
}

func printReplays(c *cli.Context, all []replayed) error {
	for i := range all {
		for _, text := range all[i].sum.Problems {
			fmt.Fprintf(c.App.ErrWriter, "ioguard: %s: %s\n", view.Safe(all[i].name), view.Safe(text))
		}
	}
	if c.Bool("json") {
		return printReplayJSON(c, all)
	}
	if len(all) == 1 {
		printFindings(c, all[0].sum.Findings)
	}
	return qualityTable(all).Write(c.App.Writer, 0)
}

func printReplayJSON(c *cli.Context, all []replayed) error {
	list := make([]replayJSON, len(all))
	for i := range all {
		r := &all[i]
		j := replayJSON{Recording: r.name, Findings: []findingJSON{}, Problems: r.sum.Problems}
		for _, f := range r.sum.Findings {
			j.Findings = append(j.Findings, jsonOf(f, ""))
		}
		if r.verdict != nil {
			j.Precision, j.Recall, j.Jobs = &r.verdict.Precision, &r.verdict.Recall, r.verdict.Jobs
		}
		list[i] = j
	}
	enc := json.NewEncoder(c.App.Writer)
	enc.SetIndent("", " ")
	if len(list) == 1 {
		return enc.Encode(list[0])
	}
	return enc.Encode(list)
}

func printFindings(c *cli.Context, findings []ioguard.Finding) {
	for i := range findings {
		f := &findings[i]
		fmt.Fprintf(c.App.Writer, "%s %-8s %s %s, %s\n", f.Start.Format(time.DateTime), f.Severity, f.Rule, subjectOf(f), view.Duration(f.End.Sub(f.Start)))
		for _, text := range f.Facts {
			fmt.Fprintf(c.App.Writer, "    %s\n", view.Safe(text))
		}
	}
	if len(findings) > 0 {
		fmt.Fprintln(c.App.Writer)
	}
}

// qualityTable has a line per recording, and one more for each job that was
// flagged or should have been.
func qualityTable(all []replayed) *view.Table {
	t := &view.Table{Header: []view.Column{{Name: "RECORDING", Flex: true}, {Name: "JOB"}, {Name: "ROLE"}, {Name: "FLAGGED"},
		{Name: "SAMPLES", Right: true}, {Name: "PREC", Right: true}, {Name: "REC", Right: true}, {Name: "VERDICT"}}}
	for i := range all {
		r := &all[i]
		if r.verdict == nil {
			t.Rows = append(t.Rows, []string{r.name, "", "", countFindings(r.sum.Findings), "", "", "", "no labels"})
			continue
		}
		precision, recall := fmt.Sprintf("%.2f", r.verdict.Precision), fmt.Sprintf("%.2f", r.verdict.Recall)
		rows := 0
		for _, j := range r.verdict.Jobs {
			if j.Role != "offender" && len(j.Rules) == 0 {
				continue
			}
			t.Rows = append(t.Rows, verdictRow(r.name, &j, precision, recall))
			rows++
		}
		if rows == 0 {
			t.Rows = append(t.Rows, []string{r.name, "", "benign", "-", "", precision, recall, "right"})
		}
	}
	return t
}

func verdictRow(name string, j *watch.JobVerdict, precision, recall string) []string {
	verdict := "right"
	switch {
	case j.RightRule:
	case len(j.Rules) == 0:
		verdict = "MISSED"
	case j.Role != "offender":
		verdict = "FALSE"
	default:
		verdict = "WRONG RULE"
	}
	flagged, samples := "-", ""
	if len(j.Rules) > 0 {
		flagged = strings.Join(j.Rules, ",")
	}
	if j.Samples != nil {
		samples = fmt.Sprint(*j.Samples)
	}
	return []string{name, j.JobID, j.Role, flagged, samples, precision, recall, verdict}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"ioguard"
	"ioguard/engine"
	"ioguard/host"
	"ioguard/slurm"
	"ioguard/store"
	"ioguard/view"
	"ioguard/watch"
)

const watchHelp = "ioguard watch --help"

func watchCommand() *cli.Command {
	return &cli.Command{
		Name:      "watch",
		Usage:     "watch this Lustre server and name the jobs that hurt others",
		UsageText: "ioguard watch [--interval 5s] [--db FILE] [--once]\n   ioguard watch --replay RECORDING [--db FILE]",
		Description: `Samples job_stats, the targets' and services' counters, disks and CPUs, judges
them by the policy, prints findings as they open, worsen and clear, and keeps
records for 'ioguard top' and 'ioguard explain'. It only reads. Run it as root
on every OSS and MDS: request waits and clients are in debugfs.

  ioguard watch                                    until Ctrl-C
  ioguard watch --once                             a verdict after three samples
  ioguard watch --replay oss1.tar.zst --db r.db    a recording, as fast as it reads

Without --db the records go to ioguard.db in the configuration's state_dir; a
replay and --once keep none unless --db says where.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "replay", Usage: "judge the `RECORDING` (folder or .tar.zst) instead of a living server"},
			&cli.DurationFlag{Name: "interval", Value: defaultInterval, Usage: "time between samples"},
			&cli.BoolFlag{Name: "once", Usage: "take three samples, say what holds, and end"},
			&cli.BoolFlag{Name: "fail", Usage: "exit 1 when there was a finding"},
			&cli.BoolFlag{Name: "json", Usage: "print an object per event, a line each"},
			&cli.StringFlag{Name: "jobid-name", Usage: "the clients' jobid_name `FORMAT`, e.g. '%j:%u:%H'"},
			policyFlag(), dbFlag(), machineFlag(),
		},
		OnUsageError: onUsageError,
		Action:       runWatch,
	}
}

// watching is one run of the command.
type watching struct {
	engine  *engine.Engine
	say     *sayer
	keeper  *watch.Keeper
	log     hclog.Logger
	kept    error // the last error of the records, to say it once
	context context.Context
}

func runWatch(c *cli.Context) error {
	if c.Args().Present() {
		return usageError("ioguard watch --replay "+c.Args().First(), "unexpected argument %q", c.Args().First())
	}
	if c.IsSet("replay") && (c.Bool("once") || c.IsSet("machine")) {
		return usageError(watchHelp, "--replay goes with neither --once nor --machine")
	}
	conf, err := loadConfig()
	if err != nil {
		return err
	}
	rules, err := policyOf(c, conf)
	if err != nil {
		return err
	}
	interval, err := intervalOf(c, conf)
	if err != nil {
		return err
	}
	jobName := c.String("jobid-name")
	if jobName == "" {
		jobName = conf.JobIDName
	}
	nominal := interval
	if c.IsSet("replay") && !c.IsSet("interval") {
		nominal = 0 // the recording's own
	}
	w := &watching{
		engine:  engine.New(engine.Config{Policy: rules, JobIDName: jobName, Interval: nominal}),
		say:     &sayer{out: c.App.Writer, json: c.Bool("json")},
		log:     hclog.New(&hclog.LoggerOptions{Name: "watch", Output: c.App.ErrWriter, Level: hclog.Info}),
		context: c.Context,
	}
	w.say.owner = w.engine.Owner
	if c.IsSet("replay") {
		err = w.replay(c, nominal)
	} else {
		err = w.live(c, conf, interval)
	}
	if err == nil && c.Bool("fail") && w.say.opened > 0 {
		return &exitError{code: exitFinding}
	}
	return err
}

func (w *watching) replay(c *cli.Context, interval time.Duration) error {
	name := c.String("replay")
	r, err := host.OpenRecording(name)
	if err != nil {
		return readError(err)
	}
	defer r.Close()
	if c.IsSet("db") {
		if err := w.keep(c.String("db"), "replay "+filepath.Base(name), true); err != nil {
			return err
		}
		defer w.keeper.Store.Close()
	}
	p := watch.Replay{Recording: r, Engine: w.engine, Interval: interval, Visit: w.visit}
	sum, err := p.Run(c.Context)
	if err != nil {
		return readError(err)
	}
	if w.keeper != nil {
		if err := w.keeper.Close(c.Context, sum.End); err != nil {
			return readError(err)
		}
	}
	for _, text := range append(r.Problems(), sum.Problems...) {
		fmt.Fprintf(c.App.ErrWriter, "ioguard: %s\n", view.Safe(text))
	}
	w.say.end(sum)
	return nil
}

func (w *watching) live(c *cli.Context, conf *config, interval time.Duration) error {
	h, err := machineOf(c, conf)
	if err != nil {
		return err
	}
	defer h.Close()
	if err := watch.CheckServer(h); err != nil {
		return readError(err)
	}
	// an agent should be small before it is quick: it shares the server's memory
	// with the page cache that users' reads are served from
	debug.SetGCPercent(40)
	if c.IsSet("db") || !c.Bool("once") {
		if err := w.keep(dbOf(c, conf), "watch "+h.Name, false); err != nil {
			return err
		}
		defer w.keeper.Store.Close()
	}
	directory := slurm.New(h.Run)
	a := &watch.Agent{Host: h, Engine: w.engine, Interval: interval, Log: w.log, Visit: w.visit, Owners: directory,
		Nodes: watch.NodesOf(h.FS), Told: func(owners map[string]ioguard.Owner) {
			if text := directory.Problem(); text != "" {
				w.log.Info("jobs stay unnamed", "problem", text)
			}
			if w.keeper != nil {
				w.keeper.SetOwners(owners)
			}
		}}
	if c.Bool("once") {
		a.Samples = 3
	} else {
		fmt.Fprintf(c.App.ErrWriter, "ioguard: watching %s every %v; Ctrl-C ends it\n", view.Safe(h.Name), interval)
	}
	if err := a.Run(c.Context); err != nil {
		return readError(err)
	}
	if w.keeper != nil {
		// the context may be over; what was seen is kept all the same
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context), 5*time.Second)
		defer cancel()
		if err := w.keeper.Close(ctx, time.Time{}); err != nil {
			return readError(err)
		}
	}
	if c.Bool("once") {
		w.say.once(w.engine.Open())
	}
	return nil
}

// recordsOptions wait for another process' lock for less than a sample takes to
// come: what cannot be written is held.
var recordsOptions = store.Options{BusyTimeout: 2 * time.Second}

// keep opens the records.
func (w *watching) keep(name, agent string, fresh bool) error {
	s, err := store.Open(name, recordsOptions)
	if errors.Is(err, fs.ErrNotExist) {
		dir := filepath.Dir(name)
		err = ioguard.WithHint(err, fmt.Sprintf("mkdir -p %s, or name another file with --db", dir))
		if name == filepath.Join("/var/lib/ioguard", "ioguard.db") && os.MkdirAll(dir, 0o700) == nil {
			s, err = store.Open(name, recordsOptions)
		}
	}
	if err != nil {
		return readError(err)
	}
	if w.keeper, err = watch.NewKeeper(w.context, s, w.engine, agent, fresh); err != nil {
		s.Close()
		return readError(err)
	}
	return nil
}

// visit says and keeps what a round found. Records that cannot be written end no watch.
func (w *watching) visit(now time.Time, r *engine.Result) error {
	if err := w.say.unaccounted(now, r.Unaccounted); err != nil {
		return err
	}
	for _, ev := range r.Events {
		if err := w.say.event(now, ev); err != nil {
			return err
		}
	}
	if w.keeper == nil {
		return nil
	}
	err := w.keeper.Round(w.context, now, r)
	if (err == nil) != (w.kept == nil) {
		if err != nil {
			w.log.Error("records cannot be written; holding them", "error", err)
		} else {
			w.log.Info("records are written again")
		}
	}
	w.kept = err
	return nil
}

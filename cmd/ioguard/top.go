package main

import (
	"github.com/urfave/cli/v2"
)

const topHelp = "ioguard top --help"

func topCommand() *cli.Command {
	return &cli.Command{
		Name:      "top",
		Usage:     "who loads the file system most: now, in the records, or in a dump",
		UsageText: "ioguard top [--since 24h] [--by METRIC] [--group-by job|user|account|app] [-n N]\n   ioguard top --statsfile FILE... [--by METRIC] [-n N]",
		Description: `On a Lustre server without --since: what every job does now, from two samples.
With --since or --db: what the records of 'ioguard watch' hold.
With --statsfile: sums of one or more 'lctl get_param *.*.job_stats' dumps (- is
standard input), which needs neither database nor server.

  ioguard top                                  now, on this server
  ioguard top --watch --interval 5s            now, again and again
  ioguard top --since 24h --by write -n 10     the ten largest writers of a day
  ioguard top --since 30d --group-by user      by user
  lctl get_param '*.*.job_stats' | ioguard top --statsfile -

--by: score (time in service, bytes and metadata operations against the mean of
the file system's jobs), read, write, bytes, iops, md, open, close, create,
unlink, getattr, setattr, sync, usec. A dump knows ops and every counter of the
kernel by its name. Numbers have binary prefixes for bytes, decimal ones for
operations.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "by", Value: "score", Usage: "order by `METRIC`"},
			&cli.StringFlag{Name: "since", Usage: "from the records: the last `SPAN`, e.g. 90m, 24h, 30d"},
			&cli.StringFlag{Name: "user", Usage: "only jobs of `USER`"},
			&cli.StringFlag{Name: "account", Usage: "only jobs of `ACCOUNT`"},
			&cli.StringFlag{Name: "fs", Usage: "only file system `NAME`"},
			&cli.StringFlag{Name: "group-by", Value: "job", Usage: "job, user, account or app"},
			&cli.IntFlag{Name: "n", Value: 20, Usage: "at most `N` rows, 0 for all (JSON and CSV: all by default)"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.BoolFlag{Name: "csv", Usage: "print CSV"},
			&cli.BoolFlag{Name: "watch", Usage: "again every --interval, until Ctrl-C"},
			&cli.DurationFlag{Name: "interval", Value: defaultInterval, Usage: "time between samples"},
			&cli.StringSliceFlag{Name: "statsfile", Usage: "sum the job_stats dumps `FILE`..., - for standard input"},
			&cli.StringFlag{Name: "jobid-name", Usage: "the clients' jobid_name `FORMAT`, e.g. '%j:%u:%H', to sum a job's ids"},
			dbFlag(), machineFlag(),
		},
		OnUsageError: onUsageError,
		Action:       top,
	}
}

func top(c *cli.Context) error {
	if c.Bool("json") && c.Bool("csv") {
		return usageError(topHelp, "--json and --csv exclude each other")
	}
	if c.Int("n") < 0 {
		return usageError("0 shows all", "-n %d is negative", c.Int("n"))
	}
	if c.IsSet("statsfile") {
		return topStatsfile(c)
	}
	if c.Args().Present() {
		return usageError("files go behind --statsfile", "unexpected argument %q", c.Args().First())
	}
	if c.IsSet("since") || c.IsSet("db") {
		return topRecords(c)
	}
	return topLive(c)
}

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"ioguard"
	"ioguard/store"
	"ioguard/view"
)

func nodesCommand() *cli.Command {
	return &cli.Command{
		Name:      "nodes",
		Usage:     "what Slurm's hooks found and did on the nodes",
		UsageText: "ioguard nodes [--node NODE] [--job JOB] [--kind KIND] [--since 24h] [--limit N] [--json]",
		Description: `Lists from the records what prolog, epilog and health check noticed and did, the
newest first. Long texts are whole with --json.

  ioguard nodes --since 24h
  ioguard nodes --node n12
  ioguard nodes --kind fail_open         where could it not look?

Kinds: ` + kindNames() + `.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "node", Usage: "only on `NODE`"},
			&cli.StringFlag{Name: "job", Usage: "only of `JOB`"},
			&cli.StringFlag{Name: "kind", Usage: "only of a `KIND`"},
			&cli.StringFlag{Name: "since", Usage: "`SPAN` before now, such as 90m, 24h, 30d"},
			&cli.IntFlag{Name: "limit", Value: 50, Usage: "at most `N`, 0 for all (JSON: all by default)"},
			&cli.BoolFlag{Name: "json", Usage: "print JSON"}, dbFlag(),
		},
		OnUsageError: onUsageError,
		Action:       nodes,
	}
}

func kindNames() string {
	var names []string
	for _, k := range ioguard.NodeEventKinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// nodesJSON is stable.
type nodesJSON struct {
	Since  *float64        `json:"since"` // Unix seconds; null: all records
	Until  float64         `json:"until"`
	Events []nodeEventJSON `json:"events"`
}

// nodeEventJSON is an event with its time in Unix seconds.
type nodeEventJSON struct {
	Time float64 `json:"time"`
	ioguard.NodeEvent
	TookMS float64 `json:"took_ms,omitempty"`
}

func jsonEvents(events []ioguard.NodeEvent) []nodeEventJSON {
	out := []nodeEventJSON{}
	for _, e := range events {
		for _, text := range []*string{&e.Cluster, &e.Node, &e.Hook, &e.JobID, &e.User, &e.Partition, &e.Check, &e.Subject, &e.Text} {
			*text = validText(*text)
		}
		out = append(out, nodeEventJSON{unix(e.Time), e, float64(e.Took.Microseconds()) / 1000})
	}
	return out
}

func nodes(c *cli.Context) error {
	if c.Args().Present() {
		return usageError("--node NODE or --job JOB chooses", "unexpected argument %q", c.Args().First())
	}
	q, err := eventQuery(c, time.Now())
	if err != nil {
		return err
	}
	conf, err := loadConfig()
	if err != nil {
		return err
	}
	s, err := openRecords(c, dbOf(c, conf))
	if err != nil {
		return err
	}
	defer s.Close()
	events, err := s.NodeEvents(c.Context, q)
	if err != nil {
		return readError(err)
	}
	if c.Bool("json") {
		out := nodesJSON{Since: unixKnown(q.Since), Until: unix(q.Until), Events: jsonEvents(events)}
		enc := json.NewEncoder(c.App.Writer)
		enc.SetIndent("", " ")
		return enc.Encode(out)
	}
	if len(events) == 0 {
		fmt.Fprintln(c.App.ErrWriter, "ioguard: no hook recorded anything of the kind")
		return nil
	}
	return eventTable(events).Write(c.App.Writer, eventWidth)
}

// eventWidth is more than a terminal's: what 79 columns would leave of the text
// says nothing.
const eventWidth = 160

func eventQuery(c *cli.Context, now time.Time) (q store.EventQuery, err error) {
	q = store.EventQuery{Node: c.String("node"), JobID: c.String("job"), Kind: ioguard.NodeEventKind(c.String("kind")), Limit: c.Int("limit")}
	if q.Kind != "" && !slices.Contains(ioguard.NodeEventKinds(), q.Kind) {
		return q, usageError("one of "+kindNames(), "--kind %q: no such kind", q.Kind)
	}
	if q.Limit < 0 {
		return q, usageError("0 shows all", "--limit %d is negative", q.Limit)
	}
	if c.Bool("json") && !c.IsSet("limit") {
		q.Limit = 0
	}
	q.Since, err = sinceOf(c, now)
	q.Until = now
	return q, err
}

// eventTable has no year: events are kept for one.
func eventTable(events []ioguard.NodeEvent) *view.Table {
	t := &view.Table{Header: []view.Column{{Name: "TIME"}, {Name: "NODE"}, {Name: "JOB"}, {Name: "WHAT"}, {Name: "CHECK"}, {Name: "SUBJECT"}, {Name: "TEXT", Flex: true}}}
	for i := range events {
		e := &events[i]
		t.Rows = append(t.Rows, []string{e.Time.Local().Format("01-02 15:04:05"), orDash(e.Node), orDash(e.JobID), string(e.Kind), orDash(e.Check), orDash(e.Subject), e.Text})
	}
	return t
}

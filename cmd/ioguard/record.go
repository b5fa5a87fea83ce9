package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/urfave/cli/v2"

	"ioguard/collect"
	"ioguard/host"
)

const recordHelp = "ioguard record --help"

// minRecordInterval keeps a slip of the pen from loading a server.
const minRecordInterval = 100 * time.Millisecond

func recordCommand() *cli.Command {
	return &cli.Command{
		Name:      "record",
		Usage:     "record a server's or client's counters, to look at them elsewhere",
		UsageText: "ioguard record OUT [--interval 2s --count N] [--machine PATH] [--host NAME]",
		Description: `Copies what ioguard reads, and nothing else: Lustre's parameters, /proc/stat,
/proc/diskstats and the like, InfiniBand ports, the answers of 'lctl dl',
'lnetctl ... show', 'dmesg -r' and 'zpool status -P'.
It changes nothing on the machine. Run it as root: much of Lustre's state is
in debugfs, which nobody else may read. What could not be read is listed at
the end, and in NOTE beside the snapshots.

OUT is an archive when it ends in .tar.zst, else a folder; it must not exist
yet. It names users and their jobs, so only its owner may read it.

  ioguard record oss1.tar.zst                            one snapshot
  ioguard record oss1.tar.zst --interval 2s --count 150  five minutes
  ioguard record oss1.tar.zst --count 0                  until Ctrl-C

Ctrl-C finishes the snapshot at hand and closes OUT; a second one stops at
once. Recordings of several servers become one by unpacking them into one
folder.`,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "interval", Value: 2 * time.Second, Usage: "time between the starts of two snapshots"},
			&cli.IntFlag{Name: "count", Value: 1, Usage: "number of snapshots; 0 is until Ctrl-C"},
			&cli.StringFlag{Name: "machine", Value: "/", Usage: "the machine to record: / or a recorded one"},
			&cli.StringFlag{Name: "host", Usage: "name of the host in the recording (default: the machine's own)"},
		},
		OnUsageError: onUsageError,
		Action:       record,
	}
}

func record(c *cli.Context) error {
	opts := collect.RecordOptions{Interval: c.Duration("interval"), Count: c.Int("count")}
	if err := checkRecordCall(c, opts); err != nil {
		return err
	}
	h, err := host.OpenMachine(c.String("machine"))
	if err != nil {
		return readError(err)
	}
	defer h.Close()
	if !h.Time.IsZero() && c.IsSet("count") && opts.Count != 1 {
		return usageError("leave --count out", "--machine %s is a recorded machine, which has one time only", c.String("machine"))
	}
	if name := c.String("host"); name != "" {
		h.Name = name
	}
	return recordTo(c.Context, c.App.ErrWriter, c.Args().First(), h, opts)
}

func checkRecordCall(c *cli.Context, opts collect.RecordOptions) error {
	out := c.Args().First()
	switch {
	case c.NArg() == 0:
		return usageError("ioguard record oss1.tar.zst", "OUT is missing")
	case c.NArg() > 1:
		return usageError(recordHelp, "one OUT is wanted, also given: %q", c.Args().Get(1))
	case out == "" || wrongArchive(out):
		return usageError("end OUT in .tar.zst for an archive, or in none of these for a folder", "OUT %q is no archive that ioguard writes", out)
	case opts.Count < 0:
		return usageError(recordHelp, "--count %d is negative", opts.Count)
	case opts.Interval < minRecordInterval:
		return usageError(recordHelp, "--interval %v is shorter than %v", opts.Interval, minRecordInterval)
	case strings.ContainsRune(c.String("host"), '/') || strings.HasPrefix(c.String("host"), "."):
		return usageError(recordHelp, "--host %q cannot be a folder's name", c.String("host"))
	}
	return nil
}

// wrongArchive tells names that mean an archive of another kind.
func wrongArchive(out string) bool {
	switch filepath.Ext(out) {
	case ".tar", ".tgz", ".gz", ".xz", ".bz2", ".zip":
		return true
	case ".zst":
		return !strings.HasSuffix(out, ".tar.zst")
	}
	return false
}

func recordTo(ctx context.Context, stderr io.Writer, out string, h *host.Host, opts collect.RecordOptions) error {
	w, err := collect.CreateRecording(out)
	if errors.Is(err, fs.ErrExist) {
		return usageError("name one that does not exist yet", "%s exists", out)
	}
	if err != nil {
		return readError(err)
	}
	defer context.AfterFunc(ctx, func() {
		signal.Reset(os.Interrupt, syscall.SIGTERM) // the next one ends the process
		fmt.Fprintln(stderr, "ioguard: finishing this snapshot; interrupt again to stop at once")
	})()
	p := progress{w: stderr, every: progressEvery(stderr), of: opts.Count}
	opts.Progress = p.show
	report, err := collect.Record(ctx, h, w, opts)
	if err := errors.Join(err, w.Close()); err != nil {
		return readError(err)
	}
	for _, line := range report.Lines() {
		fmt.Fprintf(stderr, "ioguard: %s\n", line)
	}
	fmt.Fprintf(stderr, "ioguard: wrote %s\n", out)
	return nil
}

// progress prints a line per snapshot, but not more often than every.
type progress struct {
	w     io.Writer
	every time.Duration
	of    int
	last  time.Time
}

// progressEvery is a second on a terminal and a minute in a log.
func progressEvery(w io.Writer) time.Duration {
	f, ok := w.(*os.File)
	if !ok {
		return time.Minute
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return time.Minute
	}
	return time.Second
}

func (p *progress) show(r collect.RecordProgress) {
	now := time.Now()
	if p.of == 1 || now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	of := ""
	if p.of > 0 {
		of = fmt.Sprintf(" of %d", p.of)
	}
	fmt.Fprintf(p.w, "ioguard: snapshot %d%s: %d files, %s, %v\n", r.Number, of, r.Files,
		humanize.IBytes(uint64(r.Bytes)), r.Took.Round(time.Millisecond))
}

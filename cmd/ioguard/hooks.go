package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/urfave/cli/v2"

	"ioguard"
	"ioguard/action"
	"ioguard/epilog"
	"ioguard/gate"
	"ioguard/host"
	"ioguard/node"
	"ioguard/probe"
	"ioguard/prolog"
	"ioguard/slurm"
	"ioguard/store"
)

func prologCommand() *cli.Command {
	return &cli.Command{
		Name:      "prolog",
		Usage:     "Slurm's Prolog: prove that this node can reach its storage before a job starts",
		UsageText: "ioguard prolog    (called by Slurm; takes no flags, see examples/slurm)",
		Description: `Looks at InfiniBand ports, LNet, Lustre's connections, mounts that hang and the
kernel log, within gate.budget of the configuration (5 s). On a finding that
the policy says drains, it sets the node's reason and exits 1: Slurm requeues
the job and holds it, or it starts on other nodes with the policy 'requeue'.
When more nodes than the brake allows were drained for the same fault, the
node is left alone and the job starts.

Whatever goes wrong with ioguard itself (no or a broken configuration, no
state directory, a crash, the budget over) lets the job start, is written to
syslog and recorded: ioguard nodes shows it.

The same command serves as PrologSlurmctld (keeps the job's account, name and
array) and as TaskProlog (exports IOGUARD_OUT, one line to the user); it knows
by SLURM_SCRIPT_CONTEXT. ioguard check runs the same checks by hand.`,
		OnUsageError: onHookUsageError,
		Action:       hookAction,
	}
}

func epilogCommand() *cli.Command {
	return &cli.Command{
		Name:      "epilog",
		Usage:     "Slurm's Epilog: account what a job did to Lustre from this node",
		UsageText: "ioguard epilog    (called by Slurm; takes no flags, see examples/slurm)",
		Description: `Compares the Lustre client's counters with those that the prolog kept and
records them with the job's facts: ioguard explain JOB shows them. Runs also
where no prolog ran. Exits 0 always, since a failing Epilog drains the node,
unless gate.epilog_check is set: then the node is checked as by the prolog.`,
		OnUsageError: onHookUsageError,
		Action:       hookAction,
	}
}

// hookRun is what a hook works with. conf is never nil: where the configuration is
// broken it is the default one, and confErr says why.
type hookRun struct {
	conf    *config
	confErr error
	hook    slurm.Hook
	log     hclog.Logger
}

// hooks are the commands that Slurm calls. main runs them before anything else when
// they come alone, as Slurm calls them: parsing a command line takes time too.
var hooks = map[string]hookFunc{"prolog": prologHook, "epilog": epilogHook}

// hookFunc is a hook: its exit status, or an error, which lets the job go on.
type hookFunc func(context.Context, *hookRun) (int, error)

// runHook runs a hook so that its own failure lets the job start. It does not return.
func runHook(ctx context.Context, name string, run hookFunc) {
	// Who reads what is printed here may be gone: that is an error and no end.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	r := &hookRun{hook: slurm.ParseHook(os.Environ())}
	r.configure(ctx)
	r.log = hookLog(r.conf, name)
	budget := time.Duration(r.conf.Gate.Budget)
	status := prolog.FailOpen(ctx, budget, func(ctx context.Context) (int, error) {
		return run(ctx, r)
	}, func(err error) {
		r.log.Error("the hook failed, the job goes on", "job_id", r.hook.JobID, "error", err)
	})
	// A goroutine may hang in a read or hold a lock: nothing is waited for.
	os.Exit(status)
}

// configure reads the configuration as a hook must: whatever happens in it, the hook
// goes on with the default one.
func (r *hookRun) configure(ctx context.Context) {
	read := make(chan *config, 1)
	prolog.FailOpen(ctx, configPatience, func(context.Context) (int, error) {
		conf, err := loadConfig()
		read <- conf
		return 0, err
	}, func(err error) { r.confErr = err })
	select {
	case r.conf = <-read:
	default:
	}
	if r.conf == nil {
		r.conf = defaultConfiguration()
	}
}

// configPatience is how long the configuration, a small local file, may take.
const configPatience = time.Second

// hookAction is a command that takes no arguments. main has run the hook when it came
// alone; here it comes behind flags of ioguard's own.
func hookAction(c *cli.Context) error {
	if !c.Args().Present() {
		runHook(c.Context, c.Command.Name, hooks[c.Command.Name])
	}
	return onHookUsageError(c, fmt.Errorf("%s takes no arguments: %q", c.Command.Name, c.Args().First()), true)
}

// onHookUsageError is a hook that is called with flags or arguments: an error for people, and no
// reason to keep a job from starting.
func onHookUsageError(c *cli.Context, err error, sub bool) error {
	if os.Getenv("SLURM_JOB_ID") == "" {
		return onUsageError(c, err, sub)
	}
	runHook(c.Context, c.Command.Name, func(context.Context, *hookRun) (int, error) { return 0, err })
	return nil
}

// prologHook runs in one of three places, as Slurm says.
func prologHook(ctx context.Context, r *hookRun) (int, error) {
	switch r.hook.Context {
	case slurm.PrologTask:
		if err := isLocal(r.conf); err != nil {
			return 0, err
		}
		return 0, prolog.Task(os.Stdout, r.conf.StateDir, r.hook)
	case slurm.PrologSlurmctld:
		if r.confErr != nil {
			r.log.Error("the configuration cannot be used: the job is kept in the default place", "error", r.confErr)
		}
		if _, err := openState(r.conf); err != nil {
			return 0, err
		}
		return 0, prolog.Controller(ctx, r.hook, time.Now(), func(ctx context.Context, j ioguard.NodeJob) error {
			return store.AppendNode(ctx, dbFile(r.conf), store.NodeRecords{Jobs: []ioguard.NodeJob{j}})
		})
	}
	if r.hook.JobID == "" {
		return 0, errors.New("SLURM_JOB_ID is missing: Slurm calls this, by hand it is ioguard check")
	}
	h, err := host.OpenMachine(r.conf.Machine)
	if err != nil {
		return 0, err
	}
	n := newNode(r.conf, r.confErr, r.hook, h, r.log)
	n.Notice = func(ctx context.Context, user, jobID string) string {
		return noticeOf(ctx, dbFile(r.conf), user, jobID)
	}
	out := n.Job(ctx, r.hook)
	if !out.Blocked {
		return 0, nil
	}
	fmt.Fprintln(os.Stderr, out.Reason)
	return exitFinding, nil
}

// noticeOf is one line about the newest open finding of a job or its user, where
// the records of this machine know of one.
func noticeOf(ctx context.Context, file, user, jobID string) string {
	if _, err := os.Stat(file); err != nil {
		return ""
	}
	db, err := store.OpenReadOnly(file)
	if err != nil {
		return ""
	}
	defer db.Close()
	open, err := db.OpenFindings(ctx, user, jobID)
	if err != nil || len(open) == 0 {
		return ""
	}
	f := open[0]
	return fmt.Sprintf("job %s: %s. What to change: ioguard explain %s", f.JobID, f.Title, f.JobID)
}

// epilogHook accounts the job and, where the policy asks for it, checks the node.
func epilogHook(ctx context.Context, r *hookRun) (int, error) {
	h, err := host.OpenMachine(r.conf.Machine)
	if err != nil {
		return 0, err
	}
	state, stateErr := openState(r.conf)
	job, err := epilog.Run(ctx, h, state, r.hook, time.Now())
	for _, err := range []error{r.confErr, stateErr, err} {
		if err != nil {
			r.log.Warn("the job is accounted in part", "job_id", r.hook.JobID, "error", err)
		}
	}
	if job.JobID != "" && state != nil {
		err := store.AppendNode(ctx, dbFile(r.conf), store.NodeRecords{Jobs: []ioguard.NodeJob{job}})
		if err != nil {
			r.log.Warn("the job cannot be recorded", "job_id", r.hook.JobID, "error", err)
		}
	}
	if !r.conf.Gate.EpilogCheck || r.confErr != nil {
		return 0, nil
	}
	n := newNode(r.conf, r.confErr, r.hook, h, r.log)
	if out := n.Check(ctx, r.hook, true, false); out.Blocked {
		fmt.Fprintln(os.Stderr, out.Reason)
		return exitFinding, nil
	}
	return 0, nil
}

// newNode puts the gate together. What cannot be used is told and left out.
func newNode(conf *config, confErr error, hook slurm.Hook, h *host.Host, log hclog.Logger) *prolog.Node {
	g := &conf.Gate
	state, err := openState(conf)
	if err != nil {
		log.Warn("works without memory", "error", err)
	}
	if confErr != nil {
		log.Error("the configuration cannot be used: every job starts", "error", confErr)
	}
	name := nodeName(hook, h)
	n := &prolog.Node{Name: name, Policy: g.policy(), Required: g.Required, State: state, Log: log, Undrain: time.Duration(g.UndrainAfter),
		TellOnly: confErr != nil || conf.missing,
		Looker:   &gate.Looker{Host: h, Site: g.site(conf.StateDir)},
		Slurm:    slurmOf(conf, hook, log)}
	if state != nil {
		n.Records = func(ctx context.Context, events []ioguard.NodeEvent) error {
			return store.AppendNode(ctx, dbFile(conf), store.NodeRecords{Events: events})
		}
	}
	if h.Time.IsZero() && state != nil {
		c := probe.Config{Dir: state.Dir("probe"), Deadline: time.Duration(g.Budget) / 2}
		n.Looker.Probe = func(ctx context.Context, mount string) probe.Answer { return probe.Run(ctx, c, mount) }
	}
	return n
}

// nodeName is this node's name in Slurm, which slurmd tells its hooks. By hand it is
// the host's up to the first dot, as slurmd itself takes it.
func nodeName(hook slurm.Hook, h *host.Host) string {
	if hook.NodeName != "" {
		return hook.NodeName
	}
	if !h.Time.IsZero() {
		return h.Name // of a recorded machine, as it was recorded
	}
	short, _, _ := strings.Cut(h.Name, ".")
	return short
}

// mostChanges bounds what one run may change: a drain, its taking back, a hold and a
// requeue are four.
const mostChanges = 4

// slurmOf is how Slurm is asked and told things; each change is logged. Hooks have no
// PATH and, in slurmctld, no SLURM_CONF.
func slurmOf(conf *config, hook slurm.Hook, log hclog.Logger) prolog.Slurm {
	file := hook.Conf
	if file == "" {
		file = conf.Slurm.Conf
	}
	if file != "" {
		_ = os.Setenv("SLURM_CONF", file) // for sinfo, which package host starts
	}
	live := host.Local()
	scontrol := "" // found when it is needed: nothing is looked for on a healthy node
	if conf.Slurm.Bin != "" {
		scontrol = filepath.Join(conf.Slurm.Bin, "scontrol")
	}
	return prolog.Slurm{
		Nodes: func(ctx context.Context) ([]slurm.Node, error) {
			return slurm.ReadNodes(ctx, func(ctx context.Context, name string, args ...string) ([]byte, error) {
				return live.Run(ctx, slurmCommand(conf, name), args...)
			})
		},
		Do: action.Audit{
			Actor: action.NewLimit(action.Slurm{Scontrol: scontrol, Conf: file}, mostChanges, time.Hour, time.Now),
			Now:   time.Now,
			Tell: func(c action.Change, began time.Time, err error) {
				log.Info("asked Slurm", "change", c.String(), "reason", c.Reason, "took", time.Since(began).Round(time.Millisecond), "error", err)
			},
		},
	}
}

// slurmFolders are where Slurm's commands are looked for unless slurm.bin says so.
var slurmFolders = []string{"/usr/bin", "/usr/local/bin", "/opt/slurm/bin", "/usr/sbin"}

// slurmCommand is a command of Slurm's; by its bare name where it is in none of the
// usual places, so that an error says what is missing.
func slurmCommand(conf *config, name string) string {
	if conf.Slurm.Bin != "" {
		return filepath.Join(conf.Slurm.Bin, name)
	}
	for _, dir := range slurmFolders {
		file := filepath.Join(dir, name)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
			return file
		}
	}
	return name
}

// openState opens the state directory, if it can be touched without fear.
func openState(conf *config) (*node.State, error) {
	if err := isLocal(conf); err != nil {
		return nil, err
	}
	return node.Open(conf.StateDir)
}

func isLocal(conf *config) error {
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	if err := gate.IsLocal(string(table), conf.StateDir); err != nil {
		return fmt.Errorf("state_dir must be on a local disk: %w", err)
	}
	return nil
}

func dbFile(conf *config) string { return filepath.Join(conf.StateDir, "ioguard.db") }

// hookLog writes to syslog, which journald takes as well: slurmd keeps what a hook
// prints only when it fails. Without a syslog it writes nowhere.
func hookLog(conf *config, name string) hclog.Logger {
	opts := &hclog.LoggerOptions{Name: name, Level: hclog.Info, DisableTime: true, Output: &lazySyslog{socket: conf.Gate.Syslog}}
	return hclog.New(opts)
}

// lazySyslog connects when there is something to say, which is seldom. Package
// log/syslog knows no deadline, and a stuck journald would hold the hook: where it
// does not take one message in time it is not offered another.
type lazySyslog struct {
	socket string
	stuck  atomic.Bool
}

const (
	daemonWarning  = 3<<3 | 4 // facility and severity of syslog(3)
	syslogPatience = 200 * time.Millisecond
	syslogLimit    = 8 << 10 // bytes of a message, as syslog daemons take
)

func (l *lazySyslog) Write(p []byte) (int, error) {
	if l.socket == "" || l.stuck.Load() {
		return len(p), nil
	}
	c, err := net.DialTimeout("unixgram", l.socket, syslogPatience)
	if err != nil {
		return len(p), nil //nolint:nilerr // nowhere to write to
	}
	defer c.Close()
	_ = c.SetWriteDeadline(time.Now().Add(syslogPatience))
	_, err = fmt.Fprintf(c, "<%d>ioguard[%d]: %s", daemonWarning, os.Getpid(), p[:min(len(p), syslogLimit)])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.stuck.Store(true)
	}
	return len(p), nil
}

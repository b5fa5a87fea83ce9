package collect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"ioguard/host"
	"ioguard/lfs"
)

// recordMore lists what is recorded besides lfs.Params: the machine's own state,
// and Lustre parameters of clients and of connections between servers. Names
// without a root are Lustre's, looked for under each of recordRoots.
var recordMore = []string{
	"/proc/stat", "/proc/diskstats", "/proc/loadavg", "/proc/meminfo", "/proc/uptime", "/proc/mounts",
	"/proc/version", "/proc/pressure/*", "/proc/sys/kernel/hostname",
	"/sys/block/*/size", "/sys/block/*/queue/rotational",
	// device-mapper names and serial numbers tie a target's mntdev to a line of diskstats
	"/sys/block/*/dm/name", "/sys/block/*/serial", "/sys/block/*/device/serial",

	"ost/OSS/*/nrs_tbf_rule", "mds/MDS/*/nrs_tbf_rule", "mgs/MGS/*/nrs_tbf_rule", "ldlm/services/*/nrs_tbf_rule",
	"osc/*/import", "mdc/*/import", "mgc/*/import", "osp/*/import", "lwp/*/import",
	"osc/*/stats", "mdc/*/stats", "lmv/*/md_stats", "mdc/*/md_stats",

	// What ioguard check reads of a compute node.
	"/proc/modules", "/proc/sys/kernel/random/boot_id", "/etc/fstab", "/etc/os-release",
	"/sys/class/infiniband/*/fw_ver", "/sys/class/infiniband/*/board_id", "/sys/class/infiniband/*/hca_type",
	"/sys/class/infiniband/*/node_guid", "/sys/class/infiniband/*/node_type",
	"/sys/class/infiniband/*/ports/*/*", "/sys/class/infiniband/*/ports/*/counters/*", "/sys/class/infiniband/*/ports/*/hw_counters/*",
	"/sys/class/infiniband/*/ports/*/gid_attrs/ndevs/0", "/sys/class/infiniband/*/device/net/*/dev_port", "/sys/class/infiniband/*/device/net/*/dev_id",
	"/sys/class/net/*/operstate", "/sys/class/net/*/carrier", "/sys/class/net/*/flags",
	"/sys/module/lnet/parameters/*", "/sys/module/ko2iblnd/parameters/*", "/sys/module/ksocklnd/parameters/*", "/sys/module/kkfilnd/parameters/*",
	"/sys/module/kgnilnd/parameters/*",
	"/sys/kernel/debug/lnet/nis", "/sys/kernel/debug/lnet/peers", "/sys/kernel/debug/lnet/routes", "/sys/kernel/debug/lnet/stats",

	"llite/*/kbytestotal", "llite/*/kbytesfree", "llite/*/kbytesavail", "llite/*/filestotal", "llite/*/filesfree",
	"osp/*/kbytestotal", "osp/*/kbytesfree", "osp/*/kbytesavail", "osp/*/filestotal", "osp/*/filesfree",
}

// recordRoots are the places where releases keep Lustre's parameters.
var recordRoots = []string{"proc/fs/lustre/", "sys/fs/lustre/", "sys/kernel/debug/lustre/"}

// recordCommands are asked where they exist.
var recordCommands = []struct {
	dir  string // below commands/
	argv []string
}{
	{"zpool_status", []string{"zpool", "status", "-P"}},
	{"lctl_dl", []string{"lctl", "dl"}},
	{"lctl_list_nids", []string{"lctl", "list_nids"}},
	{"lnetctl_net_show", []string{"lnetctl", "net", "show", "-v", "4"}},
	{"lnetctl_peer_show", []string{"lnetctl", "peer", "show", "-v", "4"}},
	{"lnetctl_route_show", []string{"lnetctl", "route", "show", "-v", "4"}},
	{"lnetctl_global_show", []string{"lnetctl", "global", "show"}},
	{"lnetctl_stats_show", []string{"lnetctl", "stats", "show"}},
	{"dmesg_raw", []string{"dmesg", "-r"}},
}

const (
	recordCommandTimeout = 5 * time.Second
	// recordCommandAge is how long a command's answer is repeated: zpool status
	// takes locks that a busy server needs.
	recordCommandAge = time.Minute
)

// recordPatterns gives each pattern once, without leading slashes.
func recordPatterns() []string {
	var all []string
	for _, p := range recordMore {
		if name, ok := strings.CutPrefix(p, "/"); ok {
			all = append(all, name)
			continue
		}
		for _, root := range recordRoots {
			all = append(all, root+p)
		}
	}
	for _, p := range lfs.Params() {
		all = append(all, p.Paths...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// RecordOptions says how often to record.
type RecordOptions struct {
	Interval time.Duration // between the starts of snapshots; needed unless Count is 1
	Count    int           // snapshots; 0 is until the context ends
	Progress func(RecordProgress)
}

// RecordProgress is a snapshot that was written.
type RecordProgress struct {
	Snapshot host.Snapshot
	Number   int // from 1
	Files    int
	Bytes    int64
	Took     time.Duration
}

// LeftOut counts what could not be recorded for one reason.
type LeftOut struct {
	Reason string
	Times  int
	Names  []string // the first few
}

// RecordReport sums a recording up.
type RecordReport struct {
	Host        string
	First, Last time.Time
	Snapshots   int
	Files       int
	Bytes       int64 // not compressed
	LustreFiles int
	Late        int // snapshots that took longer than the interval
	Repeated    bool
	LeftOut     []LeftOut
}

// Lines is the report in sentences.
func (r RecordReport) Lines() []string {
	if r.Snapshots == 0 {
		return []string{"no snapshot of " + r.Host + " was recorded"}
	}
	out := []string{fmt.Sprintf("%s of %s from %s to %s: %s files, %s", plural(r.Snapshots, "snapshot"), r.Host,
		r.First.UTC().Format(time.RFC3339), r.Last.UTC().Format(time.RFC3339),
		humanize.Comma(int64(r.Files)), humanize.IBytes(uint64(r.Bytes)))}
	if r.LustreFiles == 0 {
		out = append(out, "no Lustre parameter was found: is Lustre loaded on this machine?")
	}
	if r.Late > 0 {
		out = append(out, fmt.Sprintf("%s took longer than the interval", plural(r.Late, "snapshot")))
	}
	if r.Repeated {
		out = append(out, fmt.Sprintf("commands were asked once in %v, their answers stand in the snapshots in between too", recordCommandAge))
	}
	for _, l := range r.LeftOut {
		line := fmt.Sprintf("left out, %s: %s, such as %s", l.Reason, plural(l.Times, "time"), strings.Join(l.Names, ", "))
		if l.Reason == reasonPermission {
			line += "; root may read them"
		}
		out = append(out, line)
	}
	return out
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return humanize.Comma(int64(n)) + " " + noun + "s"
}

// Record writes snapshots of a machine to w: the files of recordPatterns and the
// answers of recordCommands, nothing else, and it only reads. What may not be
// read, is too large or vanishes is left out and counted in the report, which also
// goes to the host's NOTE. A recorded machine has one time and gives one snapshot.
//
// When the context ends, the snapshot at hand is finished and Record returns
// without an error. It fails when w fails and when there is nothing to record.
func Record(ctx context.Context, h *host.Host, w SnapshotWriter, opts RecordOptions) (RecordReport, error) {
	r := recorder{h: h, w: w, patterns: recordPatterns(), report: RecordReport{Host: h.Name}, answers: map[string]*commandAnswer{}}
	if err := checkHostName(h.Name); err != nil {
		return r.report, err
	}
	if !h.Time.IsZero() {
		opts.Count = 1
	}
	if opts.Count != 1 && opts.Interval <= 0 {
		return r.report, fmt.Errorf("record %s: interval %v is not positive", h.Name, opts.Interval)
	}
	if err := ctx.Err(); err != nil {
		return r.report, err
	}
	if err := r.loop(ctx, opts); err != nil {
		return r.report, fmt.Errorf("record %s: %w", h.Name, err)
	}
	note := strings.Join(r.report.Lines(), "\n") + "\n"
	if err := w.Note(h.Name, []byte(note)); err != nil {
		return r.report, fmt.Errorf("record %s: %w", h.Name, err)
	}
	return r.report, nil
}

// checkHostName refuses what cannot be one folder's name.
func checkHostName(name string) error {
	switch {
	case name == "" || len(name) > 255 || !utf8.ValidString(name):
	case strings.HasPrefix(name, ".") || strings.ContainsRune(name, '/'):
	case strings.ContainsFunc(name, unicode.IsControl):
	default:
		return nil
	}
	return fmt.Errorf("host name %q cannot be a folder's name", name)
}

type recorder struct {
	h        *host.Host
	w        SnapshotWriter
	patterns []string
	report   RecordReport
	answers  map[string]*commandAnswer // by folder
}

type commandAnswer struct {
	host.Answer
	at   time.Time
	gone bool // not there, or stuck: not asked again
}

// loop writes a snapshot at once and then one per tick. A ticker neither drifts
// nor catches up.
func (r *recorder) loop(ctx context.Context, opts RecordOptions) error {
	var ticks <-chan time.Time
	if opts.Count != 1 {
		t := time.NewTicker(opts.Interval)
		defer t.Stop()
		ticks = t.C
	}
	for {
		p, err := r.snapshot(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		if opts.Count != 1 && p.Took > opts.Interval {
			r.report.Late++
		}
		if opts.Progress != nil {
			opts.Progress(p)
		}
		if r.report.Snapshots == opts.Count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks:
		}
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (r *recorder) snapshot(ctx context.Context) (RecordProgress, error) {
	begin := time.Now()
	s := host.Snapshot{Host: r.h.Name, Time: r.h.Time}
	if s.Time.IsZero() {
		s.Time = begin.Truncate(time.Millisecond)
	}
	if err := r.w.Begin(s); err != nil {
		return RecordProgress{}, err
	}
	p := RecordProgress{Snapshot: s, Number: r.report.Snapshots + 1}
	if err := r.files(&p); err != nil {
		return p, err
	}
	for _, c := range recordCommands {
		if err := r.command(ctx, c.dir, c.argv, s.Time, &p); err != nil {
			return p, err
		}
	}
	if p.Files == 0 {
		return p, errors.New("nothing of what ioguard reads is there")
	}
	if err := r.w.End(); err != nil {
		return p, err
	}
	p.Took = time.Since(begin)
	r.account(p)
	return p, nil
}

func (r *recorder) account(p RecordProgress) {
	if r.report.Snapshots == 0 {
		r.report.First = p.Snapshot.Time
	}
	r.report.Snapshots++
	r.report.Last = p.Snapshot.Time
	r.report.Files += p.Files
	r.report.Bytes += p.Bytes
}

// files writes every file that matches a pattern, once.
func (r *recorder) files(p *RecordProgress) error {
	var names []string
	closed := r.closedRoots()
	for _, pattern := range r.patterns {
		if slices.ContainsFunc(closed, func(root string) bool { return strings.HasPrefix(pattern, root) }) {
			continue
		}
		found, err := r.h.Glob(pattern)
		if err != nil {
			r.leave(pattern, err)
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		b, err := r.h.ReadFile(name)
		switch {
		case errors.Is(err, syscall.EISDIR):
			continue
		case err != nil:
			r.leave(name, err)
			continue
		}
		if isLustre(name) {
			r.report.LustreFiles++
		}
		if err := r.write(name, b, p); err != nil {
			return err
		}
	}
	return nil
}

// closedRoots are those that may not be read at all, as debugfs may not but by
// root. Each is left out once, not once per pattern.
func (r *recorder) closedRoots() []string {
	var closed []string
	for _, root := range recordRoots {
		dir := strings.TrimSuffix(root, "/")
		if _, err := fs.ReadDir(r.h.FS, dir); errors.Is(err, fs.ErrPermission) {
			closed = append(closed, root)
			r.leave(dir, err)
		}
	}
	return closed
}

func isLustre(name string) bool {
	return slices.ContainsFunc(recordRoots, func(root string) bool { return strings.HasPrefix(name, root) })
}

func (r *recorder) write(name string, b []byte, p *RecordProgress) error {
	p.Files++
	p.Bytes += int64(len(b))
	return r.w.File(name, b)
}

// command writes what a command answered, now or less than recordCommandAge ago.
// One that did not end in time is not asked again: it may still be stuck.
func (r *recorder) command(ctx context.Context, dir string, argv []string, now time.Time, p *RecordProgress) error {
	a := r.answers[dir]
	switch {
	case a == nil || !a.gone && now.Sub(a.at) >= recordCommandAge:
		a = r.ask(ctx, argv)
		a.at = now
		r.answers[dir] = a
	case !a.gone:
		r.report.Repeated = true
	}
	if a.gone {
		return nil
	}
	for _, f := range []struct {
		name string
		data []byte
	}{
		{"cmd", []byte(strings.Join(argv, " ") + "\n")},
		{"stdout", a.Stdout}, {"stderr", a.Stderr},
		{"status", []byte(strconv.Itoa(a.Status) + "\n")},
	} {
		if err := r.write("commands/"+dir+"/"+f.name, f.data, p); err != nil {
			return err
		}
	}
	return nil
}

func (r *recorder) ask(ctx context.Context, argv []string) *commandAnswer {
	ctx, cancel := context.WithTimeout(ctx, recordCommandTimeout)
	defer cancel()
	answer, err := r.h.Command(ctx, argv[0], argv[1:]...)
	switch {
	case answer.Status >= 0: // a failure is an answer too
		return &commandAnswer{Answer: answer}
	case !errors.Is(err, fs.ErrNotExist):
		r.leave(strings.Join(argv, " "), err)
	}
	return &commandAnswer{gone: true}
}

// reasonPermission is told apart since there is a way to go on.
const reasonPermission = "permission denied"

// leave counts what is not recorded.
func (r *recorder) leave(name string, err error) {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		name = pe.Path
	}
	reason := leftOutReason(err)
	i := slices.IndexFunc(r.report.LeftOut, func(l LeftOut) bool { return l.Reason == reason })
	if i < 0 {
		i = len(r.report.LeftOut)
		r.report.LeftOut = append(r.report.LeftOut, LeftOut{Reason: reason})
	}
	l := &r.report.LeftOut[i]
	l.Times++
	if len(l.Names) < 3 && !slices.Contains(l.Names, name) {
		l.Names = append(l.Names, name)
	}
}

// leftOutReason gives errors of many files one name.
func leftOutReason(err error) string {
	var size *host.SizeError
	var pe *fs.PathError
	switch {
	case errors.As(err, &size):
		return fmt.Sprintf("larger than %s", humanize.IBytes(uint64(size.Limit)))
	case errors.Is(err, fs.ErrPermission):
		return reasonPermission
	case errors.Is(err, fs.ErrNotExist):
		return "vanished while being read"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &pe):
		return pe.Err.Error()
	}
	return err.Error()
}

package proc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
)

// CPUTimes is the line "cpu" of /proc/stat in clock ticks (1/100 s) summed over
// all CPUs since boot. Guest time is left out because the kernel has already
// added it to User and Nice (account_guest_time in kernel/sched/cputime.c).
type CPUTimes struct {
	User, Nice, System, Idle, IOWait, IRQ, SoftIRQ, Steal uint64
}

// Total is all CPU time there was, idle time included.
func (c CPUTimes) Total() uint64 {
	return c.User + c.Nice + c.System + c.Idle + c.IOWait + c.IRQ + c.SoftIRQ + c.Steal
}

// Stat is what /proc/stat tells about the whole host.
type Stat struct {
	CPU      *CPUTimes // nil where the line is missing
	CPUs     int       // CPUs online; 0 where unknown
	Blocked  *uint64   // tasks in D state now (procs_blocked); nil where unknown
	BootTime time.Time // zero where unknown
}

// ParseStat reads /proc/stat (show_stat in fs/proc/stat.c):
//
//	cpu  2976 0 6505 30063 2104 0 897 0 192 0
//	cpu0 1772 0 3471 14672 1119 0 358 0 88 0
//	btime 1795240691
//	procs_blocked 0
//
// The fields of a cpu line are user nice system idle iowait irq softirq steal
// guest guest_nice; kernels that print fewer account the rest to none. Lines
// that are not understood are reported and do not harm the others.
func ParseStat(b []byte) (Stat, error) {
	var s Stat
	var bad lineErrors
	for n, line := range lines(b) {
		key, rest, _ := strings.Cut(line, " ")
		var err error
		switch {
		case key == "cpu":
			s.CPU, err = parseCPUTimes(rest)
		case strings.HasPrefix(key, "cpu"):
			if _, e := strconv.Atoi(key[len("cpu"):]); e == nil {
				s.CPUs++
			}
		case key == "btime":
			var v uint64
			if v, err = strconv.ParseUint(strings.TrimSpace(rest), 10, 62); err == nil {
				s.BootTime = time.Unix(int64(v), 0)
			}
		case key == "procs_blocked":
			var v uint64
			if v, err = strconv.ParseUint(strings.TrimSpace(rest), 10, 64); err == nil {
				s.Blocked = &v
			}
		}
		bad.add(n, err)
	}
	if s.CPU == nil && len(bad.errs) == 0 {
		bad.errs = append(bad.errs, errors.New("no cpu line"))
	}
	return s, bad.join("parse proc/stat")
}

func parseCPUTimes(s string) (*CPUTimes, error) {
	var c CPUTimes
	into := []*uint64{&c.User, &c.Nice, &c.System, &c.Idle, &c.IOWait, &c.IRQ, &c.SoftIRQ, &c.Steal}
	fields := strings.Fields(s)
	if len(fields) < 4 {
		return nil, fmt.Errorf("cpu line has %d fields, want 4 or more", len(fields))
	}
	for i, f := range fields[:min(len(fields), len(into))] {
		v, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return nil, err
		}
		*into[i] = v
	}
	return &c, nil
}

// ParseLoadAvg reads /proc/loadavg (loadavg_proc_show in fs/proc/loadavg.c):
//
//	0.67 0.95 0.75 1/528 2398
func ParseLoadAvg(b []byte) (procfs.LoadAvg, error) {
	var l procfs.LoadAvg
	fields := strings.Fields(string(b))
	if len(fields) < 3 {
		return l, fmt.Errorf("parse proc/loadavg: %d fields, want 3 or more", len(fields))
	}
	for i, into := range []*float64{&l.Load1, &l.Load5, &l.Load15} {
		v, err := parseFinite(fields[i])
		if err != nil {
			return procfs.LoadAvg{}, fmt.Errorf("parse proc/loadavg: %w", err)
		}
		*into = v
	}
	return l, nil
}

// ParseUptime reads the first number of /proc/uptime (uptime_proc_show in
// fs/proc/uptime.c), the time since boot with suspended time, to 10 ms:
//
//	3276.52 5302.05
func ParseUptime(b []byte) (time.Duration, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	v, err := parseFinite(first)
	if err != nil {
		return 0, fmt.Errorf("parse proc/uptime: %w", err)
	}
	if v >= math.MaxInt64/float64(time.Second) {
		return 0, fmt.Errorf("parse proc/uptime: %q is out of range", first)
	}
	// Hundredths are exact, so that differences are what sysstat computes.
	return time.Duration(math.Round(v*100)) * 10 * time.Millisecond, nil
}

// ParsePressure reads /proc/pressure/io (psi_show in kernel/sched/psi.c); avg
// values are percent, total is microseconds:
//
//	some avg10=7.81 avg60=7.19 avg300=8.48 total=131389766
//	full avg10=4.30 avg60=4.78 avg300=5.19 total=81673308
func ParsePressure(b []byte) (procfs.PSIStats, error) {
	var p procfs.PSIStats
	var bad lineErrors
	for n, line := range lines(b) {
		kind, rest, _ := strings.Cut(line, " ")
		if kind != "some" && kind != "full" {
			continue
		}
		l, err := parsePressureLine(rest)
		bad.add(n, err)
		if kind == "some" {
			p.Some = l
		} else {
			p.Full = l
		}
	}
	if p.Some == nil && len(bad.errs) == 0 {
		bad.errs = append(bad.errs, errors.New("no line that starts with some"))
	}
	return p, bad.join("parse proc/pressure/io")
}

func parsePressureLine(s string) (*procfs.PSILine, error) {
	var l procfs.PSILine
	total := false
	for _, f := range strings.Fields(s) {
		key, value, _ := strings.Cut(f, "=")
		var err error
		switch key {
		case "avg10":
			l.Avg10, err = parseFinite(value)
		case "avg60":
			l.Avg60, err = parseFinite(value)
		case "avg300":
			l.Avg300, err = parseFinite(value)
		case "total":
			l.Total, err = strconv.ParseUint(value, 10, 64)
			total = err == nil
		}
		if err != nil {
			return nil, err
		}
	}
	if !total {
		return nil, errors.New("no total")
	}
	return &l, nil
}

// ParseDiskstats reads /proc/diskstats (diskstats_show in block/genhd.c), all
// lines of it, partitions too:
//
//	254      16 vdb 1070 0 37472 645 2192 0 13328 1087 0 1180 1768 0 0 0 0 94 35
//
// After the name stand 11 counters, from 4.18 also four of discards, from 5.5
// two of flushes. Times are milliseconds, sectors are 512 bytes. Counters of
// later kernels behind these are ignored. The four-counter lines that 2.6 wrote
// for partitions are skipped. Lines that are not understood are reported and do
// not harm the others.
func ParseDiskstats(b []byte) ([]blockdevice.Diskstats, error) {
	var disks []blockdevice.Diskstats
	var bad lineErrors
	for n, line := range lines(b) {
		fields := strings.Fields(line)
		if len(fields) == 7 {
			continue
		}
		d, err := parseDisk(fields)
		bad.add(n, err)
		if err == nil {
			disks = append(disks, d)
		}
	}
	return disks, bad.join("parse proc/diskstats")
}

func parseDisk(fields []string) (blockdevice.Diskstats, error) {
	var d blockdevice.Diskstats
	if len(fields) < 14 {
		return d, fmt.Errorf("%d fields, want 14 or more", len(fields))
	}
	major, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil {
		return d, err
	}
	minor, err := strconv.ParseUint(fields[1], 10, 32)
	if err != nil {
		return d, err
	}
	d.MajorNumber, d.MinorNumber, d.DeviceName = uint32(major), uint32(minor), fields[2]
	into := []*uint64{
		&d.ReadIOs, &d.ReadMerges, &d.ReadSectors, &d.ReadTicks,
		&d.WriteIOs, &d.WriteMerges, &d.WriteSectors, &d.WriteTicks,
		&d.IOsInProgress, &d.IOsTotalTicks, &d.WeightedIOTicks,
		&d.DiscardIOs, &d.DiscardMerges, &d.DiscardSectors, &d.DiscardTicks,
		&d.FlushRequestsCompleted, &d.TimeSpentFlushing,
	}
	counters := fields[3:min(len(fields), 3+len(into))]
	for i, f := range counters {
		if *into[i], err = strconv.ParseUint(f, 10, 64); err != nil {
			return d, err
		}
	}
	d.IoStatsCount = 3 + len(counters)
	return d, nil
}

// parseFinite reads a decimal number that is neither negative, infinite nor NaN.
func parseFinite(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, err
	}
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return 0, fmt.Errorf("%q is no measure", s)
	}
	return v, nil
}

// lines yields the lines of b with their numbers from 1, without empty ones.
func lines(b []byte) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		n := 0
		for line := range bytes.Lines(b) {
			n++
			if s := strings.TrimSpace(string(line)); s != "" && !yield(n, s) {
				return
			}
		}
	}
}

// lineErrors collects what was wrong in a file. It keeps a few in words and
// counts the rest: a file of garbage must not make a report of its own size.
type lineErrors struct {
	errs []error
	more int
}

func (l *lineErrors) add(line int, err error) {
	switch {
	case err == nil:
	case len(l.errs) < 3:
		l.errs = append(l.errs, fmt.Errorf("line %d: %w", line, err))
	default:
		l.more++
	}
}

func (l *lineErrors) join(what string) error {
	if len(l.errs) == 0 {
		return nil
	}
	err := errors.Join(l.errs...)
	if l.more > 0 {
		return fmt.Errorf("%s: %w (and %d more lines)", what, err, l.more)
	}
	return fmt.Errorf("%s: %w", what, err)
}

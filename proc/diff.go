package proc

import (
	"fmt"
	"math"
	"time"

	"ioguard"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
)

// Diff gives what a host did between two samples, as `iostat -x` prints it for
// the same files (sysstat 12: write_ext_stat in iostat.c, compute_ext_disk_stats
// in common.c), and in words what had to be left out.
//
// The span is the difference of the samples' uptimes, as in sysstat; elapsed
// stands in where an uptime is unknown. Unknown fractions are NaN. A device that
// is new or whose counters fell is left out of the interval, and after a reboot
// all of them are: nothing is ever negative. Either sample may be nil; then only
// what the other tells by itself (load, blocked tasks, CPUs) is known.
func Diff(prev, cur *Sample, elapsed time.Duration) (ioguard.HostDelta, []string) {
	h := unknownHost()
	if cur == nil {
		return h, nil
	}
	h.CPUs = cur.CPUs
	if cur.Load != nil {
		h.Load1 = cur.Load.Load1
	}
	if cur.Blocked != nil {
		h.Blocked = float64(*cur.Blocked)
	}
	if prev == nil {
		return h, nil
	}
	if rebooted(prev, cur) {
		return h, []string{"the host was rebooted"}
	}
	span := spanOf(prev, cur, elapsed)
	if span <= 0 {
		return h, []string{"no time passed between two samples of the host"}
	}
	diffCPU(&h, prev.CPU, cur.CPU)
	h.PSISome = diffPressure(prev.IO.Some, cur.IO.Some, span)
	h.PSIFull = diffPressure(prev.IO.Full, cur.IO.Full, span)
	var left []string
	h.Devices, left = diffDisks(prev.Disks, cur.Disks, span)
	return h, left
}

func unknownHost() ioguard.HostDelta {
	nan := math.NaN()
	return ioguard.HostDelta{
		User: nan, System: nan, IRQ: nan, IOWait: nan, Steal: nan, Idle: nan,
		Load1: nan, Blocked: nan, PSISome: nan, PSIFull: nan,
	}
}

func rebooted(prev, cur *Sample) bool {
	return prev.Uptime != nil && cur.Uptime != nil && *cur.Uptime < *prev.Uptime
}

func spanOf(prev, cur *Sample, elapsed time.Duration) time.Duration {
	if prev.Uptime != nil && cur.Uptime != nil && *cur.Uptime > *prev.Uptime {
		return *cur.Uptime - *prev.Uptime
	}
	return elapsed
}

// diffCPU fills the shares of CPU time. Single fields may fall a little (the
// kernel moves time between idle and iowait, see proc(5)) and count as none
// then, as in sysstat's ll_sp_value; a total that falls is a reset.
func diffCPU(h *ioguard.HostDelta, prev, cur *CPUTimes) {
	if prev == nil || cur == nil || cur.Total() < prev.Total() {
		return
	}
	user := gain(prev.User, cur.User) + gain(prev.Nice, cur.Nice)
	system := gain(prev.System, cur.System)
	irq := gain(prev.IRQ, cur.IRQ) + gain(prev.SoftIRQ, cur.SoftIRQ)
	iowait := gain(prev.IOWait, cur.IOWait)
	steal := gain(prev.Steal, cur.Steal)
	idle := gain(prev.Idle, cur.Idle)
	total := user + system + irq + iowait + steal + idle
	if total == 0 {
		return
	}
	h.User, h.System, h.IRQ = user/total, system/total, irq/total
	h.IOWait, h.Steal, h.Idle = iowait/total, steal/total, idle/total
}

func gain(prev, cur uint64) float64 {
	if cur < prev {
		return 0
	}
	return float64(cur - prev)
}

// diffPressure gives the share of the span that was lost to I/O. The file is
// read a little before or after the uptime, so the share is held at 1.
func diffPressure(prev, cur *procfs.PSILine, span time.Duration) float64 {
	if prev == nil || cur == nil || cur.Total < prev.Total {
		return math.NaN()
	}
	return min(1, float64(cur.Total-prev.Total)/float64(span.Microseconds()))
}

func diffDisks(prev, cur []blockdevice.Diskstats, span time.Duration) ([]ioguard.DeviceDelta, []string) {
	before := make(map[string]*blockdevice.Diskstats, len(prev))
	for i := range prev {
		before[prev[i].DeviceName] = &prev[i]
	}
	var deltas []ioguard.DeviceDelta
	var left []string
	for i := range cur {
		p := before[cur[i].DeviceName]
		if p == nil {
			continue // new: nothing to compare with
		}
		d, ok := diffDisk(p, &cur[i], span)
		if !ok {
			left = append(left, fmt.Sprintf("block device %s: counters restarted", cur[i].DeviceName))
			continue
		}
		deltas = append(deltas, d)
	}
	return deltas, left
}

// diffDisk computes one device's rates; ok is false where its counters fell or
// another device took its name.
func diffDisk(p, c *blockdevice.Diskstats, span time.Duration) (d ioguard.DeviceDelta, ok bool) {
	ok = p.MajorNumber == c.MajorNumber && p.MinorNumber == c.MinorNumber
	counter := func(prev, cur uint64) float64 {
		ok = ok && cur >= prev
		return float64(cur - prev)
	}
	msec := func(prev, cur uint64) float64 {
		v, good := msecGain(prev, cur)
		ok = ok && good
		return v
	}
	reads, writes := counter(p.ReadIOs, c.ReadIOs), counter(p.WriteIOs, c.WriteIOs)
	discards := counter(p.DiscardIOs, c.DiscardIOs)
	readSectors, writeSectors := counter(p.ReadSectors, c.ReadSectors), counter(p.WriteSectors, c.WriteSectors)
	readMsec, writeMsec := msec(p.ReadTicks, c.ReadTicks), msec(p.WriteTicks, c.WriteTicks)
	discardMsec := msec(p.DiscardTicks, c.DiscardTicks)
	busy, weighted := msec(p.IOsTotalTicks, c.IOsTotalTicks), msec(p.WeightedIOTicks, c.WeightedIOTicks)
	if !ok {
		return d, false
	}
	const sector = 512 // bytes, whatever the device's own sector is
	s := span.Seconds()
	return ioguard.DeviceDelta{
		Device:              c.DeviceName,
		ReadsPerSecond:      reads / s,
		WritesPerSecond:     writes / s,
		ReadBytesPerSecond:  readSectors * sector / s,
		WriteBytesPerSecond: writeSectors * sector / s,
		Await:               mean(readMsec+writeMsec+discardMsec, reads+writes+discards),
		ReadAwait:           mean(readMsec, reads),
		WriteAwait:          mean(writeMsec, writes),
		QueueSize:           weighted / 1000 / s,
		// The kernel counts busy time in ticks, so a busy device can gain a
		// tick more than the span has. iostat prints such values as they are.
		Util: min(1, busy/1000/s),
	}, true
}

// msecGain is the gain of a time of diskstats. The kernel prints these as 32-bit
// numbers (%u in diskstats_show, up to the current release), so they start again
// at 0 after 49.7 days of work, which a busy target reaches in weeks. A counter
// that wraps gains little; one that restarted seems to gain more than half its
// range and reports false. Values beyond 32 bits are taken as they are.
func msecGain(prev, cur uint64) (float64, bool) {
	if cur >= prev {
		return float64(cur - prev), true
	}
	if prev > math.MaxUint32 {
		return 0, false
	}
	wrapped := uint32(cur) - uint32(prev)
	return float64(wrapped), wrapped < 1<<31
}

// mean is 0 without operations, as iostat prints it: there was nothing to wait for.
func mean(sum, n float64) float64 {
	if n == 0 {
		return 0
	}
	return sum / n
}

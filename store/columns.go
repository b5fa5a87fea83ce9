package store

import (
	"math"
	"strings"

	"ioguard"
)

// vec holds a window's numbers in the order of columns. Those before firstMax
// add up, the others keep their highest value.
type vec [numColumns]float64

const (
	cSeconds = iota
	cReadBytes
	cWriteBytes
	cReadOps
	cWriteOps
	cReadUsec
	cWriteUsec
	cOpens
	cCloses
	cCreates
	cUnlinks
	cGetattrs
	cSetattrs
	cSyncs
	cOtherOps
	cMetaUsec
	cHiddenGetattrs
	firstMax
	cTargets       = firstMax
	cPeakReadBytes = iota - 1
	cPeakWriteBytes
	cPeakMetaOps
	numColumns
)

// columns are the names in the tables minute, hour, day and finding_window.
var columns = [numColumns]string{
	"seconds", "read_bytes", "write_bytes", "read_ops", "write_ops", "read_usec", "write_usec",
	"opens", "closes", "creates", "unlinks", "getattrs", "setattrs", "syncs", "other_ops",
	"meta_usec", "hidden_getattrs", "targets", "peak_read_bytes", "peak_write_bytes", "peak_meta_ops",
}

// vecOf takes the numbers of a window. What is no amount (NaN, infinite,
// negative) is unknown and adds nothing: one such number must not poison a sum.
func vecOf(w *ioguard.Window) vec {
	v := vec{
		w.Seconds, w.ReadBytes, w.WriteBytes, w.ReadOps, w.WriteOps, w.ReadUsec, w.WriteUsec,
		w.Opens, w.Closes, w.Creates, w.Unlinks, w.Getattrs, w.Setattrs, w.Syncs, w.OtherOps,
		w.MetaUsec, w.HiddenGetattrs,
		float64(w.Targets), w.PeakReadBytes, w.PeakWriteBytes, w.PeakMetaOps,
	}
	for i, x := range v {
		if !(x > 0) || math.IsInf(x, 1) {
			v[i] = 0
		}
	}
	return v
}

// window is the reverse of vecOf; the caller sets what is not a number.
func (v *vec) window() ioguard.Window {
	return ioguard.Window{
		Seconds: v[cSeconds], ReadBytes: v[cReadBytes], WriteBytes: v[cWriteBytes],
		ReadOps: v[cReadOps], WriteOps: v[cWriteOps], ReadUsec: v[cReadUsec], WriteUsec: v[cWriteUsec],
		Opens: v[cOpens], Closes: v[cCloses], Creates: v[cCreates], Unlinks: v[cUnlinks],
		Getattrs: v[cGetattrs], Setattrs: v[cSetattrs], Syncs: v[cSyncs], OtherOps: v[cOtherOps],
		MetaUsec: v[cMetaUsec], HiddenGetattrs: v[cHiddenGetattrs],
		Targets: int(v[cTargets]), PeakReadBytes: v[cPeakReadBytes], PeakWriteBytes: v[cPeakWriteBytes],
		PeakMetaOps: v[cPeakMetaOps],
	}
}

func (v *vec) add(o *vec) {
	for i := range firstMax {
		v[i] += o[i]
	}
	for i := firstMax; i < numColumns; i++ {
		v[i] = max(v[i], o[i])
	}
}

// columnList is "PREFIXa, PREFIXb, ...".
func columnList(prefix string) string {
	return prefix + strings.Join(columns[:], ", "+prefix)
}

// upsertSQL adds a row to a level's table.
func upsertSQL(table string) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + table + " (start, job, pool, " + columnList("") + ") VALUES (?, ?, ?")
	b.WriteString(strings.Repeat(", ?", numColumns) + ") ON CONFLICT (start, job, pool) DO UPDATE SET ")
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		if i < firstMax {
			b.WriteString(c + "=" + c + "+excluded." + c)
		} else {
			b.WriteString(c + "=max(" + c + ",excluded." + c + ")")
		}
	}
	return b.String()
}

// level is a table of windows and the span of its rows in seconds.
type level struct {
	table string
	span  int64
}

var (
	minuteLevel = level{"minute", 60}
	hourLevel   = level{"hour", 3600}
	dayLevel    = level{"day", 86400}
	levels      = [...]level{minuteLevel, hourLevel, dayLevel}
)

// floor and ceil round unix seconds to the level's span, towards the past and
// the future, before 1970 too.
func (l level) floor(t int64) int64 {
	r := t % l.span
	if r < 0 {
		r += l.span
	}
	return t - r
}

func (l level) ceil(t int64) int64 {
	f := l.floor(t)
	if f == t {
		return t
	}
	return f + l.span
}

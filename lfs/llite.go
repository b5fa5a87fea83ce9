package lfs

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"ioguard"
	"ioguard/series"
)

// Llite is the statistics of one client mount.
type Llite struct {
	FS       string // "lustre"
	Instance string // "ffff8880086b6800", as in the names of the mount's devices
	Stats    *Stats
}

// ReadLlite reads the statistics of all client mounts, sorted by file system and
// instance. Root alone may read them from 2.12 on: else the error is
// fs.ErrPermission, and fs.ErrNotExist where nothing is mounted.
func ReadLlite(fsys fs.FS) ([]Llite, error) {
	found, err := Find(fsys, "llite_stats")
	if err != nil {
		return nil, fmt.Errorf("read llite: %w", err)
	}
	var mounts []Llite
	var p StatsParser
	var buf FileBuffer
	for _, f := range found {
		var s *Stats
		e := f.Err
		if e == nil {
			s, e = ReadStats(fsys, f.Path, &p, &buf)
		}
		if e != nil {
			if err == nil {
				err = fmt.Errorf("read llite of %s: %w", f.Target, e)
			}
			continue
		}
		m := Llite{Instance: f.Target, Stats: s.Clone()}
		if i := strings.LastIndexByte(f.Target, '-'); i >= 0 {
			m.FS, m.Instance = f.Target[:i], f.Target[i+1:]
		}
		mounts = append(mounts, m)
	}
	return mounts, err
}

// LliteCounts is what programs did on a mount. A counter that the kernel does
// not print is nil: nothing of the kind happened since the mount, or the release
// does not count it.
type LliteCounts struct {
	ReadBytes  *uint64 `json:"read_bytes,omitempty"`
	WriteBytes *uint64 `json:"write_bytes,omitempty"`
	Reads      *uint64 `json:"reads,omitempty"` // calls, also those served from the cache
	Writes     *uint64 `json:"writes,omitempty"`
	Opens      *uint64 `json:"opens,omitempty"`
	Creates    *uint64 `json:"creates,omitempty"`
	Unlinks    *uint64 `json:"unlinks,omitempty"`
	Mkdirs     *uint64 `json:"mkdirs,omitempty"`
	Getattrs   *uint64 `json:"getattrs,omitempty"`
	Fsyncs     *uint64 `json:"fsyncs,omitempty"`
}

// lliteFields couples counters of the stats file with fields. Bytes are the sum
// of a counter, calls its samples.
func (c *LliteCounts) lliteFields() []lliteField {
	return []lliteField{
		{"read_bytes", true, &c.ReadBytes}, {"write_bytes", true, &c.WriteBytes},
		{"read_bytes", false, &c.Reads}, {"write_bytes", false, &c.Writes},
		{"open", false, &c.Opens}, {"create", false, &c.Creates}, {"unlink", false, &c.Unlinks},
		{"mkdir", false, &c.Mkdirs}, {"getattr", false, &c.Getattrs}, {"fsync", false, &c.Fsyncs},
	}
}

type lliteField struct {
	counter string
	sum     bool
	value   **uint64
}

// LliteSum is the counters of a mount at one time, small enough to be kept as
// JSON from a prolog to the epilog.
type LliteSum struct {
	FS       string    `json:"fs"`
	Instance string    `json:"instance"`
	Time     time.Time `json:"time,omitzero"`  // of the reading, by the client's clock
	Start    time.Time `json:"start,omitzero"` // of counting, 2.15 and later
	LliteCounts
}

// Sum picks out what is kept of a mount's statistics.
func (l *Llite) Sum() LliteSum {
	s := LliteSum{FS: l.FS, Instance: l.Instance, Time: lliteTime(l.Stats.Snapshot), Start: lliteTime(l.Stats.Start)}
	for _, f := range s.lliteFields() {
		c := l.Stats.Counter(f.counter)
		switch {
		case c == nil:
		case !f.sum:
			n := c.Samples
			*f.value = &n
		case c.Has&HasSum != 0:
			n := c.Sum
			*f.value = &n
		}
	}
	return s
}

// lliteTime is a time that can be written as JSON, else zero.
func lliteTime(t StatsTime) time.Time {
	if !t.Known || t.Sec < 0 || t.Sec > latest {
		return time.Time{}
	}
	return t.Time().UTC()
}

// LliteDelta is what programs did on a mount between two readings.
type LliteDelta struct {
	FS, Instance string
	Kind         ioguard.DeltaKind // DeltaValue; DeltaReset: the counts are those since a restart
	LliteCounts
}

// DiffLlite is what happened between two readings of a file system's mount. A
// counter that only cur has began in between: the kernel prints none before its
// first sample. Another instance, another start or a counter that fell is a new
// mount or a cleared counter: then all counts are what was gathered since.
func DiffLlite(prev, cur LliteSum) LliteDelta {
	d := LliteDelta{FS: cur.FS, Instance: cur.Instance, Kind: ioguard.DeltaValue}
	before, after, to := prev.lliteFields(), cur.lliteFields(), d.lliteFields()
	if lliteReset(&prev, &cur) {
		d.Kind = ioguard.DeltaReset
	}
	for i := range to {
		if *after[i].value == nil {
			continue
		}
		n := **after[i].value
		if d.Kind == ioguard.DeltaValue && *before[i].value != nil {
			n -= **before[i].value
		}
		*to[i].value = &n
	}
	return d
}

// lliteReset reports whether the counters restarted. They are cleared together.
func lliteReset(prev, cur *LliteSum) bool {
	if prev.FS != cur.FS || prev.Instance != cur.Instance {
		return true
	}
	if !prev.Start.IsZero() && !cur.Start.IsZero() && !prev.Start.Equal(cur.Start) {
		return true
	}
	before, after := prev.lliteFields(), cur.lliteFields()
	for i := range before {
		p, c := *before[i].value, *after[i].value
		if p == nil {
			continue
		}
		if c == nil {
			return true
		}
		if _, kind := series.Diff(*p, *c, 64); kind == ioguard.DeltaReset {
			return true
		}
	}
	return false
}

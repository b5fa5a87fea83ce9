// Package ioguard holds the nouns that every other package speaks: targets,
// operations, deltas, intervals, findings. It reads nothing, writes nothing and
// imports only the standard library; every other package may import it.
//
// Data flows one way:
//
//	kernel files -> samples -> deltas -> windows -> findings -> actions -> records -> views
package ioguard

import (
	"strconv"
	"strings"
	"time"
)

// TargetKind says what a Lustre target stores.
type TargetKind string

// The kinds of target.
const (
	OST           TargetKind = "ost"
	MDT           TargetKind = "mdt"
	MGT           TargetKind = "mgt"
	UnknownTarget TargetKind = ""
)

// KindOfTarget tells the kind from a target name such as "lustre-OST0004".
// A name that holds neither OST, MDT nor MGS gives UnknownTarget.
func KindOfTarget(target string) TargetKind {
	name := target[strings.LastIndexByte(target, '-')+1:]
	switch {
	case strings.HasPrefix(name, "OST"):
		return OST
	case strings.HasPrefix(name, "MDT"):
		return MDT
	case strings.HasPrefix(name, "MGS"):
		return MGT
	}
	return UnknownTarget
}

// FSName is the file system's name in a target name: "lustre" of "lustre-OST0004".
// A name without a dash has no file system and gives "".
func FSName(target string) string {
	if i := strings.LastIndexByte(target, '-'); i > 0 {
		return target[:i]
	}
	return ""
}

// TargetIndex is the index in a target name (four or more hex digits): 4 of
// "lustre-OST0004". It reports false where the name holds none.
func TargetIndex(target string) (int, bool) {
	name := target[strings.LastIndexByte(target, '-')+1:]
	if len(name) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(name[3:], 16, 32)
	return int(n), err == nil
}

// DeltaKind says what the difference of two readings of a counter is worth.
type DeltaKind uint8

// The kinds of delta. Only DeltaValue carries a difference. A reset carries what
// the counter has gathered since it restarted, which is a lower bound.
const (
	DeltaFirst DeltaKind = iota // nothing to compare with yet
	DeltaValue                  // the difference of two readings
	DeltaReset                  // the counter restarted in between
	DeltaGap                    // samples were missed: the span is longer than one interval
)

func (k DeltaKind) String() string {
	switch k {
	case DeltaValue:
		return "value"
	case DeltaReset:
		return "reset"
	case DeltaGap:
		return "gap"
	}
	return "first"
}

// OpDelta is what one operation counter of a target gained in an interval.
type OpDelta struct {
	Samples float64 // operations (RPCs for read_bytes and write_bytes)
	Sum     float64 // bytes for byte counters, microseconds for timed ones; 0 where the release counts neither
	Op      Op
	Timed   bool // Sum is microseconds (2.14 and later)
}

// JobDelta is what one job did on one target in an interval.
type JobDelta struct {
	JobID string // as in job_stats, decoded
	Kind  DeltaKind
	Ops   []OpDelta // only counters that moved
}

// ExportDelta is what one client node (by NID) did on one target in an interval.
type ExportDelta struct {
	NID  string
	Kind DeltaKind
	Ops  []OpDelta
}

// Capacity is the space of one target.
type Capacity struct {
	TotalBytes, FreeBytes, AvailableBytes uint64
	TotalInodes, FreeInodes               uint64
}

// UsedFraction is the used share of the space users can fill, 0 to 1, as df
// counts it: used/(used+available). It is 0 when nothing is known.
func (c Capacity) UsedFraction() float64 {
	used := float64(c.TotalBytes) - float64(c.FreeBytes)
	if c.TotalBytes == 0 || used < 0 || used+float64(c.AvailableBytes) == 0 {
		return 0
	}
	return used / (used + float64(c.AvailableBytes))
}

// TargetDelta is one target's share of an Interval.
type TargetDelta struct {
	Target  string
	Pools   []string      // pools that the target belongs to, where the system tells
	Elapsed time.Duration // by the target's own clock
	Kind    DeltaKind     // DeltaGap: job_stats could not be read this time
	Jobs    []JobDelta    // jobs that did something
	Totals  []OpDelta     // md_stats or obdfilter stats of the whole target; nil where unreadable
	Exports []ExportDelta
	Space   *Capacity    // nil where unknown
	Busiest *DeviceDelta // the busiest block device under the target; nil where the system does not tell
	Spin    *bool        // the device rotates; nil where unknown
	// Recovering: the target restarted and replays its clients' requests, so that
	// all wait, through no job's fault.
	Recovering bool
}

// DeviceDelta is a block device's rates in an interval, as iostat -x computes them.
type DeviceDelta struct {
	Device                       string
	ReadsPerSecond               float64
	WritesPerSecond              float64
	ReadBytesPerSecond           float64
	WriteBytesPerSecond          float64
	Await, ReadAwait, WriteAwait float64 // milliseconds
	QueueSize                    float64 // aqu-sz
	Util                         float64 // 0 to 1
}

// ServiceDelta is one ptlrpc service (ost_io, mdt, ...) in an interval.
type ServiceDelta struct {
	Service    string  // "ost/OSS/ost_io", "mds/MDS/mdt"
	Requests   float64 // requests taken up
	WaitUsec   float64 // sum of their time in the queue, microseconds
	QueueDepth float64 // mean requests queued at arrival
	Active     float64 // mean requests in service at arrival
	NRSQueued  float64 // requests held by NRS now
	NRSActive  float64 // requests in service now, by NRS

	// The service's own reads, writes and syncs and their time in service,
	// microseconds: all that releases before 2.14 tell of latency.
	Reads, ReadUsec   float64
	Writes, WriteUsec float64
	Syncs, SyncUsec   float64
}

// HostDelta is a server's own state in an interval. Fractions are 0 to 1 of all CPU time.
type HostDelta struct {
	CPUs                                   int
	User, System, IRQ, IOWait, Steal, Idle float64 // User includes nice; IRQ is irq+softirq
	Load1                                  float64
	Blocked                                float64 // tasks in D state now
	PSISome, PSIFull                       float64 // share of the interval, of io; NaN where the kernel has no PSI
	Devices                                []DeviceDelta
	Services                               []ServiceDelta
}

// Busy is the share of CPU time that did work: all but idle and iowait.
func (h *HostDelta) Busy() float64 { return h.User + h.System + h.IRQ + h.Steal }

// Interval is what one server saw between two samples. It is the unit that
// agents send and the engine takes: it needs nobody else's clock.
type Interval struct {
	Server    string
	Start     time.Time     // by the server's clock, which may jump
	End       time.Time     // likewise; not always after Start
	Elapsed   time.Duration // what rates divide by: by a clock that does not jump where there is one
	Kind      DeltaKind     // DeltaGap when samples were missed in between
	JobIDName string        // jobid_name as this server has it; "" where unknown
	Targets   []TargetDelta
	Host      *HostDelta // nil where /proc could not be read
	Problems  []string   // what could not be read, in words
}

// Severity ranks findings. Only critical findings are worth a throttle.
type Severity string

// The severities, in rising order.
const (
	Notice   Severity = "notice"
	Warning  Severity = "warning"
	Critical Severity = "critical"
)

// Rank orders severities: notice 1, warning 2, critical 3; anything else 0.
func (s Severity) Rank() int {
	switch s {
	case Notice:
		return 1
	case Warning:
		return 2
	case Critical:
		return 3
	}
	return 0
}

// Finding is a rule that holds for a subject, with the values that prove it.
// What is shown, sent, stored and acted upon is this one value.
type Finding struct {
	Rule     string             `json:"rule"`    // code, "metadata-flood"
	Title    string             `json:"title"`   // one line
	Subject  string             `json:"subject"` // "job", "ost", "pool", "server"
	JobID    string             `json:"job_id,omitempty"`
	Target   string             `json:"target,omitempty"` // OST, pool or server name for other subjects
	FS       string             `json:"fs,omitempty"`
	Server   string             `json:"server,omitempty"` // where it hurts most
	Severity Severity           `json:"severity"`
	Action   string             `json:"action,omitempty"` // "flag", later "throttle"
	Start    time.Time          `json:"-"`
	End      time.Time          `json:"-"` // zero while it holds
	Evidence map[string]float64 `json:"evidence"`
	Facts    []string           `json:"facts,omitempty"`  // the evidence in sentences: pattern, share, pressure, harm
	Advice   string             `json:"advice,omitempty"` // what the user should change
	Inferred bool               `json:"inferred,omitempty"`
}

// Key names what the finding is about: one finding is open per key.
func (f *Finding) Key() string {
	s := f.JobID
	if f.Subject != "job" {
		s = f.Target
	}
	return f.Rule + "|" + f.Subject + "|" + f.FS + "|" + s
}

// HintError is an error with a line that says how to go on.
type HintError struct {
	Err  error
	Hint string
}

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

// WithHint attaches a hint to an error; nil stays nil.
func WithHint(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &HintError{Err: err, Hint: hint}
}

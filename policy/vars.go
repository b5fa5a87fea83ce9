package policy

import (
	"fmt"
	"strings"
)

// SubjectKind is what a rule judges.
type SubjectKind string

// The subjects.
const (
	JobSubject    SubjectKind = "job"
	OSTSubject    SubjectKind = "ost"
	PoolSubject   SubjectKind = "pool"
	ServerSubject SubjectKind = "server"
)

var subjectKinds = []SubjectKind{JobSubject, OSTSubject, PoolSubject, ServerSubject}

// Type is a variable's type. To CEL both double and int are doubles; int only
// says that the number has no fraction.
type Type string

// The types of variables.
const (
	Double Type = "double"
	Int    Type = "int"
	Bool   Type = "bool"
	String Type = "string"
)

// Unit says what a number counts; it is also the name of the format that a
// placeholder uses, as in {{job.mean_write_bytes | bytes}}.
type Unit string

// The units. A fraction is 0 to 1 and prints as percent.
const (
	NoUnit         Unit = ""
	Bytes          Unit = "bytes"
	BytesPerSecond Unit = "bytes_per_second"
	PerSecond      Unit = "per_second"
	Fraction       Unit = "fraction"
	Seconds        Unit = "seconds"
	Microseconds   Unit = "microseconds"
	Ratio          Unit = "ratio"
	Count          Unit = "count"
)

// Var is one variable of the rule language.
type Var struct {
	Name     string        `json:"name"`
	Type     Type          `json:"type"`
	Unit     Unit          `json:"unit,omitempty"`
	Subjects []SubjectKind `json:"subjects"`
	Doc      string        `json:"doc"`
}

func (v *Var) of(kind SubjectKind) bool {
	for _, k := range v.Subjects {
		if k == kind {
			return true
		}
	}
	return false
}

var (
	ofJob    = []SubjectKind{JobSubject}
	ofOST    = []SubjectKind{OSTSubject}
	ofPool   = []SubjectKind{OSTSubject, PoolSubject}
	ofServer = []SubjectKind{ServerSubject}
	ofAny    = subjectKinds
)

// vars is the one table of variables. To add a variable is to add a row, and
// to set it where facts are made.
var vars = []Var{
	{"job.id", String, NoUnit, ofJob, "job id as in job_stats, normalised: the Slurm number where there is one"},
	{"job.user", String, NoUnit, ofJob, "user name, from Slurm or the job id"},
	{"job.account", String, NoUnit, ofJob, "Slurm account"},
	{"job.partition", String, NoUnit, ofJob, "Slurm partition"},
	{"job.process", String, NoUnit, ofJob, "process name of work outside Slurm (mkdir of mkdir.0)"},
	{"job.age_seconds", Double, Seconds, ofJob, "time since the job began, or was first seen"},
	{"job.read_bytes_per_second", Double, BytesPerSecond, ofJob, "bytes read, over all its targets"},
	{"job.write_bytes_per_second", Double, BytesPerSecond, ofJob, "bytes written, over all its targets"},
	{"job.read_ops_per_second", Double, PerSecond, ofJob, "read RPCs"},
	{"job.write_ops_per_second", Double, PerSecond, ofJob, "write RPCs"},
	{"job.mean_read_bytes", Double, Bytes, ofJob, "bytes per read RPC"},
	{"job.mean_write_bytes", Double, Bytes, ofJob, "bytes per write RPC"},
	{"job.small_io_share", Double, Fraction, ofJob, "share of its data RPCs of 64 KiB or less"},
	{"job.meta_ops_per_second", Double, PerSecond, ofJob, "metadata operations of all kinds"},
	{"job.create_per_second", Double, PerSecond, ofJob, "mknod, mkdir and create"},
	{"job.open_per_second", Double, PerSecond, ofJob, "opens"},
	{"job.unlink_per_second", Double, PerSecond, ofJob, "unlink and rmdir"},
	{"job.getattr_per_second", Double, PerSecond, ofJob, "getattr, visible and inferred"},
	{"job.hidden_getattr_per_second", Double, PerSecond, ofJob, "getattr that job_stats does not show (batched statahead), inferred"},
	{"job.sync_per_second", Double, PerSecond, ofJob, "sync operations"},
	{"job.bytes_per_create", Double, Bytes, ofJob, "bytes written per file made; unknown when it makes none"},
	{"job.in_flight", Double, Count, ofJob, "mean RPCs in service: time in service over time passed"},
	{"job.data_in_flight", Double, Count, ofJob, "mean data RPCs in service"},
	{"job.meta_in_flight", Double, Count, ofJob, "mean metadata RPCs in service"},
	{"job.osts", Int, Count, ofJob, "OSTs touched"},
	{"job.mdts", Int, Count, ofJob, "MDTs touched"},
	{"job.top_ost_share", Double, Fraction, ofJob, "share of its bytes that go to its busiest OST"},
	{"job.top_ost", String, NoUnit, ofJob, "name of its busiest OST"},
	{"job.peer_osts", Int, Count, ofJob, "other OSTs in the pool of its busiest OST"},
	{"job.peer_load", Double, Fraction, ofJob, "bytes moved by the busiest of those others, over those of its busiest OST"},
	{"job.spinning_share", Double, Fraction, ofJob, "share of its data RPCs on rotating devices; unknown where the kind of device is"},
	{"job.duty_cycle", Double, Fraction, ofJob, "share of time in which it does I/O"},
	{"job.period_seconds", Double, Seconds, ofJob, "time between its bursts; unknown when it is not periodic"},
	{"job.bursts", Int, Count, ofJob, "bursts seen"},
	{"job.burst_ratio", Double, Ratio, ofJob, "rate now over its own mean rate"},
	{"job.risk", Double, Ratio, ofJob, "weight of its work for the file system; 1 is the mean job"},

	{"share.read", Double, Fraction, ofJob, "its share of the bytes read from the servers it uses"},
	{"share.write", Double, Fraction, ofJob, "its share of the bytes written"},
	{"share.data", Double, Fraction, ofJob, "its share of the data RPCs"},
	{"share.meta", Double, Fraction, ofJob, "its share of the metadata operations"},
	{"share.meta_time", Double, Fraction, ofJob, "its share of the time that metadata operations are in service; unknown where the release does not time them"},
	{"share.create", Double, Fraction, ofJob, "its share of the files made and removed"},
	{"share.getattr", Double, Fraction, ofJob, "its share of the getattr"},
	{"share.time", Double, Fraction, ofJob, "its share of the time in service"},
	{"share.ost", Double, Fraction, ofJob, "its share of the work of its busiest OST"},

	{"pressure.score", Double, Ratio, ofAny, "pressure of the worst server in question; 1 is its limit"},
	{"pressure.cpu", Double, Fraction, ofAny, "CPU time that did work, all CPUs"},
	{"pressure.system", Double, Fraction, ofAny, "CPU time in the kernel"},
	{"pressure.iowait", Double, Fraction, ofAny, "CPU time idle while I/O was outstanding; never a reason by itself"},
	{"pressure.psi", Double, Fraction, ofAny, "time in which some task stalled on I/O (PSI some)"},
	{"pressure.util", Double, Fraction, ofAny, "busiest block device: time with a request outstanding"},
	{"pressure.queue", Double, Count, ofAny, "longest block device queue (aqu-sz)"},
	{"pressure.wait_ratio", Double, Ratio, ofAny, "request wait time in the service queue over its own calm"},
	{"pressure.wait_usec", Double, Microseconds, ofAny, "mean request wait time in the service queue"},
	{"pressure.cpu_ratio", Double, Ratio, ofAny, "CPU time that did work over its own calm"},
	{"pressure.nrs_queued", Double, Count, ofAny, "requests held by the NRS"},
	{"pressure.rising", Bool, NoUnit, ofAny, "the pressure is growing"},

	{"harm.ratio", Double, Ratio, ofJob, "worst steady victim: another job's latency now over its own calm"},
	{"harm.worst", String, NoUnit, ofJob, "id of that victim; \"\" while none is slower than twice its calm"},
	{"harm.mean", Double, Ratio, ofJob, "mean of the same over all other jobs, weighted by operations"},
	{"harm.victims", Int, Count, ofJob, "other jobs that are slower than twice their calm"},
	{"harm.wait_ratio", Double, Ratio, ofJob, "request wait time over calm on the servers that it shares"},

	{"ost.name", String, NoUnit, ofOST, "name, lustre-OST0004"},
	{"ost.index", Int, NoUnit, ofOST, "index"},
	{"ost.pool", String, NoUnit, ofOST, "pool it belongs to, \"\" for none or unknown"},
	{"ost.used", Double, Fraction, ofOST, "used share of the space that users can fill"},
	{"ost.inodes_used", Double, Fraction, ofOST, "used share of the inodes"},
	{"ost.share_of_pool_load", Double, Fraction, ofOST, "its share of the bytes moved by its pool"},

	{"pool.name", String, NoUnit, ofPool, "name of the pool"},
	{"pool.osts", Int, Count, ofPool, "OSTs in the pool"},
	{"pool.used", Double, Fraction, ofPool, "used share of the pool's space"},
	{"pool.max_used", Double, Fraction, ofPool, "used share of the pool's fullest OST"},

	{"server.name", String, NoUnit, ofServer, "host name"},
	{"server.jobs", Int, Count, ofServer, "jobs that did I/O there"},
	{"server.targets", Int, Count, ofServer, "targets that it serves"},
}

// NumberID and TextID are a variable's place in Facts. They are looked up once,
// by name, and cost nothing after that.
type (
	NumberID uint16 // a double, int or bool
	TextID   uint16 // a string
)

// slot is where Facts keep a variable, and its row in the table.
type slot struct {
	row    int
	text   bool
	isBool bool
	place  uint16
}

var slots, numNumbers, numTexts = layout(vars)

func layout(vars []Var) (map[string]slot, int, int) {
	m := make(map[string]slot, len(vars))
	var numbers, texts uint16
	for i, v := range vars {
		s := slot{row: i, text: v.Type == String, isBool: v.Type == Bool}
		if s.text {
			s.place = texts
			texts++
		} else {
			s.place = numbers
			numbers++
		}
		m[v.Name] = s
	}
	return m, int(numbers), int(texts)
}

// Vars is a copy of the table of variables, in its order.
func Vars() []Var { return append([]Var(nil), vars...) }

// NumberVar gives the place of a double, int or bool variable.
func NumberVar(name string) (NumberID, bool) {
	s, ok := slots[name]
	return NumberID(s.place), ok && !s.text
}

// TextVar gives the place of a string variable.
func TextVar(name string) (TextID, bool) {
	s, ok := slots[name]
	return TextID(s.place), ok && s.text
}

// MustNumber is NumberVar for names that are written in the source. It panics
// on a name that is not in the table, so call it where a package is initialised.
func MustNumber(name string) NumberID {
	id, ok := NumberVar(name)
	if !ok {
		panic(fmt.Sprintf("policy: no number variable %q", name))
	}
	return id
}

// MustText is TextVar for names that are written in the source; see MustNumber.
func MustText(name string) TextID {
	id, ok := TextVar(name)
	if !ok {
		panic(fmt.Sprintf("policy: no string variable %q", name))
	}
	return id
}

// VarsMarkdown is the reference page docs/policy-vars.md.
func VarsMarkdown() string {
	var b strings.Builder
	b.WriteString(`# Variables of the rule language

Generated from the table in policy/vars.go by "ioguard policy vars --markdown"; do not edit.

A number that is not known compares false with everything; known(x) tells. A fraction is 0 to 1.
Subjects are what a rule may judge with the variable.

| variable | type | unit | subjects | meaning |
|---|---|---|---|---|
`)
	for _, v := range vars {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", v.Name, v.Type, v.Unit, joinKinds(v.Subjects), v.Doc)
	}
	return b.String()
}

func joinKinds(kinds []SubjectKind) string {
	s := make([]string, len(kinds))
	for i, k := range kinds {
		s[i] = string(k)
	}
	return strings.Join(s, ", ")
}

package ioguard

import "time"

// NodeJob is a job on one node as Slurm's hooks there saw it. The prolog knows
// the first half, the epilog adds the rest; either may be missing. A NodeJob
// without a Node is what the controller's hooks know of the job.
type NodeJob struct {
	Cluster     string `json:"cluster,omitempty"`
	JobID       string `json:"job_id"` // Slurm's number, of an array's task too
	ArrayJobID  string `json:"array_job_id,omitempty"`
	ArrayTaskID string `json:"array_task_id,omitempty"`
	HetJobID    string `json:"het_job_id,omitempty"`
	Node        string `json:"node,omitempty"` // "" is the controller

	User      string  `json:"user,omitempty"` // name, "" where only the number is known
	UID       *uint32 `json:"uid,omitempty"`
	Account   string  `json:"account,omitempty"`
	Partition string  `json:"partition,omitempty"`
	Name      string  `json:"name,omitempty"`
	NodeList  string  `json:"node_list,omitempty"` // hostlist
	WorkDir   string  `json:"work_dir,omitempty"`

	Start        time.Time `json:"-"`                       // of the prolog, by the node's clock; zero: unknown
	End          time.Time `json:"-"`                       // of the epilog; zero: unknown, or it runs still
	RestartCount *int      `json:"restart_count,omitempty"` // as the prolog was told; an epilog may be told one more
	ExitCode     *int      `json:"exit_code,omitempty"`     // wait status: 768 is exit 3, 9 is signal 9
	Exclusive    *bool     `json:"exclusive,omitempty"`     // no other job was between prolog and epilog here meanwhile
	FS           []NodeFS  `json:"fs,omitempty"`            // mounts of one file system are added up
}

// NodeFS is what programs on a node did on one file system between a job's prolog
// and its epilog, by the client's own counters: all of the node's work, which is
// the job's where it was Exclusive. nil is unknown.
type NodeFS struct {
	FS         string  `json:"fs"`
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
	Reset      bool    `json:"reset,omitempty"` // the counters restarted in between: lower bounds
}

// NodeEventKind is what happened in a NodeEvent.
type NodeEventKind string

// The kinds of event.
const (
	EventFinding  NodeEventKind = "finding"   // a check failed
	EventDrain    NodeEventKind = "drain"     // the node was drained
	EventResume   NodeEventKind = "resume"    // and resumed
	EventRequeue  NodeEventKind = "requeue"   // the job was put back into the queue
	EventHold     NodeEventKind = "hold"      // and held there
	EventBrake    NodeEventKind = "brake"     // nothing was done: too many nodes suffer the same
	EventFailOpen NodeEventKind = "fail_open" // a check could not be made: the job was let in
	EventSkip     NodeEventKind = "skip"      // a check was left out
)

// NodeEventKinds lists the kinds.
func NodeEventKinds() []NodeEventKind {
	return []NodeEventKind{EventFinding, EventDrain, EventResume, EventRequeue, EventHold, EventBrake, EventFailOpen, EventSkip}
}

// NodeEvent is something that a hook did or noticed on a node.
type NodeEvent struct {
	Time      time.Time     `json:"-"`
	Cluster   string        `json:"cluster,omitempty"`
	Node      string        `json:"node,omitempty"`
	Hook      string        `json:"hook,omitempty"` // prolog, epilog, prolog_slurmctld, health_check
	JobID     string        `json:"job_id,omitempty"`
	User      string        `json:"user,omitempty"`
	Partition string        `json:"partition,omitempty"`
	Kind      NodeEventKind `json:"kind"`
	Check     string        `json:"check,omitempty"`   // code, "ib-port"
	Subject   string        `json:"subject,omitempty"` // "mlx5_0/1", "lustre-OST0002"
	Severity  Severity      `json:"severity,omitempty"`
	Text      string        `json:"text,omitempty"`   // a sentence
	Shared    []string      `json:"shared,omitempty"` // keys of what it shares with other nodes: a switch, a target
	Took      time.Duration `json:"-"`                // zero: not measured
}

package ioguard

import "time"

// Window is what one job did on one pool of one file system over a span, summed
// over its targets. It is the row that records keep. Pool is "" for metadata
// targets and for OSTs in no (known) pool.
type Window struct {
	Start   time.Time
	Seconds float64
	FS      string
	Pool    string
	JobID   string // normalised: the Slurm number where there is one, else the decoded id
	Targets int    // targets touched

	ReadBytes, WriteBytes float64
	ReadOps, WriteOps     float64 // RPCs
	ReadUsec, WriteUsec   float64 // time in service; 0 where the release does not count it

	Opens, Closes, Creates, Unlinks float64 // Creates: mknod, mkdir, create; Unlinks: unlink, rmdir
	Getattrs, Setattrs, Syncs       float64
	OtherOps                        float64
	MetaUsec                        float64 // time in service of all metadata operations
	HiddenGetattrs                  float64 // inferred: work of batched statahead that job_stats does not show

	PeakReadBytes, PeakWriteBytes float64 // highest rates of one interval in the span, bytes per second
	PeakMetaOps                   float64 // operations per second
}

// MetaOps is the number of metadata operations in the window.
func (w *Window) MetaOps() float64 {
	return w.Opens + w.Closes + w.Creates + w.Unlinks + w.Getattrs + w.Setattrs + w.Syncs + w.OtherOps
}

// Pressure is one server's state over a span. Fractions are 0 to 1; NaN is unknown.
type Pressure struct {
	Start     time.Time
	Seconds   float64
	Server    string
	Busy      float64 // CPU time that did work, system and interrupt time included
	IOWait    float64
	PSISome   float64 // I/O pressure, share of the span
	Util      float64 // busiest block device
	QueueSize float64 // longest device queue (aqu-sz)
	WaitUsec  float64 // mean time of a request in its service's queue, microseconds
	Score     float64 // the engine's pressure: 1 is the server's limit
}

// Owner is what Slurm knows of a job. Empty fields are unknown.
type Owner struct {
	JobID     string
	Name      string
	User      string
	Account   string
	Partition string
	Nodes     string // hostlist
	State     string
	Start     time.Time
}

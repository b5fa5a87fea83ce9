// Package epilog is what ioguard does when a job ends on a node: it accounts what
// the node did to each Lustre file system between prolog and epilog, records it with
// the job's facts, and forgets the job.
//
// It runs on every node of an allocation, also where no prolog ran, at the same
// time as EpilogSlurmctld. A failing Epilog takes the node away, so that its errors
// are told and never exit 1; only a node check that the policy asks for does.
package epilog

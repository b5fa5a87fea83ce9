// Package prolog is what ioguard does when Slurm starts a job: on the node it
// proves that the storage can be reached and drains the node where the policy says
// so; in slurmctld it keeps the job's facts; before a task it hands the user what
// was prepared.
//
// Slurm runs it as root with no PATH and one pipe for its output, and takes the
// node away when it fails. So FailOpen decides alone what its own failure means, no
// thread here touches Lustre, nothing that a user controls is evaluated or
// followed, and no Slurm command runs while the node is healthy.
package prolog

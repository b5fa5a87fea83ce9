// Package slurm answers who owns a job, which jobs run on a node and how the nodes
// are, by asking squeue and sinfo, and reads what Slurm tells a hook.
//
// It only reads: no command that it runs changes a job or a node. It never
// starts a shell, and nothing that a user controls becomes an argument: only
// job numbers and names of nodes do. A site without Slurm, or a controller that is
// away, costs nothing but the names: job ids then stay bare. The engine asks for
// owners, the hooks for their environment and the nodes.
package slurm

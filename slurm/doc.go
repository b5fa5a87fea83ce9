// Package slurm answers who owns a job and which jobs run on a node, by asking
// squeue seldom and remembering the answers.
//
// It only reads: no command that it runs changes a job or a node. It never
// starts a shell, and nothing that a user controls becomes an argument: only
// job numbers do. A site without Slurm, or a controller that is away, costs
// nothing but the names: job ids then stay bare. The engine calls it.
package slurm

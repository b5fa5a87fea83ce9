// Package doctor tells whether a machine is set up so that ioguard can do its work
// there: compute node, Lustre server or controller of Slurm, as root or not.
//
// Look reads side by side within one deadline what bears on that: Lustre's and
// LNet's settings, what scontrol says of Slurm's configuration, the hooks that it
// names, and the permissions and folders that ioguard itself needs. Judge, which is
// pure, turns it into one outcome per check, each with what was seen, what is
// expected and the line that puts it right.
//
// Nothing here changes the machine, looks below a Lustre mount, or runs a command
// that is not known to be read-only. Only the command doctor calls it.
package doctor

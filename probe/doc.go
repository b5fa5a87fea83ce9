// Package probe asks one mount whether it answers, without the asking process
// ever touching it.
//
// A Lustre mount that hangs holds the thread that touches it for ever: the thread
// ignores SIGKILL, the process of which it is one can never exit, and slurmd waits
// for a hook that cannot exit. So Run starts a process of its own, the probe: this
// same program again (Main), in a session of its own so that slurmd's killpg does
// not reach it, with nothing of the hook's open so that slurmd reads the hook's
// pipe to its end. The probe does statfs and stat of the mount's root, both of
// which only read, tells what it saw, and ends. One that is late is left behind,
// neither waited for nor killed: a process that hangs in the kernel does not die,
// and its successor would hang beside it.
//
// There is never more than one probe per mount on a node, however many hooks ask.
// The probe inherits the lock (flock) on a file of the mount's in Config.Dir and
// alone keeps it, so that the kernel holds the lock just as long as the probe
// lives, whatever becomes of those who ask; a reused process number cannot deceive.
// The file says in two lines of JSON who asks since when and what was answered.
// Who finds the lock held waits for that answer, or says at once since when the
// probe hangs.
//
// What is wrong with the probe rather than with the mount (no folder, no process,
// a machine too busy to let one run, a probe that somebody stopped) is never called
// stuck but Skipped: nothing was proved.
//
// The package does not protect from a program or a Config.Dir that lie on a file
// system that hangs, beyond refusing those that lie on the mount that is asked.
// Config.Dir must be local to the node (flock on a file that nodes share would
// let one probe ask for all), best on a tmpfs: on a full disk the first to ask
// gets its answer, but cannot tell the others.
//
// With PrologFlags=RunInJob (Slurm 24.05 and later) hooks run in the job's cgroup,
// and a probe left behind stays there: the job's step may then not end before the
// mount answers. While a job is suspended its probe stands still as well; that is
// told apart from a mount that hangs.
//
// The node's gate calls Run; main calls Main.
package probe

package epilog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"ioguard"
	"ioguard/host"
	"ioguard/lfs"
	"ioguard/node"
	"ioguard/slurm"
)

// leftOver is how old a file of a job must be to be thought forgotten: its node
// crashed, or slurmd ran no epilog.
const leftOver = 60 * 24 * time.Hour

// Run accounts a job on its node. The job comes also with an error: what could not
// be told is unknown in it.
func Run(ctx context.Context, h *host.Host, state *node.State, hook slurm.Hook, now time.Time) (ioguard.NodeJob, error) {
	job := node.JobOf(hook, hook.NodeName, time.Time{})
	job.RestartCount = nil // an epilog may be told one more than its prolog
	job.End, job.ExitCode = now, hook.ExitCode
	if hook.JobID == "" {
		return job, errors.New("no SLURM_JOB_ID in the environment")
	}
	if state == nil {
		return job, nil
	}
	began, err := state.TakeJob(hook.NodeName, hook.JobID)
	errs := []error{state.ForgetTask(hook.NodeName, hook.JobID), state.Sweep(hook.NodeName, now.Add(-leftOver))}
	switch {
	case errors.Is(err, fs.ErrNotExist): // no prolog ran here
		return job, errors.Join(errs...)
	case err != nil:
		return job, errors.Join(append(errs, err)...)
	}
	job.Start, job.RestartCount = began.Started, began.Hook.RestartCount
	others, err := state.OtherJobs(hook.NodeName, hook.JobID, now.Add(-leftOver))
	errs = append(errs, err)
	alone := began.Alone && err == nil && len(others) == 0 && !began.Joined
	job.Exclusive = &alone
	job.FS, err = account(h, began.Llite)
	return job, errors.Join(append(errs, err)...)
}

// account is what happened on each file system since the counters given. Mounts
// that are new are counted from their start, those that are gone are not told.
func account(h *host.Host, before []lfs.LliteSum) ([]ioguard.NodeFS, error) {
	mounts, err := lfs.ReadLlite(h.FS)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []ioguard.NodeFS
	for i := range mounts {
		cur := mounts[i].Sum()
		d := lfs.DiffLlite(earlier(before, cur), cur)
		all = append(all, ioguard.NodeFS{FS: d.FS, ReadBytes: d.ReadBytes, WriteBytes: d.WriteBytes, Reads: d.Reads, Writes: d.Writes, Opens: d.Opens,
			Creates: d.Creates, Unlinks: d.Unlinks, Mkdirs: d.Mkdirs, Getattrs: d.Getattrs, Fsyncs: d.Fsyncs, Reset: d.Kind == ioguard.DeltaReset})
	}
	if err != nil {
		err = fmt.Errorf("account the job's I/O: %w", err)
	}
	return all, err
}

// earlier finds the same mount as it was, else another of the same file system.
func earlier(before []lfs.LliteSum, cur lfs.LliteSum) lfs.LliteSum {
	var same lfs.LliteSum
	for _, b := range before {
		if b.FS != cur.FS {
			continue
		}
		if b.Instance == cur.Instance {
			return b
		}
		same = b
	}
	return same
}

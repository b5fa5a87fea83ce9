package slurm

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
)

// ReadTaskID gives what scontrol takes for the one job that its processes see as
// SLURM_JOB_ID: "4711_3" for a task of an array, else the number itself. The last
// task of an array has the array's own number, by which scontrol means all of its
// tasks (measured with 22.05: requeue ended those that ran well elsewhere), and the
// hooks on the nodes are not told of arrays. One that Slurm does not know wraps
// fs.ErrNotExist. A number under which tasks only wait is given as it is.
func ReadTaskID(ctx context.Context, run Run, jobID string) (string, error) {
	if !IsJobID(jobID) || strings.Contains(jobID, "_") {
		return "", fmt.Errorf("read task: %.50q is no number of a job", jobID)
	}
	mark := newMark()
	out, err := run(ctx, "squeue", "--noheader", "--all", "--states=all", "--jobs="+jobID, "--format="+taskFormat(mark))
	if err != nil && invalidJob(err) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return "", fmt.Errorf("read task of job %s: %w", jobID, err)
	}
	id := parseTask(out, mark, jobID)
	if id == "" {
		return "", fmt.Errorf("read task of job %s: squeue does not list it: %w", jobID, fs.ErrNotExist)
	}
	return id, nil
}

// taskFormat holds numbers only: a job's name could forge a row.
func taskFormat(mark string) string { return mark + "|%A|%F|%K" }

// parseTask finds a job among the rows in the format above, "" where it is not there:
//
//	MARK|2|1|1
//	MARK|1|1|3
//	MARK|4|4|N/A
func parseTask(out []byte, mark, jobID string) string {
	found := ""
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(f) != 4 || f[0] != mark || f[1] != jobID {
			continue
		}
		if isNumber(f[2]) && isNumber(f[3]) {
			return f[2] + "_" + f[3]
		}
		found = jobID
	}
	return found
}

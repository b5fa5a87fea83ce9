package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ioguard"
)

// Job is a row of squeue.
type Job struct {
	ioguard.Owner        // JobID is the number that the job's processes see as SLURM_JOB_ID
	Array         string // number of the job array, equal to JobID where there is none
	Task          string // task within the array; "1-6%2" where tasks still wait in one row; "" without array
}

// maxName is how much of a job's name is kept, in bytes. Slurm takes names of
// any length from its users.
const maxName = 256

// format is what squeue is asked for (squeue(1), -o). The first field is a mark
// that no user can foresee and the name, the only field that users write, stands
// last: a name may hold the delimiter, newlines and whole rows of other jobs
// (`sbatch -J $'x\n4711|root'` is printed as it is), and must not pass for one.
func format(mark string) string {
	return mark + "|%A|%F|%K|%u|%a|%P|%T|%S|%N|%j"
}

// ParseJobs reads what squeue printed in the format above, with times in loc:
//
//	MARK|1|1|N/A|alice|physics|debug|RUNNING|2026-11-21T08:40:18|node1|name | of a job
//	MARK|2|2|3|alice|(null)|debug|RUNNING|2026-11-21T08:40:18|node1|array
//	MARK|8|8|1-6%2|bob|(null)|debug|PENDING|N/A||held
//
// Rows that are not understood are counted in the error and do not harm the
// others. What stands before the first mark is not looked at.
func ParseJobs(out []byte, mark string, loc *time.Location) ([]Job, error) {
	var jobs []Job
	bad, total := 0, 0
	// A newline in front lets the first row begin as all others do.
	rows := strings.Split("\n"+string(out), "\n"+mark+"|")
	for _, row := range rows[1:] {
		total++
		j, ok := parseJob(strings.TrimSuffix(row, "\n"), loc)
		if !ok {
			bad++
			continue
		}
		jobs = append(jobs, j)
	}
	if bad > 0 {
		return jobs, fmt.Errorf("parse squeue: %d of %d rows not understood", bad, total)
	}
	return jobs, nil
}

func parseJob(row string, loc *time.Location) (Job, bool) {
	f := strings.SplitN(row, "|", 10)
	if len(f) < 10 || !isNumber(f[0]) || !isNumber(f[1]) || f[6] == "" {
		return Job{}, false
	}
	j := Job{Array: f[1], Task: known(f[2])}
	j.JobID, j.User, j.Account, j.Partition = f[0], known(f[3]), known(f[4]), known(f[5])
	j.State, j.Nodes, j.Name = f[6], known(f[8]), cut(f[9], maxName)
	// The start of a pending job is a guess of the scheduler's.
	if t, err := time.ParseInLocation("2006-01-02T15:04:05", f[7], loc); err == nil && j.State != "PENDING" {
		j.Start = t
	}
	return j, true
}

// known turns squeue's words for "nothing" into "".
func known(s string) string {
	if s == "(null)" || s == "N/A" || s == "None assigned" {
		return ""
	}
	return s
}

// cut shortens s to n bytes without breaking a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// IsJobID tells whether an id looks like a Slurm job: "4711", or "4711_3" for a
// task of an array. Step ids ("4711.0") are none: with Lustre's
// jobid_var=procname_uid a program named 4711 run by root has just that id, and
// its work must not be put down to the owner of job 4711.
func IsJobID(id string) bool {
	job, task, array := strings.Cut(id, "_")
	if array && (len(task) > 9 || !isNumber(task)) {
		return false
	}
	// squeue takes one number that is out of range for a fault of all its arguments.
	n, err := strconv.ParseUint(job, 10, 32)
	return err == nil && n > 0 && n < 0xffff0000 && job[0] != '0' && isNumber(job)
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// running tells whether a job's processes may be on its nodes.
func running(state string) bool {
	switch state {
	case "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT":
		return true
	}
	return false
}

// finished tells whether a job's state is its last.
func finished(state string) bool {
	switch state {
	case "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE":
		return true
	}
	return false
}

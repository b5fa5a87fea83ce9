package lfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"
)

// JobSettings is how this machine names jobs (as a client: the settings of a
// server matter only where it mounts the file system itself) and how long its
// targets remember them. A field that the system does not tell is nil.
type JobSettings struct {
	Var         *string // jobid_var: "SLURM_JOB_ID", "procname_uid", ...
	Name        *string // jobid_name: "%e.%u", or the id itself with nodelocal
	ThisSession *string // jobid_this_session, where this session has one

	// CleanupInterval tells for each target after how long an idle job leaves
	// job_stats and its counters restart; 0 is never. Targets that do not tell are absent.
	CleanupInterval map[string]time.Duration
}

// Values of jobid_var that are no names of environment variables.
const (
	JobVarDisable     = "disable"
	JobVarNodeLocal   = "nodelocal"
	JobVarSession     = "session"
	JobVarProcnameUID = "procname_uid"
)

// Disabled reports whether job ids are known to be switched off.
func (s *JobSettings) Disabled() bool {
	return s.Var != nil && (*s.Var == JobVarDisable || *s.Var == "")
}

// NodeLocal reports whether all of the node goes under one id, jobid_name.
func (s *JobSettings) NodeLocal() bool { return s.Var != nil && *s.Var == JobVarNodeLocal }

// Environment is the environment variable that ids are taken from, "" where they
// are not, or it is not known.
func (s *JobSettings) Environment() string {
	if s.Var == nil {
		return ""
	}
	switch *s.Var {
	case JobVarDisable, JobVarNodeLocal, JobVarSession, JobVarProcnameUID:
		return ""
	}
	return *s.Var
}

// ReadJobSettings reads the settings of this machine and of the targets given.
// What does not exist is left unknown; the errors of files that exist and cannot
// be read or understood are joined, beside what could be read.
//
// FILE: lustre/obdclass/linux/linux-module.c, jobid_var_show, jobid_name_show;
// lustre/obdclass/lprocfs_jobstats.c, job_cleanup_interval_show:
//
//	SLURM_JOB_ID
//	%e.%u
//	600
func ReadJobSettings(fsys fs.FS, targets []TargetInfo) (*JobSettings, error) {
	s := &JobSettings{}
	var errs []error
	for _, f := range []struct {
		param string
		value **string
	}{{"jobid_var", &s.Var}, {"jobid_name", &s.Name}, {"jobid_this_session", &s.ThisSession}} {
		text, err := readParam(fsys, f.param)
		switch {
		case err == nil:
			*f.value = &text
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("read %s: %w", f.param, err))
		}
	}
	for _, t := range targets {
		if t.JobCleanupInterval == "" {
			continue
		}
		n, err := readNumber(fsys, t.JobCleanupInterval)
		switch {
		case err == nil && n <= maxCleanup:
			if s.CleanupInterval == nil {
				s.CleanupInterval = make(map[string]time.Duration)
			}
			s.CleanupInterval[t.Name] = time.Duration(n) * time.Second
		case err == nil:
			errs = append(errs, fmt.Errorf("read job_cleanup_interval of %s: %d seconds is out of range", t.Name, n))
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, fmt.Errorf("read job_cleanup_interval of %s: %w", t.Name, err))
		}
	}
	return s, errors.Join(errs...)
}

// maxCleanup is the longest interval that a time.Duration holds, in seconds.
const maxCleanup = uint64(math.MaxInt64 / int64(time.Second))

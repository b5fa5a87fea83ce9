package slurm

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HookContext says as what Slurm started a program (SLURM_SCRIPT_CONTEXT).
type HookContext string

// The contexts. HealthCheck is what has no name of Slurm's: a program that slurmd
// started without a job. NoHook is a program that Slurm did not start as a hook.
const (
	NoHook          HookContext = ""
	PrologSlurmd    HookContext = "prolog_slurmd"
	EpilogSlurmd    HookContext = "epilog_slurmd"
	PrologSlurmctld HookContext = "prolog_slurmctld"
	EpilogSlurmctld HookContext = "epilog_slurmctld"
	PrologTask      HookContext = "prolog_task"
	EpilogTask      HookContext = "epilog_task"
	PrologSrun      HookContext = "prolog_srun"
	EpilogSrun      HookContext = "epilog_srun"
	HealthCheck     HookContext = "health_check"
)

var hookContexts = []HookContext{PrologSlurmd, EpilogSlurmd, PrologSlurmctld, EpilogSlurmctld, PrologTask, EpilogTask, PrologSrun, EpilogSrun}

// Hook is what Slurm tells a hook through its environment. What it does not tell,
// which differs between hooks and releases, is "" or nil.
//
// The job's user writes Name, WorkDir, Stdin, Stdout, Stderr and Comment, and
// chooses Constraints and Licenses: any bytes but NUL, newlines included, and they
// are given here as they came. In the contexts of tasks and of srun, which run with
// the user's own rights, everything is the user's.
type Hook struct {
	Context     HookContext `json:"context,omitempty"`
	JobID       string      `json:"job_id,omitempty"` // digits only
	ArrayJobID  string      `json:"array_job_id,omitempty"`
	ArrayTaskID string      `json:"array_task_id,omitempty"`
	HetJobID    string      `json:"het_job_id,omitempty"` // of the first component

	UID         *uint32 `json:"uid,omitempty"`
	GID         *uint32 `json:"gid,omitempty"`
	User        string  `json:"user,omitempty"`
	Account     string  `json:"account,omitempty"`
	Partition   string  `json:"partition,omitempty"`
	Name        string  `json:"name,omitempty"`
	Comment     string  `json:"comment,omitempty"`
	Constraints string  `json:"constraints,omitempty"`
	Licenses    string  `json:"licenses,omitempty"` // from 23.02 on

	NodeName    string `json:"node_name,omitempty"` // as Slurm knows this node
	NodeList    string `json:"node_list,omitempty"` // hostlist, see ExpandHosts
	NumNodes    *int   `json:"num_nodes,omitempty"`
	CPUsPerNode string `json:"cpus_per_node,omitempty"` // "4(x2),8"

	WorkDir string `json:"work_dir,omitempty"`
	Stdin   string `json:"stdin,omitempty"` // templates (%j, %u), which Slurm does not expand for hooks
	Stdout  string `json:"stdout,omitempty"`
	Stderr  string `json:"stderr,omitempty"`

	// RestartCount tells no run from another: the epilog of a run that ended by a
	// requeue is told one more than its prolog was.
	RestartCount *int `json:"restart_count,omitempty"`
	// ExitCode is a wait status: 768 is exit 3, 9 is signal 9. It is 0 also where the
	// job was cancelled or never began, and an error number of Slurm's (4021) where
	// slurmd could not start the script.
	ExitCode        *int      `json:"exit_code,omitempty"`
	DerivedExitCode *int      `json:"derived_exit_code,omitempty"`
	ExitCode2       string    `json:"exit_code2,omitempty"` // "3:0"
	StartTime       time.Time `json:"start_time,omitzero"`  // from 23.02 on
	EndTime         time.Time `json:"end_time,omitzero"`    // from 23.02 on; for a prolog the latest possible

	Cluster  string   `json:"cluster,omitempty"`
	Conf     string   `json:"conf,omitempty"`     // SLURM_CONF; hooks of slurmctld are not told
	Problems []string `json:"problems,omitempty"` // variables that hold what they should not
}

// ParseHook reads a hook's environment. It never fails: what is not understood is
// in Problems and unknown.
//
// FILE: src/slurmd/slurmd/req.c (_build_env; slurmd_script.c in newer releases) and
// src/plugins/prep/script/prep_script_slurmctld.c (_build_env):
//
//	SLURM_JOB_ID=4711
//	SLURM_SCRIPT_CONTEXT=prolog_slurmd
//	SLURM_JOB_STDOUT=/lustre/alice/run-%j.out
func ParseHook(environ []string) Hook {
	e := hookEnv{vars: make(map[string]string)}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if _, twice := e.vars[name]; ok && !twice && strings.HasPrefix(name, "SLURM") {
			e.vars[name] = value // the first one counts, as for getenv(3)
		}
	}
	h := Hook{
		JobID: e.number("SLURM_JOB_ID", "SLURM_JOBID"), ArrayJobID: e.number("SLURM_ARRAY_JOB_ID"), ArrayTaskID: e.number("SLURM_ARRAY_TASK_ID"),
		HetJobID: e.number("SLURM_HET_JOB_ID"),
		UID:      e.id("SLURM_JOB_UID", "SLURM_UID"), GID: e.id("SLURM_JOB_GID"),
		User: e.known("SLURM_JOB_USER"), Account: e.known("SLURM_JOB_ACCOUNT"), Partition: e.known("SLURM_JOB_PARTITION"),
		Name: e.text("SLURM_JOB_NAME"), Comment: e.text("SLURM_JOB_COMMENT"),
		Constraints: e.known("SLURM_JOB_CONSTRAINTS"), Licenses: e.known("SLURM_JOB_LICENSES"),
		NodeName: e.known("SLURMD_NODENAME"), NodeList: e.known("SLURM_JOB_NODELIST", "SLURM_NODELIST"),
		NumNodes: e.count("SLURM_JOB_NUM_NODES"), CPUsPerNode: e.known("SLURM_JOB_CPUS_PER_NODE"),
		WorkDir: e.text("SLURM_JOB_WORK_DIR"), Stdin: e.known("SLURM_JOB_STDIN"), Stdout: e.known("SLURM_JOB_STDOUT"), Stderr: e.known("SLURM_JOB_STDERR"),
		RestartCount: e.count("SLURM_JOB_RESTART_COUNT"), ExitCode: e.count("SLURM_JOB_EXIT_CODE"), DerivedExitCode: e.count("SLURM_JOB_DERIVED_EC"),
		ExitCode2: e.known("SLURM_JOB_EXIT_CODE2"), StartTime: e.time("SLURM_JOB_START_TIME"), EndTime: e.time("SLURM_JOB_END_TIME"),
		Cluster: e.known("SLURM_CLUSTER_NAME"), Conf: e.text("SLURM_CONF"),
	}
	if h.JobID != "" && !IsJobID(h.JobID) {
		e.complain("SLURM_JOB_ID", h.JobID)
		h.JobID = ""
	}
	h.Context = e.context()
	h.Problems = e.problems
	return h
}

// hookEnv are the variables of a hook. Its methods take names of which the first
// that is there counts.
type hookEnv struct {
	vars     map[string]string
	problems []string
}

func (e *hookEnv) find(names []string) (name, value string) {
	for _, name := range names {
		if value := e.vars[name]; value != "" {
			return name, value
		}
	}
	return "", ""
}

func (e *hookEnv) complain(name, value string) {
	e.problems = append(e.problems, fmt.Sprintf("%s is %.40q", name, value))
}

// text is a value as it came.
func (e *hookEnv) text(names ...string) string {
	_, value := e.find(names)
	return value
}

// known is a value where Slurm may print what it does not know.
func (e *hookEnv) known(names ...string) string { return known(e.text(names...)) }

func (e *hookEnv) number(names ...string) string {
	name, value := e.find(names)
	if value == "" {
		return ""
	}
	if !isNumber(value) || len(value) > 10 {
		e.complain(name, value)
		return ""
	}
	return value
}

func (e *hookEnv) id(names ...string) *uint32 {
	name, value := e.find(names)
	if value == "" {
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		e.complain(name, value)
		return nil
	}
	id := uint32(n)
	return &id
}

func (e *hookEnv) count(name string) *int {
	value := e.vars[name]
	if value == "" {
		return nil
	}
	n, err := strconv.ParseInt(value, 10, 33)
	if err != nil || n < 0 {
		e.complain(name, value)
		return nil
	}
	count := int(n)
	return &count
}

func (e *hookEnv) time(name string) time.Time {
	value := e.vars[name]
	if value == "" || value == "0" {
		return time.Time{}
	}
	n, err := strconv.ParseInt(value, 10, 40)
	if err != nil || n < 0 {
		e.complain(name, value)
		return time.Time{}
	}
	return time.Unix(n, 0)
}

func (e *hookEnv) context() HookContext {
	c := HookContext(e.vars["SLURM_SCRIPT_CONTEXT"])
	switch {
	case slices.Contains(hookContexts, c):
		return c
	case c != "":
		e.complain("SLURM_SCRIPT_CONTEXT", string(c))
	case e.vars["SLURMD_NODENAME"] != "" && e.text("SLURM_JOB_ID", "SLURM_JOBID") == "":
		return HealthCheck
	}
	return NoHook
}

// Paths are the places that the job names: its work directory, and the files of its
// standard streams as far as their names hold no template. They are absolute and
// cleaned by their letters alone, and end before a "..", whose meaning only the
// file system knows. Nothing is looked up: the user may have put anything there.
func (h *Hook) Paths() []string {
	var paths []string
	add := func(name string, template bool) {
		p := plainPath(name, template)
		if p != "" && !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	add(h.WorkDir, false)
	for _, name := range []string{h.Stdin, h.Stdout, h.Stderr} {
		add(name, true)
	}
	return paths
}

// plainPath is the part of an absolute path that says by its letters where it
// leads; "" where that is no more than the root. In a template a % begins a
// replacement and a \ forbids them all (sbatch(1), filename pattern).
func plainPath(name string, template bool) string {
	if !strings.HasPrefix(name, "/") {
		return ""
	}
	plain := "/"
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." || template && strings.ContainsAny(element, `%\`) {
			break
		}
		plain = path.Join(plain, element)
	}
	if plain == "/" {
		return ""
	}
	return plain
}

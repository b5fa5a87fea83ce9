package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"ioguard"
	"ioguard/lfs"
	"ioguard/slurm"
)

// Job is what the prolog keeps of a job for its epilog on the same node.
type Job struct {
	ID      string         `json:"job_id"`
	Started time.Time      `json:"started"` // the prolog's clock
	Hook    slurm.Hook     `json:"hook"`
	Llite   []lfs.LliteSum `json:"llite,omitempty"` // the mounts' counters when it started
	Alone   bool           `json:"alone"`           // no other job was on the node when it started; SaveJob tells
	Joined  bool           `json:"-"`               // another job started on the node since
}

// JobOf is what a hook's environment tells of a job, on a node or ("") in slurmctld.
func JobOf(hook slurm.Hook, nodeName string, start time.Time) ioguard.NodeJob {
	return ioguard.NodeJob{Cluster: hook.Cluster, JobID: hook.JobID, ArrayJobID: hook.ArrayJobID, ArrayTaskID: hook.ArrayTaskID, HetJobID: hook.HetJobID,
		Node: nodeName, User: hook.User, UID: hook.UID, Account: hook.Account, Partition: hook.Partition, Name: hook.Name, NodeList: hook.NodeList,
		WorkDir: hook.WorkDir, Start: start, RestartCount: hook.RestartCount}
}

// Task is what a job's tasks are told: the user's own, and readable to nobody else.
type Task struct {
	Export map[string]string `json:"export,omitempty"`
	Notice string            `json:"notice,omitempty"` // one line
}

func jobFile(node, id string) (string, error) {
	n, err := safeName(node)
	if err != nil {
		return "", err
	}
	if !slurm.IsJobID(id) || strings.ContainsRune(id, '_') {
		return "", fmt.Errorf("%.40q is no job id", id)
	}
	return path.Join("jobs", n, id+".json"), nil
}

// SaveJob keeps a job until its epilog, and whether it is Alone: jobs of before
// since do not count, their epilog never came. Of two jobs that start at the same
// time at least one finds the other, since each looks behind its own file.
func (s *State) SaveJob(node string, j Job, since time.Time) error {
	name, err := jobFile(node, j.ID)
	if err != nil {
		return fmt.Errorf("save job: %w", err)
	}
	j.Alone = true
	if err := errors.Join(s.Save(name, j), s.started(node, j.ID)); err != nil {
		return err
	}
	others, err := s.OtherJobs(node, j.ID, since)
	if err != nil || len(others) == 0 {
		return err
	}
	j.Alone = false
	return s.Save(name, j)
}

// started notes which job started last on a node. It is written in place: replacing a
// file makes ext4 write its data at once, which takes longer than all else here.
func (s *State) started(node, id string) error {
	name := s.Dir(lastFile(node))
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDir(path.Dir(name), 0o711); err != nil {
			return err
		}
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%-30q\n", id) // always of one length, since nothing is cut off
	return errors.Join(err, f.Close())
}

// lastFile tells which job started last on a node.
func lastFile(node string) string { return path.Join("nodes", node+".last.json") }

// TakeJob gives what was kept of a job and forgets it. Nothing kept is
// fs.ErrNotExist: epilogs run also where no prolog did.
func (s *State) TakeJob(node, id string) (Job, error) {
	name, err := jobFile(node, id)
	if err != nil {
		return Job{}, fmt.Errorf("take job: %w", err)
	}
	var j Job
	err = s.Load(name, &j)
	if errors.Is(err, fs.ErrNotExist) {
		return Job{}, err
	}
	var last string
	j.Joined = s.Load(lastFile(node), &last) == nil && last != id
	return j, errors.Join(err, s.Forget(name))
}

// OtherJobs lists the ids of the other jobs that are kept for a node, without those
// that are left over from before a time: their epilog never came.
func (s *State) OtherJobs(node, id string, since time.Time) ([]string, error) {
	n, err := safeName(node)
	if err != nil {
		return nil, err
	}
	dir := path.Join("jobs", n)
	entries, err := os.ReadDir(s.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var ids []string
	for _, e := range entries {
		other, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || other == id {
			continue
		}
		if st, err := e.Info(); err == nil && st.ModTime().Before(since) {
			continue
		}
		ids = append(ids, other)
	}
	return ids, err
}

// Sweep removes what is left of jobs that began before a time and never ended here,
// as after a crash of the node, and files of that age that were never put in place.
func (s *State) Sweep(node string, before time.Time) error {
	n, err := safeName(node)
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range []string{path.Join("jobs", n), "tasks", "nodes"} {
		entries, err := os.ReadDir(s.Dir(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
		for _, e := range entries {
			if dir == "nodes" && !strings.HasPrefix(e.Name(), newPrefix) {
				continue // what is remembered of a node has no end
			}
			if st, err := e.Info(); err == nil && st.ModTime().Before(before) {
				errs = append(errs, s.Forget(path.Join(dir, e.Name()))) // another epilog may have been faster
			}
		}
	}
	return errors.Join(errs...)
}

func taskFile(node, id string) (string, error) {
	name, err := jobFile(node, id)
	if err != nil {
		return "", err
	}
	return path.Join("tasks", strings.ReplaceAll(strings.TrimPrefix(name, "jobs/"), "/", ".")), nil
}

// SaveTask keeps what the job's tasks on a node are told, for the job's user to read.
func (s *State) SaveTask(node, id string, uid uint32, t Task) error {
	name, err := taskFile(node, id)
	if err != nil {
		return fmt.Errorf("save task: %w", err)
	}
	if err := s.replace(name, t, 0o400, int(uid)); err != nil {
		return fmt.Errorf("save task: %w", err)
	}
	return nil
}

// Task is what was prepared for the job's tasks so far, whoever's it is to read.
func (s *State) Task(node, id string) (Task, error) {
	name, err := taskFile(node, id)
	if err != nil {
		return Task{}, err
	}
	var t Task
	b, err := readFile(s.Dir(name), -1)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	return t, err
}

// LoadTask reads what SaveTask kept, as the job's user. The state directory is
// root's, so that what is in it is what root put there.
func LoadTask(dir, node, id string) (Task, error) {
	s := &State{dir: dir}
	name, err := taskFile(node, id)
	if err != nil {
		return Task{}, err
	}
	var t Task
	return t, s.Load(name, &t)
}

// ForgetTask removes what SaveTask kept; nothing there is no error.
func (s *State) ForgetTask(node, id string) error {
	name, err := taskFile(node, id)
	if err != nil {
		return err
	}
	return s.Forget(name)
}

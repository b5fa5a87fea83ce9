package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// loadTaskVariable makes this test's binary print what LoadTask tells the user that
// it runs as: "DIR NODE JOB".
const loadTaskVariable = "NODE_TEST_LOAD_TASK"

func TestMain(m *testing.M) {
	if f := strings.Fields(os.Getenv(loadTaskVariable)); len(f) == 3 {
		t, err := LoadTask(f[0], f[1], f[2])
		fmt.Println(t.Notice, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var longAgo = time.Now().Add(-24 * time.Hour)

// hostile are names and ids that lead elsewhere or nowhere.
var hostile = []string{"", "../x", "..", ".", "a/b", "/etc/passwd", strings.Repeat("n", 300), "a\nb", "a\x00b", ".hidden", "*", "ü", " "}

func TestHostileNames(t *testing.T) {
	s := open(t)
	check(t, s.Save("seed.json", 1))
	names := [][2]string{}
	for _, h := range hostile {
		names = append(names, [2]string{h, "1"}, [2]string{"n1", h})
	}
	names = append(names, [2]string{"n1", "1_2"}, [2]string{"n1", "0x1"})
	for _, n := range names {
		if err := s.SaveJob(n[0], Job{ID: n[1]}, longAgo); err == nil {
			t.Errorf("job %.20q on %.20q was saved", n[1], n[0])
		}
		if _, err := s.TakeJob(n[0], n[1]); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("job %.20q on %.20q: %v", n[1], n[0], err)
		}
		if err := s.SaveTask(n[0], n[1], 0, Task{}); err == nil {
			t.Errorf("task %.20q on %.20q was saved", n[1], n[0])
		}
		if _, err := LoadTask(s.Dir(""), n[0], n[1]); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("task %.20q on %.20q: %v", n[1], n[0], err)
		}
		if _, err := s.Task(n[0], n[1]); err == nil {
			t.Errorf("task %.20q on %.20q was read", n[1], n[0])
		}
		if err := s.ForgetTask(n[0], n[1]); err == nil {
			t.Errorf("task %.20q on %.20q was forgotten", n[1], n[0])
		}
	}
	for _, h := range hostile {
		if _, err := s.OtherJobs(h, "1", longAgo); err == nil {
			t.Errorf("other jobs of %.20q", h)
		}
		if err := s.Sweep(h, longAgo); err == nil {
			t.Errorf("swept %.20q", h)
		}
	}
	if entries, err := os.ReadDir(s.Dir("")); err != nil || len(entries) != 1 {
		t.Errorf("made %v, %v", entries, err)
	}
}

func TestJob(t *testing.T) {
	s := open(t)
	if _, err := s.TakeJob("n1", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no prolog ran: %v", err)
	}
	check(t, s.SaveJob("n1", Job{ID: "1", Started: time.Unix(100, 0)}, longAgo))
	check(t, s.SaveJob("n2", Job{ID: "2"}, longAgo)) // of another node of this machine
	check(t, s.SaveJob("n1", Job{ID: "3"}, longAgo))
	if others, err := s.OtherJobs("n1", "1", longAgo); err != nil || len(others) != 1 || others[0] != "3" {
		t.Errorf("others %q, %v", others, err)
	}
	for _, tt := range []struct {
		node, id      string
		alone, joined bool
	}{{"n1", "1", true, true}, {"n2", "2", true, false}, {"n1", "3", false, false}} {
		j, err := s.TakeJob(tt.node, tt.id)
		if err != nil || j.ID != tt.id || j.Alone != tt.alone || j.Joined != tt.joined {
			t.Errorf("job %s: %+v, %v", tt.id, j, err)
		}
		if _, err := s.TakeJob(tt.node, tt.id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("job %s was taken twice: %v", tt.id, err)
		}
	}
	if others, err := s.OtherJobs("n1", "9", longAgo); err != nil || len(others) > 0 {
		t.Errorf("others %q, %v", others, err)
	}
}

// TestTakeBroken: what cannot be read is told and gone.
func TestTakeBroken(t *testing.T) {
	s := open(t)
	check(t, s.SaveJob("n1", Job{ID: "1"}, longAgo))
	check(t, os.WriteFile(s.Dir("jobs/n1/1.json"), []byte("{"), 0o600))
	if _, err := s.TakeJob("n1", "1"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("broken: %v", err)
	}
	if _, err := s.TakeJob("n1", "1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestStartTogether: of jobs that start at the same time, at most one is thought to
// have the node for itself, and none that another joined.
func TestStartTogether(t *testing.T) {
	for range 20 {
		s := open(t)
		const jobs = 4
		var wg sync.WaitGroup
		for id := range jobs {
			wg.Go(func() {
				if err := s.SaveJob("n1", Job{ID: fmt.Sprint(id + 1)}, longAgo); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for id := range jobs {
			if j, err := s.TakeJob("n1", fmt.Sprint(id+1)); err != nil || j.Alone && !j.Joined {
				t.Fatalf("job %d: %+v, %v", id+1, j, err)
			}
		}
	}
}

func TestLeftOver(t *testing.T) {
	s := open(t)
	old := func(name string) {
		check(t, s.Save(name, 1))
		check(t, os.Chtimes(s.Dir(name), longAgo.Add(-time.Hour), longAgo.Add(-time.Hour)))
	}
	check(t, s.SaveJob("n1", Job{ID: "1"}, longAgo))
	check(t, s.SaveTask("n1", "1", 0, Task{}))
	for _, name := range []string{"jobs/n1/2.json", "jobs/n2/3.json", "tasks/n1.2.json", "nodes/n1.json", "nodes/.new-1", "jobs/n1/.new-1"} {
		old(name)
	}
	if others, err := s.OtherJobs("n1", "1", longAgo); err != nil || len(others) > 0 {
		t.Errorf("others %q, %v", others, err)
	}
	check(t, s.Sweep("n1", longAgo))
	check(t, s.Sweep("nowhere", longAgo))
	var left []string
	check(t, fs.WalkDir(os.DirFS(s.Dir("")), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left = append(left, name)
		}
		return err
	}))
	if want := "jobs/n1/1.json jobs/n2/3.json nodes/n1.json nodes/n1.last.json tasks/n1.1.json"; strings.Join(left, " ") != want {
		t.Errorf("left %q, want %q", left, want)
	}
}

// TestTask: what a job's tasks are told is for its user, who must be able to read it
// and nobody else.
func TestTask(t *testing.T) {
	needsRoot(t)
	// Users must get to it: t.TempDir is root's alone.
	dir, err := os.MkdirTemp("", "ioguard-node-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	check(t, err)
	program := filepath.Join(dir, "node.test")
	b, err := os.ReadFile(self)
	check(t, err)
	check(t, os.WriteFile(program, b, 0o755))
	s, err := Open(filepath.Join(dir, "state"))
	check(t, err)
	loadAs := func(uid uint32, id string) string {
		cmd := exec.Command(program)
		cmd.Env = []string{loadTaskVariable + "=" + s.Dir("") + " n1 " + id}
		cmd.Dir = "/"
		asUser(cmd, uid)
		out, err := cmd.CombinedOutput()
		check(t, err)
		return strings.TrimSpace(string(out))
	}
	check(t, s.SaveTask("n1", "1", nobody, Task{Notice: "hello"}))
	if got := loadAs(nobody, "1"); got != "hello <nil>" {
		t.Errorf("the user reads %q", got)
	}
	if got := loadAs(nobody-1, "1"); !strings.Contains(got, "permission denied") {
		t.Errorf("another user reads %q", got)
	}
	if got := loadAs(nobody, "2"); !strings.Contains(got, "no such file") {
		t.Errorf("nothing there reads %q", got)
	}
	if task, err := s.Task("n1", "1"); err != nil || task.Notice != "hello" {
		t.Errorf("root reads %+v, %v", task, err)
	}
	forgeTasks(t, s)
	for id, want := range map[string]string{"3": "no plain file of uid", "4": "too many levels of symbolic links", "5": "more than", "6": "unexpected end", "7": "no plain file of uid"} {
		if got := loadAs(nobody, id); !strings.Contains(got, want) {
			t.Errorf("task %s reads %q, want %q", id, got, want)
		}
	}
	check(t, s.ForgetTask("n1", "1"))
	check(t, s.ForgetTask("n1", "1"))
}

// forgeTasks makes what LoadTask must refuse: of another, a link, too large, broken,
// a FIFO.
func forgeTasks(t *testing.T, s *State) {
	t.Helper()
	text, err := json.Marshal(Task{Notice: "forged"})
	check(t, err)
	file := func(id string) string { return s.Dir("tasks/n1." + id + ".json") }
	write := func(id string, text []byte, uid int) {
		check(t, os.WriteFile(file(id), text, 0o444))
		check(t, os.Chown(file(id), uid, uid))
	}
	write("3", text, nobody-1)
	check(t, os.Symlink(file("1"), file("4")))
	write("5", []byte(strings.Repeat(" ", maxFile+1)), nobody)
	write("6", []byte("{"), nobody)
	fifo(t, file("7"))
	check(t, os.Chown(file("7"), nobody, nobody))
}

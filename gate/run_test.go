package gate

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ioguard/host"
	"ioguard/probe"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "probe" { // a probe is this binary again
		os.Exit(probe.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// TestRunRetry: a port that flaps back within its time passes, one that does not is
// held against the node once the time is over.
func TestRunRetry(t *testing.T) {
	port := "sys/class/infiniband/rxe0/ports/1/"
	for _, heals := range []bool{true, false} {
		dir := t.TempDir()
		h, err := host.OpenMachine("../testdata/machines/client-healthy.tar.zst")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(dir, h.FS); err != nil {
			t.Fatal(err)
		}
		h.Close()
		set := func(file, text string) {
			if err := os.WriteFile(filepath.Join(dir, port+file), []byte(text), 0o600); err != nil {
				t.Error(err)
			}
		}
		set("state", "1: DOWN\n")
		set("phys_state", "2: Polling\n")
		h, err = host.OpenMachine(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		retry := 700 * time.Millisecond
		p := &Policy{Checks: map[string]Override{"ib-port": {Retry: &retry}}, Brake: DefaultBrake}
		looked := make(chan struct{}, 100)
		watched := *h
		watched.FS = firstRead{h.FS, port + "state", looked}
		if heals {
			go func() {
				<-looked // the first look saw it down
				set("phys_state", "5: LinkUp\n")
				set("state", "4: ACTIVE\n")
			}()
		}
		began := time.Now()
		r := Run(t.Context(), &Looker{Host: &watched}, &Memory{}, p, Needs{}, time.Minute)
		if heals && (len(r.Verdict.Roots) > 0 || r.Looks < 2) {
			t.Errorf("it healed: %d looks, %v", r.Looks, r.Verdict.Roots)
		}
		if !heals && (len(r.Verdict.Roots) != 1 || r.Verdict.Roots[0].Check != "ib-port" || time.Since(began) < retry || r.Looks < 2) {
			t.Errorf("it stayed down: %d looks in %v, %v", r.Looks, time.Since(began), r.Verdict.Roots)
		}
	}
}

// firstRead tells when a file was read through it.
type firstRead struct {
	fs.FS
	name string
	read chan struct{}
}

func (f firstRead) Open(name string) (fs.File, error) {
	file, err := f.FS.Open(name)
	if name == f.name {
		select {
		case f.read <- struct{}{}:
		default:
		}
	}
	return file, err
}

// TestLookHangs: a source that hangs, and one that panics, hide none of the others,
// and nobody waits beyond the deadline.
func TestLookHangs(t *testing.T) {
	h := machine(t, "client-link-cut", edits{})
	stuck := make(chan struct{})
	t.Cleanup(func() { close(stuck) })
	run := h.Run
	h.Run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
		switch {
		case name == "lnetctl" && args[0] == "net":
			<-stuck // deaf to ctx, as a process in D state
			return nil, errors.New("late")
		case name == "lnetctl" && args[0] == "route":
			panic("odd answer")
		}
		return run(ctx, name, args...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	began := time.Now()
	r := Run(ctx, &Looker{Host: h}, &Memory{}, &Policy{Brake: DefaultBrake}, Needs{}, 0)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if len(r.Verdict.Roots) == 0 || r.Verdict.Roots[0].Check != "ib-port" {
		t.Errorf("roots %+v", r.Verdict.Roots)
	}
	for _, o := range r.Verdict.Outcomes {
		switch o.Check {
		case "lnet-ni":
			if o.Status != Unknown || o.Why != "no answer in time" {
				t.Errorf("%+v", o)
			}
		case "lnet-route":
			if o.Status != Unknown || !strings.Contains(o.Why, "odd answer") {
				t.Errorf("%+v", o)
			}
		}
	}
}

// TestProbes: mounts of a live machine are asked, unless their connections already
// say no. One that hangs is not asked again in the same run.
func TestProbes(t *testing.T) {
	tests := []struct {
		name    string
		machine string
		answer  probe.Answer
		asked   bool
		want    string // the first root's check
		status  Status // of mount-hang
	}{
		{"answers", "client-healthy", probe.Answer{OK: true}, true, "", OK},
		{"hangs", "client-healthy", probe.Answer{Stuck: true, Since: time.Unix(1_795_246_000, 0), PID: 7}, true, "mount-hang", Failed},
		{"error", "client-healthy", probe.Answer{Err: os.ErrInvalid}, true, "mount-error", OK},
		{"no rights, so a server answered", "client-healthy", probe.Answer{Err: &fs.PathError{Op: "stat", Err: syscall.EACCES}}, true, "", OK},
		{"cannot be asked", "client-healthy", probe.Answer{Skipped: "no room"}, true, "", Unknown},
		{"connections say no", "client-ost-away", probe.Answer{OK: true}, false, "lfs-ost", Skipped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := machine(t, tt.machine, edits{})
			h.Time = time.Time{} // as if it were live
			asked := 0
			l := &Looker{Host: h, Probe: func(context.Context, string) probe.Answer { asked++; return tt.answer }}
			seen := l.Look(t.Context(), time.Unix(1_795_246_371, 0))
			v := Decide(Judge(seen, &Site{}, &Memory{}), &Policy{Brake: DefaultBrake}, Needs{}, seen.Mounts.Value)
			if (asked > 0) != tt.asked {
				t.Errorf("asked %d times", asked)
			}
			root := ""
			if len(v.Roots) > 0 {
				root = v.Roots[0].Check
			}
			if root != tt.want {
				t.Errorf("root %q, want %q: %v", root, tt.want, found(&v))
			}
			for _, o := range v.Outcomes {
				if o.Check == "mount-hang" && o.Status != tt.status {
					t.Errorf("%+v, want %s", o, tt.status)
				}
			}
			before := asked
			l.LookAgain(t.Context(), time.Unix(1_795_246_371, 0), seen, &v)
			if tt.answer.Stuck && asked != before {
				t.Error("asked again though it hangs")
			}
		})
	}
}

package gate

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"ioguard/host"
	"ioguard/host/hosttest"
)

// edits change a recorded machine: files by their path ("" takes one away), and
// answers of commands by their words.
type edits struct {
	files    map[string]string
	commands map[string]string
}

// machine opens a recorded machine of the repository, with edits.
func machine(t testing.TB, name string, e edits) *host.Host {
	t.Helper()
	h, err := host.OpenMachine("../testdata/machines/" + name + ".tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return hosttest.With(h, e.files, e.commands)
}

// read is a file of a machine, for edits of a part of it.
func read(t testing.TB, h *host.Host, name string) string {
	t.Helper()
	b, err := h.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func lookAt(t testing.TB, h *host.Host, site Site, last *Memory, needs Needs) (*Seen, Verdict) {
	t.Helper()
	l := &Looker{Host: h, Site: site, Deep: true, Cursor: last.Log}
	seen := l.Look(t.Context(), time.Now())
	return seen, Decide(Judge(seen, &site, last), &Policy{Brake: DefaultBrake}, needs, seen.Mounts.Value)
}

// found lists the findings that count as "check subject", and causes by an arrow.
func found(v *Verdict) []string {
	var all []string
	for _, f := range v.Findings() {
		if f.Action == Ignore {
			continue
		}
		text := f.Check + " " + f.Subject
		if f.Cause != "" {
			text += " <- " + f.Cause
		}
		all = append(all, text)
	}
	return all
}

const (
	mdt0State = "sys/kernel/debug/lustre/mdc/lustre-MDT0000-mdc-ffff8880086b6800/state"
	mdt0Imp   = "sys/kernel/debug/lustre/mdc/lustre-MDT0000-mdc-ffff8880086b6800/import"
	netShow   = "lnetctl net show -v 4"
)

// TestMachines holds recorded machines, as they are and changed in one thing, to
// the verdict that the node must get.
func TestMachines(t *testing.T) {
	healthy := machine(t, "client-healthy", edits{})
	net, err := healthy.Run(t.Context(), "lnetctl", "net", "show", "-v", "4")
	if err != nil {
		t.Fatal(err)
	}
	// A second rail beside the first, and the first one down.
	second := string(net)[strings.Index(string(net), "      -     nid: 10.77.0.11@o2ib"):]
	rail := strings.ReplaceAll(second, "10.77.0.11@o2ib", "10.77.0.12@o2ib")
	firstDown := strings.Replace(string(net), "nid: 10.77.0.11@o2ib\n            status: up", "nid: 10.77.0.11@o2ib\n            status: down", 1)
	bothDown := firstDown + strings.Replace(rail, "status: up", "status: down", 1)
	lowered := strings.Replace(string(net), "health value: 1000", "health value: 900", 1)
	state := read(t, healthy, mdt0State)
	evicted := strings.Replace(state, "current_state: FULL", "current_state: EVICTED", 1)
	tests := []struct {
		name, machine string
		edits         edits
		site          Site
		want          []string
		action        Action
		reason        string
	}{
		{name: "healthy", machine: "client-healthy"},
		{name: "cable out", machine: "client-link-cut", action: Drain, reason: "ioguard: ib rxe0/1 Down/Polling [fabric]",
			want: []string{"ib-port rxe0/1", "lnet-ni 10.77.0.11@o2ib <- ib-port", "lfs-mdt lustre-MDT[0000-0001] <- ib-port",
				"lfs-ost lustre-OST[0000-0005] <- ib-port", "kmsg-fabric kernel log <- ib-port"}},
		{name: "OST away", machine: "client-ost-away", action: Drain, want: []string{"lfs-ost lustre-OST0002"},
			reason: "ioguard: OST0002 of lustre DISCONN from 10.77.0.1@o2ib since 06:16 [lustre-OST0002 10.77.0.1@o2ib]"},
		{name: "OST deactivated", machine: "client-ost-deactivated", action: Warn, want: []string{"lfs-inactive lustre-OST0002"}},

		{name: "one rail of two", machine: "client-healthy", edits: edits{commands: map[string]string{netShow: firstDown + rail}}, action: Warn,
			want: []string{"lnet-rail 10.77.0.11@o2ib"}},
		{name: "both rails", machine: "client-healthy", edits: edits{commands: map[string]string{netShow: bothDown}}, action: Drain,
			want: []string{"lnet-ni 10.77.0.11@o2ib", "lnet-ni 10.77.0.12@o2ib"}, reason: "ioguard: lnet 10.77.0.11@o2ib down, health 1000; and 1 more: lnet 10.77.0.12@o2ib down, health 1000 [fabric]"},
		{name: "health lowered", machine: "client-healthy", edits: edits{commands: map[string]string{netShow: lowered}}, action: Warn,
			want: []string{"lnet-health 10.77.0.11@o2ib"}},
		{name: "LNet down as YAML with status 0", machine: "client-healthy", action: Drain, reason: "ioguard: lnet not up [fabric]",
			edits: edits{commands: map[string]string{netShow: "show:\n  - net:\n      errno: -100\n      descr: \"cannot get networks: Network is down\"\n"}},
			want:  []string{"lnet-down lnet"}},
		{name: "all gateways down", machine: "client-healthy", action: Drain, want: []string{"lnet-routes o2ib1"},
			edits:  edits{commands: map[string]string{"lnetctl route show -v 4": "route:\n    - net: o2ib1\n      gateway: 10.77.0.21@o2ib\n      hop: -1\n      priority: 0\n      state: down\n"}},
			reason: "ioguard: route to o2ib1: 10.77.0.21@o2ib down [net:o2ib1 10.77.0.21@o2ib]"},
		{name: "evicted by the MDT", machine: "client-healthy", action: Drain, want: []string{"lfs-mdt lustre-MDT0000"},
			edits:  edits{files: map[string]string{mdt0State: evicted, mdt0Imp: strings.Replace(read(t, healthy, mdt0Imp), "state: FULL", "state: EVICTED", 1)}},
			reason: "ioguard: MDT0000 of lustre EVICTED from 10.77.0.1@o2ib [lustre-MDT0000 10.77.0.1@o2ib]"},
		{name: "not mounted", machine: "client-healthy", site: Site{Mounts: []string{"/lustre/scratch"}}, action: Drain, want: []string{"lfs-mount /lustre/scratch"},
			reason: "ioguard: not mounted: /lustre/scratch [mount:/lustre/scratch]"},
		{name: "in fstab and not mounted", machine: "client-healthy", action: Drain, want: []string{"lfs-mount /scratch"},
			edits:  edits{files: map[string]string{"etc/fstab": "# x\n10.77.0.9@o2ib:/other /scratch lustre flock,_netdev 0 0\n10.77.0.9@o2ib:/more /more lustre noauto 0 0\n"}},
			reason: "ioguard: not mounted: /scratch [mount:/scratch fs:other]"},
		{name: "jobs invisible", machine: "client-healthy", site: Site{JobIDVar: "SLURM_JOB_ID"}, action: Warn, want: []string{"lfs-jobid jobid_var"},
			edits: edits{files: map[string]string{"sys/fs/lustre/jobid_var": "disable\n"}}},
		{name: "other release", machine: "client-healthy", site: Site{LustreVersion: "2.15"}, action: Warn, want: []string{"lfs-version lustre"}},
		{name: "same release", machine: "client-healthy", site: Site{LustreVersion: "2.17"}},
		{name: "missing rail", machine: "client-healthy", site: Site{NIDs: []string{"o2ib*2"}}, action: Drain, want: []string{"lnet-nid 2 interfaces on o2ib"},
			reason: "ioguard: lnet 2 interfaces on o2ib missing [fabric]"},
		{name: "wanted port missing", machine: "client-healthy", site: Site{Ports: []string{"mlx5_0/1"}}, action: Drain, want: []string{"ib-port mlx5_0/1"},
			reason: "ioguard: ib mlx5_0/1 not there [fabric]"},
		{name: "slow port", machine: "client-healthy", site: Site{RateGbps: 100}, action: Warn, want: []string{"ib-rate rxe0/1"}},
		{name: "module parameter", machine: "client-healthy", site: Site{Modules: map[string]map[string]string{"ko2iblnd": {"peer_credits": "77"}}}, action: Warn,
			want: []string{"lnet-params ko2iblnd/peer_credits"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, v := lookAt(t, machine(t, tt.machine, tt.edits), tt.site, &Memory{}, Needs{Node: "n1"})
			if got := found(&v); !slices.Equal(got, tt.want) {
				t.Errorf("found\n%q, want\n%q", got, tt.want)
			}
			if a := v.Action; a != tt.action && !(tt.action == "" && v.Healthy()) {
				t.Errorf("action %q, want %q", a, tt.action)
			}
			if r := v.Reason(); r != tt.reason {
				t.Errorf("reason\n%q, want\n%q", r, tt.reason)
			}
		})
	}
}

func TestTargetList(t *testing.T) {
	tests := []struct{ targets, want string }{
		{"fs-OST0002", "fs-OST0002"},
		{"fs-OST0002 fs-OST0001", "fs-OST[0001-0002]"},
		{"fs-OST0009 fs-OST000a fs-OST000b fs-OST0010", "fs-OST[0009-000b,0010]"},
		{"fs-OST0001 other-OST0002", "fs-OST0001, other-OST0002"},
		{"MGS MGS", "MGS, MGS"},
		{"fs-OST0001 fs-OSTwild", "fs-OST0001, fs-OSTwild"},
	}
	for _, tt := range tests {
		if got := targetList(strings.Fields(tt.targets)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.targets, got, tt.want)
		}
	}
}

// TestUnreadable is a machine that tells nothing: nothing of that is held against it.
func TestUnreadable(t *testing.T) {
	h := &host.Host{Name: "n1", Time: time.Unix(1, 0), FS: denied{}, Run: func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("no") }}
	_, v := lookAt(t, h, Site{}, &Memory{}, Needs{})
	if len(v.Findings()) > 0 {
		t.Errorf("found %q", found(&v))
	}
	for _, o := range v.Outcomes {
		if o.Status == OK {
			t.Errorf("%s is ok: %q", o.Check, o.Seen)
		}
	}
}

type denied struct{}

func (denied) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ioguard/host"
	"ioguard/host/hosttest"
)

func client(t testing.TB, name string) *host.Host {
	t.Helper()
	h, err := host.OpenMachine("../testdata/machines/" + name + ".tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// server is the first snapshot of the server in a recording.
func server(t testing.TB, name string) *host.Host {
	t.Helper()
	r, err := host.OpenRecording("../testdata/recordings/" + name + ".tar.zst")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r.Machine(r.Snapshots("server")[0])
}

// site is a configuration with everything at its default.
func site() Site {
	return Site{Config: ConfigFile{Path: "/etc/ioguard/ioguard.yaml"}, Machine: "/", Policy: PolicyDir{Rules: 9}, JobIDVar: "SLURM_JOB_ID",
		Budget: 5 * time.Second, Drains: true, StateDir: "/var/lib/ioguard", Syslog: "/dev/log",
		IsLocal: func(string, string) error { return nil }, OpenRecords: func(string) error { return nil }}
}

func lookAt(t testing.TB, h *host.Host, s *Site) []Outcome {
	t.Helper()
	l := &Looker{Host: h, Site: *s}
	return Judge(l.Look(t.Context()), s)
}

// told are the outcomes that are neither ok nor skipped, by their checks.
func told(outcomes []Outcome) map[string]string {
	all := map[string]string{}
	for _, o := range outcomes {
		if o.Status != OK && o.Status != Skipped {
			all[o.Check] = string(o.Status) + ": " + o.Seen + o.Why
		}
	}
	return all
}

// find is the outcome of a check.
func find(t testing.TB, outcomes []Outcome, code string) Outcome {
	t.Helper()
	i := slices.IndexFunc(outcomes, func(o Outcome) bool { return o.Check == code })
	if i < 0 {
		t.Fatalf("no check %s", code)
	}
	return outcomes[i]
}

// TestMachines holds recorded machines, as they are and changed, to what must be told.
func TestMachines(t *testing.T) {
	const lnetOrder = "note: transaction_timeout 150 is larger than Lustre's timeout 100"
	const osc = "sys/kernel/debug/lustre/osc/lustre-OST0000-osc-ffff8880086b6800/import"
	healthy := client(t, "client-healthy")
	imp, err := healthy.ReadFile(osc)
	if err != nil {
		t.Fatal(err)
	}
	global, err := healthy.Run(t.Context(), "lnetctl", "global", "show")
	if err != nil {
		t.Fatal(err)
	}
	setting := func(old, now string) map[string]string {
		if !strings.Contains(string(global), old) {
			t.Fatalf("no %q in %s", old, global)
		}
		return map[string]string{"lnetctl global show": strings.Replace(string(global), old, now, 1)}
	}
	file := func(name, text string) map[string]string { return map[string]string{name: text} }
	storm, throttled := server(t, "00_idle"), server(t, "8b_tbf_jobid_policy")
	tests := []struct {
		name            string
		machine         *host.Host
		files, commands map[string]string
		site            func(*Site)
		want            map[string]string
	}{
		{name: "healthy", machine: healthy},
		{name: "cable out", machine: client(t, "client-link-cut")},
		{name: "OST away", machine: client(t, "client-ost-away")},
		{name: "disabled", machine: healthy, files: file("sys/fs/lustre/jobid_var", "disable\n"),
			want: map[string]string{"jobid-var": "fail: jobid_var disable: servers see no jobs of this node"}},
		{name: "programs", machine: healthy, files: file("sys/fs/lustre/jobid_var", "procname_uid\n"),
			want: map[string]string{"jobid-var": "fail: jobid_var procname_uid: servers see programs, not jobs"}},
		{name: "node", machine: healthy, files: map[string]string{"sys/fs/lustre/jobid_var": "nodelocal\n", "sys/fs/lustre/jobid_name": "4711\n"},
			want: map[string]string{"jobid-var": "warn: jobid_var nodelocal: the jobs of a shared node cannot be told apart"}},
		{name: "other variable", machine: healthy, files: file("sys/fs/lustre/jobid_var", "PBS_JOBID\n"),
			want: map[string]string{"jobid-var": "warn: jobid_var PBS_JOBID"}},
		{name: "other variable, wanted", machine: healthy, files: file("sys/fs/lustre/jobid_var", "PBS_JOBID\n"), site: func(s *Site) { s.JobIDVar = "PBS_JOBID" }},
		{name: "compound", machine: healthy, files: file("sys/fs/lustre/jobid_name", "%j:%u:%h\n")},
		{name: "compound, told", machine: healthy, files: file("sys/fs/lustre/jobid_name", "%e.%j.%h\n"), site: func(s *Site) { s.JobIDName = "%e.%j.%h" }},
		{name: "compound, not told", machine: healthy, files: file("sys/fs/lustre/jobid_name", "%e.%j.%h\n"),
			want: map[string]string{"jobid-name": "fail: jobid_name %e.%j.%h; ioguard does not find the job in a.out.4711.n1"}},
		{name: "job behind the host", machine: healthy, files: file("sys/fs/lustre/jobid_name", "%h:%e:%j\n"), site: func(s *Site) { s.JobIDName = "%h:%e:%j" },
			want: map[string]string{"jobid-name": "warn: jobid_name %h:%e:%j; a long host name or command pushes the job out of 31 bytes"}},
		{name: "names differ", machine: healthy, site: func(s *Site) { s.JobIDName = "%j:%u:%h" },
			want: map[string]string{"jobid-name": "warn: jobid_name %e.%u; the configuration has jobid_name %j:%u:%h"}},
		{name: "older servers", machine: healthy, files: file(osc, strings.Replace(string(imp), "target_version: 2.17.0.0", "target_version: 2.12.9.0", 1)),
			want: map[string]string{"version": "warn: client 2.17.0, servers 2.12.9.0"}},
		{name: "on the way to the next series", machine: healthy, files: file(osc, strings.Replace(string(imp), "target_version: 2.17.0.0", "target_version: 2.15.58.0", 1))},
		{name: "adaptive time-outs off", machine: healthy, files: file("sys/fs/lustre/at_max", "0\n"),
			want: map[string]string{"timeout-lustre": "warn: timeout 100, at_min 5, at_max 0, ldlm_timeout 20; adaptive time-outs are switched off"}},
		{name: "lock time-out too long", machine: healthy, files: file("sys/fs/lustre/ldlm_timeout", "200\n"),
			want: map[string]string{"timeout-lustre": "warn: timeout 100, at_min 5, at_max 600, ldlm_timeout 200; ldlm_timeout is not below timeout"}},
		{name: "retries do not fit", machine: healthy, commands: setting("lnd_timeout: 49", "lnd_timeout: 60"),
			want: map[string]string{"lnet-timeout": "warn: transaction_timeout 150, retry_count 2; lnd_timeout 60; 2 retries of 60 s do not fit into 150 s"}},
		{name: "shorter than need be", machine: healthy, commands: setting("lnd_timeout: 49", "lnd_timeout: 5"),
			want: map[string]string{"lnet-timeout": "note: transaction_timeout 150, retry_count 2; lnd_timeout 5; LNet itself would set lnd_timeout 49"}},
		{name: "no health", machine: healthy, commands: setting("health_sensitivity: 100", "health_sensitivity: 0"),
			want: map[string]string{"lnet-health": "note: health_sensitivity 0; retry_count 2; a bad interface is not avoided"}},
		{name: "no pools", machine: healthy, files: map[string]string{"proc/fs/lustre/lov/lustre-clilov-ffff8880086b6800/pools/ssd_pool": "",
			"proc/fs/lustre/lov/lustre-clilov-ffff8880086b6800/pools/hdd_pool": ""}, want: map[string]string{"pools": "note: none: layouts cannot choose SSDs"}},
		{name: "other machine", machine: healthy, site: func(s *Site) { s.Machine = "/m" }, want: map[string]string{"conf-machine": "warn: /m"}},
		{name: "broken", machine: healthy, site: func(s *Site) { s.Config.Err = errors.New("[3:1] unknown field \"gat\"\n > 3 | gat: 1") },
			want: map[string]string{"conf-file": "fail: [3:1] unknown field \"gat\""}},
		{name: "missing", machine: healthy, site: func(s *Site) { s.Config.Missing = true },
			want: map[string]string{"conf-file": "note: /etc/ioguard/ioguard.yaml is missing: every job starts"}},
		{name: "rules", machine: healthy, site: func(s *Site) { s.Policy = PolicyDir{Path: "/etc/p", Err: errors.New("no such rule")} },
			want: map[string]string{"conf-policy": "fail: no such rule"}},
		{name: "server", machine: storm, want: map[string]string{"lnet-order": ""}},
		{name: "throttling", machine: throttled, files: file("sys/fs/lustre/version", "2.17.0\n"), want: map[string]string{"lnet-order": ""}},
		{name: "throttling is dangerous", machine: throttled, files: file("sys/fs/lustre/version", "2.14.0\n"), want: map[string]string{"lnet-order": "",
			"tbf-release": "warn: release 2.14.0: LU-15130, LU-15056, LU-15059 and LU-18400 crash servers that throttle"}},
		{name: "newest formats", machine: storm, files: file("sys/fs/lustre/version", "2.15.1\n"), want: map[string]string{"lnet-order": "",
			"tbf-release": "warn: release 2.15.1: LU-18400 crashes servers that throttle", "jobstats-format": "note: release 2.15.1: ioguard reads its job_stats, with boot clocks"}},
		{name: "cleanup", machine: storm, files: map[string]string{"sys/fs/lustre/obdfilter/lustre-OST0000/job_cleanup_interval": "0\n",
			"proc/fs/lustre/obdfilter/lustre-OST0001/job_cleanup_interval": "10\n", "proc/fs/lustre/obdfilter/lustre-OST0002/job_cleanup_interval": "600\n"},
			want: map[string]string{"lnet-order": "", "jobstats-cleanup": "warn: 0 (never) on lustre-OST0000; 10s on lustre-OST0001; 10m0s on lustre-OST0002"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := site()
			if tt.site != nil {
				tt.site(&s)
			}
			want := map[string]string{"lnet-order": lnetOrder}
			maps.Copy(want, tt.want)
			maps.DeleteFunc(want, func(_, v string) bool { return v == "" })
			if diff := cmp.Diff(want, told(lookAt(t, hosttest.With(tt.machine, tt.files, tt.commands), &s))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEveryOutcomeIsWhole: each has what was seen, or why it was not, what is
// expected and a fix.
func TestEveryOutcomeIsWhole(t *testing.T) {
	machines := []*host.Host{client(t, "client-healthy"), server(t, "8b_tbf_jobid_policy"), slurmMachine(t, nil), silent(fs.ErrPermission), silent(fs.ErrNotExist)}
	for i, h := range machines {
		s := site()
		outcomes := lookAt(t, h, &s)
		if len(outcomes) != len(Checks()) {
			t.Errorf("machine %d: %d outcomes of %d checks", i, len(outcomes), len(Checks()))
		}
		for _, o := range outcomes {
			unseen := o.Status == Skipped || o.Status == Unknown
			if o.Expected == "" || o.Fix == "" || o.Title == "" || o.Group == "" || unseen != (o.Seen == "") || unseen != (o.Why != "") {
				t.Errorf("machine %d: %+v", i, o)
			}
		}
	}
}

// silent is a machine that refuses everything.
func silent(err error) *host.Host {
	return &host.Host{Name: "n1", Time: time.Unix(1, 0), FS: refusing{err}, Run: func(_ context.Context, name string, _ ...string) ([]byte, error) {
		return nil, fmt.Errorf("run %s: %w", name, err)
	}}
}

type refusing struct{ err error }

func (r refusing) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: r.err}
}

// TestNotRoot: what root alone may read is unknown, with the reason, and held
// against nobody.
func TestNotRoot(t *testing.T) {
	h := client(t, "client-healthy")
	s := site()
	s.UID = 1000
	l := &Looker{Host: &host.Host{Name: h.Name, Time: h.Time, FS: noDebugfs{h.FS}, Run: func(_ context.Context, name string, _ ...string) ([]byte, error) {
		return nil, fmt.Errorf("run %s: %w", name, fs.ErrPermission)
	}}, Site: s}
	outcomes := Judge(l.Look(t.Context()), &s)
	for _, code := range []string{"version", "lnet-timeout", "lnet-health", "lnet-order"} {
		if o := find(t, outcomes, code); o.Status != Unknown || !strings.HasPrefix(o.Why, "not root: ") {
			t.Errorf("%+v", o)
		}
	}
	for _, o := range outcomes {
		if o.Bad() && o.Check != "slurm-ctld" {
			t.Errorf("%+v", o)
		}
	}
	if o := find(t, outcomes, "jobid-var"); o.Status != OK {
		t.Errorf("%+v", o)
	}
}

// noDebugfs is a machine whose debugfs is closed.
type noDebugfs struct{ fs.FS }

func (d noDebugfs) Open(name string) (fs.File, error) {
	if strings.HasPrefix(name, "sys/kernel/debug/") || name == "sys/kernel/debug" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return d.FS.Open(name)
}

// TestDeadline: a source that never answers is unknown, and holds nobody up.
func TestDeadline(t *testing.T) {
	h := client(t, "client-healthy")
	forever := make(chan struct{})
	t.Cleanup(func() { close(forever) })
	s := site()
	l := &Looker{Host: &host.Host{Name: h.Name, Time: h.Time, FS: h.FS, Run: func(context.Context, string, ...string) ([]byte, error) {
		<-forever
		return nil, errors.New("too late")
	}}, Site: s}
	ctx, cancel := context.WithCancel(t.Context())
	k := make(chan *Seen)
	go func() { k <- l.Look(ctx) }()
	cancel()
	outcomes := Judge(<-k, &s)
	if o := find(t, outcomes, "slurm-ctld"); o.Status != Failed || o.Seen != "no answer in time" {
		t.Errorf("%+v", o)
	}
	if o := find(t, outcomes, "lnet-timeout"); o.Status != Unknown || o.Why != "no answer in time" {
		t.Errorf("%+v", o)
	}
}

// TestPanic: a reader that panics is an error like others.
func TestPanic(t *testing.T) {
	h := client(t, "client-healthy")
	s := site()
	outcomes := lookAt(t, &host.Host{Name: h.Name, Time: h.Time, FS: h.FS, Run: func(context.Context, string, ...string) ([]byte, error) { panic("odd") }}, &s)
	if o := find(t, outcomes, "slurm-ctld"); o.Status != Failed || o.Seen != "panic: odd" {
		t.Errorf("%+v", o)
	}
}

func TestChecks(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Checks() {
		if seen[c.Code] || c.Title == "" || c.Text == "" || c.Fix == "" || c.Expected == "" || strings.HasSuffix(c.Fix, ".") || !strings.HasSuffix(c.Text, ".") {
			t.Errorf("%+v", c)
		}
		seen[c.Code] = true
		if found, ok := CheckOf(c.Code); !ok || found != c {
			t.Errorf("CheckOf(%s) is %+v", c.Code, found)
		}
	}
	if _, ok := CheckOf("nosuch"); ok {
		t.Error("nosuch is a check")
	}
}

// TestPools: an MGS alone asks lctl for the file systems that it serves, an OSS knows
// of no pools.
func TestPools(t *testing.T) {
	const mgs = "-- sys/fs/lustre/version --\n2.15.5\n-- proc/fs/lustre/mgs/MGS/live/params --\n\n-- proc/fs/lustre/mgs/MGS/live/lustre --\nfsname: lustre\n"
	for name, tt := range map[string]struct {
		text   string
		status Status
		told   string
	}{
		"MGS":             {mgs + "-- commands/p/cmd --\nlctl pool_list lustre\n-- commands/p/stdout --\nPools from lustre:\nlustre.ssd_pool\n", OK, "lustre.ssd_pool"},
		"MGS, none":       {mgs + "-- commands/p/cmd --\nlctl pool_list lustre\n-- commands/p/stdout --\nPools from lustre:\n", Note, "none: layouts cannot choose SSDs"},
		"OSS":             {"-- sys/fs/lustre/version --\n2.15.5\n-- proc/fs/lustre/obdfilter/lustre-OST0000/job_stats --\njob_stats:\n", Skipped, "no client, MDS or MGS: nothing here knows of pools"},
		"MGS, lctl fails": {mgs + "-- commands/p/cmd --\nlctl pool_list lustre\n-- commands/p/status --\n2\n", Unknown, "run lctl pool_list lustre: exit status 2"},
	} {
		h, err := host.Txtar([]byte(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		s := site()
		if o := find(t, lookAt(t, h, &s), "pools"); o.Status != tt.status || o.Seen+o.Why != tt.told {
			t.Errorf("%s: %+v", name, o)
		}
		h.Close()
	}
}

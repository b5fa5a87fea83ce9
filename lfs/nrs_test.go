package lfs

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestParseNRSPoliciesMachine(t *testing.T) {
	fsys := fixtureMachine(t, "mds-2.17.0-tbf-jobid")
	p, err := ReadNRSPolicies(fsys, debugRoot+"mds/MDS/mdt/nrs_policies")
	if err != nil || p.Unparsed.Count > 0 {
		t.Fatal(err, p.Unparsed)
	}
	if len(p.Regular) != 4 || len(p.HighPriority) != 4 {
		t.Errorf("%d and %d policies", len(p.Regular), len(p.HighPriority))
	}
	one, zero := uint64(1), uint64(0)
	if diff := cmp.Diff(&NRSPolicy{Name: "tbf", Arg: "jobid", State: "started", Queued: &one, Active: &zero}, p.Primary()); diff != "" {
		t.Error(diff)
	}
	if q, a := p.Totals(); q != 1 || a != 0 {
		t.Errorf("queued %d, active %d", q, a)
	}
	if !p.Regular[0].Fallback || p.Regular[0].Name != "fifo" {
		t.Errorf("%+v", p.Regular[0])
	}
}

func TestParseNRSPolicies(t *testing.T) {
	p := ParseNRSPolicies([]byte("state: lost\n\nregular_requests:\n    state: lost\n  - name:\n  - name: fifo\n    state: started\n    fallback: yes\n    queued: 3                   \n    active: 4\n\n" +
		"  - name: tbf\n    state: stopping\n    fallback: no\n    queued: 10\n    active: 20\n\n  - name: crrn\n    state: stopped\n    fallback: perhaps\n    queued: 100\n    active: -1\n    colour: red\nend"))
	if q, a := p.Totals(); q != 13 || a != 24 {
		t.Errorf("queued %d, active %d", q, a)
	}
	if p.Unparsed.Count != 7 || p.HighPriority != nil || p.Primary() != nil {
		t.Errorf("%+v", p)
	}
	if crrn := p.Regular[2]; crrn.Active != nil || *crrn.Queued != 100 {
		t.Errorf("%+v", crrn)
	}
}

func FuzzParseNRSPolicies(f *testing.F) {
	f.Add(fixtureFile(f, fixtureMachine(f, "mds-2.17.0-tbf-jobid"), debugRoot+"mds/MDS/mdt/nrs_policies"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p := ParseNRSPolicies(text)
		if p.Primary() != nil && len(p.Regular) == 0 {
			t.Fatal("a primary policy out of nothing")
		}
	})
}

func TestServices(t *testing.T) {
	fsys := fixtureMachine(t, "oss-2.17.0-zfs")
	services, err := Services(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	byName := map[string]ServiceInfo{}
	for _, s := range services {
		names = append(names, s.Name)
		byName[s.Name] = s
	}
	want := []string{"mds/MDS/mdt", "mds/MDS/mdt_fld", "mds/MDS/mdt_io", "mds/MDS/mdt_out", "mds/MDS/mdt_readpage", "mds/MDS/mdt_seqm", "mds/MDS/mdt_seqs",
		"ost/OSS/ost", "ost/OSS/ost_create", "ost/OSS/ost_io", "ost/OSS/ost_out", "ost/OSS/ost_seq"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	io := byName["ost/OSS/ost_io"]
	started, limit := ReadThreads(fsys, io)
	if started == nil || *started != 14 || limit == nil || *limit != 80 {
		t.Errorf("threads %v of %v", started, limit)
	}
	if started, limit := ReadThreads(fsys, byName["ost/OSS/ost_seq"]); started != nil || limit != nil {
		t.Error("threads of a service that does not tell")
	}
	var p StatsParser
	var buf FileBuffer
	s, err := ReadStats(fsys, io.Stats, &p, &buf)
	if err != nil {
		t.Fatal(err)
	}
	v := s.Service()
	if v.Wait.Sum != 7896409 || v.QueueDepth.Max != 1 || v.Active.Sum != 18159 || v.Timeout.Unit != "secs" || v.Buffers.Samples != 8236 {
		t.Errorf("%+v", v)
	}
	if len(v.Ops) != 3 || v.Ops[1].Name != "ost_write" || v.Ops[1].Sum != 532577343 || !v.Ops[1].Timed() {
		t.Errorf("%+v", v.Ops)
	}
	if _, err := ReadNRSPolicies(fsys, io.NRSPolicies); err != nil {
		t.Error(err)
	}
}

// Which layouts releases use: 2.10 and before all in procfs; the device mgs/MGS
// has directories that are no services.
func TestServicesLayouts(t *testing.T) {
	old := fstest.MapFS{
		procRoot + "ost/OSS/ost_io/stats":             {},
		procRoot + "ost/OSS/ost_io/nrs_policies":      {},
		procRoot + "ost/OSS/ost_io/threads_started":   {Data: []byte("5\n")},
		procRoot + "mgs/MGS/mgs/stats":                {},
		procRoot + "mgs/MGS/exports/0@lo/stats":       {},
		procRoot + "mgs/MGS/live/params":              {},
		procRoot + "ldlm/services/ldlm_canceld/stats": {},
		procRoot + "ost/OSS/uuid":                     {},
	}
	services, err := Services(old)
	if err != nil || len(services) != 3 {
		t.Fatalf("%+v, %v", services, err)
	}
	if s := services[2]; s.Name != "ost/OSS/ost_io" || s.Stats != procRoot+"ost/OSS/ost_io/stats" || s.ThreadsStarted == "" {
		t.Errorf("%+v", s)
	}
	if _, err := Services(fstest.MapFS{}); !isNotExist(err) {
		t.Error(err)
	}
	if _, err := Services(fixtureDenied{fixtureMachine(t, "oss-2.17.0-zfs"), []string{"sys/kernel/debug"}}); !isPermission(err) {
		t.Error(err)
	}
}

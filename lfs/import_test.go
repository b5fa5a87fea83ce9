package lfs

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// importFailing gives the answers of lctl while something is out of order.
func importFailing(t testing.TB, name string) []byte {
	t.Helper()
	ar, err := txtar.ParseFile("testdata/client-2.17.0-failing.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range ar.Files {
		if f.Name == name {
			return f.Data
		}
	}
	t.Fatalf("no %s", name)
	return nil
}

// importIll sums up the imports that are not healthy.
func importIll(imports []Import) string {
	var ill []string
	for _, i := range imports {
		if i.Healthy() {
			continue
		}
		s := strings.TrimPrefix(i.Target, "lustre-") + " " + i.State
		if i.Deactivated {
			s += " deactivated"
		}
		ill = append(ill, s)
	}
	return strings.Join(ill, ", ")
}

func ptr[T any](v T) *T { return &v }

func TestReadImportsMachines(t *testing.T) {
	for machine, want := range map[string]string{
		"client-healthy-2.17.0":  "",
		"client-ost-away-2.17.0": "OST0002 DISCONN",
		"client-link-cut-2.17.0": "MDT0000 CONNECTING, MDT0001 CONNECTING, OST0000 CONNECTING, OST0001 CONNECTING, " +
			"OST0002 CONNECTING, OST0003 CONNECTING, OST0004 CONNECTING, OST0005 CONNECTING",
		"client-ost-deactivated-2.17.0": "OST0002 FULL deactivated",
	} {
		imports, err := ReadImports(fixtureMachine(t, machine))
		if err != nil || len(imports) != 9 {
			t.Errorf("%s: %d imports, %v", machine, len(imports), err)
		}
		if got := importIll(imports); got != want {
			t.Errorf("%s: %q", machine, got)
		}
		for n, i := range imports {
			if err := i.Unparsed.Err(i.Device); err != nil {
				t.Error(err)
			}
			if err := i.History.Unparsed.Err(i.Device); err != nil || len(i.History.Changes) < 2 {
				t.Error(i.Device, err)
			}
			if want := []string{"mgc", "mdc", "mdc", "osc", "osc", "osc", "osc", "osc", "osc"}[n]; i.Kind != want {
				t.Errorf("%s is %s", i.Device, i.Kind)
			}
			if i.Connection != "10.77.0.1@o2ib" || i.Attempts == nil || i.Generation == nil || i.Idle == nil || i.TargetVersion != "2.17.0.0" {
				t.Errorf("%+v", i)
			}
			if (i.InFlight == nil || i.Timeouts == nil || i.AvgWait == nil) != (i.Kind == "mgc") { // it counts no requests
				t.Errorf("%+v", i)
			}
		}
	}
}

func TestReadImportsWhole(t *testing.T) {
	imports, err := ReadImports(fixtureMachine(t, "client-ost-away-2.17.0"))
	if err != nil {
		t.Fatal(err)
	}
	at := func(sec int64, state string) StateChange { return StateChange{time.Unix(sec, 0).UTC(), state} }
	want := Import{
		Device: "lustre-OST0002-osc-ffff8880086b6800", Kind: "osc", Target: "lustre-OST0002", FS: "lustre", Instance: "ffff8880086b6800",
		State: ImportDisconn, Flags: []string{"replayable", "pingable", "connect_tried"},
		FailoverNIDs: []string{"10.77.0.1@o2ib"}, Connection: "10.77.0.1@o2ib", Attempts: ptr(uint64(2)), Generation: ptr(uint64(1)),
		Idle: ptr(7 * time.Second), TargetVersion: "2.17.0.0",
		InFlight: ptr(uint64(1)), Timeouts: ptr(uint64(0)), AvgWait: ptr(92203 * time.Microsecond),
		History: &ImportHistory{Current: ImportDisconn, Changes: []StateChange{
			at(1795241780, ImportConnecting), at(1795241780, ImportFull), at(1795241793, ImportDisconn),
			at(1795241793, ImportConnecting), at(1795241793, ImportDisconn)}},
	}
	if diff := cmp.Diff(want, imports[5]); diff != "" {
		t.Error(diff)
	}
	mgc := imports[0]
	if mgc.Device != "MGC10.77.0.1@o2ib" || mgc.Target != "MGS" || mgc.FS != "" || mgc.Instance != "" || !mgc.Healthy() {
		t.Errorf("%+v", mgc)
	}
}

// importOpened remembers the files that were opened.
type importOpened struct {
	fs.FS
	names map[string]int
}

func (o importOpened) Open(name string) (fs.File, error) {
	o.names[path.Base(name)]++
	return o.FS.Open(name)
}

// A thread that asks a server hangs with it: only files that the kernel answers
// alone may be opened, each at most once.
func TestReadImportsAsksNoServer(t *testing.T) {
	o := importOpened{fixtureMachine(t, "client-healthy-2.17.0"), map[string]int{}}
	if _, err := ReadImports(o); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"mgc", "mdc", "osc"} {
		delete(o.names, dir)
	}
	if diff := cmp.Diff(map[string]int{"import": 9, "state": 9}, o.names); diff != "" {
		t.Error(diff)
	}
	clear(o.names)
	o.FS = fixtureDenied{o.FS, []string{debugRoot + "osc/lustre-OST0000-osc-ffff8880086b6800/import", debugRoot + "osc/lustre-OST0000-osc-ffff8880086b6800/state"}}
	if _, err := ReadImports(o); !isPermission(err) || o.names["ost_server_uuid"] != 1 || o.names["active"] != 1 || len(o.names) != 7 {
		t.Error(err, o.names)
	}
}

// Without root sysfs tells the devices, and whether they are deactivated.
func TestReadImportsWithoutRoot(t *testing.T) {
	fsys := fstest.MapFS{
		sysRoot + "osc/lustre-OST0000-osc-ffff88/active": {Data: []byte("0\n")},
		sysRoot + "osc/lustre-OST0001-osc-ffff88/active": {Data: []byte("1\n")},
		sysRoot + "mgc/MGC1.2.3.4@tcp/uuid":              {},
		"sys/kernel/debug/x":                             {},
	}
	imports, err := ReadImports(fixtureDenied{fsys, []string{"sys/kernel/debug"}})
	want := []Import{
		{Device: "lustre-OST0000-osc-ffff88", Kind: "osc", Target: "lustre-OST0000", FS: "lustre", Instance: "ffff88", Deactivated: true},
		{Device: "lustre-OST0001-osc-ffff88", Kind: "osc", Target: "lustre-OST0001", FS: "lustre", Instance: "ffff88"},
	}
	if diff := cmp.Diff(want, imports); diff != "" || !isPermission(err) {
		t.Error(err, diff)
	}
	if _, err := ReadImports(fixtureDenied{fstest.MapFS{}, []string{"sys/kernel/debug"}}); !isPermission(err) {
		t.Error(err)
	}
	if _, err := ReadImports(fstest.MapFS{}); !isNotExist(err) {
		t.Error(err)
	}
	fixture := fixtureDenied{fixtureMachine(t, "client-healthy-2.17.0"), []string{"sys/kernel/debug"}}
	if imports, err := ReadImports(fixture); len(imports) != 8 || !isPermission(err) || imports[0].State != "" || imports[0].Healthy() {
		t.Errorf("%d imports, %v", len(imports), err)
	}
}

// One that cannot be read harms no other, and one that is gone is no error.
func TestReadImportsInPart(t *testing.T) {
	healthy := fixtureMachine(t, "client-healthy-2.17.0")
	osc := debugRoot + "osc/lustre-OST0003-osc-ffff8880086b6800"
	for name, tc := range map[string]struct {
		denied []string
		state  string
		err    bool
	}{
		"import":               {[]string{osc + "/import"}, ImportFull, true},
		"state":                {[]string{osc + "/state"}, ImportFull, true},
		"import and state":     {[]string{osc + "/import", osc + "/state"}, ImportFull, true},
		"all but server_uuid":  {[]string{osc + "/import", osc + "/state", sysRoot + "osc"}, ImportFull, true},
		"nothing but active":   {[]string{osc}, "", true},
		"active, not asked":    {[]string{sysRoot + "osc"}, ImportFull, false},
		"another client's dir": {[]string{procRoot + "osc"}, ImportFull, false},
	} {
		imports, err := ReadImports(fixtureDenied{healthy, tc.denied})
		if len(imports) != 9 || isPermission(err) != tc.err || (err == nil) == tc.err {
			t.Errorf("%s: %d imports, %v", name, len(imports), err)
			continue
		}
		if i := imports[6]; i.State != tc.state || i.Target != "lustre-OST0003" {
			t.Errorf("%s: %+v", name, i)
		}
	}
	gone := fstest.MapFS{debugRoot + "osc/lustre-OST0000-osc-ffff88/other": {}, debugRoot + "mgc/MGC1@tcp/mgs_server_uuid": {Data: []byte("MGS\tIDLE\n")}}
	if imports, err := ReadImports(gone); err != nil || len(imports) != 1 || imports[0].State != ImportIdle {
		t.Errorf("%+v, %v", imports, err)
	}
}

// Releases up to 2.11, and a server that mounts the file system itself.
func TestReadImportsOldLayout(t *testing.T) {
	text := func(name, state string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("import:\n    name: " + name + "\n    state: " + state + "\n")}
	}
	fsys := fstest.MapFS{
		procRoot + "osc/my-fs-OST0000-osc-ffff88/import":          text("my-fs-OST0000-osc-ffff88", "FULL"),
		procRoot + "osc/my-fs-OST0000-osc-ffff88/state":           {Data: []byte("current_state: EVICTED\nstate_history:\n - [1795241780, EVICTED]\n")},
		procRoot + "osc/my-fs-OST0001-osc-ffff88/ost_server_uuid": {Data: []byte("my-fs-OST0001_UUID\tFULL\tDEACTIVATED\n")},
		procRoot + "osc/my-fs-OST0002-osc-ffff88/ost_server_uuid": {Data: []byte("my-fs-OST0002_UUID\tNEW\n")},
		procRoot + "osc/my-fs-OST0002-osc-ffff88/active":          {Data: []byte("0\n")},
		procRoot + "osc/my-fs-OST0003-osc-ffff88/ost_server_uuid": {Data: []byte("odd\n")},
		procRoot + "osc/my-fs-OST0000-osc-MDT0000/import":         text("my-fs-OST0000-osc-MDT0000", "DISCONN"),
		procRoot + "osc/my-fs-OST0000-osc/import":                 text("my-fs-OST0000-osc", "DISCONN"),
		procRoot + "osc/num_refs":                                 {},
		procRoot + "mdc/my-fs-MDT0000-lwp-OST0000/import":         text("my-fs-MDT0000-lwp-OST0000", "DISCONN"),
		procRoot + "mdc/my-fs-MDT0001-osp-MDT0000/import":         text("my-fs-MDT0001-osp-MDT0000", "DISCONN"),
	}
	imports, err := ReadImports(fixtureDenied{fsys, []string{"sys/kernel/debug"}})
	if !isPermission(err) { // of OST0003 nothing is known, and debugfs may tell
		t.Error(err)
	}
	if got := importIll(imports); got != "my-fs-OST0000 EVICTED, my-fs-OST0001 FULL deactivated, my-fs-OST0002 NEW deactivated, my-fs-OST0003 " {
		t.Error(got)
	}
	for _, i := range imports {
		if i.FS != "my-fs" || i.Instance != "ffff88" || (i.Unparsed.Count > 0) != (i.Target == "my-fs-OST0003") {
			t.Errorf("%+v", i)
		}
	}
}

// What lctl get_param prints while something is out of order. The answers were
// taken a few seconds after each other, import first.
func TestParseImportsFailing(t *testing.T) {
	all := func(state string) string {
		var s []string
		for _, target := range []string{"MDT0000", "MDT0001", "OST0000", "OST0001", "OST0002", "OST0003", "OST0004", "OST0005"} {
			s = append(s, target+" "+state)
		}
		return strings.Join(s, ", ")
	}
	for capture, want := range map[string]struct{ byImport, byState, byUUID string }{
		"link_cut_12s": {"", all("CONNECTING"), all("CONNECTING")},
		"mdt0_umount":  {"MDT0000 DISCONN", "MDT0000 DISCONN", "MDT0000 DISCONN"},
		"mdt1_umount":  {"MDT0001 DISCONN", "MDT0001 DISCONN", "MDT0001 DISCONN"},
		"ost_umount":   {"OST0002 DISCONN", "OST0002 DISCONN", "OST0002 DISCONN"},
		"deactivated":  {"OST0002 FULL deactivated", "", "OST0002 FULL deactivated"},
	} {
		imports := ParseImports(importFailing(t, capture+"/import"))
		if len(imports) != 9 {
			t.Errorf("%s: %d imports", capture, len(imports))
		}
		for _, i := range imports {
			if err := i.Unparsed.Err(i.Device); err != nil || !i.Client() || i.Attempts == nil || i.Idle == nil || len(i.FailoverNIDs) != 1 {
				t.Errorf("%s: %+v, %v", capture, i, err)
			}
		}
		if got := importIll(imports); got != want.byImport {
			t.Errorf("%s: import: %s", capture, got)
		}
		if got := importIll(importsOf(t, capture+"/state", func(i *Import, text []byte) {
			i.History = ParseImportState(text)
			i.State = i.History.Current
		})); got != want.byState {
			t.Errorf("%s: state: %s", capture, got)
		}
		var p importParser
		if got := importIll(importsOf(t, capture+"/server_uuid", func(i *Import, text []byte) {
			if !p.serverUUID(i, text) {
				t.Errorf("%q", text)
			}
		})); got != want.byUUID {
			t.Errorf("%s: server_uuid: %s", capture, got)
		}
	}
	late := ParseImports(importFailing(t, "link_cut_119s/import"))
	if len(late) != 1 || late[0].State != ImportConnecting || *late[0].Timeouts != 21 || *late[0].InFlight != 2 || *late[0].Idle != 2*time.Minute {
		t.Errorf("%+v", late)
	}
}

// importsOf makes imports of an answer of lctl get_param in the kinds' own order.
func importsOf(t *testing.T, name string, parse func(*Import, []byte)) []Import {
	t.Helper()
	params := fixtureLctl(string(importFailing(t, name)))
	var imports []Import
	for _, kind := range []string{"mdc.lustre-MDT000", "osc.lustre-OST000"} {
		for n := range 6 {
			for param, text := range params {
				if strings.HasPrefix(param, fmt.Sprint(kind, n)) {
					var i Import
					i.named(strings.Split(param, ".")[1])
					parse(&i, []byte(text))
					imports = append(imports, i)
				}
			}
		}
	}
	if len(imports) != 8 {
		t.Errorf("%s: %d imports", name, len(imports))
	}
	return imports
}

// The forms of releases, as lprocfs_rd_import and lprocfs_import_seq_show print them.
func TestParseImportReleases(t *testing.T) {
	nids := []string{"10.0.0.1@o2ib", "10.0.0.2@o2ib"}
	flags := []string{"replayable", "pingable"}
	device := Import{Device: "fs-OST0003-osc-ffff880414c43400", Kind: "osc", Target: "fs-OST0003", FS: "fs", Instance: "ffff880414c43400",
		State: ImportFull, Flags: flags, FailoverNIDs: nids, Connection: nids[1]}
	with := func(f func(*Import)) Import {
		i := device
		f(&i)
		return i
	}
	head := "import:\n    name: fs-OST0003-osc-ffff880414c43400\n    target: fs-OST0003_UUID\n    state: FULL\n"
	for name, tc := range map[string]struct {
		text string
		want Import
	}{
		"2.5": {head + "    instance: 1\n    connect_flags: [write_grant, server_lock]\n    import_flags: [replayable, pingable]\n" +
			"    connection:\n       failover_nids: [10.0.0.1@o2ib, 10.0.0.2@o2ib]\n       current_connection: 10.0.0.2@o2ib\n" +
			"       connection_attempts: 24\n       generation: 1\n       in-progress_invalidations: 0\n" +
			"    rpcs:\n       inflight: 0\n       unregistering: 0\n       timeouts: 21\n       avg_waittime: 296 usec\n" +
			"    service_estimates:\n       services: 1 sec\n       network: 1 sec\n    transactions:\n       last_replay: 0\n       peer_committed: 0\n       last_checked: 0\n",
			with(func(i *Import) {
				i.Attempts, i.Generation, i.InFlight, i.Timeouts = ptr(uint64(24)), ptr(uint64(1)), ptr(uint64(0)), ptr(uint64(21))
				i.AvgWait = ptr(296 * time.Microsecond)
			})},
		"2.12": {head + "    connect_flags: [ write_grant, server_lock ]\n    connect_data:\n       flags: 0x2\n       instance: 1\n       target_version: 2.12.7.0\n       new_limit: 9\n" +
			"    import_flags: [ replayable, pingable ]\n    connection:\n       failover_nids: [ 10.0.0.1@o2ib, 10.0.0.2@o2ib ]\n       current_connection: 10.0.0.2@o2ib\n" +
			"       idle: 159490 sec\n    read_data_averages:\n       bytes_per_rpc: 1\n       usec_per_rpc: 1\n       MB_per_sec: 1.00\n",
			with(func(i *Import) { i.TargetVersion, i.Idle = "2.12.7.0", ptr(159490*time.Second) })},
		"2.17": {head + "    import_flags: [ replayable, pingable ]\n    connection:\n       failover_nids: [ \"10.0.0.1@o2ib\", \"10.0.0.2@o2ib\" ]\n       nids_stats:\n" +
			"          \"10.0.0.1@o2ib\": { connects: 28, replied: 1, uptodate: uptodate, sec_ago: 2 }\n          \"10.0.0.2@o2ib\": { connects: 0, replied: 0, uptodate: uptodate, sec_ago: never }\n" +
			"       current_connection: \"10.0.0.2@o2ib\"\n       generation: 2\n",
			with(func(i *Import) { i.Generation = ptr(uint64(2)) })},
		"2.17, IPv6": {"import:\n    name: fs-OST0003-osc-ffff880414c43400\n    state: IDLE\n    connection:\n       failover_nids: [ \"fe80::1@tcp\", \"2001:db8::2@tcp1\" ]\n       nids_stats:\n" +
			"          \"fe80::1@tcp\": { connects: 1, replied: 1, uptodate: uptodate, sec_ago: 2 }\n       current_connection: \"fe80::1@tcp\"\n",
			with(func(i *Import) {
				i.State, i.Flags, i.FailoverNIDs, i.Connection = ImportIdle, nil, []string{"fe80::1@tcp", "2001:db8::2@tcp1"}, "fe80::1@tcp"
			})},
		"not connected": {head + "    import_flags: [ invalid, deactive ]\n    connection:\n       failover_nids: [  ]\n       current_connection: <none>\n",
			with(func(i *Import) {
				i.Flags, i.Deactivated, i.FailoverNIDs, i.Connection = []string{"invalid", "deactive"}, true, nil, ""
			})},
		"not connected, quoted": {head + "    connection:\n       current_connection: \"<none>\"\n",
			with(func(i *Import) { i.Flags, i.FailoverNIDs, i.Connection = nil, nil, "" })},
		"NUL bytes": {head + "    import_flags: [replayable, pingable\x00\x00]\n",
			with(func(i *Import) { i.FailoverNIDs, i.Connection = nil, "" })},
		"odd values": {"import:\n    name: MGC10.0.0.1@tcp\n    target: MGS\n    state: PONDERING\n    new_field: 1\n    no colon\n    connection:\n       connection_attempts: -1\n       generation: 99999999999999999999\n       idle: -3 sec\n" +
			"    rpcs:\n       avg_waittime: 3 fortnights\n       inflight: 7\n",
			Import{Device: "MGC10.0.0.1@tcp", Kind: "mgc", Target: "MGS", State: "PONDERING", InFlight: ptr(uint64(7)), Unparsed: Unparsed{6, []UnparsedLine{
				{5, "new_field: 1", whyUnknownField}, {6, "no colon", "not a field"}, {8, "connection_attempts: -1", whyNegative},
				{9, "generation: 99999999999999999999", whyOverflow}, {10, "idle: -3 sec", whyNegative}}}}},
		"another target": {"import:\n    name: odd\n    target: fs-OST0001_UUID\n    state: FULL\n", Import{Device: "odd", Target: "fs-OST0001", FS: "fs", State: ImportFull}},
		"too long ago":   {"idle: 9223372037 sec\n", Import{Unparsed: Unparsed{1, []UnparsedLine{{1, "idle: 9223372037 sec", whyOverflow}}}}},
	} {
		if diff := cmp.Diff(&tc.want, ParseImport([]byte(tc.text))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestFSOf(t *testing.T) {
	for name, want := range map[string]string{
		"lustre-OST0002": "lustre", "lustre-OST0002_UUID": "lustre", "lustre-OST0002-osc-ffff8880086b6800": "lustre",
		"lustre-MDT0000-mdc-ffff8880086b6800": "lustre", "my-fs_1-OST00ff_UUID": "my-fs_1", "lustre-OST0000-osc-MDT0001": "lustre",
		"a-OSTs-OST10000": "a-OSTs", "-x-MDT0000": "-x", "MGS": "", "MGC10.0.0.1@tcp": "", "lustre-clilov-ffff8880086b6800": "",
		"lustre-OST": "", "lustre-OST00g0": "", "lustre-OST000": "", "-OST0000": "", "lustre-ost0000": "", "": "",
	} {
		if got := FSOf(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestImportBadInput(t *testing.T) {
	for name, text := range fixtureBad() {
		if i := ParseImport([]byte(text)); i.State != "" || i.Healthy() || i.Attempts != nil {
			t.Errorf("%s: %+v", name, i)
		}
		if all := ParseImports([]byte(text)); len(all) > 0 {
			t.Errorf("%s: %d imports", name, len(all))
		}
		if h := ParseImportState([]byte(text)); h.Current != "" || len(h.Changes) > 0 {
			t.Errorf("%s: %+v", name, h)
		}
		if d, _ := ParseDevices([]byte(text)); len(d) > 0 {
			t.Errorf("%s: %+v", name, d)
		}
		if m := ParseMounts([]byte(text)); len(m) > 0 {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// No line of any import of 2.10.1 is left over, those of servers included.
func TestSamplesImports(t *testing.T) {
	fsys := os.DirFS(fixtureSamples(t, "HewlettPackard__lustre_exporter"))
	n := 0
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Base(path.Dir(name)) == "pool" || (path.Base(name) != "import" && path.Base(name) != "state") {
			return err
		}
		n++
		text, err := fs.ReadFile(fsys, name)
		odd := ParseImportState(text).Unparsed
		if path.Base(name) == "import" {
			odd = ParseImport(text).Unparsed
		}
		if err := odd.Err(name); err != nil {
			t.Error(err)
		}
		return err
	})
	if err != nil || n < 30 {
		t.Errorf("%d files, %v", n, err)
	}
	imports, err := ReadImports(fsys)
	if err != nil || len(imports) != 9 || importIll(imports) != "" || imports[2].FS != "lustrefs" || len(imports[2].FailoverNIDs) != 2 {
		t.Errorf("%+v, %v", imports, err)
	}
}

func FuzzParseImport(f *testing.F) {
	f.Add(fixtureFile(f, fixtureMachine(f, "client-healthy-2.17.0"), debugRoot+"osc/lustre-OST0002-osc-ffff8880086b6800/import"))
	f.Add([]byte("import:\n    name: a-OST0000-osc-f\n    state: FULL\n    import_flags: [replayable, deactive]\n    connection:\n       failover_nids: [ a@b, c@d ]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		i := ParseImport(text)
		if i.Healthy() && (i.Deactivated || i.State == "") {
			t.Fatalf("%+v", i)
		}
		for _, nid := range i.FailoverNIDs {
			if nid == "" || strings.ContainsAny(nid, ",\n") {
				t.Fatalf("%q", nid)
			}
		}
		if i.Idle != nil && *i.Idle < 0 || i.AvgWait != nil && *i.AvgWait < 0 {
			t.Fatal("negative time")
		}
		// A parser that has met other imports must give the same.
		var p importParser
		var first, again Import
		p.parse(&first, text)
		p.parse(&again, text)
		if diff := cmp.Diff(*i, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

func FuzzParseImports(f *testing.F) {
	f.Add(importFailing(f, "ost_umount/import")[:4096])
	f.Add([]byte("osc.a.import=\nimport:\n    state: FULL\nimport:\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all := ParseImports(text)
		if n := strings.Count(string(text), "import:"); len(all) > n {
			t.Fatalf("%d imports of %d", len(all), n)
		}
		lines := strings.Count(string(text), "\n") + 1
		for _, i := range all {
			lines -= i.Unparsed.Count
		}
		if lines < len(all) {
			t.Fatalf("%+v", all)
		}
	})
}

func FuzzFSOf(f *testing.F) {
	f.Add("my-fs-OST0000-osc-ffff")
	f.Fuzz(func(t *testing.T, name string) {
		if target, rest := cutTarget(name); target+rest != name {
			t.Fatal(target, rest)
		}
	})
}

// benchClient writes a client with two mounts of 100 OSTs each into a directory.
func benchClient(b *testing.B) string {
	b.Helper()
	dir := b.TempDir()
	fsys := fixtureMachine(b, "client-healthy-2.17.0")
	osc := debugRoot + "osc/lustre-OST0002-osc-ffff8880086b6800/"
	text, state := string(fixtureFile(b, fsys, osc+"import")), fixtureFile(b, fsys, osc+"state")
	put := func(name string, data []byte) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for _, fs := range []string{"scratch", "home"} {
		for n := range 100 {
			target := fmt.Sprintf("%s-OST%04x", fs, n)
			device := target + "-osc-ffff8880086b6800"
			own := strings.ReplaceAll(text, "lustre-OST0002", target)
			put(debugRoot+"osc/"+device+"/import", []byte(own))
			put(debugRoot+"osc/"+device+"/state", state)
			put(sysRoot+"osc/"+device+"/active", []byte("1\n"))
		}
	}
	return dir
}

func BenchmarkReadImports(b *testing.B) {
	fsys := os.DirFS(benchClient(b))
	b.ReportAllocs()
	for b.Loop() {
		if imports, err := ReadImports(fsys); err != nil || len(imports) != 200 || imports[199].AvgWait == nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseImport(b *testing.B) {
	text := fixtureFile(b, fixtureMachine(b, "client-healthy-2.17.0"), debugRoot+"osc/lustre-OST0002-osc-ffff8880086b6800/import")
	var p importParser
	b.ReportAllocs()
	for b.Loop() {
		var i Import
		if p.parse(&i, text); i.AvgWait == nil {
			b.Fatal("no avg_waittime")
		}
	}
}

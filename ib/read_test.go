package ib

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"ioguard/host"
)

// sameText compares errors by what they say.
var sameText = cmp.Comparer(func(a, b error) bool { return errText(a) == errText(b) })

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func fixture(t testing.TB, name string) *txtar.Archive {
	t.Helper()
	a, err := txtar.ParseFile("testdata/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// machine opens a fixture after the files of changes were put in or, where their
// text is "-", taken out.
func machine(t testing.TB, name string, changes map[string]string) *host.Host {
	t.Helper()
	a := fixture(t, name)
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { _, ok := changes[f.Name]; return ok })
	for name, text := range changes {
		if text != "-" {
			a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(text)})
		}
	}
	h, err := host.Txtar(txtar.Format(a))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func read(t testing.TB, h *host.Host) []Device {
	t.Helper()
	devices, err := Read(h)
	if err != nil {
		t.Fatal(err)
	}
	return devices
}

func counters(values map[string]uint64, paths ...string) []Counter {
	var all []Counter
	for _, p := range paths {
		all = append(all, Counter{p, values[p]})
	}
	return all
}

var pmaPaths = []string{
	"counters/link_downed", "counters/link_error_recovery", "counters/symbol_error",
	"counters/local_link_integrity_errors", "counters/excessive_buffer_overrun_errors", "counters/port_rcv_errors",
	"counters/port_rcv_remote_physical_errors", "counters/port_xmit_discards", "counters/VL15_dropped", "counters/port_xmit_wait",
}

var mlx5Paths = append(slices.Clone(pmaPaths),
	"hw_counters/local_ack_timeout_err", "hw_counters/out_of_sequence", "hw_counters/packet_seq_err",
	"hw_counters/implied_nak_seq_err", "hw_counters/duplicate_request", "hw_counters/roce_adp_retrans",
	"hw_counters/roce_adp_retrans_to", "hw_counters/roce_slow_restart", "hw_counters/req_transport_retries_exceeded",
	"hw_counters/req_rnr_retries_exceeded", "hw_counters/rnr_nak_retry_err", "hw_counters/out_of_buffer")

// rxe is the recorded software RoCE adapter.
func rxe(state, phys string, up bool) []Device {
	return []Device{{
		Name: "rxe0", GUID: "5054:00ff:fe77:0011",
		Ports: []Port{{
			Device: "rxe0", Number: 1, State: state, PhysState: phys, LinkLayer: "Ethernet", Fabric: RoCE,
			RateGbps: new(2.5), Width: "1X", Speed: "SDR",
			NetDevs: []NetDev{{Name: "eth1", Up: &up, AdminUp: new(true)}},
			Counters: counters(map[string]uint64{"hw_counters/link_downed": 1, "hw_counters/retry_exceeded_err": 2, "hw_counters/completer_retry_err": 10},
				"hw_counters/duplicate_request", "hw_counters/link_downed", "hw_counters/retry_exceeded_err",
				"hw_counters/completer_retry_err", "hw_counters/rcvd_seq_err", "hw_counters/out_of_seq_request",
				"hw_counters/send_err", "hw_counters/rcvd_rnr_err", "hw_counters/retry_rnr_exceeded_err"),
		}},
	}}
}

func mlx5() []Device {
	return []Device{{
		Name: "mlx5_0", Firmware: "20.35.1012", Board: "MT_0000000223", GUID: "b859:9f03:00d4:3a1c", HCA: "MT4123",
		Ports: []Port{{
			Device: "mlx5_0", Number: 1, State: "ACTIVE", PhysState: "LinkUp", LinkLayer: "InfiniBand", Fabric: InfiniBand,
			RateGbps: new(200.), Width: "4X", Speed: "HDR",
			NetDevs: []NetDev{{"ib0", new(true), new(true)}},
			Counters: counters(map[string]uint64{"counters/link_downed": 1, "counters/symbol_error": 3, "counters/port_xmit_wait": 81234,
				"hw_counters/out_of_sequence": 2, "hw_counters/req_transport_retries_exceeded": 1}, mlx5Paths...),
		}},
	}, {
		Name: "mlx5_1", Firmware: "20.35.1012", Board: "MT_0000000223", GUID: "b859:9f03:00d4:3a1d", HCA: "MT4123",
		Ports: []Port{{
			Device: "mlx5_1", Number: 1, State: "DOWN", PhysState: "Polling", LinkLayer: "InfiniBand", Fabric: InfiniBand,
			RateGbps: new(10.), Width: "4X", Speed: "SDR",
			NetDevs: []NetDev{{"ib1", new(false), new(true)}},
			Counters: counters(map[string]uint64{"counters/link_downed": 255, "counters/symbol_error": 65535,
				"counters/local_link_integrity_errors": 15}, mlx5Paths...),
		}},
	}}
}

func mlx4() []Device {
	return []Device{{
		Name: "mlx4_0", Firmware: "2.42.5000", Board: "MT_1100120019", GUID: "f452:1403:0027:5ab0", HCA: "MT4099",
		Ports: []Port{{
			Device: "mlx4_0", Number: 1, State: "INIT", PhysState: "LinkUp", LinkLayer: "InfiniBand", Fabric: InfiniBand,
			RateGbps: new(56.), Width: "4X", Speed: "FDR",
			NetDevs:  []NetDev{{"ib0", new(false), new(true)}},
			Counters: slices.DeleteFunc(counters(nil, pmaPaths...), func(c Counter) bool { return c.Path == "counters/VL15_dropped" }),
		}, {
			Device: "mlx4_0", Number: 2, State: "DOWN", PhysState: "Disabled", LinkLayer: "Ethernet", Fabric: RoCE,
			RateGbps: new(40.), Width: "4X", Speed: "QDR",
			NetDevs:  []NetDev{{"ens2d1", new(false), new(false)}},
			Counters: counters(nil, pmaPaths...),
		}},
	}}
}

func hfi1() []Device {
	return []Device{{
		Name: "hfi1_0", Firmware: "1.27.0", Board: "Intel Omni-Path Host Fabric Interface Adapter 100 Series",
		GUID: "0011:7501:0179:0311", HCA: "b",
		Ports: []Port{{
			Device: "hfi1_0", Number: 1, State: "ACTIVE", PhysState: "LinkUp", LinkLayer: "InfiniBand", Fabric: OmniPath,
			RateGbps: new(100.), Width: "4X", Speed: "EDR",
			NetDevs:  []NetDev{{"ib0", new(true), new(true)}},
			Counters: counters(nil, pmaPaths...),
		}},
	}}
}

func TestRead(t *testing.T) {
	for name, want := range map[string][]Device{
		"rxe-healthy":  rxe("ACTIVE", "LinkUp", true),
		"rxe-link-cut": rxe("DOWN", "Polling", false),
		"mlx5":         mlx5(), "mlx4": mlx4(), "hfi1": hfi1(),
	} {
		if diff := cmp.Diff(want, read(t, machine(t, name, nil)), sameText); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestReadAlone reads each fixture without procfs: the two ways agree.
func TestReadAlone(t *testing.T) {
	for _, name := range []string{"rxe-healthy", "rxe-link-cut", "mlx5", "mlx4", "hfi1"} {
		h := machine(t, name, nil)
		r := &reader{Host: h, err: errors.New("no procfs")}
		for _, want := range read(t, h) {
			got := r.device(want.Name)
			if errText(got.Err) != "read device "+want.Name+": no procfs" {
				t.Errorf("%s: error %v", name, got.Err)
			}
			got.Err = nil
			if diff := cmp.Diff(want, got, sameText); diff != "" {
				t.Errorf("%s (-procfs +alone):\n%s", name, diff)
			}
		}
	}
}

// An archive, and a folder that has the symlinks of sysfs, tell the same.
func TestReadArchiveAndFolder(t *testing.T) {
	a := fixture(t, "mlx5")
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	dir := t.TempDir()
	for _, f := range a.Files {
		err := w.WriteHeader(&tar.Header{Name: "n1/1795246371/" + f.Name, Typeflag: tar.TypeReg, Size: int64(len(f.Data)), Mode: 0o644})
		if err == nil {
			_, err = w.Write(f.Data)
		}
		name := filepath.Join(dir, strings.Replace(f.Name, "class/infiniband", "devices/card", 1))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Data, 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	class := filepath.Join(dir, "sys/class/infiniband")
	archive := filepath.Join(t.TempDir(), "m.tar")
	err := errors.Join(w.Close(), os.WriteFile(archive, packed.Bytes(), 0o644), os.MkdirAll(class, 0o755),
		os.Symlink("../../devices/card/mlx5_0", filepath.Join(class, "mlx5_0")),
		os.Symlink("../../devices/card/mlx5_1", filepath.Join(class, "mlx5_1")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{archive, dir} {
		temp := t.TempDir()
		t.Setenv("TMPDIR", temp)
		h, err := host.OpenMachine(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(mlx5(), read(t, h), sameText); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		h.Close()
		if left, _ := os.ReadDir(temp); len(left) > 0 {
			t.Errorf("%s: left behind %v", name, left)
		}
	}
}

func TestReadNothing(t *testing.T) {
	for name, fsys := range map[string]fs.FS{
		"no class":  fstest.MapFS{"sys/class/net/lo/mtu": {}},
		"no device": fstest.MapFS{class: {Mode: fs.ModeDir}},
		"a file":    fstest.MapFS{class + "/abi_version": {Data: []byte("1\n")}},
	} {
		if devices, err := Read(&host.Host{FS: fsys}); devices != nil || err != nil {
			t.Errorf("%s: %v, %v", name, devices, err)
		}
	}
	broken := failing{fstest.MapFS{}, map[string]error{class: syscall.EIO}}
	if _, err := Read(&host.Host{FS: broken}); !errors.Is(err, syscall.EIO) {
		t.Errorf("an unreadable class: %v", err)
	}
}

// failing is a tree of which some files cannot be read.
type failing struct {
	fs.FS
	errs map[string]error
}

func (f failing) Open(name string) (fs.File, error) {
	if err := f.errs[name]; err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return f.FS.Open(name)
}

const (
	port0 = class + "/mlx5_0/ports/1/"
	port1 = class + "/mlx5_1/ports/1/"
)

// One odd file costs itself alone, and is told.
func TestReadOddDevices(t *testing.T) {
	counter := port0 + "counters/symbol_error"
	without := func(d []Device, path string) {
		d[0].Ports[0].Counters = slices.DeleteFunc(d[0].Ports[0].Counters, func(c Counter) bool { return c.Path == path })
	}
	for name, tt := range map[string]struct {
		changes       map[string]string
		errs          map[string]error
		want          func(d []Device)
		device, port0 string // in the errors; "" none
	}{
		"no firmware": {changes: map[string]string{class + "/mlx5_0/fw_ver": "-"},
			want:   func(d []Device) { d[0].Firmware = "" },
			device: "read device mlx5_0: failed to read HCA firmware version: open /sys/class/infiniband/mlx5_0/fw_ver: no such file"},
		"no link layer": {changes: map[string]string{port0 + "link_layer": "-"},
			want:   func(d []Device) { d[0].Ports[0].LinkLayer, d[0].Ports[0].Fabric = "", UnknownFabric },
			device: "link_layer: no such file", port0: "link_layer: file does not exist"},
		"garbage counter": {changes: map[string]string{counter: "many\n"},
			want:   func(d []Device) { without(d, "counters/symbol_error") },
			device: `parsing "many"`, port0: `symbol_error: parse counter "many\n"`},
		"counter with EIO": {errs: map[string]error{counter: syscall.EIO},
			want:  func(d []Device) { without(d, "counters/symbol_error") },
			port0: "open " + counter + ": input/output error"},
		"counter forbidden": {errs: map[string]error{counter: fs.ErrPermission},
			want:  func(d []Device) { without(d, "counters/symbol_error") },
			port0: "permission denied"},
		"counter without PMA": {errs: map[string]error{counter: syscall.EINVAL},
			want: func(d []Device) { without(d, "counters/symbol_error") }},
		"no counters": {errs: map[string]error{port0 + "counters": syscall.EIO, port0 + "hw_counters": fs.ErrNotExist},
			want:  func(d []Device) { d[0].Ports[0].Counters = nil },
			port0: "counters: input/output error"},
		"no width": {errs: map[string]error{port0 + "rate": syscall.EINVAL},
			want: func(d []Device) {
				d[0].Ports[0].RateGbps, d[0].Ports[0].Width, d[0].Ports[0].Speed = nil, "", ""
			},
			device: "rate: no such file"},
		"garbage states": {changes: map[string]string{port0 + "state": "ACTIVE\n", port0 + "phys_state": "", port0 + "rate": "fast"},
			want: func(d []Device) {
				p := &d[0].Ports[0]
				p.State, p.PhysState, p.RateGbps, p.Width, p.Speed = "", "", nil, "", ""
			},
			device: "could not parse state file", port0: `parse rate "fast\n"`},
		"unknown states": {changes: map[string]string{port0 + "state": "9: UNKNOWN\n", port0 + "phys_state": "0: <unknown>\n"},
			want: func(d []Device) { d[0].Ports[0].State, d[0].Ports[0].PhysState = "", "" }},
		"odd port": {changes: map[string]string{class + "/mlx5_0/ports/one/state": "4: ACTIVE\n"},
			want: func([]Device) {}, device: `parse port "one": not a number`},
		"no ports": {errs: map[string]error{class + "/mlx5_0/ports": syscall.EIO},
			want: func(d []Device) { d[0].Ports = nil }, device: "ports: input/output error"},
		"zero GUID": {changes: map[string]string{class + "/mlx5_0/node_guid": "0000:0000:0000:0000\n"},
			want: func(d []Device) { d[0].GUID = "" }},
		"iWARP": {changes: map[string]string{class + "/mlx5_0/node_type": "4: RNIC\n", port0 + "link_layer": "Ethernet\n"},
			want: func(d []Device) { d[0].Ports[0].LinkLayer, d[0].Ports[0].Fabric = "Ethernet", IWARP }},
	} {
		t.Run(name, func(t *testing.T) {
			h := machine(t, "mlx5", tt.changes)
			h.FS = failing{h.FS, tt.errs}
			got, want := read(t, h), mlx5()
			tt.want(want)
			checkError(t, got[0].Err, tt.device)
			got[0].Err = nil
			if len(got[0].Ports) > 0 {
				checkError(t, got[0].Ports[0].Err, tt.port0)
				got[0].Ports[0].Err = nil
			}
			if diff := cmp.Diff(want, got, sameText); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || !strings.Contains(errText(err), want) {
		t.Errorf("error %q, want %q", errText(err), want)
	}
	if strings.Contains(errText(err), os.TempDir()) {
		t.Errorf("error %q names a temporary folder", err)
	}
}

func TestNetDevs(t *testing.T) {
	const dir = class + "/mlx5_0/device/net/"
	gid := func(i string) string { return port0 + "gid_attrs/ndevs/" + i }
	for name, tt := range map[string]struct {
		changes map[string]string
		errs    map[string]error
		want    string
	}{
		"of the adapter": {want: "ib0"},
		"of the GIDs": {changes: map[string]string{gid("0"): "bond0\n", gid("1"): "bond0\n", gid("2"): "bond0.7\n", gid("3"): "\n"},
			want: "bond0 bond0.7"},
		"GIDs of InfiniBand": {changes: map[string]string{gid("0"): ""}, errs: map[string]error{gid("0"): syscall.EINVAL}, want: "ib0"},
		"a child":            {changes: map[string]string{dir + "ib0.8001/dev_id": "0x0\n"}, want: "ib0 ib0.8001"},
		"of the other port":  {changes: map[string]string{dir + "ib0/dev_port": "1\n"}},
		"by dev_id":          {changes: map[string]string{dir + "ib0/dev_port": "-", dir + "ib0/dev_id": "0x1\n"}},
		"without a number":   {changes: map[string]string{dir + "ib0/dev_port": "-", dir + "ib0/dev_id": "-"}},
		"below":              {changes: map[string]string{class + "/mlx5_0/parent": "eth7\n"}, want: "eth7"},
		"hostile":            {changes: map[string]string{gid("0"): "../../../etc\n", gid("1"): ".\n", gid("2"): "..", gid("3"): "a/b"}},
	} {
		h := machine(t, "mlx5", tt.changes)
		h.FS = failing{h.FS, tt.errs}
		var got []string
		for _, n := range read(t, h)[0].Ports[0].NetDevs {
			got = append(got, n.Name)
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestNetDevState(t *testing.T) {
	yes, no := new(true), new(false)
	const dir = "sys/class/net/e/"
	for name, tt := range map[string]struct {
		files map[string]string
		errs  map[string]error
		want  NetDev
	}{
		"nothing":      {want: NetDev{"e", nil, nil}},
		"up":           {files: map[string]string{"carrier": "1\n", "operstate": "up\n", "flags": "0x1003\n"}, want: NetDev{"e", yes, yes}},
		"no cable":     {files: map[string]string{"carrier": "0\n", "operstate": "down\n"}, want: NetDev{"e", no, yes}},
		"no operstate": {files: map[string]string{"carrier": "1\n", "operstate": "unknown\n"}, want: NetDev{"e", yes, yes}},
		"switched off": {files: map[string]string{"carrier": "", "operstate": "down\n", "flags": "0x1002\n"},
			errs: map[string]error{dir + "carrier": syscall.EINVAL}, want: NetDev{"e", no, no}},
		"switched off, no flags": {files: map[string]string{"operstate": "down\n"},
			errs: map[string]error{dir + "carrier": syscall.EINVAL}, want: NetDev{"e", no, no}},
		"no carrier recorded": {files: map[string]string{"operstate": "up\n"}, want: NetDev{"e", yes, nil}},
		"garbage":             {files: map[string]string{"operstate": "?", "carrier": "?", "flags": "?"}, want: NetDev{"e", nil, yes}},
	} {
		fsys := fstest.MapFS{}
		for f, text := range tt.files {
			fsys[dir+f] = &fstest.MapFile{Data: []byte(text)}
		}
		r := &reader{Host: &host.Host{FS: failing{fsys, tt.errs}}}
		if diff := cmp.Diff(tt.want, r.netDev("e")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNetDevMap(t *testing.T) {
	devices := slices.Concat(mlx4(), mlx5(), rxe("ACTIVE", "LinkUp", true))
	devices[2].Ports[0].NetDevs = []NetDev{{Name: "e\x1b[2J"}, {Name: "ib0.8001", Up: new(false)}}
	want := []string{
		"mlx4_0 port 1 ==> ib0 (Down)",
		"mlx4_0 port 2 ==> ens2d1 (Down)",
		"mlx5_0 port 1 ==> ib0 (Up)",
		`mlx5_1 port 1 ==> e\x1B[2J (NA)`,
		"mlx5_1 port 1 ==> ib0.8001 (Down)",
		"rxe0 port 1 ==> eth1 (Up)",
	}
	if diff := cmp.Diff(want, NetDevMap(devices)); diff != "" {
		t.Error(diff)
	}
}

func TestPortStates(t *testing.T) {
	eth := func(up, admin *bool) []NetDev { return []NetDev{{"eth0", up, admin}} }
	yes, no := new(true), new(false)
	for name, tt := range map[string]struct {
		port            Port
		up, cabled, off bool
	}{
		"unknown":              {port: Port{}},
		"up":                   {port: Port{State: "ACTIVE", PhysState: "LinkUp"}, up: true, cabled: true},
		"no subnet manager":    {port: Port{State: "INIT", PhysState: "LinkUp"}, cabled: true},
		"half known":           {port: Port{State: "ACTIVE"}},
		"training":             {port: Port{State: "DOWN", PhysState: "PortConfigurationTraining"}, cabled: true},
		"recovering":           {port: Port{State: "ACTIVE", PhysState: "LinkErrorRecovery"}, cabled: true},
		"polling":              {port: Port{State: "DOWN", PhysState: "Polling"}},
		"disabled":             {port: Port{State: "DOWN", PhysState: "Disabled", LinkLayer: "InfiniBand"}, off: true},
		"IPoIB down":           {port: Port{State: "DOWN", PhysState: "Polling", LinkLayer: "InfiniBand", NetDevs: eth(no, no)}},
		"RoCE, no carrier":     {port: Port{State: "DOWN", PhysState: "Disabled", LinkLayer: "Ethernet", NetDevs: eth(no, yes)}},
		"RoCE, switched off":   {port: Port{State: "DOWN", PhysState: "Disabled", LinkLayer: "Ethernet", NetDevs: eth(no, no)}, off: true},
		"RoCE, cannot be told": {port: Port{State: "DOWN", PhysState: "Disabled", LinkLayer: "Ethernet", NetDevs: eth(no, nil)}},
		"RoCE without netdev":  {port: Port{State: "DOWN", PhysState: "Disabled", LinkLayer: "Ethernet"}},
		"RoCE with a carrier":  {port: Port{State: "DOWN", PhysState: "Polling", LinkLayer: "Ethernet", NetDevs: eth(yes, yes)}, cabled: true},
	} {
		p := tt.port
		if p.Up() != tt.up || p.Cabled() != tt.cabled || p.SwitchedOff() != tt.off {
			t.Errorf("%s: up %v, cabled %v, switched off %v", name, p.Up(), p.Cabled(), p.SwitchedOff())
		}
	}
	if s := (&Port{Device: "mlx5_0", Number: 1}).String(); s != "mlx5_0/1" {
		t.Error(s)
	}
}

func TestTable(t *testing.T) {
	for _, m := range Metrics() {
		got, ok := MetricOf(m.Path)
		if !ok || got != m || path.Base(m.Path) != m.Name || m.Bits < 1 || m.Unit == "" || m.Doc == "" || m.Class == "" {
			t.Errorf("%+v", m)
		}
	}
	if len(byPath) != len(table) {
		t.Errorf("%d paths, %d rows", len(byPath), len(table))
	}
	for p, want := range map[string]uint64{"counters/link_downed": 255, "counters/symbol_error": 65535,
		"counters/local_link_integrity_errors": 15, "counters/port_xmit_wait": 1<<32 - 1, "hw_counters/out_of_buffer": 0} {
		if m, _ := MetricOf(p); m.Max() != want {
			t.Errorf("%s sticks at %d, want %d", p, m.Max(), want)
		}
	}
}

// BenchmarkRead reads two mlx5 ports from a folder, as the files of sysfs would be
// without the time of the firmware.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	for _, f := range fixture(b, "mlx5").Files {
		name := filepath.Join(dir, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, f.Data, 0o644)); err != nil {
			b.Fatal(err)
		}
	}
	h := &host.Host{FS: os.DirFS(dir)}
	b.Run("copied", func(b *testing.B) {
		for b.Loop() {
			if len(read(b, h)) != 2 {
				b.Fatal("not two devices")
			}
		}
	})
	b.Run("in place", func(b *testing.B) {
		for b.Loop() {
			r := &reader{Host: h, root: dir}
			r.lib, r.err = newLib(dir)
			if r.device("mlx5_0").Err != nil || r.device("mlx5_1").Err != nil {
				b.Fatal("not two devices")
			}
		}
	})
}

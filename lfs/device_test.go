package lfs

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ioguard/host"
)

func deviceHost(t *testing.T, machine string) *host.Host {
	t.Helper()
	text, err := os.ReadFile("testdata/" + machine + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	h, err := host.Txtar(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// deviceInactive names the devices that are not UP.
func deviceInactive(devices []Device) string {
	var s []string
	for _, d := range devices {
		if d.Status != "UP" {
			s = append(s, d.Status+" "+d.Name)
		}
	}
	return strings.Join(s, ", ")
}

func TestReadDevicesMachines(t *testing.T) {
	for machine, want := range map[string]string{
		"client-healthy-2.17.0": "", "client-link-cut-2.17.0": "", "client-ost-away-2.17.0": "",
		"client-ost-deactivated-2.17.0": "IN lustre-OST0002-osc-ffff8880086b6800",
	} {
		devices, err := ReadDevices(context.Background(), deviceHost(t, machine))
		if err != nil || len(devices) != 11 || deviceInactive(devices) != want {
			t.Errorf("%s: %+v, %v", machine, devices, err)
		}
		last := Device{10, "UP", "osc", "lustre-OST0005-osc-ffff8880086b6800", "e0ccf427-7220-40df-9533-dc99439cefc0", 5}
		if diff := cmp.Diff(last, devices[len(devices)-1]); diff != "" {
			t.Errorf("%s: %s", machine, diff)
		}
	}
}

// A live machine is asked by its file first, a recorded one by lctl.
func TestReadDevicesSources(t *testing.T) {
	errGone := errors.New("no such module")
	file := fstest.MapFS{procRoot + "devices": {Data: []byte("  0 UP mgc file 1 6\n")}}
	for name, tc := range map[string]struct {
		fsys    fs.FS
		time    time.Time
		lctlErr error
		want    string
	}{
		"live":                    {file, time.Time{}, nil, "file"},
		"live, without root":      {fixtureDenied{file, []string{"proc/fs"}}, time.Time{}, nil, "lctl"},
		"recorded":                {file, time.Unix(0, 0), nil, "lctl"},
		"recorded, without lctl":  {file, time.Unix(0, 0), fs.ErrNotExist, "file"},
		"nothing":                 {fstest.MapFS{}, time.Time{}, errGone, ""},
		"nothing, it is recorded": {fstest.MapFS{}, time.Unix(0, 0), errGone, ""},
	} {
		h := &host.Host{FS: tc.fsys, Time: tc.time, Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
			if name != "lctl" || strings.Join(args, " ") != "dl" {
				t.Errorf("%s %v", name, args)
			}
			return []byte("  0 UP mgc lctl 1 5\n"), tc.lctlErr
		}}
		devices, err := ReadDevices(context.Background(), h)
		if tc.want == "" {
			if !errors.Is(err, errGone) || !isNotExist(err) || devices != nil {
				t.Errorf("%s: %+v, %v", name, devices, err)
			}
			continue
		}
		if err != nil || len(devices) != 1 || devices[0].Name != tc.want {
			t.Errorf("%s: %+v, %v", name, devices, err)
		}
	}
}

func TestParseDevices(t *testing.T) {
	devices, odd := ParseDevices([]byte("\n  3 AT osc a b 5 10.0.0.1@o2ib\nx UP osc a b 5\n  4 UP osc a b\n 5 UP osc a b c\n 6 UP osc a b 2147483648\n 7 -- osc a b -1\n"))
	want := []Device{{3, "AT", "osc", "a", "b", 5}, {7, "--", "osc", "a", "b", -1}}
	if diff := cmp.Diff(want, devices); diff != "" {
		t.Error(diff)
	}
	wantOdd := Unparsed{4, []UnparsedLine{{3, "x UP osc a b 5", whyNotNumber}, {4, "4 UP osc a b", "not a device"},
		{5, "5 UP osc a b c", whyNotNumber}, {6, "6 UP osc a b 2147483648", "number out of range"}}}
	if diff := cmp.Diff(wantOdd, odd); diff != "" {
		t.Error(diff)
	}
}

// While something is out of order `lctl dl` says UP, but for deactivated devices.
func TestParseDevicesFailing(t *testing.T) {
	for capture, want := range map[string]string{
		"link_cut_12s": "", "mdt0_umount": "", "mdt1_umount": "", "ost_umount": "", "ost_umount_f": "",
		"deactivated":       "IN lustre-OST0002-osc-ffff8880086b6800",
		"device_deactivate": "IN lustre-OST0003-osc-ffff8880086b6800", // the list twice, before and after it
	} {
		devices, odd := ParseDevices(importFailing(t, capture+"/lctl_dl"))
		if odd.Count > 0 || len(devices)%11 != 0 || len(devices) == 0 || deviceInactive(devices) != want {
			t.Errorf("%s: %d devices, %s, %+v", capture, len(devices), deviceInactive(devices), odd)
		}
	}
}

func FuzzParseDevices(f *testing.F) {
	f.Add(importFailing(f, "deactivated/lctl_dl"))
	f.Add([]byte("  3 UP osc a b 5 10.0.0.1@o2ib\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		devices, odd := ParseDevices(text)
		if lines := strings.Count(string(text), "\n") + 1; len(devices)+odd.Count > lines {
			t.Fatalf("%d devices and %d others of %d lines", len(devices), odd.Count, lines)
		}
		for _, d := range devices {
			if d.Status == "" || d.Type == "" || d.Name == "" || d.UUID == "" {
				t.Fatalf("%+v", d)
			}
		}
	})
}

package probe

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const lines = `{"begun":{"pid":4711,"start_ticks":8713,"boot_id":"0d6c","mount":"/lustre","since":"2026-11-21T12:00:00Z","begun_usec":87130000}}
{"ended":{"ended_usec":87130912,"fs_type":198183888,"device":47,"inode":144115188193296385,"statfs_usec":610,"stat_usec":280}}
`

func TestParseRecord(t *testing.T) {
	b := &begun{4711, 8713, "0d6c", "/lustre", time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), 87130000}
	good := &ended{Usec: 87130912, Seen: Seen{198183888, 47, 144115188193296385, 610, 280}}
	bad := &ended{Usec: 87130912, Call: "statfs", Errno: 107}
	first := lines[:strings.Index(lines, "\n")+1]
	for _, tt := range []struct {
		name, text string
		want       record
	}{
		{"whole", lines, record{b, good}},
		{"at work", first, record{b, nil}},
		{"error", first + `{"ended":{"ended_usec":87130912,"call":"statfs","errno":107}}` + "\n", record{b, bad}},
		{"second line cut", lines[:len(lines)-1], record{b, nil}},
		{"first line cut", lines[1:], record{}},
		{"joined halves", lines[200:] + first, record{b, nil}},
		{"began anew", lines + first, record{b, nil}},
		{"ended twice", lines + `{"ended":{"ended_usec":87130999,"call":"stat","errno":5}}` + "\n", record{b, good}},
		{"ended before it began", first + `{"ended":{"ended_usec":1}}` + "\n", record{b, nil}},
		{"impossible error", first + `{"ended":{"ended_usec":87130912,"call":"statfs","errno":-107}}` + "\n", record{b, nil}},
		{"error without a number", first + `{"ended":{"ended_usec":87130912,"call":"statfs"}}` + "\n", record{b, nil}},
		{"both in one line", `{"begun":{},"ended":{}}` + "\n" + first, record{b, nil}},
		{"nobody", `{"begun":{"pid":0,"boot_id":"0d6c","since":"2026-11-21T12:00:00Z","begun_usec":1}}` + "\n", record{}},
		{"empty", "", record{}},
	} {
		if diff := cmp.Diff(tt.want, parseRecord([]byte(tt.text)), cmp.AllowUnexported(record{})); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte(lines))
	f.Add([]byte(lines + lines[:100]))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := parseRecord(text)
		if r.ended != nil && (r.begun == nil || r.ended.Usec < r.begun.Usec) {
			t.Fatalf("ended out of nothing: %+v", r)
		}
		if r.begun != nil && r.begun.PID <= 0 {
			t.Fatalf("%+v", r.begun)
		}
		if r.ended != nil {
			if a := r.answer("/m"); a.OK == (a.Err != nil) || a.Took < 0 {
				t.Fatalf("%+v", a)
			}
		}
	})
}

func TestParseStat(t *testing.T) {
	const rest = " 1 4711 4711 0 -1 4194560 209 0 0 0 0 0 0 0 20 0 5 0 8713 1237000192 300 18446744073709551615"
	for text, want := range map[string]string{
		"4711 (ioguard-probe) D" + rest + "\n": "D",
		"4711 (a) S 1 (b)) T" + rest:           "T",
		"4711 (x\n) Z" + rest:                  "Z",
		"4711 (ioguard-probe) D 1 2 3\n":       "",
		"4711 ioguard":                         "",
		"":                                     "",
		")":                                    "",
		"1 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 many": "",
	} {
		state, ticks, ok := parseStat([]byte(text))
		if ok != (want != "") || ok && (state != want || ticks != 8713) {
			t.Errorf("%q: %q %d %v", text, state, ticks, ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("4711 (ioguard-probe) D 1 4711 4711 0 -1 4194560 209 0 0 0 0 0 0 0 20 0 5 0 8713 1237000192 300\n"))
	f.Add([]byte("47 1 (ioguard-probe) D 1 4781 4711G\x8b\xb1 0 -1 4\x7f94560 209 0 0 0 0 0 0 0 20 0 5 0 171\xef"))
	f.Fuzz(func(t *testing.T, text []byte) {
		state, ticks, ok := parseStat(text)
		if ok != (len(state) == 1) || !ok && ticks != 0 {
			t.Fatalf("%q: %q %d %v", text, state, ticks, ok)
		}
	})
}

// A probe that only wants a processor says nothing against the mount.
func TestStarved(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := &begun{PID: cmd.Process.Pid, Usec: 1, Since: time.Now()}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(b.PID) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, b.StartTicks, _ = parseStat(text)
	eventually(t, "it runs", func() bool { return b.state() == starved })
	if a := overdue(context.Background(), b, deadline); a.Stuck || !strings.Contains(a.Skipped, "did not get a processor") {
		t.Errorf("%+v", a)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is a zombie", func() bool { return b.state() == gone })
	_ = cmd.Wait()
}

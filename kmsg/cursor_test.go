package kmsg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"ioguard/host"
)

// ring is a recorded machine with the records first to last in its log.
func ring(t testing.TB, boot string, first, last int) *host.Host {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "-- proc/sys/kernel/random/boot_id --\n%s\n-- dev/kmsg --\n", boot)
	for i := first; i <= last; i++ {
		fmt.Fprintf(&b, "4,%d,%d,-;message %d\n", i, 1000*i, i)
	}
	return machine(t, b.String())
}

func machine(t testing.TB, archive string) *host.Host {
	t.Helper()
	h, err := host.Txtar([]byte(archive))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func mustRead(t testing.TB, h *host.Host, since Cursor) *Log {
	t.Helper()
	l, err := Read(context.Background(), h, since)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func texts(l *Log) string {
	var all []string
	for _, m := range l.Messages {
		all = append(all, strings.TrimPrefix(m.Text, "message "))
	}
	return strings.Join(all, " ")
}

func TestCursorOfKmsg(t *testing.T) {
	first := mustRead(t, ring(t, "a", 3, 6), Cursor{})
	if first.Source != "/dev/kmsg" || texts(first) != "3 4 5 6" || first.Lost || first.Rebooted || first.Cursor.Seq != 6 || first.Cursor.BootID != "a" {
		t.Fatalf("first run: %+v", first)
	}
	for _, tt := range []struct {
		name           string
		h              *host.Host
		want           string
		lost, rebooted bool
		seq            uint64
	}{
		{"nothing new", ring(t, "a", 3, 6), "", false, false, 6},
		{"later", ring(t, "a", 3, 8), "7 8", false, false, 8},
		{"just not overwritten", ring(t, "a", 7, 9), "7 8 9", false, false, 9},
		{"overwritten", ring(t, "a", 8, 9), "8 9", true, false, 9},
		{"rebooted", ring(t, "b", 0, 2), "0 1 2", false, true, 2},
		{"rebooted and past the cursor", ring(t, "b", 0, 9), "0 1 2 3 4 5 6 7 8 9", false, true, 9},
		{"rebooted and overwritten", ring(t, "b", 7, 9), "7 8 9", true, true, 9},
		{"a cursor of the future", ring(t, "a", 1, 2), "1 2", false, false, 2},
	} {
		l := mustRead(t, tt.h, first.Cursor)
		if texts(l) != tt.want || l.Lost != tt.lost || l.Rebooted != tt.rebooted || l.Cursor.Seq != tt.seq {
			t.Errorf("%s: got %q lost %v rebooted %v seq %d; want %+v", tt.name, texts(l), l.Lost, l.Rebooted, l.Cursor.Seq, tt)
		}
	}
	h := machine(t, "-- dev/kmsg --\n4,7,7000,-;message 7\n4,9,9000,-;message 9\n-- proc/x --\n")
	if l := mustRead(t, h, Cursor{}); !l.Lost {
		t.Error("a gap among the records is not told")
	}
}

// A cursor is kept as JSON between runs.
func TestCursorJSON(t *testing.T) {
	c := mustRead(t, ring(t, "a", 3, 6), Cursor{}).Cursor
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var back Cursor
	if err := json.Unmarshal(b, &back); err != nil || back != c {
		t.Errorf("%s is %+v, was %+v: %v", b, back, c, err)
	}
}

func dmesgMachine(t testing.TB, btime int, lines ...string) *host.Host {
	return machine(t, fmt.Sprintf("-- proc/stat --\ncpu 1\nbtime %d\n-- commands/d/cmd --\ndmesg\n-- commands/d/stdout --\n%s\n", btime, strings.Join(lines, "\n")))
}

// Without sequence numbers the place behind the last message counts, and messages of one stamp.
func TestCursorOfDmesg(t *testing.T) {
	a, b, c, d := "[1.0] message a", "[2.0] message b", "[2.0] message c", "[3.0] message d"
	first := mustRead(t, dmesgMachine(t, 5000, a, b), Cursor{})
	if first.Source != "dmesg" || texts(first) != "a b" || first.Cursor.Same != 1 {
		t.Fatalf("first run: %+v", first)
	}
	for _, tt := range []struct {
		name           string
		h              *host.Host
		want           string
		lost, rebooted bool
	}{
		{"nothing new", dmesgMachine(t, 5000, a, b), "", false, false},
		{"the same stamp", dmesgMachine(t, 5000, a, b, c), "c", false, false},
		{"a stamp out of order", dmesgMachine(t, 5000, a, b, "[1.9] message late", d), "late d", false, false},
		{"the clock was set", dmesgMachine(t, 5030, b, d), "d", false, false},
		{"cleared or overwritten", dmesgMachine(t, 5000, d), "d", true, false},
		{"rebooted", dmesgMachine(t, 9000, a, b), "a b", false, true},
	} {
		l := mustRead(t, tt.h, first.Cursor)
		if texts(l) != tt.want || l.Lost != tt.lost || l.Rebooted != tt.rebooted {
			t.Errorf("%s: got %q lost %v rebooted %v", tt.name, texts(l), l.Lost, l.Rebooted)
		}
	}
	// from one source to another
	kmsg := Cursor{BootID: "btime:5000", Seq: 700, Boot: 2e9, Same: 1}
	if l := mustRead(t, dmesgMachine(t, 5000, a, b, d), kmsg); texts(l) != "d" || l.Lost {
		t.Errorf("after /dev/kmsg dmesg gives %q, lost %v", texts(l), l.Lost)
	}
}

func TestReadSources(t *testing.T) {
	command := func(words, out string) string {
		name := strings.NewReplacer(" ", "", "-", "").Replace(words)
		return "-- commands/" + name + "/cmd --\n" + words + "\n-- commands/" + name + "/stdout --\n" + out + "\n"
	}
	journal := command("journalctl -k -o json --no-pager -b", `{"MESSAGE":"message j","PRIORITY":"4"}`)
	syslog := "-- var/log/messages --\nJan  2 00:00:01 n1 kernel: message m\n"
	for _, tt := range []struct{ name, archive, source, want string }{
		{"an empty log goes on", "-- dev/kmsg --\n" + journal, "journald", "j"},
		{"journald", journal + command("dmesg -r", "<4>[1.0] message r"), "journald", "j"},
		{"an empty journal", command("journalctl -k -o json --no-pager -b", "") + command("dmesg -r", "<4>[1.0] message r"), "dmesg", "r"},
		{"-r before plain", command("dmesg", "[1.0] message p") + command("dmesg -r", "<4>[1.0] message r"), "dmesg", "r"},
		{"-x", command("dmesg -x", "kern  :err   : [1.0] message x"), "dmesg", "x"},
		{"-T", command("dmesg -T", "[Wed Jan 15 17:22:28 2025] message T"), "dmesg", "T"},
		{"messages", syslog, "var/log/messages", "m"},
		{"kern.log", strings.ReplaceAll(syslog, "messages", "kern.log"), "var/log/kern.log", "m"},
		{"syslog", strings.ReplaceAll(syslog, "messages", "syslog"), "var/log/syslog", "m"},
		{"nothing said", "-- dev/kmsg --\n", "/dev/kmsg", ""},
	} {
		if l := mustRead(t, machine(t, "-- proc/x --\n"+tt.archive), Cursor{}); l.Source != tt.source || texts(l) != tt.want {
			t.Errorf("%s: %s gives %q", tt.name, l.Source, texts(l))
		}
	}
	if _, err := Read(context.Background(), machine(t, "-- proc/x --\n"), Cursor{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without any log: %v", err)
	}
	denied := command("dmesg -r", "") + "-- commands/dmesgr/status --\n1\n-- commands/dmesgr/stderr --\ndmesg: read kernel buffer failed: Operation not permitted\n"
	var failed *host.CommandError
	if _, err := Read(context.Background(), machine(t, denied), Cursor{}); !errors.As(err, &failed) {
		t.Errorf("denied: %v", err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Read(gone, machine(t, journal), Cursor{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// The cursor of a log file is by the wall clock, and holds over a reboot.
func TestCursorOfSyslog(t *testing.T) {
	file := func(boot string, lines ...string) *host.Host {
		return machine(t, "-- n1/1735819200/proc/sys/kernel/random/boot_id --\n"+boot+"\n-- n1/1735819200/var/log/messages --\n"+strings.Join(lines, "\n")+"\n")
	}
	a, b, c, d := "Jan  2 00:00:01 n1 kernel: message a", "Jan  2 00:00:02 n1 kernel: message b", "Jan  2 00:00:02 n1 kernel: message c", "Jan  2 00:00:03 n1 kernel: message d"
	first := mustRead(t, file("x", a, b), Cursor{})
	if texts(first) != "a b" || first.Cursor.Time.IsZero() {
		t.Fatalf("first run: %+v", first)
	}
	if l := mustRead(t, file("x", a, b, c, d), first.Cursor); texts(l) != "c d" || l.Lost {
		t.Errorf("later: %q, lost %v", texts(l), l.Lost)
	}
	if l := mustRead(t, file("y", a, b, c, d), first.Cursor); texts(l) != "c d" || !l.Rebooted {
		t.Errorf("rebooted: %q, rebooted %v", texts(l), l.Rebooted)
	}
	if l := mustRead(t, file("x", d), first.Cursor); texts(l) != "d" || !l.Lost {
		t.Errorf("rotated: %q, lost %v", texts(l), l.Lost)
	}
}

func TestReadLive(t *testing.T) {
	h := host.Local()
	log, err := h.KernelLog()
	if err != nil {
		t.Skip(err)
	}
	log.Close()
	first, err := Read(context.Background(), h, Cursor{})
	if err != nil || len(first.Messages) == 0 || first.Source != "/dev/kmsg" {
		t.Skipf("this machine's log cannot be read: %v", err)
	}
	if first.Unparsed.Count > 0 || first.Lost || first.Cursor.BootID == "" {
		t.Errorf("first run: not understood %+v, lost %v, boot %q", first.Unparsed, first.Lost, first.Cursor.BootID)
	}
	if !slices.IsSortedFunc(first.Messages, func(a, b Message) int { return int(int64(a.Seq) - int64(b.Seq)) }) {
		t.Error("the messages are not in the order of the log")
	}
	again := mustRead(t, h, first.Cursor)
	if again.Lost || len(again.Messages) > 0 && again.Messages[0].Seq != first.Cursor.Seq+1 {
		t.Errorf("second run gives %d messages, lost %v", len(again.Messages), again.Lost)
	}
}

func BenchmarkReadLive(b *testing.B) {
	h := host.Local()
	since := mustReadOrSkip(b, h).Cursor
	for b.Loop() {
		if _, err := Read(context.Background(), h, since); err != nil {
			b.Fatal(err)
		}
	}
}

func mustReadOrSkip(b *testing.B, h *host.Host) *Log {
	l, err := Read(context.Background(), h, Cursor{})
	if err != nil {
		b.Skip(err)
	}
	return l
}

package kmsg

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseKmsg(t *testing.T) {
	got, bad := ParseKmsg([]byte("6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n DEVICE=+net:eth0\n" +
		"30,340,5140901,-;systemd[1]: Started x\n" +
		"4,341,5140902,c,caller=T42;a\\x0ab\\x5cx41\\xc3\\xb6\\x4 \\xzz\n" +
		"4,342,5140903,+;, and the rest\n" +
		"no record\n" +
		"-1,1,2,-;x\n3,5,99999999999999999999,-;x\n\n" +
		"3,343,6000000,-;last; with a semicolon"))
	want := []Message{
		{Seq: 339, Boot: 5140900 * time.Microsecond, Level: 6, Text: "NET: Registered protocol family 10"},
		{Seq: 340, Boot: 5140901 * time.Microsecond, Level: 6, User: true, Text: "systemd[1]: Started x"},
		{Seq: 341, Boot: 5140902 * time.Microsecond, Level: 4, Text: "a\nb\\x41\xc3\xb6\\x4 \\xzz, and the rest"},
		{Seq: 343, Boot: 6 * time.Second, Level: 3, Text: "last; with a semicolon"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if bad.Count != 3 || bad.Lines[0].Line != 7 || bad.Lines[0].Text != "no record" {
		t.Errorf("not understood: %+v", bad)
	}
}

// Pieces of lines are put together up to a bound, and one without a beginning is
// not taken for a message.
func TestParseKmsgPieces(t *testing.T) {
	got, bad := ParseKmsg([]byte("4,1,2,+;LustreError: forged\n4,2,3,c;begin\n" + strings.Repeat("4,3,4,+;0123456789\n", 10_000)))
	if len(got) != 1 || !strings.HasPrefix(got[0].Text, "begin0123456789") || len(got[0].Text) > longestLine || bad.Count < 9000 {
		t.Errorf("%d messages, %d not understood", len(got), bad.Count)
	}
}

func TestParseDmesg(t *testing.T) {
	berlin := time.FixedZone("", 3600)
	bare := func(text string) Message { return Message{Boot: UnknownBoot, Level: UnknownLevel, Text: text} }
	leveled := func(level int, text string) Message { return Message{Boot: UnknownBoot, Level: level, Text: text} }
	plain := func(boot time.Duration, text string) Message {
		return Message{Boot: boot, Level: UnknownLevel, Text: text}
	}
	wall := func(day, nsec int, text string) Message {
		return Message{Boot: UnknownBoot, Level: UnknownLevel, Time: time.Date(2025, 1, day, 17, 22, 28, nsec, berlin), Text: text}
	}
	for _, tt := range []struct {
		name, text string
		want       []Message
	}{
		{"-r", "<3>[   12.345678] a\n<30>[   13.000000] b", []Message{
			{Boot: 12345678 * time.Microsecond, Level: 3, Text: "a"}, {Boot: 13 * time.Second, Level: 6, User: true, Text: "b"}}},
		{"-r without times", "<3>a\n<4>b\n", []Message{leveled(3, "a"), leveled(4, "b")}},
		{"-x", "kern  :err   : [ 1102.363622] a\nuser  :notice: [ 1102.363623] b\nauthpriv:warn  : [1.0] c\n", []Message{
			{Boot: 1102363622 * time.Microsecond, Level: 3, Text: "a"}, {Boot: 1102363623 * time.Microsecond, Level: 5, User: true, Text: "b"},
			{Boot: time.Second, Level: 4, User: true, Text: "c"}}},
		{"plain, callers", "[    0.000000][    T0] a\n[123456.7][ C12] b\n[    1.500000] [  T324] c\r\n[    2.000000] [T] d\n", []Message{
			plain(0, "a"), plain(123456700*time.Millisecond, "b"), plain(1500*time.Millisecond, "c"), plain(2*time.Second, "[T] d")}},
		{"-T and ISO 8601", "[Wed Jan 15 17:22:28 2025] a\n[Sun Jan  5 17:22:28 2025] b\n2025-01-15T17:22:28,123456+01:00 c\n", []Message{
			wall(15, 0, "a"), wall(5, 0, "b"), wall(15, 123456000, "c")}},
		{"a message of several lines", "[1.0] a\n  more\nLustreError: forged\n\n[2.0] b\n", []Message{
			plain(time.Second, "a\n  more\nLustreError: forged"), plain(2*time.Second, "b")}},
		{"no stamps", "a\n[x] b\nc: d: e\n", []Message{bare("a"), bare("[x] b"), bare("c: d: e")}},
		{"no dates", "[Wed Feb 30 17:22:28 2025] a\n[Wed Jan 15 24:22:28 2025] b\n", []Message{
			bare("[Wed Feb 30 17:22:28 2025] a"), bare("[Wed Jan 15 24:22:28 2025] b")}},
		{"no times", "[99999999999999.0] a\n[1.1234567890] b\n[1.] c\n", []Message{
			bare("[99999999999999.0] a"), bare("[1.1234567890] b"), bare("[1.] c")}},
	} {
		if diff := cmp.Diff(tt.want, ParseDmesg([]byte(tt.text), berlin)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestParseSyslog(t *testing.T) {
	const text = `Dec 31 23:59:59 n1 kernel: Lustre: old year
Jan  2 00:00:01 n1 kernel: [ 1102.363622] LNet: a
Jan  2 00:00:01 n1 kernel: [ 1102.363623][  T42] b
Jan  2 00:00:01 n1 sshd[12]: kernel: LustreError: forged
Jan  2 00:00:01 n1 sshd[12]: Invalid user kernel: from
Feb 29 10:00:00 n1 kernel: in a leap year
2025-01-02T01:00:01.5+01:00 n1 kernel: c
what is this
Jan  2 00:00:01 n1 kernel:
Jan  2 00:00:01
`
	got, bad := ParseSyslog([]byte(text), time.Date(2025, 1, 2, 12, 0, 0, 0, time.UTC))
	at := time.Date(2025, 1, 2, 0, 0, 1, 0, time.UTC)
	want := []Message{
		{Boot: UnknownBoot, Level: UnknownLevel, Time: time.Date(2024, 12, 31, 23, 59, 59, 0, time.UTC), Text: "Lustre: old year"},
		{Boot: 1102363622 * time.Microsecond, Level: UnknownLevel, Time: at, Text: "LNet: a"},
		{Boot: 1102363623 * time.Microsecond, Level: UnknownLevel, Time: at, Text: "b"},
		{Boot: UnknownBoot, Level: UnknownLevel, Time: time.Date(2024, 2, 29, 10, 0, 0, 0, time.UTC), Text: "in a leap year"},
		{Boot: UnknownBoot, Level: UnknownLevel, Time: at.Add(500 * time.Millisecond), Text: "c"},
		{Boot: UnknownBoot, Level: UnknownLevel, Time: at},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if bad.Count != 2 || bad.Lines[0].Line != 8 {
		t.Errorf("not understood: %+v", bad)
	}
	got, _ = ParseSyslog([]byte(text), time.Time{})
	if !got[0].Time.IsZero() || got[4].Time.IsZero() {
		t.Errorf("without a reference a stamp without a year is %v, one with a year %v", got[0].Time, got[4].Time)
	}
}

func TestParseJournal(t *testing.T) {
	const text = `{"MESSAGE":"infiniband rxe0: set down","PRIORITY":"6","SYSLOG_FACILITY":"0","_TRANSPORT":"kernel","_SOURCE_MONOTONIC_TIMESTAMP":"1965994953","__REALTIME_TIMESTAMP":"1795242636005293"}
{"MESSAGE":[76,195,10,98],"PRIORITY":"3","_TRANSPORT":"kernel"}
{"MESSAGE":null,"PRIORITY":["4","5"],"SYSLOG_FACILITY":"3"}
{"MESSAGE":"LustreError: forged","_TRANSPORT":"stdout"}
-- No entries --
{"MESSAGE":["two","times"],"PRIORITY":9,"_SOURCE_MONOTONIC_TIMESTAMP":"x"}
[]
{
`
	got, bad := ParseJournal([]byte(text))
	want := []Message{
		{Boot: 1965994953 * time.Microsecond, Time: time.UnixMicro(1795242636005293).UTC(), Level: 6, Text: "infiniband rxe0: set down"},
		{Boot: UnknownBoot, Level: 3, Text: "L\xc3\nb"},
		{Boot: UnknownBoot, Level: 4, User: true},
		{Boot: UnknownBoot, Level: UnknownLevel, Text: "two"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if bad.Count != 2 || bad.Lines[0].Line != 7 {
		t.Errorf("not understood: %+v", bad)
	}
}

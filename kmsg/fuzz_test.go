package kmsg

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// seed adds the recorded logs in all their forms.
func seed(f *testing.F, more ...string) {
	archives, _ := filepath.Glob("testdata/*.txtar")
	for _, name := range archives {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			f.Add(file.Data)
		}
	}
	for _, s := range more {
		f.Add([]byte(s))
	}
}

// checkMessages: no more messages than lines, no more text than there was, and
// nothing outside its range.
func checkMessages(t *testing.T, b []byte, messages []Message, bad Unparsed) {
	t.Helper()
	lines := strings.Count(string(b), "\n") + 1
	if len(messages)+bad.Count > lines || len(bad.Lines) > unparsedLines {
		t.Errorf("%d messages and %d not understood of %d lines", len(messages), bad.Count, lines)
	}
	size := 0
	for _, m := range messages {
		size += len(m.Text)
		if m.Level < UnknownLevel || m.Level > 7 || m.Boot < UnknownBoot {
			t.Errorf("impossible: %+v", m)
		}
	}
	if size > len(b) {
		t.Errorf("%d bytes of text in %d", size, len(b))
	}
}

func FuzzParseKmsg(f *testing.F) {
	seed(f, "4,1,2,+;a\\x0a", "30,340,5140901,-;systemd[1]: x\n K=v")
	f.Fuzz(func(t *testing.T, b []byte) {
		messages, bad := ParseKmsg(b)
		checkMessages(t, b, messages, bad)
	})
}

func FuzzParseDmesg(f *testing.F) {
	seed(f, "<3>[ 1.5][ T1] a\nb\n", "kern  :err   : [Wed Jan 15 17:22:28 2025] a\r\n")
	f.Fuzz(func(t *testing.T, b []byte) {
		messages := ParseDmesg(b, nil)
		checkMessages(t, b, messages, Unparsed{})
		for _, m := range messages {
			if m.Text != "" && !strings.Contains(string(b), m.Text) {
				t.Errorf("%q is not in the log", m.Text)
			}
		}
	})
}

func FuzzParseSyslog(f *testing.F) {
	seed(f, "Jan  2 00:00:01 n1 kernel: [ 1102.363623][  T42] b\n", "2025-01-02T01:00:01.5+01:00 n1 kernel: c")
	ref := time.Date(2025, 1, 2, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, b []byte) {
		messages, bad := ParseSyslog(b, ref)
		checkMessages(t, b, messages, bad)
	})
}

func FuzzParseJournal(f *testing.F) {
	seed(f, `{"MESSAGE":"a","PRIORITY":"6","_SOURCE_MONOTONIC_TIMESTAMP":"1"}`, `{"MESSAGE":[1,2],"PRIORITY":[["1"]]}`)
	f.Fuzz(func(t *testing.T, b []byte) {
		messages, bad := ParseJournal(b)
		for i := range messages {
			messages[i].Text = "" // bytes that are no UTF-8 grow to three
		}
		checkMessages(t, b, messages, bad)
	})
}

// FuzzClassify: whatever stands in a log, an event is of one message, in order,
// and of a documented kind; and a user's words behind job:' change nothing.
func FuzzClassify(f *testing.F) {
	kinds := map[Kind]bool{}
	for _, k := range Kinds() {
		kinds[k.Kind] = true
	}
	const request = "Lustre: 1:0:(client.c:2:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply: [sent 5/real 5]  req@1 x1/t0(0) o4->fs-OST0001-osc-ffff000000000001@1@tcp:6/4 lens 1/1 rc 0/-1 job:'"
	seed(f, "INFO: task a:1 blocked for more than 1 seconds.", "hfi1 0000:82:00.0: hfi1_0: x error", "a 0000:82:00.0: AER: Corrected error")
	f.Fuzz(func(t *testing.T, b []byte) {
		messages := ParseDmesg(b, nil)
		for _, line := range strings.Split(string(b), "\n") {
			messages = append(messages, Message{Text: line})
		}
		at := 0
		for _, e := range Classify(messages) {
			for at < len(messages) && messages[at] != e.Message {
				at++
			}
			if at == len(messages) || !kinds[e.Kind] || e.Count == 0 || e.User {
				t.Fatalf("impossible: %+v", e)
			}
			at++
		}
		forged := Classify([]Message{{Text: request + string(b)}})
		if len(forged) != 1 || forged[0].Kind != RequestTimeout || forged[0].Target != "fs-OST0001" || forged[0].Count != 1 {
			t.Errorf("a job id gives %+v", forged)
		}
	})
}

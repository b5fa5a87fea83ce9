package kmsg

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"ioguard/host"
)

// live is a machine that runs, with these files and no command.
func live(files map[string]string) *host.Host {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return &host.Host{FS: fsys}
}

func TestReadKeepsTheLast(t *testing.T) {
	var b strings.Builder
	for i := 1; i <= maxMessages+5; i++ {
		fmt.Fprintf(&b, "6,%d,%d,-;message\n", i, i)
	}
	h := live(map[string]string{"dev/kmsg": b.String()})
	if l := mustRead(t, h, Cursor{}); len(l.Messages) != maxMessages || l.Messages[0].Seq != 6 || l.Lost {
		t.Errorf("first run: %d messages from %d, lost %v", len(l.Messages), l.Messages[0].Seq, l.Lost)
	}
	if l := mustRead(t, h, Cursor{Seq: 2}); len(l.Messages) != maxMessages || !l.Lost {
		t.Errorf("later: %d messages, lost %v", len(l.Messages), l.Lost)
	}
}

// A live machine whose log is empty starts no process to hear that again.
func TestReadEmptyLiveLog(t *testing.T) {
	h := live(map[string]string{"dev/kmsg": "", "proc/sys/kernel/random/boot_id": "a\n"})
	h.Run = func(_ context.Context, name string, _ ...string) ([]byte, error) {
		t.Errorf("%s was run", name)
		return nil, fs.ErrNotExist
	}
	if l := mustRead(t, h, Cursor{BootID: "a", Seq: 7}); len(l.Messages) != 0 || l.Cursor != (Cursor{BootID: "a", Seq: 7}) {
		t.Errorf("got %+v", l)
	}
}

// The wall clock of a message is that of boot and what passed since.
func TestReadTellsTheTime(t *testing.T) {
	const record, up, stat = "6,1,5000000,-;x\n", "105.25 8.0\n", "cpu 1\nbtime 1795240000\n"
	recordedAt := time.Unix(1795242669, 0)
	for name, tt := range map[string]struct {
		files map[string]string
		at    time.Time
		want  time.Time
	}{
		"live":                         {map[string]string{"proc/stat": stat, "proc/uptime": up}, time.Time{}, time.Unix(1795240005, 0)},
		"live, unknown":                {map[string]string{"proc/uptime": up}, time.Time{}, time.Time{}},
		"recorded":                     {map[string]string{"proc/stat": stat, "proc/uptime": up}, recordedAt, time.Unix(1795240005, 0)},
		"recorded without stat":        {map[string]string{"proc/uptime": up}, recordedAt, recordedAt.Add(-100250 * time.Millisecond)},
		"recorded without uptime":      {map[string]string{"proc/stat": stat}, recordedAt, time.Unix(1795240005, 0)},
		"recorded, hostile uptime":     {map[string]string{"proc/uptime": "-1e99 8.0\n"}, recordedAt, time.Time{}},
		"recorded at an unknown time":  {map[string]string{"proc/stat": stat, "proc/uptime": up}, time.Unix(0, 0), time.Unix(1795240005, 0)},
		"recorded, nothing else known": {nil, time.Unix(0, 0), time.Time{}},
	} {
		files := map[string]string{"dev/kmsg": record}
		for k, v := range tt.files {
			files[k] = v
		}
		h := live(files)
		h.Time = tt.at
		l := mustRead(t, h, Cursor{})
		if len(l.Messages) != 1 || !l.Messages[0].Time.Equal(tt.want) {
			t.Errorf("%s: %+v, want %v", name, l.Messages, tt.want)
		}
		if !l.Cursor.Time.IsZero() {
			t.Errorf("%s: the cursor holds a computed time: %v", name, l.Cursor.Time)
		}
	}
}

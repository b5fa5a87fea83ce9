package slurm

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"ioguard/slurm/slurmtest"
)

func TestReadTaskID(t *testing.T) {
	for _, tt := range []struct{ id, rows, want string }{
		{"1", "M|2|1|1\nM|3|1|2\nM|1|1|3\n", "1_3"},
		{"2", "M|2|1|1\n", "1_1"},
		{"4", "M|4|4|N/A\n", "4"},
		{"8", "M|9|8|1\nM|8|8|2-6%2\n", "8"},
		{"8", "M|8|8|2-6%2\nM|8|8|1\n", "8_1"},
		{"5", "M|4|4|N/A\nX|5|5|7\nM|5|5\nM|55|5|1", ""},
		{"5", "", ""},
	} {
		run := func(_ context.Context, name string, args ...string) ([]byte, error) {
			mark, _, _ := strings.Cut(strings.TrimPrefix(args[4], "--format="), "|")
			if name != "squeue" || args[3] != "--jobs="+tt.id {
				t.Errorf("asked %s %q", name, args)
			}
			return []byte(strings.ReplaceAll(tt.rows, "M|", mark+"|")), nil
		}
		got, err := ReadTaskID(t.Context(), run, tt.id)
		if got != tt.want || (err != nil) != (tt.want == "") || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of %q: %q, %v, want %q", tt.id, tt.rows, got, err, tt.want)
		}
	}
	for _, id := range []string{"", "1_3", "1,2", "--all"} {
		if _, err := ReadTaskID(t.Context(), nil, id); err == nil {
			t.Errorf("%q: no error", id)
		}
	}
}

// TestRealTaskID: the last task of an array has the array's number.
func TestRealTaskID(t *testing.T) {
	c := slurmtest.Start(t, slurmtest.Options{})
	array := c.Submit("--array=5-6", "--wrap=sleep 60")
	single := c.Submit("--job-name=x\nM|1|1|9", "--wrap=sleep 60")
	waiting := c.Submit("--hold", "--array=1-3", "--wrap=sleep 60")
	c.Until("running jobs", 20*time.Second, func() bool {
		return strings.Count(c.Must("squeue", "--noheader", "--states=RUNNING", "--format=%A"), "\n") == 2 // the last newline is cut
	})
	for id, want := range map[string]string{array: array + "_6", single: single, waiting: waiting} {
		if got, err := ReadTaskID(t.Context(), c.Run, id); got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", id, got, err, want)
		}
	}
	if _, err := ReadTaskID(t.Context(), c.Run, "4711"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

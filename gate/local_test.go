package gate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIsLocal(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := func(to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("scratch/job", "here")
	link("/nowhere/lustre/x", "away")
	link("loop", "loop")
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "two words"), 0o700); err != nil {
		t.Fatal(err)
	}
	table := "strange " + dir + "/two\\040words newfs rw 0 0\n/dev/sda1 / ext4 rw 0 0\nmgs@o2ib:/fs " + dir + "/scratch lustre rw 0 0\nmgs@o2ib:/fs /nowhere/lustre lustre rw 0 0\n"
	tests := []struct{ dir, err string }{
		{dir + "/state", ""},
		{dir + "/state/not/yet", ""},
		{dir + "/scratch", `type "lustre"`},
		{dir + "/scratch/below", `type "lustre"`},
		{dir + "/scratchy", ""},
		{dir + "/here", `type "lustre"`},
		{dir + "/here/state", `type "lustre"`},
		{dir + "/loop", "too many"},
		{dir + "/two words/x", `type "newfs"`},
		{"relative", "absolute"},
	}
	for _, tt := range tests {
		err := IsLocal(table, tt.dir)
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.dir, err, tt.err)
		}
	}
}

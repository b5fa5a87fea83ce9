package prolog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
	"unicode"

	"ioguard"
	"ioguard/node"
	"ioguard/slurm"
)

// Controller keeps what slurmctld knows of a job (account, name, array) and the
// hooks on its nodes are not told.
func Controller(ctx context.Context, hook slurm.Hook, now time.Time, record func(context.Context, ioguard.NodeJob) error) error {
	if hook.JobID == "" {
		return errors.New("no SLURM_JOB_ID in the environment")
	}
	return record(ctx, node.JobOf(hook, "", now))
}

// Task prints what TaskProlog understands: exports, and at most one line to the
// user. Nothing kept for the job is nothing to print.
func Task(w io.Writer, stateDir string, hook slurm.Hook) error {
	t, err := node.LoadTask(stateDir, hook.NodeName, hook.JobID)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what was prepared for the job: %w", err)
	}
	_, err = io.WriteString(w, taskLines(t))
	return err
}

// taskLines is what slurmstepd is to read, a line for each thing.
func taskLines(t node.Task) string {
	var b strings.Builder
	for _, name := range sortedNames(t.Export) {
		if isVariable(name) && !strings.ContainsFunc(t.Export[name], unicode.IsControl) {
			fmt.Fprintf(&b, "export %s=%s\n", name, t.Export[name])
		}
	}
	if line := oneLine(t.Notice); line != "" {
		fmt.Fprintf(&b, "print ioguard: %s\n", line)
	}
	return b.String()
}

func sortedNames(m map[string]string) []string {
	var names []string
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// isVariable admits ioguard's own names only: root prepared them, but slurmstepd
// would take any.
func isVariable(name string) bool {
	rest, ok := strings.CutPrefix(name, "IOGUARD_")
	return ok && rest != "" && !strings.ContainsFunc(rest, func(r rune) bool { return !(r >= 'A' && r <= 'Z' || r == '_' || r >= '0' && r <= '9') })
}

// oneLine is a text without control characters, at most 300 bytes.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "..."
	}
	return strings.TrimSpace(s)
}

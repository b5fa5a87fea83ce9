package main

import (
	"strings"
	"testing"

	"ioguard/gate"
	"ioguard/prolog"
)

// TestSummary: a node of which much could not be looked at is not called healthy.
func TestSummary(t *testing.T) {
	for status, want := range map[gate.Status]string{gate.OK: "n1: healthy (", gate.Skipped: "n1: healthy (", gate.Unknown: "n1: nothing found, but not all could be looked at (1 unknown"} {
		out := &prolog.Outcome{}
		out.Verdict.Outcomes = []gate.Outcome{{Check: "lfs-ost", Status: status}}
		if got := summary("n1", out); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}

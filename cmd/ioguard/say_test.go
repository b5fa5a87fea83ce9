package main

import (
	"strings"
	"testing"
	"time"

	"ioguard"
	"ioguard/policy"
)

// Whoever is told of a finding is told whose job it is, where Slurm knows, and
// nothing that a user chose reaches the terminal as it is.
func TestSayNamesTheOwner(t *testing.T) {
	owners := map[string]ioguard.Owner{"4711": {User: "alice"}, "4712": {User: "\x1b[2Jbob"}}
	for id, want := range map[string]string{"4711": "job 4711 of alice: t\n", "4712": `job 4712 of \x1B[2Jbob: t` + "\n", "\x1b[31m9": `job \x1B[31m9: t` + "\n"} {
		var b strings.Builder
		s := &sayer{out: &b, owner: func(id string) ioguard.Owner { return owners[id] }}
		f := ioguard.Finding{Rule: "r", Title: "t", Subject: "job", JobID: id, Severity: ioguard.Warning, Start: time.Unix(0, 0)}
		if err := s.event(time.Unix(0, 0), policy.Event{Kind: policy.Opened, Finding: f}); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(b.String(), want) {
			t.Errorf("said %q, want it to end in %q", b.String(), want)
		}
	}
}

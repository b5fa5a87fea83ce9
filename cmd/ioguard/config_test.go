package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestConfigurationOfLittle: a file that says nothing, or nothing of a part, means
// the defaults.
func TestConfigurationOfLittle(t *testing.T) {
	for _, text := range []string{"", "\n", "# nothing yet\n", "---\n", "gate:\n", "gate: {}\n", "gate:\n  brake:\n", "slurm:\n", "machine: /\n"} {
		name := filepath.Join(t.TempDir(), "ioguard.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("IOGUARD_CONFIG", name)
		got, err := loadConfig()
		if err != nil || !reflect.DeepEqual(got, defaultConfiguration()) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// TestConfigurationInPart: what a part does not say keeps its default.
func TestConfigurationInPart(t *testing.T) {
	name := filepath.Join(t.TempDir(), "ioguard.yaml")
	if err := os.WriteFile(name, []byte("gate:\n  budget: 2\n  brake: {nodes: 0, share_percent: 0}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("IOGUARD_CONFIG", name)
	got, err := loadConfig()
	want := defaultConfiguration()
	want.Gate.Budget, want.Gate.Brake.Nodes, want.Gate.Brake.SharePercent = seconds(2e9), 0, 0
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if p := got.Gate.policy(); p.Brake.Limit(100) != -1 {
		t.Error("the brake is not off")
	}
}

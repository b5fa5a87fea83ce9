package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"ioguard"
	"ioguard/host"
	"ioguard/policy"
)

// defaultInterval is the time between two samples: short enough to see a burst,
// long enough to cost a server next to nothing.
const defaultInterval = 5 * time.Second

// defaultConfig is read when IOGUARD_CONFIG names no other file. It need not exist.
const defaultConfig = "/etc/ioguard/ioguard.yaml"

// config is the configuration file. Flags come before it, defaults behind it.
type config struct {
	Machine   string `yaml:"machine"`    // root to read: / or a recorded machine
	StateDir  string `yaml:"state_dir"`  // where records are kept
	Policy    string `yaml:"policy"`     // directory of the site's own rules
	JobIDName string `yaml:"jobid_name"` // jobid_name of the clients
	Interval  string `yaml:"interval"`

	Gate  gateConfig  `yaml:"gate"`
	Slurm slurmConfig `yaml:"slurm"`

	missing bool // there is no file: these are the defaults
}

func defaultConfiguration() *config {
	return &config{Machine: "/", StateDir: "/var/lib/ioguard", Interval: defaultInterval.String(), Gate: defaultGate()}
}

// loadConfig reads the configuration. A file that IOGUARD_CONFIG names must be
// there; unknown keys are errors, since a misspelt one would be silently off.
func loadConfig() (*config, error) {
	name, named := os.Getenv("IOGUARD_CONFIG"), true
	if name == "" {
		name, named = defaultConfig, false
	}
	c := defaultConfiguration()
	b, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		c.missing = true
		return c, nil
	case err != nil:
		return nil, configError(fmt.Errorf("read configuration: %w", err))
	}
	if err := yaml.UnmarshalWithOptions(b, c, yaml.Strict()); err != nil {
		return nil, configError(ioguard.WithHint(fmt.Errorf("configuration %s: %s", name, yaml.FormatError(err, false, true)),
			"the keys are machine, state_dir, policy, jobid_name, interval, gate, slurm; examples/slurm/ioguard.yaml has them all"))
	}
	c.restore()
	if d, err := time.ParseDuration(c.Interval); err != nil || d < minInterval {
		return nil, configError(fmt.Errorf("configuration %s: interval: %q is no duration of at least %v", name, c.Interval, minInterval))
	}
	for key, path := range map[string]string{"state_dir": c.StateDir, "slurm.bin": c.Slurm.Bin, "slurm.conf": c.Slurm.Conf} {
		if path != "" && !filepath.IsAbs(path) {
			return nil, configError(ioguard.WithHint(fmt.Errorf("configuration %s: %s: %q is no absolute path", name, key, path),
				"hooks start in Slurm's folders: write it from the root"))
		}
	}
	if err := c.Gate.check(); err != nil {
		return nil, configError(ioguard.WithHint(fmt.Errorf("configuration %s: %w", name, err), "ioguard check --list names the checks; examples/slurm/ioguard.yaml explains the keys"))
	}
	return c, nil
}

// restore gives back the defaults that the decoder took: it sets all to zero for a
// file of comments alone, and a part for a key without a value ("gate:").
func (c *config) restore() {
	d := defaultConfiguration()
	if reflect.DeepEqual(*c, config{}) {
		*c = *d
	}
	if reflect.DeepEqual(c.Gate, gateConfig{}) {
		c.Gate = d.Gate
	}
	if c.Gate.Brake == (brakeConfig{}) {
		c.Gate.Brake = d.Gate.Brake
	}
}

// minInterval keeps a slip of the pen from loading a server.
const minInterval = 200 * time.Millisecond

func machineFlag() cli.Flag {
	return &cli.StringFlag{Name: "machine", Usage: "read the machine at `PATH` instead of / (a recorded one, or another root)"}
}

func dbFlag() cli.Flag {
	return &cli.StringFlag{Name: "db", Usage: "records in `FILE` (default: ioguard.db in the configuration's state_dir)"}
}

func policyFlag() cli.Flag {
	return &cli.StringFlag{Name: "policy", Usage: "add the rules in `DIR` to the built-in ones; one with the same code replaces it"}
}

// machineOf opens the machine that a command is to read.
func machineOf(c *cli.Context, conf *config) (*host.Host, error) {
	name := c.String("machine")
	if name == "" {
		name = conf.Machine
	}
	h, err := host.OpenMachine(name)
	if err != nil {
		return nil, readError(err)
	}
	return h, nil
}

// dbOf is the file with the records.
func dbOf(c *cli.Context, conf *config) string {
	if name := c.String("db"); name != "" {
		return name
	}
	return filepath.Join(conf.StateDir, "ioguard.db")
}

// policyOf is the policy in force: the built-in rules and the site's.
func policyOf(c *cli.Context, conf *config) (*policy.Policy, error) {
	dir := c.String("policy")
	if dir == "" {
		dir = conf.Policy
	}
	if dir == "" {
		return policy.Default(), nil
	}
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		if err == nil {
			err = fmt.Errorf("%s is no directory", dir)
		}
		return nil, configError(fmt.Errorf("read policy: %w", err))
	}
	site, err := policy.Load(os.DirFS(dir))
	if err != nil {
		return nil, configError(fmt.Errorf("policy %s: %w", dir, err))
	}
	return policy.Default().With(site), nil
}

// intervalOf is the time between samples.
func intervalOf(c *cli.Context, conf *config) (time.Duration, error) {
	if !c.IsSet("interval") {
		d, _ := time.ParseDuration(conf.Interval)
		return d, nil
	}
	d := c.Duration("interval")
	if d < minInterval {
		return 0, usageError(fmt.Sprintf("%v at least", minInterval), "--interval %v is too short", d)
	}
	return d, nil
}

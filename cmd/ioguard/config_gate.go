package main

import (
	"fmt"
	"strconv"
	"time"

	"ioguard/gate"
	"ioguard/lnet"
)

// seconds is a duration of the configuration: 10 (seconds) or "1m30s".
type seconds time.Duration

func (s *seconds) UnmarshalYAML(unmarshal func(any) error) error {
	var text string
	if err := unmarshal(&text); err != nil {
		return fmt.Errorf("a number of seconds or a duration like 1m30s is wanted: %w", err)
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil && n >= 0 && n < 1e9 {
		*s = seconds(n * float64(time.Second))
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is neither a number of seconds nor a duration like 1m30s", text)
	}
	*s = seconds(d)
	return nil
}

// checkRule is what the configuration says about a check: "drain", or
// {do: drain, retry: 10}.
type checkRule struct {
	Do    string   `yaml:"do"`
	Retry *seconds `yaml:"retry"`
}

func (r *checkRule) UnmarshalYAML(unmarshal func(any) error) error {
	if err := unmarshal(&r.Do); err == nil {
		return nil
	}
	type plain checkRule // without this method
	return unmarshal((*plain)(r))
}

// gateConfig is the part of the configuration that the node gate reads.
type gateConfig struct {
	Budget        seconds                      `yaml:"budget"`
	Mounts        []string                     `yaml:"mounts"`
	Required      []string                     `yaml:"required"`
	Ports         []string                     `yaml:"ports"`
	RateGbps      float64                      `yaml:"rate_gbps"`
	NIDs          []string                     `yaml:"nids"`
	Modules       map[string]map[string]string `yaml:"modules"`
	LustreVersion string                       `yaml:"lustre_version"`
	JobIDVar      string                       `yaml:"jobid_var"`
	MinFree       float64                      `yaml:"min_free_percent"`
	Checks        map[string]checkRule         `yaml:"checks"`
	Where         []whereConfig                `yaml:"where"`
	Brake         brakeConfig                  `yaml:"brake"`
	UndrainAfter  seconds                      `yaml:"undrain_after"`
	EpilogCheck   bool                         `yaml:"epilog_check"`
	Syslog        string                       `yaml:"syslog"`
}

type whereConfig struct {
	Partitions []string             `yaml:"partitions"`
	Nodes      string               `yaml:"nodes"`
	Checks     map[string]checkRule `yaml:"checks"`
}

type brakeConfig struct {
	Nodes        int     `yaml:"nodes"`
	SharePercent float64 `yaml:"share_percent"`
	Within       seconds `yaml:"within"`
	Do           string  `yaml:"do"`
}

// slurmConfig is where Slurm's commands and configuration are: hooks have no PATH.
type slurmConfig struct {
	Bin  string `yaml:"bin"`  // folder of scontrol and sinfo
	Conf string `yaml:"conf"` // slurm.conf, for hooks that are given no SLURM_CONF
}

// defaultBudget is well below Slurm's own limits (srun gives up after twice
// MessageTimeout, 20 s) and above a failover of a port.
const defaultBudget = 5 * time.Second

func defaultGate() gateConfig {
	b := gate.DefaultBrake
	return gateConfig{
		Budget: seconds(defaultBudget), JobIDVar: "SLURM_JOB_ID", MinFree: 1, UndrainAfter: seconds(5 * time.Minute), Syslog: "/dev/log",
		Brake: brakeConfig{Nodes: b.Nodes, SharePercent: 100 * b.Share, Within: seconds(b.Within), Do: string(b.Do)},
	}
}

// minBudget keeps a slip of the pen from making every check unknown.
const minBudget = 100 * time.Millisecond

// maxBudget keeps the hook below srun's patience.
const maxBudget = time.Minute

// policy is the gate's policy in force.
func (g *gateConfig) policy() gate.Policy {
	p := gate.Policy{Checks: overrides(g.Checks), Brake: gate.Brake{
		Nodes: g.Brake.Nodes, Share: g.Brake.SharePercent / 100, Within: time.Duration(g.Brake.Within), Do: gate.AtBrake(g.Brake.Do)}}
	for _, w := range g.Where {
		p.Where = append(p.Where, gate.Where{Partitions: w.Partitions, Nodes: w.Nodes, Checks: overrides(w.Checks)})
	}
	return p
}

func overrides(rules map[string]checkRule) map[string]gate.Override {
	all := map[string]gate.Override{}
	for code, r := range rules {
		all[code] = gate.Override{Do: gate.Action(r.Do), Retry: (*time.Duration)(r.Retry)}
	}
	return all
}

// site is what the site expects of a node.
func (g *gateConfig) site(stateDir string) gate.Site {
	return gate.Site{Mounts: g.Mounts, Ports: g.Ports, RateGbps: g.RateGbps, NIDs: g.NIDs, Modules: lnet.Params(g.Modules),
		LustreVersion: g.LustreVersion, JobIDVar: g.JobIDVar, MinFree: g.MinFree / 100, StateDir: stateDir}
}

// check tells what is wrong with the gate's part.
func (g *gateConfig) check() error {
	if b := time.Duration(g.Budget); b < minBudget || b > maxBudget {
		return fmt.Errorf("gate: budget: %v is not between %v and %v", b, minBudget, maxBudget)
	}
	switch { // written so that .nan is none of them
	case !(g.MinFree >= 0 && g.MinFree <= 100):
		return fmt.Errorf("gate: min_free_percent: %v is not between 0 and 100", g.MinFree)
	case !(g.RateGbps >= 0 && g.RateGbps < 1e6):
		return fmt.Errorf("gate: rate_gbps: %v is no rate in Gbit/s", g.RateGbps)
	case !(g.Brake.SharePercent >= 0 && g.Brake.SharePercent <= 100):
		return fmt.Errorf("gate: brake: share_percent: %v is not between 0 and 100", g.Brake.SharePercent)
	}
	site := g.site("")
	if err := site.Check(); err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	p := g.policy()
	if err := p.Check(); err != nil {
		return fmt.Errorf("gate: %w", err)
	}
	for _, w := range append(p.Where, gate.Where{Checks: p.Checks}) {
		for code, o := range w.Checks {
			if half := time.Duration(g.Budget) / 2; o.Retry != nil && *o.Retry > half {
				return fmt.Errorf("gate: checks: %s: retry %v is more than half of the budget (%v): raise gate.budget too", code, *o.Retry, half)
			}
		}
	}
	return nil
}

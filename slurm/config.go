package slurm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Config is what slurmctld runs with.
type Config struct {
	// Values are the settings by their names: "PrologFlags", "Prolog[0]". What Slurm
	// prints as (null) is "". Settings of plugins, printed below, are not among them.
	Values      map[string]string
	Controllers []Controller // in their order of precedence
	Skipped     int          // lines that were not understood
}

// Controller is a slurmctld, and whether it answered.
type Controller struct {
	Role string // "primary", "backup", "backup1"
	Host string
	Up   bool
}

// Forever is a time that Slurm does not bound.
const Forever time.Duration = math.MaxInt64

// ParseConfig parses `scontrol show config`. Text without any setting is an error.
//
// SOURCE: src/api/config_info.c, slurm_ctl_conf_2_key_pairs, and
// src/scontrol/scontrol.c, print_ping, for the controllers, which stand below:
//
//	PrologEpilogTimeout     = 65534
//	PrologFlags             = Alloc,DeferBatch
//	Slurmctld(primary) at vm is UP
func ParseConfig(b []byte) (Config, error) {
	c := Config{Values: map[string]string{}}
	plugins := false // the settings of a plugin follow
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		controller, isController := parseController(line)
		name, value, isSetting := parseSetting(line)
		switch {
		case isController:
			c.Controllers = append(c.Controllers, controller)
		case isSetting && !plugins:
			if _, twice := c.Values[name]; !twice {
				c.Values[name] = value
			}
		case isSetting, line == "", strings.HasPrefix(line, "Configuration data as of "), strings.HasPrefix(line, "*"):
		case strings.HasSuffix(line, "Configuration:"):
			plugins = true
		default:
			c.Skipped++
		}
	}
	if len(c.Values) == 0 {
		return c, errors.New("parse scontrol show config: no setting in it")
	}
	return c, nil
}

// parseSetting takes "Name = value" or "Name[0] = value" apart.
func parseSetting(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(line, "=")
	name, value = strings.TrimRight(name, " \t"), strings.TrimSpace(value)
	if !ok || name == "" || strings.Trim(name, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_[]") != "" {
		return "", "", false
	}
	if value == "(null)" {
		value = ""
	}
	return name, value, true
}

// parseController takes "Slurmctld(primary) at vm is UP" apart.
func parseController(line string) (Controller, bool) {
	role, rest, ok := strings.Cut(strings.TrimPrefix(line, "Slurmctld("), ") at ")
	host, state, told := strings.Cut(rest, " is ")
	if !ok || !told || !strings.HasPrefix(line, "Slurmctld(") || (state != "UP" && state != "DOWN") {
		return Controller{}, false
	}
	return Controller{role, host, state == "UP"}, true
}

// List gives the values of a setting that newer releases number (Prolog[0]), each a
// value of its own: Prolog, Epilog.
func (c *Config) List(name string) []string {
	if v := c.Values[name]; v != "" {
		return []string{v}
	}
	var all []string
	for i := 0; ; i++ {
		v, ok := c.Values[fmt.Sprintf("%s[%d]", name, i)]
		if !ok {
			return all
		}
		if v != "" {
			all = append(all, v)
		}
	}
}

// Has tells whether a word stands in a setting that is a list with commas:
// "Alloc" in PrologFlags. Slurm does not heed case, nor what stands behind a =.
func (c *Config) Has(name, word string) bool {
	for w := range strings.SplitSeq(c.Values[name], ",") {
		w, _, _ = strings.Cut(strings.TrimSpace(w), "=")
		if strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}

// Duration is a setting that is a time: "10 sec", "5 min", or a number of seconds.
// What means no bound (65534, INFINITE) is Forever. False: it is not told.
func (c *Config) Duration(name string) (time.Duration, bool) {
	v, told := c.Values[name]
	number, unit, _ := strings.Cut(v, " ")
	if strings.EqualFold(v, "INFINITE") || strings.EqualFold(v, "UNLIMITED") {
		return Forever, true
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if !told || err != nil {
		return 0, false
	}
	switch n {
	case math.MaxUint16 - 1, math.MaxUint16, math.MaxUint32 - 1, math.MaxUint32: // NO_VAL16, INFINITE16 and their 32 bits
		return Forever, true
	}
	switch unit {
	case "", "sec":
		return time.Duration(n) * time.Second, true
	case "min":
		return time.Duration(n) * time.Minute, true
	case "usec":
		return time.Duration(n) * time.Microsecond, true
	}
	return 0, false
}

// ReadConfig asks the controller for its configuration. The context bounds the
// time: scontrol itself tries for long when the controller is away.
func ReadConfig(ctx context.Context, run Run) (Config, error) {
	if run == nil {
		return Config{}, errors.New("ask scontrol: no commands here")
	}
	out, err := run(ctx, "scontrol", "show", "config")
	if err != nil {
		return Config{}, fmt.Errorf("ask scontrol: %w", err)
	}
	return ParseConfig(out)
}

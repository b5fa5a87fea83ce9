package doctor

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"ioguard/slurm"
	"ioguard/view"
)

// slurmCodes are the checks that read Slurm's configuration.
func slurmCodes() []string {
	var codes []string
	for _, c := range slurmChecks {
		if c.Code != "slurm-ctld" {
			codes = append(codes, c.Code)
		}
	}
	return codes
}

func (j *judge) slurm() {
	a := &j.seen.Slurm
	switch {
	case errors.Is(a.Err, fs.ErrNotExist):
		j.without(Skipped, "no Slurm here: "+a.Err.Error(), append(slurmCodes(), "slurm-ctld")...)
		return
	case a.Asked && !a.Done:
		j.is("slurm-ctld", Failed, "no answer in time")
		j.without(Unknown, "slurmctld did not answer in time", slurmCodes()...)
		return
	case a.Err != nil:
		j.is("slurm-ctld", Failed, "%s", cause(a.Err))
		j.without(Unknown, "slurmctld did not answer", slurmCodes()...)
		return
	}
	c := &a.Value
	j.controllers(c)
	j.slurmVersion(c)
	j.hooks(c)
	j.flags(c)
	j.hookTimeout(c)
	j.patience(c)
	j.healthCheck(c)
	j.taskProlog(c)
	j.scheduling(c)
}

func (j *judge) controllers(c *slurm.Config) {
	var up, down []string
	for _, s := range c.Controllers {
		text := s.Role + " " + s.Host
		if s.Up {
			up = append(up, text)
		} else {
			down = append(down, text)
		}
	}
	switch {
	case len(down) > 0:
		j.is("slurm-ctld", Warned, "DOWN: %s", list(down, 3))
		if len(up) > 0 {
			j.is("slurm-ctld", Warned, "UP: %s", list(up, 3))
		}
	case len(up) > 0:
		j.is("slurm-ctld", OK, "UP: %s", list(up, 3))
	default:
		j.is("slurm-ctld", OK, "it answered")
	}
}

func (j *judge) slurmVersion(c *slurm.Config) {
	const code = "slurm-version"
	text := c.Values["SLURM_VERSION"]
	year, rest, _ := strings.Cut(text, ".")
	month, _, _ := strings.Cut(rest, ".")
	y, errYear := strconv.Atoi(year)
	m, errMonth := strconv.Atoi(month)
	switch {
	case errYear != nil || errMonth != nil:
		j.without(Skipped, "SLURM_VERSION is not told", code)
	case y*12+m < 22*12+5:
		j.is(code, Note, "%s", text)
	default:
		j.is(code, OK, "%s", text)
	}
}

// hooks wants that Prolog and Epilog call ioguard.
func (j *judge) hooks(c *slurm.Config) {
	for setting, code := range map[string]string{"Prolog": "slurm-prolog", "Epilog": "slurm-epilog"} {
		if len(c.List(setting)) == 0 {
			j.is(code, Warned, "%s is not set", setting)
			continue
		}
		j.callsIOGuard(setting, code)
	}
}

// callsIOGuard judges what was found in the programs of a setting.
func (j *judge) callsIOGuard(setting, code string) {
	if unread(j, &j.seen.Hooks, true, code) {
		return
	}
	hooks := j.seen.Hooks.Value
	if file, ok := hooks.calls(setting); ok {
		j.is(code, OK, "%s", file)
		return
	}
	var paths []string
	for _, f := range hooks[setting] {
		paths = append(paths, f.Path)
		switch {
		case errors.Is(f.Err, fs.ErrNotExist) && j.seen.Local.Value.Slurmd:
			j.is(code, Failed, "%s is missing although slurmd runs here: jobs fail", f.Path)
		case errors.Is(f.Err, fs.ErrNotExist):
			j.without(Unknown, f.Path+" is not on this machine: look on a compute node", code)
		case errors.Is(f.Err, fs.ErrPermission):
			j.without(Unknown, j.reason(f.Err), code)
		case f.Err != nil:
			j.is(code, Warned, "%s: %s", f.Path, f.Err)
		}
	}
	if j.out[code].Status == OK {
		j.is(code, Warned, "no call of ioguard in %s (unless in what that calls)", list(paths, 3))
	}
}

func (j *judge) flags(c *slurm.Config) {
	const code = "slurm-flags"
	flags := c.Values["PrologFlags"]
	if allocates(c) {
		j.is(code, OK, "%s", flags)
	} else {
		if flags == "" {
			flags = "no flags"
		}
		j.is(code, Warned, "%s: only nodes that a step reaches are checked", flags)
	}
	if c.Has("PrologFlags", "Serial") {
		j.is(code, Note, "Serial: the prologs of a node's jobs wait for each other, each up to %v", j.site.Budget)
	}
	if c.Has("PrologFlags", "RunInJob") {
		j.is(code, Note, "RunInJob: a probe that hangs stays in the job's cgroup")
	}
}

// allocates tells whether the prolog runs at allocation (slurm.conf(5), PrologFlags).
func allocates(c *slurm.Config) bool {
	for _, flag := range []string{"Alloc", "Contain", "X11", "RunInJob"} {
		if c.Has("PrologFlags", flag) {
			return true
		}
	}
	return false
}

// hookMargin is what Slurm needs beside ioguard's own budget: other drop-ins, a
// slow start of the program.
const hookMargin = 5 * time.Second

// hookTimeout judges PrologEpilogTimeout, which newer releases can set for each.
func (j *judge) hookTimeout(c *slurm.Config) {
	const code = "slurm-timeout"
	least := j.site.Budget + hookMargin
	j.wants(code, "a bound of at least %v (gate.budget %v and %v)", least, j.site.Budget, hookMargin)
	told := false
	for _, name := range []string{"PrologTimeout", "EpilogTimeout", "PrologEpilogTimeout"} {
		d, ok := c.Duration(name)
		if !ok || told && name == "PrologEpilogTimeout" {
			continue
		}
		told = true
		switch {
		case d == slurm.Forever:
			j.is(code, Warned, "%s is not set: a hook that hangs holds its node for ever", name)
		case d < least:
			j.is(code, Failed, "%s %v: a slow prolog is killed, and its node drained", name, d)
		default:
			j.is(code, OK, "%s %v", name, d)
		}
	}
	if !told {
		j.without(Skipped, "PrologEpilogTimeout is not told", code)
	}
}

// patience judges the times that Slurm waits for a job to start.
func (j *judge) patience(c *slurm.Config) {
	budget := j.site.Budget
	if d, ok := c.Duration("MessageTimeout"); !ok {
		j.without(Skipped, "MessageTimeout is not told", "slurm-message")
	} else if 2*d > budget {
		j.is("slurm-message", OK, "MessageTimeout %v, gate.budget %v", d, budget)
	} else if allocates(c) {
		j.is("slurm-message", Note, "MessageTimeout %v, gate.budget %v; with Alloc srun waits", d, budget)
	} else {
		j.is("slurm-message", Warned, "MessageTimeout %v, gate.budget %v", d, budget)
	}
	if d, ok := c.Duration("BatchStartTimeout"); !ok {
		j.without(Skipped, "BatchStartTimeout is not told", "slurm-batch")
	} else if d > budget {
		j.is("slurm-batch", OK, "BatchStartTimeout %v, gate.budget %v", d, budget)
	} else {
		j.is("slurm-batch", Warned, "BatchStartTimeout %v, gate.budget %v", d, budget)
	}
}

// healthCheck: only where nodes are drained does somebody need to bring them back.
func (j *judge) healthCheck(c *slurm.Config) {
	const code = "slurm-health"
	status := Note
	if j.site.Drains {
		status = Warned
	}
	interval, _ := c.Duration("HealthCheckInterval")
	switch program := c.Values["HealthCheckProgram"]; {
	case program == "":
		j.is(code, status, "not set: nodes that ioguard drained are resumed by hand")
	case interval == 0 || interval == slurm.Forever:
		j.is(code, status, "%s never runs: HealthCheckInterval is 0", program)
	default:
		j.callsIOGuard("HealthCheckProgram", code)
		if j.out[code].Status == OK {
			j.is(code, OK, "every %s", view.Duration(interval))
		}
	}
}

func (j *judge) taskProlog(c *slurm.Config) {
	const code = "slurm-taskprolog"
	if c.Values["TaskProlog"] == "" {
		j.without(Skipped, "not set; it is optional", code)
		return
	}
	if file, ok := j.seen.Hooks.Value.calls("TaskProlog"); ok {
		j.is(code, OK, "%s", file)
		return
	}
	why := "it does not call ioguard"
	if files := j.seen.Hooks.Value["TaskProlog"]; len(files) > 0 && files[0].Err != nil {
		why = "it was not read: " + files[0].Err.Error()
	}
	j.without(Skipped, why+"; it is optional", code)
}

// scheduling judges what Slurm does with jobs and nodes after a failure.
func (j *judge) scheduling(c *slurm.Config) {
	if c.Has("SchedulerParameters", "nohold_on_prolog_fail") {
		j.is("slurm-nohold", Warned, "nohold_on_prolog_fail")
	} else {
		j.is("slurm-nohold", OK, "not set")
	}
	switch v := c.Values["ReturnToService"]; v {
	case "":
		j.without(Skipped, "ReturnToService is not told", "slurm-return")
	case "0":
		j.is("slurm-return", Note, "ReturnToService 0: a node that was down stays down")
	default:
		j.is("slurm-return", OK, "ReturnToService %s", v)
	}
	params := c.Values["SlurmdParameters"]
	switch {
	case c.Has("SlurmdParameters", "config_overrides"):
		j.is("slurm-slurmd", Note, "%s", params)
	case params == "":
		j.is("slurm-slurmd", OK, "none")
	default:
		j.is("slurm-slurmd", OK, "%s", params)
	}
}

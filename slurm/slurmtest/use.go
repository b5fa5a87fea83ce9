package slurmtest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Run runs a command with the cluster's environment and gives its standard output;
// standard error is in the error.
func (c *Cluster) Run(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stderr = c.Env, "/", &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", name, err, stderr.String())
	}
	return out, nil
}

// Must is Run of a command that must do well. Blanks around its output are dropped.
func (c *Cluster) Must(name string, args ...string) string {
	c.t.Helper()
	out, err := c.Run(c.t.Context(), name, args...)
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// Until waits for something that Slurm does in its own time.
func (c *Cluster) Until(what string, within time.Duration, true func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(within); !true(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			log := c.Log("")
			c.t.Fatalf("waited %v for %s: nodes %v, slurmctld says\n%s", within, what, c.Nodes(), log[max(len(log)-2000, 0):])
		}
	}
}

// Nodes gives each node's state as sinfo names it: "idle", "drained", "idle*" where
// it does not answer. It is empty while slurmctld does not answer.
func (c *Cluster) Nodes() map[string]string {
	states := make(map[string]string)
	out, err := c.Run(context.Background(), "sinfo", "--noheader", "--Node", "--all", "--format=%N %T")
	if err != nil {
		return states
	}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 2 {
			states[f[0]] = f[1]
		}
	}
	return states
}

// Reason gives the reason that stands at a node, "" for none.
func (c *Cluster) Reason(node string) string {
	c.t.Helper()
	reason := c.Must("sinfo", "--noheader", "--nodes="+node, "--format=%E")
	if reason == "none" {
		return ""
	}
	return reason
}

// Job gives what scontrol tells of a job: "JobState", "Reason", "NodeList",
// "Restarts"; it is empty for a job that is not known.
func (c *Cluster) Job(id string) map[string]string {
	fields := make(map[string]string)
	out, err := c.Run(context.Background(), "scontrol", "--oneliner", "show", "job", id)
	if err != nil {
		return fields
	}
	for _, word := range strings.Fields(string(out)) {
		if key, value, ok := strings.Cut(word, "="); ok {
			fields[key] = value
		}
	}
	return fields
}

// Submit gives sbatch its arguments and returns the number of the job.
func (c *Cluster) Submit(args ...string) string {
	c.t.Helper()
	return c.Must("sbatch", append([]string{"--parsable", "--output=/dev/null"}, args...)...)
}

// UntilJob waits until a job's state is one of these.
func (c *Cluster) UntilJob(id string, within time.Duration, states ...string) {
	c.t.Helper()
	c.Until("job "+id+" to be "+strings.Join(states, " or "), within, func() bool {
		now := c.Job(id)["JobState"]
		for _, s := range states {
			if s == now {
				return true
			}
		}
		return false
	})
}

// Reconfigure changes lines of slurm.conf and tells the daemons; an empty value
// removes a line.
func (c *Cluster) Reconfigure(conf map[string]string) {
	c.t.Helper()
	maps.Copy(c.conf, conf)
	c.writeConf()
	c.Must("scontrol", "reconfigure")
}

// Script writes an executable shell script into the cluster's directory and gives
// its path. It begins with a PATH and the cluster's SLURM_CONF, which hooks lack.
func (c *Cluster) Script(name, text string) string {
	c.t.Helper()
	head := "#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin SLURM_CONF=" + c.path("slurm.conf") + "\n"
	c.write(name, head+text+"\n", 0o755)
	return c.path(name)
}

// Log is what a node's slurmd has logged, or slurmctld for "".
func (c *Cluster) Log(node string) string {
	if node == "" {
		node = "slurmctld"
	}
	text, _ := os.ReadFile(c.path("log/" + node + ".log"))
	return string(text)
}

// StartNode starts the slurmd of a node that was stopped.
func (c *Cluster) StartNode(node string) {
	c.t.Helper()
	c.start(node, "-D", "-f", c.path("slurm.conf"), "-N", node)
}

// StopNode kills the slurmd of a node. Its jobs go on.
func (c *Cluster) StopNode(node string) {
	c.t.Helper()
	if c.daemon[node] == nil {
		c.t.Fatalf("no node %s", node)
	}
	c.daemon[node].kill()
}

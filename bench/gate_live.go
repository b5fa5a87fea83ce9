package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"ioguard/bench/nodetest"
)

// liveLnetctl answers as lnetctl does, from what is recorded: starting it costs two
// processes in place of one that loads more libraries.
const liveLnetctl = "#!/bin/sh\nexec /bin/cat /commands/lnetctl_$1_show/stdout\n"

var errNotRoot = errors.New("chroot takes root")

// newLiveNode makes a root that ioguard takes for the machine it runs on: its files
// are read from / as those of a live node are, it starts lnetctl, and a probe for
// each mount. Only what the kernel takes to print its files is missing.
func (b *bench) newLiveNode(what, away string) (*gateNode, error) {
	if os.Geteuid() != 0 {
		return nil, errNotRoot
	}
	dir, err := os.MkdirTemp(b.dir, "live-")
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	if _, err := b.process(b.self, "node", dir, away); err != nil {
		return nil, err
	}
	const config = "/etc/ioguard/ioguard.yaml"
	state := filepath.Join(dir, "var/lib/ioguard")
	g := &gateNode{what: what, chroot: dir, program: "/usr/sbin/ioguard", config: config, state: state, probes: filepath.Join(state, "probe")}
	for name, text := range liveFiles(dir) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			return nil, err
		}
	}
	for _, fs := range nodetest.Large().FileSystems {
		if err := os.MkdirAll(filepath.Join(dir, "lustre", fs), 0o755); err != nil {
			return nil, err
		}
	}
	err = os.Symlink(g.program, filepath.Join(dir, "proc/self/exe"))
	for from, to := range map[string]string{b.ioguard: g.program, "/bin/sh": "/bin/sh", "/bin/cat": "/bin/cat"} {
		err = errors.Join(err, b.install(dir, from, to))
	}
	return g, err
}

// liveFiles are what a live root has beside what a recorded one has.
func liveFiles(dir string) map[string]string {
	files := map[string]string{
		"etc/ioguard/ioguard.yaml": "gate: {syslog: \"\"}\nslurm: {bin: /no-slurm}\n",
		"usr/sbin/lnetctl":         liveLnetctl,
		"dev/null":                 "", // only ever read
		"proc/self/comm":           "", // the probe writes its name there
		"tmp/.keep":                "",
	}
	for to, from := range map[string]string{"proc/self/mounts": filepath.Join(dir, "proc/mounts"), "proc/self/stat": "/proc/self/stat"} {
		text, _ := os.ReadFile(from) // without it the probe says so
		files[to] = string(text)
	}
	log, _ := os.ReadFile(filepath.Join(dir, "commands/dmesg_raw/stdout"))
	var records strings.Builder
	n := 0
	for line := range strings.Lines(string(log)) {
		_, text, _ := strings.Cut(line, "] ")
		n++
		fmt.Fprintf(&records, "6,%d,%d,-;%s", n, n*1000, text)
	}
	files["dev/kmsg"] = records.String()
	return files
}

// install copies a program, and the libraries that the loader says it needs.
func (b *bench) install(dir, from, to string) error {
	if err := copyFile(from, filepath.Join(dir, to)); err != nil {
		return err
	}
	out, err := exec.CommandContext(b.ctx, "ldd", from).Output()
	if err != nil {
		return nil //nolint:nilerr // a static program
	}
	for line := range strings.Lines(string(out)) {
		for _, word := range strings.Fields(line) {
			if !filepath.IsAbs(word) {
				continue
			}
			if err := copyFile(word, filepath.Join(dir, word)); err != nil {
				return err
			}
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

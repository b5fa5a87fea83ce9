package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Process is what /proc/PID/stat tells of a process.
type Process struct {
	PID   int    `json:"pid"`
	Name  string `json:"name"`  // its task name, up to 15 bytes; whoever runs it chooses it
	State byte   `json:"-"`     // R, S, D, T, Z, ...
	Start uint64 `json:"start"` // clock ticks after boot: with PID the same process
	Wait  string `json:"wait"`  // kernel function that it waits in; "" where unknown

	Kernel bool `json:"-"` // a thread of the kernel's own
}

// ParseProcessStat reads /proc/PID/stat (do_task_stat in fs/proc/array.c):
//
//	8431 (ptlrpcd_00_01) D 2 0 0 0 -1 69238848 0 0 0 0 12 52 0 0 20 0 1 0 4242 0 0 ...
//
// The name may hold anything, blanks and brackets too: it ends at the last bracket.
func ParseProcessStat(b []byte) (Process, error) {
	bad := func(what string) (Process, error) {
		return Process{}, fmt.Errorf("parse process stat: %s in %.60q", what, b)
	}
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return bad("no name")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:open])))
	if err != nil || pid <= 0 {
		return bad("no process id")
	}
	fields := strings.Fields(string(b[end+1:]))
	const start = 22 - 3 // field 22; the first behind the name is field 3
	if len(fields) <= start || len(fields[0]) != 1 {
		return bad("too few fields")
	}
	ticks, err := strconv.ParseUint(fields[start], 10, 64)
	if err != nil {
		return bad("no start time")
	}
	flags, _ := strconv.ParseUint(fields[6], 10, 64) // field 9
	return Process{PID: pid, Name: string(b[open+1 : end]), State: fields[0][0], Start: ticks, Kernel: flags&kernelThread != 0}, nil
}

// kernelThread is PF_KTHREAD of include/linux/sched.h.
const kernelThread = 0x00200000

// ReadBlocked lists the processes in uninterruptible sleep, and with waits also other
// processes of users that wait in a kernel function it says yes to: Lustre mostly
// lets them sleep so that they do not count as blocked. Only stat and wchan are
// opened: cmdline of such a process can block the reader too. A process that ends
// meanwhile is left out.
func ReadBlocked(fsys fs.FS, waits func(string) bool) ([]Process, error) {
	entries, err := fs.ReadDir(fsys, "proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []Process
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		b, err := fs.ReadFile(fsys, "proc/"+e.Name()+"/stat")
		if err != nil {
			continue
		}
		p, err := ParseProcessStat(b)
		asleep := waits != nil && !p.Kernel && (p.State == 'S' || p.State == 'I')
		if err != nil || p.State != 'D' && !asleep {
			continue
		}
		if b, err := fs.ReadFile(fsys, "proc/"+e.Name()+"/wchan"); err == nil {
			p.Wait = strings.TrimSpace(string(b))
		}
		if p.State != 'D' && !waits(p.Wait) {
			continue
		}
		all = append(all, p)
	}
	return all, nil
}

// Memory is what /proc/meminfo tells, in bytes; nil is unknown.
type Memory struct {
	Total, Available, Dirty, Writeback *uint64
}

// ParseMemory reads /proc/meminfo (meminfo_proc_show in fs/proc/meminfo.c):
//
//	MemTotal:        1014488 kB
//	Dirty:               148 kB
//	Writeback:             0 kB
func ParseMemory(b []byte) (Memory, error) {
	var m Memory
	var bad lineErrors
	for n, line := range lines(b) {
		key, rest, _ := strings.Cut(line, ":")
		var to **uint64
		switch key {
		case "MemTotal":
			to = &m.Total
		case "MemAvailable":
			to = &m.Available
		case "Dirty":
			to = &m.Dirty
		case "Writeback":
			to = &m.Writeback
		default:
			continue
		}
		kb, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 54)
		if err != nil {
			bad.add(n, fmt.Errorf("%q: %w", line, err))
			continue
		}
		v := kb << 10
		*to = &v
	}
	if m.Total == nil {
		bad.add(0, errors.New("no MemTotal"))
	}
	return m, bad.join("parse proc/meminfo")
}

package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"
)

// Sample is one reading of a host. Two of them make a Diff.
type Sample struct {
	Stat
	Uptime   *time.Duration  // time since boot; nil where unknown
	Load     *procfs.LoadAvg // nil where unknown
	IO       procfs.PSIStats // Some and Full are nil where the kernel has no PSI
	Disks    []blockdevice.Diskstats
	Problems []error // what could not be read; a kernel without PSI is no problem
}

// ReadHostSample reads proc/stat, proc/uptime, proc/loadavg, proc/diskstats and
// proc/pressure/io below the machine's root. What cannot be read is unknown in
// the sample and named in its Problems. It fails only where nothing could be
// read at all.
func ReadHostSample(fsys fs.FS) (*Sample, error) {
	s := new(Sample)
	read := 0
	file := func(name string, optional bool, parse func([]byte) error) {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			// Without CONFIG_PSI the file is absent; with psi=0 on the kernel
			// command line older kernels have it and refuse to read it.
			absent := errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EOPNOTSUPP)
			if !optional || !absent {
				s.Problems = append(s.Problems, fmt.Errorf("read host sample: %w", err))
			}
			return
		}
		read++
		if err := parse(b); err != nil {
			s.Problems = append(s.Problems, err)
		}
	}
	// uptime, stat and diskstats stand side by side, in sysstat's order: rates
	// are computed by uptime, so little time should pass between them.
	file("proc/uptime", false, func(b []byte) error {
		up, err := ParseUptime(b)
		if err == nil {
			s.Uptime = &up
		}
		return err
	})
	file("proc/stat", false, func(b []byte) (err error) {
		s.Stat, err = ParseStat(b)
		return err
	})
	file("proc/diskstats", false, func(b []byte) error {
		all, err := ParseDiskstats(b)
		s.Disks = wholeDisks(fsys, all)
		return err
	})
	file("proc/pressure/io", true, func(b []byte) (err error) {
		s.IO, err = ParsePressure(b)
		return err
	})
	file("proc/loadavg", false, func(b []byte) error {
		l, err := ParseLoadAvg(b)
		if err == nil {
			s.Load = &l
		}
		return err
	})
	if read == 0 {
		return nil, errors.Join(s.Problems...)
	}
	return s, nil
}

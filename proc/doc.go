// Package proc reads the Linux side of a Lustre server: CPU time, load, I/O
// pressure and block devices from /proc and /sys, and which block devices
// carry which target.
//
// It takes every file through an fs.FS rooted at the machine's root directory,
// so a recorded machine answers as a live one does. It writes nothing, runs
// nothing (the text of `zpool status -P` is an argument) and never turns a
// missing file into a zero. Package collect calls it once per interval.
//
// The parsers of prometheus/procfs are not exported and its readers want a real
// path (procfs.NewFS calls statfs), so the files are parsed here; its types are
// used where their units fit. procfs.CPUStat does not fit: it holds seconds as
// floats, and equality with iostat needs the kernel's ticks.
package proc

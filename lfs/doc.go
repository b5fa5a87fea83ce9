// Package lfs reads Lustre itself: what a server tells of its targets, their
// clients, services, pools, recovery and space in /proc/fs/lustre,
// /sys/fs/lustre and /sys/kernel/debug/lustre.
//
// A reader (ReadX) takes an fs.FS rooted at "/" of the machine (host.Host.FS, or
// a recording) and finds the file; a parser (ParseX) takes bytes and is pure:
// the same bytes give the same value on every machine. Which file holds what,
// and where releases 2.5 to 2.17 keep it, stands in one table (Params).
//
// Every form that a release prints is told from the text, never from a version
// number: vendors port forms back. A line that no parser knows is counted and
// kept (Unparsed) and never harms its neighbours. What a file does not say is
// nil, a cleared flag or fs.ErrNotExist, never 0.
//
// The package never writes to a machine, runs no command but lctl dl, keeps no state
// between calls except in parsers that the caller owns, and does not log. Package
// collect calls it at every sample, commands call it to look at one machine.
package lfs

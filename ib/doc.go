// Package ib reads what /sys/class/infiniband tells of the node's own fabric
// ports, whatever the fabric: InfiniBand, Omni-Path, RoCE or iWARP. It tells
// the state and rate of each port, its network devices, and the counters whose
// rise means a bad link, and compares them with what was Remembered of an
// earlier reading.
//
// It starts no process, changes nothing and judges nothing: whether a port
// ought to be up is a question of policy. Package gate calls it. Reading a
// counter asks the adapter's firmware, so that on a sick adapter a read may take
// minutes: the caller sets the deadline.
//
// Most is read by prometheus/procfs. It gives up a whole device at the first
// file it does not understand (one counter with EIO, no fw_ver, the rate of a
// port without a width), so what it refuses is read here, file by file, and its
// error stands beside. It does not tell width, speed, network devices or the
// counters of other drivers than mlx5 at all.
package ib

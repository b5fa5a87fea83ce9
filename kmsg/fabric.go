package kmsg

import "strings"

// takeCommand: drivers/net/ethernet/mellanox/mlx5/core/cmd.c, wait_func.
//
//	CREATE_DCT(0x710) timeout. Will cause a leak of a command resource
//	cmd[22]: CREATE_DCT(0x710) No done completion
func takeCommand(e *Event, p *parts) bool {
	op, _, ok := strings.Cut(p.body, "(0x")
	if i := strings.LastIndexByte(op, ' '); ok {
		e.Op = op[i+1:]
	}
	return true
}

// takeModule: drivers/net/ethernet/mellanox/mlx5/core/events.c, port_module.
//
//	Port module event: module 0, Cable unplugged
//	Port module event[error]: module 0, Cable error, Bad or unsupported cable
func takeModule(e *Event, p *parts) bool {
	rest := strings.TrimPrefix(p.body, "Port module event")
	switch {
	case strings.HasPrefix(rest, "[error]"):
		e.How = "error"
	case strings.Contains(rest, "unplugged"):
		e.How = "unplugged"
	case strings.Contains(rest, "plugged"):
		e.How = "plugged"
	}
	return true
}

// takeLink: drivers/net/ethernet/mellanox/mlx5/core/en_main.c, mlx5e_update_carrier;
// vendor drivers say it of ports.
//
//	Link up
//	Port: 1 Link DOWN
func takeLink(e *Event, p *parts) bool {
	_, state, _ := strings.Cut(p.body, "Link ")
	state, _, _ = strings.Cut(state, " ")
	switch strings.ToLower(state) {
	case "up", "active":
		e.How = "up"
	case "down":
		e.How = "down"
	default:
		return false
	}
	return true
}

// takePortDown: vendor drivers.
//
//	port down
func takePortDown(e *Event, _ *parts) bool {
	e.How = "down"
	return true
}

// takeIBLink: drivers of network devices over InfiniBand.
//
//	ib0: link down
//
// A task may be named so: nothing may follow.
func takeIBLink(e *Event, p *parts) bool {
	device, state, _ := strings.Cut(p.body, ": link ")
	if n := digits(device[2:]); n == 0 || strings.Contains(device, " ") {
		return false
	}
	e.Device = device
	switch state {
	case "down":
		e.How = "down"
	case "up":
		e.How = "up"
	default:
		return false
	}
	return true
}

// takeSet: drivers/infiniband/sw/rxe/rxe_net.c, rxe_port_up and rxe_port_down.
//
//	set down
func takeSet(e *Event, p *parts) bool {
	switch p.body {
	case "set active":
		e.How = "up"
	case "set down":
		e.How = "down"
	default:
		return false
	}
	return true
}

// takeIPoIB: net/ipv6/addrconf.c, addrconf_notify.
//
//	IPv6: ADDRCONF(NETDEV_CHANGE): ib0: link becomes ready
func takeIPoIB(e *Event, p *parts) bool {
	_, rest, _ := strings.Cut(p.body, "): ")
	device, state, _ := strings.Cut(rest, ": ")
	if !strings.HasPrefix(device, "ib") {
		return false
	}
	e.Device = device
	switch state {
	case "link becomes ready":
		e.How = "up"
	case "link is not ready":
		e.How = "down"
	default:
		return false
	}
	return true
}

// takeHFI1: drivers/infiniband/hw/hfi1/chip.c. What it tells while it starts is left out.
//
//	logical state changed to PORT_DOWN (0x1)
//	physical state changed to PHYS_OFFLINE (0x9), phy 0x90
func takeHFI1(e *Event, p *parts) bool {
	body := strings.ToLower(p.body)
	switch {
	case strings.Contains(body, "port_down"), strings.Contains(body, "phys_offline"), strings.Contains(body, "link down"):
		e.How = "down"
	case strings.Contains(body, "port_active"), strings.Contains(body, "link up"):
		e.How = "up"
	case strings.Contains(body, "error"), strings.Contains(body, "timeout"), strings.Contains(body, "failed"):
		e.How = "error"
	default:
		return false
	}
	return true
}

// takeAER: drivers/pci/pcie/aer.c and dpc.c.
//
//	AER: Corrected error received: 0000:03:00.0
//	PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)
//	AER: Multiple Uncorrectable (Fatal) error message received from 0000:03:00.0
func takeAER(e *Event, p *parts) bool {
	body := strings.TrimPrefix(p.body, "AER: ")
	body, about := strings.CutPrefix(body, "PCIe Bus Error: severity=")
	switch {
	case strings.Contains(body, "Non-Fatal"):
		e.How = "nonfatal"
	case strings.Contains(body, "(Fatal)"):
		e.How = "fatal"
	case strings.HasPrefix(body, "Corrected"), strings.HasPrefix(body, "Correctable"), strings.HasPrefix(body, "Multiple Correct"):
		e.How = "corrected"
	case about, strings.HasPrefix(p.body, "DPC: containment event"):
	default: // "AER: enabled with IRQ 25", "AER: device recovery successful"
		return false
	}
	return true
}

// takeHung: kernel/hung_task.c, check_hung_task. A task's name may hold anything,
// but no more than 15 bytes: the words behind it must stand where they belong.
//
//	INFO: task ll_sa_2564:2565 blocked for more than 120 seconds.
func takeHung(e *Event, p *parts) bool {
	const longest = 15 + len(":4194304") + len(" blocked ")
	rest := strings.TrimPrefix(p.body, "INFO: task ")
	i := strings.LastIndex(rest[:min(len(rest), longest)], " blocked ")
	if i < 0 {
		return false
	}
	pid := strings.LastIndexByte(rest[:i], ':')
	if _, ok := number(rest[pid+1 : i]); pid < 0 || !ok {
		return false
	}
	e.Task = rest[:i]
	return true
}

// takeStall: kernel/rcu/tree_stall.h, print_cpu_stall and print_other_cpu_stall.
//
//	rcu: INFO: rcu_sched self-detected stall on CPU
//	rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
func takeStall(_ *Event, p *parts) bool {
	_, rest, _ := strings.Cut(p.body, "INFO: rcu_")
	flavor, rest, _ := strings.Cut(rest, " ")
	rest = strings.TrimPrefix(strings.TrimPrefix(rest, "self-"), "detected ")
	return len(flavor) < 16 && (strings.HasPrefix(rest, "stall") || strings.HasPrefix(rest, "detected stall") || strings.HasPrefix(rest, "expedited stall"))
}

// takeLockup: kernel/watchdog.c, watchdog_timer_fn.
//
//	watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [ll_ost_io00_002:2310]
func takeLockup(e *Event, p *parts) bool {
	if _, task, ok := strings.Cut(p.body, "! ["); ok {
		e.Task = strings.TrimSuffix(task, "]")
	}
	return true
}

// takeOOM: mm/oom_kill.c, __oom_kill_process.
//
//	Out of memory: Killed process 2310 (python3) total-vm:8192kB, anon-rss:4096kB
//	Memory cgroup out of memory: Killed process 2310 (python3) total-vm:8192kB
func takeOOM(e *Event, p *parts) bool {
	e.How = "node"
	rest, cgroup := strings.CutPrefix(p.body, "Memory cgroup out of memory: ")
	if cgroup {
		e.How = "cgroup"
	} else {
		rest = strings.TrimPrefix(rest, "Out of memory: ")
	}
	rest, ok := strings.CutPrefix(rest, "Killed process ")
	if !ok {
		if rest, ok = strings.CutPrefix(rest, "Kill process "); !ok { // up to Linux 5.0
			return false
		}
	}
	pid, rest, _ := strings.Cut(rest, " ")
	if i := strings.LastIndexByte(rest, ')'); i > 0 && rest[0] == '(' {
		e.Task = rest[1:i] + ":" + pid
	}
	return true
}

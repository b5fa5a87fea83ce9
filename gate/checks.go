package gate

import (
	"slices"
	"time"
)

// Action is what the policy does about a finding.
type Action string

// The actions, in rising order. Ignored findings are still shown, as notes.
const (
	Ignore  Action = "ignore"
	Warn    Action = "warn"
	Requeue Action = "requeue" // as drain, and a batch job goes back to the queue to start on another node
	Drain   Action = "drain"
)

// Blocks tells whether a job may not start with such a finding.
func (a Action) Blocks() bool { return a == Drain || a == Requeue }

// Check is one thing that can be wrong with a node, as data.
type Check struct {
	Code  string        `json:"code"`
	Group string        `json:"group"` // what is looked at: ib, lnet, lfs, mount, kmsg, local
	Title string        `json:"title"`
	Do    Action        `json:"do"`    // unless the policy says otherwise
	Retry time.Duration `json:"retry"` // a finding that is gone again within it does not count
	Text  string        `json:"text"`
	Fix   string        `json:"fix"`
	// Causes are checks whose findings explain this one: they are named first.
	Causes []string `json:"causes,omitempty"`
}

// Severity is the check's by its action: what blocks is critical.
func (c Check) Severity() string {
	switch {
	case c.Do.Blocks():
		return "critical"
	case c.Do == Warn:
		return "warning"
	}
	return "notice"
}

const flapRetry = 2 * time.Second // a port that trains again, a server that fails over to its partner at once

var fabricCauses = []string{"ib-gone", "ib-firmware", "ib-port", "lnet-down", "lnet-nid", "lnet-ni", "lnet-routes"}

// checks is the one table of checks: the order is that of causes before consequences.
var checks = []Check{
	{Code: "ib-gone", Group: "ib", Title: "adapter gone", Do: Drain,
		Text: "An adapter that was there at an earlier run is no more: it fell off the PCIe bus, or its driver is not loaded.",
		Fix:  "lspci | grep -i -e mellanox -e infiniband -e omni; dmesg | grep -e mlx5 -e hfi1; power-cycle the node if the device is lost"},
	{Code: "ib-firmware", Group: "ib", Title: "adapter firmware failed", Do: Drain,
		Text: "The driver says that the adapter's firmware asserted or that its health is compromised.",
		Fix:  "dmesg | grep -e 'health' -e assert; reset the adapter (mlxfwreset -d mlx5_0 reset) or power-cycle the node; report the synd= code to the vendor"},
	{Code: "ib-port", Group: "ib", Title: "port not Active and LinkUp", Do: Drain, Retry: flapRetry, Causes: []string{"ib-gone", "ib-firmware"},
		Text: "A port that is cabled (or configured) has no link. Down/Polling: cable, transceiver or switch port. Initialize/LinkUp: no subnet manager.",
		Fix:  "look at cable and switch port; ibstat; for Initialize ask the fabric's subnet manager (sminfo); list only the ports in use under gate.ports"},
	{Code: "ib-rate", Group: "ib", Title: "port slower than it was", Do: Warn, Causes: []string{"ib-port"},
		Text: "The link trained at fewer lanes or a lower speed than its own best, or than gate.rate says.",
		Fix:  "reseat or change the cable, then reset the port: ibportstate LID PORT reset"},
	{Code: "ib-flap", Group: "ib", Title: "link went down since the last run", Do: Warn,
		Text: "link_downed rose: the link was lost and came back. Once can be a reboot of the switch; more is a bad cable or transceiver.",
		Fix:  "mlxlink -d mlx5_0 -p 1 (or ibportstate); change cable or transceiver when it goes on"},
	{Code: "ib-errors", Group: "ib", Title: "error counters rose since the last run", Do: Warn,
		Text: "Symbol errors, link recoveries and receive errors come from cable or transceiver; time-outs and retries of the transport from a lossy or congested path.",
		Fix:  "perfquery -x; compare the neighbour port; change the cable when symbol errors go on"},
	{Code: "lnet-down", Group: "lnet", Title: "LNet is not up", Do: Drain, Retry: flapRetry,
		Text: "LNet does not answer or has no network although a Lustre file system is mounted or wanted.",
		Fix:  "modprobe lnet; lnetctl lnet configure --all; systemctl status lnet"},
	{Code: "lnet-nid", Group: "lnet", Title: "network interface missing", Do: Drain, Causes: []string{"ib-gone"},
		Text: "A net or NID that the configuration names is not configured on this node.",
		Fix:  "lnetctl net show; lnetctl net add --net o2ib --if ib0; compare /etc/lnet.conf and gate.nids"},
	{Code: "lnet-ni", Group: "lnet", Title: "network interface down", Do: Drain, Retry: flapRetry, Causes: []string{"ib-gone", "ib-firmware", "ib-port"},
		Text: "LNet itself says that the interface is down or has a fatal error, and there is no other on its net. The health value may have climbed back to 1000 meanwhile.",
		Fix:  "lnetctl net show -v 3; look at the interface under it: ip link show, ibstat"},
	{Code: "lnet-rail", Group: "lnet", Title: "one rail of several down", Do: Warn, Causes: []string{"ib-gone", "ib-firmware", "ib-port"},
		Text: "One interface of a net is down, another carries on: the node works with less bandwidth and no reserve.",
		Fix:  "lnetctl net show -v 3; repair the port under the interface"},
	{Code: "lnet-routes", Group: "lnet", Title: "no gateway left for a net", Do: Drain, Retry: flapRetry,
		Text: "All gateways of a route are down: servers on that net cannot be reached.",
		Fix:  "lnetctl route show -v; lctl ping GATEWAY; look at the routers"},
	{Code: "lnet-route", Group: "lnet", Title: "gateway down", Do: Warn,
		Text: "One gateway of a route is down, others carry on.",
		Fix:  "lnetctl route show -v; look at that router"},
	{Code: "lnet-health", Group: "lnet", Title: "interface health lowered", Do: Warn, Causes: []string{"ib-port", "lnet-ni", "lnet-rail"},
		Text: "LNet lowered the health value of a local interface. Interrupts, drops, aborts, no route, time-outs and errors are its own side; a network time-out lowers both ends.",
		Fix:  "lnetctl net show -v 3; lnetctl stats show; it climbs back by itself when messages pass again"},
	{Code: "lnet-peer", Group: "lnet", Title: "server's interface health lowered", Do: Warn, Causes: fabricCauses,
		Text: "LNet lowered the health value of a server's interface as seen from here: drops, errors or time-outs on the remote side.",
		Fix:  "lnetctl peer show -v 3 --nid NID; look at that server and its port"},
	{Code: "lnet-credits", Group: "lnet", Title: "credits exhausted", Do: Warn, Causes: fabricCauses,
		Text: "Messages queue for want of credits: the peer or the network does not keep up.",
		Fix:  "lnetctl peer show -v 3; compare peer_credits on clients, routers and servers"},
	{Code: "lnet-stats", Group: "lnet", Title: "LNet lost messages since the last run", Do: Ignore, Causes: fabricCauses,
		Text: "LNet counts failed messages of the whole node by their class: local interface, remote interface, network time-out. Some are daily life.",
		Fix:  "lnetctl stats show; lnetctl net show -v 3; lnetctl peer show -v 3"},
	{Code: "lnet-params", Group: "lnet", Title: "module parameters differ from the site's", Do: Warn,
		Text: "Parameters of LNet's modules are not what gate.modules says; peers with other credits limp.",
		Fix:  "/etc/modprobe.d/lustre.conf, then reload the modules"},
	{Code: "lfs-mount", Group: "lfs", Title: "file system not mounted", Do: Drain, Retry: flapRetry, Causes: fabricCauses,
		Text: "A Lustre file system that the configuration, /etc/fstab or the job's work directory wants is not mounted.",
		Fix:  "mount DIR; dmesg | tail; or take it out of gate.mounts"},
	{Code: "lfs-unmounted", Group: "lfs", Title: "was mounted at the last run", Do: Warn, Causes: fabricCauses,
		Text: "A Lustre file system that was mounted at an earlier run since boot is no more.",
		Fix:  "mount DIR; if it was meant: the next run no longer says so"},
	{Code: "lfs-mdt", Group: "lfs", Title: "no connection to a metadata target", Do: Drain, Retry: flapRetry, Causes: fabricCauses,
		Text: "The import of an MDT is not FULL: whatever touches its directories blocks.",
		Fix:  "lctl get_param mdc.*.import; is it this node or all? ioguard nodes; look at the MDS named"},
	{Code: "lfs-ost", Group: "lfs", Title: "no connection to an object storage target", Do: Drain, Retry: flapRetry, Causes: fabricCauses,
		Text: "The import of an OST is not FULL: reads and writes of files on it block, and processes in them cannot be killed.",
		Fix:  "lctl get_param osc.*.import; is it this node or all? ioguard nodes; look at the OSS named"},
	{Code: "lfs-mgs", Group: "lfs", Title: "no connection to the management server", Do: Warn, Causes: fabricCauses,
		Text: "The MGS does not answer: new mounts fail and changes of the configuration do not arrive. What is mounted goes on.",
		Fix:  "lctl get_param mgc.*.import; look at the MGS"},
	{Code: "lfs-evicted", Group: "lfs", Title: "evicted since the last run", Do: Warn, Causes: fabricCauses,
		Text: "A server dropped this client and came back: what was not yet written is lost, and processes got I/O errors.",
		Fix:  "dmesg | grep -i evict; look for a network or lock problem at that time on the server"},
	{Code: "lfs-inactive", Group: "lfs", Title: "target deactivated on this client", Do: Warn,
		Text: "An OST or MDT was switched off by an administrator: its files give errors (ESHUTDOWN, EIO) and lfs df leaves it out.",
		Fix:  "lctl --device NAME activate, or lctl set_param osc.NAME.active=1"},
	{Code: "lfs-device", Group: "lfs", Title: "Lustre device not UP", Do: Warn, Causes: fabricCauses,
		Text: "lctl dl shows a device that is neither UP nor switched off: setting it up or taking it down did not end.",
		Fix:  "lctl dl; unmount and mount the file system"},
	{Code: "lfs-version", Group: "lfs", Title: "other Lustre release than the site's", Do: Warn,
		Text: "The client's release is not the one that gate.lustre_version names.",
		Fix:  "update the client packages, or gate.lustre_version"},
	{Code: "lfs-jobid", Group: "lfs", Title: "jobs not visible in job_stats", Do: Warn,
		Text: "Without jobid_var=SLURM_JOB_ID the servers cannot tell this node's jobs apart, and nothing can be said about who loads them.",
		Fix:  "on the MGS: lctl set_param -P jobid_var=SLURM_JOB_ID; here at once: lctl set_param jobid_var=SLURM_JOB_ID"},
	{Code: "mount-hang", Group: "mount", Title: "mount hangs", Do: Drain, Causes: append(slices.Clone(fabricCauses), "lfs-mdt", "lfs-ost"),
		Text: "A process of its own asked the mount for statfs and its root and got no answer. A job that touches it would hang and could not be killed.",
		Fix:  "ps -o pid,stat,wchan:30,cmd -C ioguard-probe; lctl get_param *.*.import; dmesg | tail"},
	{Code: "mount-error", Group: "mount", Title: "mount answers with an error", Do: Drain, Retry: flapRetry, Causes: append(slices.Clone(fabricCauses), "lfs-mdt", "lfs-ost"),
		Text: "statfs or stat of the mount's root fails, as after an eviction or a stale unmount.",
		Fix:  "umount -f DIR && mount DIR; dmesg | tail"},
	{Code: "kmsg-lbug", Group: "kmsg", Title: "Lustre asserted in the kernel", Do: Drain,
		Text: "An LBUG or failed assertion: the thread that hit it never goes on, and the node must be rebooted.",
		Fix:  "keep the dump (lctl dk), report it, reboot the node"},
	{Code: "kmsg-fabric", Group: "kmsg", Title: "kernel messages of the adapter", Do: Warn, Causes: []string{"ib-gone", "ib-firmware", "ib-port"},
		Text: "The adapter's driver wrote errors since the last run: time-outs, resets, ports that went down, asynchronous errors, PCIe errors.",
		Fix:  "dmesg | grep -e mlx5 -e hfi1 -e pcieport"},
	{Code: "kmsg-hung", Group: "kmsg", Title: "the kernel found hung tasks", Do: Ignore,
		Text: "Tasks were blocked for more than two minutes since the last run.",
		Fix:  "dmesg | grep -A 20 'blocked for more than'"},
	{Code: "kmsg-lustre", Group: "kmsg", Title: "kernel messages of Lustre", Do: Ignore,
		Text: "Lost connections and requests that timed out since the last run. The imports tell whether it is over.",
		Fix:  "dmesg | grep -e Lustre"},
	{Code: "kmsg-lnet", Group: "kmsg", Title: "kernel messages of LNet", Do: Ignore,
		Text: "LNet wrote errors since the last run.",
		Fix:  "dmesg | grep LNet"},
	{Code: "local-dstate", Group: "local", Title: "processes stuck in Lustre", Do: Warn, Causes: append(slices.Clone(fabricCauses), "lfs-mdt", "lfs-ost", "mount-hang"),
		Text: "Processes have waited inside Lustre for more than a minute: in D state, or asleep while a connection is down.",
		Fix:  "ps -eo pid,stat,wchan:30,comm | grep -e ' D' -e ptlrpc -e ldlm; cat /proc/PID/stack"},
	{Code: "local-writeback", Group: "local", Title: "writeback is stuck", Do: Warn, Causes: append(slices.Clone(fabricCauses), "lfs-ost"),
		Text: "Much memory waits to be written and does not get less: a job would be short of memory.",
		Fix:  "grep -e Dirty -e Writeback /proc/meminfo; look at the OSTs"},
	{Code: "local-space", Group: "local", Title: "local disk full", Do: Warn,
		Text: "/tmp or the state directory is (nearly) full: jobs and the gate's own memory fail.",
		Fix:  "df -h /tmp; clean up"},
}

// Checks lists all checks, causes before consequences.
func Checks() []Check { return slices.Clone(checks) }

// CheckOf finds a check by its code.
func CheckOf(code string) (Check, bool) {
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Code == code })
	if i < 0 {
		return Check{}, false
	}
	return checks[i], true
}

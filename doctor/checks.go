package doctor

import "slices"

// Check is one thing that must be right, as data.
type Check struct {
	Code     string `json:"code"`
	Group    string `json:"group"` // conf, local, lustre, lnet, slurm
	Title    string `json:"title"`
	Text     string `json:"text"` // why it matters
	Expected string `json:"expected"`
	Fix      string `json:"fix"` // the command or line that puts it right
}

// confChecks are about ioguard's own configuration.
var confChecks = []Check{
	{Code: "conf-file", Group: "conf", Title: "configuration", Expected: "a file that can be used, on a local disk",
		Text: "Without a file the node gate looks and records but starts every job; with a broken one too. A file on Lustre hangs the hooks with it.",
		Fix:  "install -D -m 644 examples/slurm/ioguard.yaml /etc/ioguard/ioguard.yaml"},
	{Code: "conf-machine", Group: "conf", Title: "machine that is read", Expected: "/",
		Text: "The key machine makes ioguard read a recorded machine, or another root, in place of this one: hooks would judge that.",
		Fix:  "take the line machine: out of the configuration"},
	{Code: "conf-policy", Group: "conf", Title: "rules", Expected: "rules that load",
		Text: "The rules of the site are added to the built-in ones. When they do not load, ioguard watch does not start.",
		Fix:  "ioguard policy check DIR, with the folder that the key policy names"},
}

// localChecks are about what ioguard needs of the machine itself.
var localChecks = []Check{
	{Code: "local-root", Group: "local", Title: "rights", Expected: "uid 0",
		Text: "Most of what Lustre tells of its connections and services is for root alone. Prolog, epilog and agent run as root; doctor sees more as root.",
		Fix:  "sudo ioguard doctor"},
	{Code: "local-debugfs", Group: "local", Title: "debugfs", Expected: "/sys/kernel/debug can be listed",
		Text: "From 2.12 on Lustre and LNet keep imports, statistics and schedulers in debugfs.",
		Fix:  "mount -t debugfs none /sys/kernel/debug"},
	{Code: "local-kmsg", Group: "local", Title: "kernel log", Expected: "/dev/kmsg can be opened",
		Text: "Evictions, LBUGs and failing adapters are told in the kernel log.",
		Fix:  "run as root; in a container give it /dev/kmsg and CAP_SYSLOG"},
	{Code: "local-lustre-tools", Group: "local", Title: "Lustre's commands", Expected: "lctl, lnetctl and lfs in /usr/sbin, /usr/bin, /sbin or /bin",
		Text: "lnetctl alone tells whether an interface is really up; lctl applies what ioguard recommends.",
		Fix:  "install lustre-client-utils (Debian), lustre-client or lustre (RPM)"},
	{Code: "local-slurm-tools", Group: "local", Title: "Slurm's commands", Expected: "scontrol and sinfo start",
		Text: "scontrol drains and resumes nodes, sinfo tells the brake how many are drained. Hooks have no PATH.",
		Fix:  "slurm: {bin: /opt/slurm/bin} in the configuration, with the folder of scontrol and sinfo"},
	{Code: "local-state", Group: "local", Title: "state directory", Expected: "a local folder of root's that nobody else can write",
		Text: "Here prolog and epilog keep what the last run saw, and the records. On a remote file system a hook could hang; whoever may write there tells root what to believe.",
		Fix:  "install -d -m 755 -o root -g root /var/lib/ioguard"},
	{Code: "local-space", Group: "local", Title: "space for records", Expected: "200 MiB and 1000 inodes free",
		Text: "Without space hooks work without memory, and nothing is recorded.",
		Fix:  "make room, or name another folder under state_dir"},
	{Code: "local-users", Group: "local", Title: "users reach their notice", Expected: "folders of state_dir with mode o+x",
		Text: "TaskProlog runs as the job's user and reads what the prolog prepared for the job below state_dir.",
		Fix:  "chmod o+x, for each folder on the way to state_dir"},
	{Code: "local-records", Group: "local", Title: "records", Expected: "ioguard.db can be opened",
		Text: "Findings, jobs and what the hooks did are kept in ioguard.db.",
		Fix:  "if it is damaged, move the file away: ioguard makes a new one"},
	{Code: "local-syslog", Group: "local", Title: "syslog", Expected: "a socket that takes messages",
		Text: "Slurm throws away what a hook prints unless it fails: a hook's own troubles are told in syslog alone.",
		Fix:  "gate: {syslog: /dev/log} in the configuration; systemctl status systemd-journald rsyslog"},
}

// lustreChecks are about Lustre and LNet.
var lustreChecks = []Check{
	{Code: "jobid-var", Group: "lustre", Title: "job ids", Expected: "jobid_var SLURM_JOB_ID",
		Text: "Without job ids the servers cannot tell jobs apart, and nothing can be said about who loads them.",
		Fix:  "on the MGS: lctl set_param -P jobid_var=SLURM_JOB_ID"},
	{Code: "jobid-name", Group: "lustre", Title: "form of job ids", Expected: "%j first, or no %j; the same as the configuration's jobid_name",
		Text: "jobid_name says how ids are written. Ids end after 31 bytes without a word, so what stands behind a long host name is lost.",
		Fix:  "on the MGS: lctl set_param -P jobid_name=%j:%u:%h; in the configuration: jobid_name: \"%j:%u:%h\""},
	{Code: "jobstats", Group: "lustre", Title: "job_stats", Expected: "a file that can be read for each target",
		Text: "job_stats are what ioguard lives on.",
		Fix:  "ls -l /proc/fs/lustre/{obdfilter,mdt}/*/job_stats; mount the targets"},
	{Code: "jobstats-cleanup", Group: "lustre", Title: "memory of job_stats", Expected: "job_cleanup_interval of 60 s to 1 h",
		Text: "After so long without work a job leaves job_stats and its counters start again. 0 keeps all jobs for ever, and reading the file takes longer and longer; below 60 s jobs vanish between their bursts.",
		Fix:  "on the MGS: lctl set_param -P '*.*.job_cleanup_interval=600'"},
	{Code: "jobstats-format", Group: "lustre", Title: "form of job_stats", Expected: "a release other than 2.15.0 and 2.15.1",
		Text: "2.15.0 and 2.15.1 print job_stats that are no YAML, with times since boot (LU-16110, LU-16231). ioguard reads them; other tools may not.",
		Fix:  "update the servers to 2.15.2 or later"},
	{Code: "tbf", Group: "lustre", Title: "throttling", Expected: "nrs_policies with tbf on ost_io and mdt",
		Text: "TBF is the scheduler by which a job can be throttled on a server.",
		Fix:  "lctl get_param ost.OSS.ost_io.nrs_policies mds.MDS.mdt.nrs_policies; a Lustre built without server NRS has none"},
	{Code: "tbf-release", Group: "lustre", Title: "throttling is safe", Expected: "2.17 or later",
		Text: "TBF crashed servers: LU-15130, LU-15056 and LU-15059 are fixed in 2.15, LU-18400 in 2.17. Vendors may have ported the fixes back.",
		Fix:  "update the servers before throttling; until then: lctl set_param 'ost.OSS.*.nrs_policies=fifo' 'mds.MDS.*.nrs_policies=fifo'"},
	{Code: "tbf-default", Group: "lustre", Title: "default rule of TBF", Expected: "a rule default where tbf is started",
		Text: "Requests that no rule matches go by the rule default.",
		Fix:  "start the policy anew: lctl set_param ost.OSS.ost_io.nrs_policies=fifo, then =tbf"},
	{Code: "pools", Group: "lustre", Title: "OST pools", Expected: "a pool for each kind of OST",
		Text: "A layout that puts small files on SSDs needs a pool of the SSD OSTs.",
		Fix:  "on the MGS: lctl pool_new FS.ssd; lctl pool_add FS.ssd OST[4-5]"},
	{Code: "timeout-lustre", Group: "lustre", Title: "Lustre's time-outs", Expected: "at_max above at_min, ldlm_timeout below timeout",
		Text: "timeout bounds what adaptive time-outs do not; with at_max 0 a busy server loses its clients instead of telling them to wait.",
		Fix:  "on the MGS: lctl set_param -P timeout=100 at_max=600 ldlm_timeout=20"},
	{Code: "version", Group: "lustre", Title: "releases", Expected: "client and servers at most one minor series apart",
		Text: "Releases far apart work together in part only, and nobody tests them together.",
		Fix:  "update the older side, servers first"},
	{Code: "lnet-timeout", Group: "lnet", Title: "LNet's time-outs", Expected: "lnd_timeout = (transaction_timeout - 1) / (retry_count + 1)",
		Text: "A message must be able to fail and be sent again retry_count times within transaction_timeout.",
		Fix:  "lnetctl set transaction_timeout 150 (LNet works out lnd_timeout from it); keep it with lnetctl export --backup > /etc/lnet.conf"},
	{Code: "lnet-health", Group: "lnet", Title: "LNet's health", Expected: "health_sensitivity and retry_count above 0",
		Text: "With health_sensitivity 0 LNet never lowers a health value, and with retry_count 0 it sends nothing again: a bad interface is not avoided where there are several.",
		Fix:  "lnetctl set health_sensitivity 100; lnetctl set retry_count 2"},
	{Code: "lnet-order", Group: "lnet", Title: "LNet's against Lustre's time-out", Expected: "transaction_timeout not above Lustre's timeout",
		Text: "When a message may take longer in LNet than a request in Lustre, Lustre gives up first and connects again while LNet still tries. 2.17 as it comes has 150 and 100; adaptive time-outs soften it.",
		Fix:  "lnetctl set transaction_timeout 50, or on the MGS: lctl set_param -P timeout=150; the same on all nodes"},
}

// slurmChecks are about Slurm's configuration.
var slurmChecks = []Check{
	{Code: "slurm-ctld", Group: "slurm", Title: "controller", Expected: "slurmctld is UP",
		Text: "Without the controller no node can be drained or resumed, and jobs have no names.",
		Fix:  "scontrol ping; systemctl status slurmctld; slurm: {conf: /etc/slurm/slurm.conf} in the configuration when it is at another place"},
	{Code: "slurm-version", Group: "slurm", Title: "Slurm's release", Expected: "22.05 or later",
		Text: "The hooks were tried with 22.05 and read in the sources of later releases.",
		Fix:  "update Slurm, or try the hooks on one node first"},
	{Code: "slurm-prolog", Group: "slurm", Title: "Prolog", Expected: "Prolog calls ioguard prolog",
		Text: "The prolog proves that a node can reach its storage before a job starts there.",
		Fix:  "cp examples/slurm/prolog.d/* /etc/slurm/prolog.d/; slurm.conf: Prolog=/etc/slurm/prolog.d/*"},
	{Code: "slurm-epilog", Group: "slurm", Title: "Epilog", Expected: "Epilog calls ioguard epilog",
		Text: "The epilog accounts what a job did to Lustre from its nodes.",
		Fix:  "cp examples/slurm/epilog.d/* /etc/slurm/epilog.d/; slurm.conf: Epilog=/etc/slurm/epilog.d/*"},
	{Code: "slurm-flags", Group: "slurm", Title: "PrologFlags", Expected: "Alloc (Contain and X11 bring it)",
		Text: "Without Alloc the prolog runs when the first step reaches a node: nodes of a salloc, and a batch job's other nodes, are not checked before.",
		Fix:  "slurm.conf: PrologFlags=Alloc"},
	{Code: "slurm-timeout", Group: "slurm", Title: "time for a hook", Expected: "a bound above gate.budget and 5 s",
		Text: "Without PrologEpilogTimeout a hook that hangs holds job and node for ever. One below gate.budget kills the prolog, which drains the node.",
		Fix:  "slurm.conf: PrologEpilogTimeout=60"},
	{Code: "slurm-message", Group: "slurm", Title: "srun's patience", Expected: "twice MessageTimeout above gate.budget",
		Text: "Without PrologFlags=Alloc srun gives up after twice MessageTimeout while the prolog still looks.",
		Fix:  "slurm.conf: PrologFlags=Alloc, or MessageTimeout=30, or a smaller gate.budget"},
	{Code: "slurm-batch", Group: "slurm", Title: "time to start a batch job", Expected: "BatchStartTimeout above gate.budget",
		Text: "After BatchStartTimeout a batch job that has not started may be taken for lost.",
		Fix:  "slurm.conf: BatchStartTimeout=60"},
	{Code: "slurm-health", Group: "slurm", Title: "HealthCheckProgram", Expected: "a program that calls ioguard check, every some minutes",
		Text: "It finds nodes that become sick while no job starts, and resumes those that ioguard drained once they are healthy again.",
		Fix:  "cp examples/slurm/healthcheck /etc/slurm/ioguard-healthcheck; slurm.conf: HealthCheckProgram=/etc/slurm/ioguard-healthcheck, HealthCheckInterval=300, HealthCheckNodeState=ANY,CYCLE"},
	{Code: "slurm-nohold", Group: "slurm", Title: "jobs of a failed prolog", Expected: "SchedulerParameters without nohold_on_prolog_fail",
		Text: "With it a job whose prolog fails goes to the next node by itself: with a fault that all nodes share it drains one node every two minutes until none is left.",
		Fix:  "slurm.conf: take nohold_on_prolog_fail out of SchedulerParameters; the policy requeue does the same under the brake"},
	{Code: "slurm-taskprolog", Group: "slurm", Title: "TaskProlog (optional)", Expected: "TaskProlog calls ioguard prolog",
		Text: "It tells a job's user in one line when there is an open finding, and exports IOGUARD_OUT.",
		Fix:  "cp examples/slurm/taskprolog /etc/slurm/ioguard-taskprolog; slurm.conf: TaskProlog=/etc/slurm/ioguard-taskprolog"},
	{Code: "slurm-return", Group: "slurm", Title: "nodes that come back", Expected: "ReturnToService 1 or 2",
		Text: "With 0 a node that was down stays so until somebody resumes it. ioguard resumes none but those that it drained.",
		Fix:  "slurm.conf: ReturnToService=1"},
	{Code: "slurm-slurmd", Group: "slurm", Title: "SlurmdParameters", Expected: "no config_overrides",
		Text: "config_overrides is made for tests: a node with less memory or fewer CPUs than slurm.conf says is used all the same.",
		Fix:  "slurm.conf: take config_overrides out of SlurmdParameters"},
}

// checks is the one table of checks, in the order in which they are shown.
var checks = slices.Concat(confChecks, localChecks, lustreChecks, slurmChecks)

// Checks lists all checks.
func Checks() []Check { return slices.Clone(checks) }

// CheckOf finds a check by its code.
func CheckOf(code string) (Check, bool) {
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Code == code })
	if i < 0 {
		return Check{}, false
	}
	return checks[i], true
}

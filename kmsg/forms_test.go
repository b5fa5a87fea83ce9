package kmsg

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const device = "lustre-OST0002-osc-ffff8880086b6800"

// one classifies a single message.
func one(text string) []Event { return Classify([]Message{{Text: text}}) }

// The whole of what is taken from a message, in old and new forms.
func TestEvents(t *testing.T) {
	rc := func(n int) *int { return &n }
	at := func(sec int64) time.Time { return time.Unix(sec, 0).UTC() }
	client := Event{Target: "lustre-OST0002", FS: "lustre", Device: device, Side: Client, NID: "10.77.0.1@o2ib"}
	with := func(e Event, change func(*Event)) Event { change(&e); return e }
	lost := with(client, func(e *Event) { e.Kind, e.How = ConnectionLost, "waits" })
	mgsLost := Event{Kind: ConnectionLost, Target: "MGS", Device: "MGC10.77.0.1@o2ib", NID: "10.77.0.1@o2ib", How: "fails"}
	evicted := with(client, func(e *Event) { e.Kind, e.NID = Evicted, "" })
	failed := with(client, func(e *Event) { e.Kind, e.Op, e.RC = OperationFailed, "ost_write", rc(-107) })
	request := func(how string, sent, left time.Time) Event {
		return Event{Kind: RequestTimeout, Target: "lustre-OST0005", FS: "lustre", Device: "lustre-OST0005-osc-ffff8880086b6800", Side: Client,
			NID: "10.77.0.1@o2ib", Op: "obd_ping", How: how, Sent: sent, Real: left}
	}
	const req = "  req@000000008813411c x1882446363757696/t0(0) o400->lustre-OST0005-osc-ffff8880086b6800@10.77.0.1@o2ib:28/4 lens 224/224 e 0 to 1 dl 1795242680 ref 1 fl Rpc:eXNQr/200/ffffffff rc 0/-1 job:'cp.1000' uid:0 gid:0"
	const expire = "Lustre: 431:0:(client.c:2472:ptlrpc_expire_one_request()) @@@ Request sent has "
	const wait = " was lost; in progress operations using this service will wait for recovery to complete"
	for text, want := range map[string]Event{
		"Lustre: " + device + ": Connection to lustre-OST0002 (at 10.77.0.1@o2ib)" + wait:                                                            lost,
		"LustreError: MGC10.77.0.1@o2ib: Connection to MGS (at 10.77.0.1@o2ib) was lost; in progress operations using this service will fail":        mgsLost,
		"LustreError: 166-1: MGC10.77.0.1@o2ib: Connection to MGS (at 10.77.0.1@o2ib) was lost; in progress operations using this service will fail": mgsLost,
		"Lustre: lustre-MDT0000-lwp-OST0018: Connection to lustre-MDT0000 (at 0@lo)" + wait:                                                          {Kind: ConnectionLost, Target: "lustre-MDT0000", FS: "lustre", Device: "lustre-MDT0000-lwp-OST0018", Side: OSS, NID: "0@lo", How: "waits"},
		"Lustre: DIAS-OST0001-osc-MDT0000: Connection to DIAS-OST0001 (at 192.168.14.178@tcp)" + wait:                                                {Kind: ConnectionLost, Target: "DIAS-OST0001", FS: "DIAS", Device: "DIAS-OST0001-osc-MDT0000", Side: MDS, NID: "192.168.14.178@tcp", How: "waits"},
		"Lustre: lustre-MDT0000-osp-MDT0001: Connection to lustre-MDT0000 (at fe80::1@tcp1)" + wait:                                                  {Kind: ConnectionLost, Target: "lustre-MDT0000", FS: "lustre", Device: "lustre-MDT0000-osp-MDT0001", Side: MDS, NID: "fe80::1@tcp1", How: "waits"},
		"Lustre: " + device + ": Connection restored to  (at 10.77.0.1@o2ib)":                                                                        with(client, func(e *Event) { e.Kind = ConnectionRestored }),
		"Lustre: " + device + ": Connection restored to 10.77.0.1@o2ib (at 10.77.0.1@o2ib)":                                                          with(client, func(e *Event) { e.Kind, e.Peer = ConnectionRestored, "10.77.0.1@o2ib" }),
		"Lustre: MGC10.77.0.1@o2ib: Connection restored to MGS (at 10.77.0.1@o2ib)":                                                                  {Kind: ConnectionRestored, Target: "MGS", Device: "MGC10.77.0.1@o2ib", NID: "10.77.0.1@o2ib", Peer: "MGS"},
		"LustreError: " + device + ": This client was evicted by lustre-OST0002; in progress operations using this service will fail.":               evicted,
		"LustreError: 167-0: " + device + ": This client was evicted by lustre-OST0002; in progress operations using this service will fail.":        evicted,
		"Lustre: Evicted from MGS (at 10.77.0.1@o2ib) after server handle changed from 0x8b0b1beb0acd7917 to 0xa38867a0e4a4776":                      {Kind: Evicted, Target: "MGS", NID: "10.77.0.1@o2ib"},
		"LustreError: " + device + ": operation ost_write to node 10.77.0.1@o2ib failed: rc = -107":                                                  failed,
		"LustreError: 11-0: " + device + ": operation ost_write to node 10.77.0.1@o2ib failed: rc = -107":                                            failed,
		"LustreError: 11-0: " + device + ": Communicating with 10.77.0.1@o2ib, operation ost_write failed with -107.":                                failed,
		expire + "has failed due to network error":                                                                                                   {},
		expire + "failed due to network error: [sent 1795242664/real 1795242670]" + req:                                                              request("network_error", at(1795242664), at(1795242670)),
		expire + "timed out for sent delay: [sent 1795242664/real 0]" + req:                                                                          request("sent_delay", at(1795242664), time.Time{}),
		expire + "timed out for slow reply: [sent 1795242664/real 1795242664]" + req:                                                                 request("slow_reply", at(1795242664), at(1795242664)),
		"Lustre: lustre-MDT0001: haven't heard from client e0ccf427-7220-40df-9533-dc99439cefc0 (at 10.77.0.11@o2ib) in 104 seconds. I think it's dead, and I am evicting it. exp 0000000028e3741e, cur 1795242755 deadline 1795242751 last 1795242651": {Kind: ClientEvicted, Target: "lustre-MDT0001", FS: "lustre", Device: "lustre-MDT0001", Side: MDS, NID: "10.77.0.11@o2ib", Peer: "e0ccf427-7220-40df-9533-dc99439cefc0", How: "silent"},
		"LustreError: 138-a: lustre-OST0000: A client on nid 10.77.0.11@o2ib was evicted due to a lock blocking callback time out: rc -107":                                                                                                             {Kind: ClientEvicted, Target: "lustre-OST0000", FS: "lustre", Device: "lustre-OST0000", Side: OSS, NID: "10.77.0.11@o2ib", How: "lock_timeout", RC: rc(-107)},
		"LustreError: 0:0:(ldlm_lockd.c:334:waiting_locks_callback()) ### lock callback timer expired after 102s: evicting client at 10.77.0.11@o2ib  ns: mdt-lustre-MDT0000_UUID lock: ffff8801/0x1 lrc: 3/0,0":                                        {Kind: ClientEvicted, Target: "lustre-MDT0000", FS: "lustre", Device: "lustre-MDT0000", Side: MDS, NID: "10.77.0.11@o2ib", How: "lock_timeout"},
		"LustreError: 6289:0:(lmv_obd.c:1434:lmv_statfs()) lustre-MDT0000-mdc-ffff8880086b6800: can't stat MDS #0: rc = -110":                                                                                                                           {Kind: LustreError, Target: "lustre-MDT0000", FS: "lustre", Device: "lustre-MDT0000-mdc-ffff8880086b6800", Side: Client, RC: rc(-110)},
		"LustreError: 2022:0:(osc_quota.c:196:osc_quotactl()) ptlrpc_queue_wait failed, rc: -5":                                                                                                                                                         {Kind: LustreError, RC: rc(-5)},
		"LNetError: 4069:0:(lib-ptl.c:189:lnet_try_match_md()) Matching packet from 12345-172.28.1.43@tcp, match 1820705849269056 length 1048576 too big: 1015808 left, 1015808 allowed":                                                                {Kind: LNetError, NID: "172.28.1.43@tcp"},
		"LNet: 1 local NIs in recovery (showing 1): 10.77.0.11@o2ib":                                                                                                                                                                                    {Kind: LNetRecovery, NID: "10.77.0.11@o2ib", NIDs: []string{"10.77.0.11@o2ib"}},
		"LNet: 2 peer NIs in recovery (showing 2): 10.77.0.11@o2ib, 10.77.0.12@o2ib":                                                                                                                                                                    {Kind: LNetPeerRecovery, NID: "10.77.0.11@o2ib", NIDs: []string{"10.77.0.11@o2ib", "10.77.0.12@o2ib"}},
		"LustreError: 2529:0:(lprocfs_jobstats.c:499:lprocfs_job_stats_fini()) LBUG":                                                                                                                                                                    {Kind: LBUG},
		"INFO: task ll_sa_2564:2565 blocked for more than 120 seconds.":                                                                                                                                                                                 {Kind: HungTask, Task: "ll_sa_2564:2565"},
		"INFO: task cp:12 blocked in I/O wait for more than 122 seconds.":                                                                                                                                                                               {Kind: HungTask, Task: "cp:12"},
		"watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [ll_ost_io00_002:2310]":                                                                                                                                                                      {Kind: SoftLockup, Task: "ll_ost_io00_002:2310"},
		"infiniband rxe0: set down":   {Kind: IBPort, Device: "rxe0", How: "down"},
		"infiniband rxe0: set active": {Kind: IBPort, Device: "rxe0", How: "up"},
		"ib0: link down":              {Kind: IBPort, Device: "ib0", How: "down"},
		"mlx5_core 0000:61:00.0: Port module event: module 0, Cable unplugged":                                                      {Kind: MLX5Port, Device: "0000:61:00.0", How: "unplugged"},
		"mlx5_core 0000:01:00.0 enp1s0f0: Link down":                                                                                {Kind: MLX5Port, Device: "0000:01:00.0", How: "down"},
		"mlx5_core 0000:01:00.0: mlx5_0: Port: 1 Link DOWN":                                                                         {Kind: MLX5Port, Device: "0000:01:00.0", How: "down"},
		"mlx5_core 0000:61:00.0: poll_health:840:(pid 0): device's health compromised - reached miss count":                         {Kind: MLX5Health, Device: "0000:61:00.0"},
		"mlx5_core 0000:61:00.0: print_health_info:380:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:": {Kind: MLX5Health, Device: "0000:61:00.0"},
		"mlx5_core 0000:61:00.0: print_health_info:383:(pid 0): assert_var[0] 0x00000001":                                           {Kind: MLX5Health, Device: "0000:61:00.0"},
		"mlx5_core 0000:61:00.0: poll_health:829:(pid 0): Fatal error 1 detected":                                                   {Kind: MLX5Health, Device: "0000:61:00.0"},
		"mlx5_core 0000:61:00.0: wait_func:1137:(pid 20022): CREATE_DCT(0x710) timeout. Will cause a leak of a command resource":    {Kind: MLX5Timeout, Device: "0000:61:00.0", Op: "CREATE_DCT"},
		"mlx5_core 0000:61:00.0: cmd_exec_helper:12:(pid 3): cmd[22]: CREATE_DCT(0x710) No done completion":                         {Kind: MLX5Timeout, Device: "0000:61:00.0", Op: "CREATE_DCT"},
		"mlx5_core 0000:61:00.0 ens1: TX timeout detected":                                                                          {Kind: MLX5Timeout, Device: "0000:61:00.0"},
		"infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe":                                                                   {Kind: MLX5Async, Device: "mlx5_0"},
		"mlx5_0:dump_cqe:262:(pid 0): dump error cqe":                                                                               {Kind: MLX5Async, Device: "mlx5_0"},
		"mlx5_core 0000:61:00.0 ens1: Error cqe on cqn 0x4ab, ci 0x1, sqn 0x10, opcode 0xd, syndrome 0x2, vendor syndrome 0x0":      {Kind: MLX5Async, Device: "0000:61:00.0"},
		"mlx5_core 0000:61:00.0: CQE error on CQN 0x4ab, syndrome 0x1":                                                              {Kind: MLX5Async, Device: "0000:61:00.0"},
		"hfi1 0000:5e:00.0: hfi1_0: logical state changed to PORT_DOWN (0x1)":                                                       {Kind: HFI1, Device: "hfi1_0", How: "down"},
		"pcieport 0000:00:03.0: AER: Corrected error received: 0000:03:00.0":                                                        {Kind: PCIeAER, Device: "0000:00:03.0", How: "corrected"},
		"mlx5_core 0000:61:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer, (Requester ID)":          {Kind: PCIeAER, Device: "0000:61:00.0", How: "nonfatal"},
		"mlx5_core 0000:61:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)":   {Kind: PCIeAER, Device: "0000:61:00.0", How: "fatal"},
	} {
		got := one(text)
		if want.Kind == "" {
			if len(got) != 0 {
				t.Errorf("%q is %s", text, got[0].Kind)
			}
			continue
		}
		want.Count, want.Message = 1, Message{Text: text}
		if diff := cmp.Diff([]Event{want}, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// What users can write stands behind a message's beginning, and never decides.
func TestClassifyHostileText(t *testing.T) {
	const req = "Lustre: 431:0:(client.c:2472:ptlrpc_expire_one_request()) @@@ Request sent has timed out for slow reply: [sent 1795242664/real 1795242664]  req@0 x1/t0(0) o4->lustre-OST0005-osc-ffff8880086b6800@10.77.0.1@o2ib:28/4 lens 224/224 e 0 to 1 dl 1 ref 1 fl Rpc:e/0/0 rc 0/-1 job:'"
	for _, words := range []string{
		"LBUG", "ASSERTION( 1 ) failed", "x: This client was evicted by lustre-OST0001; ", "Skipped 4000 previous similar messages", "\nLNetError: 1:0:(a:1:b()) LBUG",
		"mlx5_core 0000:61:00.0: health compromised", "INFO: task x:1 blocked for more than 120 seconds.", "' uid:0 [sent 1/real 2]", "o4->evil-OST0001@1@tcp:6/4 ", "]: [sent 1/real 1]",
	} {
		got := one(req + words + "' uid:1000 gid:1000")
		if len(got) != 1 || got[0].Kind != RequestTimeout || got[0].Target != "lustre-OST0005" || got[0].NID != "10.77.0.1@o2ib" || got[0].Op != "ost_write" || got[0].Sent.Unix() != 1795242664 || got[0].RC != nil || got[0].Count != 1 {
			t.Errorf("job %q gives %+v", words, got)
		}
	}
	for text, want := range map[string]Kind{
		"INFO: task LBUG:12 blocked for more than 120 seconds.":                                 HungTask,
		"INFO: task  blocked : :12 blocked for more than 120 seconds.":                          HungTask,
		"INFO: task LustreError: :12 blocked for more than 120 seconds.":                        HungTask,
		"watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [LustreError: x:1]":                  SoftLockup,
		"LustreError: 1:0:(statahead.c:2471:start()) lustre: no thread for 'LBUG'":              LustreError,
		"LustreError: 1:0:(statahead.c:2471:start()) x 'ASSERTION( 1 ) failed' : rc = -4":       LustreError,
		"LustreError: 1:0:(file.c:1:f()) name 'x: Connection to T (at N) was lost; ' will wait": LustreError,
		"LustreError: LBUG": LustreError,
		"LBUG":              "",
		"python3[12]: segfault at 0 LustreError: 1:0:(a.c:1:b()) LBUG":   "",
		"eth1 speed is unknown, defaulting to 1000":                      "",
		"systemd[1]: LustreError: x: This client was evicted by MGS; in": "",
		"Lustre: Failing over lustre-OST0000":                            "",
		"usb 1-1: mlx5_core 0000:61:00.0: health compromised":            "",
		"Lustre: " + strings.Repeat("9", 5000):                           "",
	} {
		got := one(text)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].Kind != want) {
			t.Errorf("%q gives %+v, want %q", text, got, want)
		}
	}
	if got := Classify([]Message{{Text: "LustreError: 1:0:(a.c:1:b()) LBUG", User: true}}); len(got) != 0 {
		t.Errorf("what a process wrote gives %+v", got)
	}
}

func TestClassifySkipped(t *testing.T) {
	site := func(n int) string { return fmt.Sprintf("LustreError: %d:0:(lmv_obd.c:1434:lmv_statfs()) ", n) }
	const evicted = "LustreError: " + device + ": This client was evicted by lustre-OST0002; in progress"
	const restored = "Lustre: " + device + ": Connection restored to  (at 1@tcp)"
	for name, tc := range map[string]struct {
		texts []string
		want  string
	}{
		"call site, another process": {[]string{site(1) + "rc = -1", "LustreError: 1:0:(x.c:1:y()) rc = -1", site(2) + "Skipped 5 previous similar messages"}, "6 1"},
		"one":                        {[]string{site(1) + "rc = -1", site(1) + "Skipped 1 previous similar message"}, "2"},
		"last of the site":           {[]string{site(1) + "rc = -1", site(1) + "rc = -1", site(1) + "Skipped 3 previous similar messages"}, "1 4"},
		"console, by prefix":         {[]string{evicted, restored, "LustreError: Skipped 7 previous similar messages", "Lustre: Skipped 2 previous similar messages"}, "8 3"},
		"of what is no event":        {[]string{restored, "Lustre: Failing over lustre-OST0000", "Lustre: Skipped 9 previous similar messages"}, "1"},
		"console, not the site's":    {[]string{evicted, site(1) + "rc = -1", "LustreError: Skipped 7 previous similar messages"}, "8 1"},
		"of nothing":                 {[]string{site(1) + "Skipped 3 previous similar messages", "LNetError: Skipped 1 previous similar message"}, ""},
		"absurd":                     {[]string{evicted, "LustreError: Skipped 99999999999999999999 previous similar messages"}, "1 1"},
	} {
		var messages []Message
		for _, text := range tc.texts {
			messages = append(messages, Message{Text: text})
		}
		var got []string
		for _, e := range Classify(messages) {
			got = append(got, fmt.Sprint(e.Count))
		}
		if got := strings.Join(got, " "); got != tc.want {
			t.Errorf("%s: counts %q, want %q", name, got, tc.want)
		}
	}
}

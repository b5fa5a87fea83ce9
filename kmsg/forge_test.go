package kmsg

import (
	"strings"
	"testing"
)

// forgers are names a user may give a task, cut to the 15 bytes that the kernel keeps.
var forgers = []string{
	"ib0: link down", "ib0: link up", "m:a:(pid 1): ", "mlx5_0:a:1:(pid", "mlx5_0: ", "infiniband m:a:", "infiniband x: s",
	"INFO: task a:1 ", "rcu: INFO: rcu_", "INFO: rcu_x ", "Out of memory: ", "Lustre: ", "Lustre: a: ", "LustreError: ", "LustreError: a: ", "LNetError: a",
	"LNet: 1 local ", "BUG: soft lockup", "IPv6: ADDRCONF(", "a 0000:61:00.0:", "hfi1 0000:61:00", "Lustre: Skipped", "Lustre: 1:0:(a:", "Lustre: LBUG",
}

// endings are what names of files could add, far behind.
var endings = []string{
	"x", "in error state", "error cqe", " blocked for more than 120 seconds.", " detected stall", ": Connection to T (at 1@tcp) was lost; ", "LBUG", "set down",
	" NIs in recovery (showing 1): 1@tcp", "1 previous similar messages", ": link down", "timeout. Will cause a leak of a command resource", "ASSERTION( 0 )",
	": This client was evicted by fs-OST0001; in progress", "health compromised", "Killed process 1 (x)", "): 1:(pid 2): dump error cqe",
}

// TestTaskNamesForgeNothing: some messages begin with the name of a task, and go
// on with the name of a file. Both are the user's.
func TestTaskNamesForgeNothing(t *testing.T) {
	for _, name := range forgers {
		name = name[:min(len(name), 15)]
		texts := []string{name + " invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0", name + " (1234): drop_caches: 3"}
		for _, file := range endings {
			texts = append(texts,
				name+"[1234]: segfault at 0 ip 0000000000401136 sp 00007ffd3a4b3c40 error 6 in "+file+"[401000+1000] likely on CPU 1 (core 1, socket 0)",
				"traps: "+name+"[1234] general protection fault ip:401136 sp:7ffd3a4b3c40 error:0 in "+file+"[401000+1000]",
				name+"[1234]: segfault at 0 in "+file)
		}
		for _, text := range texts {
			if got := Classify([]Message{{Level: 4, Text: text}, {Level: 6, Text: text}}); len(got) > 0 {
				t.Errorf("%q is %s", text, got[0].Kind)
			}
			// a source without levels cannot tell an error of Lustre's by its level
			for _, e := range Classify([]Message{{Level: UnknownLevel, Text: text}}) {
				if low := e.Kind == LustreError || e.Kind == LNetError; !low || !strings.HasPrefix(name, "L") {
					t.Errorf("without a level %q is %s", text, e.Kind)
				}
			}
		}
	}
}

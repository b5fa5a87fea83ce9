package kmsg

import "strings"

// parts is a message taken apart from its beginning.
type parts struct {
	family family
	site   string // place in Lustre's source: "client.c:2472:ptlrpc_expire_one_request()"
	device string // of a driver's message
	body   string // what remains, up to where a user's words may follow
}

func (p *parts) lustre() bool { return p.family >= lustre && p.family <= lnetError }

// split tells the family by the first words and takes them off. Only the first
// line of a message counts: what is behind a newline could be anybody's. A message
// may also begin with a task's name, 15 bytes of the user's choice ("NAME[PID]:
// segfault at ..."), and go on with a file's: no form may be met by those.
func split(text string) parts {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) < 8 {
		return parts{body: text}
	}
	switch text[0] {
	case 'L':
		if p, ok := splitLustre(text); ok {
			return p
		}
	case 'i':
		if rest, ok := strings.CutPrefix(text, "infiniband "); ok {
			return splitInfiniband(rest)
		}
	case 'm':
		if p := splitInfiniband(text); p.family == mlx5 && strings.HasPrefix(text, "mlx5_") { // old drivers
			return p
		}
	}
	if p, ok := splitPCI(text); ok {
		return p
	}
	return parts{body: text}
}

// splitLustre takes apart what Lustre and LNet print (libcfs/libcfs/debug.c,
// cfs_print_to_console): a prefix; up to 2.15 the number of some messages; where
// it is no message for the console the process and the place in the source:
//
//	LustreError: 11-0: lustre-OST0002-osc-ffff8880086b6800: operation ost_write to node 10.77.0.1@o2ib failed: rc = -107
//	Lustre: 432:0:(client.c:2472:ptlrpc_expire_one_request()) Skipped 7 previous similar messages
//	LNet: 1 local NIs in recovery (showing 1): 10.77.0.11@o2ib
func splitLustre(text string) (parts, bool) {
	prefix, _, ok := strings.Cut(text, ": ")
	if !ok {
		return parts{}, false
	}
	p := parts{}
	switch prefix {
	case "Lustre":
		p.family = lustre
	case "LustreError":
		p.family = lustreError
	case "LNet":
		p.family = lnet
	case "LNetError":
		p.family = lnetError
	default:
		return parts{}, false
	}
	body := cutNumber(text[len(prefix)+2:])
	p.site, body = cutSite(body)
	p.body, _, _ = strings.Cut(body, " job:'") // the user's words, up to the end for all we know
	return p, true
}

// cutNumber drops a message number: "11-0: ", "138-a: ", "13a-8: ".
func cutNumber(s string) string {
	i := hexDigits(s)
	if i == 0 || i > 4 || i >= len(s) || s[i] != '-' {
		return s
	}
	j := hexDigits(s[i+1:])
	rest, ok := strings.CutPrefix(s[i+1+j:], ": ")
	if j == 0 || j > 2 || !ok {
		return s
	}
	return rest
}

func hexDigits(s string) int {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f') {
		i++
	}
	return i
}

func digits(s string) int {
	i := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

// cutSite cuts "432:0:(client.c:2472:ptlrpc_expire_one_request()) " off.
func cutSite(s string) (site, rest string) {
	i := digits(s)
	if i == 0 || i >= len(s) || s[i] != ':' {
		return "", s
	}
	j := i + 1 + digits(s[i+1:])
	in, ok := strings.CutPrefix(s[j:], ":(")
	if !ok {
		return "", s
	}
	site, rest, ok = strings.Cut(in, ") ")
	if !ok || len(site) > 120 || !strings.HasSuffix(site, "()") {
		return "", s
	}
	return site, rest
}

// skipped tells how many messages the kernel left out, by its line that says so.
func (p *parts) skipped() (uint64, bool) {
	if !p.lustre() {
		return 0, false
	}
	rest, ok := strings.CutPrefix(p.body, "Skipped ")
	if !ok {
		return 0, false
	}
	count, rest, _ := strings.Cut(rest, " ")
	n, ok := number(count)
	return n, ok && n < 1<<31 && strings.HasPrefix(rest, "previous similar message") // an int of the kernel
}

// splitInfiniband takes "rxe0: set down" and "mlx5_0: dump_cqe:278:(pid 0): dump
// error cqe" apart; of old drivers there is no blank behind the device. Devices
// may be renamed: it is the naming of a function that tells mlx5's messages.
func splitInfiniband(text string) parts {
	device, body, ok := strings.Cut(text, ":")
	if !ok || len(device) > 64 || strings.Contains(device, " ") {
		return parts{body: text}
	}
	body = strings.TrimPrefix(body, " ")
	p := parts{family: infiniband, device: device, body: cutFunction(body)}
	if len(p.body) < len(body) {
		p.family = mlx5
	}
	return p
}

// cutFunction drops "poll_health:840:(pid 0): ". A task's name is too short to
// look like it behind "mlx5_0:".
func cutFunction(s string) string {
	head, rest, ok := strings.Cut(s, "): ")
	head, pid, ok2 := strings.Cut(head, ":(pid ")
	function, line, ok3 := strings.Cut(head, ":")
	_, ok4 := number(pid)
	_, ok5 := number(line)
	if !ok || !ok2 || !ok3 || !ok4 || !ok5 || strings.ContainsAny(function, " []") {
		return s
	}
	return rest
}

// splitPCI takes apart what dev_err and netdev_err print: driver, PCI address,
// perhaps a network device or an adapter's name:
//
//	mlx5_core 0000:61:00.0: poll_health:840:(pid 0): device's health compromised - reached miss count
//	mlx5_core 0000:01:00.0 enp1s0f0: Link down
//	pcieport 0000:00:03.0: AER: Corrected error received: 0000:03:00.0
func splitPCI(text string) (parts, bool) {
	i := strings.IndexByte(text[:min(len(text), 32)], ' ')
	if i <= 0 || !isPCI(text[i+1:]) {
		return parts{}, false
	}
	driver, rest := text[:i], text[i+1:]
	where, body, ok := strings.Cut(rest, ": ")
	if !ok || len(where) > 64 {
		return parts{}, false
	}
	p := parts{family: other, device: where, body: body}
	p.device, _, _ = strings.Cut(where, " ")
	switch {
	case strings.HasPrefix(body, "AER: "), strings.HasPrefix(body, "PCIe Bus Error: "), strings.HasPrefix(body, "DPC: "):
		p.family = pci
	case driver == "mlx5_core":
		if name, rest, ok := strings.Cut(body, ": "); ok && strings.HasPrefix(name, "mlx5_") && !strings.Contains(name, " ") && len(name) < 16 {
			body = rest
		}
		p.family, p.body = mlx5, cutFunction(body)
	case driver == "hfi1":
		p.family = hfi1
		if name, rest, ok := strings.Cut(body, ": "); ok && strings.HasPrefix(name, "hfi1_") {
			p.device, p.body = name, rest
		}
	default:
		p.body = text
	}
	return p, true
}

// isPCI tells whether s begins with a PCI address: "0000:61:00.0".
func isPCI(s string) bool {
	i := hexDigits(s)
	if i < 4 || len(s) < i+8 {
		return false
	}
	s = s[i:]
	return s[0] == ':' && hexDigits(s[1:3]) == 2 && s[3] == ':' && hexDigits(s[4:6]) == 2 && s[6] == '.' && hexDigits(s[7:8]) == 1
}

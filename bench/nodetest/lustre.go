package nodetest

import (
	"fmt"
	"strconv"
	"strings"
)

const debug = "sys/kernel/debug/lustre/"

// lustre writes the file systems of a client, and the list of its devices.
func (w *writer) lustre() {
	var devices strings.Builder
	count := 0
	device := func(class, name string) {
		fmt.Fprintf(&devices, "%3d UP %s %s e0ccf427-7220-40df-9533-dc99439cefc0 5\n", count, class, name)
		count++
	}
	for i, fs := range w.FileSystems {
		instance := fmt.Sprintf("ffff9c1a40c5%x000", 8+i)
		mgc := "MGC" + w.mgs(i)
		device("mgc", mgc)
		w.target(i, target{class: "mgc", device: mgc, uuid: "MGS", host: mgsHost})
		device("lov", fs+"-clilov-"+instance)
		device("lmv", fs+"-clilmv-"+instance)
		w.file(debug+"llite/"+fs+"-"+instance+"/stats", w.piece("llite/stats", nil))
		for _, t := range w.targets(fs, instance) {
			device(t.class, t.device)
			w.target(i, t)
		}
	}
	w.file(debug+"devices", devices.String())
	w.command("lctl_dl", "lctl dl", devices.String())
}

// target is a device of the client and whom it speaks to.
type target struct {
	class, device, uuid string
	host                int
}

func (w *writer) targets(fs, instance string) []target {
	var all []target
	add := func(kind, class string, index, host int) {
		name := fmt.Sprintf("%s-%s%04x", fs, kind, index)
		all = append(all, target{class, name + "-" + class + "-" + instance, name + "_UUID", host})
	}
	for i := range w.MDTs {
		add("MDT", "mdc", i, firstMDS+i)
	}
	for i := range w.OSTs {
		add("OST", "osc", i, firstOSS+i/2)
	}
	return all
}

// target writes the files of a device that tell how its connection is.
func (w *writer) target(subnet int, t target) {
	state, since := "FULL", Recorded().Unix()-3600
	if t.uuid == w.Away+"_UUID" {
		state, since = "DISCONN", Recorded().Unix()-120
	}
	partner := t.host ^ 1
	if partner == 0 { // the MGS stands alone
		partner = mgsHost
	}
	v := values{"device": t.device, "uuid": t.uuid, "state": state, "since": strconv.FormatInt(since, 10), "ago": strconv.Itoa(1 + t.host%20),
		"nid": nid(subnet, t.host, 0), "nid_b": nid(subnet, t.host, 1), "partner": nid(subnet, partner, 0), "partner_b": nid(subnet, partner, 1)}
	dir := debug + t.class + "/" + t.device + "/"
	w.file(dir+"import", w.piece(t.class+"/import", v))
	w.file(dir+"state", w.piece("state", v))
	server := map[string]string{"mgc": "mgs_server_uuid", "mdc": "mds_server_uuid", "osc": "ost_server_uuid"}[t.class]
	w.file(dir+server, t.uuid+"\t"+state+"\n")
	if t.class != "mgc" {
		w.file("sys/fs/lustre/"+t.class+"/"+t.device+"/active", "1\n")
	}
}

// lnet writes what lnetctl says, and the tables of debugfs.
func (w *writer) lnet() {
	const dir = "sys/kernel/debug/lnet/"
	net := w.piece("net/lo", nil)
	nis := "nid                      status alive refs peer  rtr   max    tx   min\n" +
		"0@lo                         up     0    2    0    0     0     0     0\n"
	for rail, name := range rails {
		own := nid(ownSubnet, 1, rail)
		net += w.piece("net/o2ib", values{"net": name, "nid": own, "netdev": netdev(rail)})
		nis += fmt.Sprintf("%-24s     up    -1    2    8    0   256   255   246\n", own)
	}
	w.command("lnetctl_net_show", "lnetctl net show -v 4", net)
	w.file(dir+"nis", nis)

	var show, table strings.Builder
	show.WriteString("peer:\n")
	table.WriteString("nid                      refs state  last   max   rtr   min    tx   min queue\n")
	for subnet := range w.FileSystems {
		for _, host := range w.servers() {
			show.WriteString(w.piece("peer/head", values{"nid": nid(subnet, host, 0)}))
			for rail := range rails {
				show.WriteString(w.piece("peer/ni", values{"nid": nid(subnet, host, rail)}))
				fmt.Fprintf(&table, "%-24s    1    NA    -1     8     8     8     8     2 0\n", nid(subnet, host, rail))
			}
		}
	}
	w.command("lnetctl_peer_show", "lnetctl peer show -v 4", show.String())
	w.file(dir+"peers", table.String())
	w.command("lnetctl_route_show", "lnetctl route show -v 4", "")
	for _, what := range []string{"global", "stats"} {
		w.command("lnetctl_"+what+"_show", "lnetctl "+what+" show", w.piece("commands/lnetctl_"+what+"_show", nil))
	}
}

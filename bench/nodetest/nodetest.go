// Package nodetest writes a compute node of a large cluster as a folder of plain
// files, which package host opens as a recorded machine: two InfiniBand ports, an
// LNet net on each, two Lustre file systems with a hundred OSTs each. The same
// Node gives the same bytes.
//
// It never reads a machine, and is for tests and bench alone.
package nodetest

import (
	_ "embed"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/txtar"
)

// Node is what is to be written.
type Node struct {
	FileSystems []string // each is mounted at /lustre/NAME
	OSTs, MDTs  int      // of each
	LogLines    int      // of the kernel log
	// Away is a target whose server is gone, as "scratch-OST0007"; "" is a healthy node.
	Away string
}

// Large is a healthy node of a large cluster.
func Large() Node {
	return Node{FileSystems: []string{"scratch", "work"}, OSTs: 100, MDTs: 4, LogLines: 2000}
}

// Name is what the node is called.
const Name = "n0001"

// Recorded is when it is said to have been recorded.
func Recorded() time.Time { return time.Unix(1795246371, 0) }

//go:embed node.txtar
var pieces []byte

// Root is where Write puts a machine below a folder: it ends in HOST/UNIX-TIME.
func Root(dir string) string {
	return filepath.Join(dir, Name, strconv.FormatInt(Recorded().Unix(), 10))
}

// Write writes the node below a folder and gives the machine's root.
func (n Node) Write(dir string) (string, error) { return Root(dir), n.WriteRoot(Root(dir)) }

// WriteRoot writes the node's files below a folder of any name.
func (n Node) WriteRoot(root string) error {
	made := map[string]bool{}
	for name, text := range n.Files() {
		file := filepath.Join(root, name)
		if d := filepath.Dir(file); !made[d] {
			if err := os.MkdirAll(d, 0o755); err != nil {
				return err
			}
			made[d] = true
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Files gives each file once, by its path without the leading slash.
func (n Node) Files() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		w := &writer{Node: n, pieces: map[string]string{}, yield: yield}
		for _, f := range txtar.Parse(pieces).Files {
			w.names = append(w.names, f.Name)
			w.pieces[f.Name] = string(f.Data)
		}
		w.host()
		w.ports()
		w.lustre()
		w.lnet()
	}
}

// writer hands out files until nobody takes them any more.
type writer struct {
	Node
	names  []string // of the pieces, in their order
	pieces map[string]string
	yield  func(string, string) bool
	done   bool
}

func (w *writer) file(name, text string) { w.done = w.done || !w.yield(name, text) }

// values take the place of the names in braces.
type values map[string]string

func (w *writer) piece(name string, v values) string {
	text, ok := w.pieces[name]
	if !ok {
		panic("nodetest: no piece " + name)
	}
	return os.Expand(text, func(key string) string {
		value, ok := v[key]
		if !ok {
			panic("nodetest: " + name + " wants " + key)
		}
		return value
	})
}

// host is what has nothing to do with Lustre or the fabric, and what is the same everywhere.
func (w *writer) host() {
	for _, name := range w.names {
		path, ok := strings.CutPrefix(name, "file/")
		if !ok {
			continue
		}
		text := w.piece(name, nil)
		for i, fs := range w.FileSystems {
			switch path {
			case "proc/mounts":
				text += fmt.Sprintf("%s:/%s /lustre/%s lustre rw,checksum,flock,lazystatfs,lruresize,user_xattr,nouser_fid2path,verbose,encrypt 0 0\n", w.mgs(i), fs, fs)
			case "etc/fstab":
				text += fmt.Sprintf("%s:/%s /lustre/%s lustre flock,_netdev 0 0\n", w.mgs(i), fs, fs)
			}
		}
		w.file(path, text)
	}
	w.file("proc/stat", statText(128))
	w.command("dmesg_raw", "dmesg -r", w.kernelLog())
}

// statText is /proc/stat of a node with many CPUs and interrupts: 12 KB.
func statText(cpus int) string {
	var b strings.Builder
	const one = " 45086 0 105298 851624 34 0 43 0 0 0\n"
	b.WriteString("cpu " + one)
	for i := range cpus {
		fmt.Fprintf(&b, "cpu%d%s", i, one)
	}
	b.WriteString("intr 2845409" + strings.Repeat(" 0", 3000) + "\nctxt 2778513\n")
	fmt.Fprintf(&b, "btime %d\nprocesses 8438\nprocs_running 1\nprocs_blocked 0\nsoftirq 56969217 0 234003 14 917014 0 0 54600423 714429 0 503334\n",
		Recorded().Unix()-1064860)
	return b.String()
}

// kernelLog is what `dmesg -r` prints of a node that booted and has been calm since.
func (w *writer) kernelLog() string {
	var b strings.Builder
	for i := range w.LogLines {
		text := fmt.Sprintf("pci 0000:%02x:00.0: PME# supported from D0 D3hot D3cold", i%256)
		if i >= w.LogLines/2 {
			text = fmt.Sprintf("audit: type=1400 audit(%d.123:%d): apparmor=\"STATUS\" operation=\"profile_load\" profile=\"unconfined\" pid=%d", 1794181511+i, i, 2000+i)
		}
		fmt.Fprintf(&b, "<6>[%5d.%06d] %s\n", i/8, i%1000*1000, text)
	}
	for _, fs := range w.FileSystems {
		fmt.Fprintf(&b, "<4>[%5d.000000] Lustre: Mounted %s-client\n", w.LogLines, fs)
	}
	return b.String()
}

func (w *writer) command(dir, words, answer string) {
	w.file("commands/"+dir+"/cmd", words+"\n")
	w.file("commands/"+dir+"/stdout", answer)
	w.file("commands/"+dir+"/status", "0\n")
}

// ports are two adapters of one port each.
func (w *writer) ports() {
	for i := range 2 {
		device := fmt.Sprintf("mlx5_%d", i)
		v := values{"device": device, "netdev": netdev(i), "n": strconv.Itoa(i)}
		for _, name := range w.names {
			if path, ok := strings.CutPrefix(name, "mlx5/"); ok {
				w.file("sys/class/infiniband/"+device+"/"+os.Expand(path, func(key string) string { return v[key] }), w.piece(name, v))
			}
		}
		for k := 1; k < 8; k++ {
			dir := "sys/class/infiniband/" + device + "/ports/1/"
			w.file(dir+"gids/"+strconv.Itoa(k), "0000:0000:0000:0000:0000:0000:0000:0000\n")
			w.file(dir+"pkeys/"+strconv.Itoa(k), "0x0000\n")
		}
		for _, f := range [][2]string{{"carrier", "1"}, {"dev_id", "0x0"}, {"dev_port", "0"}, {"flags", "0x1043"}, {"operstate", "up"}, {"mtu", "4092"}} {
			w.file("sys/class/net/"+netdev(i)+"/"+f[0], f[1]+"\n")
		}
	}
}

func netdev(rail int) string { return "ib" + strconv.Itoa(rail) }

// rails are the nets, one on each port.
var rails = []string{"o2ib", "o2ib1"}

// nid is a host's address on a rail. Each file system has a subnet of servers,
// this node is in another.
func nid(subnet, host, rail int) string {
	return fmt.Sprintf("10.%d.%d.%d@%s", 1+rail, subnet, host, rails[rail])
}

const ownSubnet = 200

// Hosts of a file system's subnet: the MGS, from 2 on the MDSs with one MDT each,
// from 20 on the OSSs with two OSTs each. Neighbours stand in for each other.
const (
	mgsHost  = 1
	firstMDS = 2
	firstOSS = 20
)

func (w *writer) mgs(fs int) string { return nid(fs, mgsHost, 0) }

// servers are the hosts of a file system.
func (w *writer) servers() []int {
	hosts := []int{mgsHost}
	for i := range w.MDTs {
		hosts = append(hosts, firstMDS+i)
	}
	for i := range (w.OSTs + 1) / 2 {
		hosts = append(hosts, firstOSS+i)
	}
	return hosts
}

package proc

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"ioguard"
)

var golden = flag.Bool("golden", false, "write what iostat says of the recording into testdata")

// snapshot is what iostat reads of a machine.
type snapshot struct{ uptime, stat, diskstats string }

func (s snapshot) fs() fs.FS {
	return fstest.MapFS{
		"proc/uptime": file(s.uptime), "proc/stat": file(s.stat), "proc/diskstats": file(s.diskstats),
		"proc/loadavg": file("0 0 0 1/1 1"),
	}
}

// names are the devices of the snapshot that Diff speaks of too.
func (s snapshot) names() []string {
	var names []string
	for line := range strings.Lines(s.diskstats) {
		names = append(names, strings.Fields(line)[2])
	}
	return names
}

func recorded(t *testing.T, dir string) snapshot {
	t.Helper()
	fsys := sub(t, archive(t, "randwrite.txtar"), dir)
	text := func(name string) string {
		b, err := fs.ReadFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	return snapshot{text("proc/uptime"), text("proc/stat"), text("proc/diskstats")}
}

// TestIostat gives the same two snapshots to the real iostat and compares every
// column of a device to the digits that it prints.
func TestIostat(t *testing.T) {
	const stat = "cpu  %d 10 %d %d 50 5 5 %d 7 0\ncpu0 0 0 0 0 0 0 0 0 0 0\nbtime 1\n"
	made := [2]snapshot{
		{
			"100.00 0\n", fmt.Sprintf(stat, 100, 100, 1000, 3),
			" 8 0 sda 10 0 80 100 20 0 160 200 0 300 300 5 0 40 50 3 30\n" + // discards and flushes
				" 8 16 sdb 4000 0 80 4294967290 20 0 160 4294967000 0 4294967200 4294967100 0 0 0 0\n" + // wraps, 18 columns
				" 8 32 sdc 100 3 100 100 100 4 100 100 0 100 100\n" + // 14 columns
				" 8 48 sdd 100 3 100 100 100 4 100 100 0 100 100 0 0 0 0 0 0\n" + // idle
				" 259 0 nvme0n1 7 0 56 1 9 0 72 2 0 2 3 0 0 0 0 0 0\n",
		},
		{
			"103.37 0\n", fmt.Sprintf(stat, 173, 190, 1300, 4),
			" 8 0 sda 30 0 980 1100 25 0 260 900 0 5300 3300 8 0 80 650 4 40\n" +
				" 8 16 sdb 4010 0 180 100 25 0 260 400 0 1000 3000 0 0 0 0\n" +
				" 8 32 sdc 107 3 1731 223 131 4 3107 421 0 333 777\n" +
				" 8 48 sdd 100 3 100 100 100 4 100 100 0 100 100 0 0 0 0 0 0\n" +
				" 259 0 nvme0n1 900007 0 1152000056 90001 9 0 72 2 0 3371 90003 0 0 0 0 0 0\n",
		},
	}
	for name, pair := range map[string][2]snapshot{
		"recorded":      {recorded(t, "1795243967.749"), recorded(t, "1795243969.751")},
		"recorded long": {recorded(t, "1795243945.733"), recorded(t, "1795243969.751")},
		"made":          made,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type answer struct {
				b   []byte
				err error
			}
			short := make(chan answer, 1)
			go func() { // -s prints await, which -x alone does not; both take a second
				b, err := iostat(t.TempDir(), pair, "-x", "-s")
				short <- answer{b, err}
			}()
			long, err := iostat(t.TempDir(), pair, "-x")
			s := <-short
			if err = errors.Join(err, s.err); errors.As(err, new(skip)) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			if *golden && name == "recorded" {
				if err := os.WriteFile("testdata/iostat-recorded.json", onlyStatistics(t, long), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			h, left := Diff(readSample(t, pair[0].fs()), readSample(t, pair[1].fs()), 0)
			if len(left) != 0 || len(h.Devices) < 5 {
				t.Fatalf("%d devices, left out %v", len(h.Devices), left)
			}
			compareIostat(t, h, long, s.b)
		})
	}
}

// onlyStatistics leaves out of iostat's JSON what it says of this machine.
func onlyStatistics(t *testing.T, b []byte) []byte {
	t.Helper()
	type host struct {
		Statistics json.RawMessage `json:"statistics"`
	}
	var doc struct {
		Sysstat struct {
			Hosts []host `json:"hosts"`
		} `json:"sysstat"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(out, '\n')
}

// skip says why the real iostat cannot be asked here.
type skip struct{ why string }

func (s skip) Error() string { return s.why }

// iostat runs `iostat -y -o JSON -p ALL 1 1` in a mount namespace of its own,
// where the files of a snapshot lie over those of the kernel. It reads
// diskstats last, so with a FIFO in its place each opening tells that the other
// files have been read, and it can be given the second snapshot in time without
// any guess about its timing.
func iostat(dir string, pair [2]snapshot, flags ...string) ([]byte, error) {
	if os.Getuid() != 0 {
		return nil, skip{"comparing with iostat needs root for a mount namespace"}
	}
	for _, program := range []string{"iostat", "unshare", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, skip{"comparing with iostat: " + program + " is not installed (apt-get install sysstat)"}
		}
	}
	if out, err := exec.Command("unshare", "--mount", "--propagation", "private", "true").CombinedOutput(); err != nil {
		return nil, skip{fmt.Sprintf("comparing with iostat: no mount namespace here: %v %s", err, out)}
	}
	const script = `set -e
for f in uptime stat diskstats; do mount --bind "$0/$f" /proc/$f; done
mount -t tmpfs none /sys
for d in $1; do mkdir -p /sys/block/$d; done
shift
exec iostat "$@"`
	write := func(name, text string) error {
		return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
	}
	fifo := filepath.Join(dir, "diskstats")
	err := errors.Join(write("uptime", pair[0].uptime), write("stat", pair[0].stat), syscall.Mkfifo(fifo, 0o644))
	if err != nil {
		return nil, err
	}
	args := []string{"--mount", "--propagation", "private", "sh", "-c", script, dir, strings.Join(pair[0].names(), " ")}
	args = append(args, flags...)
	cmd := exec.Command("unshare", append(args, "-y", "-o", "JSON", "-p", "ALL", "1", "1")...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	err = feed(fifo, pair[0].diskstats, func() error {
		return errors.Join(write("uptime", pair[1].uptime), write("stat", pair[1].stat))
	})
	if err == nil {
		err = feed(fifo, pair[1].diskstats, func() error { return nil })
	}
	if err != nil {
		cmd.Process.Kill() //nolint:errcheck // Wait tells
	}
	if e := cmd.Wait(); err != nil || e != nil {
		return nil, fmt.Errorf("run iostat: %w: %s", errors.Join(err, e), stderr.String())
	}
	return stdout.Bytes(), nil
}

// feed waits until the FIFO is opened for reading, does what is due then,
// writes the text and waits until the reader has gone, so that the next feed
// cannot meet the same reader.
func feed(fifo, text string, opened func() error) error {
	w, err := openFIFO(fifo, func(err error) bool { return err == nil })
	if err != nil {
		return fmt.Errorf("wait for iostat to read diskstats: %w", err)
	}
	err = opened()
	_, e := w.WriteString(text)
	if err = errors.Join(err, e, w.Close()); err != nil {
		return err
	}
	if _, err = openFIFO(fifo, func(err error) bool { return errors.Is(err, syscall.ENXIO) }); !errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("wait for iostat to close diskstats: %w", err)
	}
	return nil
}

// openFIFO opens the FIFO for writing again and again until the error is the
// one wanted: ENXIO means that nobody reads.
func openFIFO(fifo string, wanted func(error) bool) (*os.File, error) {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		w, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if wanted(err) {
			return w, err
		}
		if err == nil {
			w.Close() //nolint:errcheck // nothing was written
		}
		if time.Now().After(deadline) {
			return nil, os.ErrDeadlineExceeded
		}
	}
}

// compareIostat holds a Diff against iostat's JSON, the long form of -x and,
// unless nil, the short form of -x -s.
func compareIostat(t *testing.T, h ioguard.HostDelta, long, short []byte) {
	t.Helper()
	type statistics struct {
		CPU  map[string]float64 `json:"avg-cpu"`
		Disk []map[string]any   `json:"disk"`
	}
	parse := func(b []byte) statistics {
		var doc struct {
			Sysstat struct {
				Hosts []struct{ Statistics []statistics }
			}
		}
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
		if len(doc.Sysstat.Hosts) != 1 || len(doc.Sysstat.Hosts[0].Statistics) != 1 {
			t.Fatalf("not one report: %s", b)
		}
		return doc.Sysstat.Hosts[0].Statistics[0]
	}
	rows := map[string]map[string]float64{}
	merge := func(s statistics) {
		for _, disk := range s.Disk {
			name, _ := disk["disk_device"].(string)
			if rows[name] == nil {
				rows[name] = map[string]float64{}
			}
			for column, v := range disk {
				if v, ok := v.(float64); ok {
					rows[name][column] = v
				}
			}
		}
	}
	same := func(what string, got, want float64) {
		t.Helper()
		// Both are rounded to two digits, each from a value of its own.
		if math.Abs(got-want) > 0.00501 || math.IsNaN(got) {
			t.Errorf("%s: got %.4f, iostat says %.2f", what, got, want)
		}
	}
	s := parse(long)
	merge(s)
	if short != nil {
		merge(parse(short))
	}
	same("%user and %nice", 100*h.User, s.CPU["user"]+s.CPU["nice"])
	same("%system", 100*(h.System+h.IRQ), s.CPU["system"])
	same("%iowait", 100*h.IOWait, s.CPU["iowait"])
	same("%steal", 100*h.Steal, s.CPU["steal"])
	same("%idle", 100*h.Idle, s.CPU["idle"])
	for _, d := range h.Devices {
		row, ok := rows[d.Device]
		if !ok {
			t.Errorf("iostat has no row for %s", d.Device)
			continue
		}
		same(d.Device+" r/s", d.ReadsPerSecond, row["r/s"])
		same(d.Device+" w/s", d.WritesPerSecond, row["w/s"])
		same(d.Device+" rkB/s", d.ReadBytesPerSecond/1024, row["rkB/s"])
		same(d.Device+" wkB/s", d.WriteBytesPerSecond/1024, row["wkB/s"])
		same(d.Device+" r_await", d.ReadAwait, row["r_await"])
		same(d.Device+" w_await", d.WriteAwait, row["w_await"])
		same(d.Device+" aqu-sz", d.QueueSize, row["aqu-sz"])
		same(d.Device+" %util", 100*d.Util, min(100, row["util"]))
		if short != nil {
			same(d.Device+" await", d.Await, row["await"])
		}
	}
}

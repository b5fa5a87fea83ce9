package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is the writer that gets killed.
func TestMain(m *testing.M) {
	if path := os.Getenv("IOGUARD_TEST_WRITER"); path != "" {
		if err := writeForEver(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if path := os.Getenv("IOGUARD_TEST_HOOK"); path != "" {
		hookProcess(path)
	}
	os.Exit(m.Run())
}

func crashBatch(seq int64) Batch {
	b := Batch{Agent: "child", Seq: seq}
	for j := range 20 {
		w := minuteOf(fmt.Sprint(j), "l", "", epoch.Add(time.Duration(seq)*17*time.Minute))
		w.ReadBytes = float64(seq + 1)
		b.Windows = append(b.Windows, w)
	}
	return b
}

// writeForEver goes on where the file ends, and prints each batch once it is acknowledged.
func writeForEver(path string) error {
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	seq, ok, err := s.LastSeq(bg, "child")
	if err != nil {
		return err
	}
	if ok {
		seq++
	}
	for ; ; seq++ {
		if err := s.Write(bg, crashBatch(seq)); err != nil {
			return err
		}
		fmt.Println(seq)
		if seq%7 == 0 {
			if _, err := s.Maintain(bg, crashBatch(seq).Windows[0].Start); err != nil {
				return err
			}
		}
	}
}

// killWriter runs a writer until it has acknowledged n batches and a little
// longer, kills it and gives the last batch that it acknowledged.
func killWriter(t *testing.T, path string, n int, longer time.Duration) int64 {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "IOGUARD_TEST_WRITER="+path)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := int64(-1)
	r := bufio.NewReader(out)
	for i := 0; ; i++ {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break // a half line was not acknowledged to anybody
		}
		if err != nil {
			t.Fatal(err)
		}
		if last, err = strconv.ParseInt(strings.TrimSpace(line), 10, 64); err != nil {
			t.Fatal(err)
		}
		if i == n {
			time.AfterFunc(longer, func() { _ = cmd.Process.Kill() })
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("writer: %v\n%s", err, &stderr)
	}
	return last
}

func TestKilledWriterLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	for range 6 {
		acked := killWriter(t, path, rand.IntN(15), time.Duration(rand.IntN(20_000))*time.Microsecond)
		s := openAt(t, path, Options{})
		last, ok, err := s.LastSeq(bg, "child")
		if err != nil || !ok || last < acked {
			t.Fatalf("batch %d was acknowledged, the last on disk is %d: %v", acked, last, err)
		}
		write(t, s, crashBatch(acked)) // as a writer does that does not know
		want := float64((last + 1) * (last + 2) / 2)
		for j := range 20 {
			if got := mustJob(t, s, fmt.Sprint(j)).Totals.ReadBytes; got != want {
				t.Fatalf("job %d has %g of %g bytes", j, got, want)
			}
		}
		var check string
		if err := s.readers.QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
			t.Fatal(check, err)
		}
		s.Close()
	}
}

// smallDisk gives a folder of so many bytes, or "" where we may not mount.
func smallDisk(t *testing.T, size int) string {
	t.Helper()
	dir := t.TempDir()
	if os.Getuid() != 0 {
		return ""
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Logf("mount tmpfs: %v", err)
		return ""
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillUp writes batches until one fails, and checks that the failure is told,
// changed nothing and left the Store usable for questions.
func fillUp(t *testing.T, s *Store) (written int64) {
	t.Helper()
	for ; written < 10_000; written++ {
		err := s.Write(bg, crashBatch(written))
		if err == nil {
			continue
		}
		if !errors.As(err, new(*FullError)) || !strings.Contains(hint(err), "free space") {
			t.Fatalf("full: %v; %s", err, hint(err))
		}
		if err := s.Write(bg, crashBatch(written)); !errors.As(err, new(*FullError)) {
			t.Fatalf("full for the second time: %v", err)
		}
		checkCrashBatches(t, s, written)
		return written
	}
	t.Fatal("the disk does not get full")
	return 0
}

func checkCrashBatches(t *testing.T, s *Store, n int64) {
	t.Helper()
	if got, want := mustJob(t, s, "3").Totals.ReadBytes, float64(n*(n+1)/2); got != want {
		t.Fatalf("%g of %g bytes after %d batches", got, want, n)
	}
	var check string
	if err := s.readers.QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Fatal(check, err)
	}
}

func TestDiskFull(t *testing.T) {
	dir := smallDisk(t, 2<<20)
	if dir == "" {
		t.Skip("needs root to mount a small disk; TestFileBound fills a file instead")
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "records.db")
	s := openAt(t, path, Options{})
	n := fillUp(t, s)
	if _, err := Open(filepath.Join(dir, "second.db"), Options{}); !errors.As(err, new(*FullError)) {
		t.Errorf("open on a full disk: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(filepath.Join(dir, "second.db"))
	write(t, s, crashBatch(n)) // the same Store goes on
	checkCrashBatches(t, s, n+1)
	s.Close()
	checkCrashBatches(t, openAt(t, path, Options{}), n+1)
}

func TestFileBound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records.db")
	s := openAt(t, path, Options{MaxBytes: 400 << 10})
	n := fillUp(t, s)
	s.Close()
	s = openAt(t, path, Options{})
	write(t, s, crashBatch(n))
	checkCrashBatches(t, s, n+1)
}

// A copy on a read-only disk, with and without a journal beside it.
func TestReadOnlyDisk(t *testing.T) {
	dir := smallDisk(t, 8<<20)
	if dir == "" {
		t.Skip("needs root to mount a read-only disk")
	}
	clean, live := filepath.Join(dir, "clean.db"), filepath.Join(dir, "live.db")
	s := openAt(t, clean, Options{})
	write(t, s, crashBatch(0))
	s.Close()
	s = openAt(t, filepath.Join(t.TempDir(), "r.db"), Options{})
	write(t, s, crashBatch(0))
	s.Close()
	s = openAt(t, s.Path(), Options{})
	write(t, s, crashBatch(1)) // lies in the journal only
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(s.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(live+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		path     string
		problems int
		last     string
	}{{clean, 1, "without its journal"}, {live, 2, "newest records are missing"}} {
		r, err := OpenReadOnly(x.path)
		if err != nil {
			t.Fatalf("%s: %v; %s", x.path, err, hint(err))
		}
		checkCrashBatches(t, r, 1)
		p := r.Problems()
		if len(p) != x.problems || !strings.Contains(p[len(p)-1], x.last) {
			t.Errorf("%s: problems %q", x.path, p)
		}
		r.Close()
	}
	if _, err := Open(clean, Options{}); err == nil || hint(err) == "" {
		t.Errorf("open for writing: %v", err)
	}
}

// Bytes per row of a site as doc.go tells them.
func TestBytesPerRow(t *testing.T) {
	for _, fraction := range []bool{false, true} {
		s := open(t, Options{})
		c := site{start: epoch, days: 2, jobsPerDay: 300, meanMinutes: 30, system: 3, fraction: fraction}
		rows := c.load(t, s)
		var minute, hour, day, digest, jobs, dayJobs float64
		err := s.readers.QueryRow(`SELECT (SELECT count(*) FROM minute), (SELECT count(*) FROM hour), (SELECT count(*) FROM day),
			(SELECT sum(length(digest)) FROM period WHERE span = 86400), (SELECT count(*) FROM job),
			(SELECT count(DISTINCT job) FROM day WHERE start IN (SELECT start FROM period WHERE span = 86400 AND digest IS NOT NULL))`).
			Scan(&minute, &hour, &day, &digest, &jobs, &dayJobs)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(s.Path())
		if err != nil {
			t.Fatal(err)
		}
		perRow, perJob := float64(fi.Size())/(minute+hour+day), digest/dayJobs
		t.Logf("fraction %v: %d windows, %g minutes, %g hours, %g days, %g jobs: %.0f bytes per row all told, %.0f per job in a digest",
			fraction, rows, minute, hour, day, jobs, perRow, perJob)
		if limit := 130.0; !fraction && perRow > limit || fraction && perRow > 200 || perJob > 110 {
			t.Errorf("rows have grown: doc.go tells other figures")
		}
	}
}

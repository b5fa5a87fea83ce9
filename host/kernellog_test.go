package host

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"
)

// openLive opens the real log, or skips where it may not be read.
func openLive(t testing.TB) io.ReadCloser {
	t.Helper()
	l, err := Local().KernelLog()
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENXIO) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestKernelLogLive(t *testing.T) {
	l := openLive(t)
	buf := make([]byte, kernelRecord)
	records := 0
	for {
		n, err := l.Read(buf)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, fs.ErrPermission) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if records++; n < 3 || buf[n-1] != '\n' || !bytes.Contains(buf[:n], []byte(";")) {
			t.Fatalf("record %d is not whole: %q", records, buf[:n])
		}
	}
	t.Logf("%d records", records)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(buf); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if err := l.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
}

// A buffer that is smaller than a record gets it in pieces, not EINVAL.
func TestKernelLogSmallBuffer(t *testing.T) {
	whole, pieces := openLive(t), openLive(t)
	defer whole.Close()
	defer pieces.Close()
	one := make([]byte, kernelRecord)
	n, err := whole.Read(one)
	if err != nil {
		t.Skip(err)
	}
	got := make([]byte, n)
	if _, err := io.ReadFull(iotest.OneByteReader(pieces), got); err != nil || !bytes.Equal(got, one[:n]) {
		t.Errorf("in pieces %q, %v; want %q", got, err, one[:n])
	}
}

func TestKernelLogOfRecordedMachine(t *testing.T) {
	const text = "6,339,5140900,-;NET: Registered protocol family 10\n"
	h, err := Txtar([]byte("-- dev/kmsg --\n" + text + "-- proc/uptime --\n1 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.KernelLog()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, err := io.ReadAll(l); err != nil || string(got) != text {
		t.Errorf("got %q, %v", got, err)
	}
	h, err = Txtar([]byte("-- proc/uptime --\n1 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.KernelLog(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without dev/kmsg: %v", err)
	}
}

// A FIFO without a writer stands for a log that has nothing to give: neither the
// open nor the read may wait. One with a writer and nothing written is EAGAIN.
func TestKernelLogNeverWaits(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kmsg")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip(err)
	}
	done := make(chan error, 2)
	go func() {
		l, err := openKernelLog(name)
		if err != nil {
			done <- err
			return
		}
		defer l.Close()
		_, err = l.Read(make([]byte, 100))
		done <- err
		w, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			done <- err
			return
		}
		defer w.Close()
		_, err = l.Read(make([]byte, 100))
		done <- err
	}()
	for range 2 {
		select {
		case err := <-done:
			if !errors.Is(err, io.EOF) {
				t.Errorf("read gave %v, want the end", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the read waits")
		}
	}
}

// Of journalctl, which also changes the journal, only the kernel's messages may be asked for.
func TestPermitJournalctl(t *testing.T) {
	for _, line := range []string{
		"journalctl -k -o json --no-pager", "journalctl -k -o json --no-pager -b", "/usr/bin/journalctl -k -o json --no-pager -b --since=@1795242669",
		"journalctl -k -o json --no-pager --since=@1 --until=@2 -q",
	} {
		if w := strings.Fields(line); permit(w[0], w[1:]) != nil {
			t.Errorf("%q is refused", line)
		}
	}
	for _, line := range []string{
		"journalctl", "journalctl -k", "journalctl --vacuum-size=1M", "journalctl --vacuum-time=1s", "journalctl --vacuum-files=1", "journalctl --rotate",
		"journalctl --flush", "journalctl --sync", "journalctl --relinquish-var", "journalctl --smart-relinquish-var", "journalctl --setup-keys --force",
		"journalctl --update-catalog", "journalctl -k -o json --no-pager --rotate", "journalctl -k -o json --no-pager --vac=1", "journalctl --rotate -k -o json --no-pager",
		"journalctl -k -o json --no-pager --cursor-file=/etc/passwd", "journalctl -k -o json --no-pager --cursor-file /etc/passwd",
		"journalctl -k -o json --no-pager -f", "journalctl -k -o json --no-pager -bf", "journalctl -k -o json --no-pager -D /tmp", "journalctl -k -o json --no-pager _UID=0",
		"journalctl -k -o --sync json --no-pager",
	} {
		w := strings.Fields(line)
		var re *RefusedError
		if err := permit(w[0], w[1:]); !errors.As(err, &re) {
			t.Errorf("%q gives %v, want it refused", line, err)
		}
	}
}

func BenchmarkKernelLog(b *testing.B) {
	buf := make([]byte, kernelRecord)
	records, size := 0, 0
	for b.Loop() {
		l := openLive(b)
		records, size = 0, 0
		for {
			n, err := l.Read(buf)
			if err != nil {
				break
			}
			records, size = records+1, size+n
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
	if records > 0 {
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(records)*1000, "us/1000records")
		b.ReportMetric(float64(records), "records")
		b.ReportMetric(float64(size), "bytes")
	}
}

package host

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// kernelLog is where the kernel gives its log in records, below the root.
const kernelLog = "dev/kmsg"

// kernelRecord is the largest record that the kernel gives: CONSOLE_EXT_LOG_MAX
// up to Linux 6.2, PRINTK_MESSAGE_MAX (2048) since. With a smaller buffer a read
// of a longer record is EINVAL.
const kernelRecord = 8192

// KernelLog opens the kernel's log as it is now, oldest record first. Of the live
// machine each Read gives one record, and io.EOF is the end of what was there, not
// a wait for more. Records that the kernel overwrote while they were read are left
// out: their sequence numbers are missing. Of a recorded machine it is the file
// dev/kmsg, which wraps fs.ErrNotExist where it was not recorded.
//
// Every reader has its own place in the log, so nobody else misses a record.
// Reading costs about 0.8 ms per 1,000 records, a system call each (measured on
// 346 records of 72 bytes, Linux 6.18, a virtual machine with 2 cores at 2.8 GHz).
func (h *Host) KernelLog() (io.ReadCloser, error) {
	if h.FS == os.DirFS("/") {
		return openKernelLog("/" + kernelLog)
	}
	return h.FS.Open(kernelLog)
}

// liveKernelLog reads a record with each call of the kernel. It is no os.File:
// that would wait in the runtime's poller where the kernel says EAGAIN.
type liveKernelLog struct {
	mu     sync.Mutex // Close may come from another goroutine, and fd be used anew
	fd     int        // -1 when closed
	rest   []byte     // of a record, for callers with a small buffer
	record []byte
}

func openKernelLog(name string) (*liveKernelLog, error) {
	for {
		fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err == nil {
			return &liveKernelLog{fd: fd}, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, &fs.PathError{Op: "open", Path: kernelLog, Err: err}
		}
	}
}

func (l *liveKernelLog) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	if len(l.rest) == 0 && len(p) >= kernelRecord {
		return l.next(p)
	}
	if len(l.rest) == 0 {
		if l.record == nil {
			l.record = make([]byte, kernelRecord)
		}
		n, err := l.next(l.record)
		if err != nil {
			return 0, err
		}
		l.rest = l.record[:n]
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next reads one record.
func (l *liveKernelLog) next(p []byte) (int, error) {
	for {
		if l.fd < 0 {
			return 0, &fs.PathError{Op: "read", Path: kernelLog, Err: fs.ErrClosed}
		}
		n, err := syscall.Read(l.fd, p)
		switch {
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EPIPE): // EPIPE: overwritten, the next read is the oldest there is
		case errors.Is(err, syscall.EAGAIN), err == nil && n <= 0:
			return 0, io.EOF
		case err != nil:
			return 0, &fs.PathError{Op: "read", Path: kernelLog, Err: err}
		default:
			return n, nil
		}
	}
}

func (l *liveKernelLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fd < 0 {
		return &fs.PathError{Op: "close", Path: kernelLog, Err: fs.ErrClosed}
	}
	fd := l.fd
	l.fd, l.rest = -1, nil
	return syscall.Close(fd)
}

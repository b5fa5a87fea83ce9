package host

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"ioguard"
)

// archiveLimit bounds the unpacked size of an archive, headers included, in bytes.
const archiveLimit = 16 << 30

// archive is a .tar or .tar.zst, unpacked into a temporary file that has no name
// any more, so that memory holds only the index.
type archive struct {
	*tree
	data     *os.File
	cutAfter string // the entry at which a damaged archive ended; "" for a whole one
	problems []string
}

func (a *archive) Close() error { return a.data.Close() }

// openArchive unpacks an archive; its errors leave the name to the caller. One that is cut short gives what comes before
// the cut, and says so in problems; one that is no archive is an error.
func openArchive(name string, limit int64) (*archive, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := os.CreateTemp("", "ioguard-")
	if err != nil {
		return nil, noSpace(err)
	}
	if err := os.Remove(data.Name()); err != nil {
		data.Close()
		return nil, noSpace(err)
	}
	a, err := unpack(f, data, limit)
	if err != nil {
		data.Close()
		return nil, fmt.Errorf("unpack: %w", err)
	}
	a.data = data
	return a, nil
}

// unpack reads an archive from r and writes the bytes of its files to data.
func unpack(r io.Reader, data interface {
	io.Writer
	io.ReaderAt
}, limit int64) (*archive, error) {
	plain, closer, err := decompress(r)
	if err != nil {
		return nil, err
	}
	defer closer()
	u := unpacker{
		in:  &countingReader{r: plain, limit: limit},
		out: bufio.NewWriterSize(data, 256<<10),
		b:   newBuilder(),
		a:   &archive{},
	}
	if err := u.entries(); err != nil {
		return nil, err
	}
	if err := u.out.Flush(); err != nil {
		return nil, noSpace(err)
	}
	t, err := u.b.tree(data)
	if err != nil {
		return nil, untrusted(err)
	}
	u.a.tree = t
	return u.a, nil
}

// decompress looks at the first bytes, not at the name.
func decompress(r io.Reader) (io.Reader, func(), error) {
	br := bufio.NewReaderSize(r, 64<<10)
	magic, err := br.Peek(4)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, nil, err
	case len(magic) == 0:
		return nil, nil, ioguard.WithHint(errors.New("the file is empty"), recordingHint)
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return nil, nil, ioguard.WithHint(errors.New("compressed by gzip"), "gunzip it: a .tar or .tar.zst is read")
	case !bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return br, func() {}, nil
	}
	// 128 MiB is the largest window of zstd without --ultra --long beyond 27.
	z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(128<<20))
	if err != nil {
		return nil, nil, err
	}
	return z, z.Close, nil
}

const recordingHint = "a recording is a folder or .tar.zst that holds HOST/UNIX-TIME/proc/...; ioguard record writes one"

type unpacker struct {
	in  *countingReader
	out *bufio.Writer
	b   *builder
	a   *archive
	off int64 // where the next file goes in the data
}

// entries reads the archive to its end or to where it is cut.
func (u *unpacker) entries() error {
	tr := tar.NewReader(u.in)
	last := ""
	for {
		before := u.in.n
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			u.atEnd(u.in.n-before, last)
			return nil
		}
		if err == nil {
			last = h.Name
			err = u.entry(h, tr)
		}
		var bad *entryError
		switch {
		case err == nil:
			continue
		case errors.As(err, &bad):
			return bad.err
		case errors.Is(err, errArchiveLimit):
			return fmt.Errorf("%w of %d bytes", err, u.in.limit)
		case last == "":
			return ioguard.WithHint(fmt.Errorf("not a tar archive, or cut short at its start: %w", err), recordingHint)
		}
		u.a.cutAfter = last
		u.a.problems = append(u.a.problems, fmt.Sprintf("the archive is cut short or damaged after %q: %v", last, err))
		return nil
	}
}

// atEnd looks for the end mark, two blocks of zeros: without it a plain .tar may
// have lost files without a trace. read is what Next took to see the end. A zstd
// stream without the mark is a recorder that was killed between two snapshots.
func (u *unpacker) atEnd(read int64, last string) {
	if read >= 512 { // padding of the last file is less
		if _, err := io.Copy(io.Discard, u.in); err != nil { // checks zstd's checksum
			u.a.problems = append(u.a.problems, fmt.Sprintf("the archive is damaged: %v", err))
		}
		return
	}
	u.a.problems = append(u.a.problems, "the archive has no end mark: its recorder was killed or still runs")
	if _, compressed := u.in.r.(*zstd.Decoder); !compressed {
		u.a.cutAfter = last
	}
}

// entryError is an entry that makes the whole archive untrustworthy.
type entryError struct{ err error }

func (e *entryError) Error() string { return e.err.Error() }
func (e *entryError) Unwrap() error { return e.err }

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	if !utf8.ValidString(h.Name) {
		u.a.problems = append(u.a.problems, fmt.Sprintf("left out %q: its name is not UTF-8", h.Name))
		return nil
	}
	if err := checkName(h.Name); err != nil {
		return untrusted(err)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		d, err := u.b.dir(path.Clean(h.Name))
		if err == nil {
			d.mtime = h.ModTime.Unix()
		}
		return asEntryError(err)
	case tar.TypeReg:
	case tar.TypeXGlobalHeader:
		return nil
	default:
		return untrusted(fmt.Errorf("%q is neither a file nor a folder but %s", h.Name, typeName(h.Typeflag)))
	}
	if h.Size > u.in.limit-u.off { // a sparse file may be larger than the archive
		return errArchiveLimit
	}
	n, err := io.Copy(spool{u.out}, r)
	at := u.off
	u.off += n // what a cut file left behind stays unused
	var we *writeError
	switch {
	case errors.As(err, &we):
		return &entryError{noSpace(we.err)}
	case err != nil:
		return err
	}
	return asEntryError(u.b.file(h.Name, at, n, h.ModTime.Unix()))
}

func untrusted(err error) error {
	return &entryError{ioguard.WithHint(err, "record it anew with ioguard record, which writes plain files only")}
}

func asEntryError(err error) error {
	if err == nil {
		return nil
	}
	return &entryError{err}
}

// spool marks errors of writing, which are not the archive's fault.
type spool struct{ w io.Writer }

func (s spool) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		err = &writeError{err}
	}
	return n, err
}

type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }

// noSpace tells how to go on where the temporary folder is full.
func noSpace(err error) error {
	return ioguard.WithHint(fmt.Errorf("write the unpacked archive to %s: %w", os.TempDir(), err),
		"TMPDIR=/some/larger/folder, or unpack it there and name the folder")
}

var errArchiveLimit = errors.New("larger, when unpacked, than the limit")

// countingReader counts what is read and stops at the limit.
type countingReader struct {
	r     io.Reader
	n     int64
	limit int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.n > c.limit {
		return 0, errArchiveLimit
	}
	return n, err
}

func typeName(flag byte) string {
	switch flag {
	case tar.TypeSymlink:
		return "a symbolic link"
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeFifo:
		return "a FIFO"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	}
	return fmt.Sprintf("of type %q", flag)
}

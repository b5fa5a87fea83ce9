package main

import (
	"bufio"
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"ioguard"
	"ioguard/lfs"
	"ioguard/view"
)

// topStatsfile sums dumps of job_stats, as lljobstat --statsfile does. It needs
// neither a database nor a server.
func topStatsfile(c *cli.Context) error {
	files := append(c.StringSlice("statsfile"), c.Args().Slice()...)
	by := c.String("by")
	if !c.IsSet("by") {
		by = "ops"
	}
	value, err := totalBy(by)
	if err != nil {
		return err
	}
	if sizeOf(files) < smallDump {
		defer debug.SetGCPercent(debug.SetGCPercent(-1))
	}
	var totals lfs.JobTotals
	skipped, failed := 0, error(nil)
	for _, name := range files {
		n, err := addFile(&totals, name, c.App.Reader, c.App.ErrWriter)
		skipped += n
		if err != nil {
			fmt.Fprintf(c.App.ErrWriter, "ioguard: error: %v\n", err)
			failed = err
		}
	}
	jobs := totals.Jobs()
	if failed != nil && len(jobs) == 0 {
		return &exitError{code: exitUnread}
	}
	if format := c.String("jobid-name"); format != "" {
		f, err := lfs.ParseJobIDFormat(format)
		if err != nil {
			return usageError("a jobid_name as lctl get_param jobid_name prints it, e.g. '%j:%u:%H'", "%v", err)
		}
		jobs = lfs.MergeJobs(jobs, f)
	}
	total := len(jobs)
	jobs = firstJobs(jobs, value, limitOf(c))
	out := bufio.NewWriterSize(c.App.Writer, 1<<16)
	switch {
	case c.Bool("json"):
		writeTotalsJSON(out, jobs, skipped)
	case c.Bool("csv"):
		err = totalsTable(jobs, by, value, true).WriteCSV(out)
	default:
		err = totalsTable(jobs, by, value, false).Write(out, 0)
		if err == nil && total > len(jobs) {
			fmt.Fprintf(c.App.ErrWriter, "ioguard: %d of %d jobs by %s; -n 0 shows all\n", len(jobs), total, by)
		}
	}
	if err = errors.Join(err, out.Flush()); err != nil {
		return readError(fmt.Errorf("write the table: %w", err))
	}
	if failed != nil {
		return &exitError{code: exitUnread}
	}
	return nil
}

// smallDump is the size below which garbage is not collected: reading makes
// hardly any, and looking for it would take longer than the rest.
const smallDump = 64 << 20

// sizeOf is the size of the files together; unbounded where one has none.
func sizeOf(files []string) (sum int64) {
	for _, name := range files {
		st, err := os.Stat(name)
		if err != nil || !st.Mode().IsRegular() || st.Size() == 0 {
			return math.MaxInt64
		}
		sum += st.Size()
	}
	return sum
}

// limitOf is -n: by default 20 rows of a table, and all for a program.
func limitOf(c *cli.Context) int {
	if !c.IsSet("n") && (c.Bool("json") || c.Bool("csv")) {
		return 0
	}
	return c.Int("n")
}

// addFile sums one file and gives the number of lines that were not understood.
func addFile(totals *lfs.JobTotals, name string, stdin io.Reader, stderr io.Writer) (int, error) {
	before := len(totals.Jobs())
	skipped, err := readTotals(totals, name, stdin)
	if name == "-" {
		name = "standard input"
	}
	if err != nil {
		err = fmt.Errorf("sum job_stats of %s: %w", name, err)
	}
	if skipped.Lines > 0 {
		l := skipped.First[0]
		fmt.Fprintf(stderr, "ioguard: %s: %d lines not understood; line %d: %s: %s\n", view.Safe(name), skipped.Lines, l.Line, l.Why, view.Safe(strconv.Quote(l.Text)))
		if len(totals.Jobs()) == before && err == nil {
			fmt.Fprintf(stderr, "ioguard: hint: %s holds no job; expected the text of `lctl get_param *.*.job_stats`\n", view.Safe(name))
		}
	}
	return skipped.Lines, err
}

// readTotals reads a file of known size in parts, anything else as a stream.
func readTotals(totals *lfs.JobTotals, name string, stdin io.Reader) (lfs.Skipped, error) {
	if name == "-" {
		return totals.Add(stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return lfs.Skipped{}, err
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Size() > 0 { // 0: a file of /proc
		return totals.AddFile(f, st.Size())
	}
	return totals.Add(f)
}

// totalBy is the value that jobs are ordered by: a sum, or a counter of the kernel's.
func totalBy(by string) (func(*lfs.JobTotal) float64, error) {
	counter := func(names ...string) func(*lfs.JobTotal) float64 {
		return func(j *lfs.JobTotal) (sum float64) {
			for _, n := range names {
				if op, ok := ioguard.LookupOp(n); ok {
					if c := j.Counter(op); c != nil {
						sum += float64(c.Samples)
					}
				}
			}
			return sum
		}
	}
	switch by {
	case "ops", "iops":
		return func(j *lfs.JobTotal) float64 { return float64(j.Ops()) }, nil
	case "read":
		return func(j *lfs.JobTotal) float64 { r, _ := j.Bytes(); return float64(r) }, nil
	case "write":
		return func(j *lfs.JobTotal) float64 { _, w := j.Bytes(); return float64(w) }, nil
	case "bytes":
		return func(j *lfs.JobTotal) float64 { r, w := j.Bytes(); return float64(r + w) }, nil
	case "usec", "time", "score":
		return func(j *lfs.JobTotal) float64 { return float64(j.Usec()) }, nil
	case "md":
		return func(j *lfs.JobTotal) float64 { return float64(metaOps(j)) }, nil
	case "create":
		return counter("create", "mknod", "mkdir"), nil
	case "unlink":
		return counter("unlink", "rmdir"), nil
	}
	if _, ok := ioguard.LookupOp(by); ok {
		return counter(by), nil
	}
	return nil, usageError("one of ops, read, write, bytes, md, usec, or a counter such as open, getattr, sync", "no such order: --by %q", by)
}

// metaOps are all operations but reads, writes and syncs.
func metaOps(j *lfs.JobTotal) uint64 {
	n := j.Ops()
	var data uint64
	for _, pair := range [][2]ioguard.Op{{ioguard.OpRead, ioguard.OpReadBytes}, {ioguard.OpWrite, ioguard.OpWriteBytes}} {
		var most uint64
		for _, op := range pair {
			if c := j.Counter(op); c != nil {
				most = max(most, c.Samples)
			}
		}
		data += most
	}
	if c := j.Counter(ioguard.OpSync); c != nil {
		data += c.Samples
	}
	return n - min(n, data)
}

// valued is a job and what it is ranked by.
type valued struct {
	job *lfs.JobTotal
	v   float64
}

func (a *valued) before(b *valued) bool {
	if a.v != b.v {
		return a.v > b.v
	}
	return a.job.ID < b.job.ID
}

// lastFirst is a heap of the best jobs so far with the last of them on top.
type lastFirst []valued

func (h lastFirst) Len() int           { return len(h) }
func (h lastFirst) Less(a, b int) bool { return h[b].before(&h[a]) }
func (h lastFirst) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *lastFirst) Push(x any)        { *h = append(*h, x.(valued)) }
func (h *lastFirst) Pop() any          { panic("not used") }

// firstJobs are the n jobs of the highest value, ties by id; all where n is 0.
func firstJobs(jobs []*lfs.JobTotal, value func(*lfs.JobTotal) float64, n int) []*lfs.JobTotal {
	if n == 0 {
		n = len(jobs)
	}
	best := make(lastFirst, 0, min(n, len(jobs)))
	for _, j := range jobs {
		v := valued{j, value(j)}
		switch {
		case len(best) < n-1:
			best = append(best, v)
		case len(best) == n-1:
			best = append(best, v)
			heap.Init(&best)
		case v.before(&best[0]):
			best[0] = v
			heap.Fix(&best, 0)
		}
	}
	sort.Slice(best, func(a, b int) bool { return best[a].before(&best[b]) })
	out := make([]*lfs.JobTotal, len(best))
	for i := range best {
		out[i] = best[i].job
	}
	return out
}

// totalsTable lays out sums; exact is for programs.
func totalsTable(jobs []*lfs.JobTotal, by string, value func(*lfs.JobTotal) float64, exact bool) *view.Table {
	t := &view.Table{Header: []view.Column{
		{Name: "JOB", Flex: true}, {Name: "TARGETS", Right: true}, {Name: "OPS", Right: true}, {Name: "MD_OPS", Right: true},
		{Name: "READ_B", Right: true}, {Name: "WRITE_B", Right: true}, {Name: "LATENCY", Right: true}, {Name: "MOST", Right: false},
	}}
	if exact {
		t.Header = []view.Column{{Name: "job_id"}, {Name: "targets"}, {Name: "ops"}, {Name: "md_ops"}, {Name: "read_bytes"},
			{Name: "write_bytes"}, {Name: "usec"}, {Name: "most"}}
	}
	whole := func(v uint64) string { return strconv.FormatUint(v, 10) }
	for _, j := range jobs {
		r, w := j.Bytes()
		if exact {
			t.Rows = append(t.Rows, []string{j.ID, strconv.Itoa(j.Targets), whole(j.Ops()), whole(metaOps(j)), whole(r), whole(w), whole(j.Usec()), mostOf(j)})
			continue
		}
		id := j.ID
		if id == "" {
			id = "(empty)"
		}
		t.Rows = append(t.Rows, []string{id, strconv.Itoa(j.Targets), view.Count(float64(j.Ops())), view.Count(float64(metaOps(j))),
			view.Bytes(float64(r)), view.Bytes(float64(w)), latencyText(j), mostOf(j)})
	}
	return t
}

// latencyText is the mean time in service of an operation, unknown before 2.14.
func latencyText(j *lfs.JobTotal) string {
	var n, usec uint64
	for i := range j.Counters {
		if c := &j.Counters[i]; c.Unit == lfs.UnitUsecs {
			n += c.Samples
			usec += c.Sum
		}
	}
	if n == 0 {
		return view.Unknown
	}
	return view.Usec(float64(usec) / float64(n))
}

// mostOf names the two operations that the job does most.
func mostOf(j *lfs.JobTotal) string {
	type named struct {
		name string
		n    uint64
	}
	var list []named
	for i := range j.Counters {
		c := &j.Counters[i]
		if c.Unit == lfs.UnitBytes && hasTimed(j, c.Op) {
			continue // counted as read or write
		}
		list = append(list, named{strings.TrimSuffix(c.Op.String(), "_bytes"), c.Samples})
	}
	sort.Slice(list, func(a, b int) bool {
		return list[a].n > list[b].n || list[a].n == list[b].n && list[a].name < list[b].name
	})
	var names []string
	for i := 0; i < len(list) && i < 2; i++ {
		names = append(names, list[i].name)
	}
	return strings.Join(names, ",")
}

func hasTimed(j *lfs.JobTotal, op ioguard.Op) bool {
	switch op {
	case ioguard.OpReadBytes:
		return j.Counter(ioguard.OpRead) != nil
	case ioguard.OpWriteBytes:
		return j.Counter(ioguard.OpWrite) != nil
	}
	return false
}

// writeTotalsJSON writes by hand: a busy server's dump is a million numbers, and
// encoding/json takes longer for them than reading the file.
func writeTotalsJSON(w *bufio.Writer, jobs []*lfs.JobTotal, skipped int) {
	var b []byte
	w.WriteString(`{"jobs":[`)
	for i, j := range jobs {
		b = b[:0]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, "\n {\"job_id\":"...)
		b = appendJSONString(b, j.ID)
		b = append(b, `,"targets":`...)
		b = strconv.AppendInt(b, int64(j.Targets), 10)
		b = append(b, `,"counters":{`...)
		for k := range j.Counters {
			if k > 0 {
				b = append(b, ',')
			}
			b = appendCounter(b, j, k)
		}
		b = append(b, "}}"...)
		w.Write(b)
	}
	fmt.Fprintf(w, "\n],\"skipped_lines\":%d}\n", skipped)
}

// appendCounter writes `"open":{"samples":12,"unit":"usecs","min":1,"max":9,"sum":40}`.
// Where a name stands twice with different units (dumps of servers of different
// releases in one call), the later one has its unit in its name.
func appendCounter(b []byte, j *lfs.JobTotal, k int) []byte {
	c := &j.Counters[k]
	name := c.Op.String()
	for i := range k {
		if j.Counters[i].Op == c.Op {
			name += "_in_" + c.Unit.String()
			break
		}
	}
	b = append(b, '"')
	b = append(b, name...)
	b = append(b, `":{"samples":`...)
	b = strconv.AppendUint(b, c.Samples, 10)
	b = append(b, `,"unit":"`...)
	b = append(b, c.Unit.String()...)
	b = append(b, '"')
	if c.Unit != lfs.UnitReqs {
		b = append(b, `,"min":`...)
		b = strconv.AppendUint(b, c.Min, 10)
		b = append(b, `,"max":`...)
		b = strconv.AppendUint(b, c.Max, 10)
		b = append(b, `,"sum":`...)
		b = strconv.AppendUint(b, c.Sum, 10)
	}
	return append(b, '}')
}

// appendJSONString quotes s. Bytes that are no UTF-8, which JSON cannot hold,
// stand as the kernel writes them: \xHH.
func appendJSONString(b []byte, s string) []byte {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf || c == '<' || c == '>' || c == '&' {
			plain = false
			break
		}
	}
	if plain {
		b = append(b, '"')
		b = append(b, s...)
		return append(b, '"')
	}
	q, _ := json.Marshal(validText(s))
	return append(b, q...)
}

func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02X`, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

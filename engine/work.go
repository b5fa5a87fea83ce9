package engine

import "ioguard"

// class groups operations by what they cost and how they are judged.
type class uint8

const (
	classRead class = iota
	classWrite
	classSync
	classOpen
	classClose
	classCreate
	classUnlink
	classGetattr
	classSetattr
	classOther
	classes
)

// work is what one job (or a whole target) did in a span: operations and their
// time in service by class, and bytes.
type work struct {
	n     [classes]float64 // operations; for reads and writes RPCs
	usec  [classes]float64 // time in service, where the release counts it
	timed [classes]float64 // operations of which usec is known
	bytes [2]float64       // read, written
	small float64          // data RPCs whose interval had a mean size of 64 KiB or less
}

// smallIO is the largest mean size, in bytes, that still counts as small I/O:
// below it a spinning disk spends its time seeking.
const smallIO = 64 << 10

func (w *work) add(o *work) {
	for c := range classes {
		w.n[c] += o.n[c]
		w.usec[c] += o.usec[c]
		w.timed[c] += o.timed[c]
	}
	w.bytes[0] += o.bytes[0]
	w.bytes[1] += o.bytes[1]
	w.small += o.small
}

// scale multiplies all amounts.
func (w *work) scale(by float64) {
	if by == 1 {
		return
	}
	for c := range classes {
		w.n[c] *= by
		w.usec[c] *= by
		w.timed[c] *= by
	}
	w.bytes[0] *= by
	w.bytes[1] *= by
	w.small *= by
}

// data and meta are the RPCs of either kind; syncs count as data, since that is what they wait for.
func (w *work) data() float64 { return w.n[classRead] + w.n[classWrite] }

func (w *work) meta() float64 {
	return w.n[classOpen] + w.n[classClose] + w.n[classCreate] + w.n[classUnlink] + w.n[classGetattr] + w.n[classSetattr]
}

func (w *work) dataUsec() float64 {
	return w.usec[classRead] + w.usec[classWrite] + w.usec[classSync]
}

func (w *work) metaUsec() float64 {
	var sum float64
	for c := classOpen; c < classes; c++ {
		sum += w.usec[c]
	}
	return sum
}

func (w *work) ops() float64 {
	var sum float64
	for c := range classes {
		sum += w.n[c]
	}
	return sum
}

func (w *work) busyUsec() float64 { return w.dataUsec() + w.metaUsec() }

// workOf sums the deltas of one job on one target. On an MDT the time of mknod
// lies within that of open (a create is an open that makes the file), so its
// time is not counted twice; its number is, as the number of files made.
func workOf(kind ioguard.TargetKind, deltas []ioguard.OpDelta) work {
	var w work
	var readOps, writeOps, mknod, mknodUsec float64
	var timedRead, timedWrite bool
	for i := range deltas {
		d := &deltas[i]
		switch d.Op {
		case ioguard.OpReadBytes:
			w.bytes[0] += d.Sum
			w.n[classRead] += d.Samples
			continue
		case ioguard.OpWriteBytes:
			w.bytes[1] += d.Sum
			w.n[classWrite] += d.Samples
			continue
		case ioguard.OpRead:
			readOps += d.Samples
			if d.Timed {
				timedRead = true
				w.usec[classRead] += d.Sum
				w.timed[classRead] += d.Samples
			}
			continue
		case ioguard.OpWrite:
			writeOps += d.Samples
			if d.Timed {
				timedWrite = true
				w.usec[classWrite] += d.Sum
				w.timed[classWrite] += d.Samples
			}
			continue
		}
		c := classOf(kind, d.Op)
		w.n[c] += d.Samples
		if !d.Timed {
			continue
		}
		if d.Op == ioguard.OpMknod {
			mknod, mknodUsec = mknod+d.Samples, mknodUsec+d.Sum
			continue
		}
		w.usec[c] += d.Sum
		w.timed[c] += d.Samples
	}
	if w.n[classOpen] < mknod { // no opens around them: mknod(2)
		w.usec[classCreate] += mknodUsec
		w.timed[classCreate] += mknod
	}
	// a target without byte counters for DoM still counts the RPCs
	if w.n[classRead] == 0 && timedRead {
		w.n[classRead] = readOps
	}
	if w.n[classWrite] == 0 && timedWrite {
		w.n[classWrite] = writeOps
	}
	if n := w.data(); n > 0 && (w.bytes[0]+w.bytes[1])/n <= smallIO {
		w.small = n
	}
	return w
}

// estimate fills in the time in service of operations that the release counts
// without timing them (before 2.14), from the means of the whole server. They
// do not count as timed: no job's own latency can be told from them.
func (w *work) estimate(means *[classes]float64) {
	for c := range classes {
		if w.n[c] > 0 && w.timed[c] == 0 && w.usec[c] == 0 {
			w.usec[c] = w.n[c] * means[c]
		}
	}
}

// classOf maps an operation to its class. What OSTs call getattr, setattr or
// create is the servers' own business, not a user's metadata operation.
func classOf(kind ioguard.TargetKind, op ioguard.Op) class {
	if op == ioguard.OpSync {
		return classSync
	}
	if kind != ioguard.MDT {
		return classOther
	}
	switch op {
	case ioguard.OpOpen:
		return classOpen
	case ioguard.OpClose:
		return classClose
	case ioguard.OpMknod, ioguard.OpMkdir, ioguard.OpCreate, ioguard.OpLink:
		return classCreate
	case ioguard.OpUnlink, ioguard.OpRmdir:
		return classUnlink
	case ioguard.OpGetattr, ioguard.OpGetxattr:
		return classGetattr
	case ioguard.OpSetattr, ioguard.OpSetxattr, ioguard.OpRename, ioguard.OpSamedirRename, ioguard.OpCrossdirRename,
		ioguard.OpParallelRenameFile, ioguard.OpParallelRenameDir, ioguard.OpPunch, ioguard.OpMigrate:
		return classSetattr
	}
	return classOther
}

// frame is the work of one interval.
type frame struct {
	seq     int // of the server's intervals
	seconds float64
	work    work
}

// ring holds the last few intervals of a job on a server or target.
type ring struct {
	frames [keepFrames]frame
	next   int
}

// keepFrames is how many intervals a window can span.
const keepFrames = 4

func (r *ring) push(f frame) {
	r.frames[r.next] = f
	r.next = (r.next + 1) % keepFrames
}

// sum adds the frames of the intervals after seq-span up to seq.
func (r *ring) sum(seq, span int) work {
	var w work
	for i := range r.frames {
		if f := &r.frames[i]; f.seconds > 0 && f.seq > seq-span && f.seq <= seq {
			w.add(&f.work)
		}
	}
	return w
}

// lastSeq is the newest interval in which there was work.
func (r *ring) lastSeq() int {
	return r.frames[(r.next+keepFrames-1)%keepFrames].seq
}

// touched is what a job did on one target in the last two intervals, reduced to
// what targets are asked for: a server may have 100,000 of them.
type touched struct {
	seq  int // of the newest interval
	work [harmSpan]light
}

// light is the little of a job's work that matters by target.
type light struct {
	bytes, data float64
	getattrs    float64
	meta        float64 // other metadata operations
}

func lightOf(w *work) light {
	return light{w.bytes[0] + w.bytes[1], w.data(), w.n[classGetattr], w.meta() - w.n[classGetattr]}
}

func (l *light) add(o *light) {
	l.bytes += o.bytes
	l.data += o.data
	l.getattrs += o.getattrs
	l.meta += o.meta
}

// touch adds a frame of a job's work on the target.
func (t *target) touch(j *job, f *frame) {
	w := t.jobs[j]
	if w == nil {
		w = &touched{seq: f.seq}
		t.jobs[j] = w
	}
	for w.seq < f.seq { // intervals in which it did nothing
		w.seq++
		w.work[w.seq%harmSpan] = light{}
		if f.seq-w.seq > harmSpan {
			w.seq = f.seq - harmSpan
		}
	}
	l := lightOf(&f.work)
	w.work[f.seq%harmSpan].add(&l)
}

// sum adds the last n intervals up to seq; n is harmSpan at most.
func (w *touched) sum(seq, n int) (l light) {
	for at := seq - n + 1; at <= seq; at++ {
		if at > w.seq || at <= w.seq-harmSpan {
			continue
		}
		l.add(&w.work[(at%harmSpan+harmSpan)%harmSpan])
	}
	return l
}

package slurm

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"ioguard"
)

// The pace of questions to the controller, which all of a cluster's users share.
const (
	freshFor     = time.Minute      // an answer, or that there is none, is good for so long
	callEvery    = 10 * time.Second // between two calls of squeue
	backOffMost  = 5 * time.Minute  // between two calls while they fail
	missingEvery = 10 * time.Minute // between two looks for a squeue that is not installed
	answerWithin = 5 * time.Second  // squeue tries for 9 s when its controller is away
	forgetAfter  = 24 * time.Hour   // numbers come round again only after 67 million jobs

	maxKnown  = 100_000 // jobs remembered
	maxAsked  = 4_000   // jobs in one call: one argument holds 128 KiB
	maxOnNode = 100_000 // nodes of one job
)

// Directory knows who owns the jobs it was asked about. It may be used from
// several goroutines; while one waits for squeue the others get what is known.
type Directory struct {
	// Location is the time zone in which squeue prints, nil for the local one.
	Location *time.Location

	run      func(ctx context.Context, name string, args ...string) ([]byte, error)
	deadline time.Duration // of one squeue

	mu      sync.Mutex
	known   map[string]*entry
	onNode  map[string][]ioguard.Owner
	listed  time.Time // when onNode was made
	list    bool      // somebody waits for onNode
	called  time.Time // when squeue was last started
	wait    time.Duration
	busy    bool
	problem string
	said    bool
}

// entry is what is known of one job id.
type entry struct {
	owner ioguard.Owner
	found bool
	final bool // nothing new will be learnt: the job has ended
	asked time.Time
	used  time.Time
}

// New makes a Directory that asks through run. That runs a command with its
// arguments, without a shell, and gives its standard output; its error holds
// what the command said on standard error, and is exec.ErrNotFound or
// fs.ErrNotExist for a program that is not installed. A nil run knows nobody.
func New(run func(ctx context.Context, name string, args ...string) ([]byte, error)) *Directory {
	return &Directory{run: run, deadline: answerWithin, known: make(map[string]*entry), wait: callEvery}
}

// Owners gives what Slurm knows of the jobs among ids, by id as given; ids that
// are no Slurm jobs or that it does not know are left out. It never fails: what
// went wrong is told by Problem.
//
// Unknown ids are asked for in one squeue call, at most one in 10 s and less
// while the controller is away, so an answer may come with a later call of
// Owners. Answers are good for a minute. A job that has ended keeps its owner
// after Slurm has forgotten it (MinJobAge, 300 s).
func (d *Directory) Owners(ctx context.Context, now time.Time, ids []string) map[string]ioguard.Owner {
	if ask := d.stale(now, ids); len(ask) > 0 {
		d.call(ctx, now, ask)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	owners := make(map[string]ioguard.Owner, len(ids))
	for _, id := range ids {
		if e := d.known[id]; e != nil && e.found {
			e.used = now
			owners[id] = e.owner
		}
	}
	return owners
}

// JobsOnNode gives the jobs that run on a node, by the node's name in Slurm,
// sorted by job id. The list of all running jobs is fetched at most once a
// minute and shares the pace of Owners, so it may be that old, and empty at first.
func (d *Directory) JobsOnNode(ctx context.Context, now time.Time, node string) []ioguard.Owner {
	d.mu.Lock()
	d.list = d.list || !fresh(d.listed, now)
	ask := d.list
	d.mu.Unlock()
	if ask {
		d.call(ctx, now, nil)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.onNode[node])
}

// Problem tells once what keeps owners from being known, and again when that
// changes or returns; "" says that there is nothing new to tell.
func (d *Directory) Problem() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.said {
		return ""
	}
	d.said = true
	return d.problem
}

// stale gives the ids to ask for, those of which nothing is known first.
func (d *Directory) stale(now time.Time, ids []string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var unknown, old []string
	seen := make(map[string]bool)
	for _, id := range ids {
		if seen[id] || !IsJobID(id) {
			continue
		}
		seen[id] = true
		switch e := d.known[id]; {
		case e == nil:
			unknown = append(unknown, id)
		case e.final && now.Sub(e.asked) < forgetAfter, fresh(e.asked, now):
		default:
			old = append(old, id)
		}
	}
	ask := append(unknown, old...)
	return ask[:min(len(ask), maxAsked)]
}

// fresh tells whether an answer got at that time is still good. An answer from
// the future (the clock was set back) is not.
func fresh(at, now time.Time) bool {
	age := now.Sub(at)
	return age >= 0 && age < freshFor
}

// call asks squeue once, unless it is too early: for the list of running jobs
// where somebody waits for that, so that a steady stream of new ids cannot keep
// him waiting for ever, else for the ids.
func (d *Directory) call(ctx context.Context, now time.Time, ids []string) {
	d.mu.Lock()
	early := !d.called.IsZero() && !now.Before(d.called) && now.Sub(d.called) < d.wait
	list := d.list
	if d.busy || early || d.run == nil || (!list && len(ids) == 0) {
		d.mu.Unlock()
		return
	}
	d.busy, d.called = true, now
	d.mu.Unlock()

	which := "--states=RUNNING,COMPLETING,SUSPENDED,STOPPED,SIGNALING"
	if !list {
		which = "--jobs=" + strings.Join(ids, ",")
	}
	jobs, err := d.squeue(ctx, which)

	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy = false
	if err != nil && jobs == nil {
		if ctx.Err() == nil { // giving up is the caller's wish, not a failure
			d.failed(err)
		}
		return
	}
	d.wait = callEvery
	if err != nil {
		// Told without its numbers, which differ from call to call.
		err = errors.New("squeue printed rows that are not understood: their jobs stay without owners")
	}
	d.report(err)
	d.learn(now, ids, jobs, list)
}

// squeue runs squeue. Jobs are nil, with an error, where it gave no answer.
func (d *Directory) squeue(ctx context.Context, which string) ([]Job, error) {
	ctx, cancel := context.WithTimeout(ctx, d.deadline)
	defer cancel()
	loc := d.Location
	if loc == nil {
		loc = time.Local
	}
	args := []string{"--noheader", "--all", which}
	if strings.HasPrefix(which, "--jobs=") {
		args = append(args, "--states=all")
	}
	mark := newMark()
	out, err := d.run(ctx, "squeue", append(args, "--format="+format(mark))...)
	if err != nil && invalidJob(err) {
		// Of several ids squeue leaves out those that it does not know; a single
		// one is an error (measured with 22.05: "slurm_load_jobs error: Invalid
		// job id specified").
		return []Job{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask squeue: %w", err)
	}
	jobs, err := ParseJobs(out, mark, loc)
	if jobs == nil {
		jobs = []Job{}
	}
	return jobs, err
}

func invalidJob(err error) bool {
	text := err.Error()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		text += string(exit.Stderr)
	}
	return strings.Contains(text, "Invalid job id specified")
}

// newMark makes what a row begins with. It is random so that no user can put
// rows into the name of a job.
func newMark() string {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return "ioguard-" + hex.EncodeToString(b[:])
}

// failed sets when to try again. The lock is held.
func (d *Directory) failed(err error) {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		d.wait = missingEvery
		d.report(errors.New("squeue is not there: job ids stay without owners"))
		return
	}
	d.wait = min(2*d.wait, backOffMost)
	d.report(err)
}

// report keeps a problem to be told once. The lock is held.
func (d *Directory) report(err error) {
	text := ""
	if err != nil {
		text = strings.Join(strings.Fields(err.Error()), " ")
	}
	if text != d.problem {
		d.problem, d.said = text, text == ""
	}
}

// learn takes an answer in. The lock is held.
func (d *Directory) learn(now time.Time, ids []string, jobs []Job, list bool) {
	d.forget(now, len(ids)+len(jobs))
	if list {
		d.list, d.listed = false, now
		d.onNode = byNode(jobs)
		for _, j := range jobs {
			d.put(j.JobID, j.Owner, now)
		}
		return
	}
	byID := make(map[string]ioguard.Owner, len(jobs))
	byArray := make(map[string]ioguard.Owner)
	for _, j := range jobs {
		byID[j.JobID] = j.Owner
		if j.Task == "" {
			continue
		}
		byID[j.Array+"_"+j.Task] = j.Owner
		byArray[j.Array] = ofArray(j.Owner)
	}
	for _, id := range ids {
		owner, ok := byID[id]
		if !ok {
			// Tasks that wait share a row; their owner is the array's.
			array, _, _ := strings.Cut(id, "_")
			owner, ok = byArray[array]
		}
		if ok {
			d.put(id, owner, now)
			continue
		}
		d.miss(id, now)
	}
}

// ofArray is what a row of one task tells of the others: all but how it goes.
func ofArray(o ioguard.Owner) ioguard.Owner {
	o.State, o.Nodes, o.Start = "", "", time.Time{}
	return o
}

func (d *Directory) put(id string, owner ioguard.Owner, now time.Time) {
	owner.JobID = id
	d.known[id] = &entry{owner: owner, found: true, final: finished(owner.State), asked: now, used: now}
}

// miss notes that Slurm does not know an id (any more): a job that was known
// has ended and keeps its owner.
func (d *Directory) miss(id string, now time.Time) {
	e := d.known[id]
	if e == nil {
		d.known[id] = &entry{asked: now, used: now}
		return
	}
	e.asked, e.final = now, e.found
}

// forget makes room for more entries: first what nobody has used for a day,
// then whatever is not in use now. The lock is held.
func (d *Directory) forget(now time.Time, more int) {
	for _, age := range []time.Duration{forgetAfter, freshFor, 0} {
		if len(d.known)+more <= maxKnown {
			return
		}
		for id, e := range d.known {
			if now.Sub(e.used) >= age || e.used.After(now) {
				delete(d.known, id)
			}
		}
	}
}

func byNode(jobs []Job) map[string][]ioguard.Owner {
	on := make(map[string][]ioguard.Owner)
	for _, j := range jobs {
		if !running(j.State) {
			continue
		}
		nodes, err := ExpandHosts(j.Nodes, maxOnNode)
		if err != nil {
			continue // its owner is still found by its id
		}
		for _, n := range nodes {
			on[n] = append(on[n], j.Owner)
		}
	}
	for _, owners := range on {
		slices.SortFunc(owners, func(a, b ioguard.Owner) int { return strings.Compare(a.JobID, b.JobID) })
	}
	return on
}

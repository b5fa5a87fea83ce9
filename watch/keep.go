package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ioguard"
	"ioguard/engine"
	"ioguard/policy"
	"ioguard/store"
)

// Keeper writes what the engine found into the records. While they cannot be
// written (a full disk, another process' lock) it holds the batches and tries
// again with the next one; what it had to drop in the end it says.
type Keeper struct {
	Store  *store.Store
	Engine *engine.Engine
	Agent  string
	seq    int64
	held   []store.Batch
	failed error                    // why they are held
	owners map[string]ioguard.Owner // told since the last batch
	tidied time.Time
}

// maxHeld bounds the batches held while the records cannot be written: half a
// day of minutes.
const maxHeld = 720

// NewKeeper continues where the agent of that name ended. A replay starts anew
// (fresh), so that doing it twice leaves the same records.
func NewKeeper(ctx context.Context, s *store.Store, e *engine.Engine, agent string, fresh bool) (*Keeper, error) {
	k := &Keeper{Store: s, Engine: e, Agent: agent}
	if !fresh {
		seq, known, err := s.LastSeq(ctx, agent)
		if err != nil {
			return nil, err
		}
		if known {
			k.seq = seq + 1
		}
	}
	return k, nil
}

// SetOwners hands on what Slurm told.
func (k *Keeper) SetOwners(owners map[string]ioguard.Owner) {
	if k.owners == nil {
		k.owners = make(map[string]ioguard.Owner)
	}
	for id, o := range owners {
		k.owners[id] = o
	}
}

// Round keeps a round's result. The error says that the records could not be
// written; nothing is lost by it yet.
func (k *Keeper) Round(ctx context.Context, now time.Time, r *engine.Result) error {
	if len(r.Windows) == 0 && len(r.Events) == 0 {
		return k.failed // tried again with the next batch, at most a minute later
	}
	b := store.Batch{Agent: k.Agent, Time: now, Windows: r.Windows, Pressure: r.Pressure}
	for _, ev := range r.Events {
		u := store.FindingUpdate{Finding: ev.Finding}
		if ev.Kind != policy.Closed && ev.Finding.Subject == "job" {
			u.Windows = k.Engine.JobWindows(ev.Finding.FS, ev.Finding.JobID, now)
		}
		b.Findings = append(b.Findings, u)
	}
	return k.write(ctx, b)
}

// Close keeps the minute that is under way. A finding that still holds stays
// open in the records; end, where it is not zero, closes it (the recording ends).
func (k *Keeper) Close(ctx context.Context, end time.Time) error {
	windows, pressure := k.Engine.Drain()
	b := store.Batch{Agent: k.Agent, Windows: windows, Pressure: pressure, Time: end}
	if !end.IsZero() {
		for _, f := range k.Engine.Open() {
			f.End = end
			b.Findings = append(b.Findings, store.FindingUpdate{Finding: f})
		}
	}
	if len(b.Windows) == 0 && len(b.Findings) == 0 && len(k.held) == 0 {
		return nil
	}
	return k.write(ctx, b)
}

func (k *Keeper) write(ctx context.Context, b store.Batch) error {
	for _, o := range k.owners {
		b.Owners = append(b.Owners, o)
	}
	k.owners = nil
	b.Seq = k.seq
	k.seq++
	k.held = append(k.held, b)
	k.failed = k.flush(ctx)
	if k.failed != nil {
		return k.failed
	}
	return k.tidy(ctx, b.Time)
}

// flush writes what is held, oldest first, up to the first failure.
func (k *Keeper) flush(ctx context.Context) error {
	for len(k.held) > 0 {
		err := k.Store.Write(ctx, k.held[0])
		if err == nil || errors.Is(err, store.ErrOldBatch) {
			k.held = k.held[1:]
			continue
		}
		if n := len(k.held) - maxHeld; n > 0 {
			k.held = append(k.held[:0], k.held[n:]...)
			return fmt.Errorf("keep records: %d too old to hold are lost: %w", n, err)
		}
		return fmt.Errorf("keep records: %w", err)
	}
	return nil
}

// tidy applies the retention, a bounded piece of work once a minute.
func (k *Keeper) tidy(ctx context.Context, now time.Time) error {
	if d := now.Sub(k.tidied); d >= 0 && d < time.Minute {
		return nil
	}
	k.tidied = now
	_, err := k.Store.Maintain(ctx, now)
	return err
}

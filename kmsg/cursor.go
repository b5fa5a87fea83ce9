package kmsg

import (
	"time"

	"ioguard/host"
)

// Cursor is the last message that was seen, to be kept between runs. The zero
// Cursor has seen nothing.
type Cursor struct {
	BootID string        `json:"boot_id,omitempty"`
	Seq    uint64        `json:"seq,omitempty"`     // 0 unknown
	Boot   time.Duration `json:"boot_ns,omitempty"` // since boot; 0 unknown
	Time   time.Time     `json:"time,omitzero"`     // where the source has no time since boot
	Same   int           `json:"same,omitempty"`    // how many messages seen bear that stamp
}

// cursorAt is the cursor behind the last of some messages.
func cursorAt(all []Message) Cursor {
	last := all[len(all)-1]
	c := Cursor{Seq: last.Seq, Boot: max(last.Boot, 0), Time: last.Time}
	for i := len(all) - 1; i >= 0 && c.stampOf(&all[i]) == 0; i-- {
		c.Same++
	}
	return c
}

// stampOf compares a message's stamp with the cursor's: by time since boot where
// both have it, else by the wall clock. A message without either is later.
func (c *Cursor) stampOf(m *Message) int {
	switch {
	case c.Boot > 0 && m.Boot >= 0:
		switch {
		case m.Boot < c.Boot:
			return -1
		case m.Boot == c.Boot:
			return 0
		}
	case c.Boot <= 0 && !c.Time.IsZero() && !m.Time.IsZero():
		return m.Time.Compare(c.Time)
	}
	return 1
}

// after gives the messages behind the cursor, and whether some between were lost.
func (c *Cursor) after(all []Message) (rest []Message, lost bool) {
	last := all[len(all)-1].Seq
	if c.Seq > 0 && last >= c.Seq {
		return c.afterSeq(all)
	}
	if c.Seq > 0 && last > 0 { // a cursor from the future: somebody else's
		return all, gap(all)
	}
	if c.Boot <= 0 && c.Time.IsZero() {
		return all, gap(all)
	}
	return c.afterStamp(all)
}

func (c *Cursor) afterSeq(all []Message) (rest []Message, lost bool) {
	for i := range all {
		if all[i].Seq > c.Seq {
			return all[i:], all[i].Seq != c.Seq+1 || gap(all[i:])
		}
	}
	return nil, false
}

// gap tells whether sequence numbers are missing: the log was overwritten while
// it was read.
func gap(all []Message) bool {
	for i := 1; i < len(all); i++ {
		if all[i].Seq != all[i-1].Seq+1 && all[i-1].Seq > 0 {
			return true
		}
	}
	return false
}

// afterStamp looks for the cursor's message by its place: stamps are not always in
// order, since each CPU takes its own. Where it is gone, so may be others behind.
func (c *Cursor) afterStamp(all []Message) (rest []Message, lost bool) {
	found, seen := 0, -1
	for i := range all {
		if c.stampOf(&all[i]) == 0 && found < max(c.Same, 1) {
			found, seen = found+1, i
		}
	}
	if seen >= 0 {
		return all[seen+1:], false
	}
	for i := range all {
		if c.stampOf(&all[i]) > 0 {
			rest = append(rest, all[i])
		}
	}
	return rest, len(rest) > 0
}

// wallClock is about when the cursor's message was written; zero where unknown.
func (c *Cursor) wallClock(h *host.Host) time.Time {
	if c.Boot <= 0 {
		return c.Time
	}
	booted, ok := bootedAt(h)
	if !ok {
		return time.Time{}
	}
	return booted.Add(c.Boot)
}

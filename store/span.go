package store

import (
	"context"
	"database/sql"
	"math"
	"time"
)

// piece is a part of a span that is read from one level.
type piece struct {
	level    level
	from, to int64 // unix seconds; to is not part of it
}

// horizon is what the file still holds.
type horizon struct {
	minuteFloor, hourFloor int64 // rows before may be gone
	first                  int64 // start of the first day with rows
	lastMinute             int64 // start of the newest minute row; MinInt64 where there is none
	empty                  bool
}

func readHorizon(ctx context.Context, q querier) (horizon, error) {
	h := horizon{minuteFloor: math.MinInt64, hourFloor: math.MinInt64, lastMinute: math.MinInt64}
	var minute, hour, first, last sql.NullInt64
	err := q.QueryRowContext(ctx, `SELECT (SELECT value FROM meta WHERE name = 'minute_floor'),
		(SELECT value FROM meta WHERE name = 'hour_floor'),
		(SELECT min(start) FROM day), (SELECT max(start) FROM minute)`).Scan(&minute, &hour, &first, &last)
	if minute.Valid {
		h.minuteFloor = minute.Int64
	}
	if hour.Valid {
		h.hourFloor = hour.Int64
	}
	if last.Valid {
		h.lastMinute = last.Int64
	}
	h.first, h.empty = first.Int64, !first.Valid
	return h, err
}

// bounds turns a question's times into whole minutes, outwards. A zero time is
// no bound.
func bounds(since, until time.Time) (int64, int64) {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !since.IsZero() {
		from = minuteLevel.floor(since.Unix())
	}
	if !until.IsZero() {
		to = until.Unix()
		if until.Nanosecond() > 0 {
			to++
		}
		to = minuteLevel.ceil(to)
	}
	return from, to
}

// pieces cuts a span into days, the hours beside them and the minutes beside
// those. Where the finer rows are gone the span grows to whole hours or days;
// where it reaches beyond all rows it grows too, which adds nothing but saves
// reading an open end in pieces.
func (h *horizon) pieces(from, to int64) []piece {
	if h.empty || from >= to {
		return nil
	}
	if from < h.end(to)-week { // by the end of the rows: a missing bound is not a long span
		from, to = wholeHours(from, to)
	}
	from = h.begin(from)
	to = h.end(to)
	days, rest := cut(dayLevel, from, to)
	var out []piece
	for _, p := range rest {
		hours, rest := cut(hourLevel, p.from, p.to)
		for _, p := range rest {
			out = append(out, piece{minuteLevel, p.from, p.to})
		}
		out = append(out, hours...)
	}
	return append(out, days...)
}

// week is the span beyond which the minutes at its ends do not matter: reading
// them would cost more than all days between.
const week = 7 * 86400

func wholeHours(from, to int64) (int64, int64) {
	if from > math.MinInt64 {
		from = hourLevel.floor(from)
	}
	if to < math.MaxInt64 {
		to = hourLevel.ceil(to)
	}
	return from, to
}

func (h *horizon) begin(from int64) int64 {
	if from < h.first {
		return h.first
	}
	if from < h.minuteFloor {
		from = hourLevel.floor(from)
	}
	if from < h.hourFloor {
		from = dayLevel.floor(from)
	}
	return from
}

func (h *horizon) end(to int64) int64 {
	// a minute row exists for whatever lies after the floor
	if to > h.lastMinute && to >= h.minuteFloor {
		last := max(h.lastMinute, h.minuteFloor, h.first)
		return min(dayLevel.ceil(min(to, lastSecond)), dayLevel.floor(last)+dayLevel.span)
	}
	if hourLevel.floor(to) < h.minuteFloor {
		to = hourLevel.ceil(to)
	}
	if dayLevel.floor(to) < h.hourFloor {
		to = dayLevel.ceil(to)
	}
	return to
}

// cut takes the whole periods of a level out of a span.
func cut(l level, from, to int64) (whole, rest []piece) {
	lo, hi := l.ceil(from), l.floor(to)
	if lo >= hi {
		if from < to {
			rest = append(rest, piece{from: from, to: to})
		}
		return nil, rest
	}
	if from < lo {
		rest = append(rest, piece{from: from, to: lo})
	}
	if hi < to {
		rest = append(rest, piece{from: hi, to: to})
	}
	return []piece{{l, lo, hi}}, rest
}

package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// A digest is all rows of one hour or day in a blob, the pools of a file system
// merged: what Top reads for periods that are over. It is a cache: dropping it
// loses nothing.
//
//	digest = version record*
//	record = uvarint(file system) varint(job - job before) uvarint(mask) number*
//	number = uvarint(n<<1) for a whole number n, or 0x01 and 8 bytes little endian
//
// The mask has a bit for each column that is not 0.
const digestVersion = 1

// fsJob is what Top adds up by.
type fsJob struct{ fs, job int64 }

func appendRecord(b []byte, key fsJob, before int64, v *vec) []byte {
	b = binary.AppendUvarint(b, uint64(key.fs))
	b = binary.AppendVarint(b, key.job-before)
	mask := uint64(0)
	for i, x := range v {
		if x != 0 {
			mask |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, mask)
	for _, x := range v {
		switch {
		case x == 0:
		case x > 0 && x < 1<<53 && x == math.Trunc(x):
			b = binary.AppendUvarint(b, uint64(x)<<1)
		default:
			b = binary.LittleEndian.AppendUint64(append(b, 1), math.Float64bits(x))
		}
	}
	return b
}

var errDigest = errors.New("digest is damaged")

// readDigest calls f for every record. It takes any bytes: what is not a digest
// is an error, after which f may have been called for some.
func readDigest(b []byte, f func(fsJob, *vec)) error {
	if len(b) == 0 || b[0] != digestVersion {
		return errDigest
	}
	b = b[1:]
	job := int64(0)
	for len(b) > 0 {
		fs, n := binary.Uvarint(b)
		if n <= 0 {
			return errDigest
		}
		b = b[n:]
		delta, n := binary.Varint(b)
		if n <= 0 {
			return errDigest
		}
		b = b[n:]
		if job += delta; job < 0 || int64(fs) < 0 {
			return errDigest
		}
		var v vec
		var ok bool
		if b, ok = readNumbers(b, &v); !ok {
			return errDigest
		}
		f(fsJob{int64(fs), job}, &v)
	}
	return nil
}

// readNumbers sets the columns that are not 0.
func readNumbers(b []byte, v *vec) ([]byte, bool) {
	mask, n := binary.Uvarint(b)
	if n <= 0 || mask >= 1<<numColumns {
		return nil, false
	}
	b = b[n:]
	for ; mask != 0; mask &= mask - 1 {
		i := bits.TrailingZeros64(mask)
		if len(b) > 0 && b[0] == 1 {
			if len(b) < 9 {
				return nil, false
			}
			v[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[1:]))
			b = b[9:]
			continue
		}
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, false
		}
		v[i] = float64(x >> 1)
		b = b[n:]
	}
	return b, true
}

// fsRows reads the rows of [from, to) of a level, pools of a file system merged
// row by row: f may be called several times for a job.
func fsRows(ctx context.Context, q querier, l level, from, to int64, f func(fsJob, *vec)) error {
	pools, err := poolFS(ctx, q)
	if err != nil {
		return err
	}
	rows, err := q.QueryContext(ctx, "SELECT job, pool, "+columnList("")+" FROM "+l.table+
		" WHERE start >= ? AND start < ? ORDER BY start, job, pool", from, to)
	if err != nil {
		return err
	}
	defer rows.Close()
	var job, pool int64
	var v vec
	dest := append([]any{&job, &pool}, v.dest()...)
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		f(fsJob{pools[pool], job}, &v)
	}
	return rows.Err()
}

// dest gives the places to scan the columns into.
func (v *vec) dest() []any {
	d := make([]any, numColumns)
	for i := range v {
		d[i] = &v[i]
	}
	return d
}

// poolFS gives the file system of each pool. There are few.
func poolFS(ctx context.Context, q querier) (map[int64]int64, error) {
	rows, err := q.QueryContext(ctx, "SELECT id, fs FROM pool")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	m := map[int64]int64{}
	for rows.Next() {
		var id, fs int64
		if err := rows.Scan(&id, &fs); err != nil {
			return nil, err
		}
		m[id] = fs
	}
	return m, rows.Err()
}

// digestPending packs periods that ended before a time and have no digest, at
// most limit days and 24 times as many hours. It tells how many it packed.
func digestPending(ctx context.Context, tx *idTx, before int64, limit int) (int, error) {
	done := 0
	for _, l := range []level{hourLevel, dayLevel} {
		n := limit
		if l == hourLevel {
			n *= 24
		}
		starts, err := openPeriods(ctx, tx, l, before, n)
		if err != nil {
			return done, err
		}
		for _, start := range starts {
			if err := digestPeriod(ctx, tx, l, start); err != nil {
				return done, fmt.Errorf("pack %s %d: %w", l.table, start, err)
			}
			done++
		}
	}
	return done, nil
}

func openPeriods(ctx context.Context, tx *idTx, l level, before int64, limit int) ([]int64, error) {
	rows, err := tx.QueryContext(ctx, `SELECT start FROM period WHERE span = ? AND start <= ? AND digest IS NULL
		ORDER BY start LIMIT ?`, l.span, before-l.span, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var starts []int64
	for rows.Next() {
		var s int64
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		starts = append(starts, s)
	}
	return starts, rows.Err()
}

func digestPeriod(ctx context.Context, tx *idTx, l level, start int64) error {
	b := []byte{digestVersion}
	last, before := fsJob{-1, -1}, int64(0)
	var sum vec
	flush := func() {
		if last.job >= 0 {
			b = appendRecord(b, last, before, &sum)
			before = last.job
		}
	}
	// rows come by job: its pools lie together, those of one file system mostly too
	err := fsRows(ctx, tx, l, start, start+l.span, func(key fsJob, v *vec) {
		if key == last {
			sum.add(v)
			return
		}
		flush()
		last, sum = key, *v
	})
	if err != nil {
		return err
	}
	flush()
	_, err = tx.ExecContext(ctx, "UPDATE period SET digest = ? WHERE span = ? AND start = ?", b, l.span, start)
	return err
}

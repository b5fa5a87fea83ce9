package store

import (
	"context"
	"database/sql"
	"fmt"
)

// sums adds up rows by file system and job. A month holds some 100,000 of them,
// so it is built for that: jobs get dense numbers, and cells lie in chunks, since
// growing one slice would copy some 20 MB.
type sums struct {
	only  int64 // this file system; 0 for all
	jobs  []int64
	dense idTable // job -> index in jobs
	fs    []*fsSums
	cells [][]cell
}

// fsSums is one file system's share.
type fsSums struct {
	id    int64
	cells idTable // job -> index of its cell
	n     int     // cells
	v     vec
}

// cell is what a job did on a file system. It holds no pointers, so that the
// garbage collector need not look into megabytes of them.
type cell struct {
	fs  int32 // index in sums.fs
	job int32 // index in sums.jobs
	v   vec
}

const chunk = 1024

func (s *sums) add(key fsJob, v *vec) {
	if s.only != 0 && key.fs != s.only {
		return
	}
	fi := s.of(key.fs)
	f := s.fs[fi]
	f.v.add(v)
	at := f.cells.at(key.job)
	if *at == 0 {
		f.n++
		*at = s.addCell(fi, key.job)
	}
	i := *at - 1
	s.cells[i/chunk][i%chunk].v.add(v)
}

// of gives the index of a file system.
func (s *sums) of(fs int64) int32 {
	for i, f := range s.fs { // there are few
		if f.id == fs {
			return int32(i)
		}
	}
	s.fs = append(s.fs, &fsSums{id: fs})
	return int32(len(s.fs) - 1)
}

// addCell makes an empty cell and gives its index and 1.
func (s *sums) addCell(fs int32, job int64) int32 {
	d := s.dense.at(job)
	if *d == 0 {
		s.jobs = append(s.jobs, job)
		*d = int32(len(s.jobs))
	}
	last := len(s.cells) - 1
	if last < 0 || len(s.cells[last]) == chunk {
		s.cells = append(s.cells, make([]cell, 0, chunk))
		last++
	}
	s.cells[last] = append(s.cells[last], cell{fs: fs, job: *d - 1})
	return int32(last*chunk + len(s.cells[last]))
}

// all calls f for each cell in the order of arrival.
func (s *sums) all(f func(*cell)) {
	for _, c := range s.cells {
		for i := range c {
			f(&c[i])
		}
	}
}

// idTable maps row ids to small numbers; 0 is none. Ids are given in order, so
// neighbours share a page and the last page is mostly the right one.
type idTable struct {
	pages  map[int64]*[chunk]int32
	last   *[chunk]int32
	lastID int64
}

// at gives the place of an id's number, making it where there is none.
func (t *idTable) at(id int64) *int32 {
	p := id / chunk
	if t.last == nil || t.lastID != p {
		if t.pages == nil {
			t.pages = map[int64]*[chunk]int32{}
		}
		if t.pages[p] == nil {
			t.pages[p] = new([chunk]int32)
		}
		t.last, t.lastID = t.pages[p], p
	}
	return &t.last[uint64(id)%chunk]
}

// get gives an id's number, 0 where there is none.
func (t *idTable) get(id int64) int32 {
	if page := t.pages[id/chunk]; page != nil {
		return page[uint64(id)%chunk]
	}
	return 0
}

// addPiece reads a piece: digests where there are, else the level's rows. A day
// that is not over is read by its hours, most of which have digests.
func (s *sums) addPiece(ctx context.Context, q querier, h *horizon, p piece) error {
	if p.level == minuteLevel {
		return fsRows(ctx, q, p.level, p.from, p.to, s.add)
	}
	open, err := s.addDigests(ctx, q, p)
	if err != nil {
		return err
	}
	for _, start := range open {
		end := start + p.level.span
		if p.level == dayLevel && start >= h.hourFloor {
			err = s.addPiece(ctx, q, h, piece{hourLevel, start, end})
		} else {
			err = fsRows(ctx, q, p.level, start, end, s.add)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addDigests returns the periods that have no digest.
func (s *sums) addDigests(ctx context.Context, q querier, p piece) ([]int64, error) {
	rows, err := q.QueryContext(ctx, "SELECT start, digest FROM period WHERE span = ? AND start >= ? AND start < ? ORDER BY start",
		p.level.span, p.from, p.to)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var open []int64
	for rows.Next() {
		var start int64
		var digest sql.RawBytes
		if err := rows.Scan(&start, &digest); err != nil {
			return nil, err
		}
		if digest == nil {
			open = append(open, start)
		} else if err := readDigest(digest, s.add); err != nil {
			return nil, fmt.Errorf("read %s %d: %w", p.level.table, start, err)
		}
	}
	return open, rows.Err()
}

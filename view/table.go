package view

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// DefaultWidth is how wide a table is where nobody says otherwise: it fits a
// terminal of 80 columns with one to spare.
const DefaultWidth = 79

// minFlex is how narrow the flexible column may become, in cells.
const minFlex = 8

// Column is the head of a column, with the unit in its name.
type Column struct {
	Name  string
	Right bool // numbers stand at the right
	Flex  bool // gives way where the table is too wide; one column at most
}

// Table is rows of cells as strings, in the order of Header. Cells hold the text
// as it is: Write makes it safe, WriteCSV does not change it. Missing cells are
// empty, surplus ones are left out.
type Table struct {
	Header []Column
	Rows   [][]string
}

// Write lays the table out in columns two blanks apart, no wider than the given
// width (DefaultWidth where it is 0 or less). The flexible column is cut, at the
// mark '~'; when it is down to 8 cells the lines become longer instead, for no
// number is ever cut.
func (t *Table) Write(w io.Writer, limit int) error {
	if limit <= 0 {
		limit = DefaultWidth
	}
	rows := make([][]string, 0, len(t.Rows)+1)
	head := make([]string, len(t.Header))
	for i, c := range t.Header {
		head[i] = Safe(c.Name)
	}
	rows = append(rows, head)
	for _, r := range t.Rows {
		rows = append(rows, t.cells(r, Safe))
	}
	widths := t.widths(rows, limit)
	var b strings.Builder
	for _, r := range rows {
		t.line(&b, r, widths)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// cells brings a row to the header's length.
func (t *Table) cells(row []string, change func(string) string) []string {
	cells := make([]string, len(t.Header))
	for i := range min(len(row), len(cells)) {
		cells[i] = change(row[i])
	}
	return cells
}

// widths gives each column what its widest cell needs, less in the flexible one
// where the sum is more than limit.
func (t *Table) widths(rows [][]string, limit int) []int {
	widths := make([]int, len(t.Header))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], cellWidth(cell))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, n := range widths {
		total += n
	}
	for i, c := range t.Header {
		if c.Flex {
			widths[i] = min(widths[i], max(minFlex, widths[i]-max(0, total-limit)))
			break
		}
	}
	return widths
}

// line writes one row; no line ends in blanks.
func (t *Table) line(b *strings.Builder, row []string, widths []int) {
	var line strings.Builder
	for i, cell := range row {
		if i > 0 {
			line.WriteString("  ")
		}
		cell = truncate(cell, widths[i])
		pad := strings.Repeat(" ", widths[i]-cellWidth(cell))
		if t.Header[i].Right {
			line.WriteString(pad + cell)
		} else {
			line.WriteString(cell + pad)
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " "))
	b.WriteByte('\n')
}

// WriteCSV writes the table as RFC 4180 with one line of column names. Cells
// are exact, control characters included: a program reads this. For the same
// reason lines end in LF: encoding/csv makes its CRLF of newlines in cells too.
func (t *Table) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	head := make([]string, len(t.Header))
	for i, col := range t.Header {
		head[i] = col.Name
	}
	err := c.Write(head)
	for _, r := range t.Rows {
		if err == nil {
			err = c.Write(t.cells(r, func(s string) string { return s }))
		}
	}
	c.Flush()
	if err == nil {
		err = c.Error()
	}
	if err != nil {
		return fmt.Errorf("write csv: %w", err)
	}
	return nil
}

// cellWidth is how many cells of a terminal a safe text takes.
func cellWidth(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// runeWidth is 2 for wide East Asian characters and emoji, 0 for marks that are
// drawn onto the character before them, 1 else.
func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// truncate cuts s to n cells, the last of them '~' when something is missing.
func truncate(s string, n int) string {
	if cellWidth(s) <= n {
		return s
	}
	at := 0
	for i, r := range s {
		at += runeWidth(r)
		if at > n-1 {
			return s[:i] + "~"
		}
	}
	return s
}

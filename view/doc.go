// Package view lays rows out for people and programs: aligned text, CSV, and
// numbers with few digits. Rows come first: a command makes a Table of strings,
// and this package only places them.
//
// It reads nothing, writes to the writers it is given, and lets no control
// character of a job's name reach a terminal. The commands call it.
package view

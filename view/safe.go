package view

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe gives s with everything written out that could act on a terminal or
// deceive the eye: control characters (C0, DEL, C1), bytes that are no UTF-8,
// line separators, and what Unicode shows as nothing or uses to turn the
// direction of text. Bytes become \xHH, runes beyond ASCII \u{H}. Anybody who
// starts a job chooses its id and name, so no text that comes from one may be
// printed without it. It does not allocate where nothing needs to change.
func Safe(s string) string {
	i := unsafeIndex(s)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1, r < utf8.RuneSelf && !plain(r):
			fmt.Fprintf(&b, `\x%02X`, s[i])
		case !plain(r):
			fmt.Fprintf(&b, `\u{%X}`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// unsafeIndex is where the first byte stands that Safe writes out, -1 for none.
func unsafeIndex(s string) int {
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if !plain(rune(c)) {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if (r == utf8.RuneError && n == 1) || !plain(r) {
			return i
		}
		i += n
	}
	return -1
}

// plain tells runes that show themselves and nothing else. IsPrint leaves out
// all controls, format characters (bidirectional overrides, zero-width ones,
// the byte order mark), separators and what is not assigned; some letters and
// marks are shown as nothing too.
func plain(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r != 0x7f
	}
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

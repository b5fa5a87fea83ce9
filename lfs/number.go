package lfs

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// parseNumber reads leading digits: the value, how many bytes, and whether
// there was a number that fits 64 bits.
func parseNumber(s []byte) (uint64, int, bool) {
	var v uint64
	i := 0
	for i < 16 && len(s)-i >= 8 { // eight digits at once; 16 always fit
		chunk := binary.LittleEndian.Uint64(s[i:])
		n := leadingDigits(chunk)
		if n == 0 {
			return v, i, i > 0
		}
		v = v*powersOf10[n] + digitsValue(chunk, n)
		i += n
		if n < 8 {
			return v, i, true
		}
	}
	for i < len(s) {
		b := s[i] - '0'
		if b > 9 {
			break
		}
		if i >= 19 && (v > math.MaxUint64/10 || v*10 > math.MaxUint64-uint64(b)) { // 19 digits always fit
			for i < len(s) && s[i]-'0' <= 9 {
				i++
			}
			return 0, i, false
		}
		v = v*10 + uint64(b)
		i++
	}
	return v, i, i > 0
}

var powersOf10 = [9]uint64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8}

// leadingDigits is how many of eight bytes, lowest first, are digits up to the
// first that is none. A digit less '0' has no high bit, nor has it plus 'F';
// borrows and carries of other bytes only reach those behind them.
func leadingDigits(chunk uint64) int {
	const ones = 0x0101010101010101
	other := (chunk | (chunk - '0'*ones) | (chunk + 'F'*ones)) & (0x80 * ones)
	return bits.TrailingZeros64(other) / 8
}

// digitsValue is the number that the first n of eight bytes spell. Pairs, then
// fours, then eights of digits are joined by a multiplication each.
func digitsValue(chunk uint64, n int) uint64 {
	v := (chunk - 0x3030303030303030) << (64 - 8*uint(n)) // zeros lead
	v = (v*10 + v>>8) & 0x00ff00ff00ff00ff
	v = (v*100 + v>>16) & 0x0000ffff0000ffff
	return (v*10000 + v>>32) & 0xffffffff
}

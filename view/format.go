package view

import (
	"math"
	"strconv"
	"time"
)

// Unknown stands where a number is not known (NaN).
const Unknown = "-"

// Bytes writes a number of bytes with three significant digits and a binary
// prefix, without the unit, which belongs into the header: 1536 is "1.50K"
// (KiB). Below 1 KiB it is a whole number.
func Bytes(v float64) string { return scaled(v, 1024) }

// Count writes a number of things with a decimal prefix: 12345 is "12.3k".
// Below 1000 it is whole, or has one digit where it is a small rate: "0.3".
func Count(v float64) string { return scaled(v, 1000) }

// scaled writes v with a prefix of powers of base, 1000 or 1024.
func scaled(v, base float64) string {
	if s, special := notFinite(v); special {
		return s
	}
	if v < 0 {
		return "-" + scaled(-v, base)
	}
	prefixes := [...]string{"", "k", "M", "G", "T", "P", "E"}
	if base == 1024 {
		prefixes[1] = "K"
	}
	i := 0
	// 999.5 would be written with four digits.
	for v >= 999.5 && i+1 < len(prefixes) {
		v /= base
		i++
	}
	if i > 0 {
		return threeDigits(v) + prefixes[i]
	}
	if base == 1000 && v < 9.95 && v != math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
}

// threeDigits writes v below 1000 with three significant digits.
func threeDigits(v float64) string {
	decimals := 0
	switch {
	case v < 9.995:
		decimals = 2
	case v < 99.95:
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

func notFinite(v float64) (string, bool) {
	switch {
	case math.IsNaN(v):
		return Unknown, true
	case math.IsInf(v, 1):
		return "inf", true
	case math.IsInf(v, -1):
		return "-inf", true
	}
	return "", false
}

// Percent writes a fraction as percent: 0.123 is "12.3%", 1 is "100%", and what
// is not quite nothing is "<0.1%".
func Percent(fraction float64) string {
	if s, special := notFinite(fraction); special {
		return s
	}
	v := 100 * fraction
	switch {
	case v < 0:
		return "-" + Percent(-fraction)
	case v == 0:
		return "0%"
	case v < 0.05:
		return "<0.1%"
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64) + "%"
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + "%"
}

// Usec writes a time given in microseconds: "850us", "23.0ms", "1.20s".
func Usec(v float64) string {
	if s, special := notFinite(v); special {
		return s
	}
	switch {
	case v < 0:
		return "-" + Usec(-v)
	case v < 999.5:
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64) + "us"
	case v < 999.5e3:
		return threeDigits(v/1e3) + "ms"
	case v < 60e6:
		return threeDigits(v/1e6) + "s"
	}
	if v >= math.MaxInt64/1e3 {
		return "inf"
	}
	return Duration(time.Duration(v * 1e3))
}

// Duration writes a time in its two largest units: "45s", "1m30s", "2h05m",
// "3d04h". Below a second it is whole milliseconds.
func Duration(d time.Duration) string {
	if d < 0 {
		if d == math.MinInt64 {
			d++ // it has no positive counterpart
		}
		return "-" + Duration(-d)
	}
	if d > 0 && d < time.Second-time.Millisecond/2 {
		return strconv.FormatInt(d.Round(time.Millisecond).Milliseconds(), 10) + "ms"
	}
	s := int64((d + time.Second/2) / time.Second)
	if d > math.MaxInt64-time.Second {
		s = int64(d / time.Second)
	}
	switch {
	case s < 60:
		return strconv.FormatInt(s, 10) + "s"
	case s < 3600:
		return twoUnits(s/60, "m", s%60, "s")
	case s < 86400:
		return twoUnits(s/3600, "h", s%3600/60, "m")
	}
	return twoUnits(s/86400, "d", s%86400/3600, "h")
}

func twoUnits(a int64, unitA string, b int64, unitB string) string {
	s := strconv.FormatInt(a, 10) + unitA
	if b < 10 {
		s += "0"
	}
	return s + strconv.FormatInt(b, 10) + unitB
}

package kmsg

import (
	"strings"
	"time"
)

// ctime parses "Wed Jan 15 17:22:28 2025".
func ctime(s string, loc *time.Location) (time.Time, bool) {
	if len(s) != 24 || s[3] != ' ' || s[19] != ' ' {
		return time.Time{}, false
	}
	year, ok := number(s[20:])
	d, ok2 := dayOfYear(s[4:19])
	if !ok || !ok2 || !d.valid(int(year)) {
		return time.Time{}, false
	}
	return d.in(int(year), loc), true
}

// yearDay is a stamp without its year.
type yearDay struct{ month, day, hour, minute, second int }

func (d yearDay) in(year int, loc *time.Location) time.Time {
	return time.Date(year, time.Month(d.month), d.day, d.hour, d.minute, d.second, 0, loc)
}

// valid refuses a 29th of February where there is none.
func (d yearDay) valid(year int) bool {
	return time.Date(year, time.Month(d.month), d.day, 0, 0, 0, 0, time.UTC).Day() == d.day
}

// dayOfYear parses "Jan 15 17:22:28" and "Jan  5 17:22:28".
func dayOfYear(s string) (d yearDay, ok bool) {
	if len(s) != 15 || s[3] != ' ' || s[6] != ' ' || s[9] != ':' || s[12] != ':' {
		return d, false
	}
	at := strings.Index("JanFebMarAprMayJunJulAugSepOctNovDec", s[:3])
	if at < 0 || at%3 != 0 {
		return d, false
	}
	d.month = at/3 + 1
	var oks [4]bool
	d.day, oks[0] = two(strings.Replace(s[4:6], " ", "0", 1))
	d.hour, oks[1] = two(s[7:9])
	d.minute, oks[2] = two(s[10:12])
	d.second, oks[3] = two(s[13:15])
	ok = oks == [4]bool{true, true, true, true}
	return d, ok && d.day >= 1 && d.day <= 31 && d.hour < 24 && d.minute < 60 && d.second <= 60
}

// two parses two digits.
func two(s string) (int, bool) {
	n, ok := number(s)
	return int(n), ok && len(s) == 2
}

// near gives the stamp the last year in which it is not more than a day after
// ref. The zone is that of ref.
func (d yearDay) near(ref time.Time) time.Time {
	limit := ref.Add(24 * time.Hour)
	for year := limit.Year(); year > limit.Year()-9; year-- {
		if !d.valid(year) {
			continue
		}
		if t := d.in(year, ref.Location()); !t.After(limit) {
			return t
		}
	}
	return time.Time{}
}

// rfc3339 parses the stamps of rsyslog, and those of dmesg with a comma before
// the fraction.
func rfc3339(s string) (time.Time, bool) {
	if len(s) < 20 || len(s) > 40 || s[4] != '-' || s[10] != 'T' {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, strings.Replace(s, ",", ".", 1))
	return t, err == nil
}

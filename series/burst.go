package series

import "math"

// Bursts finds the bursts of a rate and their period: a checkpoint is a burst
// of writes after a quiet time, and comes again. The zero value is ready.
type Bursts struct {
	peak    float64   // highest rate, slowly forgotten
	mean    float64   // mean rate over the time seen
	seconds float64   // time seen
	active  float64   // of it, time in bursts
	on      bool      // in a burst now
	starts  []float64 // when the last bursts started, in seconds of this series
}

// burstKeep is how many burst starts are remembered.
const burstKeep = 16

// Observe takes the mean rate of an interval. A burst begins when the rate
// passes half of the peak and ends below a tenth of it; floor keeps trickles
// from being bursts.
func (b *Bursts) Observe(rate, seconds, floor float64) {
	if !(seconds > 0) || math.IsNaN(rate) {
		return
	}
	b.peak = math.Max(rate, b.peak*math.Exp(-seconds/600))
	b.mean += (rate - b.mean) * seconds / (b.seconds + seconds)
	start := b.seconds
	b.seconds += seconds
	switch {
	case !b.on && rate >= floor && rate >= b.peak/2:
		b.on = true
		if len(b.starts) == burstKeep {
			b.starts = append(b.starts[:0], b.starts[1:]...)
		}
		b.starts = append(b.starts, start)
	case b.on && (rate < b.peak/10 || rate < floor/2):
		b.on = false
	}
	if b.on {
		b.active += seconds
	}
}

// On reports whether a burst is under way.
func (b *Bursts) On() bool { return b.on }

// Count is the number of bursts remembered.
func (b *Bursts) Count() int { return len(b.starts) }

// DutyCycle is the share of the time spent in bursts, since the first one began.
func (b *Bursts) DutyCycle() float64 {
	if len(b.starts) == 0 {
		return 0
	}
	return Share(b.active, b.seconds-b.starts[0])
}

// Ratio is a rate relative to the mean over the time seen; NaN without any.
func (b *Bursts) Ratio(rate float64) float64 {
	if b.mean <= 0 {
		return math.NaN()
	}
	return rate / b.mean
}

// Period is the time between burst starts in seconds when they come regularly
// (three or more, none of the gaps further than a third from their mean), else NaN.
func (b *Bursts) Period() float64 {
	n := len(b.starts)
	if n < 3 {
		return math.NaN()
	}
	mean := (b.starts[n-1] - b.starts[0]) / float64(n-1)
	for i := 1; i < n; i++ {
		if gap := b.starts[i] - b.starts[i-1]; math.Abs(gap-mean) > mean/3 {
			return math.NaN()
		}
	}
	return mean
}

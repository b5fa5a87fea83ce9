// Package series turns readings into differences and differences into what is
// normal: deltas that tell a reset from a wrap, baselines of a job's own calm,
// bursts and their period. It is pure: no clock, no machine, no names of sources.
package series

import (
	"math"

	"ioguard"
)

// Diff is the increase from prev to cur of a counter that is bits wide. A
// counter that fell has wrapped when it is narrower than 64 bits and the
// increase over the wrap is small (under a quarter of its range); otherwise it
// was reset, and what it has gathered since is the increase that is certain.
func Diff(prev, cur uint64, bits uint) (uint64, ioguard.DeltaKind) {
	if cur >= prev {
		return cur - prev, ioguard.DeltaValue
	}
	if bits < 64 && prev < 1<<bits {
		if wrapped := (cur - prev) & (1<<bits - 1); wrapped < 1<<bits/4 {
			return wrapped, ioguard.DeltaValue
		}
	}
	return cur, ioguard.DeltaReset
}

// Rate is n per second over seconds; NaN where no time passed.
func Rate(n, seconds float64) float64 {
	if seconds <= 0 {
		return math.NaN()
	}
	return n / seconds
}

// Share is part/whole, 0 where the whole is nothing, never above 1.
func Share(part, whole float64) float64 {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return min(part/whole, 1)
}

// Calm follows the lower envelope of a positive quantity (a latency, a busy
// share): what it is when nothing disturbs it. It falls quickly and rises
// slowly, so that a disturbance of a minute does not become the new normal.
// The zero value knows nothing.
type Calm struct {
	level float64 // mean of the logarithm
	dev   float64 // mean absolute deviation of the logarithm
	n     int
}

// The weights of a new value. Rising halves a gap in some 70 samples; a jump
// (the logarithm moves by more than calmJump, a factor of 2.5) is taken for a
// disturbance and needs four times as many to become normal.
const (
	calmFall = 0.3
	calmRise = 0.01
	calmJump = 0.92
)

// Observe takes a value; those not above zero, and unknown ones, say nothing.
func (c *Calm) Observe(v float64) {
	if !(v > 0) || math.IsInf(v, 1) {
		return
	}
	x := math.Log(v)
	c.n++
	if c.n == 1 {
		c.level, c.dev = x, 0.3
		return
	}
	w := calmRise
	switch {
	case x < c.level:
		w = calmFall
	case x > c.level+calmJump:
		w = calmRise / 4
	}
	if n := 1 / float64(c.n); c.n <= 4 && n > w { // the first few count alike
		w = n
	}
	d := x - c.level
	c.level += w * d
	if math.Abs(d) < calmJump {
		c.dev += 0.1 * (math.Abs(d) - c.dev)
	}
}

// Known reports whether enough was seen to speak of a normal.
func (c *Calm) Known() bool { return c.n >= 3 }

// Level is the calm value; NaN while unknown.
func (c *Calm) Level() float64 {
	if !c.Known() {
		return math.NaN()
	}
	return math.Exp(c.level)
}

// Ratio is v relative to the calm level, NaN while unknown.
func (c *Calm) Ratio(v float64) float64 {
	if !c.Known() || !(v > 0) {
		return math.NaN()
	}
	return v / math.Exp(c.level)
}

// Steady is how far above calm a value must be to be more than this quantity's
// own noise: a ratio, at least 1.
func (c *Calm) Steady() float64 { return math.Exp(2 * c.dev) }

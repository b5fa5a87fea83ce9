package series

import (
	"math"
	"math/rand/v2"
	"testing"
	"testing/quick"

	"ioguard"
)

func TestDiff(t *testing.T) {
	tests := []struct {
		prev, cur uint64
		bits      uint
		want      uint64
		kind      ioguard.DeltaKind
	}{
		{5, 12, 64, 7, ioguard.DeltaValue},
		{5, 5, 64, 0, ioguard.DeltaValue},
		{100, 7, 64, 7, ioguard.DeltaReset},
		{math.MaxUint32 - 2, 7, 32, 10, ioguard.DeltaValue},            // wrapped
		{1000, 7, 32, 7, ioguard.DeltaReset},                           // far from its end: reset
		{math.MaxUint64 - 2, 7, 64, 7, ioguard.DeltaReset},             // 64 bits do not wrap in a machine's life
		{math.MaxUint32 + 10, 7, 32, 7, ioguard.DeltaReset},            // wider than declared
		{math.MaxUint32 - 2, 1 << 31, 32, 1 << 31, ioguard.DeltaReset}, // half the range is no wrap
	}
	for _, tt := range tests {
		got, kind := Diff(tt.prev, tt.cur, tt.bits)
		if got != tt.want || kind != tt.kind {
			t.Errorf("Diff(%d, %d, %d) = %d %v, want %d %v", tt.prev, tt.cur, tt.bits, got, kind, tt.want, tt.kind)
		}
	}
}

// A counter read at any points, with resets in between, never yields more than it counted.
func TestDiffNeverInvents(t *testing.T) {
	property := func(seed uint64) bool {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var counter, prev, counted, seen uint64
		for range 200 {
			if rnd.IntN(20) == 0 {
				counter = 0
			}
			n := rnd.Uint64N(1000)
			counter += n
			counted += n
			if rnd.IntN(3) > 0 {
				inc, _ := Diff(prev, counter, 64)
				seen += inc
				prev = counter
			}
		}
		return seen <= counted
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
}

func TestCalmKeepsThroughAStorm(t *testing.T) {
	var c Calm
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 10 {
		c.Observe(20 + 10*rnd.Float64())
	}
	calm := c.Level()
	if calm < 19 || calm > 28 {
		t.Errorf("calm = %v", calm)
	}
	for range 35 { // 70 s at seven times the calm
		c.Observe(160 + 20*rnd.Float64())
	}
	if r := c.Ratio(170); r < 4 {
		t.Errorf("at the end of the storm the ratio is %v, want at least 4", r)
	}
	for range 10 {
		c.Observe(25)
	}
	if r := c.Ratio(25); r > 1.3 {
		t.Errorf("after the storm the ratio is %v", r)
	}
	c.Observe(math.NaN())
	c.Observe(0)
	c.Observe(-1)
	c.Observe(math.Inf(1))
	if r := c.Ratio(25); math.IsNaN(r) || r > 1.3 {
		t.Errorf("unknown values moved the baseline to %v", r)
	}
	var none Calm
	if none.Known() || !math.IsNaN(none.Ratio(3)) || !math.IsNaN(none.Level()) {
		t.Error("an empty baseline claims to know")
	}
}

func TestBursts(t *testing.T) {
	var b Bursts
	for s := 0; s < 100; s += 2 { // 8 s of 26 MB/s every 24 s, a trickle in between
		rate := 1e5
		if s%24 >= 4 && s%24 < 12 {
			rate = 26e6
		}
		b.Observe(rate, 2, 1e6)
	}
	if p := b.Period(); math.Abs(p-24) > 1 {
		t.Errorf("period = %v, want 24", p)
	}
	if d := b.DutyCycle(); d < 0.25 || d > 0.45 {
		t.Errorf("duty cycle = %v, want about a third", d)
	}
	var steady Bursts
	for range 50 {
		steady.Observe(2e6, 2, 1e6)
	}
	if !math.IsNaN(steady.Period()) || steady.Count() != 1 || steady.DutyCycle() < 0.99 {
		t.Errorf("a steady writer has period %v, %d bursts, duty cycle %v", steady.Period(), steady.Count(), steady.DutyCycle())
	}
}

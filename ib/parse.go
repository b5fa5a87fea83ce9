package ib

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Rate is what the kernel tells of a port's speed.
type Rate struct {
	Gbps         *float64 // nil where it does not tell
	Width, Speed string   // "4X", "EDR"; "" where it does not tell
}

// ParseState parses a port's state or phys_state and gives the word alone, ""
// where the kernel says that it does not know.
//
// FILE: drivers/infiniband/core/sysfs.c, state_show and phys_state_show:
//
//	4: ACTIVE
//	2: Polling
//	0: <unknown>
func ParseState(b []byte) (string, error) {
	number, word, ok := strings.Cut(string(bytes.TrimSpace(b)), ":")
	if _, err := strconv.ParseUint(strings.TrimSpace(number), 10, 32); !ok || err != nil {
		return "", fmt.Errorf("parse state %.40q: not a number, a colon and a word", b)
	}
	return known(word), nil
}

// known is a word of the kernel, "" where it stands for not knowing.
func known(word string) string {
	word = strings.TrimSpace(word)
	switch strings.ToLower(strings.Trim(word, "<>")) {
	case "unknown", "unspecified":
		return ""
	}
	return word
}

// ParseRate parses a port's rate. Old kernels leave the word SDR out; "Unknown"
// and an empty file tell nothing and are no error.
//
// FILE: drivers/infiniband/core/sysfs.c, rate_show:
//
//	100 Gb/sec (4X EDR)
//	2.5 Gb/sec (1X SDR)
//	10 Gb/sec (4X)
func ParseRate(b []byte) (Rate, error) {
	text := strings.TrimSpace(string(b))
	if known(text) == "" {
		return Rate{}, nil
	}
	words := strings.Fields(text)
	gbps, err := strconv.ParseFloat(words[0], 64)
	if err != nil || !(gbps >= 0) || math.IsInf(gbps, 1) || len(words) < 2 || !strings.EqualFold(words[1], "Gb/sec") {
		return Rate{}, fmt.Errorf("parse rate %.40q: not a number of Gb/sec", b)
	}
	r := Rate{Gbps: &gbps}
	if len(words) > 2 {
		r.Width = strings.Trim(words[2], "()")
	}
	if len(words) > 3 {
		r.Speed = strings.Trim(words[3], "()")
	}
	return r, nil
}

// ParseCounter parses a counter. It is nil where the adapter has no performance
// management agent, or has but not this counter.
//
// FILE: drivers/infiniband/core/sysfs.c, show_pma_counter and show_hw_stats:
//
//	0
//	65535
//	N/A (no PMA)
func ParseCounter(b []byte) (*uint64, error) {
	text := strings.TrimSpace(string(b))
	if strings.HasPrefix(text, "N/A") {
		return nil, nil
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("parse counter %.40q: not a number of 64 bits", b)
	}
	return &v, nil
}

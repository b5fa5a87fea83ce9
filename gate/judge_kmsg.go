package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ioguard/kmsg"
	"ioguard/view"
)

var kmsgCodes = []string{"ib-firmware", "kmsg-lbug", "kmsg-fabric", "kmsg-hung", "kmsg-lustre", "kmsg-lnet"}

// kmsgChecks says which check an event belongs to. Kinds that are not here say
// nothing about this node: a LustreError alone is no sign of illness.
var kmsgChecks = map[kmsg.Kind]string{
	kmsg.MLX5Health:      "ib-firmware",
	kmsg.LBUG:            "kmsg-lbug",
	kmsg.MLX5Port:        "kmsg-fabric",
	kmsg.MLX5Timeout:     "kmsg-fabric",
	kmsg.MLX5Async:       "kmsg-fabric",
	kmsg.IBPort:          "kmsg-fabric",
	kmsg.HFI1:            "kmsg-fabric",
	kmsg.PCIeAER:         "kmsg-fabric",
	kmsg.HungTask:        "kmsg-hung",
	kmsg.ConnectionLost:  "kmsg-lustre",
	kmsg.RequestTimeout:  "kmsg-lustre",
	kmsg.OperationFailed: "kmsg-lustre",
	kmsg.Evicted:         "kmsg-lustre",
	kmsg.LNetError:       "kmsg-lnet",
	kmsg.LNetRecovery:    "kmsg-lnet",
}

// goodNews are what events of links and buses say when all is well.
var goodNews = []string{"up", "plugged", "corrected"}

// kmsg judges what the kernel wrote since the last run, or in the last minutes
// before the first.
func (j *judge) kmsg() {
	defer j.untilBoot()
	a := &j.seen.Log
	if unread(j, a, a.Value != nil && len(a.Value.Messages) > 0, kmsgCodes...) || a.Value == nil {
		return
	}
	events := map[string][]kmsg.Event{}
	for _, e := range kmsg.Classify(j.newMessages(a.Value.Messages)) {
		if code, ok := kmsgChecks[e.Kind]; ok && !slices.Contains(goodNews, e.How) {
			events[code] = append(events[code], e)
		}
	}
	for _, code := range kmsgCodes {
		if len(events[code]) > 0 {
			j.kmsgFinding(code, events[code])
		}
		j.ok(code, "nothing in %s", a.Value.Source)
	}
	j.evictionsInLog(events["kmsg-lustre"])
}

// untilBoot tells again what an earlier run of this boot found and only a reboot ends.
func (j *judge) untilBoot() {
	if !j.ran() {
		return
	}
	for _, code := range untilBoot {
		if f, ok := j.last.UntilBoot[code]; ok && len(j.out[code].Findings) == 0 {
			f.brief = strings.TrimPrefix(code, "kmsg-") + " " + f.Seen + sinceText(f.Since, j.seen.Now)
			f.Expected = "none since the node was booted"
			j.found(f)
		}
	}
}

// newMessages leaves out what was written before the last run. The reader does so
// where it knows its place; the first run has none. Messages that do not tell their
// time are old. What is later than now was put into a recorded machine afterwards.
func (j *judge) newMessages(all []kmsg.Message) []kmsg.Message {
	since, now := j.since(), j.seen.Now.Add(time.Minute)
	if j.ran() {
		since = time.Time{}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m kmsg.Message) bool { return m.Time.Before(since) || m.Time.After(now) })
}

func (j *judge) kmsgFinding(code string, events []kmsg.Event) {
	kinds := map[string]uint64{}
	for _, e := range events {
		kinds[string(e.Kind)] += e.Count
	}
	var parts []string
	for _, k := range sortedKeys(kinds) {
		parts = append(parts, fmt.Sprintf("%s %d", strings.ReplaceAll(k, "_", " "), kinds[k]))
	}
	f := Finding{Check: code, Subject: "kernel log", Seen: strings.Join(parts, ", "), Expected: "none since the last run"}
	for _, e := range events[max(0, len(events)-3):] {
		f.Evidence = append(f.Evidence, view.Safe(e.Text))
	}
	if code == "ib-firmware" || code == "kmsg-fabric" {
		f.Shared = []string{"fabric"}
	}
	f.brief = strings.TrimPrefix(code, "kmsg-") + " " + f.Seen
	j.found(f)
}

// evictionsInLog adds evictions that the imports' history has already forgotten.
func (j *judge) evictionsInLog(events []kmsg.Event) {
	if !j.ran() {
		return
	}
	for _, e := range events {
		known := slices.ContainsFunc(j.out["lfs-evicted"].Findings, func(f Finding) bool { return f.Subject == e.Target })
		if e.Kind != kmsg.Evicted || e.Target == "" || e.Target == "MGS" || known {
			continue
		}
		j.found(Finding{Check: "lfs-evicted", Subject: view.Safe(e.Target), Seen: "evicted", Expected: "no eviction", FS: []string{e.FS}, Shared: []string{view.Safe(e.Target)},
			Evidence: []string{view.Safe(e.Text)}})
	}
}

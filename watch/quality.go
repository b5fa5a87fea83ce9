package watch

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"ioguard"
)

// Labels say which jobs of a recording were offenders: its labels.json.
type Labels struct {
	Scenario string  `json:"scenario"`
	Jobs     []Label `json:"jobs"`
}

// Label is one job of a labelled recording. Times are Unix seconds.
type Label struct {
	JobID string  `json:"job_id"`
	User  string  `json:"user"`
	Role  string  `json:"role"` // "offender" or "benign"
	Kind  string  `json:"kind"` // of workload
	Rule  string  `json:"rule"` // the rule that should flag it; "" where the kind tells
	Start float64 `json:"start"`
	Stop  float64 `json:"stop"`
}

// ParseLabels reads a labels.json. Unknown keys are other people's.
func ParseLabels(b []byte) (*Labels, error) {
	var l Labels
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, fmt.Errorf("parse labels.json: %w", err)
	}
	return &l, nil
}

// expected are the rules that fit the workloads of labelled recordings.
var expected = map[string]string{
	"checkpoint": "checkpoint-storm",
	"smallfiles": "metadata-flood",
	"scan":       "metadata-scan",
	"readstorm":  "read-storm",
	"randwrite":  "random-io",
	"randread":   "random-io",
	"hotost":     "hot-ost",
}

// ExpectedRule is the rule that should flag the job, "" where the label does not say.
func (l *Label) ExpectedRule() string {
	if l.Rule != "" {
		return l.Rule
	}
	return expected[l.Kind]
}

func (l *Label) offender() bool { return l.Role == "offender" }

// Verdict is how findings compare with what the labels say.
type Verdict struct {
	Precision float64      `json:"precision"` // of the jobs flagged, the share that are offenders; 1 where none is flagged
	Recall    float64      `json:"recall"`    // of the offenders, the share that is flagged; 1 where there is none
	Jobs      []JobVerdict `json:"jobs"`
}

// JobVerdict is the verdict on one job.
type JobVerdict struct {
	JobID     string   `json:"job_id"`
	Role      string   `json:"role"`
	Kind      string   `json:"kind,omitempty"`
	Rules     []string `json:"rules"`                   // that flagged it
	RightRule bool     `json:"right_rule"`              // the rule that fits is among them, and no other
	Delay     *float64 `json:"delay_seconds,omitempty"` // from its start to the first finding
	Samples   *int     `json:"delay_samples,omitempty"`
}

// Judge compares. Only findings that blame a job count; a job that no label
// names (a system process, say) counts as benign.
func Judge(labels *Labels, findings []ioguard.Finding, interval time.Duration) *Verdict {
	flagged := map[string][]ioguard.Finding{}
	for _, f := range findings {
		if f.Subject == "job" {
			flagged[f.JobID] = append(flagged[f.JobID], f)
		}
	}
	v := &Verdict{}
	right, offenders, known := 0, 0, map[string]bool{}
	for i := range labels.Jobs {
		l := &labels.Jobs[i]
		known[l.JobID] = true
		fs := flagged[l.JobID]
		v.Jobs = append(v.Jobs, judgeJob(l, fs, interval))
		if l.offender() {
			offenders++
			if len(fs) > 0 {
				right++
			}
		}
	}
	for id, fs := range flagged {
		if !known[id] {
			v.Jobs = append(v.Jobs, judgeJob(&Label{JobID: id, Role: "unlabelled"}, fs, interval))
		}
	}
	v.Precision, v.Recall = 1, 1
	if len(flagged) > 0 {
		v.Precision = float64(right) / float64(len(flagged))
	}
	if offenders > 0 {
		v.Recall = float64(right) / float64(offenders)
	}
	return v
}

func judgeJob(l *Label, findings []ioguard.Finding, interval time.Duration) JobVerdict {
	v := JobVerdict{JobID: l.JobID, Role: l.Role, Kind: l.Kind, Rules: []string{}}
	seen := map[string]bool{}
	for i, f := range findings {
		if !seen[f.Rule] {
			seen[f.Rule] = true
			v.Rules = append(v.Rules, f.Rule)
		}
		if i == 0 && l.Start > 0 {
			delay := float64(f.Start.UnixNano())/1e9 - l.Start
			v.Delay = &delay
			if interval > 0 {
				n := int(math.Ceil(math.Max(0, delay) / interval.Seconds()))
				v.Samples = &n
			}
		}
	}
	want := l.ExpectedRule()
	switch {
	case l.offender():
		v.RightRule = len(v.Rules) > 0 && (want == "" || len(v.Rules) == 1 && v.Rules[0] == want)
	default:
		v.RightRule = len(v.Rules) == 0
	}
	return v
}

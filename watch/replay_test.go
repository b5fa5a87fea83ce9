package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ioguard/engine"
	"ioguard/host"
	"ioguard/policy"
)

func TestTune(t *testing.T) {
	files, _ := filepath.Glob(os.Getenv("TUNE"))
	for _, f := range files {
		r, err := host.OpenRecording(f)
		if err != nil {
			t.Fatal(err)
		}
		p := Replay{Recording: r, Engine: engine.New(engine.Config{Policy: policy.Default()})}
		s, err := p.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := r.Labels()
		l, _ := ParseLabels(raw)
		v := Judge(l, s.Findings, spacing(serverSnapshots(r)))
		fmt.Println(filepath.Base(f), "precision", v.Precision, "recall", v.Recall)
		for _, j := range v.Jobs {
			if len(j.Rules) > 0 || j.Role == "offender" {
				fmt.Printf("   %s %s %s %v right=%v", j.JobID, j.Role, j.Kind, j.Rules, j.RightRule)
				if j.Delay != nil {
					fmt.Printf(" delay %.1f s, %d samples", *j.Delay, *j.Samples)
				}
				fmt.Println()
			}
		}
		for _, f := range s.Findings {
			fmt.Printf("   %s %s%s %s %.1f..%.1f %v\n", f.Rule, f.JobID, f.Target, f.Severity, float64(f.Start.UnixMilli())/1000-l.Jobs0(), float64(f.End.UnixMilli())/1000-l.Jobs0(), f.Evidence)
		}
		for _, x := range s.Problems {
			fmt.Println("   problem:", x)
		}
		r.Close()
	}
}

func (l *Labels) Jobs0() float64 {
	if len(l.Jobs) == 0 {
		return 0
	}
	return l.Jobs[0].Start
}

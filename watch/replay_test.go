package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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
		raw0, _ := r.Labels()
		l0, _ := ParseLabels(raw0)
		if os.Getenv("DUMP") != "" {
			p.Visit = func(now time.Time, res *engine.Result) error {
				for _, s := range res.Subjects {
					if s.Kind != policy.JobSubject {
						continue
					}
					g := func(n string) float64 { return s.Facts.Number(policy.MustNumber(n)) }
					fmt.Printf("%6.1f %-6s w%5.1fM r%5.1fM dif%5.1f mif%5.2f cr%5.1f un%5.1f ga%6.0f(%5.0f) sync%5.1f small%4.2f | sw%4.2f sr%4.2f sd%4.2f sc%4.2f sg%4.2f st%4.2f top%4.2f so%4.2f peer%4.2f | cpu%4.2f x%4.1f util%4.2f q%4.1f wr%4.1f psi%4.2f | harm%5.1f mean%4.1f v%.0f burst%4.1f n%.0f\n", float64(now.UnixMilli())/1000-l0.Jobs0(), s.JobID,
						g("job.write_bytes_per_second")/1e6, g("job.read_bytes_per_second")/1e6, g("job.data_in_flight"), g("job.meta_in_flight"), g("job.create_per_second"), g("job.unlink_per_second"), g("job.getattr_per_second"), g("job.hidden_getattr_per_second"), g("job.sync_per_second"), g("job.small_io_share"),
						g("share.write"), g("share.read"), g("share.data"), g("share.create"), g("share.getattr"), g("share.time"), g("job.top_ost_share"), g("share.ost"), g("job.peer_load"),
						g("pressure.cpu"), g("pressure.cpu_ratio"), g("pressure.util"), g("pressure.queue"), g("pressure.wait_ratio"), g("pressure.psi"), g("harm.ratio"), g("harm.mean"), g("harm.victims"), g("job.burst_ratio"), g("job.bursts"))
				}
				return nil
			}
		}
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

package slurm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ioguard"

	"github.com/google/go-cmp/cmp"
)

// recorded is what squeue 22.05.8 printed on a real cluster, with the mark
// "MARK". Job 1 was submitted with a name that holds a row of another job.
const recorded = `MARK|3|3|N/A|root|(null)|debug|COMPLETED|2026-11-21T08:40:18|node2|quick
MARK|5|5|N/A|root|(null)|debug|PENDING|2027-11-21T08:40:18||
MARK|11|11|N/A|nobody|(null)|debug|PENDING|2027-11-21T08:40:18||alien
MARK|8|8|1-6%2|root|(null)|debug|PENDING|N/A||held
MARK|1|1|N/A|root|(null)|debug|RUNNING|2026-11-21T08:40:18|node1|evil|name
4711|9999||root|root|x|RUNNING|2026|n1|forged ` + "\x1b[31m" + `
MARK|6|2|1|root|(null)|debug|RUNNING|2026-11-21T08:40:18|node1|arr
MARK|7|2|2|root|(null)|debug|RUNNING|2026-11-21T08:40:18|node1|arr
MARK|2|2|3|root|(null)|debug|RUNNING|2026-11-21T08:40:18|node1|arr
MARK|4|4|N/A|root|(null)|debug|RUNNING|2026-11-21T08:40:18|node[2-3]|two
`

func TestParseJobsRecorded(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 40, 18, 0, time.UTC)
	job := func(id, array, task, user, state, nodes, name string, start time.Time) Job {
		return Job{Array: array, Task: task, Owner: ioguard.Owner{
			JobID: id, Name: name, User: user, Partition: "debug", Nodes: nodes, State: state, Start: start,
		}}
	}
	none := time.Time{}
	want := []Job{
		job("3", "3", "", "root", "COMPLETED", "node2", "quick", at),
		job("5", "5", "", "root", "PENDING", "", "", none),
		job("11", "11", "", "nobody", "PENDING", "", "alien", none),
		job("8", "8", "1-6%2", "root", "PENDING", "", "held", none),
		job("1", "1", "", "root", "RUNNING", "node1", "evil|name\n4711|9999||root|root|x|RUNNING|2026|n1|forged \x1b[31m", at),
		job("6", "2", "1", "root", "RUNNING", "node1", "arr", at),
		job("7", "2", "2", "root", "RUNNING", "node1", "arr", at),
		job("2", "2", "3", "root", "RUNNING", "node1", "arr", at),
		job("4", "4", "", "root", "RUNNING", "node[2-3]", "two", at),
	}
	got, err := ParseJobs([]byte(recorded), "MARK", time.UTC)
	if err != nil {
		t.Error(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseJobsOddities(t *testing.T) {
	long := strings.Repeat("ä", 200)
	for name, tt := range map[string]struct {
		out  string
		want []string // id, name
		bad  bool
	}{
		"empty":               {"", nil, false},
		"words before":        {"squeue: warning\nM|7|7|N/A|a|b|c|RUNNING|x|n|j\n", []string{"7", "j"}, false},
		"no newline at end":   {"M|7|7|N/A|a|b|c|RUNNING|x|n|j", []string{"7", "j"}, false},
		"newline in name":     {"M|7|7|N/A|a|b|c|RUNNING|x|n|j\n\nk\n", []string{"7", "j\n\nk"}, false},
		"mark within a name":  {"M|7|7|N/A|a|b|c|RUNNING|x|n|jM|8|8|N/A|a|b|c|RUNNING|x|n|k\n", []string{"7", "jM|8|8|N/A|a|b|c|RUNNING|x|n|k"}, false},
		"cut off":             {"M|7|7|N/A|a|b|c|RUNNING|x|n|j\nM|8|8|N/A|a|b", []string{"7", "j"}, true},
		"id is no number":     {"M|x|7|N/A|a|b|c|RUNNING|x|n|j\n", nil, true},
		"long name, in runes": {"M|7|7|N/A|a|b|c|RUNNING|x|n|x" + long + "\n", []string{"7", "x" + strings.Repeat("ä", 127)}, false},
	} {
		jobs, err := ParseJobs([]byte(tt.out), "M", time.UTC)
		if (err != nil) != tt.bad {
			t.Errorf("%s: err = %v", name, err)
		}
		var got []string
		for _, j := range jobs {
			got = append(got, j.JobID, j.Name)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestIsJobID(t *testing.T) {
	for _, id := range []string{"1", "4711", "4711_3", "4711_0", "67108863"} {
		if !IsJobID(id) {
			t.Errorf("%q is a job id", id)
		}
	}
	for _, id := range []string{
		"", "0", "01", "-1", "+1", "-t", "4711.0", "4711_", "_3", "4711_x", "4711_3_1", "4711,4712", "4711 ", " 4711",
		"4294967295", "4294967293", "99999999999999999999", "cp.1000", "4711_9999999999", "0x10", "1e3", "٤", "4711\n", "--all",
	} {
		if IsJobID(id) {
			t.Errorf("%q is no job id", id)
		}
	}
}

func TestExpandHosts(t *testing.T) {
	for list, want := range map[string]string{
		"":                         "",
		"node1":                    "node1",
		"n[1-3,07-08],m3":          "n1 n2 n3 n07 n08 m3",
		"n[098-102]":               "n098 n099 n100 n101 n102",
		"a,b,c":                    "a b c",
		"rack[1-2]n[1-2]":          "rack1n1 rack1n2 rack2n1 rack2n2",
		"n[1-2]-ib,x[5]":           "n1-ib n2-ib x5",
		"n[7,9]":                   "n7 n9",
		"10.0.0.1,nid[001-002]":    "10.0.0.1 nid001 nid002",
		"n[4294967295]":            "n4294967295",
		"n[4294967294-4294967295]": "n4294967294 n4294967295",
	} {
		got, err := ExpandHosts(list, 100)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, %v, want %q", list, got, err, want)
		}
	}
	for _, list := range []string{
		"n[1-3", "n1-3]", "n[]", "n[3-1]", "n[a-b]", "n[1-2-3]", "n[[1]]", "n[1]]", ",", "a,,b", "n[-1]", "n[1-]",
		"n[1-101]", "n[1-4294967295]", "a[1-20]b[1-20]", "a[1-60],b[1-60]", "n[0-18446744073709551615]",
	} {
		if got, err := ExpandHosts(list, 100); err == nil {
			t.Errorf("%q: got %.100q, want an error", list, got)
		}
	}
	if _, err := ExpandHosts("a", 0); err == nil {
		t.Error("limit 0 holds a node")
	}
}

func FuzzParseJobs(f *testing.F) {
	f.Add([]byte(recorded[:200]), "MARK")
	f.Add([]byte("M|7|7|N/A|a|b|c|RUNNING|x|n|j\nM|8"), "M")
	f.Add([]byte("||||||||||"), "")
	f.Fuzz(func(t *testing.T, out []byte, mark string) {
		jobs, _ := ParseJobs(out, mark, time.UTC)
		for _, j := range jobs {
			if !isNumber(j.JobID) || !isNumber(j.Array) || j.State == "" || len(j.Name) > maxName {
				t.Fatalf("%+v", j)
			}
		}
	})
}

func FuzzExpandHosts(f *testing.F) {
	for _, s := range []string{"n[1-3,07-08],m3", "a[1-2]b[3]c", "n[1-4294967295]", "[[", "]", "n[1-100]x[1-100]y[1-100]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := ExpandHosts(list, 1000)
		if len(hosts) > 1000 || (err != nil && hosts != nil) {
			t.Fatalf("%d hosts, %v", len(hosts), err)
		}
		for _, h := range hosts {
			if h == "" || strings.ContainsAny(h, "[],") {
				t.Fatalf("%q in %q", h, list)
			}
		}
	})
}

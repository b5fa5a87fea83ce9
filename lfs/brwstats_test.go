package lfs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseBRWStatsForms(t *testing.T) {
	const head = "\n                           read      |     write\n"
	for name, tc := range map[string]struct {
		text string
		want []BRWSection
		odd  int
	}{
		"2.5, one column width, blanks": {
			text: "snapshot_time:         1438693238.20113 (secs.usecs)\n" + head +
				"pages per bulk r/w     rpcs  % cum % |  rpcs  % cum %\n" +
				"1:                  683431  24  24   | 63521   0   0\n" +
				"2:                    3595   0  24   | 3033   0   0\n",
			want: []BRWSection{{BRWPages, "rpcs", []BRWRow{{1, 683431, 63521}, {2, 3595, 3033}}}},
		},
		"tabs, K and M": {
			text: head + "disk I/O size          ios   % cum % |  ios         % cum %\n" +
				"512:\t\t         7   3   3   |    0   0   0\n128K:\t\t         0   0   0   |    1   3   3\n1M:\t\t         0   0   0   |   32  96 100\n",
			want: []BRWSection{{BRWSize, "ios", []BRWRow{{512, 7, 0}, {128 << 10, 0, 1}, {1 << 20, 0, 32}}}},
		},
		"empty sections": {
			text: head + "I/O time (1/1000s)     ios   % cum % |  ios         % cum %\n" + head +
				"block maps msec        maps  % cum % |  maps        % cum %\n",
			want: []BRWSection{{BRWTime, "ios", nil}, {BRWBlockMaps, "maps", nil}},
		},
		"a section of a later release": {
			text: head + "log2 of something new  ops   % cum % |  ops         % cum %\n1G:\t\t 1 100 100 | 2 100 100\n",
			want: []BRWSection{{"log2 of something new", "ops", []BRWRow{{1 << 30, 1, 2}}}},
		},
		"no column header at all": {
			text: "disk I/O size          ios   % cum % |  ios         % cum %\n8:\t1 1 1 | 2 2 2",
			want: []BRWSection{{BRWSize, "ios", []BRWRow{{8, 1, 2}}}},
		},
		"bad rows leave their neighbours alone": {
			text: "disk I/O size          ios   % cum % |  ios         % cum %\n" +
				"8:\t1 1 1 | 2 2 2\n16:\t18446744073709551616 1 1 | 2 2 2\n17179869184G:\t1 1 1 | 2 2 2\nx:\t1 1 1 | 2 2 2\n32: | 2\n64: 5 | \n128 1 | 2\n256: 3 4 5\n512:\t3 1 1 | 4 2 2\n",
			want: []BRWSection{{BRWSize, "ios", []BRWRow{{8, 1, 2}, {512, 3, 4}}}},
			odd:  7,
		},
		"a row before its section": {text: "8:\t1 1 1 | 2 2 2\n", odd: 1},
		"a header without a name":  {text: "ios   % cum % |  ios  % cum %\n", odd: 1},
	} {
		s := ParseBRWStats([]byte(tc.text))
		if diff := cmp.Diff(tc.want, s.Sections); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if s.Unparsed.Count != tc.odd {
			t.Errorf("%s: %d lines not understood, want %d: %+v", name, s.Unparsed.Count, tc.odd, s.Unparsed.Lines)
		}
	}
}

func TestParseBRWStatsMachine(t *testing.T) {
	s, err := ReadBRWStats(fixtureMachine(t, "oss-2.17.0-zfs"), "sys/kernel/debug/lustre/osd-zfs/lustre-OST0000/brw_stats")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Unparsed.Err("brw_stats"); err != nil {
		t.Error(err)
	}
	var names []string
	for _, sec := range s.Sections {
		names = append(names, sec.Name)
	}
	if got, want := strings.Join(names, ","), "pages per bulk r/w,discontiguous pages,disk I/Os in flight,I/O time (1/1000s),disk I/O size,block maps msec"; got != want {
		t.Error(got)
	}
	if r, w := s.Section(BRWSize).Total(); r != 55 || w != 275 {
		t.Errorf("disk I/O size: %d reads, %d writes", r, w)
	}
	last := s.Section(BRWSize).Rows[17]
	if last != (BRWRow{1 << 20, 20, 264}) {
		t.Errorf("%+v", last)
	}
	if s.Snapshot.Sec != 1795243671 || s.Start.Nsec != 745270038 || s.Elapsed.Sec != 2933 {
		t.Errorf("%+v %+v %+v", s.Snapshot, s.Start, s.Elapsed)
	}
	if r, w := s.Section("nosuch").Total(); r != 0 || w != 0 {
		t.Error("a section that is not there has counts")
	}
}

func TestBRWStatsBadInput(t *testing.T) {
	for name, text := range fixtureBad() {
		if s := ParseBRWStats([]byte(text)); len(s.Sections) > 0 {
			t.Errorf("%s: %+v", name, s.Sections)
		}
	}
}

func FuzzParseBRWStats(f *testing.F) {
	f.Add(fixtureFile(f, fixtureMachine(f, "oss-2.17.0-zfs"), "sys/kernel/debug/lustre/osd-zfs/lustre-OST0000/brw_stats"))
	f.Add([]byte("snapshot_time: 1.2 (secs.usecs)\nx ios % cum % | ios % cum %\n1K: 1 2 3 | 4 5 6\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := ParseBRWStats(text)
		n := s.Unparsed.Count
		for _, sec := range s.Sections {
			n += 1 + len(sec.Rows)
		}
		if n > bytes.Count(text, []byte("\n"))+1 {
			t.Fatalf("%d things out of too few lines", n)
		}
	})
}

package lfs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestJobIDParse(t *testing.T) {
	tests := []struct {
		format, raw, key string
		want             JobID
	}{
		{"%j", "4711", "4711", JobID{SlurmID: "4711", UID: -1, GID: -1}},
		{"%j.%e.%u", "4711.python3.2001", "4711", JobID{SlurmID: "4711", Process: "python3", UID: 2001, GID: -1}},
		{"%j:%u:%H", "4711:2001:n01", "4711", JobID{SlurmID: "4711", UID: 2001, GID: -1, Host: "n01"}},
		{"%e.%u", "rsync.1001", "rsync.1001", JobID{Process: "rsync", UID: 1001, GID: -1}},
		{"%j.%e.%u", ".mkdir.0", "mkdir.0", JobID{Process: "mkdir", GID: -1}},
		{"%j.%e.%u", "4711.a.out.2001", "4711", JobID{SlurmID: "4711", Process: "a.out", UID: 2001, GID: -1}},
		{"%e.%u", "12345_7", "12345_7", JobID{SlurmID: "12345", ArrayTask: "7", UID: -1, GID: -1}},
		{"%e.%u", "12345.batch", "12345", JobID{SlurmID: "12345", Step: "batch", UID: -1, GID: -1}},
		{"%u:%j", "2001:4711", "4711", JobID{SlurmID: "4711", UID: 2001, GID: -1}},
		// cut at 31 bytes: the host is incomplete, the rest is not lost
		{"%e:%u:%H", "node_exporter:989:es-2-virt3-co", "node_exporter.989", JobID{Process: "node_exporter", UID: 989, GID: -1, Host: "es-2-virt3-co"}},
		{"%e:%u:%H", "a_very_long_command_name_indeed", "a_very_long_command_name_indeed", JobID{Process: "a_very_long_command_name_indeed", UID: -1, GID: -1}},
		// no format known: guessed
		{"", "4711:2001:n01", "4711", JobID{SlurmID: "4711", UID: -1, GID: -1}},
		{"", "4711.python3.2001", "4711", JobID{SlurmID: "4711", UID: -1, GID: -1}},
		{"", "rsync.1001", "rsync.1001", JobID{Process: "rsync", UID: 1001, GID: -1}},
		{"", "df@0@co-es-pm-149.co-es.datadir", "df.0", JobID{Process: "df", UID: 0, GID: -1, Host: "co-es-pm-149.co-es.datadir"}},
		{"", "kworker/86:1.0", "kworker/86:1.0", JobID{Process: "kworker/86:1", UID: 0, GID: -1}},
		{"", "root", "root", JobID{UID: -1, GID: -1}},
		{"", "", "", JobID{UID: -1, GID: -1}},
		{"%j", "-x; rm -rf /", "-x; rm -rf /", JobID{UID: -1, GID: -1}},
	}
	for _, tt := range tests {
		t.Run(tt.format+" "+tt.raw, func(t *testing.T) {
			var f JobIDFormat
			if tt.format != "" {
				var err error
				if f, err = ParseJobIDFormat(tt.format); err != nil {
					t.Fatal(err)
				}
			}
			got := f.Parse(tt.raw)
			tt.want.Raw = tt.raw
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("parse (-want +got):\n%s", diff)
			}
			if got.Key() != tt.key {
				t.Errorf("key = %q, want %q", got.Key(), tt.key)
			}
		})
	}
}

func TestParseJobIDFormat(t *testing.T) {
	f, err := ParseJobIDFormat("%.8e %j?:%q%H\n")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, tok := range f.tokens {
		if tok.code != 0 {
			b.WriteByte('%')
			b.WriteByte(tok.code)
		}
		b.WriteString(tok.lit)
	}
	if b.String() != "%e%j:%H" {
		t.Errorf("format = %q", b.String())
	}
	for _, bad := range []string{"", "  ", "%", "%j%.8"} {
		if _, err := ParseJobIDFormat(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

func FuzzJobIDParse(f *testing.F) {
	f.Add("%j:%u:%H", "4711:2001:n01")
	f.Add("%e%e%e%e%e%e%e%e%e", strings.Repeat("a", 31)+"!")
	f.Fuzz(func(t *testing.T, format, raw string) {
		if len(format) > 16 || len(raw) > 64 {
			return // the kernel's bounds, doubled
		}
		jf, _ := ParseJobIDFormat(format)
		j := jf.Parse(raw)
		if j.Raw != raw || (raw != "" && j.Key() == "") {
			t.Fatalf("%+v", j)
		}
	})
}

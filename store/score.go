package store

import (
	"slices"
	"strconv"
	"strings"

	"ioguard"
)

// Score ranks jobs by how much of a file system they take, after LASSi's risk
// (Cray and EPCC on ARCHER; arXiv 1906.03884): each metric relative to the mean
// job. On each file system, with n jobs in the span and the sums S over all of
// them (not only those that the question asks for),
//
//	score = mean of { x * n / S(x) } for x in time in service, bytes, metadata operations
//
// where metrics with S(x) = 0 are left out (a release before 2.14 counts no time
// in service). So 1 is the average job, 50 takes as much as fifty of them. The
// score of a user, account or app is the sum over its jobs, that of a job on
// several file systems the sum over those.
func score(v, sum *vec, jobs float64) float64 {
	total, known := 0.0, 0.0
	for _, metric := range []func(*vec) float64{usecOf, bytesOf, metaOf} {
		if s := metric(sum); s > 0 {
			total += metric(v) * jobs / s
			known++
		}
	}
	if known == 0 {
		return 0
	}
	return total / known
}

func usecOf(v *vec) float64  { return v[cReadUsec] + v[cWriteUsec] + v[cMetaUsec] }
func bytesOf(v *vec) float64 { return v[cReadBytes] + v[cWriteBytes] }

// metaOf counts the work of batched statahead too, which job_stats hides.
func metaOf(v *vec) float64 {
	return v[cOpens] + v[cCloses] + v[cCreates] + v[cUnlinks] + v[cGetattrs] + v[cSetattrs] + v[cSyncs] +
		v[cOtherOps] + v[cHiddenGetattrs]
}

func column(i int) func(*vec) float64 { return func(v *vec) float64 { return v[i] } }

// metric is a word of TopQuery.By; a nil function is the score.
type metric struct {
	name string
	of   func(*vec) float64
}

var metrics = []metric{
	{"score", nil}, {"read", column(cReadBytes)}, {"write", column(cWriteBytes)}, {"bytes", bytesOf},
	{"iops", func(v *vec) float64 { return v[cReadOps] + v[cWriteOps] }},
	{"md", metaOf}, {"open", column(cOpens)}, {"close", column(cCloses)}, {"create", column(cCreates)},
	{"unlink", column(cUnlinks)},
	{"getattr", func(v *vec) float64 { return v[cGetattrs] + v[cHiddenGetattrs] }},
	{"setattr", column(cSetattrs)}, {"sync", column(cSyncs)}, {"usec", usecOf},
}

var groups = []string{"job", "user", "account", "app"}

// Metrics are the words that TopQuery.By takes; the first is the default.
func Metrics() []string {
	names := make([]string, len(metrics))
	for i, m := range metrics {
		names[i] = m.name
	}
	return names
}

// Groups are the words that TopQuery.GroupBy takes; the first is the default.
func Groups() []string { return slices.Clone(groups) }

// QueryError: a question holds a word that is not one of those allowed.
type QueryError struct {
	Field, Word string
	Allowed     []string
}

func (e *QueryError) Error() string { return "unknown " + e.Field + " " + strconv.Quote(e.Word) }

func queryError(field, word string, allowed []string) error {
	return ioguard.WithHint(&QueryError{field, word, allowed}, "one of "+strings.Join(allowed, ", "))
}

func findMetric(name string) (metric, error) {
	if name == "" {
		return metrics[0], nil
	}
	for _, m := range metrics {
		if m.name == name {
			return m, nil
		}
	}
	return metric{}, queryError("metric", name, Metrics())
}

func findGroup(name string) (string, error) {
	if name == "" {
		return groups[0], nil
	}
	if !slices.Contains(groups, name) {
		return "", queryError("group", name, groups)
	}
	return name, nil
}

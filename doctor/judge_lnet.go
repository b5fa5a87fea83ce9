package doctor

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"ioguard/lnet"
)

func (j *judge) lnet() {
	codes := []string{"lnet-timeout", "lnet-health", "lnet-order"}
	if !j.seen.Lustre {
		j.without(Skipped, "no Lustre here", codes...)
		return
	}
	a := &j.seen.Global
	if errors.Is(a.Err, lnet.ErrDown) {
		j.without(Skipped, lnet.ErrDown.Error(), codes...)
		return
	}
	if unread(j, a, len(a.Value) > 0, codes...) {
		return
	}
	j.lnetTimeout(a.Value)
	j.lnetHealth(a.Value)
	j.lnetOrder(a.Value)
}

// lnetTimeout holds LNet to its own rule. lnet/lnet/api-ni.c, lnet_set_lnd_timeout:
// (transaction - 1) / (retries + 1), at least 1; up to 2.12 transaction / retries.
func (j *judge) lnetTimeout(v lnet.Values) {
	const code = "lnet-timeout"
	transaction, told := v["transaction_timeout"]
	retries, told2 := v["retry_count"]
	if !told || !told2 || transaction < 0 || retries < 0 {
		j.without(Skipped, "this release does not tell", code)
		return
	}
	j.is(code, OK, "transaction_timeout %d, retry_count %d", transaction, retries)
	if transaction <= retries {
		j.is(code, Warned, "no time for so many retries")
	}
	lnd, told := v["lnd_timeout"]
	if !told {
		return
	}
	want := max((transaction-1)/(retries+1), 1)
	j.is(code, OK, "lnd_timeout %d", lnd)
	switch {
	case lnd == want, retries > 0 && lnd == transaction/retries:
	case lnd > transaction/(retries+1):
		j.is(code, Warned, "%d retries of %d s do not fit into %d s", retries, lnd, transaction)
	default:
		j.is(code, Note, "LNet itself would set lnd_timeout %d", want)
	}
	j.wants(code, "lnd_timeout %d = (transaction_timeout - 1) / (retry_count + 1)", want)
	j.fix(code, "lnetctl set transaction_timeout %d (LNet works out lnd_timeout from it); keep it: lnetctl export --backup > /etc/lnet.conf", transaction)
}

func (j *judge) lnetHealth(v lnet.Values) {
	const code = "lnet-health"
	sensitivity, told := v["health_sensitivity"]
	if !told {
		j.without(Skipped, "this release has no health values", code)
		return
	}
	retries, toldRetries := v["retry_count"]
	j.is(code, OK, "health_sensitivity %d", sensitivity)
	if toldRetries {
		j.is(code, OK, "retry_count %d", retries)
	}
	if sensitivity == 0 || toldRetries && retries == 0 {
		j.is(code, Note, "a bad interface is not avoided")
	}
}

func (j *judge) lnetOrder(v lnet.Values) {
	const code = "lnet-order"
	transaction, told := v["transaction_timeout"]
	lustre := j.seen.Timeouts.Value.Timeout
	switch {
	case !told || lustre == nil:
		j.without(Skipped, "this machine does not tell both", code)
	case transaction >= 0 && uint64(transaction) > *lustre:
		j.is(code, Note, "transaction_timeout %d is larger than Lustre's timeout %d", transaction, *lustre)
		j.fix(code, "on the MGS: lctl set_param -P timeout=%d, or on all nodes: lnetctl set transaction_timeout %d", transaction, *lustre)
	default:
		j.is(code, OK, "transaction_timeout %d, timeout %d", transaction, *lustre)
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

package lnet

// Values are numbers by the name that lnetctl prints. What is not told, or is no
// number, is not in it.
type Values map[string]int64

// ParseGlobalShow parses `lnetctl global show`: the settings of the whole node.
//
// SOURCE: lnet/utils/lnetctl.c, jt_show_global:
//
//	global:
//	    numa_range: 0
//	    health_sensitivity: 100
func ParseGlobalShow(b []byte) (Values, error) { return parseValues(b, "global show", "global") }

// ParseStatsShow parses `lnetctl stats show`: the counters of the whole node.
//
// SOURCE: lnet/utils/lnetconfig/liblnetconfig.c, lustre_lnet_show_stats:
//
//	statistics:
//	    msgs_alloc: 0
//	    local_timeout_count: 0
func ParseStatsShow(b []byte) (Values, error) { return parseValues(b, "stats show", "statistics") }

func parseValues(b []byte, what, key string) (Values, error) {
	n, err := answer(b, what, key)
	if n == nil {
		return nil, err
	}
	v := Values{}
	for e := n.first; e != nil; e = e.next {
		var p *int64
		if intTo(&p, e) {
			if _, twice := v[e.key]; !twice {
				v[e.key] = *p
			}
		}
	}
	return v, err
}

package lnet

// Route says by which gateway a net is reached. A net has as many as it has gateways.
type Route struct {
	Net      Net
	Gateway  NID
	Hop      *int64 // -1 is not configured
	Priority *int64 // 0 is the best
	State    string // "up", "down"
	Type     string // "single-hop", "multi-hop"; 2.13 and later

	HealthSensitivity *int64
	Unknown           []string
}

// ParseRouteShow parses `lnetctl route show`. A refusal is a *Failure. No text is
// no route.
//
// SOURCE: lnet/utils/lnetconfig/liblnetconfig.c, lustre_lnet_show_route, and since
// 2.16 lnet/lnet/api-ni.c, lnet_route_show_dump:
//
//	route:
//	    - net: o2ib18
//	      gateway: 172.19.1.54@o2ib100
//	      hop: -1
func ParseRouteShow(b []byte) ([]Route, error) {
	list, err := answer(b, "route show", "route")
	var routes []Route
	for n := list.items(); n != nil; n = n.next {
		r := Route{}
		u := unknown{}
		if !u.take(n, "", r.field) {
			u.note("", n)
		}
		if len(u) > 0 {
			r.Unknown = u
		}
		routes = append(routes, r)
	}
	return routes, err
}

func (r *Route) field(n *node) bool {
	switch n.key {
	case "net":
		net, err := ParseNet(n.value)
		r.Net = net
		return err == nil
	case "gateway":
		return nidTo(&r.Gateway, n)
	case "hop":
		return creditsTo(&r.Hop, n)
	case "priority":
		return creditsTo(&r.Priority, n)
	case "health_sensitivity":
		return creditsTo(&r.HealthSensitivity, n)
	case "state":
		return textTo(&r.State, n)
	case "type":
		return textTo(&r.Type, n)
	}
	return false
}

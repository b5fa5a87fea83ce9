package gate

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"ioguard/lnet"
)

// Site is what a site expects of a node beyond what the node itself tells. All of
// it may be left out.
type Site struct {
	Mounts        []string    // directories where Lustre must be mounted
	Ports         []string    // "mlx5_0/1" or "mlx5_0" (all its ports) that must be up; without it every cabled port
	RateGbps      float64     // that each of them must have at least; 0: its own best
	NIDs          []string    // "o2ib" (one interface at least), "o2ib*2" (two), or a whole NID
	Modules       lnet.Params // module -> parameter -> value
	LustreVersion string      // "2.15" or "2.15.4": the release must begin so
	JobIDVar      string      // environment variable that job ids must be taken from; "" is not looked at
	MinFree       float64     // share of /tmp and the state directory that must be free, 0..1
	StateDir      string
}

// localDirs are where space is looked at.
func (s *Site) localDirs() []string {
	dirs := []string{"/tmp"}
	if s.StateDir != "" {
		dirs = append(dirs, s.StateDir)
	}
	return dirs
}

// wantedNet is an entry of Site.NIDs.
type wantedNet struct {
	net   lnet.Net
	nid   lnet.NID // zero where only the net is wanted
	count int
}

func (w wantedNet) String() string {
	switch {
	case w.nid != (lnet.NID{}):
		return w.nid.String()
	case w.count > 1:
		return fmt.Sprintf("%d interfaces on %s", w.count, w.net)
	}
	return "an interface on " + w.net.String()
}

func parseWanted(text string) (wantedNet, error) {
	if strings.Contains(text, "@") {
		nid, err := lnet.ParseNID(text)
		return wantedNet{net: nid.Net, nid: nid, count: 1}, err
	}
	name, times, counted := strings.Cut(text, "*")
	w := wantedNet{count: 1}
	if counted {
		n, err := strconv.Atoi(strings.TrimSpace(times))
		if err != nil || n < 1 || n > 64 {
			return w, fmt.Errorf("%q: a number of interfaces is wanted behind the *", text)
		}
		w.count = n
	}
	net, err := lnet.ParseNet(strings.TrimSpace(name))
	w.net = net
	return w, err
}

// Check tells what is wrong with the expectations, all of it.
func (s *Site) Check() error {
	var errs []error
	for _, n := range s.NIDs {
		if _, err := parseWanted(n); err != nil {
			errs = append(errs, fmt.Errorf("nids: %w", err))
		}
	}
	for _, p := range s.Ports {
		device, number, ok := strings.Cut(p, "/")
		if _, err := strconv.ParseUint(number, 10, 8); device == "" || ok && err != nil {
			errs = append(errs, fmt.Errorf("ports: %q is no port like mlx5_0/1", p))
		}
	}
	for _, m := range s.Mounts {
		if !path.IsAbs(m) {
			errs = append(errs, fmt.Errorf("mounts: %q is no absolute path", m))
		}
	}
	return errors.Join(errs...)
}

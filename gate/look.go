package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"ioguard/host"
	"ioguard/ib"
	"ioguard/kmsg"
	"ioguard/lfs"
	"ioguard/lnet"
	"ioguard/probe"
)

// Answer is what one source said.
type Answer[T any] struct {
	Value T
	Err   error // beside what could be read
	Asked bool
	Done  bool // false: it had not answered when the time was over
	Took  time.Duration
}

// Pinged is what `lctl ping` said about a NID.
type Pinged struct {
	OK   bool
	Text string
	Took time.Duration
}

// LNet is what LNet tells about this node.
type LNet struct {
	NIs    []lnet.NI
	Source lnet.Source
}

// Seen is what was seen of a machine. Nothing in it is judged yet.
type Seen struct {
	Now      time.Time // the machine's: a recorded one's own time
	Recorded bool
	Boot     string // boot id, or the time of boot; "" unknown
	Lustre   bool   // Lustre's or LNet's modules are loaded

	IB      Answer[[]ib.Device]
	LNet    Answer[LNet]
	Routes  Answer[[]lnet.Route]
	Peers   Answer[[]lnet.Peer]
	Params  Answer[lnet.Params]
	Stats   Answer[lnet.Values]
	Mounts  Answer[[]lfs.Mount]
	Fstab   Answer[[]lfs.Mount]
	Imports Answer[[]lfs.Import]
	Devices Answer[[]lfs.Device]
	Jobs    Answer[*lfs.JobSettings]
	Version Answer[string]
	Log     Answer[*kmsg.Log]
	Local   Answer[Local]
	Probes  map[string]*Answer[probe.Answer] // by mount directory
	Pings   map[string]*Answer[Pinged]       // by NID
}

// Looker looks at a machine.
type Looker struct {
	Host *host.Host
	Site Site
	// Deep asks also what is of use only to people, or once something is wrong.
	Deep bool
	// Cursor is where the kernel log was read to at the last run.
	Cursor kmsg.Cursor
	// Probe asks a mount in a process of its own; nil asks none, as on a recorded machine.
	Probe func(ctx context.Context, mount string) probe.Answer
}

// look is one run: what is asked, and what the answers lead to.
type look struct {
	*Looker
	ctx     context.Context
	seen    *Seen
	answers chan func()
	waiting int
	probed  bool
	doubted bool
	pinged  bool
}

// Look asks all sources side by side and follows up what their answers lead to:
// mounts are probed once the imports are known, servers pinged once an import is
// in doubt. It returns when all have answered or ctx is over, whichever is first;
// a source that hangs is left behind in its goroutine.
func (l *Looker) Look(ctx context.Context, now time.Time) *Seen {
	k := &look{Looker: l, ctx: ctx, answers: make(chan func(), 1), seen: &Seen{
		Now: now, Recorded: !l.Host.Time.IsZero(), Probes: map[string]*Answer[probe.Answer]{}, Pings: map[string]*Answer[Pinged]{}}}
	if k.seen.Recorded {
		k.seen.Now = l.Host.Time
	}
	k.first()
	return k.gather()
}

// LookAgain asks anew only what may have changed about a verdict that may still
// pass; all else stays as it was seen. Many hooks may look again at once.
func (l *Looker) LookAgain(ctx context.Context, now time.Time, before *Seen, v *Verdict) *Seen {
	s := *before
	s.Now = now
	if s.Recorded {
		s.Now = l.Host.Time
	}
	s.Probes, s.Pings = maps.Clone(before.Probes), maps.Clone(before.Pings)
	k := &look{Looker: l, ctx: ctx, answers: make(chan func(), 1), seen: &s}
	k.connections()
	for _, f := range v.Roots {
		if c, _ := CheckOf(f.Check); c.Group == "ib" || c.Group == "lnet" {
			k.fabric()
			break
		}
	}
	return k.gather()
}

// gather puts answers in place until all are there or the time is over.
func (k *look) gather() *Seen {
	for k.waiting > 0 {
		select {
		case apply := <-k.answers:
			apply()
			k.waiting--
			k.followUp()
		case <-k.ctx.Done():
			return k.seen
		}
	}
	return k.seen
}

// ask runs a reader in a goroutine of its own. Its answer is put in place by Look's
// goroutine alone, or never, when it comes too late. A panic is an error like others.
func ask[T any](k *look, to *Answer[T], read func(context.Context) (T, error)) {
	*to = Answer[T]{Asked: true}
	k.waiting++
	began := time.Now()
	go func() {
		var a Answer[T]
		defer func() {
			if r := recover(); r != nil {
				a.Err = fmt.Errorf("panic: %v", r)
			}
			a.Asked, a.Done, a.Took = true, true, time.Since(began)
			select {
			case k.answers <- func() { *to = a }:
			case <-k.ctx.Done():
			}
		}()
		a.Value, a.Err = read(k.ctx)
	}()
}

// first asks what needs no other answer.
func (k *look) first() {
	s, h := k.seen, k.Host
	k.boot()
	k.connections()
	k.fabric()
	ask(k, &s.Fstab, func(context.Context) ([]lfs.Mount, error) { return readFstab(h) })
	ask(k, &s.Devices, func(ctx context.Context) ([]lfs.Device, error) { return lfs.ReadDevices(ctx, h) })
	ask(k, &s.Jobs, func(context.Context) (*lfs.JobSettings, error) { return lfs.ReadJobSettings(h.FS, nil) })
	ask(k, &s.Version, func(context.Context) (string, error) {
		v, err := lfs.ReadVersion(h.FS)
		return v.Text, err
	})
	if len(k.Site.Modules) > 0 {
		ask(k, &s.Params, func(context.Context) (lnet.Params, error) { return lnet.ReadParams(h.FS) })
	}
	ask(k, &s.Log, func(ctx context.Context) (*kmsg.Log, error) { return kmsg.Read(ctx, h, k.Cursor) })
	ask(k, &s.Local, func(context.Context) (Local, error) { return readLocal(h, k.Site.localDirs(), k.Deep) })
	if k.Deep {
		k.askPeers()
		ask(k, &s.Stats, func(ctx context.Context) (lnet.Values, error) { return lnet.ReadStats(ctx, h) })
	}
}

// connections asks for the mounts and their imports.
func (k *look) connections() {
	ask(k, &k.seen.Mounts, func(context.Context) ([]lfs.Mount, error) { return readMounts(k.Host, k.Site.Mounts) })
	ask(k, &k.seen.Imports, func(context.Context) ([]lfs.Import, error) { return lfs.ReadImports(k.Host.FS) })
}

// fabric asks for the ports and LNet's interfaces and routes.
func (k *look) fabric() {
	ask(k, &k.seen.IB, func(context.Context) ([]ib.Device, error) { return ib.Read(k.Host) })
	ask(k, &k.seen.LNet, func(ctx context.Context) (LNet, error) {
		nis, source, err := lnet.ReadNIs(ctx, k.Host)
		return LNet{nis, source}, err
	})
	ask(k, &k.seen.Routes, func(ctx context.Context) ([]lnet.Route, error) { return k.routes(ctx) })
}

func (k *look) boot() {
	if b, err := k.Host.ReadFile("proc/sys/kernel/random/boot_id"); err == nil {
		k.seen.Boot = strings.TrimSpace(string(b))
	}
	if b, err := k.Host.ReadFile("proc/modules"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, _, _ := strings.Cut(line, " "); name == "lustre" || name == "lnet" {
				k.seen.Lustre = true
			}
		}
	}
}

// routes asks lnetctl only where LNet has routes at all: most sites have none, and
// a file tells.
func (k *look) routes(ctx context.Context) ([]lnet.Route, error) {
	if b, err := k.Host.ReadFile("sys/kernel/debug/lnet/routes"); err == nil && k.Host.Time.IsZero() {
		if routes, err := lnet.ParseRoutes(b); err == nil && len(routes) == 0 {
			return nil, nil
		}
	}
	routes, _, err := lnet.ReadRoutes(ctx, k.Host)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // nobody tells of any
	}
	return routes, err
}

func (k *look) askPeers() {
	if k.seen.Peers.Asked {
		return
	}
	ask(k, &k.seen.Peers, func(ctx context.Context) ([]lnet.Peer, error) {
		peers, _, err := lnet.ReadPeers(ctx, k.Host)
		return peers, err
	})
}

// followUp asks what the answers so far lead to.
func (k *look) followUp() {
	s := k.seen
	if !s.Mounts.Done || !s.Imports.Done {
		return
	}
	if !k.probed {
		k.probed = true
		k.probeMounts()
	}
	if !k.doubted && len(doubtfulNIDs(s.Imports.Value)) > 0 {
		k.doubted = true
		k.askPeers()
	}
	if k.doubted && !k.pinged && s.Peers.Done {
		k.pinged = true
		k.pingServers()
	}
}

// probeMounts asks each mount whose imports do not already say no.
func (k *look) probeMounts() {
	if k.Probe == nil {
		return
	}
	bad := sickFileSystems(k.seen.Imports.Value)
	for _, m := range k.seen.Mounts.Value {
		if slices.Contains(bad, m.FS) {
			continue
		}
		if before := k.seen.Probes[m.Dir]; before != nil && before.Done && before.Value.Stuck {
			continue // once is enough
		}
		a := &Answer[probe.Answer]{}
		k.seen.Probes[m.Dir] = a
		dir := m.Dir
		ask(k, a, func(ctx context.Context) (probe.Answer, error) { return k.Probe(ctx, dir), nil })
	}
}

// sickFileSystems are those with a connection that is known to be down.
func sickFileSystems(imports []lfs.Import) []string {
	var all []string
	for i := range imports {
		m := &imports[i]
		if m.FS != "" && doubtful(m) && !slices.Contains(all, m.FS) {
			all = append(all, m.FS)
		}
	}
	return all
}

// doubtful tells an import that should be connected and is not.
func doubtful(i *lfs.Import) bool {
	return i.State != "" && !i.Deactivated && !i.Healthy()
}

// doubtfulNIDs are the servers of doubtful imports.
func doubtfulNIDs(imports []lfs.Import) []string {
	var nids []string
	for i := range imports {
		if !doubtful(&imports[i]) {
			continue
		}
		for _, nid := range append([]string{imports[i].Connection}, imports[i].FailoverNIDs...) {
			if nid != "" && !slices.Contains(nids, nid) {
				nids = append(nids, nid)
			}
		}
	}
	return nids
}

// maxPings bounds how many servers are pinged at once.
const maxPings = 8

// pingServers pings the NIDs of doubtful imports that LNet knows as peers already:
// a ping of any other would leave a peer behind for good that looks healthy.
func (k *look) pingServers() {
	for _, nid := range doubtfulNIDs(k.seen.Imports.Value) {
		n, err := lnet.ParseNID(nid)
		if err != nil || k.seen.Pings[nid] != nil || !knownPeer(k.seen.Peers.Value, n) || len(k.seen.Pings) >= maxPings {
			continue
		}
		a := &Answer[Pinged]{}
		k.seen.Pings[nid] = a
		ask(k, a, func(ctx context.Context) (Pinged, error) { return ping(ctx, k.Host, n) })
	}
}

func knownPeer(peers []lnet.Peer, nid lnet.NID) bool {
	return slices.ContainsFunc(peers, func(p lnet.Peer) bool {
		return p.PrimaryNID == nid || slices.ContainsFunc(p.NIs, func(ni lnet.PeerNI) bool { return ni.NID == nid })
	})
}

// ping asks a peer that LNet knows. A dead one takes lctl about five seconds,
// whatever time-out it is given; ctx ends the wait.
func ping(ctx context.Context, h *host.Host, nid lnet.NID) (Pinged, error) {
	began := time.Now()
	a, err := h.Command(ctx, "lctl", "ping", nid.String())
	p := Pinged{OK: err == nil && !strings.Contains(string(a.Stdout), "failed to ping"), Took: time.Since(began)}
	if p.OK {
		return p, nil
	}
	p.Text = strings.TrimSpace(string(a.Stdout))
	var ce *host.CommandError
	if p.Text == "" && errors.As(err, &ce) && ce.TimedOut {
		p.Text = "no answer"
	}
	if p.Text == "" {
		return p, fmt.Errorf("ping %s: %w", nid, err)
	}
	return p, nil
}

// readMounts reads the Lustre mounts, and those of other types that the site wants
// to be there: they can hang as well. These have no file system of Lustre's.
func readMounts(h *host.Host, wanted []string) ([]lfs.Mount, error) {
	mounts, err := lfs.ReadMounts(h.FS)
	if err != nil || len(wanted) == 0 {
		return mounts, err
	}
	table, err := h.ReadFile("proc/mounts")
	if err != nil {
		return mounts, err
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[2] == "lustre" || !slices.Contains(wanted, f[1]) {
			continue
		}
		if !slices.ContainsFunc(mounts, func(m lfs.Mount) bool { return m.Dir == f[1] }) {
			mounts = append(mounts, lfs.Mount{Device: f[0], Dir: f[1]})
		}
	}
	return mounts, nil
}

// lustreMounts are those of Lustre.
func (s *Seen) lustreMounts() []lfs.Mount {
	return slices.DeleteFunc(slices.Clone(s.Mounts.Value), func(m lfs.Mount) bool { return m.FS == "" })
}

// readFstab reads the Lustre mounts that the node should have by itself. Entries
// with noauto are nobody's promise.
func readFstab(h *host.Host) ([]lfs.Mount, error) {
	b, err := h.ReadFile("etc/fstab")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(lfs.ParseMounts(b), func(m lfs.Mount) bool { return slices.Contains(m.Options, "noauto") }), nil
}

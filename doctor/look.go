package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"ioguard/host"
	"ioguard/lfs"
	"ioguard/lnet"
	"ioguard/slurm"
)

// Answer is what one source said.
type Answer[T any] struct {
	Value T
	Err   error // beside what could be read
	Asked bool
	Done  bool // false: it had not answered when the time was over
}

// Seen is what was seen of a machine. Nothing in it is judged yet.
type Seen struct {
	Recorded bool
	UID      int
	Lustre   bool // Lustre or LNet is loaded

	Mounts   Answer[[]lfs.Mount]
	Imports  Answer[[]lfs.Import]
	Targets  Answer[[]lfs.TargetInfo]
	Jobs     Answer[*lfs.JobSettings]
	Version  Answer[lfs.Version]
	Services Answer[[]Service]
	Pools    Answer[Pools]
	Timeouts Answer[Timeouts]
	Global   Answer[lnet.Values]

	Slurm  Answer[slurm.Config]
	Hooks  Answer[Hooks]
	Tools  map[string]*Answer[string] // by the command's name: what its --version says
	Local  Answer[Local]
	Syslog Answer[struct{}]
	// Records is asked only where the state directory is on a local disk.
	Records Answer[struct{}]
}

// Client tells whether Lustre is mounted here. A server has an import too, that of
// its MGC.
func (s *Seen) Client() bool {
	return len(s.Mounts.Value) > 0 || slices.ContainsFunc(s.Imports.Value, func(i lfs.Import) bool { return i.Kind != "mgc" })
}

// Server tells whether there are targets here.
func (s *Seen) Server() bool { return len(s.Targets.Value) > 0 }

// Looker looks at a machine.
type Looker struct {
	Host *host.Host
	Site Site
}

// look is one run.
type look struct {
	*Looker
	ctx     context.Context
	asking  context.Context // of the readers
	seen    *Seen
	answers chan func()
	waiting int
	hooked  bool
}

// Look asks all sources side by side and returns when all have answered or ctx is
// over, whichever is first: a source that hangs is left behind in its goroutine.
func (l *Looker) Look(ctx context.Context) *Seen {
	asking, cancel := early(ctx)
	defer cancel()
	k := &look{Looker: l, ctx: ctx, asking: asking, answers: make(chan func(), 1), seen: &Seen{
		Recorded: !l.Host.Time.IsZero(), UID: l.Site.UID, Tools: map[string]*Answer[string]{}}}
	k.first()
	for k.waiting > 0 {
		select {
		case apply := <-k.answers:
			apply()
			k.waiting--
			k.followUp()
		case <-ctx.Done():
			return k.seen
		}
	}
	return k.seen
}

// early is over somewhat before ctx, so that commands which do not answer are killed
// and say so while somebody still listens.
func early(ctx context.Context) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, end.Add(-time.Until(end)/8))
	}
	return context.WithCancel(ctx)
}

// ask runs a reader in a goroutine of its own. Its answer is put in place by Look's
// goroutine alone, or never, when it comes too late. A panic is an error like others.
func ask[T any](k *look, to *Answer[T], read func(context.Context) (T, error)) {
	to.Asked = true
	k.waiting++
	go func() {
		var a Answer[T]
		defer func() {
			if r := recover(); r != nil {
				a.Err = fmt.Errorf("panic: %v", r)
			}
			a.Asked, a.Done = true, true
			select {
			case k.answers <- func() { *to = a }:
			case <-k.ctx.Done():
			}
		}()
		a.Value, a.Err = read(k.asking)
	}()
}

// first asks what needs no other answer.
func (k *look) first() {
	s, h := k.seen, k.Host
	s.Lustre = exists(h.FS, "sys/fs/lustre", "proc/fs/lustre", "sys/module/lnet")
	ask(k, &s.Slurm, k.slurm)
	if !s.Recorded {
		ask(k, &s.Local, func(context.Context) (Local, error) { return readLocal(h, &k.Site) })
		ask(k, &s.Syslog, func(ctx context.Context) (struct{}, error) { return struct{}{}, k.dialSyslog(ctx) })
		k.tools("scontrol", "sinfo")
	}
	if !s.Lustre {
		return
	}
	ask(k, &s.Mounts, func(context.Context) ([]lfs.Mount, error) { return lfs.ReadMounts(h.FS) })
	ask(k, &s.Imports, func(context.Context) ([]lfs.Import, error) { return lfs.ReadImports(h.FS) })
	ask(k, &s.Targets, func(context.Context) ([]lfs.TargetInfo, error) { return lfs.Targets(h.FS) })
	ask(k, &s.Jobs, func(context.Context) (*lfs.JobSettings, error) {
		targets, _ := lfs.Targets(h.FS)
		return lfs.ReadJobSettings(h.FS, targets)
	})
	ask(k, &s.Version, func(context.Context) (lfs.Version, error) { return lfs.ReadVersion(h.FS) })
	ask(k, &s.Services, func(context.Context) ([]Service, error) { return readServices(h.FS) })
	ask(k, &s.Pools, func(ctx context.Context) (Pools, error) { return readPools(ctx, h) })
	ask(k, &s.Timeouts, func(context.Context) (Timeouts, error) { return readTimeouts(h.FS) })
	ask(k, &s.Global, func(ctx context.Context) (lnet.Values, error) { return lnet.ReadGlobal(ctx, h) })
	if !s.Recorded {
		k.tools("lctl", "lnetctl", "lfs")
	}
}

// followUp reads the hooks that Slurm's configuration names, and the records once
// the state directory is known to be on a local disk.
func (k *look) followUp() {
	s := k.seen
	if s.Slurm.Done && len(s.Slurm.Value.Values) > 0 && !k.hooked {
		k.hooked = true
		ask(k, &s.Hooks, func(context.Context) (Hooks, error) { return readHooks(k.Host, &k.Site, &s.Slurm.Value) })
	}
	if s.Local.Done && s.Local.Value.State.Remote == "" && s.Local.Value.State.Exists && !s.Records.Asked {
		ask(k, &s.Records, func(context.Context) (struct{}, error) { return struct{}{}, openRecords(&k.Site) })
	}
}

// slurm asks the controller once.
func (k *look) slurm(ctx context.Context) (slurm.Config, error) {
	return slurm.ReadConfig(ctx, func(ctx context.Context, name string, args ...string) ([]byte, error) {
		command, err := k.slurmCommand(name)
		if err != nil {
			return nil, err
		}
		return k.Host.Run(ctx, command, args...)
	})
}

// slurmCommand is a command in the folder that the configuration names. A recorded
// machine has recorded it by its name.
func (k *look) slurmCommand(name string) (string, error) {
	if k.Site.SlurmBin == "" || k.seen.Recorded {
		return name, nil
	}
	file := path.Join(k.Site.SlurmBin, name)
	return file, k.Site.avoidLustre(k.Host, file)
}

// tools starts commands to see whether they are there.
func (k *look) tools(names ...string) {
	for _, name := range names {
		a := &Answer[string]{}
		k.seen.Tools[name] = a
		ask(k, a, func(ctx context.Context) (string, error) {
			command := name
			if name == "scontrol" || name == "sinfo" {
				var err error
				if command, err = k.slurmCommand(name); err != nil {
					return "", err
				}
			}
			out, err := k.Host.Run(ctx, command, "--version")
			return firstLine(out), err
		})
	}
}

// exists tells whether one of these is there. It looks at no mount of Lustre.
func exists(fsys fs.FS, names ...string) bool {
	for _, name := range names {
		if _, err := fs.Stat(fsys, name); err == nil || errors.Is(err, fs.ErrPermission) {
			return true
		}
	}
	return false
}

// Patience is how long a look may take; what has not answered then is unknown.
const Patience = 9 * time.Second

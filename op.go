package ioguard

import "sync"

// Op is an operation counter of job_stats, stats or md_stats, as an index into
// one table of names. Names that this table does not know are added as they are
// met (RegisterOp), so a counter of a later release is kept by its own name.
type Op uint16

// The operations of Lustre 2.5 to 2.17 (ofd_stats_counter_init in
// lustre/ofd/lproc_ofd.c, mdt_stats_counter_init in lustre/mdt/mdt_lproc.c).
const (
	OpReadBytes Op = iota
	OpWriteBytes
	OpRead
	OpWrite
	OpGetattr
	OpSetattr
	OpPunch
	OpSync
	OpDestroy
	OpCreate
	OpStatfs
	OpGetInfo
	OpSetInfo
	OpQuotactl
	OpPrealloc
	OpOpen
	OpClose
	OpMknod
	OpLink
	OpUnlink
	OpMkdir
	OpRmdir
	OpRename
	OpGetxattr
	OpSetxattr
	OpSamedirRename
	OpParallelRenameFile
	OpParallelRenameDir
	OpCrossdirRename
	OpRenameTrylocks
	OpMigrate
	OpFallocate
	OpReadpage
	opKnown
)

var ops = struct {
	sync.RWMutex
	names []string
	index map[string]Op
}{names: []string{
	"read_bytes", "write_bytes", "read", "write", "getattr", "setattr", "punch", "sync", "destroy",
	"create", "statfs", "get_info", "set_info", "quotactl", "prealloc", "open", "close", "mknod",
	"link", "unlink", "mkdir", "rmdir", "rename", "getxattr", "setxattr", "samedir_rename",
	"parallel_rename_file", "parallel_rename_dir", "crossdir_rename", "rename_trylocks", "migrate",
	"fallocate", "readpage",
}}

// maxOps bounds the table: a file of garbage must not grow it without end.
const maxOps = 512

// OpOther stands for counters beyond the table's bound.
const OpOther Op = maxOps

func init() {
	ops.index = make(map[string]Op, len(ops.names))
	for i, n := range ops.names {
		ops.index[n] = Op(i)
	}
}

// RegisterOp gives the Op of a counter name, adding the name when it is new.
// Past 512 names every new one is OpOther.
func RegisterOp(name []byte) Op {
	ops.RLock()
	op, ok := ops.index[string(name)]
	ops.RUnlock()
	if ok {
		return op
	}
	ops.Lock()
	defer ops.Unlock()
	if op, ok = ops.index[string(name)]; ok {
		return op
	}
	if len(ops.names) >= maxOps {
		return OpOther
	}
	op = Op(len(ops.names))
	ops.names = append(ops.names, string(name))
	ops.index[string(name)] = op
	return op
}

// LookupOp gives the Op of a name that the table knows.
func LookupOp(name string) (Op, bool) {
	ops.RLock()
	defer ops.RUnlock()
	op, ok := ops.index[name]
	return op, ok
}

// String is the kernel's name of the counter.
func (op Op) String() string {
	ops.RLock()
	defer ops.RUnlock()
	if int(op) < len(ops.names) {
		return ops.names[op]
	}
	return "other"
}

// Bytes reports whether the counter sums bytes.
func (op Op) Bytes() bool { return op == OpReadBytes || op == OpWriteBytes }

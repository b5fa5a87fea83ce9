package node

import (
	"os/exec"
	"syscall"
	"testing"
)

func fifo(t *testing.T, name string) {
	t.Helper()
	check(t, syscall.Mkfifo(name, 0o600))
}

// underUmask is not for tests that run in parallel.
func underUmask(t *testing.T, mask int, do func() (*State, string)) (*State, string) {
	t.Helper()
	old := syscall.Umask(mask)
	defer syscall.Umask(old)
	return do()
}

// asUser makes a command run as a user.
func asUser(cmd *exec.Cmd, uid uint32) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

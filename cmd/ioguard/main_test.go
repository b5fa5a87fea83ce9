package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "probe" { // a probe is this binary by its own name
		os.Exit(run())
	}
	testscript.Main(m, map[string]func(){"ioguard": func() { os.Exit(run()) }})
}

// TestScripts runs the command line as its users do.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("RECORDINGS", filepath.Join(root, "testdata", "recordings"))
			e.Setenv("MACHINES", filepath.Join(root, "testdata", "machines"))
			e.Setenv("EXAMPLES", filepath.Join(root, "examples"))
			e.Values[syslogd{}] = &syslogd{}
			e.Setenv("IOGUARD_CONFIG", filepath.Join(e.WorkDir, "ioguard.yaml"))
			e.Setenv("TZ", "UTC")
			conf := "state_dir: " + e.WorkDir + "\n"
			return os.WriteFile(filepath.Join(e.WorkDir, "ioguard.yaml"), []byte(conf), 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":       exits,
			"printable":   printable,
			"narrow":      narrow,
			"bytes":       writeBytes,
			"noderecords": noderecords,
			"syslog":      startSyslog,
			"logged":      logged,
			"write":       writeConfig,
		},
	})
}

// exits CODE PROGRAM ARGS... runs a program that must end with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}

// printable FILE fails when the file holds a control character other than newline.
func printable(ts *testscript.TestScript, _ bool, args []string) {
	for i, b := range []byte(ts.ReadFile(args[0])) {
		if b < ' ' && b != '\n' || b >= 0x7f {
			ts.Fatalf("byte %d of %s is %#x", i, args[0], b)
		}
	}
}

// narrow FILE fails when a line is longer than 79 characters.
func narrow(ts *testscript.TestScript, _ bool, args []string) {
	for i, line := range strings.Split(ts.ReadFile(args[0]), "\n") {
		if n := len([]rune(line)); n > 79 {
			ts.Fatalf("%s:%d is %d wide: %s", args[0], i+1, n, line)
		}
	}
}

// bytes FILE TEXT writes a Go string literal's text.
func writeBytes(ts *testscript.TestScript, _ bool, args []string) {
	text, err := strconv.Unquote(`"` + args[1] + `"`)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// syslogd is a syslog daemon of a script.
type syslogd struct {
	messages chan string
}

// syslog SOCKET takes messages from then on.
func startSyslog(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: syslog SOCKET")
	}
	d := ts.Value(syslogd{}).(*syslogd)
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: ts.MkAbs(args[0]), Net: "unixgram"})
	ts.Check(err)
	ts.Defer(func() { c.Close() })
	d.messages = make(chan string, 1000)
	go func() {
		b := make([]byte, 64<<10)
		for {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			d.messages <- string(b[:n])
		}
	}()
}

// logged PATTERN waits for a message that matches and forgets it and those before it.
// "! logged" wants that there is none.
func logged(ts *testscript.TestScript, neg bool, args []string) {
	d := ts.Value(syslogd{}).(*syslogd)
	wanted := "."
	if len(args) > 0 {
		wanted = args[0]
	}
	pattern := regexp.MustCompile(wanted)
	late := time.NewTimer(5 * time.Second)
	defer late.Stop()
	if neg {
		late.Reset(50 * time.Millisecond)
	}
	var heard []string
	for {
		select {
		case m := <-d.messages:
			heard = append(heard, m)
			if !pattern.MatchString(m) {
				continue
			}
			if neg {
				ts.Fatalf("logged %q", m)
			}
			return
		case <-late.C:
			if !neg {
				ts.Fatalf("logged %q, nothing that matches %s", heard, pattern)
			}
			return
		}
	}
}

// write FILE MACHINE LINE... writes a configuration for a recorded machine. WORK is
// the script's folder.
func writeConfig(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: write FILE MACHINE LINE...")
	}
	lines := append([]string{"machine: " + filepath.Join(ts.Getenv("MACHINES"), args[1]+".tar.zst")}, args[2:]...)
	text := strings.ReplaceAll(strings.Join(lines, "\n")+"\n", "WORK", ts.Getenv("WORK"))
	if !strings.Contains(text, "state_dir:") {
		text += "state_dir: " + ts.MkAbs("state") + "\n"
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

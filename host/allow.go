package host

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// form is a way to call a command that changes nothing: the words that must come
// first and the flags that may appear. "*" as flags admits any behind the words,
// and the word NID stands for any NID.
type form struct {
	words string
	flags string
	alone bool // no further words
}

var versionForm = form{"--version", "", true}

// readOnly lists what readers may run. lctl ping is for package gate alone, and
// only for peers that LNet knows already: a ping of any other leaves a peer behind
// for good. It takes a NID, since LNet asks DNS for what has no net. zpool's -c is
// not here: it runs scripts.
var readOnly = map[string][]form{
	"lctl": {
		{"get_param", "*", false}, {"list_param", "*", false}, {"dl", "-t", false}, {"device_list", "-t", false}, {"list_nids", "*", false},
		{"pool_list", "", false}, {"which_nid", "", false}, {"ping NID", "", true}, versionForm,
	},
	"lnetctl": {
		{"net show", "*", false}, {"peer show", "*", false}, {"route show", "*", false}, {"routing show", "*", false},
		{"stats show", "*", false}, {"global show", "*", false}, {"udsp show", "*", false}, versionForm,
	},
	"lfs": {
		{"df", "*", false}, {"getstripe", "*", false}, {"getdirstripe", "*", false}, {"getname", "*", false}, {"pool_list", "*", false},
		{"check", "*", false}, {"osts", "", false}, {"mdts", "", false}, versionForm,
	},
	"squeue": {{"", "*", false}},
	"sinfo":  {{"", "*", false}},
	"sacct":  {{"", "*", false}},
	"scontrol": {
		{"show", "-o --oneliner -d --details -a --all --json --yaml", false},
		{"ping", "", false}, {"version", "", false}, versionForm, {"-V", "-V", true},
	},
	"sacctmgr": {{"show", "-n --noheader -p -P --parsable --parsable2 -s", false}, {"list", "-n --noheader -p -P --parsable --parsable2 -s", false}},
	"zpool": {
		{"status", "-P -L -v -x -g -i -s -D -p -t -j", false}, {"list", "-v -P -L -H -p -g -o -j", false}, {"get", "-H -p -o", false},
	},
	"zfs":   {{"list", "-H -p -r -d -o -t -s -S", false}, {"get", "-H -p -r -d -o -t -s", false}},
	"lsblk": {{"", "*", false}},
	// journalctl alone also shrinks, rotates and flushes the journal, and writes
	// files for cursors and keys: only what follows these words is known.
	"journalctl": {{"-k -o json --no-pager", "-b -q --since --until", true}},
	"dmesg":      {{"", "-r -T -x -k -u -t --raw --ctime --decode", false}},
	"ibstat":     {{"", "-l -s -p -v", false}},
	"ip":         {{"link", "-o -s -d", true}, {"link show", "-o -s -d", false}},
	"rdma":       {{"link", "-d -j", true}, {"link show", "-d -j", false}},
}

// RefusedError is a command that is not on the list of read-only ones. Nothing was run.
type RefusedError struct {
	Command string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("run %s: refused, readers may only run commands that are known to change nothing", e.Command)
}

// permit tells whether a call is one of the read-only forms. Flags may stand
// before the words (scontrol -o show) and behind them.
func permit(name string, args []string) error {
	for _, f := range readOnly[path.Base(name)] {
		if f.admits(args) {
			return nil
		}
	}
	return &RefusedError{commandLine(name, args)}
}

func (f form) admits(args []string) bool {
	words, flags := strings.Fields(f.words), strings.Fields(f.flags)
	taken := 0
	for _, a := range args {
		switch {
		case taken < len(words) && (a == words[taken] && a != nidWord || words[taken] == nidWord && isNID(a)):
			taken++
		case strings.HasPrefix(a, "-") && len(a) > 1:
			anyFlag := f.flags == "*" && taken == len(words)
			if !anyFlag && !slices.ContainsFunc(flags, func(flag string) bool { return admitsFlag(flag, a) }) {
				return false
			}
		case taken < len(words) || f.alone:
			return false
		}
	}
	return taken == len(words)
}

const nidWord = "NID"

// isNID tells whether a word has the shape of a NID: an address and a net. Which
// addresses there are is LNet's to say.
func isNID(s string) bool {
	address, net, ok := strings.Cut(s, "@")
	return ok && address != "" && address[0] != '-' && net != "" && !strings.ContainsFunc(address+net, func(r rune) bool {
		return !strings.ContainsRune(nidLetters, r)
	})
}

const nidLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:_-"

// admitsFlag knows "-o", "-oname" and "--json=v0.0.40", but not "-vc" for "-v":
// the second letter could be another flag.
func admitsFlag(flag, arg string) bool {
	if flag == arg {
		return true
	}
	if strings.HasPrefix(flag, "--") {
		return strings.HasPrefix(arg, flag+"=")
	}
	return false
}

// commandLine is a call as one line for messages.
func commandLine(name string, args []string) string {
	return strings.Join(append([]string{name}, args...), " ")
}

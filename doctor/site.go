package doctor

import "time"

// Site is the configuration in force and the doors that other packages keep, as far
// as doctor needs them. It comes from the command.
type Site struct {
	Config  ConfigFile
	Machine string // the key machine; "" and "/" are this one
	Policy  PolicyDir

	JobIDVar  string // variable that job ids must be taken from; "" is not looked at
	JobIDName string // jobid_name of the clients; "" guesses

	Budget time.Duration // the longest that a hook takes
	Drains bool          // the policy drains nodes on some finding

	StateDir string // absolute
	Syslog   string // "" is switched off
	SlurmBin string // folder of scontrol and sinfo; "" is one of the usual ones

	UID int // effective, of this process

	// IsLocal tells, by a table of mounts, whether a path can be touched without fear
	// of hanging: its error says which part of it is on a file system that is not local.
	IsLocal func(table, path string) error
	// OpenRecords tries to open the records for reading.
	OpenRecords func(file string) error
}

// ConfigFile is the configuration file in force.
type ConfigFile struct {
	Path    string
	Missing bool   // there is none, and none was named
	Remote  string // why it was not read: it lies on a file system that may hang
	Err     error  // why it cannot be used
}

// PolicyDir is the folder with the site's own rules.
type PolicyDir struct {
	Path  string // "" is none
	Rules int    // in force, built-in ones among them
	Err   error
}

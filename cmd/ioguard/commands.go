package main

import "github.com/urfave/cli/v2"

// commands is the one list of commands: a line each.
func commands() []*cli.Command {
	return []*cli.Command{
		watchCommand(),
		checkCommand(),
		doctorCommand(),
		prologCommand(),
		epilogCommand(),
		topCommand(),
		explainCommand(),
		nodesCommand(),
		policyCommand(),
		recordCommand(),
		completionCommand(),
	}
}

package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// completeFlag is what urfave/cli appends to ask for completions.
const completeFlag = "--generate-bash-completion"

const bashCompletion = `_ioguard() {
  local cur="${COMP_WORDS[COMP_CWORD]}" words
  words=$("${COMP_WORDS[@]:0:$COMP_CWORD}" ${cur:+"$cur"} --generate-bash-completion 2>/dev/null)
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o bashdefault -o default -F _ioguard ioguard
`

func completionCommand() *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the shell's completion of commands and flags",
		UsageText: "ioguard completion bash|zsh",
		Description: `  bash: ioguard completion bash > /etc/bash_completion.d/ioguard
  zsh:  source <(ioguard completion zsh)`,
		OnUsageError: onUsageError,
		Action: func(c *cli.Context) error {
			switch c.Args().First() {
			case "bash":
				_, err := fmt.Fprint(c.App.Writer, bashCompletion)
				return err
			case "zsh":
				_, err := fmt.Fprint(c.App.Writer, "autoload -U +X bashcompinit && bashcompinit\n"+bashCompletion)
				return err
			}
			return usageError("ioguard completion bash, or zsh", "for which shell?")
		},
	}
}

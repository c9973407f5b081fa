package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"redlockd/cmd/redlockd/config"
)

// Completions for shells, made from the table of commands and their flags. The scripts do not call redlockd: what they know is
// what this version knows.

// shells are those that can be completed for.
var shells = []string{"bash", "zsh", "fish"}

var completion = command{name: "completion", summary: "print what bash, zsh or fish needs to complete this command line", words: shells, run: complete, help: `Usage: redlockd completion bash|zsh|fish

Prints what the shell needs to complete commands, flags and their values.

  bash   redlockd completion bash >/etc/bash_completion.d/redlockd, or in ~/.bashrc: source <(redlockd completion bash)
  zsh    redlockd completion zsh >"${fpath[1]}/_redlockd", or in ~/.zshrc, behind compinit: source <(redlockd completion zsh)
  fish   redlockd completion fish >~/.config/fish/completions/redlockd.fish
`}

func complete(c *call) error {
	if len(c.args) != 1 {
		return usageError{fmt.Errorf("completion takes the name of a shell: %s", strings.Join(shells, ", "))}
	}
	switch c.args[0] {
	case "bash":
		writeBash(c.stdout, c.all)
	case "zsh":
		writeZsh(c.stdout, c.all)
	case "fish":
		writeFish(c.stdout, c.all)
	default:
		return usageError{fmt.Errorf("no completion for %q%s; there is one for %s", c.args[0], config.DidYouMean(c.args[0], shells), strings.Join(shells, ", "))}
	}
	return nil
}

// visibleFlags are the flags of a command that its help shows, and --help.
func (c *command) visibleFlags() (flags []flagHelp) {
	if c.audience != forNobody {
		flags = slices.DeleteFunc(c.allFlags(), func(h flagHelp) bool { return h.hidden })
	}
	return append(flags, flagHelp{name: "help", usage: "explain the command"})
}

// takesFile tells whether the value of a flag is the name of a file.
func (h flagHelp) takesFile() bool { return h.arg == "file" }

// writeBash makes a function that finds the command in the first word, then the flag in the word before. Bash splits --flag=value into
// three words.
func writeBash(w io.Writer, all []command) {
	fmt.Fprint(w, `# bash completion for redlockd
_redlockd() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command=serve words= i
	COMPREPLY=()
	if [[ $previous == = ]]; then
		previous=${COMP_WORDS[COMP_CWORD-2]}
	elif [[ $current == = ]]; then
		current=
	fi
	case ${COMP_WORDS[1]} in
`)
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	fmt.Fprintf(w, "\t%s) ((COMP_CWORD > 1)) && command=${COMP_WORDS[1]} ;;\n\tesac\n", strings.Join(names, "|"))
	fmt.Fprint(w, `	for ((i = 2; i < COMP_CWORD; i++)); do
		if [[ ${COMP_WORDS[i]} == -- ]]; then # what run runs
			((i == COMP_CWORD - 1)) && COMPREPLY=($(compgen -c -- "$current"))
			return
		fi
	done
	case $command:$previous in
`)
	for _, c := range all {
		var free []string // takes a value that nobody can guess
		for _, h := range c.visibleFlags() {
			switch flag := c.name + ":--" + h.name; {
			case h.arg == "":
			case len(h.words) > 0:
				fmt.Fprintf(w, "\t%s) COMPREPLY=($(compgen -W '%s' -- \"$current\")); return ;;\n", flag, strings.Join(h.words, " "))
			case h.takesFile():
				fmt.Fprintf(w, "\t%s) compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- \"$current\")); return ;;\n", flag)
			default:
				free = append(free, flag)
			}
		}
		if len(free) > 0 {
			fmt.Fprintf(w, "\t%s) return ;;\n", strings.Join(free, "|"))
		}
	}
	fmt.Fprint(w, "\tesac\n\tcase $command in\n")
	for _, c := range all {
		words := slices.Clone(c.words)
		for _, h := range c.visibleFlags() {
			words = append(words, "--"+h.name)
		}
		fmt.Fprintf(w, "\t%s) words='%s' ;;\n", c.name, strings.Join(words, " "))
	}
	fmt.Fprintf(w, `	esac
	((COMP_CWORD > 1)) || words="$words --version %s"
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _redlockd redlockd
`, strings.Join(names, " "))
}

// writeZsh makes a function that calls _arguments with the flags of the command.
func writeZsh(w io.Writer, all []command) {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	plain := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)
	fmt.Fprint(w, "#compdef redlockd\n\n_redlockd() {\n\tlocal command=serve\n\tlocal -a commands=(\n")
	for _, c := range all {
		fmt.Fprintf(w, "\t\t%s\n", quote(c.name+":"+plain.Replace(c.summary)))
	}
	fmt.Fprint(w, `	)
	if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then
		_describe -t commands command commands
		return
	fi
	if [[ -n ${(M)commands:#$words[2]:*} ]]; then
		command=$words[2]
		shift words
		(( CURRENT-- ))
	fi
	case $command in
`)
	for _, c := range all {
		fmt.Fprintf(w, "\t%s)\n\t\t_arguments", c.name)
		for _, h := range c.visibleFlags() {
			spec := "--" + h.name
			if h.arg != "" {
				spec += "="
			}
			spec += "[" + plain.Replace(h.usage) + "]"
			switch {
			case h.arg == "":
			case len(h.words) > 0:
				spec += ":" + h.arg + ":(" + strings.Join(h.words, " ") + ")"
			case h.takesFile():
				spec += ":file:_files"
			default:
				spec += ":" + plain.Replace(h.arg) + ":"
			}
			fmt.Fprintf(w, " \\\n\t\t\t%s", quote(spec))
		}
		if c.words != nil {
			fmt.Fprintf(w, " \\\n\t\t\t%s", quote("1: :("+strings.Join(c.words, " ")+")"))
		}
		if c.wraps {
			fmt.Fprint(w, " \\\n\t\t\t'1:resource:' '*::command:_normal'")
		}
		fmt.Fprint(w, "\n\t\t;;\n")
	}
	fmt.Fprint(w, `	esac
}

if [[ $funcstack[1] == _redlockd ]]; then
	_redlockd "$@"
else
	compdef _redlockd redlockd
fi
`)
}

// writeFish makes a line for each command and each flag.
func writeFish(w io.Writer, all []command) {
	quote := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
	}
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	fmt.Fprintf(w, "# fish completion for redlockd\nset -l commands %s\ncomplete -c redlockd -f\n", strings.Join(names, " "))
	fmt.Fprint(w, "complete -c redlockd -n \"not __fish_seen_subcommand_from $commands\" -l version -d 'print the version'\n")
	for i, c := range all {
		fmt.Fprintf(w, "complete -c redlockd -n \"not __fish_seen_subcommand_from $commands\" -a %s -d %s\n", c.name, quote(c.summary))
		when := fmt.Sprintf("\"__fish_seen_subcommand_from %s\"", c.name)
		if i == 0 { // the default command
			when = fmt.Sprintf("\"not __fish_seen_subcommand_from %s\"", strings.Join(names[1:], " "))
		}
		for _, h := range c.visibleFlags() {
			value := ""
			switch {
			case h.arg == "":
			case len(h.words) > 0:
				value = " -x -a " + quote(strings.Join(h.words, " "))
			case h.takesFile():
				value = " -r -F"
			default:
				value = " -x"
			}
			fmt.Fprintf(w, "complete -c redlockd -n %s -l %s%s -d %s\n", when, h.name, value, quote(h.usage))
		}
		if c.words != nil {
			fmt.Fprintf(w, "complete -c redlockd -n %s -a %s\n", when, quote(strings.Join(c.words, " ")))
		}
		if c.wraps {
			fmt.Fprintf(w, "complete -c redlockd -n %s -a '(__fish_complete_command)'\n", when)
		}
	}
}

package cli

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

var completion = Command{Name: "completion", Summary: "print what bash, zsh or fish needs to complete this command line", Words: shells, Run: complete, Help: `Usage: redlockd completion bash|zsh|fish

Prints what the shell needs to complete commands, flags and their values.

  bash   redlockd completion bash >/etc/bash_completion.d/redlockd, or in ~/.bashrc: source <(redlockd completion bash)
  zsh    redlockd completion zsh >"${fpath[1]}/_redlockd", or in ~/.zshrc, behind compinit: source <(redlockd completion zsh)
  fish   redlockd completion fish >~/.config/fish/completions/redlockd.fish
`}

func complete(c *Call) error {
	if len(c.Args) != 1 {
		return Usage(fmt.Errorf("completion takes the name of a shell: %s", strings.Join(shells, ", ")))
	}
	switch c.Args[0] {
	case "bash":
		writeBash(c.Stdout, c.all)
	case "zsh":
		writeZsh(c.Stdout, c.all)
	case "fish":
		writeFish(c.Stdout, c.all)
	default:
		return Usage(fmt.Errorf("no completion for %q%s; there is one for %s", c.Args[0], config.DidYouMean(c.Args[0], shells), strings.Join(shells, ", ")))
	}
	return nil
}

// VisibleFlags are the flags of a command that its help shows, and --help.
func (c *Command) VisibleFlags() (flags []Flag) {
	if c.Audience != ForNobody {
		flags = slices.DeleteFunc(c.AllFlags(), func(h Flag) bool { return h.Hidden })
	}
	return append(flags, Flag{Name: "help", Usage: "explain the command"})
}

// takesFile tells whether the value of a flag is the name of a file.
func (h Flag) takesFile() bool { return h.Arg == "file" }

// writeBash makes a function that finds the command in the first word, then the flag in the word before. Bash splits --flag=value into
// three words.
func writeBash(w io.Writer, all []Command) {
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
		names = append(names, c.Name)
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
		for _, h := range c.VisibleFlags() {
			switch flag := c.Name + ":--" + h.Name; {
			case h.Arg == "":
			case len(h.Words) > 0:
				fmt.Fprintf(w, "\t%s) COMPREPLY=($(compgen -W '%s' -- \"$current\")); return ;;\n", flag, strings.Join(h.Words, " "))
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
		words := slices.Clone(c.Words)
		for _, h := range c.VisibleFlags() {
			words = append(words, "--"+h.Name)
		}
		fmt.Fprintf(w, "\t%s) words='%s' ;;\n", c.Name, strings.Join(words, " "))
	}
	fmt.Fprintf(w, `	esac
	((COMP_CWORD > 1)) || words="$words --version %s"
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _redlockd redlockd
`, strings.Join(names, " "))
}

// writeZsh makes a function that calls _arguments with the flags of the command.
func writeZsh(w io.Writer, all []Command) {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
	plain := strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, ":", `\:`)
	fmt.Fprint(w, "#compdef redlockd\n\n_redlockd() {\n\tlocal command=serve\n\tlocal -a commands=(\n")
	for _, c := range all {
		fmt.Fprintf(w, "\t\t%s\n", quote(c.Name+":"+plain.Replace(c.Summary)))
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
		fmt.Fprintf(w, "\t%s)\n\t\t_arguments", c.Name)
		for _, h := range c.VisibleFlags() {
			spec := "--" + h.Name
			if h.Arg != "" {
				spec += "="
			}
			spec += "[" + plain.Replace(h.Usage) + "]"
			switch {
			case h.Arg == "":
			case len(h.Words) > 0:
				spec += ":" + h.Arg + ":(" + strings.Join(h.Words, " ") + ")"
			case h.takesFile():
				spec += ":file:_files"
			default:
				spec += ":" + plain.Replace(h.Arg) + ":"
			}
			fmt.Fprintf(w, " \\\n\t\t\t%s", quote(spec))
		}
		if c.Words != nil {
			fmt.Fprintf(w, " \\\n\t\t\t%s", quote("1: :("+strings.Join(c.Words, " ")+")"))
		}
		if c.Wraps {
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
func writeFish(w io.Writer, all []Command) {
	quote := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
	}
	var names []string
	for _, c := range all {
		names = append(names, c.Name)
	}
	fmt.Fprintf(w, "# fish completion for redlockd\nset -l commands %s\ncomplete -c redlockd -f\n", strings.Join(names, " "))
	fmt.Fprint(w, "complete -c redlockd -n \"not __fish_seen_subcommand_from $commands\" -l version -d 'print the version'\n")
	for i, c := range all {
		fmt.Fprintf(w, "complete -c redlockd -n \"not __fish_seen_subcommand_from $commands\" -a %s -d %s\n", c.Name, quote(c.Summary))
		when := fmt.Sprintf("\"__fish_seen_subcommand_from %s\"", c.Name)
		if i == 0 { // the default command
			when = fmt.Sprintf("\"not __fish_seen_subcommand_from %s\"", strings.Join(names[1:], " "))
		}
		for _, h := range c.VisibleFlags() {
			value := ""
			switch {
			case h.Arg == "":
			case len(h.Words) > 0:
				value = " -x -a " + quote(strings.Join(h.Words, " "))
			case h.takesFile():
				value = " -r -F"
			default:
				value = " -x"
			}
			fmt.Fprintf(w, "complete -c redlockd -n %s -l %s%s -d %s\n", when, h.Name, value, quote(h.Usage))
		}
		if c.Words != nil {
			fmt.Fprintf(w, "complete -c redlockd -n %s -a %s\n", when, quote(strings.Join(c.Words, " ")))
		}
		if c.Wraps {
			fmt.Fprintf(w, "complete -c redlockd -n %s -a '(__fish_complete_command)'\n", when)
		}
	}
}

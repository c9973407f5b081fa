package cli

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"redlockd/cmd/redlockd/config"
)

// scripts are completion.bash and so on. Each asks `redlockd completion words` for what can stand in
// the place of the last word: one candidate per line, with what it is behind a tab. :files and
// :commands are left to the shell.
//
//go:embed completion.bash completion.zsh completion.fish
var scripts embed.FS

var shellNames = []string{"bash", "zsh", "fish"}

var completion = Command{Name: "completion", Summary: "print what bash, zsh or fish needs to complete this command line", Words: shellNames, Run: complete, Help: `Usage: redlockd completion bash|zsh|fish

Prints what the shell needs to complete commands, flags and their values. It asks the redlockd in your PATH (redlockd completion words).

  bash   redlockd completion bash >/etc/bash_completion.d/redlockd, or in ~/.bashrc: source <(redlockd completion bash)
  zsh    redlockd completion zsh >"${fpath[1]}/_redlockd", or in ~/.zshrc, behind compinit: source <(redlockd completion zsh)
  fish   redlockd completion fish >~/.config/fish/completions/redlockd.fish
`}

func complete(c *Call) error {
	switch {
	case len(c.Args) > 1 && c.Args[0] == "words":
		for _, word := range candidates(c.all, c.Args[1:]) {
			fmt.Fprintln(c.Stdout, word)
		}
		return nil
	case len(c.Args) != 1:
		return Usage(fmt.Errorf("completion takes the name of a shell: %s", strings.Join(shellNames, ", ")))
	case !slices.Contains(shellNames, c.Args[0]):
		return Usage(fmt.Errorf("no completion for %q%s; there is one for %s", c.Args[0], config.DidYouMean(c.Args[0], shellNames), strings.Join(shellNames, ", ")))
	}
	script, err := scripts.ReadFile("completion." + c.Args[0])
	c.Stdout.Write(script)
	return err
}

// candidates are what can stand in the place of the last of the words.
func candidates(all []Command, words []string) (found []string) {
	last := len(words) - 1
	command := all[0]
	if at := slices.Index(namesOf(all), words[0]); at >= 0 && last > 0 {
		command = all[at]
	}
	if at := slices.Index(words[:last], "--"); at >= 0 && command.Wraps {
		if at == last-1 {
			return []string{":commands"}
		}
		return nil
	}
	// A flag and its value are one word or two, and in bash three: --flag = value.
	current, flag, before := words[last], "", ""
	if last > 0 {
		flag = words[last-1]
	}
	if name, value, isOne := strings.Cut(current, "="); isOne && strings.HasPrefix(name, "--") {
		flag, current, before = name, value, name+"="
	} else if current == "=" {
		current = ""
	} else if flag == "=" && last > 1 {
		flag = words[last-2]
	}
	add := func(word, what string) {
		if strings.HasPrefix(word, current) {
			found = append(found, strings.TrimSuffix(before+word+"\t"+what, "\t"))
		}
	}
	for _, f := range command.VisibleFlags() {
		if f.Arg == "" || flag != "--"+f.Name {
			continue
		}
		if f.Arg == "file" {
			return []string{":files"}
		}
		for _, word := range f.Words {
			add(word, "")
		}
		return found
	}
	for _, word := range command.Words {
		add(word, "")
	}
	for _, f := range command.VisibleFlags() {
		add("--"+f.Name, f.Usage)
	}
	if last == 0 {
		add("--version", "print the version")
		for _, c := range all {
			add(c.Name, c.Summary)
		}
	}
	return found
}

// VisibleFlags are the flags of a command that its help shows, and --help.
func (c *Command) VisibleFlags() (flags []Flag) {
	if c.Audience != forNobody {
		flags = slices.DeleteFunc(c.AllFlags(), func(f Flag) bool { return f.Hidden })
	}
	return append(flags, Flag{Name: "help", Usage: "explain the command"})
}

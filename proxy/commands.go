package proxy

import (
	"cmp"
	"fmt"
	"slices"
)

// commandRows are the commands that this endpoint serves.
var commandRows = slices.Concat(nativeCommands, dropInCommands, scriptCommands, connectionCommands)

// commandTable finds the row of a command by its name.
type commandTable struct {
	byName map[string]*command
	all    []*command // in order of name; subcommands are in their rows
	rows   []*command // the same, each with its subcommands behind it
}

// commandNameMax bounds the names that find looks for.
const commandNameMax = 32

// newCommandTable makes the table of rows. It panics on a table that cannot be right.
func newCommandTable(rows []command) *commandTable {
	t := &commandTable{byName: make(map[string]*command)}
	for _, row := range rows {
		cmd := &row
		if t.byName[cmd.name] != nil || len(cmd.name) > commandNameMax || cmd.arity == 0 {
			panic(fmt.Sprintf("command %q: two rows, too long a name, or no arity", cmd.name))
		}
		t.byName[cmd.name] = cmd
		t.all = append(t.all, cmd)
		cmd.stats = new(commandStats)
		cmd.subs = slices.Clone(cmd.subs)
		for i := range cmd.subs {
			cmd.subs[i].parent = cmd
			cmd.subs[i].stats = new(commandStats)
		}
	}
	slices.SortFunc(t.all, func(a, b *command) int { return cmp.Compare(a.name, b.name) })
	for _, cmd := range t.all {
		t.rows = append(t.rows, cmd)
		for i := range cmd.subs {
			t.rows = append(t.rows, &cmd.subs[i])
		}
	}
	return t
}

// find returns the row of a command, or of its subcommand; or nil, and the error to answer.
func (t *commandTable) find(args [][]byte) (*command, string) {
	cmd := t.named(args[0])
	if cmd == nil {
		return nil, notServed(args)
	}
	if len(cmd.subs) == 0 || len(args) == 1 {
		return cmd, ""
	}
	if sub := cmd.sub(args[1]); sub != nil {
		return sub, ""
	}
	return nil, unknownSubcommand(args)
}

// sub finds a subcommand by its name in any case; nil if there is none.
func (cmd *command) sub(name []byte) *command {
	for i := range cmd.subs {
		if equalFold(name, cmd.subs[i].name) {
			return &cmd.subs[i]
		}
	}
	return nil
}

// named finds a command by its name in any case, without allocating.
func (t *commandTable) named(name []byte) *command {
	var lower [commandNameMax]byte
	if len(name) > len(lower) {
		return nil
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return t.byName[string(lower[:len(name)])]
}

package proxy

import (
	"strings"

	"redlockd/proxy/access"
	"redlockd/redlock/resp"
)

// COMMAND and its subcommands describe the command table to clients. Clients for Redis Cluster learn
// from it where the keys of a command stand; redis-cli shows hints from it while one types.
//
// All of it follows from commandRows: nothing about a command is written here. What one command looks
// like is in cmd_command_docs.go. A command that redlockd refuses (refused.go) is not described, so
// that no client plans with it.

// cmdCOMMANDCOUNT counts commands, not subcommands, as Redis does.
func cmdCOMMANDCOUNT(s *session, c *call) error {
	return c.reply(len(s.server.table.all))
}

// cmdCOMMANDINFO is COMMAND INFO [name …]. Names that are no command are answered with null, in their
// place: the reply has one element for each name. Without names, and as COMMAND, it describes all
// commands, in order of name.
func cmdCOMMANDINFO(s *session, c *call) error {
	described := s.server.table.all
	if len(c.args) > 2 {
		described = nil
		for _, name := range c.args[2:] {
			described = append(described, s.server.table.byFullName(name))
		}
	}
	c.out = resp.AppendArray(c.out, len(described))
	for _, cmd := range described {
		if cmd != nil {
			c.reply(commandInfo(cmd))
		} else {
			c.out = resp.AppendNull(c.out, c.proto)
		}
	}
	return nil
}

// cmdCOMMANDDOCS is COMMAND DOCS [name …]. Names that are no command are left out: the reply is a map
// by name. Without names it describes all commands, which is what redis-cli asks for when it starts.
func cmdCOMMANDDOCS(s *session, c *call) error {
	commands := s.server.table.all
	if len(c.args) > 2 {
		commands = nil
		for _, name := range c.args[2:] {
			if cmd := s.server.table.byFullName(name); cmd != nil {
				commands = append(commands, cmd)
			}
		}
	}
	c.out = resp.AppendMap(c.out, c.proto, len(commands))
	for _, cmd := range commands {
		c.out = resp.AppendBulkString(c.out, cmd.fullName())
		c.reply(commandDocs(cmd))
	}
	return nil
}

// cmdCOMMANDLIST is COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN glob]. Subcommands
// are listed, too, as container|name. There are neither modules nor ACL categories, so that a filter by
// one finds nothing.
func cmdCOMMANDLIST(s *session, c *call) error {
	keep := func(*command) bool { return true }
	if len(c.args) > 2 {
		if len(c.args) != 5 || !equalFold(c.args[2], "FILTERBY") {
			return errSyntax
		}
		value := strings.ToLower(string(c.args[4]))
		switch filter := c.args[3]; {
		case equalFold(filter, "MODULE"), equalFold(filter, "ACLCAT"):
			keep = func(*command) bool { return false }
		case equalFold(filter, "PATTERN"):
			if refusal := patternRefusal(value); refusal != nil {
				return refusal
			}
			keep = func(cmd *command) bool { return access.Match(value, cmd.fullName()) }
		default:
			return errSyntax
		}
	}
	var names []string
	for _, row := range s.server.table.rows { // by name, each command before its subcommands
		if keep(row) {
			names = append(names, row.fullName())
		}
	}
	return c.reply(bulks(names))
}

// cmdCOMMANDGETKEYS is COMMAND GETKEYS command [arg …], with the errors of Redis. It uses the same find
// as the permission of users, so it shows which keys are checked.
func cmdCOMMANDGETKEYS(s *session, c *call) error {
	args := c.args[2:]
	cmd, _ := s.server.table.find(args)
	switch { // in this order: find of keySpec needs arguments that fit the arity
	case cmd == nil:
		return errorf("ERR Invalid command specified")
	case cmd.keys == keySpec{}:
		return errorf("ERR The command has no key arguments")
	case !arityFits(cmd.arity, len(args)):
		return errorf("ERR Invalid number of arguments specified for command")
	}
	keys, step, ok := cmd.keys.find(args)
	if !ok {
		return errorf("ERR Invalid arguments specified for command")
	}
	c.out = resp.AppendArray(c.out, (len(keys)+step-1)/step)
	for i := 0; i < len(keys); i += step {
		c.out = resp.AppendBulk(c.out, keys[i])
	}
	return nil
}

// cmdHELP is the HELP subcommand of every command that has subcommands: two lines for each, its form
// and its summary, as in Redis. Both come from the rows, so that the help cannot differ from what is
// served.
func cmdHELP(_ *session, c *call) error {
	container := c.cmd.parent
	name := strings.ToUpper(container.name)
	c.out = resp.AppendArray(c.out, 1+2*len(container.subs))
	c.out = resp.AppendStatus(c.out, name+" <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, sub := range container.subs {
		c.out = resp.AppendStatus(c.out, strings.TrimSpace(strings.ToUpper(sub.name)+" "+hintOf(sub.arguments, " ")))
		c.out = resp.AppendStatus(c.out, "    "+sub.summary+".")
	}
	return nil
}

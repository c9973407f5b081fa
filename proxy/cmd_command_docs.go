package proxy

// How one row of the command table looks to a client: its element of COMMAND INFO, its map of COMMAND
// DOCS, and the hint that redis-cli, HELP and errors show. The forms are those of "COMMAND" and
// "COMMAND DOCS" in Redis's documentation. Clients parse them, so nothing may be added to them that
// Redis does not have.

// names are the flags that COMMAND INFO shows. The other flags steer this server alone.
func (f commandFlags) names() []string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// commandInfo are the ten elements by which COMMAND INFO describes a command, those of its subcommands
// nested in the last. ACL categories, tips and key specifications are empty: no client that is known
// reads them of a server that is no cluster.
func commandInfo(cmd *command) array {
	subs := make(array, len(cmd.subs))
	for i, sub := range cmd.subs {
		subs[i] = commandInfo(sub)
	}
	return array{cmd.fullName(), cmd.arity, statuses(cmd.flags.names()), cmd.keys.first, cmd.keys.last, cmd.keys.step,
		set{}, set{}, set{}, subs}
}

// commandDocs is the map by which COMMAND DOCS describes a command. It leaves out what redlockd does
// not know of a command, its complexity and its history; redis-cli manages without.
func commandDocs(cmd *command) fields {
	// since is redlockd's version for a command of its own, and Redis's for others.
	docs := fields{"summary", cmd.summary, "since", cmd.since, "group", cmd.group}
	if len(cmd.arguments) > 0 {
		docs = append(docs, "arguments", argumentDocs(cmd.arguments))
	}
	if len(cmd.subs) > 0 {
		var subs fields
		for _, sub := range cmd.subs {
			subs = append(subs, sub.fullName(), commandDocs(sub))
		}
		docs = append(docs, "subcommands", subs)
	}
	return docs
}

// argumentDocs describes arguments for COMMAND DOCS, as an array of maps. A field that would say "no"
// is left out, as Redis does it. redis-cli shows display_text in its hints.
func argumentDocs(args []argDoc) array {
	docs := make(array, len(args))
	for i, arg := range args {
		doc := fields{"name", arg.name, "type", arg.kind}
		if len(arg.arguments) == 0 { // a group is shown by its parts
			doc = append(doc, "display_text", arg.name)
		}
		if arg.token != "" {
			doc = append(doc, "token", arg.token)
		}
		var flags set
		if arg.optional {
			flags = append(flags, simple("optional"))
		}
		if arg.multiple {
			flags = append(flags, simple("multiple"))
		}
		if len(flags) > 0 {
			doc = append(doc, "flags", flags)
		}
		if len(arg.arguments) > 0 {
			doc = append(doc, "arguments", argumentDocs(arg.arguments))
		}
		docs[i] = doc
	}
	return docs
}

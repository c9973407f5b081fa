package proxy

import (
	"strings"
)

// How one row of the command table looks to a client: its element of COMMAND INFO, its map of COMMAND
// DOCS, and the hint that redis-cli, HELP and errors show. The forms are those of "COMMAND", "COMMAND
// DOCS" and "Key specifications" in Redis's documentation. Clients parse them, so nothing may be added
// to them that Redis does not have.

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

// categories are the ACL categories that Redis gives to a command with these flags, of this group. They
// are shown and have no effect: what a user may do is in User.
func (cmd *command) categories() []string {
	var names []string
	add := func(has bool, name string) {
		if has {
			names = append(names, name)
		}
	}
	add(cmd.flags&flagReadOnly != 0, "@read")
	add(cmd.flags&flagWrite != 0, "@write")
	add(cmd.flags&flagFast != 0, "@fast")
	add(cmd.flags&flagFast == 0, "@slow")
	add(cmd.flags&flagAdmin != 0, "@admin")
	add(cmd.flags&flagAdmin != 0, "@dangerous")
	add(cmd.flags&flagPubSub != 0, "@pubsub")
	add(cmd.flags&flagBlocking != 0, "@blocking")
	add(cmd.group == "connection", "@connection")
	add(cmd.group == "scripting", "@scripting")
	return names
}

// commandInfo are the ten elements by which COMMAND INFO describes a command, those of its subcommands
// nested in the last. Tips are for clients of a cluster, and there are none.
func commandInfo(cmd *command) array {
	keySpecs, subs := set{}, make(array, len(cmd.subs))
	if cmd.keys != (keySpec{}) {
		keySpecs = set{keySpecFields(cmd)}
	}
	for i, sub := range cmd.subs {
		subs[i] = commandInfo(sub)
	}
	tips := set{}
	return array{cmd.fullName(), cmd.arity, statuses(cmd.flags.names()), cmd.keys.first, cmd.keys.last, cmd.keys.step,
		statuses(cmd.categories()), tips, keySpecs, subs}
}

// keySpecFields is where the keys of a command stand, as Redis 7 describes it ("Key specifications"):
// begin_search says where the search begins, find_keys how keys are found from there on. A command that
// writes is described as one that also reads, because every change here compares what the key holds.
func keySpecFields(cmd *command) fields {
	access := []string{"RO", "access"}
	if cmd.flags&flagWrite != 0 {
		access = []string{"RW", "access", "update"}
	}
	// Behind a count: the first argument of the spec counts the keys, which follow it. Else: a range of
	// positions.
	keys := cmd.keys
	begin, kind, find := keys.numkeys, "keynum", fields{"keynumidx", 0, "firstkey", 1, "keystep", 1}
	if keys.numkeys == 0 {
		// COMMAND INFO counts the last key from the name, a key spec from the first key. Negative is
		// from the end in both.
		last := keys.last
		if last >= 0 {
			last -= keys.first
		}
		begin, kind, find = keys.first, "range", fields{"lastkey", last, "keystep", keys.step, "limit", 0}
	}
	return fields{
		"flags", statuses(access),
		"begin_search", fields{"type", "index", "spec", fields{"index", begin}},
		"find_keys", fields{"type", kind, "spec", find},
	}
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

// hintOf writes arguments as redis-cli shows them, for HELP and for the form in errors. It is the
// inverse of syntax (command_syntax.go) but for the kinds of arguments, which people need not see.
func hintOf(args []argDoc, separator string) string {
	hints := make([]string, len(args))
	for i := range args {
		hints[i] = args[i].hint()
	}
	return strings.Join(hints, separator)
}

// hint is one argument in that form: [WAIT ms], key [key ...], NX|XX. What stands in brackets may be
// left out, what stands before three dots may be repeated.
func (arg *argDoc) hint() string {
	text := ""
	switch arg.kind {
	case "pure-token": // its token is all of it, and comes below
	case "oneof":
		text = hintOf(arg.arguments, "|")
	case "block":
		text = hintOf(arg.arguments, " ")
	default:
		text = arg.name
	}
	if arg.multiple {
		text += " [" + text + " ...]"
	}
	text = strings.TrimSpace(arg.token + " " + text)
	if arg.optional {
		text = "[" + text + "]"
	}
	return text
}

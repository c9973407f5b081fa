package proxy

import (
	"strings"

	"redlockd/redlock/resp"
)

func (f commandFlags) names() []string {
	var names []string
	for i, name := range flagNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// categories are the ACL categories that Redis gives to a command with these flags, of this group.
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

// appendCommandInfo appends the ten elements by which COMMAND INFO describes a command.
func appendCommandInfo(out []byte, proto int, cmd *command) []byte {
	first, last, step := cmd.keys.first, cmd.keys.last, cmd.keys.step
	out = resp.AppendArray(out, 10)
	out = resp.AppendBulkString(out, cmd.fullName())
	out = resp.AppendInt(out, int64(cmd.arity))
	out = appendStatusSet(out, proto, cmd.flags.names())
	out = resp.AppendInt(out, int64(first))
	out = resp.AppendInt(out, int64(last))
	out = resp.AppendInt(out, int64(step))
	out = appendStatusSet(out, proto, cmd.categories())
	out = resp.AppendSet(out, proto, 0) // tips for clients
	if cmd.keys == (keySpec{}) {
		out = resp.AppendSet(out, proto, 0)
	} else {
		out = resp.AppendSet(out, proto, 1)
		out = appendKeySpec(out, proto, cmd)
	}
	out = resp.AppendArray(out, len(cmd.subs))
	for _, sub := range cmd.subs {
		out = appendCommandInfo(out, proto, sub)
	}
	return out
}

// appendKeySpec appends where the keys of a command stand, as Redis 7 describes it: where the search begins, and how keys
// are found from there on.
func appendKeySpec(out []byte, proto int, cmd *command) []byte {
	integers := func(pairs ...any) {
		out = resp.AppendMap(out, proto, len(pairs)/2)
		for i := 0; i < len(pairs); i += 2 {
			out = resp.AppendBulkString(out, pairs[i].(string))
			out = resp.AppendInt(out, int64(pairs[i+1].(int)))
		}
	}
	search := func(name, kind string) {
		out = resp.AppendBulkString(out, name)
		out = resp.AppendMap(out, proto, 2)
		out = resp.AppendBulkString(out, "type")
		out = resp.AppendBulkString(out, kind)
		out = resp.AppendBulkString(out, "spec")
	}

	access := []string{"RO", "access"}
	if cmd.flags&flagWrite != 0 {
		access = []string{"RW", "access", "update"}
	}
	out = resp.AppendMap(out, proto, 3)
	out = resp.AppendBulkString(out, "flags")
	out = appendStatusSet(out, proto, access)
	if cmd.keys.numkeys > 0 {
		search("begin_search", "index")
		integers("index", cmd.keys.numkeys)
		search("find_keys", "keynum")
		integers("keynumidx", 0, "firstkey", 1, "keystep", 1)
		return out
	}
	last := cmd.keys.last // counted from the first key, or from the end
	if last >= 0 {
		last -= cmd.keys.first
	}
	search("begin_search", "index")
	integers("index", cmd.keys.first)
	search("find_keys", "range")
	integers("lastkey", last, "keystep", cmd.keys.step, "limit", 0)
	return out
}

// appendCommandDocs appends the map by which COMMAND DOCS describes a command.
func appendCommandDocs(out []byte, proto int, cmd *command) []byte {
	n := 3
	if len(cmd.arguments) > 0 {
		n++
	}
	if len(cmd.subs) > 0 {
		n++
	}
	out = resp.AppendMap(out, proto, n)
	for _, pair := range [][2]string{
		{"summary", cmd.summary}, {"since", cmd.since}, {"group", cmd.group},
	} {
		out = resp.AppendBulkString(out, pair[0])
		out = resp.AppendBulkString(out, pair[1])
	}
	if len(cmd.arguments) > 0 {
		out = resp.AppendBulkString(out, "arguments")
		out = appendArguments(out, proto, cmd.arguments)
	}
	if len(cmd.subs) > 0 {
		out = resp.AppendBulkString(out, "subcommands")
		out = resp.AppendMap(out, proto, len(cmd.subs))
		for _, sub := range cmd.subs {
			out = resp.AppendBulkString(out, sub.fullName())
			out = appendCommandDocs(out, proto, sub)
		}
	}
	return out
}

func appendArguments(out []byte, proto int, args []argDoc) []byte {
	out = resp.AppendArray(out, len(args))
	for i := range args {
		out = appendArgument(out, proto, &args[i])
	}
	return out
}

func appendArgument(out []byte, proto int, arg *argDoc) []byte {
	var flags []string
	if arg.optional {
		flags = append(flags, "optional")
	}
	if arg.multiple {
		flags = append(flags, "multiple")
	}
	n := 2
	for _, present := range []bool{len(arg.arguments) == 0, arg.token != "", len(flags) > 0, len(arg.arguments) > 0} {
		if present {
			n++
		}
	}
	out = resp.AppendMap(out, proto, n)
	out = resp.AppendBulkString(out, "name")
	out = resp.AppendBulkString(out, arg.name)
	out = resp.AppendBulkString(out, "type")
	out = resp.AppendBulkString(out, arg.kind)
	if len(arg.arguments) == 0 {
		out = resp.AppendBulkString(out, "display_text")
		out = resp.AppendBulkString(out, arg.name)
	}
	if arg.token != "" {
		out = resp.AppendBulkString(out, "token")
		out = resp.AppendBulkString(out, arg.token)
	}
	if len(flags) > 0 {
		out = resp.AppendBulkString(out, "flags")
		out = appendStatusSet(out, proto, flags)
	}
	if len(arg.arguments) > 0 {
		out = resp.AppendBulkString(out, "arguments")
		out = appendArguments(out, proto, arg.arguments)
	}
	return out
}

// appendStatusSet appends a set of simple strings, as flags are.
func appendStatusSet(out []byte, proto int, texts []string) []byte {
	out = resp.AppendSet(out, proto, len(texts))
	for _, text := range texts {
		out = resp.AppendStatus(out, text)
	}
	return out
}

// hintOf writes arguments as redis-cli shows them.
func hintOf(args []argDoc, separator string) string {
	hints := make([]string, len(args))
	for i := range args {
		hints[i] = args[i].hint()
	}
	return strings.Join(hints, separator)
}

func (arg *argDoc) hint() string {
	text := ""
	switch arg.kind {
	case "pure-token":
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

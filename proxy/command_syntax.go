package proxy

import (
	"fmt"
	"slices"
	"strings"
)

// argDoc describes one argument of a command. Its fields are those of COMMAND DOCS.
type argDoc struct {
	name string
	// kind is string, integer, key, pattern, unix-time, pure-token, oneof or block.
	kind string
	// token is the keyword before the argument, or the keyword itself (pure-token). "": there is none.
	token string
	// optional arguments may be left out.
	optional bool
	// multiple arguments may be repeated.
	multiple bool
	// arguments are the choices of a oneof, or the parts of a block.
	arguments []argDoc
}

// syntax turns one line, as a manual page shows it, into the arguments of a row:
//
//	resource:key ttl:integer [TOKEN token] [WAIT ms:integer] [FENCE]
//
// A word in capitals is a keyword; the name or choice right behind it is its value. [ ] is optional, <
// | > is a choice, and both may nest. A name is a string, or of the kind behind its colon. What ends in
// ... stands once or more. It panics on a line that it cannot read: the lines stand in the command
// table, and no client can send one.
//
// The result describes arguments, and parseOptions reads those of redlockd's own commands by it. The
// handlers of Redis's commands read what a client sends by themselves, because their errors have words
// of their own.
func syntax(line string) []argDoc {
	p := syntaxParser{words: syntaxWords(line)}
	args := p.list()
	if len(p.words) > 0 {
		panic(fmt.Sprintf("syntax %q: %q is unexpected", line, p.words[0]))
	}
	return args
}

// syntaxWords splits a line into names, keywords and the brackets [ ] < > |.
func syntaxWords(line string) []string {
	for _, bracket := range []string{"[", "]", "<", ">", "|"} {
		line = strings.ReplaceAll(line, bracket, " "+bracket+" ")
	}
	return strings.Fields(line)
}

// syntaxParser reads a line by recursive descent: list, group, block and word each take what they
// understand off words.
//
//	list  = { "[" group "]" | "<" group ">" | word }
//	group = block { "|" block }, and "..." may stand behind its closing bracket
//	block = list
//	word  = name | KEYWORD | KEYWORD name | KEYWORD "<" group ">"
type syntaxParser struct {
	words []string // not read yet
}

// peek returns the next word, or "" at the end.
func (p *syntaxParser) peek() string {
	if len(p.words) == 0 {
		return ""
	}
	return p.words[0]
}

// next takes the next word off, or returns "" at the end.
func (p *syntaxParser) next() string {
	word := p.peek()
	if word != "" {
		p.words = p.words[1:]
	}
	return word
}

// list reads arguments until a bracket closes, a choice goes on, or the line ends.
func (p *syntaxParser) list() []argDoc {
	var args []argDoc
	for {
		switch word := p.peek(); word {
		case "", "]", ">", "|":
			return args
		case "[":
			p.next()
			arg := p.group("]")
			arg.optional = true
			args = append(args, arg)
		case "<":
			p.next()
			args = append(args, p.group(">"))
		default:
			args = append(args, p.word())
		}
	}
}

// group reads what stands between two brackets, the closing one and dots behind it included, and makes
// one argument of it: a oneof if there are several choices.
func (p *syntaxParser) group(end string) argDoc {
	choices := []argDoc{p.block()}
	for p.peek() == "|" {
		p.next()
		choices = append(choices, p.block())
	}
	if got := p.next(); got != end {
		panic(fmt.Sprintf("syntax: %q instead of %q", got, end))
	}
	arg := choices[0]
	if len(choices) > 1 {
		arg = argDoc{name: joinNames(choices), kind: "oneof", arguments: choices}
	}
	if p.peek() == "..." {
		p.next()
		arg.multiple = true
	}
	return arg
}

// block reads a list and makes one argument of it, which must not be empty. A keyword with several
// names behind it becomes the keyword of them all: AUTH username password is one block with the keyword
// AUTH, as Redis describes it.
func (p *syntaxParser) block() argDoc {
	args := p.list()
	switch len(args) {
	case 0:
		panic("syntax: nothing between two brackets")
	case 1:
		return args[0]
	}
	isKeyed := func(arg argDoc) bool { return arg.token != "" }
	if first := args[0]; isKeyed(first) && first.kind != "pure-token" && !slices.ContainsFunc(args[1:], isKeyed) {
		args[0].token = ""
		return argDoc{name: strings.ToLower(first.token), kind: "block", token: first.token, arguments: args}
	}
	return argDoc{name: joinNames(args), kind: "block", arguments: args}
}

// word reads a name, or a keyword with the name or the choice behind it. A keyword with no value is a
// pure-token.
func (p *syntaxParser) word() argDoc {
	word := p.next()
	if !isKeyword(word) {
		return namedArg(word)
	}
	var arg argDoc
	switch next := p.peek(); {
	case next == "<":
		p.next()
		arg = p.group(">")
	case isKeyword(next): // brackets and the end too
		return argDoc{name: strings.ToLower(word), kind: "pure-token", token: word}
	default:
		arg = namedArg(p.next())
	}
	arg.token = word
	return arg
}

// namedArg reads name, name:kind, name... and name:kind... The kinds are those of COMMAND DOCS that a
// row here needs.
func namedArg(word string) argDoc {
	word, multiple := strings.CutSuffix(word, "...")
	name, kind, ok := strings.Cut(word, ":")
	switch {
	case !ok:
		kind = "string"
	case !slices.Contains([]string{"integer", "key", "pattern", "unix-time"}, kind):
		panic(fmt.Sprintf("syntax: redis-cli knows no kind %q", kind))
	}
	return argDoc{name: name, kind: kind, multiple: multiple}
}

// isKeyword is true for a word in capitals, and for what is no word: brackets, dots and the end of the
// line.
func isKeyword(word string) bool { return word == strings.ToUpper(word) }

// joinNames names a group after its parts: nx_xx.
func joinNames(args []argDoc) string {
	names := make([]string, len(args))
	for i, arg := range args {
		names[i] = arg.name
	}
	return strings.Join(names, "_")
}

// parseOptions reads the options of one of redlockd's own commands as its arguments have them: each
// once, in any order. It calls set for each. An option that comes twice is refused, because one of the
// two is a mistake and nobody knows which.
func parseOptions(command string, arguments []argDoc, args [][]byte, set func(option string, value []byte) error) error {
	var seen uint64 // bits
	for len(args) > 0 {
		i := 0
		for i < len(arguments) && !(arguments[i].optional && equalFold(args[0], arguments[i].token)) {
			i++
		}
		if i == len(arguments) {
			return replyError("ERR syntax error: '" + clipped(args[0], 128) + "' is no option of " + strings.ToUpper(command) + "; " + optionsHint(arguments) + " are")
		}
		n := 2
		if arguments[i].kind == "pure-token" {
			n = 1
		}
		switch {
		case seen&(1<<i) != 0:
			return replyError("ERR syntax error: " + clipped(args[0], 32) + " is given twice")
		case len(args) < n:
			return replyError("ERR syntax error: " + clipped(args[0], 32) + " lacks its value")
		}
		if refusal := set(arguments[i].token, args[n-1]); refusal != nil {
			return refusal
		}
		seen |= 1 << i
		args = args[n:]
	}
	return nil
}

// optionsHint lists the options among arguments: A a, B and C c.
func optionsHint(arguments []argDoc) string {
	var hints []string
	for i := range arguments {
		if arguments[i].optional {
			hints = append(hints, strings.Trim(arguments[i].hint(), "[]"))
		}
	}
	last := len(hints) - 1
	return strings.Join(hints[:last], ", ") + " and " + hints[last]
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

// argumentsMax stands for any number of arguments, and is more than any command has.
const argumentsMax = 1 << 20

// count is how many arguments of a command this one takes.
func (arg *argDoc) count() (least, most int) {
	switch arg.kind {
	case "pure-token":
	case "oneof":
		least = argumentsMax
		for i := range arg.arguments {
			l, m := arg.arguments[i].count()
			least, most = min(least, l), max(most, m)
		}
	case "block":
		for i := range arg.arguments {
			l, m := arg.arguments[i].count()
			least, most = least+l, most+m
		}
	default:
		least, most = 1, 1
	}
	if arg.token != "" {
		least, most = least+1, most+1
	}
	if arg.optional {
		least = 0
	}
	if arg.multiple {
		most = argumentsMax
	}
	return least, most
}

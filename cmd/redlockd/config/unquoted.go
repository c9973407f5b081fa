package config

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// What a line that is no TOML was probably meant to be: that without quotes around a text, or with those
// of a word processor, without a comma, or with a colon for the equals sign.

var (
	// assignment matches what stands before a value. The line may as well be one of a list.
	assignment = regexp.MustCompile(`^\s*([\w.-]+)\s*(=|:\s)\s*`)
	// token matches a part of a value: a text in quotes, a comment, space, a sign, the key of a table, or
	// a bare word.
	token = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'[^']*'|#.*|\s+|[\[\]{},]|[\w.-]+\s*=|[^\s\[\]{},=#"']+`)
	// plainQuotes has those of TOML for those of word processors.
	plainQuotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "‘", `'`, "’", `'`)
	// switches are words that are taken for true and false elsewhere.
	switches = map[string]string{"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
)

// lineMax bounds the line that an error shows.
const lineMax = 200

// meantLine is the line that was probably meant by the one at start, on which the document stops being
// TOML; "": that is not known, or a password may stand in it.
func (c *Config) meantLine(document string, start int, line string) string {
	group := ""
	for before := range strings.Lines(document[:start]) {
		if h := heading.FindStringSubmatch(before); h != nil {
			group = h[2]
		}
	}
	if len(line) > lineMax || printable(line) != line || strings.ContainsAny(line, "@") || strings.HasPrefix(group, "auth") || strings.Contains(line, "users") {
		return ""
	}
	meant, value := "", plainQuotes.Replace(line)
	isSwitch, isList := false, false
	if a := assignment.FindStringSubmatch(value); a != nil {
		key := a[1]
		if join(group, key) == "master" {
			key = "masters"
		}
		meant, value = key+" = ", value[len(a[0]):]
		if s := c.Find(join(group, key)); s != nil {
			switch s.place.(type) {
			case *bool, *unless:
				isSwitch = true
			case *masterList:
				isList = true
			}
		}
	}
	afterValue, depth := false, 0
	tokens := token.FindAllString(value, -1)
	if strings.Join(tokens, "") != value {
		return "" // a text in quotes has no end
	}
	for _, t := range tokens {
		switch {
		case t == "[" && depth > 0:
			return "" // an address of IPv6, in brackets
		case slices.Contains([]string{"[", "{", ","}, t) || t[len(t)-1] == '=' || strings.TrimSpace(t) == "":
			depth += strings.Count(t, "[")
			afterValue = afterValue && strings.TrimSpace(t) == ""
		case t == "]" || t == "}" || t[0] == '#':
			afterValue = true
		default:
			if afterValue && depth > 0 {
				meant = strings.TrimRight(meant, " \t") + ", "
			}
			afterValue = true
			if s := switches[strings.ToLower(t)]; isSwitch && s != "" {
				t = s
			} else if t[0] != '"' && t[0] != '\'' && !isTOML("v = "+t) {
				t = TOML(t)
				if isList && depth == 0 {
					t = "[" + t + "]"
				}
			}
		}
		meant += t
	}
	_, err := toml.Decode(document[:start]+meant+document[start+len(line):], new(map[string]any))
	if parse, ok := errors.AsType[toml.ParseError](err); ok && parse.Position.Start > start+len(meant) {
		err = nil // the next fault is on another line
	}
	if err != nil {
		return ""
	}
	return meant
}

func isTOML(text string) bool {
	_, err := toml.Decode(text, new(map[string]any))
	return err == nil
}

package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// value reads and prints a setting whose place is neither a word nor a list of strings. After an error
// it is unchanged.
type value interface {
	// setText takes the text of a flag or an environment variable.
	setText(text string) error
	// setTOML takes what the decoder found: string, int64, float64, bool, time.Time, []any,
	// []map[string]any or map[string]any. It reports a fault of a part as *partError.
	setTOML(v any) error
	// String is the value as config.toml writes it.
	String() string
}

// Types of places that are read in a way of their own.
type (
	// oneOrMore is a list of strings that can be written as a single string if there is one.
	oneOrMore []string
	// patterns is a list of patterns of names. true stands for the pattern that matches every name, and
	// false for none.
	patterns []string
	// unless is a switch for an option with the opposite meaning of the setting.
	unless bool
)

// partError is a fault of a part of a value, masters[1].db for example.
type partError struct {
	part string // "[1].db"
	err  error
}

func (e *partError) Error() string { return e.part + ": " + e.err.Error() }

// setText takes the text of a flag or an environment variable. In a list, commas stand between the
// members.
func (s *Setting) setText(text string) error {
	var v any = text
	var err error
	kind := ""
	switch place := s.place.(type) {
	case value:
		return place.setText(text)
	case *int:
		v, err = strconv.ParseInt(text, 10, 0)
		kind = "no whole number"
	case *float64:
		v, err = strconv.ParseFloat(text, 64)
		kind = "no number"
	case *bool, *unless:
		v, err = strconv.ParseBool(text)
		kind = "neither true nor false"
	case *patterns:
		if all, isBool := strconv.ParseBool(text); isBool == nil {
			return s.setTOML(all)
		}
		v = splitList(text)
	case *[]string, *oneOrMore:
		v = splitList(text)
	}
	if err != nil {
		return fmt.Errorf("%q is %s", text, kind)
	}
	return s.setTOML(v)
}

func splitList(text string) (members []any) {
	for member := range strings.SplitSeq(text, ",") {
		members = append(members, strings.TrimSpace(member))
	}
	return members
}

// setTOML takes what the decoder found. After an error the value is unchanged. No error shows a string,
// because it can be a password.
func (s *Setting) setTOML(v any) error {
	var to any
	var err error
	if port, isInt := v.(int64); isInt && s.Key() == "listen" {
		return fmt.Errorf("an address is a string (in quotes), not a bare number: listen = \"127.0.0.1:%d\" for this machine, listen = \":%[1]d\" for others too", port)
	}
	switch place := s.place.(type) {
	case value:
		return place.setTOML(v)
	case *string:
		to, err = need[string](v, "a string (in quotes)")
	case *int:
		to, err = need[int64](v, "a whole number")
	case *float64:
		if n, isInt := v.(int64); isInt {
			v = float64(n)
		}
		to, err = need[float64](v, "a number")
	case *bool:
		to, err = need[bool](v, "true or false, without quotes,")
	case *unless:
		var on bool
		on, err = need[bool](v, "true or false, without quotes,")
		to = unless(!on)
	case **bool: // of a table; nil where nobody has set it
		var on bool
		on, err = need[bool](v, "true or false, without quotes,")
		to = &on
	case *time.Duration:
		text, isText := v.(string)
		if !isText {
			return fmt.Errorf("a duration is a string with a unit, such as \"50ms\", \"30s\" or \"1h30m\", not %s", kindOf(v))
		}
		to, err = ParseDuration(text)
	case *oneOrMore:
		if one, isOne := v.(string); isOne {
			v = []any{one}
		} else if _, isList := v.([]any); !isList {
			return fmt.Errorf("a string (in quotes) or a list of strings is needed, not %s", kindOf(v))
		}
		to, err = stringsOf(v)
	case *patterns:
		if all, isBool := v.(bool); isBool {
			v = []any{}
			if all {
				v = []any{"*"}
			}
		} else if _, isList := v.([]any); !isList {
			return fmt.Errorf("true, false or a list of patterns is needed, not %s", kindOf(v))
		}
		to, err = stringsOf(v)
	case *[]string:
		to, err = stringsOf(v)
	}
	word, _ := to.(string)
	switch {
	case err != nil:
		return err
	case s.Words != nil && !slices.Contains(s.Words, word):
		return fmt.Errorf("%q is none of %s%s", word, strings.Join(s.Words, ", "), DidYouMean(word, s.Words))
	case s.notZero && (to == any(int64(0)) || to == any(0.0) || to == any(time.Duration(0))):
		return errors.New("zero is not possible here")
	}
	place := reflect.ValueOf(s.place).Elem()
	place.Set(reflect.ValueOf(to).Convert(place.Type()))
	return nil
}

// unhidden is the value as config.toml writes it, a secret too; of a table, "" where it is not set.
func (s *Setting) unhidden() string {
	v := reflect.ValueOf(s.place).Elem().Interface()
	switch place := s.place.(type) {
	case value:
		return place.String()
	case *unless:
		v = !*place
	case **bool:
		if *place == nil {
			return ""
		}
	case *time.Duration:
		v = FormatDuration(*place)
	case *oneOrMore:
		if len(*place) == 1 {
			v = (*place)[0]
		}
	case *patterns:
		switch {
		case len(*place) == 0:
			v = false
		case slices.Equal(*place, patterns{"*"}):
			v = true
		}
	}
	return TOML(v)
}

// TOML is a value as TOML writes it on one line.
func TOML(v any) string {
	text, _ := toml.Marshal(map[string]any{"v": v}) // leaves a nil list out
	line := strings.TrimSuffix(strings.TrimPrefix(string(text), "v = "), "\n")
	return cmp.Or(strings.ToValidUTF8(line, "\uFFFD"), "[]")
}

func ParseDuration(text string) (time.Duration, error) {
	v, err := time.ParseDuration(text)
	if err != nil || text == "0" { // ParseDuration lets zero pass without a unit
		return 0, fmt.Errorf("%q is no duration: a number with a unit is needed, such as 50ms, 30s or 1h30m", text)
	}
	return v, nil
}

// FormatDuration prints 1m, where Duration.String prints 1m0s.
func FormatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// stringsOf is a list of strings of which none is empty.
func stringsOf(v any) ([]string, error) {
	all := []string{}
	err := eachMember(v, "one string for each", func(member any) error {
		text, err := need[string](member, "a string (in quotes)")
		if err == nil && text == "" {
			err = errors.New("it is empty")
		}
		all = append(all, text)
		return err
	})
	return all, err
}

// setTables reads a list of tables, each of which is a T. shape is how the list is written, and needs
// what a table has, at least.
func setTables[T any](place *[]T, v any, settings func(*T) []*Setting, shape, needs string) error {
	var all []T
	err := eachMember(v, shape, func(member any) error {
		table, ok := member.(map[string]any)
		if !ok {
			return fmt.Errorf("a table with %s is needed, not %s", needs, kindOf(member))
		}
		var one T
		err := setFields(settings(&one), table)
		all = append(all, one)
		return err
	})
	if err == nil {
		*place = all
	}
	return err
}

func tablesText[T any](tables []T, settings func(*T) []*Setting) string {
	var all []string
	for i := range tables {
		all = append(all, tableText(&tables[i], settings))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// tableText is a table on one line: the fields that are not as in an empty one.
func tableText[T any](table *T, settings func(*T) []*Setting) string {
	unset := settings(new(T))
	return inlineTable(settings(table), func(i int, s *Setting) bool { return s.Text() != unset[i].Text() })
}

// eachMember calls do for each member of a decoded list, and adds the index to its errors.
func eachMember(v any, shape string, do func(member any) error) error {
	var members []any
	switch v := v.(type) {
	case []any:
		members = v
	case []map[string]any:
		for _, m := range v {
			members = append(members, m)
		}
	default:
		return fmt.Errorf("a list is needed, not %s: %s", kindOf(v), shape)
	}
	var errs []error
	for i, member := range members {
		errs = append(errs, inPart(fmt.Sprintf("[%d]", i), do(member))...)
	}
	return errors.Join(errs...)
}

// inPart adds the name of the part to the errors of a part of a value.
func inPart(part string, err error) (errs []error) {
	for _, err := range Flatten(err) {
		at := part
		if inner, ok := errors.AsType[*partError](err); ok {
			at, err = part+inner.part, inner.err
		}
		errs = append(errs, &partError{at, err})
	}
	return errs
}

// need returns v as a T, or an error with the kind that is needed and the kind of v. It does not show
// v, which can be a password.
func need[T any](v any, kind string) (T, error) {
	t, ok := v.(T)
	if !ok {
		return t, fmt.Errorf("%s is needed, not %s", kind, kindOf(v))
	}
	return t, nil
}

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64:
		return "a bare number"
	case float64:
		return "a number with a decimal point"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "a list of tables"
	default:
		return "a date"
	}
}

package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value reads and prints one setting. After an error it is unchanged.
type value interface {
	// setText takes the text of a flag or an environment variable.
	setText(text string) error
	// setTOML takes what the decoder found: string, int64, float64, bool, time.Time, []any, []map[string]any or
	// map[string]any. It reports a fault of a part as *partError.
	setTOML(v any) error
	// String is the value as config.toml writes it.
	String() string
}

// partError is a fault of a part of a value, masters[1].db for example.
type partError struct {
	part string // "[1].db"
	err  error
}

func (e *partError) Error() string { return e.part + ": " + e.err.Error() }

// scalar is a value of one word. No error of its functions may show the text of a string, because it can be a password.
type scalar[T comparable] struct {
	place    *T
	fromText func(string) (T, error)
	fromTOML func(any) (T, error)
	format   func(T) string
	check    func(T) error // nil: anything goes
	words    []T           // the values that are possible; nil: there are too many to list
}

func (s *scalar[T]) set(v T, err error) error {
	if err == nil && s.check != nil {
		err = s.check(v)
	}
	if err == nil {
		*s.place = v
	}
	return err
}

// at is the address of the value, for settingOf.
func (s *scalar[T]) at() any { return s.place }

func (s *scalar[T]) setText(text string) error { return s.set(s.fromText(text)) }
func (s *scalar[T]) setTOML(v any) error       { return s.set(s.fromTOML(v)) }
func (s *scalar[T]) String() string            { return s.format(*s.place) }

// refuseZero makes zero an error if the default is something else. The packages below take zero for "the default", and an operator
// who writes 0 means something else.
func (s *scalar[T]) refuseZero() {
	var zero T
	_, isText := any(zero).(string)
	_, isSwitch := any(zero).(bool)
	if isText || isSwitch || *s.place == zero {
		return
	}
	s.check = func(v T) error {
		if v == zero {
			return errors.New("zero is not possible here")
		}
		return nil
	}
}

func stringValue(place *string) value {
	return &scalar[string]{place: place,
		fromText: func(text string) (string, error) { return text, nil },
		fromTOML: func(v any) (string, error) { return need[string](v, "a string (in quotes)") },
		format:   QuoteTOML,
	}
}

// choice is a string that must be one of a few words.
func choice(place *string, words ...string) value {
	s := stringValue(place).(*scalar[string])
	s.words = words
	s.check = func(v string) error {
		if !slices.Contains(words, v) {
			return fmt.Errorf("%q is none of %s%s", v, strings.Join(words, ", "), DidYouMean(v, words))
		}
		return nil
	}
	return s
}

// parsed makes the value of a setting whose text is read by parse, and in TOML is a T. fault is what a
// text is that parse refuses, kind what is needed.
func parsed[T comparable](place *T, parse func(string) (T, error), fault, kind string, format func(T) string) *scalar[T] {
	return &scalar[T]{place: place, format: format,
		fromText: func(text string) (T, error) {
			v, err := parse(text)
			if err != nil {
				err = fmt.Errorf("%q is %s", text, fault)
			}
			return v, err
		},
		fromTOML: func(v any) (T, error) { return need[T](v, kind) },
	}
}

func intValue(place *int) value {
	s := parsed(place, strconv.Atoi, "no whole number", "a whole number", strconv.Itoa)
	s.fromTOML = func(v any) (int, error) {
		n, err := need[int64](v, "a whole number")
		return int(n), err
	}
	return s
}

func floatValue(place *float64) value {
	parse := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	s := parsed(place, parse, "no number", "a number", func(v float64) string {
		text := strconv.FormatFloat(v, 'f', -1, 64)
		if !strings.ContainsAny(text, ".IN") { // TOML tells 1 from 1.0; Inf and NaN stay as they are
			text += ".0"
		}
		return text
	})
	fromTOML := s.fromTOML
	s.fromTOML = func(v any) (float64, error) {
		if n, ok := v.(int64); ok {
			return float64(n), nil
		}
		return fromTOML(v)
	}
	return s
}

func boolValue(place *bool) *scalar[bool] {
	return parsed(place, strconv.ParseBool, "neither true nor false", "true or false", strconv.FormatBool)
}

// optionalBoolValue is boolValue for an option of a table that is nil where nobody has set it. Its word
// is "" then.
func optionalBoolValue(place **bool) value {
	return &scalar[*bool]{place: place,
		fromTOML: func(v any) (*bool, error) {
			b, err := need[bool](v, "true or false")
			return &b, err
		},
		format: func(v *bool) string {
			if v == nil {
				return ""
			}
			return strconv.FormatBool(*v)
		},
	}
}

// unlessValue is boolValue for an option with the opposite meaning of the setting.
func unlessValue(place *bool) value {
	s := boolValue(place)
	fromText, fromTOML := s.fromText, s.fromTOML
	s.fromText = func(text string) (bool, error) { v, err := fromText(text); return !v, err }
	s.fromTOML = func(v any) (bool, error) { b, err := fromTOML(v); return !b, err }
	s.format = func(v bool) string { return strconv.FormatBool(!v) }
	return s
}

func durationValue(place *time.Duration) value {
	return &scalar[time.Duration]{place: place,
		fromText: ParseDuration,
		fromTOML: func(v any) (time.Duration, error) {
			text, ok := v.(string)
			if !ok {
				return 0, fmt.Errorf("a duration is a string with a unit, such as \"50ms\", \"30s\" or \"1h30m\", not %s", kindOf(v))
			}
			return ParseDuration(text)
		},
		format: func(v time.Duration) string { return QuoteTOML(FormatDuration(v)) },
	}
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

// stringList is a list of strings. In a variable, commas stand between them.
type stringList struct{ place *[]string }

func (l *stringList) at() any { return l.place }

func (l *stringList) setText(text string) error {
	var members []any
	for member := range strings.SplitSeq(text, ",") {
		members = append(members, strings.TrimSpace(member))
	}
	return l.setTOML(members)
}

func (l *stringList) setTOML(v any) error {
	all := []string{}
	err := eachMember(v, "one string for each", func(member any) error {
		text, err := need[string](member, "a string (in quotes)")
		if err == nil && text == "" {
			err = errors.New("it is empty")
		}
		all = append(all, text)
		return err
	})
	if err == nil {
		*l.place = all
	}
	return err
}

func (l *stringList) String() string { return ListTOML(*l.place) }

// oneOrMore is a list of strings that can be written as a single string if there is one.
type oneOrMore struct{ stringList }

func (o *oneOrMore) setTOML(v any) error {
	switch v := v.(type) {
	case string:
		return o.stringList.setTOML([]any{v})
	case []any:
		return o.stringList.setTOML(v)
	}
	return fmt.Errorf("a string (in quotes) or a list of strings is needed, not %s", kindOf(v))
}

func (o *oneOrMore) String() string {
	if all := *o.place; len(all) == 1 {
		return QuoteTOML(all[0])
	}
	return o.stringList.String()
}

// patterns is a list of patterns of names. true stands for the pattern that matches every name, and false for none.
type patterns struct{ stringList }

func (p *patterns) setText(text string) error {
	if all, err := strconv.ParseBool(text); err == nil {
		return p.setTOML(all)
	}
	return p.stringList.setText(text)
}

func (p *patterns) setTOML(v any) error {
	switch v := v.(type) {
	case bool:
		*p.place = nil
		if v {
			*p.place = []string{"*"}
		}
		return nil
	case []any:
		return p.stringList.setTOML(v)
	}
	return fmt.Errorf("true, false or a list of patterns is needed, not %s", kindOf(v))
}

func (p *patterns) String() string {
	switch all := *p.place; {
	case len(all) == 0:
		return "false"
	case slices.Equal(all, []string{"*"}):
		return "true"
	}
	return p.stringList.String()
}

// tables is a list of tables, each of which is a T. A variable has a form of its own.
type tables[T any] struct {
	place    *[]T
	settings func(*T) []*Setting
	shape    string // how the list is written
	needs    string // what a table has, at least
}

// at is the address of the value, for settingOf.
func (l *tables[T]) at() any { return l.place }

func (l *tables[T]) setTOML(v any) error {
	var all []T
	err := eachMember(v, l.shape, func(member any) error {
		table, ok := member.(map[string]any)
		if !ok {
			return fmt.Errorf("a table with %s is needed, not %s", l.needs, kindOf(member))
		}
		var one T
		err := setFields(l.settings(&one), table)
		all = append(all, one)
		return err
	})
	if err == nil {
		*l.place = all
	}
	return err
}

func (l *tables[T]) String() string {
	var all []string
	for i := range *l.place {
		all = append(all, tableText(l.settings, &(*l.place)[i]))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// tableText is a table on one line: the fields that are not as in an empty one.
func tableText[T any](settings func(*T) []*Setting, t *T) string {
	unset := settings(new(T))
	return inlineTable(settings(t), func(i int, s *Setting) bool { return s.Text() != unset[i].Text() })
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

// need returns v as a T, or an error with the kind that is needed and the kind of v. It does not show v, which can be a password.
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

// ListTOML writes a list of strings.
func ListTOML(all []string) string {
	quoted := make([]string, len(all))
	for i, text := range all {
		quoted[i] = QuoteTOML(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// QuoteTOML writes a basic string of TOML.
func QuoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, "\\u%04X", r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

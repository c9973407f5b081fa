package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/BurntSushi/toml"
)

// fileError is a fault of the configuration file and its line; 0: the line is not known.
type fileError struct {
	path string
	line int
	text string
}

func (e *fileError) Error() string {
	if e.line == 0 {
		return e.path + ": " + e.text
	}
	return fmt.Sprintf("%s:%d: %s", e.path, e.line, e.text)
}

// readFile takes the settings that the file at path names. It reports every fault that it finds, not
// only the first.
func (c *Config) readFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return unreadable("the configuration file "+path, err)
	}
	if err := c.readText(path, string(text)); err != nil {
		return err
	}
	if c.secretInFile() {
		if warning := exposedSecret(path, "a password"); warning != "" {
			c.warn(warning + ", or name a password_file")
		}
	}
	return nil
}

// unreadable says what to do about a file that cannot be read.
func unreadable(file string, err error) error {
	if pathErr, ok := errors.AsType[*os.PathError](err); ok {
		err = pathErr.Err
	}
	fix := "correct its path"
	if errors.Is(err, fs.ErrPermission) {
		fix = "run redlockd as a user who may read it, or name another file"
	}
	return fmt.Errorf("%s cannot be read: %w: %s", file, err, fix)
}

// readText takes the settings from the text of the file; path is for the messages.
func (c *Config) readText(path, text string) error {
	var document map[string]any
	if _, err := toml.Decode(text, &document); err != nil {
		return c.syntaxError(path, text, err)
	}
	c.file, c.lines = path, keyLines(text)
	faults := c.readTable("", document)
	slices.SortStableFunc(faults, func(a, b error) int { return cmp.Compare(a.(*fileError).line, b.(*fileError).line) })
	return errors.Join(faults...)
}

// syntaxError says on which line the library stopped, and why, or what the line was probably meant to
// be. It shows nothing of a line in which a password may stand.
func (c *Config) syntaxError(path, text string, err error) error {
	parse, ok := errors.AsType[toml.ParseError](err)
	if !ok {
		return &fileError{path, 0, err.Error()}
	}
	// The library's line number is one too high for some faults at the end of a line; its offset is
	// right.
	before := text[:min(max(parse.Position.Start, 0), len(text))]
	start := strings.LastIndexByte(before, '\n') + 1
	source, _, _ := strings.Cut(text[start:], "\n")
	source = strings.TrimSuffix(source, "\r")
	message := parse.Message
	// The library's message quotes what it read. LastKey is for a string over several lines.
	if secretWord.MatchString(source) || secretWord.MatchString(parse.LastKey) {
		message = "a password cannot be read: write it in quotes, \\ and \" in it as \\\\ and \\\", and only once"
	} else if meant := c.meantLine(text, start, source); meant != "" {
		message = fmt.Sprintf("%s cannot be read: write %s", strings.TrimSpace(source), strings.TrimSpace(meant))
	}
	return &fileError{path, strings.Count(text[:start], "\n") + 1, printable(message)}
}

// secretWord is in every line in which a password may stand.
var secretWord = regexp.MustCompile(`(?i)password|rediss?://`)

// printable replaces control characters, which could change a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// fault is a *fileError on the line of a name.
func (c *Config) fault(name, format string, args ...any) error {
	return &fileError{c.file, lineOf(c.lines, name), printable(fmt.Sprintf(format, args...))}
}

// readTable sets the settings of one group. The empty group is the whole document.
func (c *Config) readTable(group string, table map[string]any) (faults []error) {
	for key, v := range table {
		inner, isTable := v.(map[string]any)
		switch s := c.Find(join(group, key)); {
		case s != nil:
			faults = append(faults, c.readSetting(s, v)...)
		case group != "" || !slices.Contains(c.groups(), key):
			faults = append(faults, c.unknown(group, key, isTable))
		case isTable:
			faults = append(faults, c.readTable(key, inner)...)
		default:
			faults = append(faults, c.notAGroup(key, v))
		}
	}
	return faults
}

func (c *Config) readSetting(s *Setting, v any) (faults []error) {
	err := s.setTOML(v)
	if err == nil {
		s.source = source{fromFile, fmt.Sprintf("%s:%d", c.file, lineOf(c.lines, s.Name))}
	}
	for _, e := range Flatten(err) {
		name := s.Name
		if part, ok := errors.AsType[*partError](e); ok {
			name, e = name+part.part, part.err
		}
		faults = append(faults, c.fault(name, "%s: %v", name, e))
	}
	return faults
}

// groups are the names of all groups.
func (c *Config) groups() []string {
	var all []string
	for _, s := range c.Settings {
		if g := s.Group(); g != "" && !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	return all
}

func (c *Config) notAGroup(key string, v any) error {
	if key == "master" {
		if _, ok := v.([]map[string]any); ok {
			return c.fault(key, "[[master]] is no list: write one [[masters]] for each master, or masters = [\"host:port\", …]; [master] holds what all of them share")
		}
		return c.fault(key, "master is a group, which holds what all masters share: write masters = %s", meantMasters(v))
	}
	return c.fault(key, "%s is a group: write [%s], and its settings below", key, key)
}

// removed are the settings of earlier versions, and what holds instead.
var removed = map[string]string{
	"server.command_timeout":     "a command must be complete within 30s",
	"server.handshake_timeout":   "a TLS handshake has 5s",
	"server.write_timeout":       "a client must read a waiting reply within 10s",
	"server.pipeline_max":        "2048 commands of one connection can be unanswered, and the next ones wait in the network",
	"server.output_max":          "1 MiB of replies can wait for one client; output_total bounds those of all",
	"server.input_total":         "commands that have come in part count in output_total",
	"server.args_max":            "a command can have 1024 arguments",
	"server.bulk_max":            "an argument can have 512 KiB",
	"server.command_max":         "a command can have 1 MiB",
	"locks.max_handovers":        "locks.handover_time (a time, 250ms by default) has taken its place",
	"locks.retry_delay_min":      "a waiter pauses for 20ms to 80ms between two attempts",
	"locks.retry_delay_max":      "a waiter pauses for 20ms to 80ms between two attempts",
	"fence.marks":                "a master remembers the last fences of 100000 resources, and a floor for all others",
	"master.reconnect_delay_max": "redlockd tries to reach a master at least once per second",
	"master.heartbeat":           "redlockd checks each master every 250ms",
	"master.queue_max":           "16384 acquisitions can wait for one master",
}

// errRemoved says what became of a setting that is no setting any more; nil: it never was one.
func errRemoved(name string) error {
	if instead := removed[name]; instead != "" {
		return fmt.Errorf("%s is no setting any more: %s; delete it", name, instead)
	}
	return nil
}

// unknown is the fault of a key that is no setting, with the setting that was probably meant.
func (c *Config) unknown(group, key string, isTable bool) error {
	name := join(group, key)
	if err := errRemoved(name); err != nil {
		return c.fault(name, "%v", err)
	}
	if isTable && group == "" {
		return c.fault(key, "unknown group [%s]%s", key, DidYouMean(key, c.groups()))
	}
	var here, all []string
	for _, s := range c.Settings {
		switch {
		case s.Key() == key && s.Group() == "":
			return c.fault(name, "unknown setting %s: %s stands above the first [group]", name, key)
		case s.Key() == key:
			return c.fault(name, "unknown setting %s: %s belongs to [%s]", name, key, s.Group())
		case s.Group() == group:
			here = append(here, s.Key())
		}
		all = append(all, s.Key())
	}
	if group == "" {
		here = all // outside of its group, any setting may have been meant
	}
	return c.fault(name, "unknown setting %s%s", name, DidYouMean(key, here))
}

// secretInFile reports whether the file holds a password. The name of a password file does not count.
func (c *Config) secretInFile() bool {
	for _, s := range c.Settings {
		if s.source.kind == fromFile && strings.Contains(s.Text(), hidden) {
			return true
		}
	}
	return false
}

// heading matches a line with [group] or [[list]], keyed one with a setting.
var (
	heading = regexp.MustCompile(`^\s*(\[\[?)\s*([\w.-]+)\s*\]`)
	keyed   = regexp.MustCompile(`^\s*"?([\w.-]+)"?\s*=`)
)

// keyLines finds the line on which each key of a TOML document stands, by its full name:
// "locks.max_ttl", "masters[1].addr" for tables in lists. The toml library tells positions of syntax
// errors only. Keys that do not begin a line are not found: lineOf then gives the line of what they
// stand in.
func keyLines(document string) map[string]int {
	lines, members, group := make(map[string]int), make(map[string]int), ""
	for i, line := range strings.Split(document, "\n") {
		name := ""
		if h := heading.FindStringSubmatch(line); h != nil {
			name, group = h[2], h[2]
			if h[1] == "[[" {
				group = fmt.Sprintf("%s[%d]", name, members[name])
				members[name]++
				lines[group] = i + 1
			}
		} else if key := keyed.FindStringSubmatch(line); key != nil {
			name = join(group, key[1])
		}
		if name != "" && lines[name] == 0 {
			lines[name] = i + 1
		}
	}
	return lines
}

func join(group, key string) string {
	if group == "" {
		return key
	}
	return group + "." + key
}

// lineOf is the line of a name, or of the nearest thing around it whose line is known; 0 when there is
// none.
func lineOf(lines map[string]int, name string) int {
	for name != "" {
		if line := lines[name]; line > 0 {
			return line
		}
		name = name[:max(strings.LastIndexAny(name, ".["), 0)]
	}
	return 0
}

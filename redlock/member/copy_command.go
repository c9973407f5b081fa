package member

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
)

// copyEntryOf reads one key of lua.CopyRead.
func copyEntryOf(left, value any) (e CopyEntry, err error) {
	ms, ok := left.(int64)
	if !ok {
		return e, conn.ProtocolErrorf("%v for the time that a key lives", left)
	}
	e.Left = ms
	switch value := value.(type) {
	case string:
		e.Kind, e.Value = CopyString, value
	case int64:
		if value == -1 {
			e.Kind = CopyForeign
		}
	case []any:
		e.Kind, e.Readers = CopyReaders, make(map[string]int64)
		for i := 0; i+1 < len(value); i += 2 {
			member, _ := value[i].(string)
			text, _ := value[i+1].(string)
			ends, err := strconv.ParseInt(text, 10, 64)
			if err != nil || member == "" {
				return e, conn.ProtocolErrorf("%v for a reader", value[i:i+2])
			}
			if member != readersEnd && ends > 0 {
				e.Readers[member] = ends
			}
		}
	default:
		return e, conn.ProtocolErrorf("%v for a key", value)
	}
	return e, nil
}

// readersEnd is the member of a set of readers that tells where the key ends.
const readersEnd = "redlockd:end"

// CopyEntriesOf reads the reply to lua.CopyRead.
func CopyEntriesOf(cmd *redis.Cmd, keys int) ([]CopyEntry, error) {
	reply, err := cmd.Slice()
	if err != nil {
		return nil, err
	}
	if len(reply) != 2*keys {
		return nil, conn.ProtocolErrorf("%d replies for %d keys", len(reply), keys)
	}
	entries := make([]CopyEntry, keys)
	for i := range entries {
		if entries[i], err = copyEntryOf(reply[2*i], reply[2*i+1]); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// giveArgs are the ARGV of lua.CopyGive for one key. learner is what it has shown; nil: it was not asked, and is taken to have nothing.
func (o *CopyOrder) giveArgs(learner *CopyEntry) []any {
	kind, had := "-", ""
	switch {
	case o.Whatever:
		kind = "*"
	case learner == nil || learner.Kind == copyNothing:
	case learner.Kind == CopyString:
		kind, had = "=", learner.Value
	default:
		kind = "*"
	}
	if o.Do == CopyRemove {
		return []any{kind, had, "", 0}
	}
	return []any{kind, had, o.Value, o.Left}
}

// ReadersArgs are the ARGV of lua.CopyReaders behind the first.
func (o *CopyOrder) ReadersArgs() []any {
	args := []any{2 * len(o.Readers)}
	for _, member := range slices.Sorted(maps.Keys(o.Readers)) {
		args = append(args, member, o.Readers[member])
	}
	for _, member := range o.Gone {
		args = append(args, member)
	}
	return args
}

// CopyNote is who copies to a learner, and how far that is.
type CopyNote struct {
	By    string
	At    int64 // by the learner's clock, in milliseconds
	Given int64
	Done  int // percent
	From  string
}

func (n CopyNote) Text() string { return fmt.Sprintf("%d %d %s", n.Given, n.Done, n.From) }

// ParseCopyNote reads the field copy.
func ParseCopyNote(text string) (n CopyNote, ok bool) {
	parts := strings.SplitN(text, " ", 5)
	if len(parts) < 5 || !IsHex(parts[0], NonceLen) {
		return n, false
	}
	var counts [3]int64
	for i := range counts {
		if counts[i], ok = parseCount(parts[i+1]); !ok {
			return n, false
		}
	}
	n = CopyNote{By: parts[0], At: counts[0], Given: counts[1], Done: int(counts[2]), From: conn.Sanitize(parts[4])}
	return n, counts[2] <= 100
}

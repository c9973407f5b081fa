package copying

import (
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
)

// copyEntryOf reads one key of lua.CopyRead.
func copyEntryOf(left, value any) (e copyEntry, err error) {
	ms, ok := left.(int64)
	if !ok {
		return e, conn.ProtocolErrorf("%v for the time that a key lives", left)
	}
	e.left = ms
	switch value := value.(type) {
	case string:
		e.kind, e.value = copyString, value
	case int64:
		if value == -1 {
			e.kind = copyForeign
		}
	case []any:
		e.kind, e.readers = copyReaders, make(map[string]int64)
		for i := 0; i+1 < len(value); i += 2 {
			member, _ := value[i].(string)
			text, _ := value[i+1].(string)
			ends, err := strconv.ParseInt(text, 10, 64)
			if err != nil || member == "" {
				return e, conn.ProtocolErrorf("%v for a reader", value[i:i+2])
			}
			if member != readersEnd && ends > 0 {
				e.readers[member] = ends
			}
		}
	default:
		return e, conn.ProtocolErrorf("%v for a key", value)
	}
	return e, nil
}

// readersEnd is the member of a set of readers that tells where the key ends.
const readersEnd = "redlockd:end"

// copyEntriesOf reads the reply to lua.CopyRead.
func copyEntriesOf(cmd *redis.Cmd, keys int) ([]copyEntry, error) {
	reply, err := cmd.Slice()
	if err != nil {
		return nil, err
	}
	if len(reply) != 2*keys {
		return nil, conn.ProtocolErrorf("%d replies for %d keys", len(reply), keys)
	}
	entries := make([]copyEntry, keys)
	for i := range entries {
		if entries[i], err = copyEntryOf(reply[2*i], reply[2*i+1]); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// giveArgs are the ARGV of lua.CopyGive for one key. learner is what it has shown; nil: it was not
// asked, and is taken to have nothing.
func (o *copyOrder) giveArgs(learner *copyEntry) []any {
	kind, had := "-", ""
	switch {
	case o.whatever:
		kind = "*"
	case learner == nil || learner.kind == copyNothing:
	case learner.kind == copyString:
		kind, had = "=", learner.value
	default:
		kind = "*"
	}
	if o.do == copyRemove {
		return []any{kind, had, "", 0}
	}
	return []any{kind, had, o.value, o.left}
}

// readersArgs are the ARGV of lua.CopyReaders behind the first.
func (o *copyOrder) readersArgs() []any {
	args := []any{2 * len(o.readers)}
	for _, member := range slices.Sorted(maps.Keys(o.readers)) {
		args = append(args, member, o.readers[member])
	}
	for _, member := range o.gone {
		args = append(args, member)
	}
	return args
}

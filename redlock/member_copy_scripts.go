package redlock

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The scripts of a copy (member_copy.go).
//
// A script that writes does nothing unless the learner has settled on a record that lists it as a learner: so what a copier sends that was paused
// meanwhile never meets a voter.

// scriptCopyRead tells what KEYS hold: two replies for each, for how many milliseconds it lives, and what it is. A string is told as it is; of a set
// of readers the members, each followed by how long it lasts. What no lock can be is told as -1: it never ends, is of another type, or longer than
// ARGV[1] bytes. Where ARGV[2] is 0, it is not told when a key ends.
//
//mutant:a-key-without-an-end-is-copied
var scriptCopyRead = newScript(`
local reply, most, keys = {}, tonumber(ARGV[1]), KEYS
if ARGV[2] == '1' then
  keys = {} -- those that end: strangers' values that never do may be large
  for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    reply[2 * i - 1] = left
    if left >= 0 then
      keys[#keys + 1] = KEYS[i]
    else
      reply[2 * i] = left == -2 and -2 or -1
    end
  end
end
local values, n = #keys > 0 and redis.call('MGET', unpack(keys)), 0
for i = 1, #KEYS do
  if not reply[2 * i] then
    n = n + 1
    local value = values[n]
    if not value then
      ` + scriptAxis + `
      local now = axis(KEYS[i])
      if now then
        value = redis.call('ZREVRANGE', KEYS[i], 0, -1, 'WITHSCORES')
        for m = 2, #value, 2 do
          value[m] = string.format('%.0f', value[m] - now)
        end
      else
        value = redis.call('EXISTS', KEYS[i]) == 1 and -1 or -2
      end
    elseif #value > most then
      value = -1
    end
    reply[2 * i - 1], reply[2 * i] = reply[2 * i - 1] or 0, value
  end
end
return reply
`)

// scriptCopyGive gives the learner strings, or removes keys. KEYS[1] is the membership, ARGV[1] what the learner has to have settled on. Each key
// has four ARGV: what it holds, as a kind (- nothing, = a string, * whatever it is) and the string; what it is to hold; and the milliseconds that it is
// to live, 0 where it is to be removed. It returns one character per key: 1 done, 0 it holds something else by now. Nothing is done, and an empty text
// returned, where the learner shows something else.
//
//mutant:a-copy-is-written-to-a-voter
//mutant:a-copy-does-not-compare
//mutant:a-copy-shortens
var scriptCopyGive = newScript(scriptStates + `
if settled(shows()) ~= ARGV[1] then
  return ''
end
local reply = {}
for i = 2, #KEYS do
  local key, at = KEYS[i], 4 * i - 6
  local kind, had, value, left = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local done = '1'
  if kind == '-' then
    done = redis.call('SET', key, value, 'PX', left, 'NX') and '1' or '0'
  else
    local held = redis.call('MGET', key)[1]
    if kind == '=' and held ~= had then
      done = '0'
    elseif left == 0 then
      redis.call('UNLINK', key)
    elseif held == value then
      if redis.call('PTTL', key) < left then
        redis.call('PEXPIRE', key, left)
      end
    else
      redis.call('SET', key, value, 'PX', left)
    end
  end
  reply[#reply + 1] = done
end
return table.concat(reply)
`)

// scriptCopyReaders gives the learner the readers of one key: KEYS[1] the membership, KEYS[2] the key, ARGV[1] what the learner has to have settled
// on, ARGV[2] how many of the ARGV that follow are of readers, each a member and the milliseconds that it is to last; then the members that are to go.
// Whatever the key is that is no set of readers goes. It returns 1, or an empty text where the learner shows something else.
//
//mutant:readers-are-copied-to-a-voter
var scriptCopyReaders = newScript(scriptStates + scriptLeave + scriptLengthen + `
if settled(shows()) ~= ARGV[1] then
  return ''
end
local key, last = KEYS[2], 2 + tonumber(ARGV[2])
local now, ends = axis(key)
if not now then
  redis.call('UNLINK', key)
  now, ends = 0, 0
end
local longest = ends
for i = 3, last, 2 do
  local later = now + tonumber(ARGV[i + 1])
  if later > tonumber(redis.call('ZSCORE', key, ARGV[i]) or 0) then
    redis.call('ZADD', key, string.format('%.0f', later), ARGV[i])
    longest = math.max(longest, later)
  end
end
lengthen(key, now, longest, ends)
for i = last + 1, #ARGV do
  leave(key, ARGV[i])
end
shorten()
return '1'
`)

// scriptCopyNote says on the learner who copies to it, and how far that is: the field copy is ARGV[1] the copier, the time, and ARGV[2] the rest.
// It returns {1}; or {0, the note} where another one has said so less than ARGV[3] milliseconds ago.
//
//mutant:two-copy-at-the-same-time
var scriptCopyNote = newScript(scriptStates + `
local note, now = redis.call('HGET', KEYS[1], 'copy'), ms()
if note then
  local by, at = string.match(note, '^(%x+) (%d+) ')
  if by and by ~= ARGV[1] and now - at < tonumber(ARGV[3]) then
    return {0, note}
  end
end
if shows() ~= '' then
  redis.call('HSET', KEYS[1], 'copy', ARGV[1] .. ' ' .. now .. ' ' .. ARGV[2])
end
return {1}
`)

// copyEntryOf reads one key of scriptCopyRead.
func copyEntryOf(left, value any) (e copyEntry, err error) {
	ms, ok := left.(int64)
	if !ok {
		return e, senseless("%v for the time that a key lives", left)
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
				return e, senseless("%v for a reader", value[i:i+2])
			}
			if member != readersEnd && ends > 0 {
				e.readers[member] = ends
			}
		}
	default:
		return e, senseless("%v for a key", value)
	}
	return e, nil
}

// readersEnd is the member of a set of readers that tells where the key ends.
const readersEnd = "redlockd:end"

// copyEntriesOf reads the reply to scriptCopyRead.
func copyEntriesOf(cmd *redis.Cmd, keys int) ([]copyEntry, error) {
	reply, err := cmd.Slice()
	if err != nil {
		return nil, err
	}
	if len(reply) != 2*keys {
		return nil, senseless("%d replies for %d keys", len(reply), keys)
	}
	entries := make([]copyEntry, keys)
	for i := range entries {
		if entries[i], err = copyEntryOf(reply[2*i], reply[2*i+1]); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// giveArgs are the ARGV of scriptCopyGive for one key. learner is what it has shown; nil: it was not asked, and is taken to have nothing.
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

// readersArgs are the ARGV of scriptCopyReaders behind the first.
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

// copyNote is who copies to a learner, and how far that is.
type copyNote struct {
	by    string
	at    int64 // by the learner's clock, in milliseconds
	given int64
	done  int // percent
	from  string
}

func (n copyNote) text() string { return fmt.Sprintf("%d %d %s", n.given, n.done, n.from) }

// parseCopyNote reads the field copy.
func parseCopyNote(text string) (n copyNote, ok bool) {
	parts := strings.SplitN(text, " ", 5)
	if len(parts) < 5 || !isHex(parts[0], nonceLen) {
		return n, false
	}
	var counts [3]int64
	for i := range counts {
		if counts[i], ok = parseCount(parts[i+1]); !ok {
			return n, false
		}
	}
	n = copyNote{by: parts[0], at: counts[0], given: counts[1], done: int(counts[2]), from: shown(parts[4])}
	return n, counts[2] <= 100
}

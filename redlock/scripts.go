package redlock

import (
	"crypto/sha1"
	"encoding/hex"
)

// script is a Lua script that runs on the masters.
type script struct{ text, sha string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text))
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}

// scripts are loaded on every new connection.
var scripts = []script{scriptRelease, scriptRelinquish, scriptAcquire, scriptExtend, scriptFence, scriptClamp, scriptCommit, scriptUndo, scriptRead,
	scriptSlot, scriptSlotFence, scriptMemberBeat, scriptJoin, scriptAnnounce, scriptInspect, scriptRaise, scriptForce, scriptWithdraw,
	scriptCopyRead, scriptCopyGive, scriptCopyReaders, scriptCopyNote}

// scriptRelease is "remove the key only if it exists and the value stored at the key is exactly the
// one I expect to be" ("Correct implementation with a single instance") for many keys at once:
// KEYS[i] goes if it holds ARGV[i]. It returns 1 if all were removed, as nearly always, or else one
// character per key: 1 removed, 0 holds another token, - absent, . nothing was done because it came too late: one more ARGV
// is the time for that (master_late.go). Of a set of readers, the token's is
// removed; where it is not among them, it is absent. A key may stand in KEYS more than once, with
// another token each time. The caller bounds the number of keys: Lua's unpack fails beyond some
// thousands.
var scriptRelease = newScript(scriptLate + `
local keys, tokens = KEYS, ARGV
if late(tokens[#keys + 1] or 0) then
  return string.rep('.', #keys)
end
local held = redis.call('MGET', unpack(keys))
local all = true
for i = 1, #keys do
  if held[i] ~= tokens[i] then
    all = false
    break
  end
end
if all then
  redis.call('UNLINK', unpack(keys))
  return 1
end
local gone, reply = {}, {}
` + scriptLeave + `
for i = 1, #keys do
  if held[i] == tokens[i] then
    gone[#gone + 1] = keys[i]
    reply[i] = '1'
  else
    reply[i] = held[i] and '0' or leave(keys[i], 'r:' .. tokens[i]) and '1' or '-'
  end
end
shorten()
if #gone > 0 then
  redis.call('UNLINK', unpack(gone))
end
return table.concat(reply)
`)

// scriptRelinquish releases several keys that one token holds together. It returns 1 if it held
// them all, 0 otherwise; those that it held are gone in either case. ARGV[3] is when it is too late, or 0 (master_late.go).
var scriptRelinquish = newScript(scriptLate + `
if late(ARGV[3]) then
  return -2
end
local held = redis.call('MGET', unpack(KEYS))
local gone, left = {}, 0
` + scriptLeave + `
for i = 1, #KEYS do
  if held[i] == ARGV[1] then
    gone[#gone + 1] = KEYS[i]
  elseif not held[i] and leave(KEYS[i], 'r:' .. ARGV[1]) then
    left = left + 1
  end
end
shorten()
if #gone > 0 then
  redis.call('UNLINK', unpack(gone))
end
return #gone + left == #KEYS and 1 or 0
`)

// scriptAcquire sets all KEYS to the token ARGV[1] with ARGV[2] milliseconds to live, or none: if
// one of them holds another token. It returns 1 set, 2 set and some held this token already;
// denied: -3 by the first key, -4 by the second, and so on. A key that held the token already lives
// no shorter than before: an earlier grant counts on it, and this one may fail. Its end is moved,
// see scriptMoved; ARGV[3] is the longest TTL. ARGV[4], if it is there, is the token of a
// reservation: a key that holds it counts as free. So does a set of readers in which none is left; and, if ARGV[5] is there, a version that is
// over (version.go).
//
//mutant:a-reservation-takes-what-others-hold
//mutant:lock-shortens
var scriptAcquire = newScript(`
local reply, over = 1, {}
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local held = redis.call('TYPE', KEYS[i]).ok == 'string' and redis.call('GET', KEYS[i])
    local free = held and held == ARGV[4] or held and ARGV[5] and ` + scriptOver + `
    ` + scriptVacant + `
    if held == ARGV[1] then
      reply = 2
    elseif free then
      over[#over + 1] = KEYS[i]
    else
      return -2 - i
    end
  end
end
if #over > 0 then
  redis.call('UNLINK', unpack(over))
end
for i = 1, #KEYS do
  local left = reply == 2 and redis.call('PTTL', KEYS[i]) or -2
  if left < 0 then
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  else
    ` + scriptMoved + `
    redis.call('PEXPIRE', KEYS[i], moved(left, tonumber(ARGV[2]), tonumber(ARGV[3])))
  end
end
return reply
`)

// scriptExtend gives all KEYS ARGV[2] milliseconds to live if every one of them holds the token
// ARGV[1]. It returns 1 done, 0 a key holds another token, -1 a key is absent and none holds
// another token. 4 and 5 are 0 and -1 where some of the keys hold the token.
// 3 is done, where a key is a set of readers: there the token's end is what is set.
// No key lives shorter than before: the lease as it was counts on it if this extension finds no
// quorum. Their ends are moved, see scriptMoved; ARGV[3] is the longest TTL.
//
//mutant:extend-shortens
var scriptExtend = newScript(scriptMoved + `
local held = redis.call('MGET', unpack(KEYS))
local ttl, longest = tonumber(ARGV[2]), tonumber(ARGV[3])
local reply, missing, mine, others = 1, false, false, false
for i = 1, #KEYS do
  missing = missing or not held[i]
  mine = mine or held[i] == ARGV[1]
  others = others or held[i] and held[i] ~= ARGV[1]
end
if others then
  return mine and 4 or 0
end
local now, last = {}, {}
if missing then
  ` + scriptAxis + scriptLengthen + `
  for i = 1, #KEYS do
    if not held[i] then
      now[i], last[i] = axis(KEYS[i])
      if not now[i] and redis.call('EXISTS', KEYS[i]) == 1 then
        return mine and 4 or 0
      elseif not now[i] or not redis.call('ZSCORE', KEYS[i], 'r:' .. ARGV[1]) then
        reply = mine and 5 or -1
      end
    end
  end
  for i, at in pairs(reply == 1 and now or {}) do
    local ends = at + moved(redis.call('ZSCORE', KEYS[i], 'r:' .. ARGV[1]) - at, ttl, longest)
    redis.call('ZADD', KEYS[i], ends, 'r:' .. ARGV[1])
    lengthen(KEYS[i], at, ends, last[i])
    reply = 3
  end
end
for i = 1, (reply == 1 or reply == 3) and #KEYS or 0 do
  if held[i] then
    redis.call('PEXPIRE', KEYS[i], moved(redis.call('PTTL', KEYS[i]), ttl, longest))
  end
end
return reply
`)

// scriptCommit makes changes of all KEYS if all their guards hold, and none otherwise. Per key
// there are five ARGV, and behind them one says when it is too late, or 0 (master_late.go): what it must be (1 absent, 2 the value that follows), that value, what to do
// (1 set, 2 delete, 3 live on, 4 set and live on for no less than before), the new value,
// milliseconds to live; the numbers are those of Was and Do, and doSetLonger. It returns 1 done, 0 a
// key is something else, -1 the only thing wrong is that keys are absent. A key of another type than
// string is something else. Where a key keeps its value and gets a TTL, its end is moved, see
// scriptMovedExactly. 2 is done, where the one key is a set of readers, of which one was taken over
// (4): the new value is a reader's token that lives for no less than the old one. Where that is not
// in the set, the reply is -1.
//
//mutant:a-commit-does-not-move-the-end
//mutant:a-takeover-joins-the-readers
//mutant:a-takeover-shortens-a-reader
//mutant:a-takeover-leaves-the-old-reader
var scriptCommit = newScript(scriptLate + scriptMovedExactly + `
if late(ARGV[5 * #KEYS + 1]) then
  return -2
end
local held = redis.call('MGET', unpack(KEYS))
local reply = 1
for i = 1, #KEYS do
  local was, value = ARGV[5 * i - 4], ARGV[5 * i - 3]
  if was == '1' and redis.call('EXISTS', KEYS[i]) == 1 then
    return 0
  end
  if was == '2' and held[i] ~= value then
    if not held[i] and #KEYS == 1 and ARGV[3] == '4' then
      ` + scriptAxis + scriptLengthen + `
      local now, last = axis(KEYS[1])
      local score = now and redis.call('ZSCORE', KEYS[1], 'r:' .. value)
      if score then
        local ends = math.max(tonumber(score), now + tonumber(ARGV[5]))
        redis.call('ZREM', KEYS[1], 'r:' .. value)
        redis.call('ZADD', KEYS[1], ends, 'r:' .. ARGV[4])
        lengthen(KEYS[1], now, ends, last)
        return 2
      elseif now then
        return -1
      end
    end
    if redis.call('EXISTS', KEYS[i]) == 1 then
      return 0
    end
    reply = -1
  end
end
if reply == 1 then
  for i = 1, #KEYS do
    local what, value, ttl = ARGV[5 * i - 2], ARGV[5 * i - 1], tonumber(ARGV[5 * i])
    if what == '3' or what == '1' and held[i] == value then
      ttl = movedExactly(redis.call('PTTL', KEYS[i]), ttl)
    end
    if what == '4' then
      ttl = math.max(redis.call('PTTL', KEYS[i]), ttl)
    end
    if what == '1' or what == '4' then
      redis.call('SET', KEYS[i], value, 'PX', ttl)
    elseif what == '2' then
      redis.call('UNLINK', KEYS[i])
    elseif what == '3' then
      redis.call('PEXPIRE', KEYS[i], ttl)
    end
  end
end
return reply
`)

// scriptRead tells for each of KEYS its type, its value if it is a string, and how many
// milliseconds it lives: -1 for ever, -2 it is absent.
var scriptRead = newScript(`
local held = redis.call('MGET', unpack(KEYS))
local reply = {}
for i = 1, #KEYS do
  reply[#reply + 1] = held[i] and 'string' or redis.call('TYPE', KEYS[i]).ok
  reply[#reply + 1] = held[i] or ''
  reply[#reply + 1] = redis.call('PTTL', KEYS[i])
end
return reply
`)

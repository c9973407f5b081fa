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
var scripts = []script{scriptRelease, scriptRelinquish, scriptAcquire, scriptExtend, scriptSwap, scriptBeat, scriptFence, scriptAdmit, scriptRewind, scriptCommit, scriptUndo, scriptRead}

// scriptRelease is "remove the key only if it exists and the value stored at the key is exactly the
// one I expect to be" ("Correct implementation with a single instance") for many keys at once:
// KEYS[i] goes if it holds ARGV[i]. It returns 1 if all were removed, as nearly always, or else one
// character per key: 1 removed, 0 holds another token, - absent. Keys must differ from each other.
// The caller bounds the number of keys: Lua's unpack fails beyond some thousands.
var scriptRelease = newScript(`
local keys, tokens = KEYS, ARGV
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
for i = 1, #keys do
  if held[i] == tokens[i] then
    gone[#gone + 1] = keys[i]
    reply[i] = '1'
  elseif held[i] then
    reply[i] = '0'
  else
    reply[i] = '-'
  end
end
if #gone > 0 then
  redis.call('UNLINK', unpack(gone))
end
return table.concat(reply)
`)

// scriptRelinquish releases several keys that one token holds together. It returns 1 if it held
// them all, 0 otherwise; those that it held are gone in either case.
var scriptRelinquish = newScript(`
local held = redis.call('MGET', unpack(KEYS))
local gone = {}
for i = 1, #KEYS do
  if held[i] == ARGV[1] then
    gone[#gone + 1] = KEYS[i]
  end
end
if #gone > 0 then
  redis.call('UNLINK', unpack(gone))
end
return #gone == #KEYS and 1 or 0
`)

// scriptAcquire sets all KEYS to the token ARGV[1] with ARGV[2] milliseconds to live, or none: if
// one of them holds another token. It returns 1 set, 2 set and some held this token already;
// denied: -3 by the first key, -4 by the second, and so on. A key that held the token already lives
// no shorter than before: an earlier grant counts on it, and this one may fail. Its end is moved,
// see scriptMoved; ARGV[3] is the longest TTL. ARGV[4], if it is there, is the token of a
// reservation: a key that holds it counts as free.
//
//mutant:a-reservation-takes-what-others-hold
//mutant:lock-shortens
var scriptAcquire = newScript(scriptMoved + `
local reply = 1
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local held = redis.call('TYPE', KEYS[i]).ok == 'string' and redis.call('GET', KEYS[i])
    if held == ARGV[1] then
      reply = 2
    elseif not held or held ~= ARGV[4] then
      return -2 - i
    end
  end
end
for i = 1, ARGV[4] and #KEYS or 0 do
  if redis.call('GET', KEYS[i]) == ARGV[4] then
    redis.call('UNLINK', KEYS[i])
  end
end
for i = 1, #KEYS do
  local left = redis.call('PTTL', KEYS[i])
  if left < 0 then
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  else
    redis.call('PEXPIRE', KEYS[i], moved(left, tonumber(ARGV[2]), tonumber(ARGV[3])))
  end
end
return reply
`)

// scriptExtend gives all KEYS ARGV[2] milliseconds to live if every one of them holds the token
// ARGV[1]. It returns 1 done, 0 a key holds another token, -1 a key is absent and none holds
// another token. No key lives shorter than before: the lease as it was counts on it if this
// extension finds no quorum. Their ends are moved, see scriptMoved; ARGV[3] is the longest TTL.
//
//mutant:extend-shortens
var scriptExtend = newScript(scriptMoved + `
local held = redis.call('MGET', unpack(KEYS))
local reply = 1
for i = 1, #KEYS do
  if held[i] and held[i] ~= ARGV[1] then
    return 0
  end
  if not held[i] then
    reply = redis.call('EXISTS', KEYS[i]) == 1 and 0 or -1
    if reply == 0 then
      return 0
    end
  end
end
if reply == 1 then
  for i = 1, #KEYS do
    redis.call('PEXPIRE', KEYS[i], moved(redis.call('PTTL', KEYS[i]), tonumber(ARGV[2]), tonumber(ARGV[3])))
  end
end
return reply
`)

// scriptSwap is compare-and-set: KEYS[1] becomes ARGV[2] if it is ARGV[1], where a missing key is
// an empty string. It returns 1 if it did.
var scriptSwap = newScript(`
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2])
return 1
`)

// scriptBeat raises the beat KEYS[1] and returns it, and keeps the configuration KEYS[2] alive for
// ARGV[2] milliseconds if it is missing or equal to ARGV[1], and beside it the settings KEYS[3],
// which are ARGV[3].
var scriptBeat = newScript(`
local config = redis.call('GET', KEYS[2])
if not config or config == ARGV[1] then
  redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])
  redis.call('SET', KEYS[3], ARGV[3], 'PX', ARGV[2])
end
return redis.call('INCR', KEYS[1])
`)

// scriptRewind shortens the life of all KEYS but the first that live for more than ARGV[2]
// milliseconds by ARGV[3], if the epoch KEYS[1] is still ARGV[1]: executed late, when the master
// has a vote again, it would cut short what an EXTEND counts on, for that leaves alone what lives
// for longer. It returns 1 done, 0 not.
//
//mutant:keys-shortened-late
var scriptRewind = newScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
for i = 2, #KEYS do
  local left = redis.call('PTTL', KEYS[i])
  if left > tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], left - tonumber(ARGV[3]))
  end
end
return 1
`)

// scriptCommit makes changes of all KEYS if all their guards hold, and none otherwise. Per key
// there are five ARGV: what it must be (1 absent, 2 the value that follows), that value, what to do
// (1 set, 2 delete, 3 live on), the new value, milliseconds to live; the numbers are those of Was
// and Do. It returns 1 done, 0 a key is something else, -1 the only thing wrong is that keys are
// absent. A key of another type than string is something else. Where a key keeps its value and gets
// a TTL, its end is moved, see scriptMovedExactly.
//
//mutant:a-commit-does-not-move-the-end
var scriptCommit = newScript(scriptMovedExactly + `
local held = redis.call('MGET', unpack(KEYS))
local reply = 1
for i = 1, #KEYS do
  local was, value = ARGV[5 * i - 4], ARGV[5 * i - 3]
  if was == '1' and redis.call('EXISTS', KEYS[i]) == 1 then
    return 0
  end
  if was == '2' and held[i] ~= value then
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
    if what == '1' then
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

package redlock

import (
	"time"

	"redlockd/redlock/quorum"
)

// Readers and writers. A LOCK that is SHARED is a reader: any number of readers hold a resource at one time, and no writer beside them. A
// LOCK as ever is a writer. Only a reader and a writer, or two writers, are in each other's way, and any two quorums have a master in common:
// so each is decided on each master alone, and the rule of the majority is that of any lock.
//
// The state is one key, that of the resource. A writer's key is a string, its token, so that nothing changes for who only writes: SET NX is
// denied by a key of any type, also where a library sends it. The readers' key is a sorted set:
//
//	member         score
//	r:<token>      when this reader's lock ends
//	writer         when the intent ends: until then no reader is let in who is not in the set
//	redlockd:end   when the key ends: the highest score of all
//
// Scores are milliseconds on an axis of the set's own. The key ends at the score of redlockd:end, so its PTTL tells where on the axis
// now is. A clock that is set moves the end of the key, and all ends with it. scriptClamp, which shortens the key, bounds each of them.
//
// A sorted set without redlockd:end, or that never ends, is a stranger's, as is any other type. It keeps readers and writers out, and is not changed.
// Readers are told of it; a writer is denied, as if another held it, for that is all that SET NX says.
//
// A writer that waits, and has seen readers, leaves an intent with its next observation (scriptAnnounce), within announceEvery. From when a
// quorum has it, no new reader is granted. The writer waits until the readers that are there release, or their TTLs end: those that extend
// their locks may keep it waiting until MaxHold. An intent has no name, for it grants nothing. It ends by itself within intentLife when nobody
// renews it. Writers that come one after the other hand the resource over for HandoverTime.
//
// A writer that waits no more takes the intent away (scriptWithdraw), unless another one waits in the same queue. Without that a resource that is
// free would deny readers, and libraries, until the intent ends. The intent may be that of a writer of another client: the change of the key
// wakes that one, and it sets the intent again.
//
// Renewing an intent changes the key, which wakes the waiting writers of all other clients. Each of them asks, is denied, and would renew the
// intent again. So a master leaves an intent as it is while at least intentFresh of it is left: writers wake each other at most four times a
// second, however many wait.
//
// HOLD puts a reader's new token in the place of the old one in the set (scriptCommit, and scriptUndo where it fails). No intent keeps that out.
//
// Invariant: the key of a reader lives on every master that counts at least until the validity of its lease is over, whatever other readers do:
// nobody brings the end of another's member nearer, and the key ends with the last member. testdata/tla/Shared.tla is the model.

// readerPrefix is in front of a reader's token in the set.
const readerPrefix = "r:"

const (
	// intentLife is for how long a writer that waits keeps new readers out, unless it says so again. Readers that wait ask again as often.
	intentLife = time.Second
	// announceEvery is how often a writer that waits says so again.
	announceEvery = intentLife / 2
	// intentFresh is how much of an intent must be left for it not to be renewed. A writer finds or leaves at least so much, and announces itself
	// again after announceEvery: then a quarter of a second is left for slow masters.
	intentFresh = intentLife - announceEvery/2
)

// scriptAxis is a part of other scripts. A script has it in the branch that needs it, because Redis makes the functions anew with each call.
//
// axis returns where now is on the axis of a set of readers, or nil if the key is none, and the score of redlockd:end. It removes members that
// have ended.
//
//mutant:a-strangers-set-is-taken-for-readers
var scriptAxis = `
local function axis(key)
  if redis.call('TYPE', key).ok ~= 'zset' then
    return nil
  end
  local last, left = redis.call('ZSCORE', key, 'redlockd:end'), redis.call('PTTL', key)
  if not last or left < 0 then
    return nil
  end
  local now = last - left
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('(%.0f', now))
  return now, tonumber(last)
end
`

// scriptCount counts the readers that have not ended, behind axis.
const scriptCount = `
local function readers(key)
  return redis.call('ZCARD', key) - 1 - (redis.call('ZSCORE', key, 'writer') and 1 or 0)
end
`

// scriptLengthen has the key of readers live until a score at least, where last is the score of redlockd:end.
//
//mutant:the-key-ends-with-the-first-reader
var scriptLengthen = `
local function lengthen(key, now, ends, last)
  if ends > last then
    redis.call('ZADD', key, ends, 'redlockd:end')
    redis.call('PEXPIRE', key, ends - now)
  end
end
`

// scriptLeave is scriptAxis and what removes members: leave removes one, and tells whether it was there. A script that has called leave calls
// shorten at its end, which has the keys live as long as the members that are left: once per key, however many left it.
//
//mutant:a-reader-that-leaves-takes-all-with-it
var scriptLeave = scriptAxis + `
local opened = {}
local function leave(key, member)
  local set = opened[key]
  if not set then
    set = {}
    set.now, set.last = axis(key)
    opened[key] = set
  end
  local left = set.now and redis.call('ZREM', key, member) == 1
  set.left = set.left or left
  return left
end
local function shorten()
  for key, set in pairs(opened) do
    local top = set.left and redis.call('ZREVRANGE', key, 0, 1, 'WITHSCORES')
    if top and #top == 2 then
      redis.call('UNLINK', key)
    elseif top then
      local ends = tonumber(top[1] == 'redlockd:end' and top[4] or top[2])
      if ends ~= set.last then
        redis.call('ZADD', key, ends, 'redlockd:end')
        redis.call('PEXPIRE', key, ends - set.now)
      end
    end
  end
end
`

// scriptJoin lets readers in: KEYS[1] the resource, and four ARGV for each reader: token, milliseconds to live, the longest TTL, and 1 if it is a
// reader already, whose place was lost here: an intent does not keep that out. It returns what scriptAcquire does, of several readers as an array.
// What the token has already lives no shorter than before, and its end is moved, see scriptMoved.
//
//mutant:a-reader-does-not-look-at-the-writer
//mutant:an-intent-keeps-no-reader-out
//mutant:a-reader-shortens
var scriptJoin = newScript(scriptAxis + scriptLengthen + scriptMoved + `
local key, reply = KEYS[1], {}
local now, last = axis(key)
local held, intent = false, now and redis.call('ZSCORE', key, 'writer')
if not now then
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= 'string' then
    return redis.error_reply('WRONGTYPE the resource is a ' .. kind .. ' that redlockd has not written')
  end
  held, now, last = kind == 'string', 0, 0
end
local longest, ttl, ends, text = last
for i = 1, #ARGV, 4 do
  local member, vote = 'r:' .. ARGV[i], -3
  if i == 1 or ARGV[i + 1] ~= ARGV[i - 3] then
    ttl = tonumber(ARGV[i + 1])
    ends = now + ttl
    text = string.format('%.0f', ends)
  end
  if not held and (not intent or ARGV[i + 3] == '1') and redis.call('ZADD', key, 'NX', text, member) == 1 then
    longest, vote = math.max(longest, ends), 1
  elseif not held then
    local mine = redis.call('ZSCORE', key, member)
    if mine then
      local later = now + moved(mine - now, ttl, tonumber(ARGV[i + 2]))
      redis.call('ZADD', key, later, member)
      longest, vote = math.max(longest, later), 2
    end
  end
  reply[#reply + 1] = vote
end
lengthen(key, now, longest, last)
return #reply == 1 and reply[1] or reply
`)

// scriptAnnounce is the observation of a writer that waits for readers: it leaves an intent for ARGV[1] milliseconds where there are some,
// unless one is left that lives for ARGV[2] at least.
// It returns the type of KEYS[1] and for how long it keeps a writer out: -2 where it does not, also if intents are left. A set of intents keeps SET NX
// out nevertheless, so the type tells of it: the writer goes on with scriptAcquire, which looks into it.
//
//mutant:a-writer-waits-for-intents
//mutant:intents-are-not-told-of
//mutant:fresh-intents-are-renewed
var scriptAnnounce = newScript(scriptAxis + scriptCount + scriptLengthen + `
local key = KEYS[1]
local now, last = axis(key)
if not now then
  return {redis.call('TYPE', key).ok, redis.call('PTTL', key)}
end
if readers(key) == 0 then
  return {'zset', -2}
end
local ends = now + tonumber(ARGV[1])
if now + tonumber(ARGV[2]) > tonumber(redis.call('ZSCORE', key, 'writer') or 0) then
  redis.call('ZADD', key, ends, 'writer')
  lengthen(key, now, ends, last)
end
local top = redis.call('ZREVRANGE', key, 0, 2, 'WITHSCORES')
for i = 1, #top, 2 do
  if string.sub(top[i], 1, 2) == 'r:' then
    return {'zset', tonumber(top[i + 1]) - now}
  end
end
`)

// scriptWithdraw takes the intent of KEYS[1] away.
//
//mutant:who-takes-the-intent-away-takes-a-reader-away
var scriptWithdraw = newScript(scriptLeave + `
leave(KEYS[1], 'writer')
shorten()
return 1
`)

// withdrawLocked is for a queue that a waiter has left.
func (c *Client) withdrawLocked(e *entry, d *deferred) {
	if q := &e.queue; q.announced && q.writers == 0 {
		q.announced = false
		r := &round{verb: verbWithdraw, start: d.now}
		r.setKeys(e.resource)
		c.launchLocked(r, quorum.All, d) //mutant:an-intent-outlives-the-waiter
	}
}

// scriptInspect tells what LOCKINFO shows: KEYS the marks, and the resource. It returns the resource's type, its value if it is a string,
// how many milliseconds it lives, the mark of its last fence or "", and how many readers there are: -1 where it is no set of readers.
var scriptInspect = newScript(scriptAxis + scriptCount + `
local key = KEYS[2]
local now = axis(key)
return {redis.call('TYPE', key).ok, redis.call('MGET', key)[1] or '', redis.call('PTTL', key), redis.call('ZSCORE', KEYS[1], key) or '',
  now and readers(key) or -1}
`)

// scriptVacant is a part of the scripts of writers, behind held: a key that is no string is free if it is a set of readers in which none is left.
//
//mutant:a-writer-does-not-look-at-readers
//mutant:an-intent-keeps-writers-out
var scriptVacant = `
    if not held then
      ` + scriptAxis + scriptCount + `
      free = axis(KEYS[i]) and readers(KEYS[i]) == 0
    end
`

func writeJoin(b *batch, r *round) {
	b.script(scriptJoin, 0, 1, 4)
	b.resources(r)
	b.joiner(r)
}

// joiner adds the arguments of scriptJoin for one reader.
func (b *batch) joiner(r *round) {
	b.wire.bulk(r.token)
	b.wire.number(r.ttlMs)
	b.wire.number(b.lane.client.view.Load().longestMs)
	if r.verb == verbRefill {
		b.wire.bulk("1") //mutant:a-refill-is-kept-out
	} else {
		b.wire.bulk("0")
	}
}

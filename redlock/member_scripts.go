package redlock

import (
	"fmt"
	"strconv"
)

// The scripts that change a master's membership, the hash redlockd:members, which never expires:
//
//	v                   what the master shows, see member_state.go
//	r                   text of the settled record. In a fresh memory it is a hint of what the memory before it had settled on
//	a                   text of the accepted child; absent when settled
//	p                   the promised ballot, for children of the record in v
//	why                 what has become of the memory before, for people
//	beat                grows with every heartbeat of every proxy
//	gained              TIME of this master, in ms, when a proxy last saw its clock gain, and that was no pause of the proxy
//	s:<generation>-<lineage>:<seat>@<since>
//	                    a stamp: TIME of this master, in ms, when it was told that this listing of the seat is chosen. "ttl" in the place of
//	                    the seat is the timer of a max_ttl that was lowered
//	h:<seat>            TIME of this master, in ms, when a proxy last said that it hears the listed memory of this seat
//
// A script changes nothing unless the master shows what its caller has last read. Executed twice it does what it does once: a batch
// whose reply was lost is sent again. Unless said otherwise a script returns {1, …} done, or {0, v} where v, what the master shows now
// ("" for nothing), is not what the caller gave.
//
// To add one: put it into scripts, give it rows in TestMemberScripts, and a mutant for every line that keeps two records apart.

// scriptStates is what several scripts begin with. below compares bytes: Lua's own < goes by the locale of the master, and two masters
// could order ballots differently.
const scriptStates = `
local function shows()
  return redis.call('HGET', KEYS[1], 'v') or ''
end
local function settled(v)
  local i = string.find(v, ' ? ', 1, true)
  return i and string.sub(v, 1, i - 1) or v
end
local function below(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end
local function ms()
  local now = redis.call('TIME')
  return string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
end
`

// scriptMint begins a new memory: ARGV[1] is what the master shows, "" for nothing, ARGV[2] the new memory's name, ARGV[3] what has
// become of the one before. What the memory before it promised and accepted dies with it; its record stays as a hint. It returns {1, v}.
//
//mutant:a-memory-of-another-is-replaced
//mutant:promises-outlive-their-memory
var scriptMint = newScript(scriptStates + `
local v = shows()
if v ~= ARGV[1] then
  return {0, v}
end
local record = redis.call('HGET', KEYS[1], 'r')
redis.call('UNLINK', KEYS[1])
v = ARGV[2] .. ' -'
redis.call('HSET', KEYS[1], 'v', v, 'beat', 0, 'why', ARGV[3])
if record then
  redis.call('HSET', KEYS[1], 'r', record)
end
return {1, v}
`)

// scriptPrepare promises the ballot ARGV[2] for a child of what the master has settled on, ARGV[1]. It returns {1, ballot, digest and text of
// the child that it has accepted}, all "" for none; or {-1, p} where the ballot p, as high or higher, is promised already.
//
//mutant:a-ballot-for-another-parent-is-promised
//mutant:a-promise-is-lowered
//mutant:an-accepted-child-is-not-told
var scriptPrepare = newScript(scriptStates + `
local v = shows()
if settled(v) ~= ARGV[1] then
  return {0, v}
end
local promised = redis.call('HGET', KEYS[1], 'p')
if promised and not below(promised, ARGV[2]) then
  return {-1, promised}
end
redis.call('HSET', KEYS[1], 'p', ARGV[2])
local ballot, digest = string.match(v, ' %? (%S+) (%S+)$')
if ballot then
  return {1, ballot, digest, redis.call('HGET', KEYS[1], 'a') or ''}
end
return {1, '', '', ''}
`)

// scriptAccept accepts a child of what the master has settled on, ARGV[1]: its ballot ARGV[2], digest ARGV[3] and text ARGV[4]. It
// returns {1, v}, or {-1, p} where a higher ballot p is promised.
//
//mutant:a-child-of-another-parent-is-accepted
//mutant:a-promise-is-broken
//mutant:an-accepted-ballot-is-no-promise
var scriptAccept = newScript(scriptStates + `
local v = shows()
if settled(v) ~= ARGV[1] then
  return {0, v}
end
local promised = redis.call('HGET', KEYS[1], 'p')
if promised and below(ARGV[2], promised) then
  return {-1, promised}
end
v = ARGV[1] .. ' ? ' .. ARGV[2] .. ' ' .. ARGV[3]
redis.call('HSET', KEYS[1], 'v', v, 'a', ARGV[4], 'p', ARGV[2])
return {1, v}
`)

// scriptLearn settles the memory ARGV[1] on a record that is chosen: generation ARGV[2], lineage ARGV[3], version ARGV[4], what the
// master shows then ARGV[5], text ARGV[6]. It returns {1, v}. It never goes back: neither to a lower generation, nor to the same or a
// lower version, nor to another lineage of the same generation, from where the memory could come back to what it has left.
//
//mutant:another-memory-learns
//mutant:learn-goes-back-a-generation
//mutant:learn-goes-to-another-lineage
//mutant:learn-goes-back
//mutant:promises-outlive-their-record
var scriptLearn = newScript(scriptStates + `
local v = shows()
local memory, record = string.match(v, '^(%S+) (.+)$')
if memory ~= ARGV[1] then
  return {0, v}
end
if settled(record) ~= '-' then
  local generation, lineage, version = string.match(record, '^(%d+)%-(%x+)%.(%d+) ')
  if not generation or tonumber(generation) > tonumber(ARGV[2]) then
    return {0, v}
  end
  if tonumber(generation) == tonumber(ARGV[2]) and (lineage ~= ARGV[3] or tonumber(version) >= tonumber(ARGV[4])) then
    return {0, v}
  end
end
redis.call('HSET', KEYS[1], 'v', ARGV[5], 'r', ARGV[6])
redis.call('HDEL', KEYS[1], 'a', 'p')
return {1, ARGV[5]}
`)

// scriptMemberBeat is a proxy's heartbeat; memberBeatArgs makes its ARGV. It raises the beat, and, if the master has settled on the
// record that the proxy goes by, keeps the stamps that it is given from when they were first given, and notes which seats are heard. A stamp
// is first set only by a proxy whose clock agrees with the master's: what a clock says that is about to be corrected tells no age.
// Stamps of other listings, and what was heard of other seats, it drops. A proxy that is a record behind must not: it would stop timers.
// It returns {beat, v, value of each stamp or ""}, or {0} where no membership is.
//
//mutant:a-stamp-begins-anew
//mutant:stamps-by-a-clock-that-disagrees
//mutant:stamps-of-other-listings-stay
//mutant:a-proxy-that-is-behind-drops-stamps
var scriptMemberBeat = newScript(scriptStates + `
local v = shows()
if v == '' then
  return {0}
end
local reply = {redis.call('HINCRBY', KEYS[1], 'beat', 1), v}
local stamps, heard = tonumber(ARGV[3]), tonumber(ARGV[4])
if settled(v) == ARGV[1] then
  local now, keep = ms(), {}
  for i = 5, #ARGV do
    keep[ARGV[i]] = true
    if i < 5 + stamps then
      if ARGV[2] == '1' then
        redis.call('HSETNX', KEYS[1], ARGV[i], now)
      end
    elseif i < 5 + stamps + heard then
      redis.call('HSET', KEYS[1], ARGV[i], now)
    end
  end
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.find(field, '^[sh]:') and not keep[field] then
      redis.call('HDEL', KEYS[1], field)
    end
  end
end
for i = 5, 4 + stamps do
  reply[#reply + 1] = redis.call('HGET', KEYS[1], ARGV[i]) or ''
end
return reply
`)

// memberBeatArgs are the ARGV of scriptMemberBeat: settled is what the master shows, without an accepted child, where it has settled on
// the record that the proxy goes by; agrees tells that the master's clock agrees with the proxy's, so that its stamps may be set; stamps
// are stampField and ttlStampField of the listings whose timers run; heard are the seats whose listed memory this proxy hears; seats are
// all seats of the record.
func memberBeatArgs(settled string, agrees bool, stamps []string, heard, seats []int) []any {
	set := 0
	if agrees {
		set = 1
	}
	args := []any{settled, set, len(stamps), len(heard)}
	for _, stamp := range stamps {
		args = append(args, stamp)
	}
	for _, list := range [][]int{heard, seats} {
		for _, number := range list {
			args = append(args, heardField(number))
		}
	}
	return args
}

// stampField is the field of the hash for the timer of a seat of r.
func (r *record) stampField(s *seat) string { return r.stamp(strconv.Itoa(s.number), s.since) }

// ttlStampField is the field of the hash for the timer of r's max_ttl.
func (r *record) ttlStampField() string { return r.stamp("ttl", r.ttlSince) }

func (r *record) stamp(what string, since int64) string {
	return "s:" + strconv.FormatInt(r.generation, 10) + "-" + r.lineage + ":" + what + "@" + strconv.FormatInt(since, 10) //mutant:stamps-of-another-listing
}

// heardField is the field of the hash that tells when the listed memory of a seat was last heard.
func heardField(number int) string { return "h:" + strconv.Itoa(number) }

// scriptAdmitFloor raises the floor of fences KEYS[2] to ARGV[2] if the master shows ARGV[1]. It returns 1 done, 0 not, and -2 where the floor
// is more than a day ahead of the master's clock: as with a fence, somebody's clock is wrong, and the master would give no fence until then. It does
// not write a lower floor instead, because the master would accept fences that are not above all of before.
//
//mutant:a-floor-for-another-record
//mutant:a-floor-is-lowered
//mutant:a-floor-that-no-clock-reaches-is-taken
var scriptAdmitFloor = newScript(scriptStates + fmt.Sprintf(`
if shows() ~= ARGV[1] then
  return 0
end
if tonumber(redis.call('GET', KEYS[2]) or 0) < tonumber(ARGV[2]) then
  local now = redis.call('TIME')
  if tonumber(ARGV[2]) > (now[1] * 1000 + math.floor(now[2] / 1000) - %d + %d) * %d then
    return %d
  end
  redis.call('SET', KEYS[2], ARGV[2])
end
return 1
`, fenceOriginMs, fenceAheadMax.Milliseconds(), 1<<fenceCounterBits, fenceAhead))

// scriptGained notes that the master's clock has gained, if it shows ARGV[1]. It returns 1 done, 0 not.
var scriptGained = newScript(scriptStates + `
if shows() ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'gained', ms())
return 1
`)

// scriptClamp ends all KEYS but the first, the membership, in ARGV[1] milliseconds at the latest, if the master still shows ARGV[2]: a clock
// that went back has made them live longer. It returns how many it has changed. The bound is the wait of the record that is shown: no lease
// that anybody counts on lasts longer, so nobody loses a lock. Executed late, under a record with a longer wait, it changes nothing. Keys of
// redlockd itself, and those that never expire, are left alone. In a set of readers each end is bounded by itself: who came behind the step
// of the clock has an end that is right, and that must not move with the end of the key.
//
//mutant:all-keys-are-clamped
//mutant:all-readers-ends-are-moved
//mutant:keys-are-clamped-under-another-record
var scriptClamp = newScript(scriptStates + `
if shows() ~= ARGV[2] then
  return 0
end
local changed = 0
for i = 2, #KEYS do
  local own = string.sub(KEYS[i], 1, ` + strconv.Itoa(len(ReservedPrefix)) + `) == '` + ReservedPrefix + `'
  if not own and redis.call('PTTL', KEYS[i]) > tonumber(ARGV[1]) then
    ` + scriptAxis + `
    local now = axis(KEYS[i])
    if now then
      local most = now + ARGV[1]
      local ends = redis.call('ZREVRANGE', KEYS[i], 0, -1, 'WITHSCORES')
      for m = 1, #ends, 2 do
        if tonumber(ends[m + 1]) <= most then
          break
        end
        redis.call('ZADD', KEYS[i], most, ends[m])
      end
    end
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    changed = changed + 1
  end
end
return changed
`)

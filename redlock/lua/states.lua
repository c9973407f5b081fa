-- A part of the scripts that read or change a master's membership, the hash redlockd:members, which
-- never expires:
--
--   v       what the master shows, see member/state.go
--   r       text of the settled record. In a fresh memory it is a hint of what the memory before it had
--           settled on
--   a       text of the accepted child; absent when settled
--   p       the promised ballot, for children of the record in v
--   why     what has become of the memory before, for people
--   beat    grows with every heartbeat of every proxy
--   minority
--           what this master was given although fewer than a quorum held it (member/minority.go)
--   copy    who copies to this master, which learns, and how far that is (copy_note.lua)
--   s:<generation>-<lineage>:<seat>@<since>
--           a stamp: TIME of this master, in ms, when it was told that this listing of the seat is
--           chosen. "ttl" in the place of the seat is the timer of a max_ttl that was lowered
--   c:<client>
--           TIME of this master, in ms, when a client last said something of its clock, and what
--           (watch.lua)
--   f:<client>
--           TIME of this master, in ms, when a client last went by the record that it showed, the digest of
--           that, and the longest TTL that the client was asked for lately (follow.lua)
--   h:<seat>
--           TIME of this master, in ms, when a proxy last said that it hears the listed memory of this
--           seat
--
-- A time that is too far ahead of the master's clock counts for nothing (stamp.lua).
--
-- A script changes nothing unless the master shows what its caller has last read. Executed twice it does
-- what it does once: a batch whose reply was lost is sent again. Unless said otherwise a script replies
-- {1, ...} done, or {0, v} where v, what the master shows now ("" for nothing), is not what the caller
-- gave.
--
-- below compares bytes: Lua's own < goes by the locale of the master, and two masters could order
-- ballots differently.

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
--include clock
local function ms()
  return string.format('%.0f', clock())
end

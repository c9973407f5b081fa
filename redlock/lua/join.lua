-- LOCK of readers of one resource (op_shared.go).
--
-- KEYS   the resource
-- ARGV   four for each reader: token, milliseconds to live, the longest TTL, and "1" if it is a reader
--        already, whose place was lost here: an intent does not keep that out
-- reply  what acquire replies; of several readers an array
-- keeps  no reader is let in beside a writer, and no new one beside an intent. What the token has
--        already lives no shorter than before, and its end is moved (moved.lua)
-- from   writeJoin, batch.foldReaders

--include axis
--include lengthen
--include moved
local key, reply = KEYS[1], {}
local now, last = axis(key)
local held, intent = false, now and redis.call('ZSCORE', key, 'writer')
if not now then
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= 'string' then
    return redis.error_reply('WRONGTYPE the resource is a ' .. kind .. ' that redlockd has not written')
  end
  held, now, last = kind == 'string', 0, 0 --mutant:a-reader-does-not-look-at-the-writer
end
local longest, ttl, ends, text = last
for i = 1, #ARGV, 4 do
  local member, vote = 'r:' .. ARGV[i], -3
  if i == 1 or ARGV[i + 1] ~= ARGV[i - 3] then
    ttl = tonumber(ARGV[i + 1])
    ends = now + ttl
    text = string.format('%.0f', ends)
  end
  if not held and (not intent or ARGV[i + 3] == '1') and redis.call('ZADD', key, 'NX', text, member) == 1 then --mutant:an-intent-keeps-no-reader-out
    longest, vote = math.max(longest, ends), 1
  elseif not held then
    local mine = redis.call('ZSCORE', key, member)
    if mine then
      local later = now + moved(mine - now, ttl, tonumber(ARGV[i + 2])) --mutant:a-reader-shortens
      redis.call('ZADD', key, later, member)
      longest, vote = math.max(longest, later), 2
    end
  end
  reply[#reply + 1] = vote
end
lengthen(key, now, longest, last)
return #reply == 1 and reply[1] or reply

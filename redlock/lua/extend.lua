-- EXTEND: gives all keys a time to live if every one of them holds the token.
--
-- KEYS   the resources
-- ARGV   token, milliseconds to live, the longest TTL
-- reply  1 done, 0 a key holds another token, -1 a key is absent and none holds another token; 4 and 5
--        are 0 and -1 where some of the keys hold the token. 3 is done, where a key is a set of
--        readers: there the token's end is what is set
-- keeps  no key lives shorter than before: the lease as it was counts on it if this extension finds no
--        quorum. Ends are moved (moved.lua)
-- from   writeExtend

--include moved
local held = redis.call('MGET', unpack(KEYS))
local ttl, longest = tonumber(ARGV[2]), tonumber(ARGV[3])
local reply, missing, mine, others = 1, false, false, false
for i = 1, #KEYS do
  missing = missing or not held[i]
  mine = mine or held[i] == ARGV[1]
  others = others or held[i] and held[i] ~= ARGV[1]
end
if others then --mutant:extends-what-others-hold
  return mine and 4 or 0
end
local now, last = {}, {}
if missing then
  --include axis
  --include lengthen
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
    redis.call('PEXPIRE', KEYS[i], moved(redis.call('PTTL', KEYS[i]), ttl, longest)) --mutant:extend-shortens
  end
end
return reply

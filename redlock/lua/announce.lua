-- The observation of a writer that waits for readers: it leaves an intent where there are some
-- (op_shared.go).
--
-- KEYS   the resource
-- ARGV   milliseconds of the intent; how many milliseconds an intent must have left not to be renewed
-- reply  the type of the key, and for how long it keeps a writer out: -2 where it does not, also if
--        intents are left. A set of intents keeps SET NX out nevertheless, so the type tells of it: the
--        writer goes on with acquire, which looks into it
-- from   writeAnnounce

--include axis
--include readers
--include lengthen
local key = KEYS[1]
local now, last = axis(key)
if not now then
  return {redis.call('TYPE', key).ok, redis.call('PTTL', key)}
end
if readers(key) == 0 then --mutant:a-writer-waits-for-intents
  return {'zset', -2} --mutant:intents-are-not-told-of
end
local ends = now + tonumber(ARGV[1])
if now + tonumber(ARGV[2]) > tonumber(redis.call('ZSCORE', key, 'writer') or 0) then --mutant:fresh-intents-are-renewed
  redis.call('ZADD', key, ends, 'writer')
  lengthen(key, now, ends, last)
end
local top = redis.call('ZREVRANGE', key, 0, 2, 'WITHSCORES')
for i = 1, #top, 2 do
  if string.sub(top[i], 1, 2) == 'r:' then
    return {'zset', tonumber(top[i + 1]) - now}
  end
end

-- Reads what LOCKINFO shows.
--
-- KEYS   marks, and the resource
-- reply  the resource's type, its value if it is a string, how many milliseconds it lives, the mark of
--        its last fence or "", and how many readers there are: -1 where it is no set of readers
-- from   writeInspect

--include axis
--include readers
local key = KEYS[2]
local now = axis(key)
return {redis.call('TYPE', key).ok, redis.call('MGET', key)[1] or '', redis.call('PTTL', key), redis.call('ZSCORE', KEYS[1], key) or '',
  now and readers(key) or -1}

-- UNLOCK FORCE of a key that ends at a certain time, of a writer or a reader (op_force.go).
--
-- KEYS   the resource
-- ARGV   the token, and when the key ends, in milliseconds by this master's clock
-- reply  1 removed, 0 it holds another token, -1 it is absent, 2 the token is there and ends at another
--        time
-- keeps  a key that the caller has locked again under the same token stays
-- from   writeForceCallers

-- How far apart two readings of one key's end may be, in milliseconds: a script of an old master reads
-- its clock anew for PTTL and TIME. It is less than endMove (moved.lua), by 2 ms and more.
local slack = 3
--include leave
--include clock
local key, token = KEYS[1], ARGV[1]
local held, now = redis.call('MGET', key)[1], clock()
local at = not held and axis(key)
local score = at and redis.call('ZSCORE', key, 'r:' .. token)
if held ~= token and not score then
  return held and 0 or -1
end
local ends = now + (score and score - at or redis.call('PTTL', key))
if math.abs(ends - ARGV[2]) > slack then --mutant:a-forced-release-does-not-look-at-the-end
  return 2
end
if score then
  leave(key, 'r:' .. token)
  shorten()
else
  redis.call('UNLINK', key)
end
return 1

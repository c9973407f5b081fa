-- LOCK: sets all keys to the token, or none if one of them holds another token.
--
-- KEYS   the resources
-- ARGV   token, milliseconds to live, the longest TTL; the token of a reservation, if there is one: a
--        key that holds it counts as free; "1" if a version that is over counts as free, too
--        (version.go)
-- reply  1 set, 2 set, and some held this token already; denied: -3 by the first key, -4 by the second,
--        and so on
-- keeps  a key that held the token already lives no shorter than before: an earlier grant counts on it,
--        and this one may fail. Its end is moved (moved.lua). A set of readers in which none is left is
--        free
-- from   writeAcquire, writeRefill

local reply, over = 1, {}
for i = 1, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local held = redis.call('TYPE', KEYS[i]).ok == 'string' and redis.call('GET', KEYS[i])
    local free = held and held == ARGV[4] or held and ARGV[5] and string.sub(held, 1, 10) == '\000redlockd:' and #held >= 27 --mutant:a-reservation-takes-what-others-hold
      and string.sub(held, 12, 18) == string.sub(ARGV[1], 12, 18) --mutant:another-lineage-is-replaced
      and string.byte(held, 19) * 256 + string.byte(held, 20) <= string.byte(ARGV[1], 19) * 256 + string.byte(ARGV[1], 20) --mutant:a-later-version-is-replaced
    --include vacant
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
    --include moved
    redis.call('PEXPIRE', KEYS[i], moved(left, tonumber(ARGV[2]), tonumber(ARGV[3]))) --mutant:lock-shortens
  end
end
return reply

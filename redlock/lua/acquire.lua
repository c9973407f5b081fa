-- LOCK by script: sets all keys to the token, or none if one of them holds another token.
--
-- KEYS   the resources; with a fence then marks, floor
-- ARGV   token, milliseconds to live, the longest TTL; fence, 0 for none; bound of the marks; the token
--        of a reservation, if there is one: a key that holds it counts as free; "1" if a version that is
--        over counts as free, too (version.go)
-- reply  1 set, 2 set, and some held this token already; denied: -3 by the first key, -4 by the second,
--        and so on; the mark, a larger number, when the fence is not above it; -2 when the fence is a
--        day ahead of the master's clock
-- keeps  the fences of a resource only grow. A key that held the token already lives no shorter than
--        before: an earlier grant counts on it, and this one may fail. Its end is moved (moved.lua). A
--        set of readers in which none is left is free
-- from   writeAcquire

local fence, resources, mark = tonumber(ARGV[4]), #KEYS, 0
local marks, floor
if fence > 0 then
  --include ahead
  if ahead(fence) then
    return -2
  end
  resources = #KEYS - 2
  marks, floor = KEYS[resources + 1], KEYS[resources + 2]
  mark = tonumber(redis.call('GET', floor) or 0)
end
local reply, over = 1, {}
for i = 1, resources do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local held = redis.call('TYPE', KEYS[i]).ok == 'string' and redis.call('GET', KEYS[i])
    local free = held and held == ARGV[6] --mutant:a-reservation-takes-what-others-hold
    if not held then
      --include axis
      --include readers
      free = axis(KEYS[i]) and readers(KEYS[i]) == 0 --mutant:a-writer-does-not-look-at-readers --mutant:an-intent-keeps-writers-out
    elseif ARGV[7] and string.sub(held, 1, 10) == '\000redlockd:' and #held >= 27
      and string.sub(held, 12, 18) == string.sub(ARGV[1], 12, 18) then --mutant:another-lineage-is-replaced
      -- Of the same lineage, and of no higher generation.
      free = string.byte(held, 19) * 256 + string.byte(held, 20)
        <= string.byte(ARGV[1], 19) * 256 + string.byte(ARGV[1], 20) --mutant:a-later-version-is-replaced
    end
    if held == ARGV[1] then
      reply = 2
    elseif free then
      over[#over + 1] = KEYS[i]
    else
      return -2 - i
    end
  end
  if fence > 0 then
    mark = math.max(mark, tonumber(redis.call('ZSCORE', marks, KEYS[i]) or 0))
  end
end
if fence > 0 and fence <= mark then --mutant:fence-not-above-the-mark
  return mark
end
if #over > 0 then
  redis.call('UNLINK', unpack(over))
end
for i = 1, resources do
  local left = reply == 2 and redis.call('PTTL', KEYS[i]) or -2
  if left < 0 then
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  else
    --include moved
    redis.call('PEXPIRE', KEYS[i], moved(left, tonumber(ARGV[2]), tonumber(ARGV[3]))) --mutant:lock-shortens
  end
  if fence > 0 then
    redis.call('ZADD', marks, ARGV[4], KEYS[i])
  end
end
if fence > 0 then
  --include bound_marks
  boundMarks(marks, floor, ARGV[5])
end
return reply

-- acquire with a fence.
--
-- KEYS   marks, floor, then the resources
-- ARGV   token, milliseconds to live, fence, bound of the marks, the longest TTL, and the token of a
--        reservation, if there is one
-- reply  what acquire replies; the mark, a larger number, when the fence is not above it; -2 when the
--        fence is a day ahead of the master's clock
-- from   writeFence

local fence = tonumber(ARGV[3])
local now = redis.call('TIME')
if fence > (now[1] * 1000 - 946684800000 + 86400000) * 4096 then
  return -2
end
local mark = tonumber(redis.call('GET', KEYS[2]) or 0)
local reply, over = 1, {}
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then
    local held = redis.call('TYPE', KEYS[i]).ok == 'string' and redis.call('GET', KEYS[i])
    local free = held and held == ARGV[6]
    --include vacant
    if held == ARGV[1] then
      reply = 2
    elseif free then
      over[#over + 1] = KEYS[i]
    else
      return -i
    end
  end
  mark = math.max(mark, tonumber(redis.call('ZSCORE', KEYS[1], KEYS[i]) or 0))
end
if fence <= mark then --mutant:fence-not-above-the-mark
  return mark
end
if #over > 0 then
  redis.call('UNLINK', unpack(over))
end
for i = 3, #KEYS do
  local left = reply == 2 and redis.call('PTTL', KEYS[i]) or -2
  if left < 0 then
    redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
  else
    --include moved
    redis.call('PEXPIRE', KEYS[i], moved(left, tonumber(ARGV[2]), tonumber(ARGV[5])))
  end
  redis.call('ZADD', KEYS[1], ARGV[3], KEYS[i])
end
local bound = tonumber(ARGV[4])
--include bound_marks
return reply

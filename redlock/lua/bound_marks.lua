-- A part of scripts that set marks: KEYS[1] marks, KEYS[2] floor. Where the marks are slack more than
-- bound, the lowest are pushed out into the floor.

local slack = 64
local beyond = redis.call('ZCARD', KEYS[1]) - bound
if beyond >= slack then
  local out = redis.call('ZPOPMIN', KEYS[1], beyond)
  redis.call('SET', KEYS[2], string.format('%.0f', math.max(tonumber(redis.call('GET', KEYS[2]) or 0), tonumber(out[#out])))) --mutant:marks-pushed-out-without-a-floor
end

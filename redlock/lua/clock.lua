-- A part of other scripts. clock returns the master's clock, in milliseconds since 1970.
local function clock()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- A part of other scripts. late(latest) tells whether the master's clock is past latest, in
-- milliseconds. 0 is never.

local function late(latest)
  local now = tonumber(latest) > 0 and redis.call('TIME')
  return now and now[1] * 1000 + math.floor(now[2] / 1000) > tonumber(latest)
end

-- A part of scripts that set marks: where these are slack more than bound, boundMarks pushes the lowest
-- out into the floor, at most atOnce: that blocks Redis 7.0 for 1 ms, and for 4 ms with the longest names.
local slack, atOnce = 64, 1000
local function boundMarks(marks, floor, bound)
  local beyond = redis.call('ZCARD', marks) - bound
  if beyond >= slack then
    local out = redis.call('ZPOPMIN', marks, math.min(beyond, atOnce))
    local highest = math.max(tonumber(redis.call('GET', floor) or 0), tonumber(out[#out])) --mutant:marks-pushed-out-without-a-floor
    redis.call('SET', floor, string.format('%.0f', highest))
  end
end

-- A part of scripts that set marks: where these are slack more than bound, boundMarks pushes the lowest
-- out into the floor, at most so many at once as block the master for no longer than a millisecond.
local slack, atOnce = 64, 1000
local function boundMarks(marks, floor, bound)
  local beyond = redis.call('ZCARD', marks) - bound
  if beyond >= slack then
    local out = redis.call('ZPOPMIN', marks, math.min(beyond, atOnce))
    local highest = math.max(tonumber(redis.call('GET', floor) or 0), tonumber(out[#out])) --mutant:marks-pushed-out-without-a-floor
    redis.call('SET', floor, string.format('%.0f', highest))
  end
end

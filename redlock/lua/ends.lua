-- A part of other scripts, behind clock. endOf tells at which millisecond of this master's clock a key
-- ends: -1 never, -2 it is absent. Up to Redis 7.0, TIME and PTTL read the clock each for itself, and a
-- master that is paused between the two would tell another end. Between two readings of one millisecond
-- lies no other one.

local function endOf(key)
  local ends
  for _ = 1, 5 do
    local before, left = clock(), redis.call('PTTL', key)
    ends = left >= 0 and before + left or left
    if left < 0 or clock() == before then --mutant:an-end-is-read-over-a-pause
      break
    end
  end
  return ends
end

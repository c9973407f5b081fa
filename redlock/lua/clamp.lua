-- Ends keys in some time at the latest: a clock that went back has made them live longer.
--
-- KEYS   the membership (states.lua), then the keys
-- ARGV   milliseconds, what the master shows
-- reply  how many it has changed
-- keeps  the bound is the wait of the record that is shown, longer than any lock is valid, and one wait
--        has passed since the clock went back (master_clamp.go): nobody loses a lock. Under a record
--        with a longer wait it changes nothing. redlockd's own keys, and those that never expire, are
--        left alone. In a set of readers each end is bounded by itself: who came after the step of the
--        clock has an end that is right, and that must not move with the end of the key
-- from   lane.clamp

--include states
if shows() ~= ARGV[2] then --mutant:keys-are-clamped-under-another-record
  return 0
end
local changed = 0
for i = 2, #KEYS do
  local own = string.sub(KEYS[i], 1, 9) == 'redlockd:'
  if not own and redis.call('PTTL', KEYS[i]) > tonumber(ARGV[1]) then --mutant:all-keys-are-clamped
    --include axis
    local now = axis(KEYS[i])
    if now then
      local most = now + ARGV[1]
      local ends = redis.call('ZREVRANGE', KEYS[i], 0, -1, 'WITHSCORES')
      for m = 1, #ends, 2 do
        if tonumber(ends[m + 1]) <= most then --mutant:all-readers-ends-are-moved
          break
        end
        redis.call('ZADD', KEYS[i], most, ends[m])
      end
    end
    redis.call('PEXPIRE', KEYS[i], ARGV[1])
    changed = changed + 1
  end
end
return changed

-- Says on the learner who copies to it, and how far that is (member/copying/pass.go).
--
-- KEYS   the membership (states.lua)
-- ARGV   the copier, the rest of the note, for how many milliseconds a note counts
-- reply  {1}, or {0, the note} where another copier has said so less than that ago. One that is as far
--        ahead of the clock, which has stepped back since, does not count either
-- from   copying.note

--include states
--include stamp
local note, now = redis.call('HGET', KEYS[1], 'copy'), ms()
if note then
  local by, at = string.match(note, '^(%x+) (%d+) ')
  local old = age(at, now, ARGV[3])
  if old and by ~= ARGV[1] and old < tonumber(ARGV[3]) then --mutant:two-copy-at-the-same-time
    return {0, note}
  end
end
if shows() ~= '' then
  redis.call('HSET', KEYS[1], 'copy', ARGV[1] .. ' ' .. now .. ' ' .. ARGV[2])
end
return {1}

-- Gives the learner the readers of one key (member/copying/give.go). Whatever the key is that is no set of
-- readers goes.
--
-- KEYS   the membership (states.lua), the key
-- ARGV   what the learner has to have settled on; how many of the arguments that follow are of readers,
--        each a member and the milliseconds that it is to last; then the members that are to go
-- reply  1, or "" where the learner shows something else: nothing was done
-- keeps  what a copier sends that was paused meanwhile never meets a voter
-- from   copying.writeReaders

--include states
--include leave
--include lengthen
if settled(shows()) ~= ARGV[1] then --mutant:readers-are-copied-to-a-voter
  return ''
end
local key, last = KEYS[2], 2 + tonumber(ARGV[2])
local now, ends = axis(key)
if not now then
  redis.call('UNLINK', key)
  now, ends = 0, 0
end
local longest = ends
for i = 3, last, 2 do
  local later = now + tonumber(ARGV[i + 1])
  if later > tonumber(redis.call('ZSCORE', key, ARGV[i]) or 0) then
    redis.call('ZADD', key, string.format('%.0f', later), ARGV[i])
    longest = math.max(longest, later)
  end
end
lengthen(key, now, longest, ends)
for i = last + 1, #ARGV do
  leave(key, ARGV[i])
end
shorten()
return '1'

-- Raises the floor of fences of a master that is to vote, and gives it the notes of those who follow the
-- membership.
--
-- KEYS   the membership (states.lua), the floor
-- ARGV   what the master shows, the floor; fields and values of the notes
-- reply  1 done, 0 it shows something else, -2 the floor is more than a day ahead of the master's
--        clock: as with a fence, somebody's clock is wrong, and the master would give no fence until
--        then
-- keeps  the floor is not lowered, and no lower one than was asked for is written: the master would
--        accept fences that are not above all of before
-- from   found.raiseFloor

--include states
if shows() ~= ARGV[1] then --mutant:a-floor-for-another-record
  return 0
end
if tonumber(redis.call('GET', KEYS[2]) or 0) < tonumber(ARGV[2]) then --mutant:a-floor-is-lowered
  --include ahead
  if ahead(tonumber(ARGV[2])) then --mutant:a-floor-that-no-clock-reaches-is-taken
    return -2
  end
  redis.call('SET', KEYS[2], ARGV[2])
end
for i = 3, #ARGV, 2 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
end
return 1

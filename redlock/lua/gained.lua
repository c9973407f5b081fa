-- Notes that the master's clock has gained.
--
-- KEYS   the membership (states.lua)
-- ARGV   what the master shows
-- reply  1 done, 0 it shows something else
-- from   lane.noteGain

--include states
if shows() ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'gained', ms())
return 1

-- Begins a new memory. What the memory before it promised and accepted dies with it; its record stays
-- as a hint.
--
-- KEYS   the membership (states.lua)
-- ARGV   what the master shows, "" for nothing; the new memory's name; what has become of the one
--        before
-- reply  {1, v}
-- keeps  the memory of another is not replaced
-- from   member.NameMemory

--include states
local v = shows()
if v ~= ARGV[1] then --mutant:a-memory-of-another-is-replaced
  return {0, v}
end
local record = redis.call('HGET', KEYS[1], 'r')
redis.call('UNLINK', KEYS[1]) --mutant:promises-outlive-their-memory
v = ARGV[2] .. ' -'
redis.call('HSET', KEYS[1], 'v', v, 'beat', 0, 'why', ARGV[3])
if record then
  redis.call('HSET', KEYS[1], 'r', record)
end
return {1, v}

-- Settles a memory on a record that is chosen.
--
-- KEYS   the membership (states.lua)
-- ARGV   memory; generation, lineage and version of the record; what the master shows then; text of the
--        record
-- reply  {1, v}
-- keeps  it never goes back: neither to a lower generation, nor to the same or a lower version, nor to
--        another lineage of the same generation, from where the memory could come back to what it has
--        left
-- from   survey.teach

--include states
local v = shows()
local memory, record = string.match(v, '^(%S+) (.+)$')
if memory ~= ARGV[1] then --mutant:another-memory-learns
  return {0, v}
end
if settled(record) ~= '-' then
  local generation, lineage, version = string.match(record, '^(%d+)%-(%x+)%.(%d+) ')
  if not generation or tonumber(generation) > tonumber(ARGV[2]) then --mutant:learn-goes-back-a-generation
    return {0, v}
  end
  if tonumber(generation) == tonumber(ARGV[2]) and (lineage ~= ARGV[3] or tonumber(version) >= tonumber(ARGV[4])) then --mutant:learn-goes-to-another-lineage --mutant:learn-goes-back
    return {0, v}
  end
end
redis.call('HSET', KEYS[1], 'v', ARGV[5], 'r', ARGV[6])
redis.call('HDEL', KEYS[1], 'a', 'p') --mutant:promises-outlive-their-record
return {1, ARGV[5]}

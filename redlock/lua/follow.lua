-- A client notes that it goes by the record that this master shows (member/ceiling.go).
--
-- KEYS   the membership (states.lua)
-- ARGV   the client; what the master shows under that record, with its memory; the text of the note, ""
--        to delete it; after how many milliseconds the note of another client is deleted
-- reply  1 noted, 0 the master shows something else
-- keeps  a master that has accepted a child takes no note: whoever has that child chosen reads the notes
--        afterwards, and must find all
-- from   lane.heartbeat

--include states
if shows() ~= ARGV[2] then --mutant:a-note-counts-beside-a-step
  return 0
end
local mine, now, after = 'f:' .. ARGV[1], clock(), tonumber(ARGV[4])
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'f:' and field ~= mine then
    local at = tonumber(string.match(redis.call('HGET', KEYS[1], field), '^(%d+) '))
    if not at or now - at > after or at - now > after then --mutant:a-note-is-deleted-at-once
      redis.call('HDEL', KEYS[1], field)
    end
  end
end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], mine)
else
  redis.call('HSET', KEYS[1], mine, ms() .. ' ' .. ARGV[3])
end
return 1

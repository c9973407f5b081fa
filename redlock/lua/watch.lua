-- Statements of clients about this master's clock (master_trust.go). It stores that of one client, and
-- reads those of the others.
--
-- KEYS   the membership (states.lua)
-- ARGV   the client; the beat up to which it states the clock to be in step, 0 where it does not, -1 to
--        delete its statement; the gain that it has seen, in microseconds, and 0 where that may have been
--        a pause of its own machine; the beat above which it requests a statement, 0 none, -1 the present
--        one; how its keys are padded; after how many milliseconds a statement is deleted
-- reply  {gain, activity, requested, padding, stored}: the least gain of the statements about a beat above
--        the requested one, -1 without one; a text that changes with each statement of a client that
--        watches, "" without one; 1 if a client requests a later beat than this one states; how others
--        pad their keys, if not as this one does, else ""; 1 if the statement is stored, 0 if the memory
--        is full, -1 if there is nothing to store
-- keeps  whether a statement is stale is not decided by this clock, which may have stepped. So an old one is
--        deleted only by a client that leaves its own in the same script
-- from   lane.heartbeat

--include states
local covered, activity, requested, padding, stored, now = -1, '', 0, '', -1, clock()
local mine, beat, first = 'c:' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local counted = tonumber(redis.call('HGET', KEYS[1], 'beat') or 0) or 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'c:' and field ~= mine then
    local text = redis.call('HGET', KEYS[1], field)
    local at, stated, gain, wants, pad = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%S+)$')
    at, stated, gain, wants = tonumber(at), tonumber(stated), tonumber(gain), tonumber(wants)
    if not at or beat > 0 and (now - at > tonumber(ARGV[6]) or at - now > tonumber(ARGV[6])) then --mutant:what-was-said-long-ago-stays --mutant:what-is-said-in-the-future-stays
      redis.call('HDEL', KEYS[1], field)
    else
      if stated > 0 or gain > 0 then --mutant:who-has-seen-a-gain-is-not-heard
        activity = string.format('%.0f', (tonumber(activity) or 0) + at)
      end
      if stated > 0 then
        if pad ~= ARGV[5] then --mutant:who-pads-otherwise-vouches
          padding = pad
        elseif first > 0 and stated > first and stated <= counted and (covered < 0 or gain < covered) then --mutant:told-of-an-earlier-beat
          covered = gain
        end
      end
      if wants > math.max(beat, 0) and wants <= counted then
        requested = 1
      end
    end
  end
end
if beat < 0 then
  redis.call('HDEL', KEYS[1], mine)
elseif shows() ~= '' then
  local wants = first < 0 and string.format('%.0f', counted) or ARGV[4]
  local text = table.concat({ms(), ARGV[2], ARGV[3], wants, ARGV[5]}, ' ')
  stored = type(redis.pcall('HSET', KEYS[1], mine, text)) == 'table' and 0 or 1 --mutant:a-full-master-says-that-nobody-watches
end
return {covered, activity, requested, padding, stored}

-- What clients say of this master's clock (master_trust.go). It keeps what this one says, and returns
-- what the others do.
--
-- KEYS   the membership (states.lua)
-- ARGV   the client; the beat up to which it knows that the clock is in step, 0 if it does not, -1 if
--        it leaves; the gain that it has seen, in microseconds, 0 where it does not know and has seen
--        none that was no pause of its own; the beat above which it wants to be told, 0 none, -1 the
--        present one; how its keys are padded; after how many milliseconds what was said goes
-- reply  {gain, said, asks, padding, kept}: the least gain of those who know more than this one asks
--        for, -1 if nobody does; a text that is another one when somebody who knows whether the clock is
--        in step has said something more, "" where nobody has said anything; 1 if another one asks for a
--        later beat than this one knows of; how others pad their keys who know that the clock is in step,
--        if that is not as this one does, else ""; 1 if what this one says is kept, 0 if it cannot be, -1
--        if there is nothing to keep
-- keeps  this clock does not tell whether somebody still speaks: it may be the clock that has stepped. So
--        what was said too long ago goes only where this one says that it knows
-- from   lane.heartbeat

--include states
local told, sum, asks, padding, kept, now = -1, '', 0, '', -1, clock()
local mine, beat, first = 'c:' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local counted = tonumber(redis.call('HGET', KEYS[1], 'beat') or 0) or 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 2) == 'c:' and field ~= mine then
    local said = redis.call('HGET', KEYS[1], field)
    local at, known, gain, wants, pad = string.match(said, '^(%d+) (%d+) (%d+) (%d+) (%S+)$')
    at, known, gain, wants = tonumber(at), tonumber(known), tonumber(gain), tonumber(wants)
    if not at or beat > 0 and (now - at > tonumber(ARGV[6]) or at - now > tonumber(ARGV[6])) then --mutant:what-was-said-long-ago-stays --mutant:what-is-said-in-the-future-stays
      redis.call('HDEL', KEYS[1], field)
    else
      if known > 0 or gain > 0 then --mutant:who-has-seen-a-gain-is-not-heard
        sum = string.format('%.0f', (tonumber(sum) or 0) + at)
      end
      if known > 0 then
        if pad ~= ARGV[5] then --mutant:who-pads-otherwise-vouches
          padding = pad
        elseif first > 0 and known > first and known <= counted and (told < 0 or gain < told) then --mutant:told-of-an-earlier-beat
          told = gain
        end
      end
      if wants > math.max(beat, 0) and wants <= counted then
        asks = 1
      end
    end
  end
end
if beat < 0 then
  redis.call('HDEL', KEYS[1], mine)
elseif shows() ~= '' then
  local wants = first < 0 and string.format('%.0f', counted) or ARGV[4]
  local said = table.concat({ms(), ARGV[2], ARGV[3], wants, ARGV[5]}, ' ')
  kept = type(redis.pcall('HSET', KEYS[1], mine, said)) == 'table' and 0 or 1 --mutant:a-full-master-says-that-nobody-watches
end
return {told, sum, asks, padding, kept}

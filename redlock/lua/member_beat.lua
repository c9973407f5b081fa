-- A proxy's heartbeat. It raises the beat. If the master has settled on the record that the proxy goes
-- by, it also keeps the stamps that it is given from when they were first given, and notes which seats
-- are heard.
--
-- KEYS   the membership (states.lua)
-- ARGV   of memberBeatArgs: what the master has settled on; 1 if its clock agrees with the proxy's; how
--        many stamps; how many seats are heard; clock_skew_max in milliseconds; the fields of these
--        stamps and seats; the fields of all other seats
-- reply  {beat, v, value of each stamp or ""}, or {0} where no membership is
-- keeps  a stamp is first set only by a proxy whose clock agrees with the master's: what a clock says
--        that is about to be corrected tells no age. Stamps of other listings, and what was heard of
--        other seats, go; but a proxy that is a record behind drops none: it would stop timers
-- from   lane.heartbeat

--include states
--include stamp
local v = shows()
if v == '' then
  return {0}
end
local reply = {redis.call('HINCRBY', KEYS[1], 'beat', 1), v}
local stamps, heard = tonumber(ARGV[3]), tonumber(ARGV[4])
if settled(v) == ARGV[1] then --mutant:a-proxy-that-is-behind-drops-stamps
  local now, keep = ms(), {}
  for i = 6, #ARGV do
    keep[ARGV[i]] = true
    if i < 6 + stamps then
      local begun = age(redis.call('HGET', KEYS[1], ARGV[i]), now, ARGV[5]) --mutant:a-stamp-begins-anew
      if not begun and ARGV[2] == '1' then --mutant:stamps-by-a-clock-that-disagrees
        redis.call('HSET', KEYS[1], ARGV[i], now)
      end
    elseif i < 6 + stamps + heard then
      redis.call('HSET', KEYS[1], ARGV[i], now)
    end
  end
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.find(field, '^[sh]:') and not keep[field] then --mutant:stamps-of-other-listings-stay
      redis.call('HDEL', KEYS[1], field)
    end
  end
end
for i = 6, 5 + stamps do
  reply[#reply + 1] = redis.call('HGET', KEYS[1], ARGV[i]) or ''
end
return reply

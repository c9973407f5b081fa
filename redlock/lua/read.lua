-- Reads keys, all at one moment.
--
-- KEYS   the resources
-- reply  for each its type, its value if it is a string, and how many milliseconds it lives: -1 for
--        ever, -2 it is absent
-- from   writeRead

local held = redis.call('MGET', unpack(KEYS))
local reply = {}
for i = 1, #KEYS do
  reply[#reply + 1] = held[i] and 'string' or redis.call('TYPE', KEYS[i]).ok
  reply[#reply + 1] = held[i] or ''
  reply[#reply + 1] = redis.call('PTTL', KEYS[i])
end
return reply

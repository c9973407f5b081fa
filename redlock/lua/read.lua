-- Reads keys, all at one moment.
--
-- KEYS   the resources
-- ARGV   "1" if it is to be told when they end; else none
-- reply  for each its type, its value if it is a string, and how many milliseconds it lives: -1 for
--        ever, -2 it is absent. If asked for, also the millisecond of this master's clock at which it
--        ends, or again -1 or -2
-- from   writeRead

--include clock
--include ends
local held = redis.call('MGET', unpack(KEYS))
local reply = {}
for i = 1, #KEYS do
  reply[#reply + 1] = held[i] and 'string' or redis.call('TYPE', KEYS[i]).ok
  reply[#reply + 1] = held[i] or ''
  reply[#reply + 1] = redis.call('PTTL', KEYS[i])
  if ARGV[1] then
    reply[#reply + 1] = endOf(KEYS[i])
  end
end
return reply

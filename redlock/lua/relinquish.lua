-- UNLOCK of several keys that one token holds together, or of one by script.
--
-- KEYS   the resources
-- ARGV   token, milliseconds to live (not used), the last millisecond for it by the master's clock, or
--        0 (master_late.go)
-- reply  1 it held them all, 0 it did not: those that it held are gone in either case; -2 it came too
--        late
-- keeps  a key goes only if it holds the token
-- from   writeRelease

--include late
if late(ARGV[3]) then
  return -2
end
local held = redis.call('MGET', unpack(KEYS))
local gone, left = {}, 0
--include leave
for i = 1, #KEYS do
  if held[i] == ARGV[1] then
    gone[#gone + 1] = KEYS[i]
  elseif not held[i] and leave(KEYS[i], 'r:' .. ARGV[1]) then
    left = left + 1
  end
end
shorten()
if #gone > 0 then
  redis.call('UNLINK', unpack(gone))
end
return #gone + left == #KEYS and 1 or 0

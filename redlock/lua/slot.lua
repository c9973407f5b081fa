-- LOCK of one of several slots (op_slots.go): acquire for the slot that is asked for, if it is free, or
-- holds the token, and no other slot holds the token. A key of another type than string is not free.
--
-- KEYS   all slots; with a fence then marks, floor
-- ARGV   token, milliseconds to live, the longest TTL; fence, 0 for none; bound of the marks; number of
--        the slot that is asked for, from 1 on; 0: none
-- reply  what acquire replies for that slot alone. Otherwise nothing is changed, and the reply is -10
--        (slotDenied) less what it has to tell: one bit for each slot that is free, and from bit 32
--        (slotFoundBit) on the number, from 1 on, of another slot that holds the token
-- keeps  one token never holds two slots. A master that holds two, one from a late round and one that a
--        copy gave it, denies both
-- from   writeSlot

local slots, wanted = ARGV[4] == '0' and #KEYS or #KEYS - 2, tonumber(ARGV[6])
local held = redis.call('MGET', unpack(KEYS, 1, slots))
local found = 0
for i = 1, slots do
  if held[i] == ARGV[1] and (found == 0 or found == wanted) then --mutant:a-master-with-two-slots-of-a-token-gives-one
    found = i
  end
end
if wanted == 0 or found ~= wanted and (found > 0 or held[wanted] or redis.call('EXISTS', KEYS[wanted]) == 1) then --mutant:a-token-takes-two-slots
  local free = 0
  for i = 1, slots do
    if not held[i] and redis.call('EXISTS', KEYS[i]) == 0 then --mutant:a-key-of-another-type-is-free
      free = free + 2 ^ (i - 1)
    end
  end
  return -10 - free - found * 2 ^ 32
end
local KEYS, ARGV = {KEYS[wanted], unpack(KEYS, slots + 1)}, {unpack(ARGV, 1, 5)}
--include acquire

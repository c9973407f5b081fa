-- acquire for one of several slots (op_slots.go).
--
-- KEYS   all slots
-- ARGV   token, milliseconds to live, the longest TTL, number of the slot that is asked for, from 1 on;
--        0: none
-- reply  what acquire replies for that slot alone, if it is free, or holds the token, and no other slot
--        holds the token. Otherwise nothing is changed, and the reply is -10 (slotDenied) less what it
--        has to tell: one bit for each slot that is free, and from bit 32 (slotFoundBit) on the number,
--        from 1 on, of another slot that holds the token
-- keeps  one token never holds two slots
-- from   writeSlot

local slots, wanted = KEYS, tonumber(ARGV[4])
--include slot_free
local KEYS, ARGV = {slots[wanted]}, {ARGV[1], ARGV[2], ARGV[3]}
--include acquire

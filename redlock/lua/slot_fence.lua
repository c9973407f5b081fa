-- slot with a fence, of the slot that is asked for.
--
-- KEYS   all slots, marks, floor
-- ARGV   as in slot; then the fence and the bound of the marks
-- reply  what slot and fence reply
-- from   writeSlot

local slots, wanted = {unpack(KEYS, 1, #KEYS - 2)}, tonumber(ARGV[4])
--include slot_free
local KEYS, ARGV = {KEYS[#KEYS - 1], KEYS[#KEYS], slots[wanted]}, {ARGV[1], ARGV[2], ARGV[5], ARGV[6], ARGV[3]}
--include fence

-- A part of slot and slot_fence: the denial. A key of another type than string is not free.

local held = redis.call('MGET', unpack(slots))
local found = 0
for i = 1, #slots do
  if held[i] == ARGV[1] and (found == 0 or i == wanted) then
    found = i
  end
end
if wanted == 0 or found ~= wanted and (found > 0 or held[wanted] or redis.call('EXISTS', slots[wanted]) == 1) then --mutant:a-token-takes-two-slots
  local free = 0
  for i = 1, #slots do
    if not held[i] and redis.call('EXISTS', slots[i]) == 0 then --mutant:a-key-of-another-type-is-free
      free = free + 2 ^ (i - 1)
    end
  end
  return -10 - free - found * 2 ^ 32
end

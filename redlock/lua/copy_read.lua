-- Tells a copier what keys hold (member/copying/ask.go).
--
-- KEYS   the keys
-- ARGV   how many bytes a value has at most; 0 if it need not be told when a key ends
-- reply  two for each key: for how many milliseconds it lives, and what it is. A string as it is; of a
--        set of readers the members, each followed by how long it lasts; -2 it is absent; -1 for what
--        no lock can be: it never ends, is of another type, or too long
-- from   copying.readCommand

local reply, most, keys = {}, tonumber(ARGV[1]), KEYS
if ARGV[2] == '1' then
  keys = {} -- those that end: strangers' values that never do may be large
  for i = 1, #KEYS do
    local left = redis.call('PTTL', KEYS[i])
    reply[2 * i - 1] = left
    if left >= 0 then --mutant:a-key-without-an-end-is-copied
      keys[#keys + 1] = KEYS[i]
    else
      reply[2 * i] = left == -2 and -2 or -1
    end
  end
end
local values, n = #keys > 0 and redis.call('MGET', unpack(keys)), 0
for i = 1, #KEYS do
  if not reply[2 * i] then
    n = n + 1
    local value = values[n]
    if not value then
      --include axis
      local now = axis(KEYS[i])
      if now then
        value = redis.call('ZREVRANGE', KEYS[i], 0, -1, 'WITHSCORES')
        for m = 2, #value, 2 do
          value[m] = string.format('%.0f', value[m] - now)
        end
      else
        value = redis.call('EXISTS', KEYS[i]) == 1 and -1 or -2
      end
    elseif #value > most then
      value = -1
    end
    reply[2 * i - 1], reply[2 * i] = reply[2 * i - 1] or 0, value
  end
end
return reply

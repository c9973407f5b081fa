-- UNLOCK of resources of one key each, many at once. "Remove the key only if it exists and the value
-- stored at the key is exactly the one I expect to be" ("Correct implementation with a single
-- instance").
--
-- KEYS   the resources. One may stand there more than once, with another token each time. The caller
--        bounds how many there are: Lua's unpack fails beyond some thousands
-- ARGV   a token for each; then, if it must not come late, the last millisecond for it by the master's
--        clock (master_late.go)
-- reply  1 all were removed, as nearly always; else one character per key: 1 removed, 0 it holds
--        another token, - it is absent, . nothing was done because it came too late
-- keeps  a key goes only if it holds the token. Of a set of readers the token's goes; where it is not
--        among them, it is absent
-- from   batch.fold, masterConn.flush

--include late
local keys, tokens = KEYS, ARGV
if late(tokens[#keys + 1] or 0) then
  return string.rep('.', #keys)
end
local held = redis.call('MGET', unpack(keys))
local all = true
for i = 1, #keys do
  if held[i] ~= tokens[i] then
    all = false
    break
  end
end
if all then
  redis.call('UNLINK', unpack(keys))
  return 1
end
local gone, reply = {}, {}
--include leave
for i = 1, #keys do
  if held[i] == tokens[i] then
    gone[#gone + 1] = keys[i]
    reply[i] = '1'
  else
    reply[i] = held[i] and '0' or leave(keys[i], 'r:' .. tokens[i]) and '1' or '-'
  end
end
shorten()
if #gone > 0 then
  redis.call('UNLINK', unpack(gone))
end
return table.concat(reply)

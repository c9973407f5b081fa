-- UNLOCK by script. "Remove the key only if it exists and the value stored at the key is exactly the one I
-- expect to be" ("Correct implementation with a single instance"), for many keys at once.
--
-- KEYS   the resources. One may stand there more than once, with another token each time. The caller
--        bounds how many there are: Lua's unpack fails beyond some thousands
-- ARGV   the last millisecond for it by the master's clock, or 0 (master_late.go); a token for each
--        resource, or one for all
-- reply  1 all were removed, as nearly always; else one character per key: 1 removed, 0 it holds another
--        token, - it is absent, . nothing was done because it came too late
-- keeps  a key goes only if it holds the token. Of a set of readers the token's goes; where it is not
--        among them, it is absent
-- from   batch.fold, writeRelease, flushReleases

--include late
if late(ARGV[1]) then
  return string.rep('.', #KEYS)
end
local held, all = redis.call('MGET', unpack(KEYS)), true
for i = 1, #KEYS do
  all = all and held[i] == (ARGV[i + 1] or ARGV[2])
end
if all then
  redis.call('UNLINK', unpack(KEYS))
  return 1
end
local gone, reply = {}, {}
--include leave
for i = 1, #KEYS do
  local token = ARGV[i + 1] or ARGV[2]
  if held[i] == token then --mutant:a-release-takes-what-others-hold
    gone[#gone + 1] = KEYS[i]
    reply[i] = '1'
  else
    reply[i] = held[i] and '0' or leave(KEYS[i], 'r:' .. token) and '1' or '-'
  end
end
shorten()
if #gone > 0 then
  redis.call('UNLINK', unpack(gone))
end
return table.concat(reply)

-- Changes of drop-in clients, of HOLD and of transactions: makes all of them if all their guards hold,
-- and none otherwise.
--
-- KEYS   the resources
-- ARGV   five per key: what it must be (1 absent, 2 the value that follows, 2@1700000000000 the same if
--        the key ends at that millisecond of this master's clock), that value, what to do (1
--        set, 2 delete, 3 live on, 4 set and live on for no less than before), the new value,
--        milliseconds to live: the numbers are those of Was and Do, and doSetLonger. Last, the last
--        millisecond for it by the master's clock, or 0 (master_late.go)
-- reply  1 done, 0 a key is something else, also one of another type than string, -1 the only thing
--        wrong is that keys are absent, -2 it came too late. 2 is done, where the one key is a set of
--        readers, of which one was taken over (4): the new value is a reader's token that lives for no
--        less than the old one. Where that is not in the set, the reply is -1
-- keeps  where a key keeps its value and gets a time to live, its end is moved (moved_exactly.lua)
-- from   writeCommit

--include late
--include ends
--include moved_exactly
if late(ARGV[5 * #KEYS + 1]) then
  return -2
end
local held = redis.call('MGET', unpack(KEYS))
local reply = 1
for i = 1, #KEYS do
  local was, ends = string.match(ARGV[5 * i - 4], '^(%d)@?(.*)$')
  local value = ARGV[5 * i - 3]
  if was == '1' and redis.call('EXISTS', KEYS[i]) == 1 then
    return 0
  end
  if was == '2' and held[i] ~= value then --mutant:a-commit-does-not-compare
    if not held[i] and #KEYS == 1 and ARGV[3] == '4' then
      --include axis
      --include lengthen
      local now, last = axis(KEYS[1])
      local score = now and redis.call('ZSCORE', KEYS[1], 'r:' .. value) --mutant:a-takeover-joins-the-readers
      if score then
        local ends = math.max(tonumber(score), now + tonumber(ARGV[5])) --mutant:a-takeover-shortens-a-reader
        redis.call('ZREM', KEYS[1], 'r:' .. value) --mutant:a-takeover-leaves-the-old-reader
        redis.call('ZADD', KEYS[1], ends, 'r:' .. ARGV[4])
        lengthen(KEYS[1], now, ends, last)
        return 2
      elseif now then
        return -1
      end
    end
    if redis.call('EXISTS', KEYS[i]) == 1 then
      return 0
    end
    reply = -1
  elseif ends ~= '' then
    if endOf(KEYS[i]) ~= tonumber(ends) then --mutant:a-commit-does-not-look-at-the-end
      return 0
    end
  end
end
if reply == 1 then
  for i = 1, #KEYS do
    local what, value, ttl = ARGV[5 * i - 2], ARGV[5 * i - 1], tonumber(ARGV[5 * i])
    if what == '3' or what == '1' and held[i] == value then --mutant:a-commit-does-not-move-the-end
      ttl = movedExactly(redis.call('PTTL', KEYS[i]), ttl)
    end
    if what == '4' then
      ttl = math.max(redis.call('PTTL', KEYS[i]), ttl)
    end
    if what == '1' or what == '4' then
      redis.call('SET', KEYS[i], value, 'PX', ttl)
    elseif what == '2' then
      redis.call('UNLINK', KEYS[i])
    elseif what == '3' then
      redis.call('PEXPIRE', KEYS[i], ttl)
    end
  end
end
return reply

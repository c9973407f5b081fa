-- Takes back what one attempt has set (op_undo.go).
--
-- KEYS   the resources
-- ARGV   four per key: the value that was set; the millisecond of this master's clock at which the key
--        ends if nobody has moved its end (it may be up to endSlackMs earlier); what to do (1 delete, 2
--        put back); the value to put back. In a set of readers the value is a token that is to leave,
--        or to be the one before again
-- reply  how many keys it has taken back
-- keeps  a key whose end was moved stays, because somebody counts on it
-- from   writeUndo

local early = 6 -- endSlackMs, and one
--include leave
--include clock
local held, now, undone = redis.call('MGET', unpack(KEYS)), clock(), 0
for i = 1, #KEYS do
  local value, latest, what, before = ARGV[4 * i - 3], tonumber(ARGV[4 * i - 2]), ARGV[4 * i - 1], ARGV[4 * i]
  local at = not held[i] and axis(KEYS[i])
  local score = at and redis.call('ZSCORE', KEYS[i], 'r:' .. value)
  if held[i] == value or score then --mutant:the-undo-does-not-compare-the-value
    local left = score and score - at or redis.call('PTTL', KEYS[i])
    local ends = now + left
    if left > 0 and ends >= latest - early and ends <= latest + 1 then --mutant:the-undo-does-not-look-at-the-end
      if score and what == '2' then --mutant:a-failed-takeover-takes-the-reader-away
        redis.call('ZREM', KEYS[i], 'r:' .. value)
        redis.call('ZADD', KEYS[i], math.max(tonumber(score), tonumber(redis.call('ZSCORE', KEYS[i], 'r:' .. before) or 0)), 'r:' .. before)
      elseif score then
        leave(KEYS[i], 'r:' .. value)
      elseif what == '1' then
        redis.call('UNLINK', KEYS[i])
      else
        redis.call('SET', KEYS[i], before, 'PX', left)
      end
      undone = undone + 1
    end
  end
end
shorten()
return undone

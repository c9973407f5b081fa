-- A part of other scripts. A script includes it in the branch that needs it, because Redis makes the
-- functions anew with each call.
--
-- axis(key) returns where now is on the axis of a set of readers, or nil if the key is none, and the
-- score of redlockd:end. It removes members that have ended.

local function axis(key)
  if redis.call('TYPE', key).ok ~= 'zset' then
    return nil
  end
  local last, left = redis.call('ZSCORE', key, 'redlockd:end'), redis.call('PTTL', key)
  if not last or left < 0 then --mutant:a-strangers-set-is-taken-for-readers
    return nil
  end
  local now = last - left
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('(%.0f', now))
  return now, tonumber(last)
end

-- A part of other scripts, after axis. readers(key) counts the readers that have not ended.

local function readers(key)
  return redis.call('ZCARD', key) - 1 - (redis.call('ZSCORE', key, 'writer') and 1 or 0)
end

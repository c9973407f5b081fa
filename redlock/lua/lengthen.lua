-- A part of other scripts, after axis, which returns now and last. lengthen has the key of readers live
-- until the score ends at least.

local function lengthen(key, now, ends, last)
  if ends > last then --mutant:the-key-ends-with-the-first-reader
    redis.call('ZADD', key, ends, 'redlockd:end')
    redis.call('PEXPIRE', key, ends - now)
  end
end

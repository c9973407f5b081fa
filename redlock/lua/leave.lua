-- A part of other scripts. leave(key, member) removes a member of a set of readers, and tells whether
-- it was there. A script that has called leave calls shorten at its end, which has the keys live as
-- long as the members that are left: once per key, however many left it.

--include axis
local opened = {}
local function leave(key, member)
  local set = opened[key]
  if not set then
    set = {}
    set.now, set.last = axis(key)
    opened[key] = set
  end
  local left = set.now and redis.call('ZREM', key, member) == 1
  set.left = set.left or left
  return left
end
local function shorten()
  for key, set in pairs(opened) do
    local top = set.left and redis.call('ZREVRANGE', key, 0, 1, 'WITHSCORES')
    if top and #top == 2 then --mutant:a-reader-that-leaves-takes-all-with-it
      redis.call('UNLINK', key)
    elseif top then
      local ends = tonumber(top[1] == 'redlockd:end' and top[4] or top[2])
      if ends ~= set.last then
        redis.call('ZADD', key, ends, 'redlockd:end')
        redis.call('PEXPIRE', key, ends - set.now)
      end
    end
  end
end

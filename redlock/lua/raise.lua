-- The first round of UNLOCK FORCE: raises the mark of a resource, and tells who holds it (op_force.go).
--
-- KEYS   marks, floor, the resource
-- ARGV   fence, bound of the marks, how many readers are listed at most
-- reply  1; or, where the fence is not above the mark, the mark; -2 when it is a day ahead of the
--        master's clock. Then the type of the key, its value if it is a string, when that ends by the
--        master's clock, in milliseconds (0: it never does), how many readers there are (-1: it is no
--        set of readers), their tokens, each with its length and its end in front, and the master's
--        clock
-- keeps  a mark never goes down
-- from   writeRaise

--include axis
--include readers
--include ahead
--include bound_marks
-- From how many bytes on no further reader is listed. One more token fits into a reply, see resp.TextMax.
local most = 60000
local key, fence, reply = KEYS[3], tonumber(ARGV[1]), 1
local kind, value, ends, count, list, bytes = redis.call('TYPE', key).ok, '', 0, -1, {}, 0
local ms = clock()
local at = axis(key)
if kind == 'string' then
  value = redis.call('GET', key)
  local left = redis.call('PTTL', key)
  ends = left > 0 and ms + left or 0
elseif at then
  count = readers(key)
  local members = redis.call('ZREVRANGE', key, 0, ARGV[3] + 1, 'WITHSCORES')
  for i = 1, #members, 2 do
    if string.sub(members[i], 1, 2) == 'r:' and bytes < most then
      list[#list + 1] = string.format('%d:%.0f:', #members[i] - 2, ms + members[i + 1] - at) .. string.sub(members[i], 3)
      bytes = bytes + #members[i] + 20
    end
  end
end
local mark = math.max(tonumber(redis.call('GET', KEYS[2]) or 0), tonumber(redis.call('ZSCORE', KEYS[1], key) or 0))
if ahead(fence) then
  reply = -2
elseif fence <= mark then --mutant:a-forced-release-lowers-the-mark
  reply = mark
else
  redis.call('ZADD', KEYS[1], ARGV[1], key) --mutant:a-forced-release-raises-no-mark
end
boundMarks(KEYS[1], KEYS[2], ARGV[2])
return {reply, kind, value, ends, count, table.concat(list), ms}

-- Gives the learner strings, or removes keys (member/copying/give.go).
--
-- KEYS   the membership (states.lua), then the keys
-- ARGV   what the learner has to have settled on; four for each key: what it holds, as a kind (-
--        nothing, = a string, * whatever it is) and the string; what it is to hold; the milliseconds
--        that it is to live, 0 where it is to be removed
-- reply  one character per key: 1 done, 0 it holds something else by now; "" where the learner shows
--        something else: nothing was done
-- keeps  what a copier sends that was paused meanwhile never meets a voter
-- from   copying.giveCommand

--include states
if settled(shows()) ~= ARGV[1] then --mutant:a-copy-is-written-to-a-voter
  return ''
end
local reply = {}
for i = 2, #KEYS do
  local key, at = KEYS[i], 4 * i - 6
  local kind, had, value, left = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local done = '1'
  if kind == '-' then --mutant:only-the-first-key-of-a-batch-is-given
    done = redis.call('SET', key, value, 'PX', left, 'NX') and '1' or '0'
  else
    local held = redis.call('MGET', key)[1]
    if kind == '=' and held ~= had then --mutant:a-copy-does-not-compare
      done = '0'
    elseif left == '0' then
      redis.call('UNLINK', key)
    elseif held == value then
      if redis.call('PTTL', key) < tonumber(left) then --mutant:a-copy-shortens
        redis.call('PEXPIRE', key, left)
      end
    else
      redis.call('SET', key, value, 'PX', left)
    end
  end
  reply[#reply + 1] = done
end
return table.concat(reply)

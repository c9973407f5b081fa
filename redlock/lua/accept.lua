-- Accepts a child of what the master has settled on.
--
-- KEYS   the membership (states.lua)
-- ARGV   what the master has settled on; ballot, digest and text of the child
-- reply  {1, v}, or {-1, p} where a higher ballot p is promised
-- keeps  a promise is not broken. An accepted ballot is promised
-- from   survey.step

--include states
local v = shows()
if settled(v) ~= ARGV[1] then --mutant:a-child-of-another-parent-is-accepted
  return {0, v}
end
local promised = redis.call('HGET', KEYS[1], 'p')
if promised and below(ARGV[2], promised) then --mutant:a-promise-is-broken
  return {-1, promised}
end
v = ARGV[1] .. ' ? ' .. ARGV[2] .. ' ' .. ARGV[3]
redis.call('HSET', KEYS[1], 'v', v, 'a', ARGV[4], 'p', ARGV[2]) --mutant:an-accepted-ballot-is-no-promise
return {1, v}

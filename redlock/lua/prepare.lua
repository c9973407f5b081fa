-- Promises a ballot for a child of what the master has settled on.
--
-- KEYS   the membership (states.lua)
-- ARGV   what the master has settled on; ballot
-- reply  {1, ballot, digest and text of the child that it has accepted}, all "" for none; {-1, p} where
--        the ballot p, as high or higher, is promised already
-- keeps  a promise is never lowered, and is about one parent
-- from   survey.step

--include states
local v = shows()
if settled(v) ~= ARGV[1] then --mutant:a-ballot-for-another-parent-is-promised
  return {0, v}
end
local promised = redis.call('HGET', KEYS[1], 'p')
if promised and not below(promised, ARGV[2]) then --mutant:a-promise-is-lowered
  return {-1, promised}
end
redis.call('HSET', KEYS[1], 'p', ARGV[2])
local ballot, digest = string.match(v, ' %? (%S+) (%S+)$')
if ballot then --mutant:an-accepted-child-is-not-told
  return {1, ballot, digest, redis.call('HGET', KEYS[1], 'a') or ''}
end
return {1, '', '', ''}

-- A part of other scripts. moved tells for how many milliseconds a key is to live that holds the token
-- already and has left milliseconds to live: at least ttl, and so that an undo of the attempt that set
-- it leaves it alone. A key with more than longest, the longest TTL, left has been moved before and is
-- not moved again, so that ends do not run away.

local endMove = 8 -- milliseconds: endMove of op_undo.go --mutant:ends-are-not-moved-far-enough
local function moved(left, ttl, longest)
  if left > longest or ttl >= left + endMove then --mutant:moved-ends-run-away
    return math.max(left, ttl)
  end
  return left + endMove
end

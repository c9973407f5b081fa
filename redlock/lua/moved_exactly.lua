-- A part of other scripts: moved for who asks for exactly ttl, which may be less than is left.

local endMove = 8 -- milliseconds: endMove of op_undo.go
local function movedExactly(left, ttl)
  if left > 0 and math.abs(ttl - left) < endMove then
    return left + endMove
  end
  return ttl
end

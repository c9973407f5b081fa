-- A part of other scripts. age returns how many milliseconds old a stamp is that this master has, when
-- its clock says now; nil if it has none, or one that is no number, or is ahead of its clock by more
-- than skew (clock_skew_max): the clock was wrong then. Such a stamp may be written over. Go code reads
-- stamps with member.StampAge.
local function age(stamp, now, skew)
  local at = string.match(stamp or '', '^%d+$') --mutant:a-stamp-that-is-no-number-stays
  if at and at - now <= tonumber(skew) then --mutant:a-stamp-of-the-future-stays
    return math.max(0, now - at)
  end
end

-- A part of other scripts. late(latest) tells whether the master's clock is past latest, in
-- milliseconds. 0 is never.

--include clock
local function late(latest)
  return tonumber(latest) > 0 and clock() > tonumber(latest) --mutant:what-comes-too-late-is-done
end

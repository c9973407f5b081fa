-- A part of other scripts. ahead(fence) tells whether a fence is more than a day ahead of the master's
-- clock: the clock of somebody is wrong. A fence is milliseconds since 2000, times 4096 (fence/fence.go).
--include clock
local function ahead(fence)
  return fence > (clock() - 946684800000 + 86400000) * 4096 --mutant:a-fence-that-no-clock-reaches-is-taken
end

package redlock

// Goal: a number that stands in a script and in the Go code is the same in both. Method: the text of the script.

import (
	"fmt"
	"strings"
	"testing"

	"redlockd/redlock/lua"
)

func TestNumbersInScripts(t *testing.T) {
	ahead := fmt.Sprintf("(clock() - %d + %d) * %d\n", fenceOriginMs, fenceAheadMax.Milliseconds(), 1<<fenceCounterBits)
	for _, tc := range []struct {
		script lua.Script
		want   string
	}{
		{lua.Acquire, fmt.Sprintf(`string.sub(held, 1, %d) == '\000%s' and #held >= %d`, len(VersionMark), VersionMark[1:], versionEnd)},
		{lua.Acquire, fmt.Sprintf("string.sub(held, %d, %d) == string.sub(ARGV[1], %[1]d, %[2]d)", lineageAt+1, generationAt)},
		{lua.Acquire, fmt.Sprintf("string.byte(held, %d) * 256 + string.byte(held, %d)", generationAt+1, generationAt+2)},
		{lua.Acquire, fmt.Sprintf("local endMove = %d\n", endMoveMs)},
		{lua.Commit, fmt.Sprintf("local endMove = %d\n", endMoveMs)},
		{lua.Undo, fmt.Sprintf("local early = %d\n", endSlackMs+1)},
		{lua.Slot, fmt.Sprintf("return %d - free - found * 2 ^ %d\n", slotDenied, slotFoundBit)},
		{lua.Acquire, ahead},
		{lua.Raise, ahead},
		{lua.AdmitFloor, ahead},
		{lua.AdmitFloor, fmt.Sprintf("return %d\n", fenceAhead)},
		{lua.Clamp, fmt.Sprintf("string.sub(KEYS[i], 1, %d) == '%s'", len(ReservedPrefix), ReservedPrefix)},
	} {
		if !strings.Contains(tc.script.Text, tc.want) {
			t.Errorf("%s.lua: there is no %q in it", tc.script.Name, tc.want)
		}
	}
}

package fence

// Fences by the numbers: what the clock gives, and which marks and floors of a master are believed.

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/lua"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func TestClock(t *testing.T) {
	const second = 1000 << CounterBits
	at := Time(noon)
	end := Time(noon.Add(AheadMax))
	for _, tt := range []struct {
		name  string
		clock Clock
		marks []int64 // observed against fences made at noon
		want  int64   // at noon
		later int64   // a minute later
	}{
		{"first", Clock{}, nil, at, at + 60*second},
		{"again", Clock{Last: at}, nil, at + 1, at + 60*second},
		{"ahead", Clock{AheadMax: 9 * second}, []int64{at + 5*second}, at + 5*second + 1, at + 65*second},
		{"still ahead", Clock{AheadMax: 9 * second}, []int64{at + 5*second, at + 2*second}, at + 5*second + 1, at + 65*second},
		{"too far ahead", Clock{AheadMax: 3 * second}, []int64{at + 5*second}, at + 5*second + 1, at + 63*second},
		{"a mark of before", Clock{AheadMax: 9 * second}, []int64{at - 5*second}, at, at + 60*second},
		{"as far as masters accept", Clock{Last: end}, nil, end + 1, end + 2},
		{"farther", Clock{Last: end + 1}, nil, at, at + 60*second},
	} {
		for _, mark := range tt.marks {
			tt.clock.Observe(mark, noon)
		}
		if got := tt.clock.Next(noon); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got-at, tt.want-at)
		}
		if got := tt.clock.Next(noon.Add(time.Minute)); got != tt.later {
			t.Errorf("%s: a minute later: got %d, want %d", tt.name, got-at, tt.later-at)
		}
	}
}

func TestReadHighWater(t *testing.T) {
	const skew = time.Second
	highest := Highest(noon, skew)
	wrong, gone := errors.New("WRONGTYPE Operation against a key holding the wrong kind of value"), errors.New("EOF")
	if mark, ok := Of(0); mark != 0 || !ok {
		t.Errorf("a mark of 0: got %d, %v, want 0, true", mark, ok)
	}
	if mark, ok := Of(1 << 53); ok {
		t.Errorf("a mark of 2^53: got %d, which is no fence", mark)
	}
	for _, tt := range []struct {
		name            string
		floor           string
		floorErr        error
		mark            float64 // 0: there is none
		topErr          error
		want            int64
		untrue, failure string // what it names
	}{
		{name: "nothing", floorErr: redis.Nil},
		{name: "a floor", floor: "7", want: 7},
		{name: "a mark", floorErr: redis.Nil, mark: 7, want: 7},
		{name: "a higher mark", floor: "7", mark: 9, want: 9},
		{name: "a higher floor", floor: "9", mark: 7, want: 9},
		{name: "the highest", floor: strconv.FormatInt(highest, 10), mark: float64(highest), want: highest},
		{name: "a floor that is too high", floor: strconv.FormatInt(highest+1, 10), untrue: lua.FloorKey},
		{name: "a mark that is too high", mark: float64(highest + 1), untrue: lua.MarksKey},
		{name: "a floor that is no number", floor: "x", untrue: lua.FloorKey},
		{name: "a negative mark", mark: -1, untrue: lua.MarksKey},
		{name: "a mark beyond all fences", mark: 1 << 53, untrue: lua.MarksKey},
		{name: "a floor of another type", floorErr: wrong, untrue: lua.FloorKey},
		{name: "marks of another type", topErr: wrong, untrue: lua.MarksKey},
		{name: "no answer", floorErr: gone, failure: lua.FloorKey},
		{name: "half an answer", topErr: gone, failure: lua.MarksKey},
	} {
		var top []redis.Z
		if tt.mark != 0 {
			top = []redis.Z{{Score: tt.mark}}
		}
		high, untrue, err := ReadHighWater(redis.NewStringResult(tt.floor, tt.floorErr), redis.NewZSliceCmdResult(top, tt.topErr), noon, skew)
		switch {
		case (err != nil) != (tt.failure != "") || err != nil && !strings.Contains(err.Error(), tt.failure):
			t.Errorf("%s: got the error %v, want one about %q", tt.name, err, tt.failure)
		case (untrue != "") != (tt.untrue != "") || untrue != "" && !strings.Contains(untrue, "its "+tt.untrue) && !strings.Contains(untrue, "mark in "+tt.untrue):
			t.Errorf("%s: got that it cannot be true: %q, want about %q", tt.name, untrue, tt.untrue)
		case err == nil && untrue == "" && high != tt.want:
			t.Errorf("%s: got %d, want %d", tt.name, high, tt.want)
		}
	}
}

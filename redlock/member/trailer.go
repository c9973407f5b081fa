package member

import (
	"fmt"
	"strconv"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

// Trailer is what the master replied to the two commands that every pipeline ends with. They stand
// behind the commands whose votes they judge: whatever made the master forget before it executed one of
// those shows here. They are two per pipeline, not per operation.
type Trailer struct {
	// Shown is the field v of lua.MembersKey; "": there is none.
	Shown string
	Beat  int64     // 0: it is missing or no number
	Clock time.Time // the answer to TIME
}

// TrailerCommands are HMGET of what the master shows and of the beat, and TIME.
var TrailerCommands = func() []byte {
	var w conn.Wire
	w.Array(4)
	for _, word := range []string{"hmget", lua.MembersKey, "v", "beat"} {
		w.Bulk(word)
	}
	w.Array(1)
	w.Bulk("time")
	return w.Out
}()

// ReadTrailer reads the replies to TrailerCommands. shown is the value to expect, which needs no memory
// of its own.
func ReadTrailer(w *conn.Wire, shown string) (end Trailer, err error) {
	if err := w.Head(2); err != nil {
		return end, fmt.Errorf("HMGET of the membership: %w", err)
	}
	value, err := w.ReadReply()
	if err != nil {
		return end, err
	}
	if end.Shown = shown; !value.Is(shown) {
		end.Shown = string(value.Text)
	}
	beat, err := w.ReadReply()
	if err != nil {
		return end, err
	}
	end.Beat, _ = beat.Int()
	end.Clock, err = ReadTime(w)
	return end, err
}

// ReadTime reads the reply to TIME.
func ReadTime(w *conn.Wire) (time.Time, error) {
	if err := w.Head(2); err != nil {
		return time.Time{}, fmt.Errorf("TIME: %w", err)
	}
	var clock [2]int64
	for i := range clock {
		part, err := w.ReadReply()
		if err != nil {
			return time.Time{}, err
		}
		n, ok := part.Int()
		if !ok {
			return time.Time{}, fmt.Errorf("TIME: %w", conn.ProtocolError(part))
		}
		clock[i] = n
	}
	return time.Unix(clock[0], clock[1]*1000), nil
}

// TrailerOf is the same for what go-redis has read: the fields, and the clock.
func TrailerOf(fields []any, clock time.Time) Trailer {
	end := Trailer{Clock: clock}
	for i, value := range fields {
		switch text, _ := value.(string); i {
		case 0:
			end.Shown = text
		case 1:
			end.Beat, _ = strconv.ParseInt(text, 10, 64)
		}
	}
	return end
}

package redlock

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

// trailer is what the master replied to the two commands that every pipeline ends with. They stand behind the commands whose votes they
// judge: whatever made the master forget before it executed one of those shows here. They are two per pipeline, not per operation.
type trailer struct {
	// shown is the field v of lua.MembersKey; "": there is none.
	shown string
	beat  int64     // 0: it is missing or no number
	clock time.Time // the answer to TIME
}

// trailerCommands are HMGET of what the master shows and of the beat, and TIME.
var trailerCommands = func() []byte {
	var w conn.Wire
	w.Array(4)
	for _, word := range []string{"hmget", lua.MembersKey, "v", "beat"} {
		w.Bulk(word)
	}
	w.Array(1)
	w.Bulk("time")
	return w.Out
}()

// readTrailer reads the replies to trailerCommands. shown is the value to expect, which needs no memory of its own.
func readTrailer(w *conn.Wire, shown string) (end trailer, err error) {
	if err := w.Head(2); err != nil {
		return end, fmt.Errorf("HMGET of the membership: %w", err)
	}
	value, err := w.ReadReply()
	if err != nil {
		return end, err
	}
	if end.shown = shown; !value.Is(shown) {
		end.shown = string(value.Text)
	}
	beat, err := w.ReadReply()
	if err != nil {
		return end, err
	}
	end.beat, _ = beat.Int()
	end.clock, err = readTime(w)
	return end, err
}

// readTime reads the reply to TIME.
func readTime(w *conn.Wire) (time.Time, error) {
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

// trailerOf is the same for a pipeline of go-redis.
func trailerOf(fields *redis.SliceCmd, clock *redis.TimeCmd) trailer {
	end := trailer{clock: clock.Val()}
	for i, value := range fields.Val() {
		switch text, _ := value.(string); i {
		case 0:
			end.shown = text
		case 1:
			end.beat, _ = strconv.ParseInt(text, 10, 64)
		}
	}
	return end
}

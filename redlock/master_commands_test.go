package redlock

// Goal: each reply that a master may send becomes the vote that it is, an error of the master refuses that one command, and all else ends the connection,
// because the next reply may belong to another command. Method: replies as bytes, to one command of each verb.

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/quorum"
)

// textSocket is a connection from which a text comes.
type textSocket struct {
	net.Conn
	io.Reader
}

func (s textSocket) Read(p []byte) (int, error) { return s.Reader.Read(p) }
func (textSocket) Write(p []byte) (int, error)  { return len(p), nil }
func (textSocket) SetDeadline(time.Time) error  { return nil }

// wireText is a text as it comes from a master: a blank stands for the end of a line, and _ for a blank.
func wireText(text string) string {
	return strings.NewReplacer(" ", "\r\n", "_", " ").Replace(text) + "\r\n"
}

// replied has a batch of one round read this reply to its command. refused is the master's own error.
func (p *proxy) replied(r *round, arms bool, text string) (b *batch, v quorum.Vote, refused, err error) {
	b = newBatch(p.fleet.view.Load().masters[0], &conn.Conn{})
	b.wire.Socket = textSocket{Reader: strings.NewReader(wireText(text))}
	b.rounds, b.votes = []*round{r}, []quorum.Vote{quorum.Unknown}
	err = b.readCommand(command{round: 0, arms: arms})
	if refused = b.err; refused == nil {
		refused = b.refusal
	}
	if err == nil && !b.wire.In.Drained() {
		err = fmt.Errorf("not all of the reply was read")
	}
	return b, b.votes[0], refused, err
}

func TestWhatMastersReply(t *testing.T) {
	const nonsense, refuses = "nonsense", "refuses" // in the place of a vote: the connection ends, or the master refuses the command
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		mark := fence.Time(time.Now())
		tooHigh := fence.HighestBelieved(time.Now(), p.opts.ClockSkewMax)
		vote := func(v quorum.Vote) string { return fmt.Sprint(v) }
		granted, denied, absent, abstained := vote(quorum.Granted), vote(quorum.Denied), vote(quorum.Absent), vote(quorum.Abstained)
		for verb, replies := range map[verb]map[string]string{
			verbSet:           {"+OK": granted, "$-1": denied, "-BUSY": refuses, "$2 OK": nonsense, ":1": nonsense, ":-1": nonsense, "*0": nonsense},
			verbAcquire:       {":1": granted, ":2": vote(quorum.AlreadyMine), ":0": denied, ":-1": absent, ":-2": abstained, ":-3": denied, ":3": nonsense, "-OOM": refuses, "$1 1": nonsense, "$-1": nonsense, "+OK": nonsense},
			verbExtend:        {":1": granted, ":0": denied, ":-1": absent, ":-2": abstained, ":3": vote(quorum.AsReader), ":4": denied, ":5": absent, ":2": nonsense, ":6": nonsense, "$3 abc": nonsense, "$4 abcd": nonsense, "-ERR": refuses},
			verbRelease:       {":1": granted, ":0": denied, ":-1": absent, "$1 1": granted, "$1 0": denied, "$1 -": denied, "$1 .": abstained, "$1 x": nonsense, "$2 11": nonsense, "$0 ": nonsense, "-WRONGTYPE_x": denied, "-READONLY": refuses, ":7": nonsense},
			verbUndo:          {":0": granted, ":3": granted, ":-1": nonsense, "$1 1": nonsense, "+1": nonsense, "-ERR": refuses},
			verbForceCallers:  {":1": granted, ":2": vote(quorum.Renewed), ":0": denied},
			verbCommitReplace: {":1": granted, ":2": vote(quorum.AsReader), ":0": denied, ":-2": abstained},
			verbWithdraw:      {":1": granted, ":0": denied, ":2": nonsense},
			verbPublish:       {":0": granted, ":5": granted, "-NOPERM": refuses, "+OK": nonsense},
			verbStoreScript:   {"+OK": granted, "-OOM": refuses, ":1": nonsense, "$-1": nonsense},
			verbObserve: {"$1 T :500 $-1": granted, "$-1 :-2 $-1": absent, "$1 T :-2 $-1": absent, "$1 T :-1 $-1": granted, "-WRONGTYPE_x :500 $-1": granted, "-ERR :500 $-1": refuses, "$1 T -ERR $-1": refuses,
				"$1 T :500 -ERR": refuses, "$1 T $3 500 $-1": nonsense, ":1 :500 $-1": nonsense, "$1 T :500 :1": nonsense, "$1 T :500 $1 x": refuses, "$1 T :500 $2 42": granted, "$1 T :500": nonsense, "$1 T": nonsense},
			verbInspect: {"*5 $6 string $1 T :500 $0  :-1": granted, "*5 $4 none $0  :-2 $0  :-1": absent, "*5 $4 zset $0  :500 $2 42 :2": granted, "*5 $4 zset $0  :500 $0  :0": granted, "*5 $4 hash $0  :500 $0  :-1": refuses,
				"*5 $6 string $1 T :500 $1 x :-1": refuses, "*4 $6 string $1 T :500 $0 ": nonsense, "-ERR": refuses, "$5 abcde": nonsense, "*5 $6 string $1 T $1 5 $0  :-1": nonsense, "*5 $6 string -ERR :500 $0  :-1": refuses, "*5 $6 string": nonsense},
			verbAnnounce: {"*2 $6 string :500": granted, "*2 $4 zset :500": granted, "*2 $4 none :-2": granted, "-ERR": refuses, "*3 $4 zset :500 :1": nonsense, "*2 -ERR :500": refuses, "*2 :1 :500": nonsense, "*2 $4 zset": nonsense},
			verbRead:     {"*3 $6 string $1 T :500": granted, "*3 $4 none $0  :-2": granted, "-ERR": refuses, "*3 $6 string -ERR :500": refuses, "*4 $6 string $1 T :500 :1": nonsense, "*3 :1 $1 T :500": nonsense, "*3 $6 string $1 T": nonsense},
		} {
			for text, want := range replies {
				r := &round{verb: verb, token: "T", start: time.Now(), view: p.fleet.view.Load(), answers: make([]answer, 3)}
				r.setKeys("r")
				b, v, refused, err := p.replied(r, false, text)
				got := vote(v)
				switch {
				case err != nil:
					got = nonsense
				case refused != nil:
					if got = refuses; v != quorum.Abstained {
						s.Errorf("verb %d, %q: refused, and the vote is %v", verb, text, v)
					}
				}
				if got != want {
					s.Errorf("verb %d, %q: got %s (%v, %v), want %s", verb, text, got, refused, err, want)
				}
				if part := r.flags.Load()&flagPart != 0; part != (verb == verbExtend && (text == ":4" || text == ":5")) {
					s.Errorf("verb %d, %q: holds a part of the keys %t", verb, text, part)
				}
				if counts := want != nonsense && want != refuses; verbs[verb].answers && counts != (len(b.readings) == 1 && b.readings[0].round == r) && verb != verbObserve {
					s.Errorf("verb %d, %q: %d readings", verb, text, len(b.readings))
				}
			}
		}
		// What is read of a key, and that a change of it is announced.
		for text, want := range map[string]answer{
			"$1 T :500 $2 42":       {known: true, found: true, value: "T", ttl: 500 * ms, mark: 42},
			"$-1 :-2 $-1":           {known: true, ttl: -2 * ms},
			"-WRONGTYPE_x :500 $-1": {known: true, found: true, ofReaders: true, ttl: 500 * ms},
		} {
			for armed, first := range map[bool]string{true: "+OK ", false: "-NOPERM "} {
				r := &round{verb: verbObserve, answers: make([]answer, 3)}
				r.setKeys("r")
				b, _, _, err := p.replied(r, true, first+text)
				if want.armed = armed; err != nil || fmt.Sprint(b.readings[0].answer) != fmt.Sprint(want) {
					s.Errorf("%q: got %+v, %v; want %+v", first+text, b.readings, err, want)
				}
			}
		}
		if _, _, _, err := p.replied(&round{verb: verbObserve, keys: []string{"r"}}, true, ":1 $1 T :500 $-1"); err == nil {
			s.Error("CLIENT CACHING is answered with a number: it is believed")
		}
		reader := (&round{verb: verbAudit, keys: []string{"r"}, answers: make([]answer, 3)}).asReader(true)
		if _, v, refused, err := p.replied(reader, false, "-WRONGTYPE_x :500 $-1"); v != quorum.Absent || refused != nil || err != nil {
			s.Errorf("a reader's place where a writer is: got %v, %v, %v; want absent", v, refused, err)
		}
		for text, want := range map[string]answer{
			"*5 $4 zset $0  :500 $2 42 :2":   {known: true, found: true, kind: "zset", ttl: 500 * ms, mark: 42, ofReaders: true, readers: 2},
			"*5 $4 zset $0  :500 $0  :0":     {known: true, found: true, kind: "zset", ttl: 500 * ms, ofReaders: true},
			"*5 $6 string $1 T :500 $0  :-1": {known: true, found: true, kind: "string", value: "T", ttl: 500 * ms},
		} {
			b, _, _, _ := p.replied(&round{verb: verbInspect, keys: []string{"r"}}, false, text)
			if fmt.Sprint(b.readings[0].answer) != fmt.Sprint(want) {
				s.Errorf("%q: got %+v, want %+v", text, b.readings[0].answer, want)
			}
		}
		for text, ofReaders := range map[string]bool{"*2 $4 zset :500": true, "*2 $6 string :500": false, "*2 $4 none :-2": false} {
			b, _, _, _ := p.replied(&round{verb: verbAnnounce, keys: []string{"r"}}, false, text)
			if a := b.readings[0].answer; a.ofReaders != ofReaders || a.found != !strings.Contains(text, "none") {
				s.Errorf("%q: got %+v", text, a)
			}
		}
		// Which of several keys is in the way, where somebody wants to know, and marks that fences are below.
		for text, want := range map[string]int32{":-3": 0, ":-4": 1, ":-5": 1, ":-99": 1} {
			r := &round{verb: verbAcquire, keys: []string{"a", "b"}, answers: make([]answer, 3)}
			b, v, _, err := p.replied(r, false, text)
			if v != quorum.Denied || err != nil || b.readings[0].answer.denier != want {
				s.Errorf("%s: got %v, %v, key %+v; want denied by key %d", text, v, err, b.readings, want)
			}
			r.answers = nil
			if b, v, _, _ := p.replied(r, false, text); v != quorum.Denied || len(b.readings) != 0 {
				s.Errorf("%s, and nobody wants to know: got %v, %d readings", text, v, len(b.readings))
			}
		}
		for name, tt := range map[string]struct {
			text    string
			before  int64
			want    quorum.Vote
			refused bool
			mark    int64
		}{
			"its own":           {fmt.Sprint(":", mark), 0, quorum.Stale, false, mark},
			"one above it":      {fmt.Sprint(":", mark+1), 0, quorum.Stale, false, mark + 1},
			"one below another": {fmt.Sprint(":", mark+1), mark + 9, quorum.Stale, false, mark + 9},
			"one above another": {fmt.Sprint(":", mark+9), mark + 1, quorum.Stale, false, mark + 9},
			"the highest":       {fmt.Sprint(":", tooHigh), 0, quorum.Stale, false, tooHigh},
			"too high":          {fmt.Sprint(":", tooHigh+1), 0, quorum.Abstained, true, 0},
			"too far ahead":     {fmt.Sprint(":", fence.Ahead), 0, quorum.Abstained, true, 0},
			"granted":           {":1", 0, quorum.Granted, false, 0},
			"another's":         {":0", 0, quorum.Denied, false, 0},
		} {
			r := &round{verb: verbAcquire, keys: []string{"a"}, fence: mark}
			r.mark.Store(tt.before)
			if _, v, refused, err := p.replied(r, false, tt.text); v != tt.want || (refused != nil) != tt.refused || err != nil || r.mark.Load() != tt.mark {
				s.Errorf("a mark, %s: got %v, %v, %v, the mark %d; want %v, refused %t, %d", name, v, refused, err, r.mark.Load(), tt.want, tt.refused, tt.mark)
			}
		}
		r := &round{verb: verbAcquire, keys: []string{"a"}, fence: mark}
		if _, _, _, err := p.replied(r, false, fmt.Sprint("$", 3, " abc")); err == nil {
			s.Error("a text in the place of a mark is believed")
		}
		for text, want := range map[string]quorum.Vote{"$2 11": quorum.Granted, "$2 10": quorum.Denied, "$2 1-": quorum.Denied, "$2 1.": quorum.Abstained} {
			if _, v, _, err := p.replied(&round{verb: verbRelease, keys: []string{"a", "b"}}, false, text); v != want || err != nil {
				s.Errorf("a release of two, %q: got %v, %v; want %v", text, v, err, want)
			}
		}
		high := fence.Highest(time.Now(), p.opts.ClockSkewMax)
		b := newBatch(p.fleet.view.Load().masters[0], &conn.Conn{})
		for text, ok := range map[string]bool{"42": true, fmt.Sprint(high): true, fmt.Sprint(high + 1): false, "x": false, "-1": false, "1e400": false} {
			if got, err := b.markIn([]byte(text)); (err == nil) != ok || ok && fmt.Sprint(got) != text {
				s.Errorf("the mark %s: got %d, %v", text, got, err)
			}
		}
	})
}

// The replies to calls that carry several rounds: each gets what it would be answered alone.
func TestWhatMastersReplyToSeveral(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		read := func(readers bool, text string) (votes string, err error) {
			b := newBatch(p.fleet.view.Load().masters[0], &conn.Conn{})
			b.wire.Socket = textSocket{Reader: strings.NewReader(wireText(text))}
			for range 3 {
				b.rounds, b.votes = append(b.rounds, &round{verb: map[bool]verb{true: verbJoin, false: verbRelease}[readers], keys: []string{"r"}}), append(b.votes, quorum.Unknown)
			}
			if readers {
				err = b.readReaders([]int32{0, 1, 2})
			} else {
				err = b.readFolded([]int32{0, 1, 2})
			}
			return fmt.Sprint(b.votes), err
		}
		of := func(votes ...quorum.Vote) string { return fmt.Sprint(votes) }
		const g, d, a, n = quorum.Granted, quorum.Denied, quorum.Absent, quorum.Abstained
		for _, tt := range []struct {
			readers bool
			text    string
			want    string // "": nonsense
		}{
			{false, ":1", of(g, g, g)}, {false, "$3 10-", of(g, d, a)}, {false, "$3 1.1", of(g, n, g)}, {false, "-READONLY", of(n, n, n)},
			{false, "$2 11", ""}, {false, "$4 1111", ""}, {false, ":3", ""}, {false, ":0", ""}, {false, "+111", ""}, {false, "$3 1x1", ""}, {false, "$3 1", ""},
			{true, "*3 :1 :0 :2", of(g, d, quorum.AlreadyMine)}, {true, "-OOM", of(n, n, n)}, {true, "*3 :1 -ERR :1", of(g, n, g)},
			{true, "*2 :1 :1", ""}, {true, "$3 111", ""}, {true, ":3 :1 :1 :1", ""}, {true, "*3 :1 +OK :1", ""}, {true, "*3 :1", ""},
		} {
			got, err := read(tt.readers, tt.text)
			if (err != nil) != (tt.want == "") || err == nil && got != tt.want {
				s.Errorf("readers %t, %q: got %s, %v; want %q", tt.readers, tt.text, got, err, tt.want)
			}
		}
	})
}

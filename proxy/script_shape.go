package proxy

import (
	"bytes"
	cryptorand "crypto/rand"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/sandbox"
)

// What a lock script does is, but for names, the same each time: a release that finds its token deletes the key and answers 1,
// whatever key and token are. Where that is proved of a script (sandbox.Steering) a run is remembered as a shape, which stands
// for all runs that differ in names alone. A call of a kind that was there before takes no run.
//
// The kind of a call is all that can steer the script: how many keys and arguments there are, which keys exist, which of the
// tokens and of the values that keys hold are the same, and the arguments that steer. Nothing else makes a difference to the
// outcome, except that it is named there.
//
// A shape is learned by running the script on strangers in the place of all names: where they turn up in the outcome the names
// belong. That is done twice, with other strangers, at another time, and both must agree. An outcome that names
// something in its reply, that depends on a TTL that was there before or on the time, makes no shape.

// Bounds of the shapes. At that of their number calls of other kinds have the VM run; after shapesStale of these the shapes of the
// script are forgotten, as they may be of calls that do not come any more.
const (
	shapesMax     = 32 // of one script
	shapesStale   = 10_000
	shapeKeys     = 4
	shapeArgs     = 8
	shapeSteerMax = 16      // bytes of an argument that steers
	shapeTTLMax   = 1 << 40 // ms
)

// shape is an outcome that has numbers for names.
type shape struct {
	reply  sandbox.Reply
	blind  bool
	reads  []shapeRead
	writes []shapeWrite
}

// of is the place of the key among KEYS, value the number of a name.
type (
	shapeRead struct {
		of   int
		read keyRead
	}
	shapeWrite struct {
		of, value int
		write     keyWrite
	}
)

// knownShape is the shape of a kind of calls; nil: they make none.
type knownShape struct {
	kind  string
	shape *shape
}

// shapes are those of one script.
type shapes struct {
	known    atomic.Pointer[[]knownShape] // few: looked through from the first
	others   atomic.Int32                 // calls of other kinds since there is no room for more
	learning sync.Mutex                   // held by who replaces known
}

// names are what a script sees by name alone, each once, by numbers in the order in which they come in a call: the values
// that keys hold, and the tokens.
type names struct {
	list  [shapeKeys + shapeArgs]string
	count int
}

func (n *names) number(name string) byte {
	for i := range n.list[:n.count] {
		if n.list[i] == name {
			return byte(i)
		}
	}
	n.list[n.count] = name
	n.count++
	return byte(n.count - 1)
}

// nobody stands in a kind for what a key does not hold.
const nobody = 0xff

// kind appends the kind of the call to room: two numbers, one byte for each key, one for each token, the arguments that steer.
// It is nil for a call that has the VM run in any case.
func (x *scriptExchange) kind(room []byte, n *names) []byte {
	steering := x.script.Steering()
	if steering == nil || x.readOnly || len(x.keys) == 0 || len(x.keys) > shapeKeys || len(x.keys) != len(x.declared) || len(x.argv) > shapeArgs {
		return nil
	}
	kind := append(room, byte(len(x.keys)), byte(len(x.argv)))
	for i, key := range x.keys {
		switch st := &x.states[i]; {
		case strings.HasPrefix(key, redlock.ReservedPrefix) || len(st.Value) > redlock.MaxTokenLen:
			return nil
		case st.Found:
			kind = append(kind, n.number(st.Value))
		default:
			kind = append(kind, nobody)
		}
	}
	for i := range argsIn(steering.Tokens, len(x.argv)) {
		if len(x.argv[i]) > redlock.MaxTokenLen {
			return nil
		}
		kind = append(kind, n.number(x.argv[i]))
	}
	for i := range argsIn(steering.Args, len(x.argv)) {
		if len(x.argv[i]) > shapeSteerMax {
			return nil
		}
		kind = append(append(kind, byte(len(x.argv[i]))), x.argv[i]...)
	}
	return kind
}

// argsIn goes through a set of arguments, as far as there are so many.
func argsIn(set uint16, count int) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		for set &= 1<<count - 1; set != 0; set &= set - 1 {
			if !yield(bits.TrailingZeros16(set)) {
				return
			}
		}
	}
}

// find is the shape of a kind; known is false for a kind that is still to be learned.
func (s *shapes) find(kind []byte) (sh *shape, known bool) {
	if all := s.known.Load(); all != nil {
		for i := range *all {
			if k := &(*all)[i]; k.kind == string(kind) {
				return k.shape, true
			}
		}
	}
	return nil, false
}

// outcome is that of the call with these keys and names. It is written to room, if that is not nil.
func (sh *shape) outcome(keys []string, n *names, room *shapeRoom) outcome {
	o := outcome{reply: sh.reply, blind: sh.blind}
	if room != nil {
		o.reads, o.writes = room.reads[:0], room.writes[:0]
	}
	for i := range sh.reads {
		read := sh.reads[i].read
		read.key = keys[sh.reads[i].of]
		o.reads = append(o.reads, read)
	}
	for i := range sh.writes {
		w := &sh.writes[i]
		write := w.write
		write.key = keys[w.of]
		if write.kind == writeSet {
			write.value = n.list[w.value]
		}
		o.writes = append(o.writes, write)
	}
	return o
}

// shapeRoom has room for the outcome of a call with one key.
type shapeRoom struct {
	reads  [1]keyRead
	writes [1]keyWrite
}

// learnShape finds out about the kind of a call that has had this outcome.
func (x *scriptExchange) learnShape(kind []byte) {
	s := &x.script.shapes
	if !x.outcome.mayBeShape() || !s.learning.TryLock() {
		return
	}
	defer s.learning.Unlock()
	if _, known := s.find(kind); known { // since this call has looked
		return
	}
	var all []knownShape
	if known := s.known.Load(); known != nil {
		switch {
		case len(*known) < shapesMax:
			all = slices.Clone(*known)
		case s.others.Add(1) < shapesStale:
			return
		}
	}
	s.others.Store(0)
	one := x.shapeAt(kind, strangers[0], time.Now())
	other := x.shapeAt(kind, strangers[1], time.UnixMilli(1<<61))
	if !reflect.DeepEqual(one, other) {
		one = nil
	}
	all = append(all, knownShape{string(kind), one})
	s.known.Store(&all)
}

// strangers begin names that nobody has.
var strangers = [2]string{cryptorand.Text(), cryptorand.Text()}

// shapeAt runs the script on strangers. It is nil if the outcome is no shape.
func (x *scriptExchange) shapeAt(kind []byte, stranger string, now time.Time) *shape {
	name := func(number int) string { return stranger + " " + strconv.Itoa(number) }
	numbers := kind[2:]
	keys, states := make([]string, len(x.keys)), make([]redlock.State, len(x.keys))
	for i := range keys {
		keys[i] = stranger + " key " + strconv.Itoa(i)
		if numbers[i] != nobody {
			states[i] = redlock.State{Found: true, Type: "string", Value: name(int(numbers[i])), TTL: time.Second}
		}
	}
	numbers = numbers[len(keys):]
	steering := x.script.Steering()
	argv := make([]string, len(x.argv))
	for i := range argv {
		switch {
		case steering.Args>>i&1 == 1:
			argv[i] = x.argv[i]
		case steering.Tokens>>i&1 == 1:
			argv[i] = name(int(numbers[0]))
			numbers = numbers[1:]
		default:
			argv[i] = stranger + " argument " + strconv.Itoa(i)
		}
	}
	o := runScript(x.s.server.boxes, x.script.Script, keys, newKeyspace(keys, states, now), argv, sandbox.Limits{})
	if !o.mayBeShape() || bytes.Contains(o.reply.AppendTo(nil, 3), []byte(stranger)) {
		return nil
	}
	sh := &shape{reply: o.reply, blind: o.blind}
	for _, r := range o.reads {
		sh.reads = append(sh.reads, shapeRead{slices.Index(keys, r.key), r})
		sh.reads[len(sh.reads)-1].read.key = ""
	}
	for _, w := range o.writes {
		value := 0
		if w.kind == writeSet {
			number, ok := strings.CutPrefix(w.value, stranger+" ")
			var err error
			if value, err = strconv.Atoi(number); !ok || err != nil {
				return nil // it was not one of the names
			}
		}
		at := slices.Index(keys, w.key)
		w.key, w.value = "", ""
		sh.writes = append(sh.writes, shapeWrite{at, value, w})
	}
	return sh
}

// mayBeShape: nothing in the outcome is more than keys, names and what steers can tell.
func (o *outcome) mayBeShape() bool {
	if o.refused != nil || o.reply.Kind == sandbox.Error || o.readTTL || o.readTime || len(o.published) > 0 {
		return false
	}
	for i := range o.writes {
		if o.writes[i].keepTTL || o.writes[i].ttl > shapeTTLMax {
			return false
		}
	}
	return true
}

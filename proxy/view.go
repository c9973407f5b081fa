package proxy

import (
	"time"

	"github.com/tidwall/redcon"

	"redlockd/redlock"
)

// view is what some keys hold, as a quorum says or as is guessed, and what effects have made of it.
type view struct {
	keys  []viewKey
	now   time.Time
	proto int
	out   []byte // the replies of the effects
}

// viewKey is one key of a view.
type viewKey struct {
	name  string
	was   *redlock.State
	found bool
	kind  string // as TYPE says; only strings are changed
	value string
	ttl   time.Duration // negative: none
	timed bool          // it has got a new TTL
}

func newView(keys []string, states []redlock.State, proto int) *view {
	v := &view{keys: make([]viewKey, len(keys)), now: time.Now(), proto: proto}
	for i := range keys {
		st := &states[i]
		v.keys[i] = viewKey{name: keys[i], was: st, found: st.Found, kind: st.Type, value: st.Value, ttl: st.TTL}
	}
	return v
}

// key finds a key, which must be one of the view's.
func (v *view) key(name string) *viewKey {
	for i := range v.keys {
		if v.keys[i].name == name {
			return &v.keys[i]
		}
	}
	panic("a drop-in command uses a key that it has not named")
}

// text is key for a command on strings: it answers WRONGTYPE and returns nil if the key holds anything else.
func (v *view) text(name string) *viewKey {
	k := v.key(name)
	if k.foreign() {
		v.fail("WRONGTYPE Operation against a key holding the wrong kind of value")
		return nil
	}
	return k
}

// foreign: it holds something that is no lock of a drop-in client.
func (k *viewKey) foreign() bool { return k.found && k.kind != "string" }

func (k *viewKey) set(value string, ttl time.Duration) {
	k.found, k.kind, k.value, k.ttl, k.timed = true, "string", value, ttl, true
}

// expire gives the key a new TTL, or removes it if that is over already.
func (k *viewKey) expire(ttl time.Duration) {
	if ttl <= 0 {
		k.remove()
		return
	}
	k.ttl, k.timed = ttl, true
}

func (k *viewKey) remove() { k.found, k.kind, k.value = false, "none", "" }

// changes are what the effects have done, guarded by what the keys held before. real: they change something. Keys of other
// types can be neither changed nor compared.
func (v *view) changes() (changes []redlock.Change, real bool) {
	changes = make([]redlock.Change, 0, len(v.keys))
	for i := range v.keys {
		k := &v.keys[i]
		ch := redlock.Change{Resource: k.name, Was: redlock.WasAbsent}
		switch {
		case k.was.Found && k.was.Type != "string":
			continue
		case k.was.Found:
			ch.Was, ch.Value = redlock.WasValue, k.was.Value
			fallthrough
		default:
			switch {
			case k.found && (!k.was.Found || k.value != k.was.Value):
				ch.Do, ch.NewValue, ch.TTL = redlock.Set, k.value, k.ttl
			case k.found && k.timed:
				ch.Do, ch.TTL = redlock.Expire, k.ttl
			case k.was.Found && !k.found:
				ch.Do = redlock.Delete
			}
		}
		real = real || ch.Do != redlock.Keep
		changes = append(changes, ch)
	}
	return changes, real
}

func (v *view) fail(text string) { v.out = appendError(v.out, text) }
func (v *view) ok()              { v.out = redcon.AppendOK(v.out) }
func (v *view) null()            { v.out = appendNull(v.out, v.proto) }
func (v *view) integer(n int64)  { v.out = redcon.AppendInt(v.out, n) }
func (v *view) bulk(k *viewKey)  { v.out = appendBulkOrNull(v.out, v.proto, k.value, k.found) }
func (v *view) yesNo(yes bool)   { v.out = redcon.AppendInt(v.out, int64(oneIf(yes))) }
func (v *view) okOrNull(yes bool) {
	if yes {
		v.ok()
	} else {
		v.null()
	}
}

func oneIf(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func appendBulkOrNull(out []byte, proto int, value string, found bool) []byte {
	if !found {
		return appendNull(out, proto)
	}
	return redcon.AppendBulkString(out, value)
}

// lostZero and lostNull answer commands whose guess was wrong.
func lostZero(out []byte, _ int) []byte     { return append(out, ":0\r\n"...) }
func lostNull(out []byte, proto int) []byte { return appendNull(out, proto) }

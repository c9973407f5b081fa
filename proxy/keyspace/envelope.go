package keyspace

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// On the masters, a counter, a hash, a set or a sorted set is one string, its envelope:
//
//	mark     11 bytes  redlock.VersionMark and the kind: n, h, s or z
//	version  16 bytes  drawn anew for each value that is to be committed, see redlock.NextVersion
//	born      8 bytes  when the last of the members joined, in ms since 1970
//	members            in the order of their names, each once: the name and, in a hash, its value, both
//	                   behind their length in 2 bytes; in a sorted set, behind the name the 8 bytes of the score.
//	                   A counter has one member, whose name is the number
//
// Numbers are big-endian. So the masters keep such a key as they keep any lock: its existence excludes
// SET NX, LOCK and everybody else, and the guard of a change compares the whole value.
//
// The version, half of which is random, makes every committed value unique. A lock that is taken,
// released and taken again has the same members each time; without it, the undo of a failed change, or
// a change that a master executes late, would take a later lock for the one that it was made for. A
// value of several members also gets a new one with a new end: see Space.change.
//
// What begins with the mark and is no envelope has been made by somebody who imitates one, or by a
// later redlockd. Its kind is other: it can be neither read nor changed.

// Bounds of what a command may make of a key. decode reads more, so that they can grow.
const (
	// membersMax bounds the fields of a hash and the members of a set.
	membersMax = 64
	// envelopeMax bounds the bytes of an envelope.
	envelopeMax = redlock.MaxValueLen
)

const (
	envelopeMark = redlock.VersionMark
	headLen      = len(envelopeMark) + 1 + redlock.VersionLen + 8
	kindLetters  = "nhsz"
)

// kind is the type of what a key holds.
type kind uint8

const (
	nothing kind = iota // the key is absent
	text                // a string
	hash
	set
	zset
	other // what cannot be read here: a key that another client has made on the masters themselves, or an envelope that is not valid
)

// kindNames are those of TYPE.
var kindNames = [...]string{nothing: "none", text: "string", hash: "hash", set: "set", zset: "zset"}

// member is a field of a hash, or a member of a set or a sorted set.
type member struct {
	name  string
	value string  // in a hash
	score float64 // in a sorted set, and never NaN
}

// collection is what an envelope holds.
type collection struct {
	// kind is text for a counter.
	kind kind
	// born is when the last of the members joined, in ms since 1970.
	born int64
	// members are in the order of their names. There is at least one.
	members []member
}

// decode reads an envelope. ok is false for everything that encode does not write.
func decode(envelope string) (c collection, ok bool) {
	if len(envelope) < headLen || !strings.HasPrefix(envelope, envelopeMark) {
		return c, false
	}
	letter := strings.IndexByte(kindLetters, envelope[len(envelopeMark)])
	if letter < 0 {
		return c, false
	}
	c.kind = text + kind(letter)
	c.born = int64(binary.BigEndian.Uint64([]byte(envelope[headLen-8 : headLen])))
	for rest := envelope[headLen:]; rest != ""; {
		var m member
		if m.name, rest, ok = cutText(rest); !ok {
			return c, false
		}
		switch c.kind {
		case hash:
			if m.value, rest, ok = cutText(rest); !ok {
				return c, false
			}
		case zset:
			if len(rest) < 8 {
				return c, false
			}
			m.score, rest = math.Float64frombits(binary.BigEndian.Uint64([]byte(rest[:8]))), rest[8:]
			if math.IsNaN(m.score) {
				return c, false
			}
		}
		if n := len(c.members); n > 0 && c.members[n-1].name >= m.name {
			return c, false
		}
		c.members = append(c.members, m)
	}
	if c.kind == text {
		return c, len(c.members) == 1 && isNumber(c.members[0].name)
	}
	return c, len(c.members) > 0
}

// counterOf is the envelope's collection of a counter.
func counterOf(number string) collection {
	return collection{kind: text, members: []member{{name: number}}}
}

// isNumber reports whether INCR takes a string for a number.
func isNumber(s string) bool {
	_, ok := resp.ParseInt(s)
	return ok
}

// cutText takes a text and its length off the beginning of s.
func cutText(s string) (text, rest string, ok bool) {
	if len(s) < 2 {
		return "", "", false
	}
	n := 2 + int(s[0])<<8 + int(s[1])
	if len(s) < n {
		return "", "", false
	}
	return s[2:n], s[n:], true
}

// size is how many bytes encode writes.
func (c *collection) size() int {
	n := headLen
	for i := range c.members {
		n += 2 + len(c.members[i].name)
		switch c.kind {
		case hash:
			n += 2 + len(c.members[i].value)
		case zset:
			n += 8
		}
	}
	return n
}

// encode writes the envelope. Its size must not be above envelopeMax, so that lengths fit in 2 bytes.
func (c *collection) encode(version [redlock.VersionLen]byte) string {
	b := make([]byte, 0, c.size())
	b = append(append(b, envelopeMark...), kindLetters[c.kind-text])
	b = binary.BigEndian.AppendUint64(append(b, version[:]...), uint64(c.born))
	for i := range c.members {
		m := &c.members[i]
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(m.name))), m.name...)
		switch c.kind {
		case hash:
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(m.value))), m.value...)
		case zset:
			b = binary.BigEndian.AppendUint64(b, math.Float64bits(m.score))
		}
	}
	return string(b)
}

// find tells where the member of this name is, or would be.
func (c *collection) find(name string) (at int, ok bool) {
	return slices.BinarySearchFunc(c.members, name, func(m member, name string) int { return strings.Compare(m.name, name) })
}

// joined reports whether c has a member that before has not.
func (c *collection) joined(before *collection) bool {
	return c.kind != before.kind || slices.ContainsFunc(c.members, func(m member) bool {
		_, ok := before.find(m.name)
		return !ok
	})
}

// Text returns the string that a value of a master is to clients; ok is false if it is none: an envelope,
// which clients never see, of anything but a counter.
func Text(value string) (s string, ok bool) {
	if !IsEnvelope(value) {
		return value, true
	}
	if c, ok := decode(value); ok && c.kind == text {
		return c.members[0].name, true
	}
	return "", false
}

// IsEnvelope reports whether a value of a master is an envelope, so that each change of it is a value of
// its own.
func IsEnvelope(value string) bool { return strings.HasPrefix(value, envelopeMark) }

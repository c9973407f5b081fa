package redlock

import "strings"

// A caller may repeat its LOCK with a token of its own: because a reply was lost, or to refresh the lock; and it may send EXTEND
// meanwhile. Then several attempts with one token are under way or behind each other, and on the masters nothing tells
// their keys apart. So what one of them leaves behind must not be released as long as another may be granted, or an
// earlier grant may be believed in: the release would take that away too, and let somebody else in. It is released with
// the last of them. The other way round, an attempt that an UNLOCK has overtaken here must not bring the lock back.
//
// This holds within one Client. A caller that repeats its LOCK through another one must expect the first one to undo it.
type repeats map[debt]*repeat

// repeat is what is known of the attempts under way with one token for the same resources.
type repeat struct {
	underWay int
	left     mask // masters that may hold what attempts that are over have left behind
	earlier  bool // one of them found the token there already: a grant of another client may be believed in
	released bool // an UNLOCK passed while they were under way: what they are granted is gone already
}

// repeatKey stands for the resources and the token of an attempt.
func repeatKey(keys []string, token string) debt {
	if len(keys) == 1 {
		return debt{keys[0], token}
	}
	return debt{strings.Join(keys, "\x00"), token}
}

func (s repeats) begin(keys []string, token string) {
	key := repeatKey(keys, token)
	rep := s[key]
	if rep == nil {
		rep = &repeat{}
		s[key] = rep
	}
	rep.underWay++
}

// end counts an attempt as over and returns what is known; the last one leaves nothing in s.
func (s repeats) end(keys []string, token string) *repeat {
	key := repeatKey(keys, token)
	rep := s[key]
	if rep.underWay--; rep.underWay == 0 {
		delete(s, key)
	}
	return rep
}

// of returns what is known of attempts under way, or nil.
func (s repeats) of(keys []string, token string) *repeat {
	if len(s) == 0 {
		return nil
	}
	return s[repeatKey(keys, token)]
}

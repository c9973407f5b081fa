package redlock

import (
	"slices"
	"strings"
)

// A caller may repeat its LOCK with a token of its own: because a reply was lost, or to refresh the lock; and it may send EXTEND
// meanwhile. Then several attempts with one token are under way or behind each other, and on the masters nothing tells
// their keys apart. So what one of them leaves behind must not be released as long as another may be granted, or an
// earlier grant may be believed in: the release would take that away too, and let somebody else in. It is released with
// the last of them. The other way round, an attempt that an UNLOCK has overtaken here must not bring the lock back; and one that is
// made after the UNLOCK is no repetition of those before.
//
// This holds within one Client. A caller that repeats its LOCK through another one must expect the first one to undo it.

// repeat is what is known of the attempts under way with one token for the same resources.
type repeat struct {
	keys     []string
	token    string
	entry    *entry // that keeps it; nil: it is in leases.repeats
	underWay int32
	since    uint32 // leases.launched when the first of them began
	left     mask   // masters that may hold what attempts that are over have left behind
	earlier  bool   // one of them found the token there already: a grant of another client may be believed in
	released bool   // an UNLOCK has overtaken them: what they are granted is gone already
}

func (rep *repeat) is(keys []string, token string) bool {
	return rep.token == token && slices.Equal(rep.keys, keys)
}

// begin counts an attempt as under way. The keys must stay as they are until it is over.
//
// The first one on a resource is kept with what else is known of that, for hardly ever there is another; those beside it in a map,
// for there can be as many as clients that try to lock the resource at the same time.
func (s *leases) begin(keys []string, token string) {
	e := s.entries[keys[0]]
	rep := s.repeatAt(e, keys, token)
	if rep == nil {
		rep = &repeat{keys: keys, token: token, since: s.launched}
		if e == nil {
			e = s.add(keys[0])
		}
		if e.repeat == nil {
			e.repeat, rep.entry = rep, e
		} else {
			s.repeats[repeatKey(keys, token)] = rep
		}
	}
	rep.underWay++
}

// attempt returns what is known of the attempts that the round is one of, and the lease that they are to take the place of, or nil.
func (s *leases) attempt(keys []string, token string, r *round) (*round, *repeat) {
	lease, rep := s.known(keys, token)
	if rep == nil || !after(r.launched, rep.since) {
		rep = &repeat{underWay: 1, released: true}
	}
	return lease, rep
}

// end counts an attempt as over; the last one leaves nothing behind here.
func (s *leases) end(rep *repeat) {
	if rep.underWay--; rep.underWay == 0 {
		s.forgetRepeat(rep)
	}
}

func (s *leases) forgetRepeat(rep *repeat) {
	switch e := rep.entry; {
	case e == nil:
		delete(s.repeats, repeatKey(rep.keys, rep.token))
	case e.repeat == rep:
		e.repeat = nil
		s.tidy(e)
	}
}

// repeat returns what is known of attempts under way, or nil.
func (s *leases) repeat(keys []string, token string) *repeat {
	return s.repeatAt(s.entries[keys[0]], keys, token)
}

// repeatAt is repeat where the entry of the first resource, which may be nil, is at hand.
func (s *leases) repeatAt(e *entry, keys []string, token string) *repeat {
	switch {
	case e != nil && e.repeat != nil && e.repeat.is(keys, token):
		return e.repeat
	case len(s.repeats) > 0:
		return s.repeats[repeatKey(keys, token)]
	}
	return nil
}

// repeatKey stands for the resources and the token of an attempt.
func repeatKey(keys []string, token string) debt {
	if len(keys) == 1 {
		return debt{keys[0], token}
	}
	return debt{strings.Join(keys, "\x00"), token}
}

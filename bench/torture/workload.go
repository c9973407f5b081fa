package main

// What the clients do. A session repeats cycles: it takes a lock of some kind through some redlockd, uses what the lock guards, renews,
// and releases, or goes without a word. What its client program tells goes into the history.

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	resources  = 10 // r0, r1, …: each with writers, readers and drop-in locks
	slotGroup  = "jobs"
	slotsMost  = 3
	ttlMin     = 300 // ms
	ttlMax     = 2800
	waitMax    = 1500 // ms; less than callTimeout by far
	retriesMax = 4
	// carelessOne: one update in so many does not look at its clock and writes after its time. The fence must stop it.
	carelessOne = 12
	// abandonedOne: one lease in so many is not released.
	abandonedOne = 16
)

// session is one thread of a client program.
type session struct {
	client    *client
	number    int
	random    *mathrand.Rand
	history   *history
	redlockds int // how many there are; the register comes behind them
	pace      time.Duration
	values    int
}

// kinds are what a cycle can be, with weights.
var kinds = []struct {
	name   string
	weight int
	cycle  func(*session, context.Context)
}{
	{"LOCK FENCE", 30, (*session).lockCycle},
	{"LOCK TOKEN, repeated", 16, (*session).tokenCycle},
	{"LOCK HOLD", 10, (*session).holdCycle},
	{"LOCK SHARED", 16, (*session).sharedCycle},
	{"LOCK SLOTS", 12, (*session).slotsCycle},
	{"library's lock", 12, (*session).dropinCycle},
	{"MLOCK", 6, (*session).mlockCycle},
}

// run repeats cycles until the context ends.
func (s *session) run(ctx context.Context) {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	for ctx.Err() == nil {
		pick := s.random.IntN(total)
		for _, k := range kinds {
			if pick -= k.weight; pick < 0 {
				k.cycle(s, ctx)
				break
			}
		}
		s.sleep(ctx, time.Duration(s.random.Int64N(int64(2*s.pace))))
	}
}

func (s *session) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// call carries out a call and waits out a program that is killed.
func (s *session) call(to int, op string, args ...any) answer {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	a := s.client.call(call{Session: s.number, To: to, Op: op, Args: words})
	s.history.mu.Lock()
	s.history.calls++
	s.history.mu.Unlock()
	if a.gone() {
		time.Sleep(100 * time.Millisecond)
	}
	return a
}

func (s *session) anyRedlockd() int { return s.random.IntN(s.redlockds) }
func (s *session) anyTTL() int      { return ttlMin + s.random.IntN(ttlMax-ttlMin) }
func (s *session) anyResource() string {
	return "r" + strconv.Itoa(s.random.IntN(resources))
}

// wait is a WAIT, or none.
func (s *session) wait() []any {
	if s.random.IntN(2) == 0 {
		return nil
	}
	return []any{"WAIT", 1 + s.random.IntN(waitMax)}
}

// granted reads the reply to a LOCK: the token, the validity in ns, and what comes behind: the slot, the fence.
func (s *session) granted(a answer) (token string, valid int64, rest []any, ok bool) {
	parts, isList := a.Reply.([]any)
	switch {
	case a.gone():
		s.history.count(s.history.errors, "the client program was dead")
	case a.Error != "":
		s.history.count(s.history.errors, codeOf(a.Error))
	case !isList:
		s.history.count(s.history.errors, "held by another")
	case len(parts) < 2:
		s.history.report(a.End, "", "LOCK answered %v", a.Reply)
	default:
		token, ok = parts[0].(string)
		valid = int64(number(parts[1])) * int64(time.Millisecond)
		rest = parts[2:]
	}
	return token, valid, rest, ok
}

// codeOf groups errors: by the code of redlockd, else by what kind they are.
func codeOf(text string) string {
	for _, code := range []string{"NOQUORUM", "LEAVING", "BUSYWAIT", "UNBLOCKED", "WRONGTYPE", "EXECABORT", "ERR "} {
		if i := strings.Index(text, code); i >= 0 {
			if code == "ERR " {
				return "error: " + clip(text[i:], 70)
			}
			return strings.TrimSpace(code)
		}
	}
	return "no connection, or no reply"
}

func clip(text string, most int) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// number is a number of JSON, or one in text.
func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case string:
		f, _ := strconv.ParseFloat(v, 64)
		return f
	}
	return 0
}

// lease notes what was granted.
func (s *session) lease(kind, resource string, shared bool, token string, fence any, a answer, valid int64) *lease {
	l := &lease{token: token, who: fmt.Sprintf("%s/%d %s", s.client.host.name, s.number, kind), resource: resource, shared: shared}
	l.grant(a, fence, valid)
	s.history.grant(l, kind)
	return l
}

// lockCycle: LOCK, work, perhaps EXTEND, UNLOCK.
func (s *session) lockCycle(ctx context.Context) {
	resource, to, ttl := s.anyResource(), s.anyRedlockd(), s.anyTTL()
	wait := s.wait()
	a := s.call(to, "do", append([]any{"LOCK", resource, ttl, "FENCE"}, wait...)...)
	token, valid, rest, ok := s.granted(a)
	if !ok || len(rest) != 1 {
		return
	}
	l := s.lease("LOCK FENCE", resource, false, token, rest[0], a, valid)
	if wait != nil { // it may have waited for the most of its validity
		s.extend(l, to, token, ttl)
	}
	s.work(ctx, l)
	if s.random.IntN(3) == 0 && s.extend(l, to, token, ttl) {
		s.work(ctx, l)
	}
	s.unlock(l, to, token)
}

// extend reports whether the lease is still there.
func (s *session) extend(l *lease, to int, token string, ttl int) bool {
	a := s.call(to, "do", "EXTEND", l.resource, token, ttl)
	if a.gone() || a.Error != "" {
		return true // nobody knows: what was believed stands
	}
	valid := int64(number(a.Reply)) * int64(time.Millisecond)
	if valid == 0 {
		l.end(a.End)
		return false
	}
	l.renew(a, valid)
	return true
}

// unlock ends the lease, unless the client goes without a word, or tries another redlockd when no reply comes.
func (s *session) unlock(l *lease, to int, token string) {
	if s.random.IntN(abandonedOne) == 0 {
		return
	}
	for range retriesMax {
		l.end(monotonic())
		if a := s.call(to, "do", "UNLOCK", l.resource, token); !a.gone() && a.Error == "" {
			return
		}
		to = s.anyRedlockd()
	}
}

// work lets a holder read the register and write to it, some times.
func (s *session) work(ctx context.Context, l *lease) {
	for range s.random.IntN(3) {
		s.update(ctx, l)
	}
	if left := l.until() - monotonic(); left > 0 && s.random.IntN(4) == 0 {
		most := left
		if s.random.IntN(4) > 0 {
			most /= 8
		}
		s.sleep(ctx, time.Duration(s.random.Int64N(most+1)))
	}
}

// update reads the register, thinks, and writes.
func (s *session) update(ctx context.Context, l *lease) {
	now := monotonic()
	if now >= l.until() {
		return
	}
	read := s.call(s.redlockds, "do", "EVAL", readRegister, 1, l.resource, l.fence)
	value, ok := s.register(l, read)
	if !ok {
		return
	}
	a := access{lease: l.id, who: l.who, resource: l.resource, fence: l.fence, read: value, call: read.Start, done: read.End}
	s.sleep(ctx, time.Duration(s.random.IntN(40))*time.Millisecond)
	if careless := s.random.IntN(carelessOne) == 0; careless {
		s.sleep(ctx, time.Duration(l.until()-monotonic())+time.Duration(s.random.IntN(300))*time.Millisecond)
	} else if monotonic() >= l.until() {
		s.history.access(a)
		return
	}
	s.values++
	a.value = fmt.Sprintf("%s.%d.%d", s.client.host.name, s.number, s.values)
	write := s.call(s.redlockds, "do", "EVAL", writeRegister, 1, l.resource, l.fence, a.value)
	if write.gone() || write.Error != "" {
		a.wrote, a.unknown = true, true
	} else if _, ok := s.register(l, write); ok {
		a.wrote, a.done = true, write.End
	}
	s.history.access(a)
}

// register reads a reply of the register. It refuses nobody who holds: that would mean that somebody else was granted a fence, or that an operator
// ended the lock by force.
func (s *session) register(l *lease, a answer) (value string, ok bool) {
	parts, _ := a.Reply.([]any)
	if a.gone() || a.Error != "" || len(parts) != 2 {
		return "", false
	}
	if value, _ = parts[1].(string); parts[0] == "ok" {
		return value, true
	}
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	s.history.refused++
	if a.End < l.until() {
		s.history.refusals = append(s.history.refusals, refusal{l, a.End, l.until()})
	}
	return "", false
}

// tokenCycle: LOCK with a token of its own; when no reply comes, the same again through another redlockd; and sometimes though one came.
func (s *session) tokenCycle(ctx context.Context) {
	const kind = "LOCK TOKEN, repeated"
	resource, to, ttl, token := s.anyResource(), s.anyRedlockd(), s.anyTTL(), rand.Text()
	var l *lease
	for range retriesMax {
		a := s.call(to, "do", append([]any{"LOCK", resource, ttl, "TOKEN", token, "FENCE"}, s.wait()...)...)
		got, valid, rest, ok := s.granted(a)
		if ok && got != token {
			s.history.report(a.End, resource, "LOCK with the token %s answered the token %s", token, got)
		}
		switch {
		case ok && len(rest) == 1 && l == nil:
			l = s.lease(kind, resource, false, token, rest[0], a, valid)
		case ok && len(rest) == 1:
			// Granted again. The fence is another: what is written from now on bears it.
			l.grant(a, rest[0], valid)
		case !a.gone() && a.Error == "":
			return // held by another
		}
		if l != nil && s.random.IntN(3) > 0 {
			break
		}
		to = s.anyRedlockd()
	}
	if l == nil {
		s.call(to, "do", "UNLOCK", resource, token) // as one does who does not know
		return
	}
	s.work(ctx, l)
	s.unlock(l, to, token)
}

// holdCycle: LOCK HOLD, then KEEPALIVE on the same connection.
func (s *session) holdCycle(ctx context.Context) {
	resource, to, ttl := s.anyResource(), s.anyRedlockd(), max(s.anyTTL(), 900)
	a := s.call(to, "do", append([]any{"LOCK", resource, ttl, "FENCE", "HOLD"}, s.wait()...)...)
	token, valid, rest, ok := s.granted(a)
	if !ok || len(rest) != 1 {
		s.call(to, "close") // what it may hold all the same ends with it
		return
	}
	l := s.lease("LOCK HOLD", resource, false, token, rest[0], a, valid)
	for range 1 + s.random.IntN(5) {
		s.work(ctx, l)
		s.sleep(ctx, time.Duration(ttl/4)*time.Millisecond)
		k := s.call(to, "do", "KEEPALIVE")
		if k.gone() || k.Error != "" {
			continue // what was told before stands
		}
		parts, _ := k.Reply.([]any)
		if len(parts) < 2 || parts[0] != "validity" {
			s.history.report(k.End, resource, "KEEPALIVE answered %v", k.Reply)
			break
		}
		valid := int64(number(parts[1])) * int64(time.Millisecond)
		if valid == 0 { // lost, or the connection is a new one, which holds nothing
			l.end(k.End)
			break
		}
		l.believe(k.Start, k.End, valid)
	}
	l.end(monotonic())
	s.call(to, "close")
}

// sharedCycle: a reader.
func (s *session) sharedCycle(ctx context.Context) {
	resource, to, ttl := s.anyResource(), s.anyRedlockd(), s.anyTTL()
	a := s.call(to, "do", append([]any{"LOCK", resource, ttl, "SHARED"}, s.wait()...)...)
	token, valid, _, ok := s.granted(a)
	if !ok {
		return
	}
	l := s.lease("LOCK SHARED", resource, true, token, nil, a, valid)
	for range 1 + s.random.IntN(3) {
		if monotonic() >= l.until() {
			break
		}
		read := s.call(s.redlockds, "do", "EVAL", readRegister, 1, resource, 0)
		if value, ok := s.register(l, read); ok {
			s.history.access(access{lease: l.id, who: l.who, resource: resource, read: value, call: read.Start, done: read.End})
		}
		s.sleep(ctx, time.Duration(s.random.IntN(150))*time.Millisecond)
		if s.random.IntN(4) == 0 && !s.extend(l, to, token, ttl) {
			break
		}
	}
	s.unlock(l, to, token)
}

// slotsCycle: one of some slots.
func (s *session) slotsCycle(ctx context.Context) {
	to, ttl := s.anyRedlockd(), s.anyTTL()
	a := s.call(to, "do", append([]any{"LOCK", slotGroup, ttl, "SLOTS", slotsMost, "FENCE"}, s.wait()...)...)
	token, valid, rest, ok := s.granted(a)
	if !ok || len(rest) != 2 {
		return
	}
	l := s.lease("LOCK SLOTS", fmt.Sprint(rest[0]), false, token, rest[1], a, valid)
	s.work(ctx, l)
	s.sleep(ctx, time.Duration(s.random.IntN(ttl))*time.Millisecond)
	if s.random.IntN(3) == 0 {
		s.extend(l, to, token, ttl)
	}
	s.unlock(l, to, token)
}

// dropinCycle: the lock of a library for one Redis. It counts the whole TTL from when it asked.
func (s *session) dropinCycle(ctx context.Context) {
	resource, to, ttl := s.anyResource(), s.anyRedlockd(), s.anyTTL()
	a := s.call(to, "obtain", resource, ttl)
	_, valid, _, ok := s.granted(a)
	if !ok {
		return
	}
	l := s.lease("library's lock", resource, false, "", nil, a, valid)
	s.sleep(ctx, time.Duration(s.random.IntN(ttl/2))*time.Millisecond)
	if s.random.IntN(3) == 0 {
		if a := s.call(to, "extend", resource, ttl); !a.gone() && a.Error == "" {
			if number(a.Reply) == 0 {
				l.end(a.End)
			} else {
				l.believe(a.Start, a.End, int64(ttl)*int64(time.Millisecond)) // not renew: an RLock that had ended is taken anew
			}
		}
		s.sleep(ctx, time.Duration(s.random.IntN(ttl/2))*time.Millisecond)
	}
	if s.random.IntN(abandonedOne) > 0 {
		l.end(monotonic())
		s.call(to, "release", resource)
	}
}

// mlockCycle: two resources at once.
func (s *session) mlockCycle(ctx context.Context) {
	first, to, ttl := s.random.IntN(resources), s.anyRedlockd(), s.anyTTL()
	names := []string{"r" + strconv.Itoa(first), "r" + strconv.Itoa((first+1+s.random.IntN(resources-1))%resources)}
	a := s.call(to, "do", append([]any{"MLOCK", 2, names[0], names[1], ttl, "FENCE"}, s.wait()...)...)
	token, valid, rest, ok := s.granted(a)
	if !ok || len(rest) != 1 {
		return
	}
	var both []*lease
	for _, name := range names {
		both = append(both, s.lease("MLOCK", name, false, token, rest[0], a, valid))
	}
	for _, l := range both {
		s.work(ctx, l)
	}
	if s.random.IntN(abandonedOne) > 0 {
		for _, l := range both {
			l.end(monotonic())
		}
		s.call(to, "do", "MUNLOCK", 2, names[0], names[1], token)
	}
}

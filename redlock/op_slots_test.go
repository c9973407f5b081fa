package redlock

// Goal: at most k hold a semaphore; each holds a slot of its own, which is an ordinary lock; a token never holds two; and a slot that is free
// is found in one round, or in a few where the semaphore is nearly full. Method: virtual time over in-process masters.

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
)

func (r LockRequest) of(slots int) LockRequest { r.Slots = slots; return r }

// fill locks all slots of the semaphore, and returns the tokens by slot. No slots: it locks the resource, and returns its token by its name.
func (p *proxy) fill(resource string, slots int, ttl time.Duration) map[string]string {
	p.s.Helper()
	if slots == 0 {
		return map[string]string{resource: p.lock(one(resource, ttl)).Token}
	}
	held := map[string]string{}
	for range slots {
		c := p.lock(one(resource, ttl).of(slots))
		if !c.Held || held[c.Slot] != "" {
			p.s.Fatalf("LOCK %s SLOTS %d: got %+v, want a slot that is not among %v", resource, slots, c.Result, held)
		}
		held[c.Slot] = c.Token
	}
	return held
}

// wantAttempts checks how many rounds LOCKs have taken since before.
func (p *proxy) wantAttempts(what string, before uint64, want uint64) {
	p.s.Helper()
	if got := p.Stats().Attempts - before; got != want {
		p.s.Errorf("%s: got %d rounds, want %d", what, got, want)
	}
}

func TestSlots(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		const k = 4
		before := p.Stats().Attempts
		held := p.fill("jobs", k, time.Minute)
		p.wantAttempts("LOCKs of an idle semaphore", before, k)
		for i := range k {
			slot := fmt.Sprint("jobs#", i)
			s.wantOn(slot, held[slot], "11111")
		}
		before = p.Stats().Attempts
		p.lock(one("jobs", time.Minute).of(k)).want(s, "LOCK of a full semaphore", "no", 0)
		p.wantAttempts("LOCK of a full semaphore", before, 1)
		other.lock(one("jobs", time.Minute).of(k)).want(s, "LOCK of a full semaphore through another client", "no", 0)

		// A slot is an ordinary lock.
		p.lock(one("jobs#2", time.Minute)).want(s, "LOCK of a slot that is held", "no", 0)
		other.extend(held["jobs#2"], time.Minute, "jobs#2").want(s, "EXTEND of a slot", "held", 0)
		other.unlock(held["jobs#2"], "jobs#2").want(s, "UNLOCK of a slot", "held", 0)
		s.wantSet("jobs#2", "00000")

		// The only free slot is found in the second round at the latest.
		for range 20 {
			before := other.Stats().Attempts
			c := other.lock(one("jobs", time.Minute).of(k))
			if c.Slot != "jobs#2" {
				s.Fatalf("LOCK with one slot free: got %+v, want jobs#2", c.Result)
			}
			if got := other.Stats().Attempts - before; got > 2 {
				s.Errorf("LOCK with one slot free: got %d rounds, want 2 at most", got)
			}
			other.unlock(c.Token, c.Slot)
		}
		p.lock(one("jobs", time.Minute)).want(s, "LOCK of the resource itself", "held", 0)
	})
}

func TestSlotsAreChecked(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		long := strings.Repeat("x", MaxResourceLen-2)
		for _, tt := range []struct {
			req  LockRequest
			want string
		}{
			{one("jobs", time.Minute).of(-1), "SLOTS of -1 is outside 1 … 32"},
			{one("jobs", time.Minute).of(33), "SLOTS of 33 is outside 1 … 32"},
			{several(time.Minute, "a", "b").of(2), "SLOTS is for one resource, and 2 are named"},
			{one(long, time.Minute).of(11), "the resource name has 1022 bytes, and its slots add 3: at most 1024 are possible"},
			{one("redlockd:jobs", time.Minute).of(2), "resource names that begin with redlockd: are kept"},
			{one("", time.Minute).of(2), "a resource name is empty"},
			{one("jobs", time.Hour).of(2), "above the most"},
		} {
			c := p.lock(tt.req)
			if c.Held || !errors.Is(c.Err, ErrBadRequest) || !strings.Contains(c.Err.Error(), tt.want) {
				s.Errorf("%.20q SLOTS %d: got %+v, want an error with %q", tt.req.Resources, tt.req.Slots, c.Result, tt.want)
			}
		}
		p.lock(one(long, time.Minute).of(10)).want(s, "the longest name", "held", 0)
		p.lock(one("jobs", time.Minute).of(MaxSlots)).want(s, "the most slots", "held", 0)
	})
}

func TestSlotOf(t *testing.T) {
	for _, tt := range []struct {
		name, resource string
		slot           int
		ok             bool
	}{
		{"jobs#0", "jobs", 0, true},
		{"jobs#31", "jobs", 31, true},
		{"a#1#2", "a#1", 2, true},
		{"jobs", "", 0, false},
		{"#1", "", 0, false},
		{"jobs#", "", 0, false},
		{"jobs#32", "", 0, false},
		{"jobs#01", "", 0, false},
		{"jobs#-1", "", 0, false},
		{"jobs#+1", "", 0, false},
		{"jobs#1x", "", 0, false},
		{"jobs#100", "", 0, false},
	} {
		if resource, slot, ok := SlotOf(tt.name); resource != tt.resource || slot != tt.slot || ok != tt.ok {
			t.Errorf("SlotOf(%q): got %q, %d, %v, want %q, %d, %v", tt.name, resource, slot, ok, tt.resource, tt.slot, tt.ok)
		}
	}
}

func TestCheckSlots(t *testing.T) {
	for _, tt := range []struct {
		bytes, slots int // of the name; of the semaphore
		want         string
	}{
		{4, 0, "SLOTS of 0 is outside 1 … 32"},
		{4, 1, ""},
		{4, 32, ""},
		{MaxResourceLen - 2, 10, ""},
		{MaxResourceLen - 1, 10, "the resource name has 1023 bytes, and its slots add 2: at most 1024 are possible"},
		{MaxResourceLen - 2, 11, "the resource name has 1022 bytes, and its slots add 3: at most 1024 are possible"},
	} {
		req, got := one(strings.Repeat("x", tt.bytes), time.Minute).of(tt.slots), ""
		if err := checkSlots(&req); err != nil {
			got = err.Error()
		}
		if got != tt.want && (tt.want == "" || !strings.Contains(got, tt.want)) {
			t.Errorf("SLOTS %d of a name of %d bytes: got %q, want %q", tt.slots, tt.bytes, got, tt.want)
		}
	}
}

func TestNamesOfSlots(t *testing.T) {
	for bytes, want := range map[int]int{4: MaxSlots, MaxResourceLen - 3: MaxSlots, MaxResourceLen - 2: 10, MaxResourceLen - 1: 0} {
		name := strings.Repeat("x", bytes)
		got := SlotNames(name)
		if len(got) != want || want > 0 && (got[0] != name+"#0" || got[want-1] != SlotName(name, want-1)) {
			t.Errorf("a name of %d bytes: got %d slots, want the first %d", bytes, len(got), want)
		}
	}
	for queue, want := range map[string]string{"jobs": "jobs", "jobs#1": "jobs#1", slotsQueue("jobs"): "jobs#*"} {
		if got := shownQueue(queue); got != want {
			t.Errorf("the queue %q is shown as %q, want %q", queue, got, want)
		}
	}
}

// What a round asks for follows from what the search was told. Without that it is a guess, which the token alone decides where nothing is known of the
// slots, and which keeps away from slots that others hold or ask for.
func TestAimOfASlotSearch(t *testing.T) {
	const k = 4
	aim := func(s *slotSearch, c *Client, op *Op) *round {
		s.resource, s.queue, s.count = "jobs", slotsQueue("jobs"), k
		r := &round{op: op, token: op.token}
		s.aim(c, r)
		if r.verb != verbSlot || r.slots != k || !c.leases.slotted || s.rounds != 1 || s.next != 0 || s.look {
			t.Errorf("got verb %d for %d slots, search %+v; want verbSlot for %d, one round, nothing left of the hint", r.verb, r.slots, s, k)
		}
		return r
	}
	for slot := range k {
		s := &slotSearch{next: slot + 1}
		if r := aim(s, idleClient(), &Op{token: "mine"}); int(r.slot) != slot || !slices.Equal(r.keys, []string{SlotName("jobs", slot)}) || s.tried != 1<<slot {
			t.Errorf("a hint at slot %d: got slot %d, %q, tried %b", slot, r.slot, r.keys, s.tried)
		}
	}
	s := &slotSearch{look: true}
	if r := aim(s, idleClient(), &Op{token: "mine"}); r.slot != noSlot || !slices.Equal(r.keys, []string{"jobs#0"}) || s.tried != 0 {
		t.Errorf("a look: got slot %d, %q, tried %b, want no slot", r.slot, r.keys, s.tried)
	}

	now := time.Now()
	guesses := map[int]bool{}
	for i := range 12 {
		token := fmt.Sprint("mine-", i)
		guess := int(aim(&slotSearch{}, idleClient(), &Op{token: token}).slot)
		guesses[guess] = true
		another, ended, mine := &lease{token: "another's", validUntil: now.Add(time.Minute)}, &lease{token: "another's", validUntil: now}, &lease{token: token, validUntil: now.Add(time.Minute)}
		for _, tt := range []struct {
			name  string
			known []*lease // of the slot that would be guessed, and of those after it; nil: it has an entry without a lease
			asked int      // so many waiters ask for slots, from the one that would be guessed on
			want  int      // so many slots after that
		}{
			{"nothing is known", nil, 0, 0},
			{"it is held", []*lease{another}, 0, 1},
			{"it is held, and the next one", []*lease{another, another}, 0, 2},
			{"all are held", []*lease{another, another, another, another}, 0, 0},
			{"it was held", []*lease{ended}, 0, 0},
			{"the token holds it", []*lease{mine}, 0, 0},
			{"it was released", []*lease{nil}, 0, 0},
			{"a waiter asks for it", nil, 1, 1},
			{"waiters ask for two", nil, 2, 2},
			{"it is held, and a waiter asks for it and another for the next one", []*lease{another}, 2, 2},
		} {
			c, op, queue := idleClient(), &Op{token: token}, &entry{}
			for i, l := range tt.known {
				c.leases.entry(SlotName("jobs", (guess+i)%k)).lease = l
			}
			for i := range tt.asked {
				queue.queue.insertByArrival(&waiter{op: &Op{}, entry: queue, arrival: uint64(i), attempt: &round{verb: verbSlot, slot: uint8((guess + i) % k)}})
			}
			op.waiter = &waiter{op: op, entry: queue, arrival: 9}
			queue.queue.insertByArrival(op.waiter)
			s := &slotSearch{}
			want := (guess + tt.want) % k
			if r := aim(s, c, op); int(r.slot) != want || !slices.Equal(r.keys, []string{SlotName("jobs", want)}) || s.tried != 1<<want {
				t.Errorf("%s guesses %d, and %s: got slot %d, %q, tried %b, want %d", token, guess, tt.name, r.slot, r.keys, s.tried, want)
			}
		}
	}
	if len(guesses) != k {
		t.Errorf("12 tokens guess %v, want each of %d slots", guesses, k)
	}
}

// A repetition asks for the slot that its token holds here, or only looks where others wait.
func TestRepetitionKnowsItsSlot(t *testing.T) {
	c, now := idleClient(), time.Now()
	held := &lease{keys: []string{"jobs#2"}, token: "mine", validUntil: now.Add(time.Minute)}
	c.leases.entry("jobs#2").lease = held
	for token, want := range map[string]*lease{"mine": held, "another's": nil} {
		s := &slotSearch{resource: "jobs", count: 4}
		if got := s.heldBy(&c.leases, &Op{token: token}, now); got != want || (s.next == 3) != (want != nil) || want == nil && s.next != 0 {
			t.Errorf("%s: got %+v and the hint %d, want %+v", token, got, s.next, want)
		}
	}
	for _, tt := range []struct {
		kind    kind
		callers bool
		want    bool
	}{{plainLock{}, true, false}, {&slotSearch{}, false, false}, {&slotSearch{}, true, true}} {
		op := &Op{kind: tt.kind, callerToken: tt.callers}
		if got := op.lookFirst(); got != tt.want {
			t.Errorf("%T, a token of its caller's %v: looks first: %v, want %v", tt.kind, tt.callers, got, tt.want)
		}
		if s, ok := tt.kind.(*slotSearch); ok && s.look != tt.want {
			t.Errorf("%T, a token of its caller's %v: the next round looks: %v, want %v", tt.kind, tt.callers, s.look, tt.want)
		}
	}
	a, b := &round{token: "a"}, &round{token: "b"}
	c.leases.inflight[slotsQueue("jobs")] = []*round{a, b}
	c.leases.slotReleased("jobs#1", "a")
	if !a.unlocked || b.unlocked {
		t.Errorf("UNLOCK of a slot of a: unlocked are %v, %v, want a alone", a.unlocked, b.unlocked)
	}
	c.leases.slotReleased("jobs#2", "b")
	if !a.unlocked || !b.unlocked {
		t.Errorf("UNLOCK of a slot of b, too: unlocked are %v, %v, want both", a.unlocked, b.unlocked)
	}
}

// slotVote is what one master says to a round for a slot.
type slotVote struct {
	vote  quorum.Vote
	free  uint32
	found int8 // counted from 1
}

// After a denial, the next round asks for the slot that the token may have, else for one that can be free on a quorum and is free on most masters; or the
// attempt is over.
func TestHowASlotSearchGoesOn(t *testing.T) {
	const k = 4
	no := func(free uint32, found ...int8) slotVote {
		return slotVote{quorum.Denied, free, append(found, 0)[0]}
	}
	says := func(v quorum.Vote) slotVote { return slotVote{vote: v} }
	stopped := errors.New("the error of the round")
	type votes = []slotVote
	for _, tt := range []struct {
		name  string
		votes votes
		again []int             // what the next round may ask for; nil: there is none
		round func(r *round)    // what else is known of the round; it has asked for slot 0
		state func(*slotSearch) // and of the search; it was the first one
		err   string            // "": that of the round
	}{
		{"none is free", votes{no(0), no(0), no(0), no(0), no(0)}, nil, nil, nil, ""},
		{"two are free", votes{no(6), no(6), no(6), no(6), no(6)}, []int{1, 2}, nil, nil, ""},
		{"the first of two is free on more", votes{no(6), no(6), no(6), no(2), no(2)}, []int{1}, nil, nil, ""},
		{"the second of two is free on more", votes{no(6), no(6), no(6), no(4), no(4)}, []int{2}, nil, nil, ""},
		{"the one that was asked for is free on more", votes{no(3), no(3), no(3), no(1), no(1)}, []int{1}, nil, nil, ""},
		{"only that is free", votes{no(1), no(1), no(1), no(1), no(1)}, nil, nil, nil, ""},
		{"one is free on a quorum", votes{no(2), no(2), no(2), no(0), no(0)}, []int{1}, nil, nil, ""},
		{"one is free on fewer", votes{no(2), no(2), no(0), no(0), no(0)}, nil, nil, nil, ""},
		{"one is free on fewer, and can be where the slot was set", votes{no(2), no(2), says(quorum.Granted), no(0), no(0)}, []int{1}, nil, nil, ""},
		{"or was there", votes{no(2), no(2), says(quorum.AlreadyMine), no(0), no(0)}, []int{1}, nil, nil, ""},
		{"or was free", votes{no(2), no(2), says(quorum.Stale), no(0), no(0)}, []int{1}, nil, nil, ""},
		{"or where no answer is in yet", votes{no(2), no(2), says(quorum.Pending), no(0), no(0)}, []int{1}, nil, nil, ""},
		{"but not on one that is away", votes{no(2), no(2), says(quorum.Abstained), no(0), no(0)}, nil, nil, nil, ""},
		{"one that no master is known to be free of", votes{no(0), no(0), says(quorum.Stale), says(quorum.Stale), says(quorum.Stale)}, nil, nil, nil, ""},
		{"masters that say what none does", votes{no(2), no(2), says(quorum.Absent), says(quorum.Absent), says(quorum.Absent)}, nil, nil, nil, ""},

		{"the token has one on all", votes{no(2, 4), no(2, 4), no(2, 4), no(2, 4), no(2, 4)}, []int{3}, nil, nil, ""},
		{"the token may have one beside silent masters", votes{no(2, 4), no(2), no(2), says(quorum.Unknown), says(quorum.Unknown)}, []int{3}, nil, nil, ""},
		{"or beside those that have not answered yet", votes{no(2, 4), no(2), no(2), says(quorum.Pending), says(quorum.Pending)}, []int{3}, nil, nil, ""},
		{"the token has one on a minority", votes{no(2, 4), no(2, 4), no(2), no(2), no(2)}, []int{1}, nil, nil, ""},
		{"the token has the one that was asked for", votes{no(2, 1), no(2, 1), no(2, 1), no(2), no(2)}, []int{1}, nil, nil, ""},

		{"the second round", votes{no(2), no(2), no(2), no(2), no(2)}, []int{1}, nil, func(s *slotSearch) { s.rounds, s.tried = 2, 5 }, ""},
		{"the last round", votes{no(2), no(2), no(2), no(2), no(2)}, nil, nil, func(s *slotSearch) { s.rounds, s.tried = 3, 13 }, ""},
		{"the second round, and the token has a slot", votes{no(0, 4), no(0, 4), no(0, 4), no(0), no(0)}, []int{3}, nil, func(s *slotSearch) { s.rounds, s.tried = 2, 3 }, ""},
		{"the last round, and the token has a slot", votes{no(0, 4), no(0, 4), no(0, 4), no(0), no(0)}, nil, nil, func(s *slotSearch) { s.rounds, s.tried = 3, 7 },
			(&NoQuorumError{Needed: 3, Masters: 5, Voted: 5}).Error()},
		{"a look where one is free", votes{no(2), no(2), no(2), no(2), no(2)}, nil, func(r *round) { r.slot = noSlot }, func(s *slotSearch) { s.tried = 0 }, ""},
		{"a look that finds the slot of the token", votes{no(2, 1), no(2, 1), no(2, 1), no(2), no(2)}, []int{0}, func(r *round) { r.slot = noSlot }, func(s *slotSearch) { s.tried = 0 }, ""},
		{"an UNLOCK of the slot behind it", votes{no(2), no(2), no(2), no(2), no(2)}, nil, func(r *round) { r.released = true }, nil, ""},
		{"an UNLOCK of another slot behind it", votes{no(2), no(2), no(2), no(2), no(2)}, nil, func(r *round) { r.unlocked = true }, nil, ""},
		{"the token may hold the slot", votes{no(2), no(2), says(quorum.AlreadyMine), says(quorum.Unknown), says(quorum.Unknown)}, nil, nil, nil, ""},
	} {
		r := &round{view: &view{}, answers: make([]answer, len(tt.votes)), slots: k}
		r.view.Places, r.view.Count = len(tt.votes), len(tt.votes)
		var v quorum.Votes
		for i, said := range tt.votes {
			r.view.masters = append(r.view.masters, &lane{index: i})
			r.answers[i] = answer{free: said.free, slot: said.found}
			v += quorum.Cast(i, said.vote)
		}
		if tt.round != nil {
			tt.round(r)
		}
		got := map[int]bool{}
		for range 50 { // it may choose
			s := &slotSearch{count: k, rounds: 1, tried: 1}
			if tt.state != nil {
				tt.state(s)
			}
			rounds, tried := s.rounds, s.tried
			again, err := s.denied(r, false, quorum.Acquisition(v, len(tt.votes)), v, stopped)
			wantErr := stopped.Error()
			if tt.err != "" {
				wantErr = tt.err
			}
			if again != (s.next > 0) || err.Error() != wantErr {
				t.Fatalf("%s: got %v, hint %d, error %q, want error %q", tt.name, again, s.next, err, wantErr)
			}
			if !again {
				rounds, tried = 0, 0
			} else {
				got[s.next-1] = true
			}
			if s.rounds != rounds || s.tried != tried {
				t.Fatalf("%s: got %v, and %d rounds for %b, want %d for %b", tt.name, again, s.rounds, s.tried, rounds, tried)
			}
		}
		if slots := slices.Sorted(maps.Keys(got)); !slices.Equal(slots, tt.again) {
			t.Errorf("%s: got %v, want %v", tt.name, slots, tt.again)
		}
	}

	s := &slotSearch{count: k, rounds: 3, tried: 7}
	if again, err := s.denied(&round{slot: 2}, true, quorum.No, 0, stopped); !again || err != stopped || s.next != 3 || s.rounds != 2 || s.tried != 7 {
		t.Errorf("the fence was too low: got %v, %v, %+v, want slot 2 again, which is no round more", again, err, s)
	}
}

// What a master replies to a round for a slot is a vote about that slot, and a denial tells of the others.
func TestReplyToASlot(t *testing.T) {
	for _, tt := range []struct {
		reply conn.Reply
		want  quorum.Vote
		free  uint32
		found int8
	}{
		{conn.Reply{Kind: ':', N: 1}, quorum.Granted, 0, 0},
		{conn.Reply{Kind: ':', N: 2}, quorum.AlreadyMine, 0, 0},
		{conn.Reply{Kind: ':', N: lateReply}, quorum.Abstained, 0, 0},
		{conn.Reply{Kind: ':', N: slotDenied}, quorum.Denied, 0, 0},
		{conn.Reply{Kind: ':', N: slotDenied - 5}, quorum.Denied, 5, 0},
		{conn.Reply{Kind: ':', N: slotDenied - 1<<5 - 1}, quorum.Denied, 1, 0}, // the semaphore has four
		{conn.Reply{Kind: ':', N: slotDenied - 5 - 4<<slotFoundBit}, quorum.Denied, 5, 4},
		{conn.Reply{Kind: ':', N: slotDenied - 5 - 5<<slotFoundBit}, quorum.Unknown, 0, 0},
		{conn.Reply{Kind: '$', N: slotDenied - 5}, quorum.Unknown, 0, 0},
	} {
		b := unsentBatch()
		b.rounds = []*round{{verb: verbSlot, slots: 4, keys: []string{"jobs#0"}, answers: make([]answer, 1)}}
		vote, refused, err := readSlot(b, command{}, tt.reply)
		var a answer
		if len(b.readings) > 0 {
			a = b.readings[0].answer
		}
		if vote != tt.want || refused != nil || (err != nil) != (vote == quorum.Unknown) || a.free != tt.free || a.slot != tt.found {
			t.Errorf("%c %d: got vote %d, %v, %v, free %b, found %d; want vote %d, free %b, found %d",
				tt.reply.Kind, tt.reply.N, vote, refused, err, a.free, a.slot, tt.want, tt.free, tt.found)
		}
	}
	for _, tt := range []struct{ slots, key, token, want int }{{1, 6, 32, 1}, {4, 6, 32, 2}, {32, 100, 200, 1 + 8 + 13}} {
		r := &round{slots: uint8(tt.slots), keys: []string{strings.Repeat("k", tt.key)}, token: strings.Repeat("t", tt.token)}
		if got := r.costOfSlots(); got != tt.want {
			t.Errorf("a round for one of %d slots, with a name of %d bytes and a token of %d: costs %d, want %d", tt.slots, tt.key, tt.token, got, tt.want)
		}
	}
}

// A LOCK that is repeated with the caller's token gets the slot that it has, through every client, and never a second one.
func TestRepeatedLockGetsItsSlot(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		const k = 5
		for i := range 40 {
			token := fmt.Sprint("mine-", i)
			// Some of the slots are held, so that the first guess is often wrong.
			var filled []*call
			for range i % k {
				filled = append(filled, p.lock(one("jobs", time.Minute).of(k)))
			}
			first := p.lock(one("jobs", time.Minute).of(k).as(token))
			for _, c := range filled {
				p.unlock(c.Token, c.Slot)
			}
			rounds := uint64(2)
			if i%k == 0 {
				rounds = 1 // its first guess was right
			}
			for _, through := range []*proxy{other, p, other} {
				before := through.Stats().Attempts
				again := through.lock(one("jobs", time.Minute).of(k).as(token))
				if !again.Held || again.Slot != first.Slot {
					s.Fatalf("LOCK again with %s: got %+v, want %s", token, again.Result, first.Slot)
				}
				if got := through.Stats().Attempts - before; got > rounds {
					s.Errorf("LOCK again: got %d rounds, want %d at most", got, rounds)
				}
			}
			p.unlock(token, first.Slot).want(s, "UNLOCK", "held", 0)
			other.unlock(token, first.Slot).want(s, "UNLOCK through the other client", "no", 0) // which knows now that the slot is free
			s.wantNoLocks()
		}
	})
}

// A LOCK that is repeated gets its slot also through a client where others wait for one; and a new token waits behind them.
func TestRepeatedLockBesideWaitersGetsItsSlot(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			const k = 3
			p.fill("jobs", k-1, time.Minute)
			mine := p.lock(one("jobs", time.Minute).of(k).as("mine"))
			var waiters []*call
			for range 2 {
				waiters = append(waiters, other.begin(one("jobs", time.Minute).of(k).waits(time.Minute)))
			}
			time.Sleep(time.Second)
			again := other.lock(one("jobs", time.Minute).of(k).as("mine").waits(wait))
			again.want(s, "LOCK again beside waiters", "held", 0)
			if again.Slot != mine.Slot {
				s.Errorf("LOCK again beside waiters: got %+v, want %s", again.Result, mine.Slot)
			}
			other.lock(one("jobs", time.Minute).of(k).as("new")).want(s, "LOCK with a new token", "no", 0)
			last := other.begin(one("jobs", time.Minute).of(k).as("new").waits(time.Minute))
			p.unlock("mine", mine.Slot)
			p.finish(waiters[0])
			if !waiters[0].Held || waiters[1].done.Load() || last.done.Load() {
				s.Errorf("after UNLOCK: got %+v, and the others are done: %v, %v; want that the first has it", waiters[0].Result, waiters[1].done.Load(), last.done.Load())
			}
		})
	}
}

// Two LOCKs with one token that are under way through two clients at the same time get one slot between them.
func TestTokenNeverHoldsTwoSlots(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		const k = 8
		for i := range 60 {
			token := fmt.Sprint("mine-", i)
			// The first guess of one client differs from that of the other.
			var taken []*call
			for range i % 3 {
				taken = append(taken, p.lock(one("jobs", time.Second).of(k)))
			}
			for m := range 5 {
				p.delay(time.Duration((i*7+m*3)%5)*ms, ms, m)
				other.delay(time.Duration((i*3+m*5)%7)*ms, ms, m)
			}
			a, b := &call{began: time.Now()}, &call{began: time.Now()}
			p.StartLock(&a.Op, one("jobs", time.Second).of(k).as(token), a)
			for _, c := range taken {
				other.startUnlock(c.Token, c.Slot)
			}
			time.Sleep(time.Duration(i%4) * ms)
			other.StartLock(&b.Op, one("jobs", time.Second).of(k).as(token), b)
			p.finish(a)
			other.finish(b)
			if a.Held && b.Held && a.Slot != b.Slot {
				s.Fatalf("two LOCKs with %s: got %s and %s, want one slot", token, a.Slot, b.Slot)
			}
			time.Sleep(50 * ms)
			on := 0
			for n := range k {
				if strings.Count(s.on(SlotName("jobs", n), token), "1") >= 3 {
					on++
				}
			}
			if on > 1 {
				s.Fatalf("%s holds %d slots on a quorum, want one at most", token, on)
			}
			for n := range k {
				p.unlock(token, SlotName("jobs", n))
			}
			time.Sleep(2 * time.Second)
		}
		s.wantNoLocks()
	})
}

// A master that was given what others remember may hold two slots of one token: what a round has left there, and what it was given. It gives
// neither again, so that a repetition finds the slot that the token has, or none.
func TestMasterWithTwoSlotsOfAToken(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		for i := range 20 { // the first guess is one of the two
			token, has, left := fmt.Sprint("mine-", i/2), SlotName("jobs", i%2), SlotName("jobs", 1-i%2)
			for m := range 5 {
				s.do(m, "DEL", has, left)
				if m >= 2 {
					s.do(m, "SET", has, token, "PX", 60_000)
				}
				if m == 2 {
					s.do(m, "SET", left, token, "PX", 60_000)
				}
			}
			if c := p.lock(one("jobs", time.Minute).of(2).as(token)); c.Held && c.Slot == left {
				s.Fatalf("LOCK with %s, which has %s on three masters and a rest of %s on one of them: got %s", token, has, left, c.Slot)
			}
		}
	})
}

// A split vote leaves nothing, and the next round asks for another slot.
func TestSplitSlotIsUndone(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		const k = 4
		for slot := range k { // on three masters each slot but the last is somebody's
			for m := range 3 {
				if slot < k-1 {
					s.do(m, "SET", SlotName("jobs", slot), "another's", "PX", 60_000)
				}
			}
		}
		for range 20 {
			c := p.lock(one("jobs", time.Minute).of(k))
			if c.Slot != "jobs#3" {
				s.Fatalf("LOCK: got %+v, want jobs#3", c.Result)
			}
			time.Sleep(ms)
			for slot := range k - 1 {
				for m := 3; m < 5; m++ {
					if value, _, ok := s.masters[m].Get(SlotName("jobs", slot)); ok {
						s.Errorf("master %d holds %s for %q, want it undone", m+1, SlotName("jobs", slot), value)
					}
				}
			}
			p.unlock(c.Token, c.Slot)
		}
	})
}

// A slot that is not free on one master, for somebody's failed attempt is still there, is granted all the same. So is one on masters of which
// a minority is away, and one beside a key of another type.
func TestSlotsOverAMinority(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		const k = 3
		held := p.fill("jobs", k, time.Minute)
		s.do(0, "SET", "jobs#1", "left over", "PX", 600_000)
		p.unlock(held["jobs#1"], "jobs#1")
		s.do(1, "HSET", "jobs#1", "a", "b")
		for range 10 {
			c := p.lock(one("jobs", time.Minute).of(k))
			if c.Slot != "jobs#1" {
				s.Fatalf("LOCK with a slot that two masters do not give: got %+v, want jobs#1", c.Result)
			}
			s.wantOn("jobs#1", c.Token, "00111")
			p.unlock(c.Token, c.Slot)
		}
		for _, m := range []int{0, 2, 3, 4} {
			s.do(m, "DEL", "jobs#1")
			s.do(m, "HSET", "jobs#1", "a", "b")
		}
		other := s.open()
		s.masters[3].Crash(true)
		s.masters[4].Crash(true)
		s.until("two masters are away", func() bool { return other.states() == "uuudd" })
		s.do(0, "DEL", "jobs#1") // on one of the others it is free
		before := other.Stats().Attempts
		for range 10 {
			other.lock(one("jobs", time.Minute).of(k)).want(s, "LOCK beside a key of another type", "no", 0)
		}
		other.wantAttempts("LOCK beside a key of another type", before, 10)
		if got := s.do(1, "HGET", "jobs#1", "a"); got != "b" {
			s.Errorf("the key of another type: got %v, want it untouched", got)
		}
	})
}

// A client that sends UNLOCK behind a repeated LOCK ends without the lock: no other slot is asked for behind the UNLOCK.
func TestUnlockBehindARepeatedLockOfASlot(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		for i := range 30 {
			token := fmt.Sprint("mine-", i)
			filled := other.fill("jobs", 4, time.Minute)
			free := fmt.Sprint("jobs#", i%4)
			other.unlock(filled[free], free)
			first := other.lock(one("jobs", time.Minute).of(4).as(token))
			for slot, t := range filled {
				other.unlock(t, slot)
			}
			again := p.startLock(one("jobs", time.Minute).of(4).as(token))
			unlock := p.startUnlock(token, first.Slot)
			p.finish(again)
			p.finish(unlock).want(s, "UNLOCK behind a repeated LOCK", "held", 0)
			time.Sleep(ms)
			for n := range 4 {
				if on := s.on(SlotName("jobs", n), token); on != "00000" {
					s.Fatalf("%s after UNLOCK of %s: masters %s hold it, want none (LOCK: %+v)", SlotName("jobs", n), first.Slot, on, again.Result)
				}
			}
		}
	})
}

// What a client's caller never learns of is released, and the slot goes to somebody else.
func TestAbandonedSlot(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		const k = 2
		held := p.fill("jobs", k, time.Minute)
		left := p.begin(one("jobs", time.Minute).of(k).waits(time.Minute))
		next := p.begin(one("jobs", time.Minute).of(k).waits(time.Minute))
		p.unlock(held["jobs#0"], "jobs#0")
		if !left.Held || left.Slot != "jobs#0" {
			s.Fatalf("the first waiter: got %+v, want jobs#0", left.Result)
		}
		p.Abandon(&left.Op)
		synctest.Wait()
		if !next.done.Load() || next.Slot != "jobs#0" {
			s.Errorf("the second waiter: got %+v, want jobs#0 when the first has gone", next.Result)
		}
	})
}

// A slot that was granted to a waiter which has gone meanwhile goes on to the next one in the batch that takes it back.
func TestSlotThatIsGivenBackIsHandedOver(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open(func(o *Options) { o.RetryDelayMin, o.RetryDelayMax = 5*time.Second, 5*time.Second })
		held := p.fill("jobs", 1, time.Minute)
		left := p.begin(one("jobs", time.Minute).of(1).waits(time.Minute))
		next := p.begin(one("jobs", time.Minute).of(1).waits(time.Minute))
		p.delay(3*ms, 4*ms, 0, 1, 2, 3, 4)
		p.startUnlock(held["jobs#0"], "jobs#0") // goes to the first
		time.Sleep(6 * ms)
		p.Unblock(&left.Op, nil)
		time.Sleep(8*ms + 100*time.Microsecond)
		if !next.done.Load() || next.Slot != "jobs#0" {
			s.Errorf("the second waiter, two round trips of 7ms after the release: got %+v, want jobs#0", next.Result)
		}
	})
}

package redlock

// A lease that the masters lose before its validity ends is noticed, by whatever it was deleted, and its EXTEND fails.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"

	"github.com/redis/go-redis/v9"
)

func TestRealLostLeaseIsNoticed(t *testing.T) {
	servers, c := openFive(t, patient)
	ctx := context.Background()
	for _, name := range []string{"kept", "deleted"} {
		if _, err := c.TryLock(ctx, name, 30*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	lost, err := c.TryLock(ctx, "flushed", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := func(lost ...string) func() error {
		return func() error {
			var got []string
			for _, info := range c.Leases(func([]string) bool { return true }, 100) {
				if info.Lost {
					got = append(got, info.Resources[0])
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(lost) || c.Stats().Lost != uint64(len(lost)) {
				return fmt.Errorf("lost leases: got %v (%d counted), want %v", got, c.Stats().Lost, lost)
			}
			return nil
		}
	}
	// Two of five without it is no loss.
	for i, s := range servers {
		client := dialServer(t, s.Addr)
		// A lock is granted when a quorum has it. The others get it a little later, and must not get it behind DEL.
		eventually(t, "the locks are on every master", func() error {
			if n, err := client.Exists(ctx, "kept", "deleted", "flushed").Result(); err != nil || n != 3 {
				return fmt.Errorf("%s has %d of 3 locks: %v", s.Addr, n, err)
			}
			return nil
		})
		if i < 2 {
			client.Del(ctx, "kept")
		}
		if i < 3 {
			client.Del(ctx, "deleted")
		}
	}
	eventually(t, "deleted by hand, which may have been a release", func() error {
		if n := c.Stats().Leases; n != 2 {
			return fmt.Errorf("%d leases, want two", n)
		}
		return want()()
	})
	for _, s := range servers[2:] {
		client := dialServer(t, s.Addr)
		client.FlushAll(ctx)
	}
	eventually(t, "flushed", want("flushed", "kept"))
	if err := lost.Extend(ctx, 10*time.Second); !errors.Is(err, ErrNoQuorum) {
		t.Errorf("extend of a lease that three quarantined masters forgot: got %v, want ErrNoQuorum: no quorum has a vote", err)
	}
}

// A master whose memory is full cannot count heartbeats. It takes no new lock, keeps its vote on others, releases what is held, and grants again
// when there is room.
func TestRealFullMasterReleases(t *testing.T) {
	servers := redisproc.StartForTest(t, 1)
	c := openReal(t, servers, patient)
	allUp(t, c)
	ctx := t.Context()
	lease, err := c.TryLock(ctx, "r", time.Minute)
	if err != nil || lease == nil {
		t.Fatalf("LOCK: got %v, %v", lease, err)
	}
	client := dialServer(t, servers[0].Addr)
	client.ConfigSet(ctx, "maxmemory", "1")
	since := c.Masters()[0].Batches
	eventually(t, "some heartbeats with the memory full", func() error {
		if n := c.Masters()[0].Batches - since; n < 4 {
			return fmt.Errorf("%d batches", n)
		}
		_, err := c.TryLock(ctx, "another", time.Minute)
		if err == nil || !strings.Contains(err.Error(), "OOM") {
			return fmt.Errorf("LOCK with the memory full: got %v, want the reason", err)
		}
		return nil
	})
	if m := c.Masters()[0]; m.State != MasterRefused || !m.Connected || !m.MemoryIsLow() {
		t.Fatalf("the master is %s: %s, connected %v, %d of %d bytes, want it refused, connected, and full", m.State, m.Reason, m.Connected, m.UsedMemory, m.MaxMemory)
	}
	if err := lease.Extend(ctx, time.Minute); err != nil {
		t.Errorf("EXTEND with the memory full: got %v, want it extended", err)
	}
	if err := lease.Unlock(ctx); err != nil {
		t.Errorf("UNLOCK with the memory full: got %v, want released", err)
	}
	client.ConfigSet(ctx, "maxmemory", "0")
	if lease, err = c.TryLock(ctx, "r", time.Minute); err != nil || lease == nil {
		t.Errorf("LOCK where there is room again: got %v, %v", lease, err)
	}
}

// Three masters at the limit of their memory are allowed to evict, and evict most locks. The next heartbeat finds it: they have no vote
// from then on, but are still asked, so that the leases they have lost are reported.
func TestRealEvictedLeasesAreNoticed(t *testing.T) {
	const leases, ttl = 1500, 10 * time.Minute // none may end by itself, however slow the machine is
	servers := redisproc.StartForTest(t, 5)
	c := openReal(t, servers, func(o *Options) { patient(o); o.MaxTTL = ttl })
	allUp(t, c)
	ctx := t.Context()
	var evicting []*redis.Client
	var limits []int
	for _, s := range servers[:3] {
		client := dialServer(t, s.Addr)
		used, err := strconv.Atoi(conn.ParseInfo(client.Info(ctx, "memory").Val())["used_memory"])
		if err != nil {
			t.Fatal(err)
		}
		evicting, limits = append(evicting, client), append(limits, used+512<<10)
	}
	names := make([]string, leases)
	for i := range names {
		names[i] = fmt.Sprint(strings.Repeat("x", 1000), i)
	}
	var callers sync.WaitGroup
	for some := range slices.Chunk(names, 50) {
		callers.Go(func() {
			for _, name := range some {
				if _, err := c.TryLock(ctx, name, ttl); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	if callers.Wait(); t.Failed() {
		return
	}
	for i, client := range evicting {
		eventually(t, "the locks are on the master", func() error {
			if n := len(keysOn(t, servers[i].Addr)); n != leases {
				return fmt.Errorf("%d of %d", n, leases)
			}
			return nil
		})
		client.ConfigSet(ctx, "maxmemory", strconv.Itoa(limits[i]))
		client.ConfigSet(ctx, "maxmemory-policy", "volatile-lru")
	}
	const reason = "it may evict locks when its memory is full: maxmemory-policy is volatile-lru, set noeviction"
	eventually(t, "three masters have no vote", func() error {
		for i, m := range c.Masters() {
			if want := i < 3; (m.State == MasterRefused) != want || want && m.Reason != reason {
				return fmt.Errorf("%s is %s: %q", m.Addr, m.State, m.Reason)
			}
		}
		return nil
	})
	for _, name := range names[:50] {
		lease, err := c.TryLock(ctx, name, ttl)
		if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "refused: "+reason) {
			t.Fatalf("LOCK where three masters evict: got %v, %v, want no quorum and the reason", lease, err)
		}
	}
	// What they are asked takes memory, too, and may evict some more. So it goes on for as long as more are reported.
	for reported, all := uint64(0), false; !all; {
		eventually(t, "all leases that the three have lost are reported, or some more of them", func() error {
			kept := make([]int64, leases)
			for _, client := range evicting {
				for from := 0; from < leases; from += 25 {
					pipe := client.Pipeline() // small ones: the master counts their bytes
					for _, name := range names[from : from+25] {
						pipe.Exists(ctx, name)
					}
					replies, err := pipe.Exec(ctx)
					if err != nil {
						return err
					}
					for i, reply := range replies {
						kept[from+i] += reply.(*redis.IntCmd).Val()
					}
				}
			}
			gone := uint64(0)
			for _, masters := range kept {
				if masters == 0 {
					gone++
				}
			}
			n := c.Stats().Lost
			if all = n == gone && n >= leases/10; all || n > reported {
				reported = n
				return nil
			}
			return fmt.Errorf("%d are reported, %d of %d are lost", n, gone, leases)
		})
	}

	for _, client := range evicting {
		client.ConfigSet(ctx, "maxmemory-policy", "noeviction")
		client.ConfigSet(ctx, "maxmemory", "0")
	}
	eventually(t, "they are in quarantine", func() error {
		for _, m := range c.Masters()[:3] {
			if m.State != MasterQuarantined || m.Left < 30*time.Second {
				return fmt.Errorf("%s is %s for another %v: %q", m.Addr, m.State, m.Left, m.Reason)
			}
		}
		return nil
	})
}

// Once a master has lost its vote, every lease is looked at soon.
func TestLeasesAreLookedAtWhenAVoteIsLost(t *testing.T) {
	const leases = 200
	for _, tt := range []struct {
		name, states string
		lose         func(s *stage)
	}{
		{"it is a replica", "uuuur", func(s *stage) { s.do(4, "REPLICAOF", "elsewhere", "6379") }},
		{"it may evict", "uuuur", func(s *stage) { s.do(4, "CONFIG", "SET", "maxmemory", "1000000", "maxmemory-policy", "volatile-lru") }},
		{"its memory went back", "uuuuq", func(s *stage) { s.do(4, "HSET", lua.MembersKey, "beat", -1) }}, // below any beat, also behind a first heartbeat
		{"it is flushed", "uuuuq", func(s *stage) { s.do(4, "FLUSHALL") }},
		{"it restarts", "uuuuq", func(s *stage) { s.masters[4].Restart() }},
		{"its clock stepped", "uuuuo", func(s *stage) { s.stepClocks(time.Second, 4) }},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open(uncopied)
			for i := range leases {
				p.lock(one(fmt.Sprint("r", i), time.Minute)).want(s, "LOCK", "held", 0)
			}
			time.Sleep(auditMinAlive)
			for i := range leases {
				s.doOn([]int{0, 1, 2}, "DEL", fmt.Sprint("r", i))
			}
			tt.lose(s)
			time.Sleep(3 * p.opts.Heartbeat)
			p.wantStates(tt.states)
			if n := p.Stats().Leases; n != 0 {
				s.Errorf("%s: leases within three heartbeats: got %d, want none: their keys are gone", tt.name, n)
			}
		})
	}
}

// What was released, taken over or changed through another client is forgotten, nobody is told of a loss, and nothing of it stays.
func TestWhatOthersEndIsNotLost(t *testing.T) {
	const callers = "a token of the caller's own"
	rotated := rotate("r", longValue, otherValue, time.Minute)
	for _, tt := range []struct {
		name string
		lock func(p *proxy) (token string)
		end  func(p *proxy, token string)
	}{
		{"UNLOCK", func(p *proxy) string { return p.lock(one("r", time.Minute)).Token }, func(p *proxy, token string) { p.unlock(token, "r") }},
		{"UNLOCK of a reader", func(p *proxy) string { return p.lock(one("r", time.Minute).sharing()).Token }, func(p *proxy, token string) { p.unlock(token, "r") }},
		{"UNLOCK of a caller's token", func(p *proxy) string { return p.lock(one("r", time.Minute).as(callers)).Token },
			func(p *proxy, token string) { p.unlock(token, "r") }},
		{"MUNLOCK", func(p *proxy) string { return p.lock(several(time.Minute, "r", "x")).Token }, func(p *proxy, token string) { p.unlock(token, "r", "x") }},
		{"HOLD", func(p *proxy) string { return p.lock(one("r", time.Minute)).Token },
			func(p *proxy, token string) { p.holder().hold(token, time.Minute, false, "r") }},
		{"a change of the value", func(p *proxy) string { p.commit(setNX("r", longValue, time.Minute)); return longValue },
			func(p *proxy, _ string) { p.commit(rotated) }},
		{"DEL by hand on most masters", func(p *proxy) string { return p.lock(one("r", time.Minute)).Token }, func(p *proxy, _ string) {
			for i := range 3 {
				p.s.do(i, "DEL", "r")
			}
		}},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			token := tt.lock(p)
			time.Sleep(auditMinAlive)
			tt.end(other, token)
			p.audits.suspect() // also when leases are looked at because of a master
			time.Sleep(2 * p.opts.Heartbeat)
			if st := p.Stats(); st.Lost != 0 || st.Leases != 0 {
				s.Errorf("%s: got %d leases, %d lost, want none", tt.name, st.Leases, st.Lost)
			}
			s.wantOn("r", token, "00000")
		})
	}
}

// A takeover that has exchanged the token, and is given up, puts it back. What it has not reached yet stays.
func TestAuditBesideATakeover(t *testing.T) {
	for _, token := range []string{"", "a token of the caller's own"} {
		testAuditBesideATakeover(t, token)
	}
}

func testAuditBesideATakeover(t *testing.T, token string) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		token := p.lock(one("r", 10*time.Second).as(token)).Token
		time.Sleep(auditMinAlive)
		other.delay(0, time.Second, 0, 1, 2) // these get the command, and the answers come too late
		other.delay(time.Second, 0, 3, 4)
		took := &call{began: time.Now()}
		other.StartHold(&took.Op, LockRequest{Resources: []string{"r"}, Token: token, TTL: 10 * time.Second, Holder: other.holder().Holder}, took)
		s.until("the token is exchanged", func() bool { return s.on("r", token) == "00011" })
		lease := &round{verb: verbAudit, token: token, start: time.Now()}
		lease.setKeys("r")
		p.mu.Lock()
		p.rounds.launch(lease, quorum.All, &deferred{now: time.Now()})
		p.mu.Unlock()
		time.Sleep(10 * ms)
		if got := s.on("r", token); got[3:] != "11" {
			s.Errorf("the token on the masters: got %s, want the last two to have it", got)
		}
	})
}

// A release through another client comes to two masters before the grant does. Nothing of the lock stays there, also if these masters are what a
// later one needs.
func TestReleaseThatOvertakesTheGrant(t *testing.T) {
	const mine = "a token of the caller's own"
	granted := func(req LockRequest) func(p *proxy) string {
		return func(p *proxy) string { return p.lock(req).Token }
	}
	for name, lock := range map[string]func(p *proxy) (token string){
		"one":              granted(one("r", time.Minute)),
		"several":          granted(several(time.Minute, "r", "x")),
		"reader":           granted(one("r", time.Minute).sharing()),
		"a caller's token": granted(one("r", time.Minute).as(mine)),
		"SET NX":           func(p *proxy) string { p.commit(setNX("r", "1", time.Minute)); return "1" },
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			slow := p.opts.MasterTimeout / 2
			p.delay(slow, 0, 3, 4)
			token, resources := lock(p), []string{"r", "x"}
			if name != "several" {
				resources = resources[:1]
			}
			other.unlock(token, resources...).want(s, "UNLOCK", "held", 0)
			keys := func() (n int64) {
				for i := range s.masters {
					n += s.do(i, "EXISTS", "r").(int64)
				}
				return n
			}
			time.Sleep(3 * p.opts.MasterTimeout)
			if n := keys(); n != 0 {
				s.Errorf("%s: on %d masters, want none", name, n)
			}
			s.freeze(0, 1)
			other.lock(one("r", time.Second)).want(s, name+": LOCK without two others", "held", 0)
		})
	}
}

// What the masters say of a lease: it is lost where that takes masters that have forgotten, ended elsewhere where those that remember suffice, and nothing
// where it is too few, or about the past.
func TestWhatAnAuditFinds(t *testing.T) {
	made := func(at time.Time) string { return newTokenSource().make(at) }
	began := time.Now()
	token, takeover, another := made(began), made(began), made(began.Add(time.Second))
	for name, tt := range map[string]struct {
		token   string // "": token
		votes   string
		holds   string // the value on masters that hold another
		on      string // which masters do
		change  func(l *lease, r *round)
		want    string // of the lease: "held", "lost", "moved", "ended", or "taken back"
		dropped bool   // what is left of it is released
	}{
		"all hold it":                              {votes: "GGGGG", want: "held"},
		"two do not":                               {votes: "AAGGG", want: "held"},
		"three do not":                             {votes: "AAAGG", want: "ended", dropped: true},
		"two do not, and one is silent":            {votes: "AAUGG", want: "held"},
		"three have forgotten":                     {votes: "OOOGG", want: "lost"},
		"two have forgotten, and one does not":     {votes: "OAOGG", want: "lost"},
		"two do not, and one has forgotten":        {votes: "AAOGG", want: "lost"},
		"three hold another":                       {votes: "GGGGG", holds: another, on: "11100", want: "ended", dropped: true},
		"three hold one of the same birth":         {votes: "GGGGG", holds: takeover, on: "11100", want: "moved"},
		"three hold what is no token":              {votes: "GGGGG", holds: "a library's", on: "11100", want: "moved"},
		"one holds one of the same birth":          {votes: "GAAGG", holds: takeover, on: "10000", want: "moved"},
		"of those without a vote three do":         {votes: "dddGG", holds: another, on: "11100", want: "lost"},
		"those without a vote hold it":             {votes: "dddGG", want: "held"},
		"one of those without a vote does":         {votes: "dAAGG", holds: another, on: "10000", want: "lost"},
		"silent ones hold another":                 {votes: "UUUGG", holds: another, on: "11100", want: "held"},
		"a caller's own":                           {token: longValue, votes: "AAAGG", want: "ended"},
		"a caller's own, and its attempt is known": {token: longValue, votes: "AAAGG", change: func(l *lease, r *round) { l.attempt = newAttempt(r, 5) }, want: "taken back"},
		"a reader":                        {votes: "AAAGG", change: func(l *lease, r *round) { r.asReader(true) }, want: "ended"},
		"a set of readers tells no value": {votes: "GGGGG", holds: another, on: "11111", change: func(l *lease, r *round) { r.asReader(true) }, want: "held"},
		"its validity is over":            {votes: "OOOGG", change: func(l *lease, r *round) { l.validUntil = time.Now().Add(-1) }, want: "held"},
		"it is known to be lost":          {votes: "AAAGG", change: func(l *lease, r *round) { l.lost = true }, want: "lost before"},
		"it was granted later":            {votes: "OOOGG", change: func(l *lease, r *round) { l.launched = 9 }, want: "held"},
		"it has a delay":                  {votes: "OOOGG", want: "lost"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			tt.token = cmp.Or(tt.token, token)
			r := &round{verb: verbAudit, token: tt.token, view: p.fleet.view.Load(), answers: make([]answer, 5), launched: 5}
			r.setKeys("r")
			for i := range r.answers {
				if r.answers[i].value = tt.token; tt.on != "" && tt.on[i] == '1' {
					r.answers[i].value = tt.holds
				}
			}
			l := &lease{keys: []string{"r"}, token: tt.token, launched: 4, born: time.Now(), validUntil: time.Now().Add(10 * time.Second)}
			if tt.change != nil {
				tt.change(l, r)
			}
			p.mu.Lock()
			p.leases.grant(l, &p.admission.share, time.Second, time.Now())
			launched := p.rounds.launched
			p.mu.Unlock()
			d := &deferred{now: time.Now()}
			p.auditDecided(r, quorum.Yes, votesOf(tt.votes), d)
			p.mu.Lock()
			defer p.mu.Unlock()
			got := "held"
			_, delayed := p.leases.delays[l]
			switch here := p.leases.entries["r"].leaseOf(tt.token) == l; {
			case here && l.lost && p.stats.Lost == 0:
				got = "lost before"
			case here && l.lost && !delayed:
				got = "lost"
			case here && delayed && !l.lost:
			case l.attempt != nil && l.attempt.failed.Load():
				got = "taken back"
			case p.leases.byPrefix[0].Hold != (Times{}):
				got = "ended"
			default:
				got = "moved"
			}
			if dropped := p.rounds.launched > launched; got != tt.want || dropped != tt.dropped {
				s.Errorf("%s: %s, the rest released %t; want %s, %t", name, got, dropped, tt.want, tt.dropped)
			}
		})
	}
}

// Leases are looked at in turn, a few with each heartbeat, and all of them soon where there is doubt; not those that are lost, about to end, or just granted.
func TestWhichLeasesAreLookedAt(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		time.Sleep(time.Second)
		fill := func(n int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			for len(p.leases.all) > 0 {
				p.leases.forget(p.leases.all[0])
			}
			for i := range n {
				l := &lease{keys: []string{fmt.Sprint("r", i)}, token: longValue, born: time.Now().Add(-time.Second), validUntil: time.Now().Add(10 * time.Second)}
				p.leases.grant(l, &p.admission.share, 0, time.Now())
			}
			p.audits.last, p.audits.doubts = 0, 0
		}
		next := func() (looked uint64) {
			p.mu.Lock()
			before := p.stats.Audits
			p.mu.Unlock()
			p.audits.next(&deferred{now: time.Now()})
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.stats.Audits - before
		}
		fill(1200)
		if got := next(); got != auditPerBeat || p.audits.last != auditPerBeat {
			s.Errorf("with a heartbeat %d leases are looked at, up to %d; want %d", got, p.audits.last, auditPerBeat)
		}
		p.audits.suspect()
		for i, want := range []uint64{auditInDoubt, auditInDoubt, auditInDoubt, auditPerBeat} {
			if got := next(); got != want {
				s.Errorf("in doubt, heartbeat %d: %d leases are looked at, want %d", i, got, want)
			}
		}
		now := time.Now()
		for name, change := range map[string]func(l *lease) (looked bool){
			"":                      func(l *lease) bool { return true },
			"lost":                  func(l *lease) bool { l.lost = true; return false },
			"about to end":          func(l *lease) bool { l.validUntil = now.Add(auditMinAlive - 1); return false },
			"about to end, in time": func(l *lease) bool { l.validUntil = now.Add(auditMinAlive); return true },
			"just granted":          func(l *lease) bool { l.born = now.Add(1 - auditMinAlive); return false },
			"granted lately":        func(l *lease) bool { l.born = now.Add(-auditMinAlive); return true },
		} {
			fill(1)
			if want := change(p.leases.all[0]); (next() == 1) != want {
				s.Errorf("a lease that is %s: looked at %t, want %t", name, !want, want)
			}
		}
		fill(0)
	})
}

// A master that has done an attempt long after its grant has the lease looked at, if that is of this attempt still.
func TestLateVoteOfAnAttempt(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		time.Sleep(time.Second)
		soon := p.opts.MasterTimeout / 4
		for name, tt := range map[string]struct {
			granted time.Duration // how long ago; 0: it was not
			of      bool          // the lease is of this attempt
			want    uint64
		}{
			"long after": {soon, true, 1}, "soon after": {soon - 1, true, 0}, "it was not granted": {0, true, 0}, "a later attempt has the lease": {soon, false, 0},
		} {
			r := &round{verb: verbSet, token: longValue}
			r.setKeys("r")
			r.attempt = newAttempt(r, 3)
			if tt.granted > 0 {
				r.attempt.granted.Store(int64(p.own.At(time.Now()) - tt.granted))
			}
			l := &lease{keys: []string{"r"}, token: longValue, born: time.Now(), validUntil: time.Now().Add(10 * time.Second)}
			if l.attempt = newAttempt(r, 3); tt.of {
				l.attempt = r.attempt
			}
			p.mu.Lock()
			p.leases.grant(l, &p.admission.share, 0, time.Now())
			before := p.stats.Audits
			p.mu.Unlock()
			d := &deferred{now: time.Now()}
			p.audits.lookAtAttempt(r, d)
			p.runDeferred(d)
			p.mu.Lock()
			if got := p.stats.Audits - before; got != tt.want {
				s.Errorf("%s: looked at %d times, want %d", name, got, tt.want)
			}
			p.leases.forget(l)
			p.mu.Unlock()
		}
	})
}

// A takeover keeps the birth of its lock, and of a value that is no token of redlockd nobody knows it.
func TestWhatMayTakeOver(t *testing.T) {
	now := time.Now()
	source := newTokenSource()
	token, same, later := source.make(now), source.make(now), source.make(now.Add(ms))
	for _, tt := range []struct {
		value, token string
		want         bool
	}{{same, token, true}, {later, token, false}, {longValue, token, true}, {token, longValue, true}, {longValue, longValue, true}, {"", token, true}} {
		if got := mayTakeOver(tt.value, tt.token); got != tt.want {
			t.Errorf("%q in the place of %q: got %t, want %t", tt.value, tt.token, got, tt.want)
		}
	}
}

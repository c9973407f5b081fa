package redlock

// Goal: any number of readers, or one writer; a reader's lock ends when it ends, whatever others do; a writer that waits gets its turn; and
// nothing of a stranger is changed. Method: the scripts one by one on a master in memory and on a redis-server, then clients in virtual time.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/lua"
	"redlockd/redlock/member/fleettest"
	"redlockd/redlock/memmaster"
)

func (r LockRequest) sharing() LockRequest { r.Shared = true; return r }

// readersSet is the sorted set of a resource, with the minutes from now to the ends, rounded, so that nobody has to be quick; and when the key ends.
func readersSet(t *testing.T, client *redis.Client, key string) string {
	t.Helper()
	ctx := context.Background()
	if kind := client.Type(ctx, key).Val(); kind != "zset" {
		return kind
	}
	left := client.PTTL(ctx, key).Val().Milliseconds()
	members := client.ZRevRangeWithScores(ctx, key, 0, 9).Val()
	end := 0.0
	for _, z := range members {
		if z.Member == "redlockd:end" {
			end = z.Score
		}
	}
	var found []string
	for _, z := range members {
		found = append(found, fmt.Sprintf("%v %d", z.Member, (int64(z.Score-end)+left+30_000)/60_000))
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

func TestReaderScripts(t *testing.T) {
	const longest = 3_600_000
	run := func(s lua.Script, args ...any) func(client *redis.Client) any {
		return func(client *redis.Client) any {
			reply, err := client.Eval(context.Background(), s.Text, []string{"k"}, args...).Result()
			if err != nil {
				return err.Error()
			}
			return reply
		}
	}
	// TTLs are minutes.
	join := func(token string, ttl int) func(*redis.Client) any {
		return run(lua.Join, token, 60_000*ttl, longest, "0")
	}
	rejoin := func(token string, ttl int) func(*redis.Client) any {
		return run(lua.Join, token, 60_000*ttl, longest, "1")
	}
	acquire := func(token string, ttl int) func(*redis.Client) any {
		return run(lua.Acquire, token, 60_000*ttl, longest, 0, 0)
	}
	extend := func(token string, ttl int) func(*redis.Client) any {
		return run(lua.Extend, token, 60_000*ttl, longest)
	}
	takeOver := func(token, next string, ttl int) func(*redis.Client) any {
		return run(lua.Commit, 2, token, doSetLonger, next, 60_000*ttl, 0)
	}
	// putBack undoes that as if the reader's end had been so many minutes later than it is.
	putBack := func(token, next string, later int) func(*redis.Client) any {
		return func(client *redis.Client) any {
			return runScript(client, lua.Undo, []string{"k"}, []any{next, endOf{key: "k", reader: next, later: 60_000 * later}, undoPutBack, token})
		}
	}
	release := func(token string) func(*redis.Client) any { return run(lua.Release, 0, token) }
	// announce rounds what is left, to minutes.
	announce := func(client *redis.Client) any {
		reply := run(lua.Announce, 180_000, 60_000)(client)
		if list, ok := reply.([]any); ok {
			if ms, ok := list[1].(int64); ok && ms > 0 {
				list[1] = (ms + 30_000) / 60_000
			}
		}
		return reply
	}
	set := func(client *redis.Client) any {
		return client.Set(context.Background(), "k", "W", 10*time.Minute).Val()
	}
	type step struct {
		do    func(*redis.Client) any
		reply string
		after string // readersSet
	}
	const alone = "r:A 4, redlockd:end 4"
	for _, tc := range []struct {
		name  string
		steps []step
	}{
		{"readers come and go", []step{
			{join("A", 4), "1", alone},
			{join("B", 2), "1", "r:A 4, r:B 2, redlockd:end 4"},
			{join("C", 9), "1", "r:A 4, r:B 2, r:C 9, redlockd:end 9"},
			{release("X"), "-", "r:A 4, r:B 2, r:C 9, redlockd:end 9"},
			{release("C"), "1", ""}, // 1 of many is a string
			{release("A"), "1", "r:B 2, redlockd:end 2"},
			{release("B"), "1", "none"},
			{release("B"), "-", "none"},
		}},
		{"a reader again", []step{
			{join("A", 4), "1", alone},
			{join("A", 2), "2", alone},
			{join("A", 8), "2", "r:A 8, redlockd:end 8"},
		}},
		{"extensions", []step{
			{join("A", 4), "1", alone},
			{join("B", 6), "1", "r:A 4, r:B 6, redlockd:end 6"},
			{extend("A", 2), "3", "r:A 4, r:B 6, redlockd:end 6"},
			{extend("A", 9), "3", "r:A 9, r:B 6, redlockd:end 9"},
			{extend("X", 9), "-1", "r:A 9, r:B 6, redlockd:end 9"},
		}},
		{"takeovers", []step{
			{takeOver("A", "N", 4), "-1", "none"},
			{join("A", 4), "1", alone},
			{takeOver("X", "N", 4), "-1", alone},
			{takeOver("A", "N", 2), "2", "r:N 4, redlockd:end 4"},
			{join("B", 1), "1", "r:B 1, r:N 4, redlockd:end 4"},
			{takeOver("N", "M", 9), "2", "r:B 1, r:M 9, redlockd:end 9"},
			{announce, "[zset 9]", "r:B 1, r:M 9, redlockd:end 9, writer 3"},
			{takeOver("B", "C", 2), "2", "r:C 2, r:M 9, redlockd:end 9, writer 3"},
			{putBack("B", "C", 1), "0", "r:C 2, r:M 9, redlockd:end 9, writer 3"},
			{putBack("B", "C", 0), "1", "r:B 2, r:M 9, redlockd:end 9, writer 3"},
			{rejoin("N", 1), "1", "r:B 2, r:M 9, r:N 1, redlockd:end 9, writer 3"},
			{putBack("N", "M", 0), "1", "r:B 2, r:N 9, redlockd:end 9, writer 3"},
			{release("N"), "1", ""},
			{release("B"), "1", "redlockd:end 3, writer 3"},
			{takeOver("A", "N", 4), "-1", "redlockd:end 3, writer 3"},
			{acquire("W", 4), "1", "string"},
			{takeOver("A", "N", 4), "0", "string"},
		}},
		{"writers and readers", []step{
			{set, "OK", "string"},
			{join("A", 4), "-3", "string"},
			{join("W", 4), "-3", "string"},
			{extend("W", 4), "1", "string"},
			{extend("A", 4), "0", "string"},
			{release("A"), "0", "string"},
			{release("W"), "1", "none"},
			{join("A", 4), "1", alone},
			{acquire("W", 4), "-3", alone},
			{acquire("A", 4), "-3", alone}, // a reader is no writer
			{release("A"), "1", "none"},
			{acquire("W", 4), "1", "string"},
		}},
		{"an intent", []step{
			{announce, "[none -2]", "none"},
			{join("A", 4), "1", alone},
			{announce, "[zset 4]", "r:A 4, redlockd:end 4, writer 3"},
			{join("B", 4), "-3", "r:A 4, redlockd:end 4, writer 3"},
			{join("A", 5), "2", "r:A 5, redlockd:end 5, writer 3"},
			{rejoin("B", 1), "1", "r:A 5, r:B 1, redlockd:end 5, writer 3"},
			{extend("B", 2), "3", "r:A 5, r:B 2, redlockd:end 5, writer 3"},
			{release("A"), "1", "r:B 2, redlockd:end 3, writer 3"},
			{announce, "[zset 2]", "r:B 2, redlockd:end 3, writer 3"},
			{release("B"), "1", "redlockd:end 3, writer 3"},
			{announce, "[zset -2]", "redlockd:end 3, writer 3"},
			{join("B", 4), "-3", "redlockd:end 3, writer 3"},
			{acquire("W", 4), "1", "string"},
			{announce, "[string 4]", "string"},
		}},
	} {
		fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
			client.FlushAll(context.Background())
			for i, step := range tc.steps {
				if got := fmt.Sprint(step.do(client)); got != step.reply {
					t.Errorf("%s, step %d: got %s, want %s", tc.name, i+1, got, step.reply)
				}
				if got := readersSet(t, client, "k"); step.after != "" && got != step.after {
					t.Errorf("%s, step %d: the key is %q, want %q", tc.name, i+1, got, step.after)
				}
			}
		})
	}
}

// A reader's end comes without anybody's help, one by one, on a clock that is real.
func TestReadersEnd(t *testing.T) {
	fleettest.OnBothMasters(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		client.FlushAll(ctx)
		for token, ttl := range map[string]int{"short": 60, "long": 120_000} {
			if err := client.Eval(ctx, lua.Join.Text, []string{"k"}, token, ttl, 3_600_000, "0").Err(); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "the short one's end", func() error {
			if reply, err := client.Eval(ctx, lua.Inspect.Text, []string{"marks", "k"}).Slice(); err != nil || reply[4] != int64(1) {
				return fmt.Errorf("the master says %v, %v", reply, err)
			}
			return nil
		})
		if got := readersSet(t, client, "k"); got != "r:long 2, redlockd:end 2" {
			t.Errorf("the key is %q, want the long one alone", got)
		}
	})
}

func TestStrangersSetIsLeftAlone(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for i := range s.masters {
			s.do(i, "zadd", "queue", 1, "r:job")
			s.do(i, "zadd", "timed", 1, "r:job")
			s.do(i, "pexpire", "timed", 600_000)
			s.do(i, "zadd", "eternal", 1, "redlockd:end")
		}
		for _, resource := range []string{"queue", "timed", "eternal"} {
			p.lock(one(resource, time.Minute).sharing()).want(s, "LOCK "+resource+" SHARED", "WRONGTYPE the resource is a zset that redlockd has not written", 0)
			p.lock(one(resource, time.Minute)).want(s, "LOCK "+resource, "no", 0)
			p.lock(one(resource, time.Minute).as("T")).want(s, "LOCK "+resource+" TOKEN", "no", 0)
			p.unlock("job", resource).want(s, "UNLOCK "+resource, "no", 0)
			p.extend("job", time.Minute, resource).want(s, "EXTEND "+resource, "no", 0)
			p.lock(one(resource, time.Minute).waits(2*time.Second)).want(s, "LOCK "+resource+" WAIT", "no", 2*time.Second)
			info := &call{began: time.Now()}
			p.StartInspect(&info.Op, resource, info)
			for _, vote := range p.finish(info).Info.Votes {
				if vote.Err == nil || !strings.Contains(vote.Err.Error(), "a zset that redlockd has not written") {
					s.Errorf("LOCKINFO %s: got %+v, want that each master says what it is", resource, vote)
				}
			}
			for i := range s.masters {
				if got := s.do(i, "zcard", resource); got != int64(1) {
					s.Errorf("%s has %v members on master %d, want the one of before", resource, got, i+1)
				}
			}
		}
	})
}

func TestReadersAndWriters(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		first := p.lock(one("r", time.Minute).sharing())
		first.want(s, "LOCK SHARED", "held", 0)
		second := other.lock(one("r", time.Minute).sharing())
		second.want(s, "LOCK SHARED beside a reader", "held", 0)
		for _, q := range []*proxy{p, other} {
			q.lock(one("r", time.Minute)).want(s, "LOCK beside readers", "no", 0)
			q.lock(one("r", time.Minute).as("T")).want(s, "LOCK TOKEN beside readers", "no", 0)
			q.lock(several(time.Minute, "q", "r")).want(s, "MLOCK beside readers", "no", 0)
			q.lock(LockRequest{Resources: []string{"r"}, TTL: time.Minute, Fence: true}).want(s, "LOCK FENCE beside readers", "no", 0)
			c := q.commit(Change{Resource: "r", Was: WasAbsent, Do: Set, NewValue: "drop-in", TTL: time.Minute})
			c.want(s, "SET NX beside readers", "no", 0)
		}
		p.unlock(second.Token, "r").want(s, "UNLOCK through another client", "held", 0)
		p.lock(one("r", time.Minute)).want(s, "LOCK beside the other reader", "no", 0)
		other.extend(first.Token, time.Minute, "r").want(s, "EXTEND through another client", "held", 0)
		p.unlock(first.Token, "r").want(s, "UNLOCK", "held", 0)
		p.unlock(first.Token, "r").want(s, "UNLOCK again", "no", 0)
		s.wantNoLocks()

		writer := p.lock(one("r", time.Minute))
		writer.want(s, "LOCK", "held", 0)
		for _, q := range []*proxy{p, other} {
			q.lock(one("r", time.Minute).sharing()).want(s, "LOCK SHARED beside a writer", "no", 0)
			q.lock(one("r", time.Minute).sharing().as(writer.Token)).want(s, "LOCK SHARED with the writer's token", "no", 0)
		}
		p.unlock(writer.Token, "r").want(s, "UNLOCK of the writer", "held", 0)
		other.lock(one("r", time.Second).sharing()).want(s, "LOCK SHARED", "held", 0)
		time.Sleep(1100 * ms)
		s.wantNoLocks() // the reader that vanished
	})
}

// A reader's own token may be repeated through any client; a failed attempt takes back its own alone.
func TestRepeatedReader(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		for range 2 {
			p.lock(one("r", time.Minute).sharing().as("mine")).want(s, "LOCK SHARED TOKEN", "held", 0)
			other.lock(one("r", time.Minute).sharing().as("mine")).want(s, "LOCK SHARED TOKEN elsewhere", "held", 0)
			other.lock(one("r", time.Minute).sharing().as("yours")).want(s, "LOCK SHARED of another", "held", 0)
		}
		other.unlock("mine", "r").want(s, "UNLOCK", "held", 0)
		other.unlock("mine", "r").want(s, "UNLOCK again", "no", 0)
		p.lock(one("r", time.Minute)).want(s, "LOCK beside the other", "no", 0)
		p.unlock("yours", "r").want(s, "UNLOCK of the other", "held", 0)
		s.wantNoLocks()

		// On a minority that lets it in, it leaves nothing; what was there before stays.
		for i := range 3 {
			s.do(i, "set", "r", "writer", "px", 60_000)
		}
		p.lock(one("r", time.Minute).sharing().as("mine")).want(s, "LOCK SHARED over a minority", "no", 0)
		s.wantSet("r", "11100")
		p.lock(one("r", time.Minute).sharing()).want(s, "LOCK SHARED over a minority", "no", 0)
		s.wantSet("r", "11100")
		for i := range 3 {
			s.do(i, "unlink", "r")
		}
		other.lock(one("r", time.Minute).sharing().as("mine")).want(s, "LOCK SHARED", "held", 0)
		for i := range 3 {
			s.do(i, "set", "r", "writer", "px", 60_000)
		}
		time.Sleep(20 * ms)
		p.lock(one("r", time.Minute).sharing().as("mine"))
		s.wantSet("r", "11111")
	})
}

// Where the reader's lease is not known, UNLOCK finds it all the same, also on masters that compare and delete by themselves.
func TestReaderIsReleasedElsewhere(t *testing.T) {
	for _, o := range []memmaster.Options{{}, {IFEQ: true}, {DELIFEQ: true}} {
		onMasters(t, []memmaster.Options{o, o, o}, func(s *stage) {
			p, other := s.open(), s.open()
			for _, token := range []string{"", "own"} {
				c := p.lock(one("r", time.Minute).sharing().as(token))
				c.want(s, "LOCK SHARED", "held", 0)
				other.unlock(c.Result.Token, "r").want(s, "UNLOCK elsewhere", "held", 0)
				s.wantNoLocks()
				c = p.lock(one("r", time.Minute).sharing().as(token + "2"))
				p.unlock(c.Result.Token, "r").want(s, "UNLOCK", "held", 0)
				s.wantNoLocks()
			}
		})
	}
}

// A caller that used its token as a reader's on one master, and then as a writer's on the others, has neither where it is the writer on one
// and a reader on another.
func TestExtendOfATokenInBothModes(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		s.do(0, "eval", lua.Join.Text, 1, "r", "T", 10_000, 60_000, "0")
		for i := range 2 {
			s.do(i+1, "set", "r", "T", "px", 10_000)
		}
		p.extend("T", time.Minute, "r").want(s, "EXTEND of a writer that was a reader on one master", "held", 0)
		p.unlock("T", "r").want(s, "UNLOCK", "held", 0)
		s.wantNoLocks()
		s.do(0, "eval", lua.Join.Text, 1, "r", "T", 10_000, 60_000, "0")
		s.do(1, "set", "r", "T", "px", 10_000)
		p.extend("T", time.Minute, "r").want(s, "EXTEND where one master has a reader, one a writer", "no", 0)
		s.freeze(2)
		c := p.extend("T", time.Minute, "r")
		if !errors.Is(c.Err, ErrNoQuorum) {
			s.Errorf("EXTEND where the third master is silent: got %+v, want no quorum", c.Result)
		}
	})
}

// An EXTEND gives a reader back its place on masters that have lost it, also where a writer waits.
func TestRefillOfAReader(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		held := p.lock(one("r", time.Minute).sharing())
		second := other.lock(one("r", time.Minute).sharing())
		for i := range 2 {
			s.do(i, "unlink", "r")
		}
		for _, q := range []*proxy{other, p} {
			q.extend(held.Token, time.Minute, "r").want(s, "EXTEND", "held", 0)
			s.wantSet("r", "11111")
			if n := s.do(0, "zcard", "r"); n != int64(2) {
				s.Errorf("the set has %v members, want the reader and the end", n)
			}
			for i := range 2 {
				s.do(i, "unlink", "r")
			}
		}
		other.extend(second.Token, time.Minute, "r").want(s, "EXTEND", "held", 0)
		synctest.Wait()
		for i := range s.masters { // a writer says that it waits
			s.do(i, "eval", lua.Announce.Text, 1, "r", 1000, 750)
		}
		p.extend(held.Token, time.Minute, "r").want(s, "EXTEND", "held", 0)
		s.wantSet("r", "11111")
		s.until("the reader has its place on the master that lost it", func() bool { return s.do(0, "zscore", "r", "r:"+held.Token) != nil })
	})
}

// Writers that keep coming let a reader of another client in when their hand-over time is over.
func TestWritersThatKeepComingLeaveWindows(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		writer := p.lock(one("r", time.Second))
		reader := other.begin(one("r", time.Second).sharing().waits(time.Minute))
		for turn := 0; !reader.done.Load() && turn < 30; turn++ {
			next := p.begin(one("r", time.Second).waits(time.Minute))
			time.Sleep(100 * ms)
			p.unlock(writer.Token, "r")
			s.until("a turn of the writers, or of the reader", func() bool { return next.done.Load() || reader.done.Load() })
			writer = next
		}
		if most := p.opts.HandoverTime + 200*ms; !reader.Held || reader.took > most {
			s.Errorf("LOCK SHARED beside writers that keep coming: got %+v after %v, want it held within %v", reader.Result, reader.took, most)
		}
		other.unlock(reader.Token, "r")
		p.finish(writer).want(s, "the writer behind the reader", "held", writer.took)
	})
}

// Readers that keep coming do not keep a writer waiting beyond the TTLs of those that are there.
func TestWaitingWriterIsNotStarved(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		const ttl = 3 * time.Second
		readers := 0
		come := func() {
			for _, q := range []*proxy{p, other} {
				if c := q.lock(one("r", ttl).sharing()); c.Held {
					readers++
				}
			}
		}
		come()
		writer := p.begin(one("r", time.Minute).waits(30 * time.Second))
		began := time.Now()
		for !writer.done.Load() && time.Since(began) < 20*time.Second {
			come()
			time.Sleep(50 * ms)
		}
		if !writer.Held || writer.took > ttl+200*ms {
			s.Errorf("the writer beside readers that keep coming: got %+v after %v, want it held within %v", writer.Result, writer.took, ttl)
		}
		if readers > 4 {
			s.Errorf("%d readers were let in while a writer waited", readers)
		}
		p.unlock(writer.Token, "r")
		p.lock(one("r", ttl).sharing()).want(s, "LOCK SHARED behind the writer", "held", 0)
	})
}

// Several clients wait for what another one holds. What one of them does must not have the others ask, or they answer each other without
// end: a writer that renews the intent changes the key that the others track, and so does a reservation.
func TestWaitersDoNotWakeEachOther(t *testing.T) {
	const waited, perSecond = 4 * time.Second, 8
	r := one("r", time.Minute)
	all := []LockRequest{r, r.sharing(), several(time.Minute, "r", "free"), several(time.Minute, "a", "r")}
	for _, tt := range []struct {
		name    string
		held    LockRequest
		waiters []LockRequest
	}{
		{"writers behind a reader", r.sharing(), []LockRequest{r, r, r, r}},
		{"all kinds behind a reader", r.sharing(), all},
		{"all kinds behind a writer", r, all},
		{"slots", r.of(1), []LockRequest{r.of(1), r.of(1), r.of(1)}},
	} {
		for _, step := range []time.Duration{0, 2 * ms} {
			inVirtualTime(t, 5, func(s *stage) {
				s.open().lock(tt.held).want(s, tt.name+": LOCK", "held", 0)
				var clients []*proxy
				for i, waiter := range tt.waiters {
					p := s.open()
					p.subscribed()
					distance := time.Duration(i) * step
					p.delay(distance, distance, 0, 1, 2, 3, 4)
					p.begin(waiter.waits(time.Minute))
					time.Sleep(70 * ms)
					clients = append(clients, p)
				}
				time.Sleep(waited)
				for i, p := range clients {
					if asked := p.Stats().Attempts; asked > perSecond*uint64(waited/time.Second) {
						s.Errorf("%s, %v apart: waiter %d has asked %d times in %v, want at most %d per second", tt.name, step, i, asked, waited, perSecond)
					}
				}
			})
		}
	}
}

// An intent of a writer that has gone keeps nobody out for long.
func TestIntentEnds(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		reader := p.lock(one("r", time.Minute).sharing())
		other.begin(one("r", time.Minute).waits(10 * time.Second))
		time.Sleep(2 * time.Second)
		p.lock(one("r", time.Minute).sharing()).want(s, "LOCK SHARED while a writer waits", "no", 0)
		waiting := p.begin(one("r", time.Minute).sharing().waits(20 * time.Second))
		other.kill()
		p.finish(waiting)
		if !waiting.Held || waiting.took > 2*intentLife {
			s.Errorf("LOCK SHARED WAIT behind a writer that has gone: got %+v after %v", waiting.Result, waiting.took)
		}
		p.unlock(reader.Token, "r")
		p.unlock(waiting.Token, "r")
		time.Sleep(intentLife + ms) // the connection to one master may have ended before the intent was taken away there
		s.wantNoLocks()
	})
}

// The intent of a writer that waits no more keeps nobody out. That of another writer stays, or is there again at once.
func TestIntentEndsWithTheWaiter(t *testing.T) {
	for name, end := range map[string]func(p *proxy, waiting *call){
		"its time is over":    func(*proxy, *call) { time.Sleep(2 * time.Second) },
		"its client has gone": func(p *proxy, waiting *call) { p.Unblock(&waiting.Op, ErrDraining) },
	} {
		inVirtualTime(t, 3, func(s *stage) {
			p, other, third := s.open(), s.open(), s.open()
			reader := p.lock(one("r", time.Minute).sharing())
			waiting := other.begin(one("r", time.Minute).waits(3 * time.Second))
			time.Sleep(1500 * ms)
			p.lock(one("r", time.Minute).sharing()).want(s, name+": LOCK SHARED while a writer waits", "no", 0)
			end(other, waiting)
			synctest.Wait()
			second := p.lock(one("r", time.Minute).sharing())
			second.want(s, name+": LOCK SHARED behind it", "held", 0)

			beside, same := third.begin(one("r", time.Minute).waits(time.Minute)), other.begin(one("r", time.Minute).waits(time.Minute))
			last := other.begin(one("r", time.Minute).waits(time.Minute))
			time.Sleep(1500 * ms)
			other.Unblock(&last.Op, ErrDraining)
			other.Unblock(&same.Op, ErrDraining)
			time.Sleep(50 * ms)
			p.lock(one("r", time.Minute).sharing()).want(s, name+": LOCK SHARED while a writer of another client waits", "no", 0)
			third.Unblock(&beside.Op, ErrDraining)
			p.unlock(reader.Token, "r")
			p.unlock(second.Token, "r")
			s.wantNoLocks()
			p.commit(setNX("r", "1", time.Minute)).want(s, name+": SET NX of what is free", "held", 0)
		})
	}
}

// The readers at the front of a queue go together, and none of them passes a writer.
func TestReadersGoTogether(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		read := func() *call { return p.begin(one("r", time.Minute).sharing().waits(30 * time.Second)) }
		held := p.lock(one("r", time.Minute))
		readers := []*call{read(), read(), read()}
		writer := p.begin(one("r", time.Minute).waits(30 * time.Second))
		behind := read()
		time.Sleep(100 * ms)
		p.unlock(held.Token, "r")
		time.Sleep(10 * ms) // the first asked with the release, those behind it a round trip later
		for i, c := range readers {
			if !c.done.Load() || !c.Held {
				s.Fatalf("reader %d: got %+v, want it held two round trips after the UNLOCK", i+1, c.Result)
			}
		}
		writer.want(s, "the writer behind readers", "under way", 0)
		behind.want(s, "the reader behind a writer", "under way", 0)
		for _, c := range readers {
			p.unlock(c.Token, "r")
		}
		time.Sleep(10 * ms)
		if !writer.done.Load() || !writer.Held || behind.done.Load() {
			s.Fatalf("the writer: got %+v, want it held behind the last reader", writer.Result)
		}
		p.unlock(writer.Token, "r")
		time.Sleep(10 * ms)
		if !behind.done.Load() || !behind.Held {
			s.Fatalf("the reader behind the writer: got %+v, want held", behind.Result)
		}
		p.unlock(behind.Token, "r")

		// Where the resource is free, those who come do not wait for each other.
		readers = []*call{read(), read(), read()}
		time.Sleep(3 * ms)
		for i, c := range readers {
			if !c.done.Load() || !c.Held {
				s.Fatalf("reader %d of a free resource: got %+v, want it held in one round trip", i+1, c.Result)
			}
		}
	})
}

func TestOnlyTheLastReaderWakesTheWriter(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		var readers []*call
		for range 5 {
			readers = append(readers, p.lock(one("r", time.Minute).sharing()))
		}
		writer := p.begin(one("r", time.Minute).waits(30 * time.Second))
		time.Sleep(10 * ms)
		before := p.Stats().Handovers
		for _, c := range readers[1:] {
			p.unlock(c.Token, "r")
		}
		if n := p.Stats().Handovers - before; n != 0 {
			s.Errorf("%d hand-overs to a writer while a reader is left", n)
		}
		p.unlock(readers[0].Token, "r")
		time.Sleep(ms)
		p.finish(writer).want(s, "LOCK behind the last reader", "held", writer.took)
		if n := p.Stats().Handovers - before; n != 1 {
			s.Errorf("%d hand-overs, want one", n)
		}
	})
}

// UNLOCK of a writer is followed by a hand-over, whatever readers this client believes in that have been released elsewhere.
func TestReadersOfBeforeDoNotHoldUpAHandOver(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		reader := p.lock(one("r", time.Minute).sharing())
		other.unlock(reader.Token, "r").want(s, "UNLOCK of the reader elsewhere", "held", 0)
		writer := other.lock(one("r", time.Minute))
		next := p.begin(one("r", time.Minute).waits(50 * time.Second))
		time.Sleep(time.Second)
		p.unlock(writer.Token, "r").want(s, "UNLOCK of the writer", "held", 0)
		time.Sleep(ms)
		next.want(s, "LOCK WAIT behind the writer", "held", next.took)
		if next.took > 1010*ms {
			s.Errorf("granted after %v, want at once behind the UNLOCK", next.took)
		}
	})
}

// The masters tell a writer that waits when readers of another client leave, and it is granted at once: also if they leave between its attempt and
// its next announcement, which comes announceEvery and two round trips behind the one before.
func TestReadersOfAnotherClientLeave(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		p.subscribed()
		for after := 2 * announceEvery; after < 2*announceEvery+20*ms; after += ms {
			reader := other.lock(one("r", time.Minute).sharing())
			writer := p.begin(one("r", time.Minute).waits(30 * time.Second))
			time.Sleep(after)
			writer.want(s, "LOCK beside a reader", "under way", 0)
			other.unlock(reader.Token, "r")
			time.Sleep(20 * ms)
			if !writer.done.Load() || !writer.Held {
				s.Fatalf("the writer 20 ms after the reader has left, %v after it came: got %+v, want held", after, writer.Result)
			}
			p.unlock(writer.Token, "r")
		}
	})
}

func TestHeldReaders(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		a, b := p.holder(), p.holder()
		first := p.lock(one("r", 3*time.Second).sharing().heldBy(a))
		second := p.lock(one("r", 3*time.Second).sharing().heldBy(b))
		time.Sleep(20 * time.Second)
		a.wantKept(true, 1)
		b.wantKept(true, 1)
		p.lock(one("r", time.Second)).want(s, "LOCK beside held readers", "no", 0)
		p.EndHolder(b.Holder, true)
		time.Sleep(4 * time.Second)
		p.extend(second.Token, time.Second, "r").want(s, "EXTEND of what nobody keeps", "no", 0)
		a.wantKept(true, 1)
		p.lock(one("r", 3*time.Second).sharing().as(first.Token).heldBy(a)).want(s, "LOCK SHARED TOKEN HOLD", "take the lock over with HOLD", 0)
		for i := range s.masters {
			s.do(i, "unlink", "r")
		}
		time.Sleep(2 * time.Second)
		a.wantKept(false, 0, "r")
	})
}

// HOLD gives a reader another token, in the place of the old one, and the other readers stay.
func TestHoldOfAReader(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		t.Run(fmt.Sprintf("elsewhere=%t", elsewhere), func(t *testing.T) {
			inVirtualTime(t, 5, func(s *stage) {
				p := s.open()
				other := p
				if elsewhere {
					other = s.open()
				}
				from, to := p.holder(), other.holder()
				reader := p.lock(one("r", time.Minute).sharing())
				held := p.lock(one("r", holdTTL).sharing().heldBy(from))
				s.do(4, "del", "r") // where the lock was lost, it is given back under the new token
				if c := to.hold("another token", holdTTL, false, "r"); c.Err != nil || c.Held {
					s.Errorf("HOLD of nothing beside a reader: got %+v, want no", c.Result)
				}
				if c := to.hold(held.Token, holdTTL, false, "r", "q"); c.Err != nil || c.Held {
					s.Errorf("MHOLD of a reader's lock and nothing: got %+v, want no", c.Result)
				}
				took := to.hold(held.Token, holdTTL, true, "r")
				took.want(s, "HOLD", "held", 0)
				both := []string{reader.Token, took.Token}
				slices.Sort(both)
				if got, want := s.readers("r"), strings.Repeat(strings.Join(both, " ")+"|", 4)+took.Token+"|"; got != want {
					s.Errorf("the readers are %s, want %s: %s in the place of %s", got, want, took.Token, held.Token)
				}
				if before, _ := tokenBirth(held.Token); took.Token == held.Token {
					s.Errorf("HOLD keeps the token")
				} else if born, _ := tokenBirth(took.Token); !born.Equal(before) {
					s.Errorf("HOLD has made a reader's lock of %v one of %v", before, born)
				}
				to.hold(held.Token, holdTTL, true, "r").want(s, "HOLD with the old token", "no", 0)
				p.extend(held.Token, time.Second, "r").want(s, "EXTEND with the old token", "no", 0)
				to.wantKept(true, 1)
				p.EndHolder(from.Holder, true)
				p.unlock(reader.Token, "r").want(s, "UNLOCK of the other reader", "held", 0)
				time.Sleep(4 * holdTTL)
				to.wantKept(true, 1)
				info := other.Leases(func([]string) bool { return true }, 10)
				if len(info) != 1 || !info[0].Shared || !info[0].Bound {
					s.Errorf("LOCKS: got %+v, want one reader that is held", info)
				}
				other.EndHolder(to.Holder, true) // RELEASE
				synctest.Wait()
				s.wantNoLocks()
			})
		})
	}
}

// A HOLD that finds too few masters puts the reader's token back where it has put a new one, whether these others are there or not.
func TestHoldOfAReaderThatFails(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other, third := s.open(), s.open(), s.open()
		from, to := p.holder(), other.holder()
		held := p.lock(one("r", 10*time.Second).sharing().heldBy(from))
		reader := third.lock(one("r", time.Minute).sharing().as("another"))
		for i := range 3 {
			other.paths[i].Partition()
		}
		c := to.hold(held.Token, 10*time.Second, false, "r")
		if !errors.Is(c.Err, ErrNoQuorum) {
			s.Errorf("HOLD with two masters: got %+v, want no quorum", c.Result)
		}
		s.until("the old token is back", func() bool { return strings.Count(s.readers("r"), held.Token) == 5 })
		from.wantKept(true, 1)
		third.unlock(reader.Token, "r").want(s, "UNLOCK of the other reader", "held", 0)
		p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0)
		s.wantNoLocks()
	})
}

// The masters that have the old token still, because they were away, or late, lose it.
func TestHoldOfAReaderLeavesNothing(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		held := p.lock(one("r", 20*time.Second).sharing())
		reader := p.lock(one("r", 20*time.Second).sharing())
		s.do(4, "eval", "return redis.call('ZREM', KEYS[1], ARGV[1])", 1, "r", readerPrefix+held.Token) // and one that has lost it
		took := other.holder().hold(held.Token, 20*time.Second, false, "r")
		took.want(s, "HOLD", "held", 0)
		synctest.Wait()
		if n := strings.Count(s.readers("r"), took.Token); n != 5 {
			s.Errorf("%d masters have the new token, want 5", n)
		}
		p.unlock(reader.Token, "r")
		other.unlock(took.Token, "r").want(s, "UNLOCK", "held", 0)
		s.wantNoLocks()
	})
}

// readers lists the readers' tokens of each master, in order of their ends, a | behind each master.
func (s *stage) readers(key string) (list string) {
	synctest.Wait()
	for i := range s.masters {
		var tokens []string
		if s.do(i, "type", key) == "zset" {
			for _, member := range s.do(i, "eval", "return redis.call('ZREVRANGE', KEYS[1], 0, -1)", 1, key).([]any) {
				if token, is := strings.CutPrefix(member.(string), readerPrefix); is {
					tokens = append(tokens, token)
				}
			}
		}
		slices.Sort(tokens)
		list += strings.Join(tokens, " ") + "|"
	}
	return list
}

// A reader's lock that is gone is noticed, and nothing else is.
func TestLostReaderIsNoticed(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		for range 3 {
			p.lock(one("r", time.Minute).sharing())
			other.lock(one("r", time.Minute).sharing())
		}
		time.Sleep(10 * time.Second)
		if lost := p.Stats().Lost; lost != 0 {
			s.Errorf("%d locks were told as lost, and none is", lost)
		}
		for i := range 3 {
			s.do(i, "flushall")
		}
		s.until("all three are lost", func() bool { return p.Stats().Lost == 3 })
		listed := p.Leases(func([]string) bool { return true }, 10)
		if len(listed) != 3 || !listed[0].Shared || !listed[0].Lost || listed[0].TokenDigest == listed[1].TokenDigest {
			s.Errorf("LOCKS: got %+v, want three readers, all lost", listed)
		}
	})
}

func TestInspectReaders(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p, other := s.open(), s.open()
		inspect := func() *ResourceInfo {
			c := &call{began: time.Now()}
			p.StartInspect(&c.Op, "r", c)
			return p.finish(c).Info
		}
		p.lock(one("r", time.Minute).sharing())
		reader := other.lock(one("r", 30*time.Second).sharing())
		info := inspect()
		if !info.Held || !info.Shared || info.Readers != 2 || info.TokenDigest != "" || info.Validity != time.Minute || info.Votes[0].Readers != 2 {
			s.Errorf("two readers: got %+v", info)
		}
		writer := p.begin(one("r", time.Minute).waits(30 * time.Second))
		other.unlock(reader.Token, "r")
		if info := inspect(); !info.Held || info.Readers != 1 || info.Waiters != 1 {
			s.Errorf("one reader, and a writer that waits: got %+v", info)
		}
		p.Unblock(&writer.Op, nil)
		for i := range s.masters {
			s.do(i, "unlink", "r")
		}
		if info := inspect(); info.Held || info.Readers != 0 || info.Unknown {
			s.Errorf("no reader: got %+v", info)
		}
	})
}

func TestSharedIsChecked(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		for _, tc := range []struct {
			req  LockRequest
			want string
		}{
			{several(time.Minute, "a", "b").sharing(), "SHARED is for one resource, and 2 are named"},
			{one("a", time.Minute).of(2).sharing(), "SHARED and SLOTS do not go together"},
			{LockRequest{Resources: []string{"a"}, TTL: time.Minute, Fence: true, Shared: true}, "SHARED and FENCE do not go together"},
		} {
			if c := p.lock(tc.req); !errors.Is(c.Err, ErrBadRequest) || !strings.Contains(c.Err.Error(), tc.want) {
				s.Errorf("%+v: got %v, want %q", tc.req, c.Err, tc.want)
			}
		}
		s.wantNoLocks()
	})
}

// A reader that comes asks at once where no writer waits, and nobody holds the resource as far as is known.
func TestReaderThatComesAsksAtOnce(t *testing.T) {
	for _, tt := range []struct {
		q    waitQueue
		want bool
	}{{waitQueue{}, true}, {waitQueue{denied: true}, false}, {waitQueue{writers: 1}, false}, {waitQueue{denied: true, writers: 1}, false}} {
		if got := (readerLock{}).asks(&tt.q); got != tt.want {
			t.Errorf("denied %v, %d writers: got %v, want %v", tt.q.denied, tt.q.writers, got, tt.want)
		}
	}
}

// The pause behind readers is no longer than a writer's intent needs, and that of a reader no longer than the intent.
func TestPauseBehindReaders(t *testing.T) {
	for _, tt := range []struct {
		behindReaders bool
		writers       int32
		delay, want   time.Duration
	}{{false, 1, time.Hour, time.Hour}, {true, 1, time.Hour, announceEvery}, {true, 1, ms, ms}, {false, 0, time.Hour, time.Hour}, {true, 0, time.Hour, intentLife}, {true, 0, ms, ms}} {
		w := &waiter{op: &Op{writers: tt.writers}, behindReaders: tt.behindReaders}
		if got := w.untilReaders(tt.delay); got != tt.want {
			t.Errorf("behind readers %v, %d writers, %v: got %v, want %v", tt.behindReaders, tt.writers, tt.delay, got, tt.want)
		}
	}
}

// The intent is taken back once, when the last writer has left the queue.
func TestIntentIsWithdrawnOnce(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		p := s.open()
		p.mu.Lock()
		defer p.mu.Unlock()
		e := &entry{resource: "r"}
		for _, writers := range []int32{1, 0} {
			e.queue.announced, e.queue.writers = true, writers
			before := p.rounds.launched
			p.waiting.withdrawLocked(e, &deferred{now: time.Now()})
			if n := p.rounds.launched - before; e.queue.announced != (writers > 0) || (n == 0) != (writers > 0) {
				s.Errorf("%d writers are left: got announced %v, %d rounds", writers, e.queue.announced, n)
			}
		}
	})
}

// When a reader is let in, all behind it ask at the same time, each of them once.
func TestReadersThatFollowAskOnce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", time.Minute))
		var readers []*call
		for range 8 {
			readers = append(readers, p.begin(one("r", time.Minute).sharing().waits(30*time.Second)))
		}
		time.Sleep(50 * ms)
		p.delay(ms, ms, 0, 1, 2, 3, 4)
		p.align()
		before := p.Stats().Attempts
		p.startUnlock(held.Token, "r")
		time.Sleep(4 * ms)
		synctest.Wait()
		for i, c := range readers {
			if !c.done.Load() || !c.Held {
				s.Errorf("reader %d: got %+v, want it held two round trips after the UNLOCK", i+1, c.Result)
			}
		}
		if got := int(p.Stats().Attempts - before); got != len(readers) {
			s.Errorf("%d attempts of %d readers", got, len(readers))
		}
	})
}

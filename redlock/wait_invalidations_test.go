package redlock

// Goal: a waiter learns of a release that another client makes, from the masters, without asking all the time; and it gets on
// without that too. Method: two clients on masters in this process, in virtual time, where nothing takes time unless it waits.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/quorum"
	"redlockd/redlock/resp"
)

// subscribed waits until the masters announce to the client what it waits for.
func (p *proxy) subscribed() {
	p.s.Helper()
	p.s.until("tracking on all masters", func() bool {
		for _, l := range p.fleet.view.Load().lanes {
			if l.invalidationsID.Load() == 0 {
				return false
			}
		}
		return true
	})
	time.Sleep(p.opts.Heartbeat) // the lanes turn it on
	p.align()
}

// What is released through another client, or on the masters, wakes the head, which knows which slot that is.
func TestReleaseByAnotherClientWakesTheHead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		release func(s *stage, other *proxy, resource, token string)
	}{
		{"UNLOCK", func(s *stage, other *proxy, resource, token string) { other.unlock(token, resource) }},
		{"DEL on the masters", func(s *stage, _ *proxy, resource, _ string) { s.doAll("DEL", resource) }},
		{"DEL on a quorum", func(s *stage, _ *proxy, resource, _ string) { s.doOn([]int{0, 1, 2}, "DEL", resource) }},
	} {
		for k, resource := range map[int]string{0: "r", 6: "r#4"} {
			inVirtualTime(t, 5, func(s *stage) {
				p, other := s.open(), s.open()
				p.subscribed()
				held := other.fill("r", k, time.Minute)
				waiter := p.begin(one("r", time.Minute).of(k).waits(10 * time.Second))
				time.Sleep(3 * time.Second)
				before := p.Stats()
				if before.Attempts > 6 {
					s.Errorf("%s: %d attempts in 3 s of waiting, want few: the masters will tell", tt.name, before.Attempts)
				}
				began := time.Now()
				tt.release(s, other, resource, held[resource])
				p.finish(waiter)
				if took := time.Since(began); !waiter.Held || waiter.Slot != resource && k > 0 || took > 3*ms {
					s.Errorf("%s: got %+v after %v, want %s at once", tt.name, waiter.Result, took, resource)
				}
				p.wantAttempts(tt.name, before.Attempts, 1)
				if got := p.Stats().Wakeups - before.Wakeups; got != 1 {
					s.Errorf("%s: %d wake-ups, want 1", tt.name, got)
				}
			})
		}
	}
}

// A change on fewer than a quorum of masters is none: others try, and fail.
func TestMinorityWakesNobody(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(time.Second))
		time.Sleep(100 * ms)
		s.do(0, "DEL", "r")
		s.do(1, "DEL", "r")
		p.finish(waiter)
		if got := p.Stats().Wakeups; got != 0 || waiter.Held {
			s.Errorf("got %d wake-ups and held %v, want none", got, waiter.Held)
		}
	})
}

// Without announcements, because the connections for them broke, the waiter asks from time to time as it used to.
func TestUnsubscribedWaiterAsks(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		held := other.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(10 * time.Second))
		time.Sleep(time.Second)
		for _, l := range p.fleet.view.Load().lanes {
			l.closeInvalidations()
		}
		time.Sleep(5 * ms) // it asks again, and the masters will not announce anything yet
		other.unlock(held.Token, "r")
		began := time.Now()
		p.finish(waiter)
		if took := time.Since(began); !waiter.Held || took > 2*p.opts.RetryDelayMax {
			s.Errorf("got %+v after %v, want held after a usual pause", waiter.Result, took)
		}

		p.subscribed() // again
		p.unlock(waiter.Token, "r")
		held = other.lock(one("r", time.Minute))
		waiter = p.begin(one("r", time.Minute).waits(10 * time.Second))
		time.Sleep(time.Second)
		began = time.Now()
		other.unlock(held.Token, "r")
		p.finish(waiter)
		if took := time.Since(began); !waiter.Held || took > 3*ms {
			s.Errorf("with announcements again: got %+v after %v, want held at once", waiter.Result, took)
		}
	})
}

// A head that has learned not to heed every announcement hears at once that it is its turn, and who has left the resource to it hears
// when it is free again, however short the turn was.
func TestTurnsOfTwoProxies(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(func(o *Options) { o.HandoverTime = 30 * ms }), s.open()
		const way = 100 * time.Microsecond
		for _, q := range []*proxy{p, other} {
			q.delay(way, way, 0, 1, 2, 3, 4)
			q.subscribed()
		}
		held := p.lock(one("r", time.Minute))
		var granted, released atomic.Pointer[time.Time]
		now := func(at *atomic.Pointer[time.Time]) {
			t := time.Now()
			at.Store(&t)
		}
		for range 400 {
			c := p.begin(one("r", time.Minute).waits(time.Minute))
			c.after = func() {
				now(&granted)
				time.AfterFunc(ms, func() {
					now(&released)
					p.startUnlock(c.Token, "r")
				})
			}
		}
		p.unlock(held.Token, "r")
		for turn := range 8 {
			c := other.begin(one("r", time.Minute).waits(time.Minute))
			s.until("the other proxy's window", func() bool { return c.done.Load() })
			// The release and what tells of it go to the masters, that comes to the other proxy, it asks, and is answered.
			if got := c.began.Add(c.took).Sub(*released.Load()); !c.Held || got != 4*way {
				s.Errorf("turn %d: got the lock (%v) %v after the release, want %v", turn, c.Held, got, 4*way)
			}
			began := time.Now()
			other.unlock(c.Token, "r")
			s.until("a hand-over here", func() bool { return granted.Load().After(began) })
			// Its head may find the resource free between its attempt and its observation, and tries again after a random moment.
			if got := granted.Load().Sub(began); got > 4*way+2*splitDelay {
				s.Errorf("turn %d: back here %v after the release, want %v", turn, got, 4*way)
			}
		}
	})
}

// A client's message reaches every client once, in the order in which it was published, as long as one master carries it.
func TestMessages(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		from, to := s.open(), s.open()
		from.subscribed()
		to.subscribed()
		var here, there []string
		var mu sync.Mutex
		from.OnMessage(func(channel, payload string) { mu.Lock(); here = append(here, channel+"="+payload); mu.Unlock() })
		to.OnMessage(func(channel, payload string) { mu.Lock(); there = append(there, channel+"="+payload); mu.Unlock() })
		var want []string
		publish := func(channel, payload string) {
			want = append(want, channel+"="+payload)
			c := call{began: time.Now()}
			from.StartPublish(&c.Op, channel, payload, &c)
			c.want(s, "PUBLISH", "held", 0)
		}
		publish("c", "1")
		publish("c d", " 2\r\n\x00")
		publish("", "")
		time.Sleep(10 * ms)
		s.freeze(0, 1, 2, 3)
		publish("c", "through one master")
		time.Sleep(10 * ms)
		s.thaw(0, 1, 2, 3) // four more copies
		time.Sleep(time.Second)
		s.do(0, "PUBLISH", messagesChannel, "nonsense")
		s.do(0, "PUBLISH", messagesChannel, strings.Repeat("x", 1000)+" 0 a long id")
		s.do(0, "PUBLISH", messagesChannel, "id 99 short")
		s.do(0, "PUBLISH", messagesChannel, "id -1 x")
		time.Sleep(10 * ms)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(here, want) || !slices.Equal(there, want) {
			s.Errorf("here %q, there %q, want %q", here, there, want)
		}

		// A message to one client alone.
		send := func(mailbox, want string) {
			c := call{began: time.Now()}
			from.StartSend(&c.Op, mailbox, "c", "to one", &c)
			c.want(s, "a message to "+mailbox, want, 0)
		}
		send(to.Mailbox(), "held")
		send("nobody", "is no mailbox")
		mu.Unlock()
		time.Sleep(10 * ms)
		mu.Lock()
		if last := there[len(there)-1]; len(there) != len(want)+1 || last != "c=to one" || len(here) != len(want) {
			s.Errorf("here %q, there %q, want one message more, there alone", here, there)
		}
		long := call{began: time.Now()}
		from.StartPublish(&long.Op, "c", strings.Repeat("x", MessageMax), &long)
		long.want(s, "PUBLISH of a message that is too long", "at most 32768 are possible", 0)
	})
}

// Waiters cost the masters little, also where another client holds what they wait for: one attempt or two until the masters tell.
func TestWaitersAskSeldom(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.subscribed()
		const waiters = 50
		var held []*call
		for i := range waiters {
			holder := p
			if i%2 == 1 {
				holder = other
			}
			held = append(held, holder.lock(one("r"+strconv.Itoa(i), time.Minute)))
		}
		attempts := p.Stats().Attempts
		var calls []*call
		for i := range waiters {
			calls = append(calls, p.begin(one("r"+strconv.Itoa(i), time.Minute).waits(time.Minute)))
		}
		time.Sleep(10 * time.Second)
		if n := p.Stats().Attempts - attempts; n > 6*waiters {
			s.Errorf("%d attempts of %d waiters in 10 s, want few", n, waiters)
		}
		for i, c := range held {
			holder := p
			if i%2 == 1 {
				holder = other
			}
			holder.unlock(c.Token, "r"+strconv.Itoa(i))
		}
		began := time.Now()
		for _, c := range calls {
			if p.finish(c); !c.Held {
				s.Errorf("a waiter: got %+v, want held", c.Result)
			}
		}
		if took := time.Since(began); took > 5*ms {
			s.Errorf("all waiters were served after %v, want at once", took)
		}
	})
}

// pushedConn is a connection on which a master has sent a text, and closes.
type pushedConn struct {
	net.Conn
	text *strings.Reader
}

func (c pushedConn) Read(p []byte) (int, error) { return c.text.Read(p) }

// What a master pushes has its effect and no other, and ends the connection where no Redis would send it.
func TestWhatAMasterPushes(t *testing.T) {
	bulk := func(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }
	pushed := func(channel, body string) string { return "*3\r\n" + bulk("message") + bulk(channel) + body }
	keys := func(keys ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(keys))
		for _, key := range keys {
			text += bulk(key)
		}
		return text
	}
	const nonsense, mailbox = "which no Redis would here", messagesChannel + ":mine"
	message := bulk(newMessage("c", "hello").text)
	q := pushed(invalidateChannel, keys("q"))
	long := strings.Repeat("x", resp.TextMax+1)
	for name, tt := range map[string]struct{ text, want string }{
		"a message":                        {pushed(messagesChannel, message), "c=hello; EOF"},
		"a message to this client":         {pushed(mailbox, message), "c=hello; EOF"},
		"a message elsewhere":              {pushed("elsewhere", message), "EOF"},
		"a window":                         {pushed(windowsChannel, bulk("r")), "a window of r; EOF"},
		"a window elsewhere":               {pushed("elsewhere", bulk("r")) + pushed(invalidateChannel, bulk("r")) + q, "q changed; told of q; EOF"},
		"a change":                         {pushed(invalidateChannel, keys("r")), "r changed; told of r; EOF"},
		"several changes":                  {pushed(invalidateChannel, keys("z", "q", "r")), "r changed; q changed; told of z q r; EOF"},
		"a change of none":                 {pushed(invalidateChannel, keys()) + q, "q changed; told of q; EOF"},
		"a flush":                          {pushed(invalidateChannel, "*-1\r\n"), "r changed; q changed; EOF"},
		"a flush as it was":                {pushed(invalidateChannel, "$-1\r\n"), "r changed; q changed; EOF"},
		"no message":                       {pushed(messagesChannel, "*-1\r\n") + pushed(mailbox, "$-1\r\n") + pushed(windowsChannel, "*-1\r\n"), "EOF"},
		"lines instead of strings":         {pushed(messagesChannel, "+"+newMessage("c", "hello").text+"\r\n") + pushed(windowsChannel, "+r\r\n") + q, "q changed; told of q; EOF"},
		"nothing elsewhere":                {pushed("elsewhere", "*-1\r\n") + q, "q changed; told of q; EOF"},
		"more channels":                    {pushed(windowsChannel, ":3\r\n") + pushed(mailbox, ":4\r\n") + pushed(messagesChannel, ":5\r\n") + q, "q changed; told of q; EOF"},
		"a key that is too long for us":    {pushed(invalidateChannel, keys(long, "r")), "r changed; told of ERR a value of 65537 bytes r; EOF"},
		"a channel that is too long":       {pushed(long, keys()) + q, "q changed; told of q; EOF"},
		"an array as a message":            {pushed(messagesChannel, keys("r")) + q, nonsense},
		"an array elsewhere":               {pushed("elsewhere", keys("r")) + q, nonsense},
		"a pair":                           {"*2\r\n" + bulk("message") + bulk("pong") + q, nonsense},
		"an error":                         {"-ERR gone\r\n" + q, "ERR gone"},
		"a kind that is a number":          {"*3\r\n:1\r\n" + bulk(messagesChannel) + message + q, nonsense},
		"a channel that is a number":       {"*3\r\n" + bulk("message") + ":1\r\n" + bulk("r") + q, nonsense},
		"a key that is a number":           {pushed(invalidateChannel, "*2\r\n:1\r\n"+bulk("r")) + q, nonsense},
		"a body that is none":              {pushed(invalidateChannel, "%1\r\n") + q, nonsense},
		"the end behind the head":          {"*3\r\n", "EOF"},
		"the end behind the kind":          {"*3\r\n" + bulk("message"), "EOF"},
		"the end in the middle of changes": {pushed(invalidateChannel, "*2\r\n"+bulk("r")), "r changed; told of r; EOF"},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(), s.open()
			var waiters []*waiter
			for _, resource := range []string{"r", "q"} {
				other.lock(one(resource, time.Minute))
				waiters = append(waiters, p.begin(one(resource, time.Minute).waits(30*time.Second)).waiter)
			}
			time.Sleep(ms) // they have observed it, and pause
			var told, got []string
			push := func(text string) error {
				return p.fleet.view.Load().lanes[2].actOnPushed(&conn.Wire{Socket: pushedConn{text: strings.NewReader(text)}}, mailbox)
			}
			if err := push(pushed(invalidateChannel, keys("z"))); err != io.EOF {
				s.Errorf("a change that nobody is to be told of: got %v, want EOF", err)
			}
			OnChange(p.Client, func(resource string) { told = append(told, resource) })
			p.OnMessage(func(channel, payload string) { got = append(got, channel+"="+payload) })
			err := push(tt.text)
			p.mu.Lock()
			for _, w := range waiters {
				if w.entry.queue.fairness.windowAnnouncedBy == 0b100 {
					got = append(got, "a window of "+w.entry.resource)
				}
				if w.tracked[0].changed == 0b100 {
					got = append(got, w.entry.resource+" changed")
				}
			}
			p.mu.Unlock()
			if told != nil {
				got = append(got, "told of "+strings.Join(told, " "))
			}
			if got := strings.Join(append(got, err.Error()), "; "); got != tt.want && (tt.want != nonsense || !strings.Contains(got, nonsense) || strings.Contains(got, "; ")) {
				s.Errorf("%s: got %q, want %q", name, got, tt.want)
			}
		})
	}
}

// faulty dials a master, and spoils the connections that are made while fault is set.
type faulty struct {
	fault          atomic.Pointer[string]
	opened, closed atomic.Int32
}

type faultyConn struct {
	net.Conn
	*faulty
	fault string
	ended sync.Once
}

func (f *faulty) dialer(dial func(ctx context.Context, network, addr string) (net.Conn, error)) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		fault := ""
		if now := f.fault.Load(); now != nil {
			fault = *now
		}
		if fault == "there is no way" {
			return nil, errors.New(fault)
		}
		c, err := dial(ctx, network, addr)
		if err == nil {
			f.opened.Add(1)
		}
		return &faultyConn{Conn: c, faulty: f, fault: fault}, err
	}
}

func (c *faultyConn) Close() error {
	c.ended.Do(func() { c.closed.Add(1) })
	return c.Conn.Close()
}

func (c *faultyConn) Write(p []byte) (int, error) {
	subscribes, n := bytes.Contains(p, []byte("subscribe\r\n")), len(p)
	switch {
	case c.fault == "slow":
		time.Sleep(450 * ms)
	case c.fault == "the way is cut" && subscribes:
		return 0, errors.New(c.fault)
	case c.fault == "timeout" && subscribes:
		return n, nil
	case c.fault == "unknown command" && subscribes:
		p = bytes.Replace(p, []byte("subscribe\r\n"), []byte("subscribx\r\n"), 1)
	case c.fault == "unknown subcommand":
		p = bytes.Replace(p, []byte("$2\r\nid\r\n"), []byte("$2\r\nix\r\n"), 1)
	}
	_, err := c.Conn.Write(p)
	return n, err
}

// Why a master sends no invalidations is logged once for each reason, if that goes on for two heartbeats. A subscription that stood and stands again is no
// news, and neither is the end of this client, which waits for no subscription. All connections are closed in the end.
func TestSubscriptionThatFails(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		var log journal
		var way faulty
		p := s.open(log.option, func(o *Options) { o.Masters[1].Dialer = way.dialer(o.Masters[1].Dialer) })
		p.subscribed()
		l := p.fleet.view.Load().lanes[1]
		time.Sleep(10 * time.Second)
		log.take("")
		before := l.invalidationsID.Load()
		l.closeInvalidations()
		if synctest.Wait(); l.invalidationsID.Load() == before {
			s.Error("the subscription that was closed counts still")
		}
		p.subscribed()
		time.Sleep(time.Second)
		if told := log.take(""); len(told) != 0 || l.invalidationsID.Load() == before {
			s.Errorf("a subscription that broke and stands again: as before %t; the log says %q, want nothing", l.invalidationsID.Load() == before, told)
		}
		slow := "slow" // making the connection takes nearly ConnectTimeout, and subscribing half as long
		way.fault.Store(&slow)
		l.closeInvalidations()
		p.subscribed()
		for _, fault := range []string{"there is no way", "unknown subcommand", "the way is cut", "unknown command", "timeout"} {
			way.fault.Store(&fault)
			l.closeInvalidations()
			time.Sleep(2*p.opts.Heartbeat - ms)
			if told := log.take("no invalidations"); len(told) != 0 {
				s.Errorf("%s: after less than two heartbeats the log says %q, want nothing", fault, told)
			}
			time.Sleep(3 * time.Second)
			if told := log.take("no invalidations"); len(told) != 1 || !strings.Contains(told[0], fault) {
				s.Errorf("%s: the log says %q, want that there are no invalidations, and why, once", fault, told)
			}
			if got := l.invalidationsID.Load(); got != 0 {
				s.Errorf("%s: there is a subscription: %d", fault, got)
			}
			if fault != "timeout" {
				way.fault.Store(nil)
				p.subscribed()
				p.allUp()
			}
		}
		s.until("a subscription is under way", func() bool { return way.opened.Load()-way.closed.Load() == 2 })
		time.Sleep(ms)
		began := time.Now()
		p.Close(s.Context())
		if took := time.Since(began); took > p.opts.ConnectTimeout/10 {
			s.Errorf("Close took %v beside a subscription that is under way", took)
		}
		if told := log.take("no invalidations"); len(told) != 0 {
			s.Errorf("the client closes: the log says %q", told)
		}
		if opened, closed := way.opened.Load(), way.closed.Load(); opened != closed || opened < 20 {
			s.Errorf("%d connections were made, and %d closed, want all of many", opened, closed)
		}
	})
}

// The lane turns tracking on once for each subscription, on its own connection, and asks for announcements only where that was accepted.
func TestTrackingIsTurnedOnForEachSubscription(t *testing.T) {
	m := newMemMaster(t)
	b := standing(t, m)
	l := b.lane
	var log journal
	log.option(l.fleet.opts)
	var commands []string
	m.SetCost(func(args [][]byte) time.Duration {
		if text := string(bytes.Join(args, []byte(" "))); strings.HasPrefix(text, "client tracking") {
			commands = append(commands, text)
		}
		return 0
	})
	id := b.conn.Redis.ClientID(t.Context()).Val()
	for _, tt := range []struct {
		what      string
		id        int64 // of the subscription; -1: the connection of the lane has broken
		trackedBy int64
		before    bool
		sends     bool
		tracking  bool
		logs      bool
	}{
		{what: "there was none", id: 0, trackedBy: 0},
		{what: "it has gone", id: 0, trackedBy: id, before: true},
		{what: "it is the same", id: id, trackedBy: id, before: true, tracking: true},
		{what: "it is the same, and was refused", id: id, trackedBy: id},
		{what: "it is the first one", id: id, sends: true, tracking: true},
		{what: "it is another one", id: id, trackedBy: id + 100, before: true, sends: true, tracking: true},
		{what: "it is refused", id: id + 100, trackedBy: id, before: true, sends: true, logs: true},
		{what: "the connection breaks", id: -1, trackedBy: id, before: true},
	} {
		commands = nil
		log.take("")
		l.invalidationsID.Store(tt.id)
		l.trackingID, l.tracking = tt.trackedBy, tt.before
		if tt.id < 0 {
			b.conn.Close()
		}
		err := l.track(t.Context(), b.conn)
		if broken := tt.id < 0; (err != nil) != broken || broken && !strings.Contains(err.Error(), "CLIENT TRACKING: ") {
			t.Errorf("%s: got %v", tt.what, err)
		}
		want := []string(nil)
		if tt.sends {
			want = []string{fmt.Sprintf("client tracking on redirect %d optin noloop", tt.id)}
		}
		if told := log.take("CLIENT TRACKING: "); !slices.Equal(commands, want) || (len(told) > 0) != tt.logs {
			t.Errorf("%s: it sends %q, and logs %q; want %q, %t", tt.what, commands, told, want, tt.logs)
		}
		if l.tracking != tt.tracking || l.trackingID != tt.id || l.tracks() != tt.tracking {
			t.Errorf("%s: tracks %t for %d, and asks for announcements %t; want %t for %d", tt.what, l.tracking, l.trackingID, l.tracks(), tt.tracking, tt.id)
		}
		if l.invalidationsID.Store(tt.id + 1); l.tracks() {
			t.Errorf("%s: it asks for announcements on a subscription that has gone", tt.what)
		}
	}
}

// seldom has waiters ask by themselves so seldom that it is not seen.
func seldom(o *Options) { o.RetryDelayMin, o.RetryDelayMax = 5*time.Second, 5*time.Second }

// A change that a master announces wakes the head, if the resource may be free now: at once, after a pause if wake-ups were in vain, and behind an observation
// that is under way. An attempt under way sees for itself.
func TestWhatAnInvalidationWakes(t *testing.T) {
	relied := tracked{awaited: 0b111}
	anew := tracked{awaited: quorum.All}
	for name, tt := range map[string]struct {
		slots, slot int // the slot that has changed; the test is of a lock if there are none
		tracked     tracked
		change      func(p *proxy, w *waiter)

		asks, again, pauses bool // pauses: anew
		woken               uint64
		then                tracked
		open                bool // the window of before
	}{
		"it may be free":                   {tracked: relied, asks: true, woken: 1, then: anew},
		"others hold it":                   {tracked: tracked{awaited: 0b1111}, then: tracked{awaited: 0b1111, changed: 0b1}, open: true},
		"it was absent there":              {tracked: tracked{awaited: 0b110, absent: 0b1}, then: tracked{awaited: 0b110, absent: 0b1, changed: 0b1}, open: true},
		"one wake-up was in vain":          {tracked: relied, change: func(_ *proxy, w *waiter) { w.entry.queue.fairness.futileWakeups = 1 }, asks: true, woken: 1, then: anew},
		"two wake-ups were in vain":        {tracked: relied, change: func(_ *proxy, w *waiter) { w.entry.queue.fairness.futileWakeups = 2 }, pauses: true, woken: 1, then: anew},
		"an observation is under way":      {tracked: relied, change: func(_ *proxy, w *waiter) { w.endPause(); w.attempt = &round{verb: verbObserve} }, again: true, then: anew},
		"an attempt is under way":          {tracked: relied, change: func(_ *proxy, w *waiter) { w.endPause(); w.attempt = &round{verb: verbSet} }, then: relied, open: true},
		"it waits for something else":      {tracked: relied, change: func(_ *proxy, w *waiter) { w.endPause() }, then: anew},
		"the client drains":                {tracked: relied, change: func(p *proxy, _ *waiter) { p.draining = true }, woken: 1, then: anew},
		"the last slot":                    {slots: 3, slot: 2, tracked: relied, asks: true, woken: 1, then: anew},
		"a slot that others hold":          {slots: 3, slot: 1, tracked: tracked{awaited: 0b11111}, then: tracked{awaited: 0b11111, changed: 0b1}, open: true},
		"the slot behind the last":         {slots: 3, slot: 3, open: true},
		"a slot far behind":                {slots: 3, slot: 31, open: true},
		"a slot of which nothing is known": {slots: 3, slot: 1, change: func(_ *proxy, w *waiter) { w.slots().tracked = nil }, open: true},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(seldom), s.open()
			req := one("r", time.Minute)
			if req.Slots = tt.slots; tt.slots > 0 {
				for range tt.slots - 1 {
					other.lock(req)
				}
			}
			other.lock(req)
			waiter := p.begin(req.waits(30 * time.Second))
			time.Sleep(100 * ms)
			p.mu.Lock()
			w, d := waiter.waiter, &deferred{now: time.Now()}
			f := &w.entry.queue.fairness
			f.windowOpen = true
			slot := -1
			if tt.slots > 0 {
				slot = tt.slot
			}
			if keys := w.trackedKeys(); max(0, slot) < len(keys) {
				keys[max(0, slot)] = tt.tracked
			}
			if tt.change != nil {
				tt.change(p, w)
			}
			retry, asked, woken := w.retry, p.stats.Attempts, p.stats.Wakeups
			p.waiting.invalidatedLocked(w.entry, slot, 0, d)
			asks, pauses := p.stats.Attempts == asked+1 && w.attempt != nil, w.retry != nil && w.retry != retry
			if asks != tt.asks || pauses != tt.pauses || w.again != tt.again || p.stats.Wakeups-woken != tt.woken || f.windowOpen != tt.open {
				s.Errorf("%s: asks %t, pauses anew %t, is to ask again %t, counts %d wake-ups, a window is open %t; want %t, %t, %t, %d, %t",
					name, asks, pauses, w.again, p.stats.Wakeups-woken, f.windowOpen, tt.asks, tt.pauses, tt.again, tt.woken, tt.open)
			}
			if keys := w.trackedKeys(); max(0, slot) < len(keys) && keys[max(0, slot)] != tt.then {
				s.Errorf("%s: tracked: got %+v, want %+v", name, keys[max(0, slot)], tt.then)
			}
			if asks && tt.slots > 0 && w.attempt.keys[0] != SlotName("r", slot) {
				s.Errorf("%s: it asks for %s", name, w.attempt.keys[0])
			}
			p.draining = false
			if !asks {
				w.attempt = nil
			}
			p.mu.Unlock()
			p.runDeferred(d)
			p.Unblock(&waiter.Op, nil)
		})
	}
}

// What this client changes itself counts as announced. A head that relied on that, and does not any more, asks after a usual pause.
func TestWhatOwnChangesLeaveToRelyOn(t *testing.T) {
	relied := tracked{awaited: 0b111}
	for name, tt := range map[string]struct {
		slots, slot int
		keys        []string
		targets     quorum.Mask
		tracked     tracked
		change      func(w *waiter, r *round)
		then        tracked
		pauses      bool // anew
	}{
		"one of three that it relied on":   {keys: []string{"r"}, targets: 0b1, tracked: relied, then: tracked{awaited: 0b111, changed: 0b1}, pauses: true},
		"the second key of the round":      {keys: []string{"q", "r"}, targets: 0b1, tracked: relied, then: tracked{awaited: 0b111, changed: 0b1}, pauses: true},
		"one of four":                      {keys: []string{"r"}, targets: 0b1, tracked: tracked{awaited: 0b1111}, then: tracked{awaited: 0b1111, changed: 0b1}},
		"it relied on nobody":              {keys: []string{"r"}, targets: 0b1, tracked: tracked{awaited: 0b11}, then: tracked{awaited: 0b11, changed: 0b1}},
		"it had just been woken":           {keys: []string{"r"}, targets: 0b11111, tracked: tracked{awaited: quorum.All}, then: tracked{awaited: quorum.All, changed: 0b11111}},
		"it observes":                      {keys: []string{"r"}, targets: 0b1, tracked: relied, change: func(w *waiter, _ *round) { w.endPause() }, then: tracked{awaited: 0b111, changed: 0b1}},
		"its own attempt":                  {keys: []string{"r"}, targets: 0b1, tracked: relied, change: func(w *waiter, r *round) { r.op = w.op }, then: relied},
		"a resource that nobody wants":     {keys: []string{"q"}, targets: 0b1, tracked: relied, then: relied},
		"a slot":                           {slots: 3, slot: 1, keys: []string{"r#1"}, targets: 0b1, tracked: relied, then: tracked{awaited: 0b111, changed: 0b1}, pauses: true},
		"another slot":                     {slots: 3, slot: 1, keys: []string{"r#2"}, targets: 0b1, tracked: relied, then: relied},
		"the slot behind the last":         {slots: 3, slot: 1, keys: []string{"r#3", "r#31"}, targets: 0b1, tracked: relied, then: relied},
		"a slot of which nothing is known": {slots: 3, slot: -1, keys: []string{"r#0"}, targets: 0b1, change: func(w *waiter, _ *round) { w.slots().tracked = nil }},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p, other := s.open(seldom), s.open()
			req := one("r", time.Minute)
			if req.Slots = tt.slots; tt.slots > 0 {
				for range tt.slots - 1 {
					other.lock(req)
				}
			}
			other.lock(req)
			waiter := p.begin(req.waits(30 * time.Second))
			time.Sleep(100 * ms)
			p.mu.Lock()
			w, r := waiter.waiter, &round{verb: verbRelease, keys: tt.keys}
			for i, keys := 0, w.trackedKeys(); i < len(keys); i++ {
				keys[i] = tracked{awaited: 0b11111} // of the other slots
			}
			if tt.slot >= 0 {
				w.trackedKeys()[tt.slot] = tt.tracked
			}
			if tt.change != nil {
				tt.change(w, r)
			}
			retry := w.retry
			p.waiting.changesLocked(r, tt.targets)
			if pauses := w.retry != nil && w.retry != retry; pauses != tt.pauses || (w.retry == nil) != (retry == nil) {
				s.Errorf("%s: pauses anew %t, want %t", name, pauses, tt.pauses)
			}
			if tt.slot >= 0 && w.trackedKeys()[tt.slot] != tt.then {
				s.Errorf("%s: tracked: got %+v, want %+v", name, w.trackedKeys()[tt.slot], tt.then)
			}
			retry = w.retry
			p.mu.Unlock()
			time.Sleep(100 * ms)
			p.mu.Lock()
			if tt.pauses && w.retry != retry {
				s.Errorf("%s: it does not pause for as long as usual", name)
			}
			p.mu.Unlock()
			p.Unblock(&waiter.Op, nil)
		})
	}
}

// Where a master announces nothing any more, those heads ask that relied on it, soon or behind an observation that is under way. The others go on as they are.
func TestWhoAsksWhenAMasterAnnouncesNothingMore(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(seldom), s.open()
		mine := p.lock(one("held here", time.Minute))
		type testCase struct {
			resource      string
			awaited       quorum.Mask
			verb          verb // of what is under way for it; verbCount: it pauses
			pauses, again bool
			changed       quorum.Mask
			waiter        *call
			retry         *time.Timer
		}
		cases := []*testCase{
			{resource: "relies on it", awaited: 0b111, verb: verbCount, pauses: true, changed: 0b1},
			{resource: "relies on another", awaited: 0b1110, verb: verbCount, changed: 0b1},
			{resource: "relies on one more", awaited: 0b1111, verb: verbCount, changed: 0b1},
			{resource: "observes", awaited: 0b111, verb: verbObserve, again: true, changed: 0b1},
			{resource: "observes, and relies on more", awaited: 0b1111, verb: verbObserve, changed: 0b1},
			{resource: "asks", awaited: 0b111, verb: verbSet},
		}
		for _, tt := range cases {
			other.lock(one(tt.resource, time.Minute))
			tt.waiter = p.begin(one(tt.resource, time.Minute).waits(30 * time.Second))
		}
		for range 3 {
			other.lock(one("slots", time.Minute).of(3))
		}
		slots := p.begin(one("slots", time.Minute).of(3).waits(30 * time.Second))
		time.Sleep(100 * ms)
		p.mu.Lock()
		for _, tt := range cases {
			w := tt.waiter.waiter
			w.tracked[0] = tracked{awaited: tt.awaited}
			if tt.verb != verbCount {
				w.endPause()
				w.attempt = &round{verb: tt.verb}
			}
			tt.retry = w.retry
		}
		keys := slots.waiter.slots().tracked
		keys[0], keys[1], keys[2] = tracked{awaited: 0b111}, tracked{awaited: 0b1111}, tracked{awaited: 0b11110}
		retry := slots.waiter.retry
		p.mu.Unlock()
		p.waiting.allInvalidated(0)
		p.mu.Lock()
		for _, tt := range cases {
			w := tt.waiter.waiter
			pauses := w.retry != nil && w.retry != tt.retry
			if pauses != tt.pauses || w.again != tt.again || w.tracked[0] != (tracked{awaited: tt.awaited, changed: tt.changed}) {
				s.Errorf("%s: pauses anew %t, is to ask again %t, tracks %+v; want %t, %t, changed %b", tt.resource, pauses, w.again, w.tracked[0], tt.pauses, tt.again, tt.changed)
			}
			w.again = false
			if tt.verb != verbCount {
				w.attempt = nil
			}
		}
		if slots.waiter.retry == retry || keys[0].changed != 0b1 || keys[1].changed != 0b1 || keys[2].changed != 0b1 {
			s.Errorf("slots: pauses anew %t, tracks %+v, want that, and all changed", slots.waiter.retry != retry, keys)
		}
		p.mu.Unlock()
		p.unlock(mine.Token, "held here")
	})
}

// An attempt under way shows itself what has changed; an observation does not.
func TestWhoAsks(t *testing.T) {
	for v, want := range map[verb]bool{verbSet: true, verbAcquire: true, verbSlot: true, verbJoin: true, verbReserve: true, verbObserve: false, verbAnnounce: false, verbObserveSlots: false} {
		if got := (&waiter{attempt: &round{verb: v}}).asking(); got != want {
			t.Errorf("verb %d: got %t, want %t", v, got, want)
		}
	}
	if (&waiter{}).asking() {
		t.Error("nothing is under way: got true, want false")
	}
}

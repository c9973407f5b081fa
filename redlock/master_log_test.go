package redlock

// Goal: the log tells what happens to the masters, in the words of INFO, and a fault that goes on for hours does not fill the
// disk. Method: masters in this process, in virtual time; the lines are counted.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/redisproc"
)

// take returns the lines since the last take that contain the text.
func (j *journal) take(text string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	j.text.Reset()
	return found
}

func (j *journal) option(o *Options) { o.Logger = slog.New(slog.NewTextHandler(j, nil)) }

func TestMasterThatFlapsDoesNotFloodTheLog(t *testing.T) {
	redisproc.NotRaced(t)
	inVirtualTime(t, 5, func(s *stage) {
		var log journal
		p := s.open(log.option)
		flap := func(seconds int) {
			for range seconds {
				s.freeze(2)
				time.Sleep(700 * ms)
				s.thaw(2)
				time.Sleep(300 * ms)
			}
			s.until("m3 up", func() bool { return p.Masters()[2].State == MasterUp })
		}
		log.take("")
		flap(8)
		if told := log.take("m3"); len(told) != logBurst-1 { // one is of before
			s.Errorf("%d lines in 8 s, want %d:\n%s", len(told), logBurst-1, strings.Join(told, ""))
		}
		time.Sleep(2 * logInterval)
		told := log.take("m3")
		if len(told) != 1 || !strings.Contains(told[0], `msg="master up"`) || !strings.Contains(told[0], "more_since_last=") {
			s.Errorf("after it has calmed down: got %q, want one line that says that it is up, and how many were left out", told)
		}
		flap(300)
		if n, most := len(log.take("m3")), logBurst+300/10; n > most {
			s.Errorf("%d lines in 5 minutes, want at most %d", n, most)
		}
	})
}

func TestOneLineForEachThingThatHappensToAMaster(t *testing.T) {
	for _, tt := range []struct {
		name   string
		happen func(s *stage)
		want   []string
	}{
		{"frozen", func(s *stage) { s.freeze(0) }, []string{`level=WARN msg="master slow"`, `level=WARN msg="master down"`}},
		{"killed", func(s *stage) { s.masters[0].Crash(false) }, []string{`level=WARN msg="master down"`}},
		{"a policy that evicts", func(s *stage) { s.do(0, "CONFIG", "SET", "maxmemory", "100000000", "maxmemory-policy", "allkeys-lru") },
			[]string{`msg="master refused" master=m1 reason="it may evict`}},
		{"flushed", func(s *stage) { s.do(0, "FLUSHALL") }, []string{`msg="master quarantined"`}},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			var log journal
			s.open(log.option, uncopied)
			log.take("")
			tt.happen(s)
			time.Sleep(10 * time.Second)
			told := slices.DeleteFunc(log.take(""), func(line string) bool { return strings.Contains(line, "msg=membership") })
			if !slices.EqualFunc(told, tt.want, strings.Contains) {
				s.Errorf("%s: got\n%s\nwant one line each with %q", tt.name, strings.Join(told, ""), tt.want)
			}
		})
	}
}

// A master whose memory is nearly full, and one that new connections do not reach: a line when it begins, and one when it is over.
func TestLittleMemoryIsLoggedOnce(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		var log journal
		l := s.open(log.option).fleet.view.Load().lanes[0]
		log.take("")
		for i, tt := range []struct {
			used, limit string
			refusal     string // why it takes no new locks
			want        string
		}{
			{"70", "100", "", ""}, {"80", "100", "", "little memory left"}, {"90", "100", "", ""}, {"75", "100", "", ""}, {"74", "100", "", "enough memory"},
			{"75", "100", "", ""}, {"99", "100", "memory is full", ""}, {"99", "100", "", "little memory left"}, {"99", "0", "", "enough memory"},
		} {
			l.guard.lockRefusal = tt.refusal
			l.noteMemory(map[string]string{"used_memory": tt.used, "maxmemory": tt.limit})
			told := strings.Join(log.take(""), "")
			if !strings.Contains(told, tt.want) || (told == "") != (tt.want == "") {
				s.Errorf("%d: %s bytes of %s: got %q, want %q", i, tt.used, tt.limit, told, tt.want)
			}
		}
	})
}

func TestUnreachedMasterIsLoggedOnce(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		var log journal
		p := s.open(log.option)
		l := p.fleet.view.Load().lanes[0]
		log.take("")
		refused := errors.New("no more connections")
		now := p.own.At(time.Now())
		for i, tt := range []struct {
			why  error
			ago  time.Duration // when a connection has reached it last
			want string
		}{
			{refused, 0, ""}, {refused, time.Hour, "no more connections; see whether it accepts"}, {refused, time.Hour, ""}, {refused, 0, ""}, {nil, 0, "master up"},
			{nil, 0, ""}, {refused, time.Hour, "no more connections; see"},
		} {
			l.guard.confirmed.Store(int64(now - tt.ago))
			l.unreached(tt.why)
			told := strings.Join(log.take(""), "")
			if !strings.Contains(told, tt.want) || (told == "") != (tt.want == "") {
				s.Errorf("%d: reached %v ago: got %q, want %q", i, tt.ago, told, tt.want)
			}
		}
	})
}

// Nobody can look at a master inside this process, nor restart it: advice for others would be none.
func TestAdviceForMastersInsideThisProcess(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		var log journal
		p := s.open(log.option, func(o *Options) {
			for i := range o.Masters {
				o.Masters[i].SameClock = true
			}
		})
		s.freeze(2)
		s.until("m3 down", func() bool { return p.Masters()[2].State == MasterDown })
		lines := log.take("to_do")
		if len(lines) == 0 {
			s.Error("got no line with advice")
		}
		for _, line := range lines {
			if !strings.Contains(line, "to_do="+strconv.Quote(insideToDo)) {
				s.Errorf("got %q, want the advice %q", line, insideToDo)
			}
		}
	})
}

func TestManyLostLeasesDoNotFloodTheLog(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		var log journal
		p := s.open(log.option)
		const leases = 30
		for i := range leases {
			p.lock(one(fmt.Sprint("r", i), time.Minute))
		}
		time.Sleep(time.Second)
		s.doOn([]int{0, 1, 2}, "FLUSHALL")
		s.until("all are known to be lost", func() bool { return p.Stats().Lost == leases })
		if n := len(log.take(`msg="lease lost"`)); n != logBurst {
			s.Errorf("%d lines of %d leases, want %d", n, leases, logBurst)
		}
		time.Sleep(2 * logInterval)
		if told := log.take("leases lost"); len(told) != 1 || !strings.Contains(told[0], fmt.Sprint("more_since_last=", leases-logBurst)) {
			s.Errorf("got %q, want one line that tells of the others", told)
		}
	})
}

// closedSocket is a connection whose other user is faster when it is closed.
type closedSocket struct {
	net.Conn
	closing func()
}

func (c *closedSocket) Close() error {
	c.closing()
	return c.Conn.Close()
}

// Of two goroutines that find a connection broken, the one that has found it closed by the other does not say why.
func TestFirstReasonOfABrokenConnectionIsKept(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(l *lane, link *conn.Conn)
		want string
	}{
		{"it broke", func(l *lane, link *conn.Conn) { l.hangUp(link, io.EOF) }, "EOF"},
		{"another Redis has the address", func(l *lane, link *conn.Conn) {
			l.confirm("another", time.Now())
		}, "another Redis answers at its address now"},
		{"the client is closed", func(l *lane, link *conn.Conn) {
			l.cancel()
			l.hangUp(link, net.ErrClosed)
		}, "closed"},
	} {
		b := standing(t, newMemMaster(t))
		l, link := b.lane, b.conn
		first := tt.want == "EOF"
		link.Socket = &closedSocket{link.Socket, func() {
			if first {
				first = false
				l.hangUp(link, net.ErrClosed)
			}
		}}
		l.socket = link.Socket
		tt.end(l, link)
		l.hangUp(link, net.ErrClosed)
		if got := l.downReason.Error(); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Masters are killed, cut off, frozen and restarted, and their connections are closed, while locks are taken. No log line, no state of a
// master and no error says that a connection was closed here: that is nobody's reason.
func TestReasonsNameTheFirstCause(t *testing.T) {
	var log journal
	servers, c := openFive(t, func(o *Options) {
		brief(o)
		log.option(o)
	})
	var reasons sync.Map
	ending := make(chan struct{})
	var load sync.WaitGroup
	for i := range 20 {
		load.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ending:
					return
				default:
				}
				lease, err := c.TryLock(context.Background(), fmt.Sprint("r", i), 200*time.Millisecond)
				if err != nil {
					reasons.Store(err.Error(), true)
					continue
				}
				lease.Unlock(context.Background())
			}
		})
	}
	look := func(d time.Duration) {
		for began := time.Now(); time.Since(began) < d; time.Sleep(time.Millisecond) {
			for _, m := range c.Masters() {
				reasons.Store(m.Reason, true)
			}
			m := c.Membership()
			reasons.Store(m.Problem, true)
		}
	}
	for i := range 20 {
		one := servers[i%5]
		switch i % 4 {
		case 0, 1:
			dialServer(t, one.Addr).Do(context.Background(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		case 2:
			one.Kill()
			look(50 * time.Millisecond)
			if err := one.Restart(); err != nil {
				t.Fatal(err)
			}
		case 3:
			one.Freeze()
			look(50 * time.Millisecond)
			one.Thaw()
		}
		look(100 * time.Millisecond)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	c.Close(ended)
	look(50 * time.Millisecond)
	close(ending)
	load.Wait()
	for _, line := range log.take("") {
		reasons.Store(line, true)
	}
	reasons.Range(func(text, _ any) bool {
		for _, untrue := range []string{"use of closed", "the connection is broken", "client is closed", "operation was canceled"} {
			if strings.Contains(text.(string), untrue) {
				t.Errorf("got %q: want what has happened there", text)
			}
		}
		return true
	})
}

// A state is logged once: up, or down, whatever the reason; any other, for each reason. Where lines were left out the last one is written all the same.
func TestStatesOfAMasterAreLoggedOnce(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		var log journal
		p := s.open(log.option)
		log.take("")
		l := p.idleLane()
		down := func(why string) func() {
			return func() { l.state, l.downReason = laneConnecting, errors.New(why) }
		}
		up := func() { l.state, l.downReason, l.guard.refusal, l.guard.clock.good = laneIdle, nil, "", true }
		refused := func(why string) func() { return func() { up(); l.guard.refusal = why } }
		doubted := func() {
			up()
			l.guard.clock.good, l.guard.clock.reason, l.guard.clock.until = false, "a step", time.Now().Add(3*time.Second)
		}
		for i, tt := range []struct {
			change func()
			want   string
		}{
			{up, `level=INFO msg="master up"`}, {up, ""}, {down("reset"), `level=WARN msg="master down" master=m2 reason=reset to_do="see that Redis runs`}, {down("refused"), ""},
			{refused("it may evict"), `msg="master refused" master=m2 reason="it may evict"`}, {refused("it may evict"), ""}, {refused("its fences are false"), "its fences are false"},
			{doubted, `msg="master doubted" master=m2 reason="a step" for=3s`}, {doubted, ""}, {up, "master up"},
		} {
			tt.change()
			l.logState()
			told := strings.Join(log.take(""), "")
			if !strings.Contains(told, tt.want) || (told == "") != (tt.want == "") {
				s.Errorf("%d: got %q, want %q", i, told, tt.want)
			}
			time.Sleep(logInterval)
		}
		if l.logMissedState(time.Now()); len(log.take("")) != 0 {
			s.Error("no line was left out, and the state is logged once more")
		}
		for range logBurst + 2 {
			l.logEvent(slog.LevelInfo, "something")
		}
		if log.take(""); l.logged != "" {
			s.Errorf("something has happened to a master that is up: %q is logged, want that it is up again", l.logged)
		}
		l.logged = MasterUp
		time.Sleep(2 * logInterval)
		if l.logMissedState(time.Now()); len(log.take("master up")) != 1 {
			s.Error("lines were left out: the state is not logged")
		}
		if l.log(slog.LevelInfo, "event", "to_do", "see its log"); len(log.take(insideToDo)) != 0 {
			s.Error("advice for a master outside this process is that for one inside")
		}
	})
}

// One line tells of all masters whose clocks gained, and one of all that are too far apart, when the first of them is so for a heartbeat.
func TestDoubtsAreLoggedTogether(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		var log journal
		p := s.open(log.option)
		log.take("")
		set := func(place int, gained, skew, since time.Duration) {
			l := p.fleet.view.Load().masters[place]
			l.mu.Lock()
			defer l.mu.Unlock()
			k := &l.guard.clock
			k.good, k.logged, k.gained, k.skew, k.until = gained == 0 && skew == 0, false, gained, skew, time.Now().Add(9*time.Second+time.Duration(place)*time.Second)
			l.since = time.Now().Add(-since)
		}
		told := func(text string) string {
			p.fleet.logDoubts(time.Now())
			return strings.Join(log.take(text), "")
		}
		beat := p.opts.Heartbeat
		set(0, time.Second, 0, beat)
		if got := told(""); got != "" {
			s.Errorf("a gain of a heartbeat ago: got %q, want nothing yet", got)
		}
		set(0, time.Second, 0, beat+1)
		set(1, -time.Nanosecond, 0, time.Hour) // no gain
		set(2, 3*time.Second, 0, 0)
		if got := told("clocks out of step"); !strings.Contains(got, `masters="m1 m3" by=3s for=11s`) {
			s.Errorf("two gains: got %q, want one line with both", got)
		}
		if got := told(""); got != "" {
			s.Errorf("then: got %q", got)
		}
		set(0, 0, -time.Hour, beat+1)
		set(1, 0, time.Nanosecond, 0)
		set(2, time.Nanosecond, time.Hour, 0)
		p.fleet.logDoubts(time.Now())
		lines := log.take("")
		if len(lines) != 2 || !strings.Contains(lines[0], "out of step") || !strings.Contains(lines[0], "masters=m3 ") || !strings.Contains(lines[1], "too far apart") || !strings.Contains(lines[1], `masters="m1 m2" by=-1h`) {
			s.Errorf("two that are apart, and one that gained: got %q", lines)
		}
		for place := range 3 {
			set(place, 0, 0, 0)
		}
	})
}

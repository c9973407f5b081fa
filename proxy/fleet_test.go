package proxy

// Goal: clients of all kinds exclude each other on the same masters: by SET NX and scripts and by native commands, through two
// redlockds, also while masters die and freeze; and redsync, which goes to the masters itself. Method: real redis-servers, and
// a ledger in which every client notes, by its own clock, from when until when it believes that it holds a lock.

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

const fleetTTL = 600 * time.Millisecond

// testFleet is what the clients of one test share.
type testFleet struct {
	testing.TB
	masters []*redisproc.Server
	servers []*testServer
	redsync *redsync.Redsync
	until   time.Time // clients go on until then, see goesOn

	mu     sync.Mutex
	claims map[string]claim

	granted, extended, failed atomic.Int64
}

// claim is one client's belief in one lock.
type claim struct {
	holder string
	until  time.Time
}

func startFleet(t testing.TB) *testFleet {
	f := &testFleet{TB: t, claims: map[string]claim{}}
	f.masters, f.servers = serversOverMasters(t, 2, redlock.Options{MasterTimeout: 200 * time.Millisecond, MaxTTL: 2 * time.Second})
	return f
}

// serversOverMasters starts servers with an engine each, over five real masters.
func serversOverMasters(t testing.TB, n int, opts redlock.Options) (masters []*redisproc.Server, servers []*testServer) {
	masters = redisproc.StartForTest(t, 5)
	for _, m := range masters {
		opts.Masters = append(opts.Masters, redlock.Master{Addr: m.Addr})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := redlock.Bootstrap(ctx, opts); err != nil {
		t.Fatal(err)
	}
	for range n {
		engine, err := redlock.Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			engine.Close(ctx)
		})
		allUp(t, engine)
		servers = append(servers, serve(t, func(o *Options) { o.Engine = engine }))
	}
	return masters, servers
}

// claim notes that the client believes in a lock, which it may have believed in before.
func (f *testFleet) claim(key, holder string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if until.Before(now) {
		return // the reply came too late to be of use
	}
	if c := f.claims[key]; c.holder != holder && now.Before(c.until) {
		f.Errorf("%s: granted to %s, and %s holds it for %v", key, holder, c.holder, c.until.Sub(now))
	}
	f.claims[key] = claim{holder, until}
}

// disclaim is called before the release is sent.
func (f *testFleet) disclaim(key, holder string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claims[key].holder == holder {
		delete(f.claims, key)
	}
}

// locker takes, renews and gives back locks in one way. Times count from when the command was sent.
type locker interface {
	lock(key, token string) (until time.Time, ok bool)
	extend(key, token string) (until time.Time, ok bool)
	unlock(key, token string)
}

// wire is a client of a redlockd whose commands are those of a kind.
type wire struct {
	conn               net.Conn
	r                  *bufio.Reader
	take, renew, leave func(key, token string) []string
}

func (w *wire) ask(command []string) (reply string, sent time.Time) {
	sent = time.Now()
	w.conn.SetDeadline(sent.Add(patience))
	if _, err := w.conn.Write([]byte(frameOf(command...))); err != nil {
		return "-" + err.Error(), sent
	}
	reply, err := readReply(w.r)
	if err != nil {
		return "-" + err.Error(), sent
	}
	return reply, sent
}

func (w *wire) lock(key, token string) (time.Time, bool) {
	reply, sent := w.ask(w.take(key, token))
	return sent.Add(fleetTTL), reply == "+OK" || reply == ":1" || strings.HasPrefix(reply, "[")
}

func (w *wire) extend(key, token string) (time.Time, bool) {
	reply, sent := w.ask(w.renew(key, token))
	return sent.Add(fleetTTL), strings.HasPrefix(reply, ":") && reply != ":0"
}

func (w *wire) unlock(key, token string) { w.ask(w.leave(key, token)) }

const acquireOrExtendScript = `local v = redis.call('get', KEYS[1])
if not v then redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return 1 end
if v == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end
return 0`

// wire makes a client of one of the kinds, 0 to 3.
func (f *testFleet) wire(kind int) locker {
	c := f.servers[rand.N(len(f.servers))].dial()
	ms := fmt.Sprint(fleetTTL.Milliseconds())
	eval := func(source string) func(key, token string) []string {
		return func(key, token string) []string { return []string{"EVAL", source, "1", key, token, ms} }
	}
	w := &wire{conn: c.conn, r: c.r, take: eval(acquireScript), renew: eval(extendScript), leave: eval(releaseScript)}
	switch kind {
	case 1:
		w.take = func(key, token string) []string { return []string{"SET", key, token, "NX", "PX", ms} }
	case 2:
		w.take, w.renew = eval(acquireOrExtendScript), eval(acquireOrExtendScript)
	case 3: // its validity is shorter, and never more than fleetTTL
		masters := fmt.Sprint((fleetTTL + fleetTTL/50 + 10*time.Millisecond).Milliseconds())
		w.take = func(key, token string) []string { return []string{"LOCK", key, masters, "TOKEN", token} }
		w.renew = func(key, token string) []string { return []string{"EXTEND", key, token, masters} }
		w.leave = func(key, token string) []string { return []string{"UNLOCK", key, token} }
	}
	return w
}

// direct is redsync on the masters.
type direct struct {
	f     *testFleet
	mutex *redsync.Mutex
}

func (d *direct) lock(key, token string) (time.Time, bool) {
	d.mutex = d.f.redsync.NewMutex(key, redsync.WithExpiry(fleetTTL), redsync.WithTries(1), redsync.WithGenValueFunc(func() (string, error) { return token, nil }))
	err := d.mutex.TryLock()
	return d.mutex.Until(), err == nil
}

func (d *direct) extend(string, string) (time.Time, bool) {
	ok, err := d.mutex.Extend()
	return d.mutex.Until(), ok && err == nil
}

func (d *direct) unlock(string, string) { d.mutex.Unlock() }

// What is to happen at least, or nothing was shown.
const grantedMin, extendedMin = 100, 50

// goesOn: on a slow machine clients go on until enough has happened, for a minute at most.
func (f *testFleet) goesOn() bool {
	late := time.Since(f.until)
	return late < 0 || late < time.Minute && (f.granted.Load() < grantedMin || f.extended.Load() < extendedMin)
}

// run is the life of one client.
func (f *testFleet) run(name string, l locker) {
	for n := 0; f.goesOn(); n++ {
		key, token := fmt.Sprint("fleet:", rand.N(3)), fmt.Sprintf("%s-%06d-unique", name, n)
		until, ok := l.lock(key, token)
		if !ok {
			f.failed.Add(1)
			time.Sleep(rand.N(10 * time.Millisecond))
			continue
		}
		f.granted.Add(1)
		f.claim(key, token, until)
		for range rand.N(3) {
			time.Sleep(rand.N(3 * time.Millisecond))
			if until, ok = l.extend(key, token); ok {
				f.extended.Add(1)
				f.claim(key, token, until)
			}
		}
		f.disclaim(key, token)
		if rand.N(50) > 0 { // else it dies
			l.unlock(key, token)
		}
	}
}

// contend has clients at it for a while, with faults meanwhile.
func (f *testFleet) contend(clients map[string]locker, faults func()) {
	f.until = time.Now().Add(3 * time.Second)
	var all sync.WaitGroup
	for name, l := range clients {
		all.Go(func() { f.run(name, l) })
	}
	faults()
	all.Wait()
	f.Logf("%d clients: %d grants, %d extensions, %d refusals", len(clients), f.granted.Load(), f.extended.Load(), f.failed.Load())
	if f.granted.Load() < grantedMin || f.extended.Load() < extendedMin {
		f.Errorf("hardly anything was locked, want at least %d grants and %d extensions", grantedMin, extendedMin)
	}
}

// gone fails the test unless all keys end on the masters that run.
func (f *testFleet) gone() {
	for _, m := range f.masters {
		if m.Pid() == 0 {
			continue
		}
		c := (&testServer{t: f, addr: m.Addr}).dial()
		eventually(f, "no lock is left on a master", func() bool {
			for _, key := range []string{"fleet:0", "fleet:1", "fleet:2"} {
				if c.do("EXISTS", key).text != ":0" {
					return false
				}
			}
			return true
		})
	}
}

func TestScriptsExcludeEachOther(t *testing.T) {
	f := startFleet(t)
	clients := map[string]locker{}
	for i := range 64 {
		clients[fmt.Sprint("client-", i)] = f.wire(i % 4)
	}
	f.contend(clients, func() {
		time.Sleep(800 * time.Millisecond)
		f.masters[1].Kill()
		f.masters[3].Freeze()
		time.Sleep(time.Second)
		f.masters[3].Thaw()
	})
	f.gone()
}

func TestMixedFleet(t *testing.T) {
	f := startFleet(t)
	var pools []redsyncredis.Pool
	for _, m := range f.masters {
		client := redis.NewClient(&redis.Options{Addr: m.Addr})
		t.Cleanup(func() { client.Close() })
		pools = append(pools, goredis.NewPool(client))
	}
	f.redsync = redsync.New(pools...)
	clients := map[string]locker{}
	var masters []*direct
	for i := range 12 {
		clients[fmt.Sprint("client-", i)] = f.wire(i % 4)
		d := &direct{f: f}
		masters = append(masters, d)
		clients[fmt.Sprint("redsync-", i)] = d
	}
	f.contend(clients, func() {})
	f.gone()

	// One by one, both ways.
	for kind := range 4 {
		w, d := f.wire(kind), masters[0]
		key := fmt.Sprint("one by one:", kind)
		for _, pair := range [][2]locker{{w, d}, {d, w}} {
			holder, other := pair[0], pair[1]
			var until time.Time
			eventually(t, "it is granted", func() (ok bool) {
				until, ok = holder.lock(key, "the holder's token")
				return ok
			})
			if _, ok := other.lock(key, "the other's token"); ok && time.Now().Before(until) {
				t.Errorf("%T and %T hold %s", holder, other, key)
			}
			holder.unlock(key, "the holder's token")
			eventually(t, "it is free", func() bool {
				_, ok := other.lock(key, "the other's token")
				return ok
			})
			other.unlock(key, "the other's token")
		}
	}
}

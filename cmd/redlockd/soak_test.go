package main

// Mutual exclusion as users see it: three redlockd processes over five real masters, clients that lock
// a few resources through all of them, and a nemesis that kills, freezes, flushes and restarts masters
// and redlockds. What the clients believed is written down and judged afterwards: two of them must
// never have believed to hold the same resource at once.
//
// REDLOCK_SOAK=10m runs it for so long, with progress; the default is short. The nemesis follows a
// seed, which a failure prints; REDLOCK_SOAK_SEED repeats it (its timing is that of real processes, so
// a repetition is only similar).

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

const (
	soakResources = 4
	soakClients   = 12
	soakLeast     = 20          // grants, for a judgement
	soakMaxTTL    = time.Second // also about the length of a quarantine
)

// hold is one lock as its client saw it: from the reply to LOCK until it sent UNLOCK, or until the
// validity, counted from when it sent LOCK, was over. To be within that is what a client may rely on.
type hold struct {
	resource, token string
	from, to        time.Time
}

type soak struct {
	t       *testing.T
	servers []*redisproc.Server
	addrs   []string   // of the redlockds, which keep them over restarts
	proxies []*program // at these addresses; the nemesis has them alone
	start   time.Time

	mu    sync.Mutex
	holds []hold

	granted, denied, failed, lost atomic.Int64
}

func TestSoakThreeProxiesUnderFaults(t *testing.T) {
	redisproc.Long(t)
	length := 12 * time.Second
	if asked := os.Getenv("REDLOCK_SOAK"); asked != "" {
		var err error
		if length, err = time.ParseDuration(asked); err != nil {
			t.Fatalf("REDLOCK_SOAK: %v", err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	if asked := os.Getenv("REDLOCK_SOAK_SEED"); asked != "" {
		var err error
		if seed, err = strconv.ParseUint(asked, 10, 64); err != nil {
			t.Fatalf("REDLOCK_SOAK_SEED: %v", err)
		}
	}
	t.Logf("REDLOCK_SOAK=%v REDLOCK_SOAK_SEED=%d", length, seed)

	// With the default of 50 ms for each master, a busy machine grants few locks to judge.
	t.Setenv("REDLOCKD_MASTER_TIMEOUT", "250ms")
	t.Setenv("REDLOCKD_MASTER_FOUNDING_WAIT", "10ms")
	s := &soak{t: t, start: time.Now(), servers: redisproc.StartForTest(t, 5)}
	for range 3 {
		s.addrs = append(s.addrs, redisproc.KeepAddr(t))
		s.proxies = append(s.proxies, s.startProxy(s.addrs[len(s.addrs)-1]))
	}
	s.waitAllLockable("at the start")

	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range soakClients {
		clients.Go(func() { s.client(i, rand.New(rand.NewPCG(seed, uint64(i))), stop) })
	}
	s.nemesis(rand.New(rand.NewPCG(seed, 1<<32)), time.Now().Add(length))
	close(stop)
	clients.Wait()

	s.waitAllLockable("after healing")
	s.noKeysLeft()
	s.judge()
	t.Logf("granted %d, denied %d, no quorum or connection lost %d, lost while held %d", s.granted.Load(), s.denied.Load(), s.failed.Load(), s.lost.Load())
	if s.granted.Load() < soakLeast {
		t.Errorf("granted %d: too few for a judgement", s.granted.Load())
	}
}

// client locks a random resource through a random proxy, holds it for a while, extends it sometimes,
// and releases it.
func (s *soak) client(n int, random *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		client := newClient(s.addrs[random.IntN(len(s.addrs))])
		for range 20 {
			if !s.cycle(client, random) {
				time.Sleep(10 * time.Millisecond)
				break
			}
		}
		client.Close()
	}
}

func (s *soak) cycle(client *redis.Client, random *rand.Rand) bool {
	resource := "soak:" + strconv.Itoa(random.IntN(soakResources))
	ttl := 100 + random.IntN(900)
	var wait []any
	if random.IntN(2) == 0 {
		wait = []any{"WAIT", 1 + random.IntN(500)}
	}
	h, granted, err := s.lock(client, resource, ttl, wait...)
	if err != nil {
		s.failed.Add(1)
		return isReplyError(err) // else the connection is gone
	}
	if !granted {
		s.denied.Add(1)
		time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
		return true
	}
	s.granted.Add(1)
	time.Sleep(time.Duration(random.Int64N(int64(max(0, h.to.Sub(h.from)) + 1))))
	if random.IntN(4) == 0 && time.Now().Before(h.to) {
		sent := time.Now()
		validity, err := client.Do(context.Background(), "EXTEND", resource, h.token, ttl).Int()
		switch {
		case err == nil && validity > 0:
			h.to = sent.Add(time.Duration(validity) * time.Millisecond)
		case err == nil:
			s.lost.Add(1)
		case !isReplyError(err):
			s.record(h)
			return false
		}
		time.Sleep(time.Duration(random.IntN(ttl)) * time.Millisecond)
	}
	if now := time.Now(); now.Before(h.to) {
		h.to = now
	}
	if random.IntN(10) == 0 {
		s.record(h) // gone without a word: the TTL has to end it
		return true
	}
	err = client.Do(context.Background(), "UNLOCK", resource, h.token).Err()
	s.record(h)
	return err == nil || isReplyError(err)
}

// lock asks once, and returns what the client may believe then. granted is false if another has the
// lock.
func (s *soak) lock(client *redis.Client, resource string, ttl int, more ...any) (h hold, granted bool, err error) {
	sent := time.Now()
	reply, err := client.Do(context.Background(), append([]any{"LOCK", resource, ttl}, more...)...).Slice()
	if err == redis.Nil {
		return h, false, nil
	}
	if err != nil {
		return h, false, err
	}
	token, validity := reply[0].(string), time.Duration(reply[1].(int64))*time.Millisecond
	return hold{resource, token, time.Now(), sent.Add(validity)}, true, nil
}

func (s *soak) record(h hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holds = append(s.holds, h)
}

// nemesis does one harm after another until the end, then heals all.
func (s *soak) nemesis(random *rand.Rand, end time.Time) {
	down := map[*redisproc.Server]bool{}
	frozen := map[*redisproc.Server]bool{}
	progress := time.Now()
	longer := end.Add(time.Minute) // where the faults have left too few quorums
	for time.Now().Before(end) || s.granted.Load() < soakLeast && time.Now().Before(longer) {
		time.Sleep(time.Duration(200+random.IntN(700)) * time.Millisecond)
		if time.Since(progress) > 10*time.Second {
			progress = time.Now()
			s.t.Logf("%v: granted %d, denied %d, failed %d", time.Since(s.start).Round(time.Second), s.granted.Load(), s.denied.Load(), s.failed.Load())
		}
		server := s.servers[random.IntN(len(s.servers))]
		switch harm := random.IntN(10); {
		case down[server]:
			if err := server.Restart(); err != nil {
				s.t.Error(err)
			}
			delete(down, server)
		case frozen[server]:
			server.Thaw()
			delete(frozen, server)
		case harm < 3 && len(down) < 2:
			server.Kill()
			down[server] = true
		case harm < 4:
			// Faster than anybody can look, and a quorum of them: what every lock was granted by has
			// forgotten it.
			for _, i := range random.Perm(len(s.servers))[:1+random.IntN(3)] {
				if server := s.servers[i]; !down[server] && !frozen[server] {
					server.Kill()
					if err := server.Restart(); err != nil {
						s.t.Error(err)
					}
				}
			}
		case harm < 6 && len(frozen) < 2:
			server.Freeze()
			frozen[server] = true
		case harm < 7:
			redisCLI(s.t, server.Addr, "FLUSHALL")
		case harm < 8:
			i := random.IntN(len(s.proxies))
			s.proxies[i].signal(syscall.SIGKILL)
			s.proxies[i].exitCode()
			s.proxies[i] = s.startProxy(s.addrs[i])
		case harm < 9:
			proxy := s.proxies[random.IntN(len(s.proxies))]
			proxy.signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			proxy.signal(syscall.SIGCONT)
		}
	}
	for server := range frozen {
		server.Thaw()
	}
	for server := range down {
		if err := server.Restart(); err != nil {
			s.t.Error(err)
		}
	}
}

// judge looks for two holds of one resource that overlap.
func (s *soak) judge() {
	byResource := map[string][]hold{}
	for _, h := range s.holds {
		if h.to.After(h.from) {
			byResource[h.resource] = append(byResource[h.resource], h)
		}
	}
	for resource, holds := range byResource {
		slices.SortFunc(holds, func(a, b hold) int { return a.from.Compare(b.from) })
		longest := holds[0]
		for _, h := range holds[1:] {
			if h.from.Before(longest.to) && h.token != longest.token {
				s.t.Errorf("two holders of %s: %s until %v, and %s from %v on: %v too early", resource,
					longest.token, longest.to.Sub(s.start), h.token, h.from.Sub(s.start), longest.to.Sub(h.from))
			}
			if h.to.After(longest.to) {
				longest = h
			}
		}
	}
}

// waitAllLockable waits until every resource can be locked and released through every proxy.
func (s *soak) waitAllLockable(when string) {
	s.t.Helper()
	for _, addr := range s.addrs {
		for i := range soakResources {
			until(s.t, fmt.Sprintf("%s, soak:%d can be locked through %s", when, i, addr), func() bool {
				client := newClient(addr)
				defer client.Close()
				h, granted, _ := s.lock(client, "soak:"+strconv.Itoa(i), 500, "WAIT", 500)
				return granted && client.Do(context.Background(), "UNLOCK", h.resource, h.token).Err() == nil
			})
		}
	}
}

// noKeysLeft waits until no master holds a lock: those that nobody released end with their TTL.
func (s *soak) noKeysLeft() {
	s.t.Helper()
	for _, server := range s.servers {
		until(s.t, "no keys are left on "+server.Addr, func() bool { return redisCLI(s.t, server.Addr, "KEYS", "soak:*") == "" })
	}
}

// startProxy starts the redlockd that has this address.
func (s *soak) startProxy(addr string) *program {
	return begin(s.t, "--listen", addr, "--masters", strings.Join(redisproc.Addrs(s.servers), ","), "--max-ttl", soakMaxTTL.String())
}

// newClient is a client that sends each command once.
func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, MaxRetries: -1, DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: patience})
}

// isReplyError tells whether the server has replied the error.
func isReplyError(err error) bool {
	_, replied := errors.AsType[redis.Error](err)
	return replied
}

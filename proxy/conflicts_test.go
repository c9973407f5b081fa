package proxy

// Goal: many writers of one value, through several redlockds, never make a wrong one, and it can be said how often they fail. Method: real
// redis-servers, three redlockds, sixteen clients at each, who all join one set and leave it again, and hang up now and then; what they were told is compared with
// what is there in the end. CONFLICT_SECONDS=n measures for so long.

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock"
)

func TestConflicts(t *testing.T) {
	const proxies, clients = 3, 16
	seconds, _ := strconv.Atoi(os.Getenv("CONFLICT_SECONDS"))
	duration := max(time.Second, time.Duration(seconds)*time.Second)
	_, servers := serversOverMasters(t, proxies, redlock.Options{})
	const (
		join  = `redis.call('sadd', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], 30000) return 1`
		leave = `return redis.call('srem', KEYS[1], ARGV[1])`
	)
	var mu sync.Mutex
	told := map[string]int{}
	var took []time.Duration
	inside := map[string]bool{} // as told last; absent: nobody knows
	var all sync.WaitGroup
	// goesOn: on a slow machine clients go on until something has happened, for a minute at most.
	goesOn := func(end time.Time) bool {
		mu.Lock()
		defer mu.Unlock()
		return told["done"] == 0 && time.Since(end) < time.Minute
	}
	end := time.Now().Add(duration)
	for i := range proxies * clients {
		all.Go(func() {
			c := servers[i%proxies].dial()
			name, member := fmt.Sprint("client", i), false
			for n := 1; n == 1 || time.Now().Before(end) || goesOn(end); n++ {
				script := join
				if member {
					script = leave
				}
				if n%20 == 0 { // it hangs up, and the others must not wait for its change
					srv := servers[i%proxies]
					id, _ := strconv.ParseInt(c.id(), 10, 64)
					c.send("EVAL", script, "1", "k", name)
					c.conn.Close()
					c = srv.dial()
					mu.Lock()
					delete(inside, name)
					mu.Unlock()
					// Its change is not one of the other connection's: it must not come behind the next one.
					eventually(t, "the connection that was closed is forgotten", func() bool { return srv.client(id) == nil })
					member = c.do("SISMEMBER", "k", name).text == ":1"
					continue
				}
				sent := time.Now()
				got := c.do("EVAL", script, "1", "k", name).text
				mu.Lock()
				took = append(took, time.Since(sent))
				if strings.HasPrefix(got, "-") {
					delete(inside, name)
					text, _, _ := strings.Cut(got, ",")
					told[text]++
				} else {
					member = !member
					inside[name] = member
					told["done"]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	t.Logf("%d redlockds, %d clients each, %v: %v; p50 %v, p99 %v, longest %v", proxies, clients, duration, told, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	if told["done"] == 0 {
		t.Error("nobody changed anything")
	}
	// Where the masters came to hold different values, nobody knows what they say until the TTL.
	c := servers[0].dial()
	for name, want := range inside {
		got := c.do("SISMEMBER", "k", name)
		for end := time.Now().Add(5 * time.Second); strings.HasPrefix(got.text, "-NOQUORUM ") && time.Now().Before(end); got = c.do("SISMEMBER", "k", name) {
			time.Sleep(50 * time.Millisecond)
		}
		if strings.HasPrefix(got.text, "-NOQUORUM ") {
			t.Log("the masters disagree: ", got.text)
			break
		}
		got.is(fmt.Sprint(":", oneIf(want)))
	}
	for _, srv := range servers {
		eventually(t, "nobody is in a queue any more", func() bool {
			srv.keyQueue.mu.Lock()
			defer srv.keyQueue.mu.Unlock()
			return len(srv.keyQueue.waiting) == 0
		})
	}
}

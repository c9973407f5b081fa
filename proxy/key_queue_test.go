package proxy

// Goal: those who change one value go on in the order in which they came, and nothing is left behind.
// Method: the type by itself; and clients of a server whose masters do not answer yet.

import (
	"fmt"
	"slices"
	"testing"
)

func TestKeyQueue(t *testing.T) {
	var queue keyQueue
	begun := make(chan int, 4)
	enter := func(i int, key string) bool { return queue.enter(key, func() { begun <- i }) }
	if !enter(0, "a") || enter(1, "a") || enter(2, "a") || !enter(3, "b") {
		t.Fatal("the first of each key goes on, and it alone")
	}
	var order []int
	for range 2 {
		queue.leave("a")
		order = append(order, <-begun)
	}
	if !slices.Equal(order, []int{1, 2}) {
		t.Errorf("got the order %v, want 1 2", order)
	}
	queue.leave("a")
	queue.leave("b")
	if len(queue.waiting) != 0 || len(begun) != 0 {
		t.Errorf("left behind: %v, %d begun", queue.waiting, len(begun))
	}
	if !enter(1, "a") {
		t.Error("a key that nobody changes any more is not free")
	}
}

// One of the clients that wait for their turn hangs up, and those behind it go on. Many clients who change one hash under faults, through
// several redlockds, are in the simulation: those of Redisson.
func TestClientsQueueForAKey(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		queued := func() int {
			srv.keyQueue.mu.Lock()
			defer srv.keyQueue.mu.Unlock()
			return len(srv.keyQueue.waiting["k"])
		}
		const join = `redis.call('sadd', KEYS[1], ARGV[1]) redis.call('pexpire', KEYS[1], 30000) return redis.call('scard', KEYS[1])`
		srv.dial().do("SCRIPT", "LOAD", join)
		srv.freeze()
		var clients []*client
		for i := range 4 {
			c := srv.dial()
			c.send("EVAL", join, "1", "k", fmt.Sprint("member", i))
			eventually(t, "the client is in the queue", func() bool { return queued() == i })
			clients = append(clients, c)
		}
		clients[2].conn.Close()
		srv.thaw()
		for _, i := range []int{0, 1, 3} {
			clients[i].read().matches(":[1-4]")
		}
		eventually(t, "nobody is in the queue", func() bool {
			srv.keyQueue.mu.Lock()
			defer srv.keyQueue.mu.Unlock()
			return len(srv.keyQueue.waiting) == 0
		})
		srv.dial().do("SMISMEMBER", "k", "member0", "member1", "member3").is("[:1 :1 :1]")
	})
}

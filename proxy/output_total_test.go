package proxy

// Goal: what waits for clients that do not read is bounded for all of them together, and at the cost of those who cause it. Method:
// clients over net.Pipe, where nothing is taken by a kernel: what they do not read waits in the server. In virtual time, or one who reads
// late on a busy machine would be closed for that (writeTimeout).

import (
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

// threeUsers are admin, greedy and modest.
func threeUsers(o *Options) {
	o.Users = []access.User{{Name: "admin", Password: "a"}, {Name: "greedy", Password: "g"}, {Name: "modest", Password: "m"}}
}

func TestSubscribersThatDoNotReadAreBoundedTogether(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const total = 4 << 20
		var log testLog
		srv := serve(t, threeUsers, log.keep, func(o *Options) { o.OutputTotal = total })
		admin, reader, late := srv.dialAs("admin"), srv.dialAs("modest"), srv.dialAs("modest")
		for _, c := range []*client{reader, late} {
			c.do("SUBSCRIBE", "c").is(`["subscribe" "c" :1]`)
		}
		payload := strings.Repeat("x", 30_000)
		read := make(chan int)
		go func() {
			n := 0
			defer func() { read <- n }()
			for {
				reader.conn.SetReadDeadline(time.Now().Add(patience))
				if text, err := readReply(reader.r); err != nil || !strings.Contains(text, payload) {
					return
				}
				n++
			}
		}()
		before := heapInUse()
		const subscribers, messages = 400, 20
		for range subscribers {
			srv.dialAs("greedy").do("SUBSCRIBE", "c").is(`["subscribe" "c" :1]`)
		}
		var most, heap int64
		for i := range messages {
			admin.do("PUBLISH", "c", payload).matches(`:\d+`)
			synctest.Wait() // who relieves the server may not have had the CPU yet
			most = max(most, srv.output.Load())
			if i%10 == 0 {
				heap = max(heap, heapInUse()-before)
			}
		}
		if most == 0 || most > total {
			t.Errorf("at most %d bytes waited for clients, want some, and no more than %d", most, total)
		}
		if heap > 3*total {
			t.Errorf("the heap grew by %d bytes, want no more than %d", heap, 3*total)
		}
		info := admin.info("stats")
		if info["evicted_clients"] == "0" || info["client_output_buffer_limit_disconnections"] != "0" {
			t.Errorf("INFO stats: got evicted_clients=%s and client_output_buffer_limit_disconnections=%s, want some and none",
				info["evicted_clients"], info["client_output_buffer_limit_disconnections"])
		}
		if got := srv.live().accounts[2].connections.Load(); got != 2 {
			t.Errorf("%d clients of modest are left, want both", got)
		}
		for range messages { // late has read nothing until now, but another user had more waiting
			late.read().matches(`\["message" "c" "x+"\]`)
		}
		srv.Close()
		if n := <-read; n != messages {
			t.Errorf("the subscriber that reads got %d messages of %d", n, messages)
		}
		for _, a := range append(srv.live().accounts, srv.anonymous) {
			if got := a.output.Load(); got != 0 {
				t.Errorf("%d bytes are counted when all have gone, want 0", got)
			}
		}
		if lines := strings.Count(log.String(), "too much waits for clients"); lines == 0 || lines > messages {
			t.Errorf("the log has %d lines about it, want a few:\n%.2000s", lines, log.String())
		}
	})
}

// A message that waits for many is there once; and what is written of it, in pieces, is the same for all.
func TestMessageIsSharedByItsSubscribers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const subscribers = 100
		for _, size := range []int{sharedMin / 2, 30_000} {
			srv := serve(t)
			publisher := srv.dial()
			var all []*client
			for i := range subscribers {
				c := srv.dial()
				if i%3 == 0 {
					c.do("HELLO", "3")
					c.do("PSUBSCRIBE", "c*").is(`>["psubscribe" "c*" :1]`)
				} else {
					c.do("SUBSCRIBE", "c").is(`["subscribe" "c" :1]`)
				}
				all = append(all, c)
			}
			before := heapInUse()
			const messages = 10
			for i := range messages {
				publisher.do("PUBLISH", "c", strings.Repeat(fmt.Sprint(i), size)).is(fmt.Sprintf(":%d", subscribers))
			}
			// The rest is for the connections: a writer of each, and its chunk.
			if grown, most := heapInUse()-before, int64(messages*size*subscribers/3); size >= sharedMin && grown > most {
				t.Errorf("%d messages of %d bytes for %d clients: the heap grew by %d bytes, want %d at most", messages, size, subscribers, grown, most)
			}
			if counted := srv.output.Load(); counted < int64(messages*size*subscribers) {
				t.Errorf("%d bytes are counted, want at least %d", counted, messages*size*subscribers)
			}
			for i, c := range all {
				for n := range messages {
					payload := strings.Repeat(fmt.Sprint(n), size)
					if i%3 == 0 {
						c.read().is(`>["pmessage" "c*" "c" "` + payload + `"]`)
					} else {
						c.read().is(`["message" "c" "` + payload + `"]`)
					}
				}
				c.do("PING").matches(`\+PONG|\["pong" ""\]`)
			}
		}
	})
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what pools keep lives for one more
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Of the user with most the largest connection is closed, not the largest of all, and no more than it takes.
func TestWhoIsClosed(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, threeUsers, func(o *Options) { o.OutputTotal = 2 << 20 })
		sum, echo := 0, frameOf("ECHO", strings.Repeat("x", 100_000))
		waiting := func(user string, bytes int) *client {
			t.Helper()
			c := srv.dialAs(user)
			sum += bytes
			go c.conn.Write([]byte(strings.Repeat(echo, bytes/100_000)))
			eventually(t, "the reply waits", func() bool { return srv.output.Load() >= int64(sum) })
			return c
		}
		largest := waiting("modest", 600_000)
		small := waiting("greedy", 200_000)
		large := waiting("greedy", 400_000)
		middle := waiting("greedy", 300_000)
		if n := srv.counters[countEvicted].Load(); n != 0 {
			t.Fatalf("%d clients are closed, %d bytes wait", n, srv.output.Load())
		}
		last := srv.dialAs("admin")
		synctest.Wait() // the writer has given back the chunk of the reply to AUTH
		go last.conn.Write([]byte(strings.Repeat(echo, 6)))
		eventually(t, "some client is closed", func() bool { return srv.counters[countEvicted].Load() > 0 })
		large.conn.SetReadDeadline(time.Now().Add(patience))
		if text, err := readReply(large.r); err == nil {
			t.Errorf("got %.20q, want the connection closed", text)
		}
		for c, want := range map[*client]int{largest: 600_000, small: 200_000, middle: 300_000, last: 600_000} {
			for range want / 100_000 {
				c.read().is(`"` + strings.Repeat("x", 100_000) + `"`)
			}
			c.do("PING").is("+PONG")
		}
		if n := srv.counters[countEvicted].Load(); n != 1 {
			t.Errorf("%d clients are closed, want 1", n)
		}
		eventually(t, "nothing waits", func() bool { return srv.output.Load() == 0 })
	})
}

// A client that publishes waits while too much is waiting for clients of its own user, but not for ever, and not because of others.
func TestPublisherIsSlowedDown(t *testing.T) {
	publish := map[string]string{
		"PUBLISH": frameOf("PUBLISH", "c", "x"),
		"script":  frameOf("EVAL", "return redis.call('publish', 'c', 'x')", "0"),
	}
	for name, command := range publish {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				srv := serve(t, threeUsers, func(o *Options) { o.OutputTotal = 2 << 20 })
				greedy, modest, unread := srv.dialAs("greedy"), srv.dialAs("modest"), srv.dialAs("greedy")
				unread.do("PING").is("+PONG")
				// within is how long a message and the command behind it take.
				within := func(c *client) time.Duration {
					start := time.Now()
					c.raw(command)
					c.read().matches(`:\d`)
					c.do("PING").is("+PONG")
					return time.Since(start)
				}
				const idle = 10 * time.Millisecond
				if got := within(greedy); got > idle {
					t.Errorf("nothing waits: took %v", got)
				}
				go unread.conn.Write([]byte(strings.Repeat(frameOf("ECHO", strings.Repeat("x", 200_000)), 6)))
				eventually(t, "half of output_total waits", func() bool { return srv.live().accounts[1].output.Load() > 1<<20 })
				if got := within(greedy); got < publishPause || got > publishPause+idle {
					t.Errorf("too much waits: took %v, want %v", got, publishPause)
				}
				if got := within(modest); got > idle {
					t.Errorf("another user: took %v", got)
				}
				time.AfterFunc(publishPause/2, func() { unread.conn.Close() })
				if got := within(greedy); got < publishPause/2 || got > publishPause/2+idle {
					t.Errorf("half of the time too much waits: took %v, want %v", got, publishPause/2)
				}
			})
		})
	}
}

// What the server keeps of commands that are not answered yet is bounded as replies are: by outputMax for one client, and it counts in
// OutputTotal. Others go on.
func TestCommandsThatAreKeptAreBounded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const most, message, count = 256 << 10, 30_000, 200
		srv := serve(t, func(o *Options) { o.bounds.outputMax = most })
		c, other := srv.dial(), srv.dial()
		id, _ := strconv.ParseInt(c.do("CLIENT", "ID").text[1:], 10, 64)
		conn := srv.client(id)
		payload := strings.Repeat("x", message)
		var evals strings.Builder
		for i := range count {
			evals.WriteString(frameOf("EVAL", "return redis.call('get', KEYS[1])", "1", strconv.Itoa(i), payload))
		}
		for name, commands := range map[string]string{"PUBLISH": strings.Repeat(frameOf("PUBLISH", "c", payload), count), "EVAL": evals.String()} {
			srv.freeze()
			go c.conn.Write([]byte(commands))
			eventually(t, "no more is executed", func() bool { return conn.overOutputMax.Load() })
			conn.mu.Lock()
			kept, counted := conn.kept, conn.counted
			conn.mu.Unlock()
			if kept < message || kept > most+message+100 || counted < kept || int(srv.output.Load()) < kept {
				t.Errorf("%s: %d bytes are kept, %d of the client and %d of all are counted, want %d at most and one command", name, kept, counted, srv.output.Load(), most)
			}
			other.do("PING").is("+PONG")
			srv.thaw()
			c.conn.SetReadDeadline(time.Now().Add(patience))
			for range count {
				if _, err := readReply(c.r); err != nil {
					t.Fatalf("%s: not answered: %v", name, err)
				}
			}
			eventually(t, "nothing is kept", func() bool {
				conn.mu.Lock()
				defer conn.mu.Unlock()
				return conn.kept == 0
			})
		}
	})
}

// A command counts until its reply has left the queue, also where the reply is known and waits for one before it. Many deep pipelines are
// slowed down before any client would have to be closed.
func TestCommandsInFlightCount(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const clients, count = 20, 1000
		srv := serve(t, threeUsers, func(o *Options) { o.OutputTotal = 8 << 20 })
		c := srv.dialAs("modest")
		srv.freeze()
		c.raw(frameOf("LOCK", "first", "10000") + strings.Repeat(frameOf("PING"), count))
		eventually(t, "replies behind one that is not known count", func() bool { return srv.output.Load() > count*slotCost })
		srv.thaw()
		c.read().granted(1, 10000)
		eventually(t, "nothing counts when all is answered", func() bool { return srv.output.Load() == 0 })

		var greedy []*client
		for range clients {
			greedy = append(greedy, srv.dialAs("greedy"))
		}
		srv.answersAll(greedy, count, strings.Repeat("x", 400))
	})
}

// answersAll has each client send so many LOCKs at once while the masters stand still, and fails unless all are granted in the end and no client
// is closed. all is in each name.
func (srv *testServer) answersAll(clients []*client, count int, all string) {
	srv.t.Helper()
	srv.freeze()
	for i, c := range clients {
		var commands strings.Builder
		for j := range count {
			commands.WriteString(frameOf("LOCK", fmt.Sprint(i, " ", j, all), "10000"))
		}
		go io.WriteString(c.conn, commands.String())
	}
	synctest.Wait() // as much as may be is in flight
	srv.thaw()
	var read sync.WaitGroup
	for _, c := range clients {
		read.Go(func() {
			c.conn.SetReadDeadline(time.Now().Add(patience))
			for range count {
				if reply, err := readReply(c.r); err != nil || strings.HasPrefix(reply, "-") {
					srv.t.Errorf("got %s, %v, want a grant", reply, err)
					return
				}
			}
		})
	}
	read.Wait()
	if n := srv.counters[countEvicted].Load(); n > 0 {
		srv.t.Errorf("%d clients are closed", n)
	}
}

// Deep pipelines of one user, and of many, are slowed down before any of their commands would be refused, because the engine's queue is full,
// or a client closed.
func TestDeepPipelinesAreNotRefused(t *testing.T) {
	for _, users := range []int{1, 10} {
		t.Run(fmt.Sprint(users, " users"), func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				// A user may have 1 MiB in the queue, and all 4 MiB.
				srv := serveWith(t, func(o *redlock.Options) { o.MemoryLimit = 64 << 20 }, func(o *Options) {
					o.OutputTotal = 2 << 20
					for i := range users {
						o.Users = append(o.Users, access.User{Name: fmt.Sprint("u", i), Password: "p"})
					}
				})
				var clients []*client
				for i := range 20 {
					c := srv.dial()
					c.do("AUTH", fmt.Sprint("u", i%users), "p").is("+OK")
					clients = append(clients, c)
				}
				srv.answersAll(clients, 1000, "")
			})
		})
	}
}

// A user of whom little is kept is not slowed down because much is kept of others, however many connections it has.
func TestWhatIsKeptOfOthersSlowsNobodyDown(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const count = 40
		srv := serve(t, threeUsers, func(o *Options) { o.OutputTotal = 2 << 20 })
		for range 19 {
			srv.dialAs("modest")
		}
		c := srv.dialAs("modest")
		others := int64(srv.live().OutputTotal * 3 / 4)
		srv.output.Add(others)
		defer srv.output.Add(-others)
		srv.freeze()
		var commands strings.Builder
		for i := range count {
			commands.WriteString(frameOf("LOCK", fmt.Sprint(i), "10000"))
		}
		c.raw(commands.String())
		synctest.Wait()
		most := int32(0)
		for _, conn := range srv.clients() {
			most = max(most, conn.inFlight.Load())
		}
		if most != count {
			t.Errorf("%d commands are in flight, want %d", most, count)
		}
		srv.thaw()
		for range count {
			c.read().granted(1, 10000)
		}
	})
}

// Replies count as soon as they are known: also while none can be sent, because the client does not read, or because they wait for one
// before them.
func TestRepliesThatCannotBeSentCount(t *testing.T) {
	const large = 16_000
	many := strings.Repeat(frameOf("GET", "large"), 200)
	for name, commands := range map[string]string{"not read": frameOf("ECHO", "x") + many, "behind a LOCK that waits": frameOf("LOCK", "held", "10000", "TOKEN", "y", "WAIT", "60000") + many} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(t *testing.T) {
				srv := serve(t, threeUsers, func(o *Options) { o.OutputTotal = 2 << 20 })
				other := srv.dialAs("modest")
				other.do("SET", "large", strings.Repeat("x", large), "NX", "PX", "60000").is("+OK")
				other.do("LOCK", "held", "60000", "TOKEN", "x").granted(1, 60000)
				c, began := srv.dialAs("greedy"), time.Now()
				c.raw(commands)
				eventually(t, "the client is closed", func() bool { return srv.counters[countEvicted].Load() == 1 })
				if took := time.Since(began); took > srv.bounds.writeTimeout/2 {
					t.Errorf("it took %v, so what waits is counted late", took)
				}
				other.do("PING").is("+PONG")
				eventually(t, "nothing waits", func() bool { return srv.output.Load() == 0 })
			})
		})
	}
}

// The log says what there is too much of, and what to do.
func TestClosedForCommandsInFlight(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		var log testLog
		srv := serve(t, log.keep, func(o *Options) { o.OutputTotal = 2 << 20 })
		srv.dial().do("LOCK", "held", "60000", "TOKEN", "x").granted(1, 60000)
		for range 3 {
			go srv.dial().conn.Write([]byte(frameOf("LOCK", "held", "10000", "WAIT", "60000") + strings.Repeat(frameOf("EXISTS", "other"), 2000)))
		}
		eventually(t, "one is closed", func() bool { return srv.counters[countEvicted].Load() > 0 })
		if !strings.Contains(log.String(), "too much is kept of commands that are not answered yet, and most for this one") {
			t.Errorf("the log does not say why:\n%s", log.String())
		}
	})
}

// A transaction counts while EXEC is under way, as it did before.
func TestTransactionUnderWayCounts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c := srv.dial()
		c.do("MULTI").is("+OK")
		for i := range 10 {
			c.do("SET", strconv.Itoa(i), strings.Repeat("x", 30_000), "PX", "60000").is("+QUEUED")
		}
		srv.freeze()
		c.send("EXEC")
		eventually(t, "EXEC is under way", func() bool { return srv.client(1).order.blocked.Load() })
		time.Sleep(100 * time.Millisecond)
		if n := srv.output.Load(); n < 10*30_000 {
			t.Errorf("%d bytes count, the transaction has %d", n, 10*30_000)
		}
		srv.thaw()
		c.read().err("ERR key \"0\" would hold a string of 30000 bytes")
		eventually(t, "nothing counts", func() bool { return srv.output.Load() == 0 })
	})
}

// While a command waits, the server executes no more behind it than outputMax allows, but notices a client that leaves. What was sent is executed when there
// is room again.
func TestMuchBehindACommandThatWaits(t *testing.T) {
	const most, many = 100_000, 1000
	behind := strings.Repeat(frameOf("EXISTS", "other"), many)
	for name, wait := range map[string]func(srv *testServer, c *client) (end func()){
		"LOCK": func(srv *testServer, c *client) func() {
			other := srv.dial()
			other.do("LOCK", "held", "60000", "TOKEN", "x").granted(1, 60000)
			c.send("LOCK", "held", "10000", "TOKEN", "y", "WAIT", "60000")
			srv.waiting(1)
			return func() { other.do("UNLOCK", "held", "x").is(":1") }
		},
		"EXEC": func(srv *testServer, c *client) func() {
			c.do("MULTI").is("+OK")
			for range 20 {
				c.do("SET", "k", strings.Repeat("x", 10_000), "PX", "60000").is("+QUEUED")
			}
			srv.freeze()
			c.send("EXEC")
			return srv.thaw
		},
	} {
		for _, leaves := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", leaves: ", leaves), func(t *testing.T) {
				inVirtualTime(t, func(t *testing.T) {
					srv := serve(t, func(o *Options) { o.bounds.outputMax = most })
					c := srv.dial()
					end := wait(srv, c)
					go c.conn.Write([]byte(behind))
					time.Sleep(100 * time.Millisecond)
					conn := srv.client(1)
					conn.mu.Lock()
					kept := conn.kept + conn.unsentLocked()
					conn.mu.Unlock()
					if kept > most+250_000 || name == "LOCK" && (kept < most || kept > most+5000) {
						t.Errorf("%d bytes are kept, at most about %d are to be", kept, most)
					}
					if leaves {
						c.conn.Close()
						time.Sleep(100 * time.Millisecond)
						conn.mu.Lock()
						if !conn.halfClosed && !conn.closed.Load() {
							t.Error("nobody has noticed that the client has left")
						}
						conn.mu.Unlock()
						return
					}
					end()
					for range 1 + many {
						c.read()
					}
				})
			})
		}
	}
}

// Behind a command that blocks the reader reads on, but no more is executed than the client reads.
func TestRepliesOfBlockingCommandsAreBounded(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const most, value, gets = 100_000, 16_000, 10
		srv := serve(t, func(o *Options) { o.bounds.outputMax = most })
		c := srv.dial()
		c.do("SET", "large", strings.Repeat("x", value), "NX", "PX", "60000").is("+OK")
		go c.conn.Write([]byte(strings.Repeat(frameOf("MULTI")+strings.Repeat(frameOf("GET", "large"), gets)+frameOf("EXEC"), 20)))
		time.Sleep(time.Second)
		conn := srv.client(1)
		conn.mu.Lock()
		unsent := conn.unsentLocked()
		conn.mu.Unlock()
		if unsent < most || unsent > most+2*gets*value {
			t.Errorf("%d bytes wait for the client, want %d and a reply", unsent, most)
		}
	})
}

// What waits belongs to the user that the client is logged in as.
func TestOutputMovesWithTheLogin(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, threeUsers)
		c := srv.dialAs("greedy")
		go c.conn.Write([]byte(frameOf("ECHO", strings.Repeat("x", 100_000)) + frameOf("AUTH", "modest", "m")))
		eventually(t, "the reply waits for modest", func() bool {
			return srv.live().accounts[1].output.Load() == 0 && srv.live().accounts[2].output.Load() > 100_000
		})
		if got, want := srv.output.Load(), srv.live().accounts[2].output.Load(); got != want {
			t.Errorf("got %d bytes in all, want %d", got, want)
		}
		admin := srv.dialAs("admin")
		if got, want := admin.userField("modest", "output_bytes"), fmt.Sprint(srv.live().accounts[2].output.Load()); got != want {
			t.Errorf("INFO users: got output_bytes=%s, want %s", got, want)
		}
		c.conn.Close()
		eventually(t, "nothing waits", func() bool { return srv.output.Load() == 0 && srv.live().accounts[2].output.Load() == 0 })
	})
}

// A client that is closed because of its own bound is counted as that, once.
func TestSubscriberBeyondOutputMax(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t, func(o *Options) { o.bounds.outputMax = 64 << 10 })
		unread, c := srv.dial(), srv.dial()
		unread.do("SUBSCRIBE", "c").is(`["subscribe" "c" :1]`)
		for range 10 {
			c.do("PUBLISH", "c", strings.Repeat("x", 10_000)).matches(`:\d`)
		}
		if info := c.info("stats"); info["client_output_buffer_limit_disconnections"] != "1" || info["evicted_clients"] != "0" {
			t.Errorf("INFO stats: got %v", info)
		}
		c.do("CONFIG", "RESETSTAT").is("+OK")
		if info := c.info("stats"); info["client_output_buffer_limit_disconnections"] != "0" {
			t.Errorf("INFO stats after CONFIG RESETSTAT: got %v", info)
		}
	})
}

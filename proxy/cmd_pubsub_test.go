package proxy

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/fleet"
	"redlockd/redlock"
	"redlockd/redlock/sandbox"
)

// Goal: subscriptions cannot fill the memory, and a refused SUBSCRIBE leaves nothing behind.
func TestSubscriptionsAreBounded(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	n := 0
	name := func() string { n++; return strconv.Itoa(n) + strings.Repeat("x", 1000) }
	for n < 1000 && c.do("SUBSCRIBE", name()).text[0] != '-' {
	}
	if n < 32 || n > 100 {
		t.Errorf("got %d subscriptions of 1000 bytes into %d bytes", n, subscriptionBytesMax)
	}
	left := n - 2 // the last was refused, and the first goes
	c.do("UNSUBSCRIBE", "1"+strings.Repeat("x", 1000)).matches(`\["unsubscribe" "1x+" :` + strconv.Itoa(left) + `\]`)
	c.do("PSUBSCRIBE", name(), name()).err("ERR the subscriptions of one client may take 65536 bytes here, and would take ")
	c.do("PSUBSCRIBE", name()).matches(`\["psubscribe" "\d+x+" :` + strconv.Itoa(left+1) + `\]`)
	c.do("RESET").is("+RESET")
	c.do("SUBSCRIBE", "a").is(`["subscribe" "a" :1]`)
}

// Goal: nobody waits for messages that cannot come. Method: subscriptions to keyspace notifications, as clients make them, and to
// redlockd's own channels; what only looks like them, and globs that match other channels too, must work.
func TestSubscriptionsThatNeverDeliver(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	for _, name := range []string{"__keyevent@0__:expired", "__keyspace@0__:lock", "__keyevent@*__:expired", "__keyevent@*"} {
		for _, command := range []string{"SUBSCRIBE", "PSUBSCRIBE"} {
			c.do(command, "fine", name).err(`ERR redlockd sends no keyspace notifications, so the subscription "` + name + `" would never get a message: LOCK with WAIT waits`)
		}
		c.do("SSUBSCRIBE", name).err("ERR SSUBSCRIBE is not served")
	}
	for _, pattern := range []string{"__key*__:*", "__key*", "__keyevent?0__:expired", "__keyspace@[0-9]__:*", `__keyspace\@0__:k`} {
		c.do("PSUBSCRIBE", pattern).err("ERR redlockd sends no keyspace notifications")
	}
	for _, name := range []string{"redlockd:fleet", "redlockd:losts", "redlockd:"} {
		c.do("SUBSCRIBE", name).err("ERR of the channels that begin with redlockd:, clients get the messages of redlockd:lost alone")
		c.do("PSUBSCRIBE", name).err("ERR of the channels that begin with redlockd:")
	}
	c.do("PSUBSCRIBE", "redlockd:f*").err("ERR of the channels that begin with redlockd:")
	if got := c.info("refusedstats"); got["refusedstat_subscribe"] != "count=4,notifications=4" || got["refusedstat_psubscribe"] != "count=9,notifications=9" {
		t.Errorf("INFO counts %v", got)
	}
	n := 0
	for _, name := range []string{"*", "__*", "?*", "__keyboard*", "__keyevents", "redlockd:*", "redlockd:lost", "[_]_keyevent@0__:del", `\__keyspace@0__:*`} {
		n++
		c.do("PSUBSCRIBE", name).is(fmt.Sprintf(`["psubscribe" %q :%d]`, name, n))
	}
	for _, name := range []string{"*", "__key*", "__keyevent", "__Booksleeve_MasterChanged", "redlockd:lost"} {
		n++
		c.do("SUBSCRIBE", name).is(fmt.Sprintf(`["subscribe" %q :%d]`, name, n))
	}
}

// Goal: the patterns that every message is compared with are bounded over all clients; one that many have counts once.
func TestPatternsOfAllClientsAreBounded(t *testing.T) {
	srv := serve(t)
	fill := func(c *client, n int) {
		for i := range n {
			c.do("PSUBSCRIBE", strconv.Itoa(i)+strings.Repeat("*", 1000)).matches(`\["psubscribe" .*\]`)
		}
	}
	c, twin, other := srv.dial(), srv.dial(), srv.dial()
	fill(c, 40)
	fill(twin, 40)
	refused := other
	for n := 0; refused == other && n < 100; n++ {
		if reply := other.do("PSUBSCRIBE", "other", strconv.Itoa(n)+strings.Repeat("?", 1000)); reply.text[0] == '-' {
			reply.err("ERR the patterns of all clients may have 65536 bytes here, and would have 6")
			refused = nil
		} else {
			other.read()
		}
	}
	if refused != nil {
		t.Fatal("100 patterns of 1000 bytes beside 40 others were all taken")
	}
	other.do("PSUBSCRIBE", "0"+strings.Repeat("*", 1000)).matches(`\["psubscribe" .*\]`) // one that is there
	other.do("SUBSCRIBE", strings.Repeat("c", 1000)).matches(`\["subscribe" .*\]`)
	other.do("RESET").is("+RESET")
	c.do("RESET").is("+RESET")
	twin.conn.Close()
	eventually(t, "all is free again", func() bool {
		srv.subscribers.mu.Lock()
		defer srv.subscribers.mu.Unlock()
		return srv.subscribers.patternBytes == 0 && len(srv.subscribers.of[toPattern]) == 0
	})
}

// Goal: a message reaches the subscribers of every server over the same masters, once, in order, and only those of its channel.
func TestMessagesReachEveryServer(t *testing.T) {
	here := serve(t)
	there := here.twin()
	near, far, resp3, pattern, stranger := here.dial(), there.dial(), there.dial(), there.dial(), there.dial()
	near.do("SUBSCRIBE", "wake").is(`["subscribe" "wake" :1]`)
	far.do("SUBSCRIBE", "wake").is(`["subscribe" "wake" :1]`)
	resp3.do("HELLO", "3")
	resp3.do("SUBSCRIBE", "wake").is(`>["subscribe" "wake" :1]`)
	pattern.do("PSUBSCRIBE", "w*").is(`["psubscribe" "w*" :1]`)
	stranger.do("SUBSCRIBE", "other").is(`["subscribe" "other" :1]`)
	p := here.dial()
	here.heard(2)
	for _, payload := range []string{"1", "2\r\n", "3 x"} {
		p.do("PUBLISH", "wake", payload).is(":1")
	}
	for _, want := range []string{"1", `2\r\n`, "3 x"} {
		near.read().is(`["message" "wake" "` + want + `"]`)
		far.read().is(`["message" "wake" "` + want + `"]`)
		resp3.read().is(`>["message" "wake" "` + want + `"]`)
		pattern.read().is(`["pmessage" "w*" "wake" "` + want + `"]`)
	}
	stranger.silent(50 * time.Millisecond)
	far.do("UNSUBSCRIBE", "wake").is(`["unsubscribe" "wake" :0]`)
	p.do("PUBLISH", "wake", "4").is(":1")
	far.silent(50 * time.Millisecond)
	p.do("PUBLISH", "wake", strings.Repeat("x", 1<<15)).err("ERR the message and its channel have 32772 bytes, at most 32768 are possible")
	// With one that long, patterns would take seconds.
	p.do("PUBLISH", strings.Repeat("w", channelMax+1), "x").err("ERR the name of the channel has 2049 bytes, at most 2048 are possible")
	p.do("EVAL", `return redis.pcall('publish', ARGV[1], 'x')`, "0", strings.Repeat("w", channelMax+1)).err("ERR the name of the channel has 2049 bytes")
	p.do("EVAL", `return redis.pcall('publish', 'wake', ARGV[1])`, "0", strings.Repeat("x", 1<<15)).err("ERR the message and its channel have 32772 bytes")
	near.conn.Close()
	eventually(t, "the subscriber that has gone is forgotten", func() bool { return p.do("PUBLISH", "wake", "5").text == ":0" })
}

// Goal: a message comes behind the confirmation of its subscription, also while that waits for the reply of a slow command before it, and
// never behind the end of the subscription.
func TestMessagesComeWithinTheSubscription(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		c := srv.dial()
		c.do("HELLO", "3").matches(".*")
		srv.freeze()
		c.raw(frameOf("LOCK", "k", "5s") + frameOf("SUBSCRIBE", "a") + frameOf("PING"))
		eventually(t, "it has subscribed", func() bool { return srv.subscribers.count("a") == 1 })
		srv.subscribers.deliver("a", "1")
		srv.subscribers.deliver("a", "2")
		c.send("UNSUBSCRIBE", "a")
		srv.thaw()
		c.read().matches(".*")
		c.read().is(`>["subscribe" "a" :1]`)
		c.read().is(`>["message" "a" "1"]`)
		c.read().is(`>["message" "a" "2"]`)
		c.read().is("+PONG")
		c.read().is(`>["unsubscribe" "a" :0]`)
		// One that was on its way when the subscription ended.
		srv.clients()[0].push(false, (&framedMessage{message: message{"a", "late"}, kind: toChannel, name: "a"}).frame)
		c.do("PING").is("+PONG")
	})
}

// Goal: what one master makes up in the name of a redlockd reaches no subscriber, flushes no script and
// shows no redlockd; what a quorum of the masters delivers does.
func TestMessagesThatOneMasterMakesUp(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		srv := serve(t)
		srv.heard(1)
		c, subscriber := srv.dial(), srv.dial()
		subscriber.do("SUBSCRIBE", redlock.LostChannel).matches(".*")
		c.do("SCRIPT", "LOAD", releaseScript)
		known := func(want string) {
			t.Helper()
			c.do("SCRIPT", "EXISTS", sandbox.SHA(releaseScript)).is(want)
		}
		const hello = `{"kind":"hello","from":"00112233445566aa","name":"nobody:1"}` + "\n"
		deliver := func(masters ...int) {
			for _, master := range masters {
				for i, m := range [][2]string{{redlock.LostChannel, "r"}, {scriptFlushChannel, ""}, {fleet.Channel, hello}} {
					srv.onMaster(master, "PUBLISH", "redlockd:messages", fmt.Sprintf("00112233445566%02d %d %s%s", i, len(m[0]), m[0], m[1])).is(":1")
				}
			}
		}
		deliver(0, 0, 0, 1)
		subscriber.silent(50 * time.Millisecond)
		known("[:1]")
		c.do("LOCKS", "ALL").matches(`.*"missing" \[\]\]`)
		deliver(2)
		subscriber.read().is(`["message" "redlockd:lost" "r"]`)
		eventually(t, "the scripts are forgotten", func() bool { return c.do("SCRIPT", "EXISTS", sandbox.SHA(releaseScript)).text == "[:0]" })
		c.do("LOCKS", "ALL").matches(`.*"missing" \[\["name" "nobody:1" .*`)
	})
}

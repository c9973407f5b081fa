package proxy

import (
	"strconv"
	"strings"
	"testing"
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

// Goal: in RESP3 a subscribed client may send everything, and messages are pushes; in RESP2 it may not.
func TestCommandsWhileSubscribed(t *testing.T) {
	c := serve(t).dial()
	c.do("SUBSCRIBE", "a").is(`["subscribe" "a" :1]`)
	c.do("LOCK", "r", "1000").is("-ERR Can't execute 'lock': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
	c.do("CLIENT", "ID").err("ERR Can't execute 'client|id'")
	c.do("PING", "x").is(`["pong" "x"]`)
	c.do("UNSUBSCRIBE").is(`["unsubscribe" "a" :0]`)
	c.do("LOCK", "r", "1000").granted(1, 1000)
	c.do("HELLO", "3")
	c.do("PSUBSCRIBE", "a*").is(`>["psubscribe" "a*" :1]`)
	c.do("LOCK", "s", "1000").granted(1, 1000)
	c.do("PING", "x").is(`"x"`)
	c.do("PUNSUBSCRIBE", "b*").is(`>["punsubscribe" "b*" :1]`)
	c.do("UNSUBSCRIBE").is(`>["unsubscribe" _nil :1]`)
}

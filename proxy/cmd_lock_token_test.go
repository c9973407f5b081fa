package proxy

// Goal: LOCK … JUSTTOKEN and its kin answer one string or the null of one, in both protocol versions, whatever else they are asked for. What is
// refused is in TestNativeCommandsRefuse and TestFenceAlways. Method: dialogues with a server over five masters in this process.

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	madeHere = `"[\w-]{27}\.\w{8}"`
	nullIn2  = "$nil"
	nullIn3  = "_nil"
)

// justToken fails the test unless the reply is a token that was made here. It returns the token.
func (r reply) justToken() string {
	r.t.Helper()
	r.matches(madeHere)
	return r.text[1 : len(r.text)-1]
}

func TestJUSTTOKEN(t *testing.T) {
	for protocol, null := range map[string]string{"2": nullIn2, "3": nullIn3} {
		inVirtualTime(t, func(t *testing.T) {
			srv := serve(t)
			c, other := srv.dial(), srv.dial()
			c.do("HELLO", protocol)
			other.do("HELLO", protocol)

			made := c.do("LOCK", "a", "20s", "JUSTTOKEN").justToken()
			other.do("LOCK", "a", "20s", "JustToken").is(null)
			other.do("LOCK", "a", "20s", "WAIT", "20", "justtoken", "TOKEN", "other").is(null)
			other.do("LOCK", "a", "20s").matches(`\*nil|_nil`) // as ever
			other.do("LOCK", "a", "20s", "JUSTTOKEN", "TOKEN", made).is(fmt.Sprintf("%q", made))
			c.do("UNLOCK", "a", made).is(":1")

			c.do("LOCK", "a", "20s", "TOKEN", "\x00\r\n\xff", "JUSTTOKEN").is(`"\x00\r\n\xff"`)
			other.send("LOCK", "a", "20s", "WAIT", "20s", "JUSTTOKEN", "NOTE", "next")
			srv.waiting(1)
			c.do("UNLOCK", "a", "\x00\r\n\xff").is(":1")
			made = other.read().justToken()
			c.do("EXTEND", "a", made, "20s").within(1, 20_000) // the validity, for who needs it

			id := other.do("CLIENT", "ID").matches(`:(\d+)`)[0]
			other.send("LOCK", "a", "20s", "WAIT", "20s", "JUSTTOKEN")
			synctest.Wait() // until it is denied
			c.do("CLIENT", "UNBLOCK", id).is(":1")
			other.read().is(null)

			several := c.do("MLOCK", "2", "b", "c", "20s", "JUSTTOKEN").justToken()
			other.do("MLOCK", "2", "c", "d", "20s", "JUSTTOKEN").is(null)
			other.do("MLOCK", "2", "c", "d", "20s", "JUSTTOKEN", "WAIT", "20").is(null)
			c.do("MUNLOCK", "2", "b", "c", several).is(":1")

			reader := c.do("LOCK", "file", "20s", "SHARED", "JUSTTOKEN").justToken()
			other.do("LOCK", "file", "20s", "SHARED", "JUSTTOKEN").justToken()
			other.do("LOCK", "file", "20s", "JUSTTOKEN").is(null)
			c.do("UNLOCK", "file", reader).is(":1")

			held := c.do("LOCK", "held", "20s", "HOLD", "RELEASE", "JUSTTOKEN").justToken()
			c.do("KEEPALIVE") // a client that never sends it is closed when its lock is lost
			fresh := other.do("HOLD", "held", held, "20s", "JUSTTOKEN", "RELEASE", "NOTE", "taken over").justToken()
			if fresh == held {
				t.Error("HOLD keeps the token")
			}
			c.do("HOLD", "held", held, "20s", "JUSTTOKEN").is(null)
			c.do("HOLD", "held", held, "20s").matches(`\*nil|_nil`)
			other.do("UNLOCK", "held", fresh).is(":1")
			both := c.do("MLOCK", "2", "x", "y", "20s", "JUSTTOKEN").justToken()
			both = other.do("MHOLD", "2", "x", "y", both, "20s", "JUSTTOKEN").justToken()
			c.do("MUNLOCK", "2", "x", "y", both).is(":1")
		})
	}
}

// Replies keep the order of their commands, and their forms, whatever stands beside them in a pipeline.
func TestJUSTTOKENInPipelines(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.raw(frameOf("LOCK", "a", "20s", "JUSTTOKEN", "TOKEN", "t") + frameOf("LOCK", "a", "20s", "JUSTTOKEN") + frameOf("LOCK", "a", "20s") +
		frameOf("LOCK", "b", "20s", "JUSTTOKEN", "FENCE") + frameOf("LOCK", "b", "20s", "TOKEN", "t") + frameOf("LOCK", "b", "20s", "WAIT", "20", "JUSTTOKEN") +
		frameOf("UNLOCK", "a", "t") + frameOf("HELLO", "3"))
	for _, want := range []string{`"t"`, `\$nil`, `\*nil`, "-ERR JUSTTOKEN and FENCE .*", `\["t" :\d+\]`, `\$nil`, ":1", `\{"server".*`} {
		c.read().matches(want)
	}
	c.raw("LOCK a 20s JUSTTOKEN TOKEN inline\r\nLOCK a 20s JUSTTOKEN\r\nUNLOCK a inline\r\n")
	for _, want := range []string{`"inline"`, nullIn3, ":1"} {
		c.read().is(want)
	}

	// What waits behind another LOCK is answered when that is.
	other := srv.dial()
	other.do("LOCK", "c", "20s", "JUSTTOKEN", "TOKEN", "theirs").is(`"theirs"`)
	c.raw(frameOf("LOCK", "c", "20s", "WAIT", "20s", "TOKEN", "mine", "JUSTTOKEN") + frameOf("LOCK", "d", "20s", "TOKEN", "mine", "JUSTTOKEN"))
	srv.waiting(1)
	c.silent(20 * time.Millisecond)
	other.do("UNLOCK", "c", "theirs").is(":1")
	c.read().is(`"mine"`)
	c.read().is(`"mine"`)
}

// A client that vanishes while it waits gets no lock. That a grant is released if its reply is not read: TestGrantThatIsNotReadIsReleased.
func TestJUSTTOKENOfAClientThatVanishes(t *testing.T) {
	srv := serve(t)
	c, vanishes := srv.dial(), srv.dial()
	held := c.do("LOCK", "a", "20s", "JUSTTOKEN").justToken()
	vanishes.send("LOCK", "a", "20s", "WAIT", "20s", "JUSTTOKEN")
	srv.waiting(1)
	vanishes.conn.Close()
	srv.waiting(0)
	c.do("UNLOCK", "a", held).is(":1")
	c.do("LOCK", "a", "20s", "JUSTTOKEN").justToken()
}

// FuzzLOCK: whatever the options of LOCK, the answer is one reply, and it is an array or one string as JUSTTOKEN says.
func FuzzLOCK(f *testing.F) {
	for _, options := range []string{
		"", "JUSTTOKEN", "justtoken TOKEN t", "TOKEN justtoken", "JUSTTOKEN FENCE", "SLOTS 2 JUSTTOKEN", "FENCE SLOTS 2", "JUSTTOKEN JUSTTOKEN",
		"NOTE JUSTTOKEN", "NOTE JUSTTOKEN JUSTTOKEN", "SHARED JustToken WAIT 5", "HOLD RELEASE JUSTTOKEN NOTE x", "JUST TOKEN", "JUSTTOKEN\x00",
	} {
		f.Add(options)
	}
	c := serve(f).dial()
	f.Fuzz(func(t *testing.T, options string) {
		words := strings.Split(options, " ")
		if options == "" {
			words = nil
		}
		just, noted := false, false
		for i, word := range words {
			noted = !noted && i > 0 && strings.EqualFold(words[i-1], "NOTE")
			just = just || !noted && strings.EqualFold(word, "JUSTTOKEN")
			if i > 0 && strings.EqualFold(words[i-1], "WAIT") {
				words[i] = "5" // no run may wait for long
			}
		}
		c.t = t
		c.send(append([]string{"LOCK", "a", "50"}, words...)...)
		c.send("ECHO", "behind")
		got := c.read().text
		c.read().is(`"behind"`)
		switch form := got[0]; {
		case form == '-' && !strings.HasPrefix(got, "-ERR internal"):
		case just && (form == '"' || got == nullIn2), !just && (form == '[' || got == "*nil"):
		default:
			t.Errorf("LOCK a 50 %q: got %s", words, got)
		}
	})
}

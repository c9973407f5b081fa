package redlock

// Goal: a message of redlockd's own acts if a quorum of the masters delivers it, and never if one master
// makes it up; clients' own messages act with the first copy. Method: single masters deliver copies to a
// client that notes what it receives.

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// receiver notes the messages that a client receives.
type receiver struct {
	*proxy
	mu       sync.Mutex
	received []string
}

func (s *stage) receiver() *receiver {
	r := &receiver{proxy: s.open()}
	r.subscribed()
	r.OnMessage(func(channel, payload string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.received = append(r.received, channel+" "+payload)
	})
	return r
}

// want compares what was received since the last call.
func (r *receiver) want(what string, want ...string) {
	r.s.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.received, want) {
		r.s.Errorf("%s: received %q, want %q", what, r.received, want)
	}
	r.received = nil
}

// copies has masters deliver a message that they have made up, or pass on.
func (r *receiver) copies(m message, masters ...int) {
	for _, master := range masters {
		r.s.do(master, "PUBLISH", messagesChannel, m.text)
	}
}

// send publishes through this client.
func (r *receiver) send(channel, payload string) {
	r.s.Helper()
	c := call{began: time.Now()}
	r.StartPublish(&c.Op, channel, payload, &c)
	c.want(r.s, "PUBLISH", "held", 0)
}

func TestOneMasterSpeaksForNoRedlockd(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		r := s.receiver()
		forged := newMessage(LostChannel, "a")
		r.copies(forged, 0, 0, 0, 0, 0)
		r.want("five copies from one master")
		s.do(0, "PUBLISH", r.messages.channel, forged.text)
		r.want("one more to its mailbox")
		r.copies(forged, 1)
		r.want("copies from two masters")
		r.copies(forged, 2)
		r.want("copies from a quorum", LostChannel+" a")
		r.copies(forged, 3, 4, 0)
		r.want("more copies")

		wakeUp := newMessage("a library's channel", "go")
		r.copies(wakeUp, 3)
		r.want("one copy of a client's message", "a library's channel go")
		r.copies(wakeUp, 3, 0, 1, 2, 4)
		r.want("more copies of it")

		// To one client alone.
		answer := newMessage(ReservedPrefix+"fleet", "an answer")
		s.do(4, "PUBLISH", r.messages.channel, answer.text)
		s.do(3, "PUBLISH", r.messages.channel, answer.text)
		r.want("an answer from two masters")
		s.do(2, "PUBLISH", r.messages.channel, answer.text)
		r.want("an answer from a quorum", ReservedPrefix+"fleet an answer")
	})
}

func TestQuorumOfMessages(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		r := s.receiver()
		five := r.fleet.view.Load()
		for n, acts := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
			r.fleet.set(newView(five.lanes[:n], five.record, &r.Client.fleet))
			m := newMessage(LostChannel, "a")
			for i := range n {
				r.messages.receivePublished(five.lanes[i], []byte(m.text))
				var want []string
				if i+1 == acts {
					want = []string{LostChannel + " a"}
				}
				r.want(fmt.Sprintf("copy %d from %d masters", i+1, n), want...)
			}
		}
		r.fleet.set(five)
	})
}

// A copy with another text under the id of a true message does not count for it, does not keep it out,
// and does not act in its place.
func TestAnotherTextUnderTheIDOfAMessage(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		r := s.receiver()
		told := newMessage(LostChannel, "a")
		forged := message{text: strings.TrimSuffix(told.text, "a") + "b"}
		r.copies(forged, 0)
		r.copies(told, 1, 2)
		r.want("two copies of the true text, and another one before them")
		r.copies(forged, 0)
		r.want("and another one after them")
		r.copies(told, 3)
		r.want("a quorum of the true text", LostChannel+" a")
		r.copies(told, 4)
		r.copies(forged, 1)
		r.want("the rest")

		wakeUp := newMessage("c", "true")
		r.copies(message{text: strings.Replace(wakeUp.text, "true", "else", 1)}, 0)
		r.copies(wakeUp, 1, 2)
		r.want("a client's message, and another one under its id", "c else", "c true")
	})
}

// Messages of redlockd's own are received in order while a quorum of the masters carries them. The
// publisher receives them at once.
func TestMessagesNeedAQuorum(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		from, to := s.receiver(), s.receiver()
		var want []string
		for i := range 20 {
			// The copies of each message come at other times from each master.
			for master := range s.masters {
				to.delay(0, time.Duration((i*7+master*3)%11)*ms, master)
			}
			from.send(LostChannel, fmt.Sprint(i))
			want = append(want, fmt.Sprintf("%s %d", LostChannel, i))
			time.Sleep(ms)
		}
		from.want("the publisher", want...)
		time.Sleep(time.Second)
		to.want("the other", want...)
		to.delay(0, 0, 0, 1, 2, 3, 4)

		s.freeze(0, 1)
		from.send(LostChannel, "three masters")
		time.Sleep(10 * ms)
		to.want("over three masters of five", LostChannel+" three masters")
		s.freeze(2)
		from.send(LostChannel, "two masters")
		from.send("c", "two masters")
		time.Sleep(10 * ms)
		to.want("over two masters of five", "c two masters")
		s.thaw(0, 1, 2)
		time.Sleep(time.Second)
		from.want("the publisher", LostChannel+" three masters", LostChannel+" two masters", "c two masters")
	})
}

// Copies count while the masters that have delivered them are members, and the quorum is one of the
// members of now.
func TestMessagesAcrossAChangeOfMembers(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		r := s.receiver()
		five := r.fleet.view.Load()
		three := newView(five.lanes[:3], five.record, &r.Client.fleet)
		deliver := func(m message, masters ...int) {
			for _, master := range masters {
				r.messages.receivePublished(five.lanes[master], []byte(m.text))
			}
		}
		before := newMessage(LostChannel, "before the change")
		gone := newMessage(LostChannel, "by those that leave")
		deliver(before, 0, 3)
		deliver(gone, 3, 4)
		r.fleet.set(three)
		deliver(gone, 0, 3, 4)
		r.want("copies of former masters, and one of three")
		deliver(before, 1)
		r.want("copies of two masters of three", LostChannel+" before the change")
		deliver(gone, 2)
		r.want("copies of two masters of three", LostChannel+" by those that leave")
		deliver(newMessage("c", "x"), 3, 4)
		r.want("a client's message from former masters")
		r.fleet.set(five)

		// The place of a former master is another one's now.
		former := newLane(&r.Client.fleet, 0, five.lanes[0].master)
		m := newMessage(LostChannel, "a")
		deliver(m, 1, 2)
		r.messages.receivePublished(former, []byte(m.text))
		r.want("two copies, and one of a former master")
		deliver(m, 0)
		r.want("a quorum", LostChannel+" a")
	})
}

// A master that delivers very many messages pushes out none that others were the first to deliver, and
// what is remembered is bounded.
func TestFloodOfMessages(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		r := s.receiver()
		lanes := r.fleet.view.Load().lanes
		first, second := newMessage(LostChannel, "a"), newMessage("c", "once")
		r.messages.receivePublished(lanes[0], []byte(first.text))
		r.messages.receivePublished(lanes[0], []byte(second.text))
		r.want("one copy of each", "c once")
		for range 2 * messagesRemembered {
			r.messages.receivePublished(lanes[1], []byte(newMessage(LostChannel, "flood").text))
		}
		r.messages.receivePublished(lanes[2], []byte(first.text))
		r.messages.receivePublished(lanes[2], []byte(second.text))
		r.want("a second copy of each, behind very many others", LostChannel+" a")
		if n := len(r.messages.known); n != messagesRemembered+2 {
			s.Errorf("%d messages are remembered, want %d", n, messagesRemembered+2)
		}
	})
}

// The messages of one master are forgotten in their order, and a copy from another master is none of that one's.
func TestWhatIsForgottenFirst(t *testing.T) {
	var ring messageRing
	key := func(i int) messageKey { return messageKey{sum: uint64(i + 1)} }
	for i := range 2*messagesRemembered + 3 {
		want := messageKey{}
		if i >= messagesRemembered {
			want = key(i - messagesRemembered)
		}
		if got := ring.add(key(i)); got != want {
			t.Fatalf("message %d: %d is forgotten, want %d", i, got.sum, want.sum)
		}
	}
	inVirtualTime(t, 5, func(s *stage) {
		r := s.receiver()
		lanes := r.fleet.view.Load().lanes
		m := newMessage(LostChannel, "a")
		for _, master := range []int{0, 1, 1} {
			r.messages.receivePublished(lanes[master], []byte(m.text))
		}
		for range messagesRemembered {
			r.messages.receivePublished(lanes[1], []byte(newMessage(LostChannel, "flood").text))
		}
		r.messages.receivePublished(lanes[2], []byte(m.text))
		r.want("the third of a quorum, behind very many others of the second", LostChannel+" a")
	})
}

// What the publisher has received is kept no longer.
func TestOwnMessagesAreReceivedOnce(t *testing.T) {
	inVirtualTime(t, 3, func(s *stage) {
		r := s.receiver()
		r.send("c", "x")
		r.want("the publisher", "c x")
		r.Client.mu.Lock()
		defer r.Client.mu.Unlock()
		if n := len(r.messages.own); n != 0 {
			s.Errorf("%d messages wait for the publisher, want none", n)
		}
	})
}

// A text that no redlockd would publish is ignored.
func TestTextsThatAreNoMessages(t *testing.T) {
	inVirtualTime(t, 1, func(s *stage) {
		r := s.receiver()
		const id = "0123456789abcdef"
		longest := strings.Repeat("x", MessageMax-1)
		for i, tt := range []struct{ text, want string }{
			{" 1 cx", "c x"},
			{" 0 x", " x"},
			{" 2 cx", "cx "},
			{" 3 cx", ""},
			{" -1 cx", ""},
			{" 1x cx", ""},
			{"  cx", ""},
			{" 99999999999999999999 cx", ""},
			{" 0", ""},
			{" 1", ""},
			{"", ""},
			{"0 1 cx", ""}, // a longer id
			{" 1 c" + longest, "c " + longest},
			{" 1 c" + longest + "x", ""},
		} {
			text := fmt.Sprintf("%s%02d%s", id[:len(id)-2], i, tt.text)
			r.messages.receivePublished(r.fleet.view.Load().lanes[0], []byte(text))
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			r.want(fmt.Sprintf("%.40q", text), want...)
		}
		r.messages.receivePublished(r.fleet.view.Load().lanes[0], []byte(id[1:]+" 1 cx"))
		r.want("a shorter id")
	})
}

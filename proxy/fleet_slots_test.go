package proxy

// Goal: at most k clients hold a semaphore of k slots, through two redlockds, while one master is killed and one is frozen; a token has one slot; all go on
// being granted; and no slot is left behind. Method: that of fleet_test.go, with a claim for each slot.

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	fleetSlots   = 3
	slotClients  = 30
	slotGrantMin = 3 // of each client
)

// slotTTL is such that the validity is fleetTTL at least.
var slotTTL = fmt.Sprint((fleetTTL + fleetTTL/50 + 10*time.Millisecond).Milliseconds())

var slotReply = regexp.MustCompile(`^\["([^"]+)" :\d+ "(slots#[0-2])"\]$`)

// slotWire is a client that takes slots through one redlockd, and repeats its LOCK through another.
type slotWire struct {
	wires   [2]*wire
	granted int
}

// lockSlot asks for a slot. slot is "" if none was granted.
func (f *testFleet) lockSlot(w *wire, token string, options ...string) (slot string, sent time.Time) {
	reply, sent := w.ask(append([]string{"LOCK", "slots", slotTTL, "SLOTS", fmt.Sprint(fleetSlots), "TOKEN", token}, options...))
	match := slotReply.FindStringSubmatch(reply)
	switch {
	case match != nil && match[1] == token:
		return match[2], sent
	case strings.HasPrefix(reply, "["):
		f.Errorf("LOCK with slots: got %s, want the token %s, a validity and a slot", reply, token)
	}
	return "", sent
}

// runSlots is the life of one client.
func (f *testFleet) runSlots(name string, c *slotWire) {
	for n := 0; time.Now().Before(f.until) || c.granted < slotGrantMin && time.Since(f.until) < time.Minute; n++ {
		w, other := c.wires[n%2], c.wires[1-n%2]
		token := fmt.Sprintf("%s-%06d-unique", name, n)
		var wait []string
		if rand.N(4) > 0 {
			wait = []string{"WAIT", "20000"}
		}
		slot, _ := f.lockSlot(w, token, wait...)
		if slot == "" {
			f.failed.Add(1)
			time.Sleep(rand.N(10 * time.Millisecond))
			continue
		}
		c.granted++
		f.granted.Add(1)
		for range 1 + rand.N(2) { // it believes in the lock only then, because it may have waited
			if until, ok := w.extend(slot, token); ok {
				f.extended.Add(1)
				f.claim(slot, token, until)
			}
			time.Sleep(rand.N(5 * time.Millisecond))
		}
		if rand.N(4) == 0 {
			again, sent := f.lockSlot(other, token)
			switch believed := time.Now().Before(f.claimedUntil(slot, token)); {
			case again == slot:
				f.claim(slot, token, sent.Add(fleetTTL))
			case again != "" && believed:
				f.Errorf("LOCK again with %s: got %s, and it holds %s", token, again, slot)
			case again != "":
				other.unlock(again, token)
			}
		}
		f.disclaim(slot, token)
		if rand.N(50) > 0 { // else it dies
			w.unlock(slot, token)
		}
	}
}

// claimedUntil is until when the holder believes in the lock.
func (f *testFleet) claimedUntil(key, holder string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.claims[key]; c.holder == holder {
		return c.until
	}
	return time.Time{}
}

func TestSlotsOfAFleet(t *testing.T) {
	f := startFleet(t)
	f.until = time.Now().Add(4 * time.Second)
	var clients []*slotWire
	var all sync.WaitGroup
	for i := range slotClients {
		c := &slotWire{}
		for j, srv := range []int{i % 2, 1 - i%2} {
			d := f.servers[srv].dial()
			c.wires[j] = &wire{conn: d.conn, r: d.r,
				renew: func(slot, token string) []string { return []string{"EXTEND", slot, token, slotTTL} },
				leave: func(slot, token string) []string { return []string{"UNLOCK", slot, token} }}
		}
		clients = append(clients, c)
		all.Go(func() { f.runSlots(fmt.Sprint("client-", i), c) })
	}
	time.Sleep(time.Second)
	f.masters[1].Kill()
	f.masters[3].Freeze()
	time.Sleep(time.Second)
	f.masters[3].Thaw()
	all.Wait()
	least := clients[0].granted
	for _, c := range clients {
		least = min(least, c.granted)
	}
	t.Logf("%d clients: %d grants, at least %d each, %d extensions, %d refusals", len(clients), f.granted.Load(), least, f.extended.Load(), f.failed.Load())
	if least < slotGrantMin {
		t.Errorf("a client was granted %d slots, want at least %d", least, slotGrantMin)
	}
	for _, m := range f.masters {
		if m.Pid() == 0 {
			continue
		}
		c := (&testServer{t: t, addr: m.Addr}).dial()
		eventually(t, "no slot is left on a master", func() bool { return c.do("EXISTS", "slots#0", "slots#1", "slots#2").text == ":0" })
	}
}

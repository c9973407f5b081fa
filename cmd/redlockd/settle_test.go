package main

// Goal: libraries that keep their holders in a hash or a sorted set go on when masters have stood still: nobody waits for a TTL, and nothing is
// held twice. Method: eight clients of each, as published, that want one lock all the time; three of five redis-servers stand still for 300 ms
// again and again.

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"redlockd/redlock/redisproc"
)

const (
	contendFor  = 50 * time.Second
	stallEvery  = 10 * time.Second
	stallFor    = 300 * time.Millisecond
	contenders  = 8
	contendHold = 3 * time.Millisecond
	// contendGap is the longest time without a grant: far more than is measured (1.6 s), and far less than a TTL.
	contendGap = 5 * time.Second
)

// contention is what eight clients of a library were told.
type contention struct {
	grants, overlaps int
	gap              time.Duration
	errors           map[string]int

	mu             sync.Mutex
	alone, sharing int
	last           time.Time
}

func (c *contention) entered(shares bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alone > 0 || !shares && c.sharing > 0 {
		c.overlaps++
	}
	if shares {
		c.sharing++
	} else {
		c.alone++
	}
	now := time.Now()
	c.gap, c.last = max(c.gap, now.Sub(c.last)), now
	c.grants++
}

func (c *contention) left(shares bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if shares {
		c.sharing--
	} else {
		c.alone--
	}
}

// failed takes note of an error by its code.
func (c *contention) failed(answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	code := answer
	for _, known := range []string{"NOQUORUM", "TRYAGAIN"} {
		if strings.Contains(answer, known) {
			code = known
		}
	}
	c.errors[code]++
}

// contend has eight programs of a library take one lock by turns. Two of them need it alone.
func contend(talk *dialogue, alone, shared library, addr string) *contention {
	c := &contention{errors: map[string]int{}}
	var running sync.WaitGroup
	var players []*player
	for i := range contenders {
		lib := shared
		if i%4 == 0 {
			lib = alone
		}
		players = append(players, talk.enter(fmt.Sprint(lib.name, i), lib, addr))
	}
	c.last = time.Now()
	end := c.last.Add(contendFor)
	for i, p := range players {
		shares := i%4 != 0
		running.Go(func() {
			for time.Now().Before(end) {
				// It has no order of those who wait, so readers that leave no pause keep the others out for ever.
				time.Sleep(20 * time.Millisecond)
				if answer := p.ask("try contended 20000"); answer != "ok" {
					if answer != "refused" {
						c.failed(answer)
					}
					continue
				}
				c.entered(shares)
				time.Sleep(contendHold)
				c.left(shares)
				if answer := p.ask("release"); strings.HasPrefix(answer, "error ") {
					c.failed(answer)
				}
			}
		})
	}
	running.Wait()
	c.gap = max(c.gap, end.Sub(c.last))
	return c
}

// contendInOne has one program with eight clients of a library do so.
func contendInOne(talk *dialogue, lib library, addr string) *contention {
	p := talk.enter(lib.name, lib, addr)
	p.patience = 2 * contendFor
	c := &contention{errors: map[string]int{}}
	answer := p.ask(fmt.Sprintf("contend contended:%s %d %d", lib.name, contendFor.Milliseconds(), contenders))
	words := strings.Fields(answer)
	if len(words) < 7 || words[0] != "ok" {
		talk.t.Errorf("%s: got %q", lib.name, answer)
		return c
	}
	for i := 1; i+1 < len(words); i += 2 {
		var n int
		fmt.Sscan(words[i+1], &n)
		switch words[i] {
		case "grants":
			c.grants = n
		case "overlaps":
			c.overlaps = n
		case "gap":
			c.gap = time.Duration(n) * time.Millisecond
		default:
			c.errors[words[i]] = n
		}
	}
	return c
}

func TestLibrariesBesideMastersThatStandStill(t *testing.T) {
	redisproc.Release(t)
	needLibraries(t, "java", "php")
	named := func(name string) library {
		for _, lib := range libraries {
			if lib.name == name {
				return lib
			}
		}
		t.Fatalf("there is no library %s", name)
		return library{}
	}
	talk := &dialogue{t: t}
	on := startFleet(t, nil, "--master-timeout", "50ms")
	results := map[string]*contention{}
	var mu sync.Mutex
	var running sync.WaitGroup
	for name, run := range map[string]func() *contention{
		"Redisson's RLock":          func() *contention { return contendInOne(talk, named("redisson-watchdog"), on.addr) },
		"Redisson's RReadWriteLock": func() *contention { return contendInOne(talk, named("redisson-read"), on.addr) },
		"Symfony's shared lock":     func() *contention { return contend(talk, named("symfony"), named("symfony-read"), on.addr) },
	} {
		running.Go(func() {
			c := run()
			mu.Lock()
			defer mu.Unlock()
			results[name] = c
		})
	}
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	stalls := 0
	for stalling := true; stalling; {
		select {
		case <-ended:
			stalling = false
		case <-time.After(stallEvery):
			for i := range 3 {
				on.masters[(stalls+i)%5].Freeze()
			}
			time.Sleep(stallFor)
			for i := range 3 {
				on.masters[(stalls+i)%5].Thaw()
			}
			stalls++
		}
	}
	for name, c := range results {
		t.Logf("%s: %d grants, no grant for %v at most, errors %v, %d stalls", name, c.grants, c.gap.Round(time.Millisecond), c.errors, stalls)
		if c.overlaps > 0 || c.grants == 0 {
			t.Errorf("%s: got %d grants, %d while somebody else held the lock", name, c.grants, c.overlaps)
		}
		if c.gap > contendGap {
			t.Errorf("%s: no grant for %v, want it within %v", name, c.gap, contendGap)
		}
		others := maps.Clone(c.errors)
		delete(others, "NOQUORUM")
		if len(others) > 0 {
			t.Errorf("%s: got the errors %v, want none but NOQUORUM", name, c.errors)
		}
	}
}

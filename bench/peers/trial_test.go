package peers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"redlockd/redlock"
	"redlockd/redlock/redisproc"
)

// trial is one run of a row with one library.
type trial struct {
	*testing.T
	row
	peer    peer
	masters []*redisproc.Server // by number - 1
	names   []string            // of the masters, as redlockd's membership has them: where a client finds one that its settings do not name
	a, b    *party
	first   *party // the instance that A asked first

	// What single rows remember.
	replica     *redisproc.Server
	replication *redisproc.Relay
	aofSize     int64
}

// party is a client and its links, the first of which leads to master 1.
type party struct {
	links []*redisproc.Relay
	told  []*redisproc.Relay // the links to masters that its settings name
	locker
}

// run tells whether A got the lease, and whether B got the same while A relied on it.
func (p *trial) run(shim string) trialResult {
	p.startMasters(shim)
	p.a, p.b = p.open(nil), p.open(p.row.told)
	again, canChoose := p.a.locker.(tokenLocker)
	if p.retry && !canChoose {
		return notPossible
	}
	if p.ready != nil {
		p.ready(p)
	}
	p.a.keep(p.had)
	var until time.Time
	var err error
	if p.retry {
		until, err = p.lockAgain(again)
	} else {
		until, err = p.lockOnce()
	}
	if err != nil {
		p.Logf("A got no lock: %v", err)
		return noLock
	}
	if p.harm != nil {
		p.harm(p)
	}
	if time.Until(until) <= 0 {
		p.Log("the harm took longer than the lease")
		return notPossible
	}
	for time.Until(until) > 0 {
		if _, err := p.b.try(p.Context(), peerResource); err == nil {
			if time.Until(until) > 0 {
				return twoHolders
			}
			return oneHolder
		}
		time.Sleep(20 * time.Millisecond)
	}
	return oneHolder
}

// lockOnce has A ask until it is granted the lock.
func (p *trial) lockOnce() (until time.Time, err error) {
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(50 * time.Millisecond) {
		if until, err = p.a.try(p.Context(), peerResource); err == nil {
			return until, nil
		}
	}
	return time.Time{}, err
}

// lockAgain has A ask an instance whose links to three masters carry nothing. After a second A asks another one, with the same token.
func (p *trial) lockAgain(second tokenLocker) (until time.Time, err error) {
	const token = "the token of A"
	x := p.open(nil)
	p.first = x
	for _, n := range three {
		x.links[n-1].Hold()
	}
	answered := make(chan error, 1)
	go func() {
		_, err := x.locker.(tokenLocker).tryAs(p.Context(), peerResource, token)
		answered <- err
	}()
	p.Cleanup(func() {
		x.keep([]int{})
		if err := <-answered; err == nil {
			p.Error("A was granted the lock by three masters of which it heard nothing")
		}
	})
	time.Sleep(time.Second)
	return second.tryAs(p.Context(), peerResource, token)
}

// startMasters starts five, and founds redlockd's membership on them.
func (p *trial) startMasters(shim string) {
	p.Helper()
	opts := redlock.Options{MaxTTL: peerTTL, ConnectTimeout: 10 * time.Second}
	for range 5 {
		s := p.start(shim, p.args...)
		p.masters, p.names = append(p.masters, s), append(p.names, s.Addr)
		opts.Masters = append(opts.Masters, redlock.Master{Addr: s.Addr})
	}
	if err := redlock.Bootstrap(p.Context(), opts); err != nil {
		p.Fatalf("found the membership: %v", err)
	}
}

func (p *trial) start(shim string, args ...string) *redisproc.Server {
	p.Helper()
	s, err := redisproc.StartClocked(shim, append([]string{"--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"}, args...)...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(s.Close)
	return s
}

// open opens a client of the library over links of its own, all of which pass at that time. Its settings name some masters; nil: all.
func (p *trial) open(told []int) *party {
	p.Helper()
	x := new(party)
	for i, s := range p.masters {
		link := redisproc.NewRelay(p.T, s.Addr)
		x.links = append(x.links, link)
		if told == nil || slices.Contains(told, i+1) {
			x.told = append(x.told, link)
		}
	}
	x.locker = p.peer.open(p, x)
	return x
}

// keep cuts all links but these; nil keeps all.
func (x *party) keep(reach []int) {
	for i, link := range x.links {
		if reach != nil && !slices.Contains(reach, i+1) {
			link.Cut()
		}
	}
}

// until waits for a condition, and fails the trial with what it last said when it does not come.
func until(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	err := check()
	for ; err != nil; err = check() {
		if time.Now().After(deadline) {
			t.Fatal(fmt.Errorf("%s: not within a minute: %w", what, err))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

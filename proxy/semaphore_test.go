package proxy

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// Goal: a crowd from one address does not keep those from other addresses waiting, nor those who have been in before; and the last
// ones come first. Method: the order in which a semaphore with one place lets in who waits for it.
func TestSemaphoreServesGroupsInRotation(t *testing.T) {
	sem := newSemaphore()
	sem.size = 1
	sem.enter(semaphoreGroup{})
	entered, cancelled := make(chan string), make(chan string)
	join := func(name, addr string, again bool) {
		key := semaphoreGroup{origin: netip.PrefixFrom(netip.MustParseAddr(addr), 32), again: again}
		sem.mu.Lock()
		before := len(sem.waiting[key])
		sem.mu.Unlock()
		go func() {
			w := sem.enter(key)
			if <-w.done; w.has {
				entered <- name
			} else {
				cancelled <- name
			}
		}()
		eventually(t, "it waits", func() bool {
			sem.mu.Lock()
			defer sem.mu.Unlock()
			return len(sem.waiting[key]) > before
		})
	}
	for i := range 4 {
		join(fmt.Sprintf("crowd%d", i), "10.0.0.1", false)
	}
	join("honest", "10.0.0.2", false)
	join("begun", "10.0.0.1", true)
	join("honest2", "10.0.0.2", false)
	join("leaves", "10.0.0.2", false)
	join("leaves alone", "10.0.0.3", false)
	for name, group := range map[string]string{"leaves": "10.0.0.2", "leaves alone": "10.0.0.3"} {
		queue := sem.waiting[semaphoreGroup{origin: netip.PrefixFrom(netip.MustParseAddr(group), 32)}]
		w := queue[len(queue)-1]
		sem.cancel(w)
		sem.cancel(w) // who is closed again
		if got := <-cancelled; got != name {
			t.Fatalf("the wait of %s has ended, want that of %s", got, name)
		}
	}
	want := strings.Fields("crowd3 honest2 begun crowd2 honest crowd1 crowd0")
	var got []string
	for range want {
		sem.release()
		got = append(got, <-entered)
	}
	if !slices.Equal(got, want) {
		t.Errorf("they were admitted in the order %q, want %q", got, want)
	}
	if sem.release(); sem.held != 0 || len(sem.waiting)+len(sem.order) != 0 {
		t.Errorf("at the end: got %+v, want it empty", sem)
	}
}

// Who has sent much at once executes it in turns, one batch of each connection; who has sent little does not wait for that.
func TestWhoSendsMuchTakesTurns(t *testing.T) {
	srv := serve(t)
	open := srv.takeCPU()
	busy := []*client{srv.dial(), srv.dial(), srv.dial()}
	const pings = muchSent / 14 // of "*1\r\n$4\r\nPING\r\n"
	for _, c := range busy {
		c.raw(strings.Repeat("*1\r\n$4\r\nPING\r\n", pings+1))
	}
	eventually(t, "each has a turn of its own", func() bool {
		srv.cpu.mu.Lock()
		defer srv.cpu.mu.Unlock()
		return len(srv.cpu.order) == len(busy)
	})
	modest := srv.dial()
	for range 10 {
		modest.do("LOCK", "r", "10000", "TOKEN", "x").granted(1, 10000)
		modest.do("UNLOCK", "r", "x").is(":1")
	}
	busy[0].silent(10 * time.Millisecond)
	open()
	for _, c := range busy {
		for range pings + 1 {
			c.read().is("+PONG")
		}
	}
	eventually(t, "nobody is in the semaphore", srv.cpuIsFree)
}

// Who is closed while it waits for its turn keeps nothing any more.
func TestWhoIsClosedWaitsForNoTurn(t *testing.T) {
	srv := serve(t)
	open := srv.takeCPU()
	defer open()
	srv.dial().raw(strings.Repeat("*1\r\n$4\r\nPING\r\n", muchSent/14+1))
	eventually(t, "it waits", func() bool {
		srv.cpu.mu.Lock()
		defer srv.cpu.mu.Unlock()
		return len(srv.cpu.order) == 1
	})
	for _, conn := range srv.clients() {
		if srv.output.Load() != chunkSize {
			t.Errorf("%d bytes count while it waits, want those of a chunk", srv.output.Load())
		}
		conn.close("the test closes it")
	}
	eventually(t, "its reader has ended", func() bool { return len(srv.clients()) == 0 })
}

// Who waits for the turn to run a script keeps nobody else from executing what he has sent.
func TestScriptsNeedNoPlace(t *testing.T) {
	srv := serve(t)
	for range srv.shares.max {
		srv.shares.acquireRun(srv.anonymous, 0)
	}
	const pings = muchSent / 14
	much := strings.Repeat("*1\r\n$4\r\nPING\r\n", pings+1)
	var waiting []*client
	for range srv.cpu.size + 1 {
		c := srv.dial()
		c.raw("*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 7\r\n$1\r\n0\r\n" + much)
		waiting = append(waiting, c)
	}
	eventually(t, "the scripts wait", func() bool {
		srv.shares.mu.Lock()
		defer srv.shares.mu.Unlock()
		return len(srv.shares.waiting) > 0 && len(srv.shares.waiting[0].waiting) == len(waiting)
	})
	other := srv.dial()
	other.raw(much)
	for range pings + 1 {
		other.read().is("+PONG")
	}
	for range srv.shares.max {
		srv.shares.releaseRun()
	}
	for _, c := range waiting {
		c.read().is(":7")
		c.read().is("+PONG")
	}
}

// Goal: hellos that come by the hundred from one address hold up nobody from another one. Method: the semaphore is full while they come; when
// it opens, the handshake that came last and from elsewhere is the second to end at the latest.
func TestHandshakesTakeTurns(t *testing.T) {
	config := selfSigned(t)
	srv := serve(t, func(o *Options) { o.TLSConfig = config })
	open := srv.takeCPU()
	first := hello(t)
	const crowd = 50
	for range crowd {
		srv.dial().raw(first)
	}
	waiting := func() (n int) {
		srv.cpu.mu.Lock()
		defer srv.cpu.mu.Unlock()
		for _, queue := range srv.cpu.waiting {
			n += len(queue)
		}
		return n
	}
	eventually(t, "they wait", func() bool { return waiting() == crowd })
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}}
	conn, err := from.Dial("tcp", srv.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	shaken := make(chan error, 1)
	go func() { shaken <- tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
	eventually(t, "it waits too", func() bool { return waiting() == crowd+1 })
	srv.cpu.mu.Lock()
	turns := len(srv.cpu.order)
	srv.cpu.mu.Unlock()
	if turns != 2 {
		t.Errorf("%d addresses have turns, want 2", turns)
	}
	open()
	if err := <-shaken; err != nil {
		t.Errorf("the handshake from elsewhere: %v", err)
	}
}

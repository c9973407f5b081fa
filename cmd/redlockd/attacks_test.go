package main

// Goal: attacks on who the masters are, and on clocks, give no lock twice, and who is behind gets over
// it by itself. Method: the program as a process, on real redis-server processes. Clients want one
// resource through several redlockds all the time, and note from when to when they may believe to hold
// it; two of them must never have done so at once. The same attacks in virtual time:
// redlock/virtual_attacks_test.go.

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/redisproc"
)

// door is the address of a master for one redlockd: connections to it lead to the master behind it.
type door struct {
	addr string

	mu    sync.Mutex
	to    string // the master's own address; "": connections are closed at once
	conns map[net.Conn]bool
}

func newDoor(t *testing.T, to string) *door {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{addr: listener.Addr().String(), to: to, conns: make(map[net.Conn]bool)}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { d.carry(from) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		d.lead("")
		d.drop()
		running.Wait()
	})
	return d
}

// carry passes on what a connection brings, in both directions, until one end closes.
func (d *door) carry(from net.Conn) {
	defer from.Close()
	d.mu.Lock()
	to := d.to
	d.mu.Unlock()
	master, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer master.Close()
	d.mu.Lock()
	if d.to != to { // it was led elsewhere meanwhile
		d.mu.Unlock()
		return
	}
	d.conns[from] = true
	d.mu.Unlock()
	go func() {
		io.Copy(master, from)
		master.Close()
	}()
	io.Copy(from, master)
	d.mu.Lock()
	delete(d.conns, from)
	d.mu.Unlock()
}

// lead has new connections lead to another master. Those that stand stay where they are.
func (d *door) lead(to string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to = to
}

// drop ends the connections that stand.
func (d *door) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.conns {
		conn.Close()
	}
}

// site is where a redlockd runs: it reaches each master by an address of its own, and calls it m1, m2,
// … as all do.
type site struct {
	t     *testing.T
	doors []*door
}

// newSite is one whose settings name the masters behind these addresses.
func newSite(t *testing.T, masters []*redisproc.Server) *site {
	s := &site{t: t}
	for _, m := range masters {
		s.doors = append(s.doors, newDoor(t, m.Addr))
	}
	return s
}

// settings is the file of its settings.
func (s *site) settings() string {
	var text strings.Builder
	for i, d := range s.doors {
		fmt.Fprintf(&text, "[[masters]]\nname = \"m%d\"\naddr = %q\n", i+1, d.addr)
	}
	return configFile(s.t, text.String())
}

// cut keeps the site away from masters, given by their numbers, until heal.
func (s *site) cut(numbers ...int) {
	for _, n := range numbers {
		s.doors[n-1].lead("")
		s.doors[n-1].drop()
	}
}

func (s *site) heal(masters []*redisproc.Server, numbers ...int) {
	for _, n := range numbers {
		s.doors[n-1].lead(masters[n-1].Addr)
	}
}

// contest is clients that want one resource, each through a redlockd of its own.
type contest struct {
	soak
	ttl     time.Duration
	stop    chan struct{}
	running sync.WaitGroup
	grants  map[*program]int // guarded by mu
}

func startContest(t *testing.T, ttl time.Duration) *contest {
	c := &contest{soak: soak{t: t, start: time.Now()}, ttl: ttl, stop: make(chan struct{}), grants: make(map[*program]int)}
	t.Cleanup(func() { c.end() })
	return c
}

// join has a client take part.
func (c *contest) join(p *program) {
	c.running.Go(func() {
		client := newClient(p.addr)
		defer client.Close()
		for {
			select {
			case <-c.stop:
				return
			default:
			}
			if h, ok := c.try(client, p); ok {
				time.Sleep(time.Until(h.to) + c.ttl/10) // it ends by itself, and it is the turn of others
			}
		}
	})
}

func (c *contest) try(client *redis.Client, p *program) (h hold, ok bool) {
	h, ok, err := c.lock(client, "r", int(c.ttl.Milliseconds()))
	if err != nil && !isReplyError(err) {
		c.t.Errorf("LOCK: %v", err)
	}
	if !ok {
		time.Sleep(5 * time.Millisecond)
		return h, false
	}
	c.record(h)
	c.mu.Lock()
	c.grants[p]++
	c.mu.Unlock()
	return h, true
}

// granted waits until a client of this redlockd gets the lock once more.
func (c *contest) granted(what string, p *program) {
	c.t.Helper()
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.grants[p]
	}
	before := count()
	until(c.t, "a lock for "+what, func() bool { return count() > before })
}

// end stops the clients.
func (c *contest) end() {
	select {
	case <-c.stop:
		return
	default:
	}
	close(c.stop)
	c.running.Wait()
	c.judge()
	if len(c.holds) < 3 {
		c.t.Errorf("%d locks were granted: too few for a judgement", len(c.holds))
	}
}

// attackSettings are such that tests can wait for what must end, on a machine that is slow.
func attackSettings(t *testing.T, maxTTL string) {
	t.Helper()
	redisproc.Long(t)
	for name, value := range map[string]string{"LOCKS_MAX_TTL": maxTTL, "MASTER_FOUNDING_WAIT": "10ms", "MASTER_TIMEOUT": "500ms", "MASTER_CLOCK_SKEW_MAX": "200ms"} {
		t.Setenv("REDLOCKD_"+name, value)
	}
}

// The name of the fifth master comes to mean another Redis. One redlockd stays connected to the one of
// before; each reaches two of the other four. What else names, lists of masters and a lowered max_ttl
// can do: redlock/virtual_attacks_test.go.
func TestAttackNameThatMoves(t *testing.T) {
	const maxTTL = 2 * time.Second
	attackSettings(t, maxTTL.String())
	masters, _ := startMasters(t, 6)
	a, b := newSite(t, masters[:5]), newSite(t, masters[:5])
	wantRun(t, cli.ExitOK, "admitted", "", "bootstrap", "--config", a.settings())
	p := launch(t, "--config", a.settings(), "--master-timeout", "500ms")
	q := launch(t, "--config", b.settings(), "--master-timeout", "500ms")
	c := startContest(t, 500*time.Millisecond)
	c.join(p)
	c.join(q)
	c.granted("at first", p)

	a.doors[4].lead(masters[5].Addr) // the connections that stand stay
	b.doors[4].lead(masters[5].Addr)
	b.doors[4].drop()
	a.cut(3, 4)
	b.cut(1, 2)
	time.Sleep(3 * maxTTL)
	a.heal(masters, 3, 4)
	b.heal(masters, 1, 2)
	c.granted("who stayed connected, after healing", p)
	c.granted("who moved at once, after healing", q)
	want := redisCLI(t, masters[5].Addr, "INFO", "server")
	until(t, "the fifth seat has the vote of the master behind its name", func() bool {
		table := membersSeen(t, "--config", b.settings())
		run, _, _ := strings.Cut(table.Seats[4].Memory, ":")
		return table.Voters == 5 && run != "" && strings.Contains(want, "run_id:"+run)
	})
	c.end()
}

// Nothing but short runs: each gives up before the wait of the new masters is over, and the next one
// goes on with it.
func TestAttackShortRuns(t *testing.T) {
	const wait = 4 * time.Second
	attackSettings(t, wait.String())
	_, addrs := startMasters(t, 3)
	binary(t) // it is not the runs that this takes time of
	began, locked := time.Now(), 0
	for locked < 4 && time.Since(began) < wait+patience {
		p := begin(t, "run", "--masters", addrs, "--wait", "2s", "r", "--", "true")
		code := p.exitCode()
		t.Logf("%v: exit code %d: %s", time.Since(began).Round(time.Millisecond), code, p.log())
		switch {
		case code == cli.ExitOK:
			if took := time.Since(began); locked == 0 && took < wait {
				t.Errorf("the first lock came after %v, want not before %v", took, wait)
			}
			locked++
		case code != cli.ExitNoQuorum:
			t.Errorf("exit code %d, want %d or %d:\n%s", code, cli.ExitOK, cli.ExitNoQuorum, p.log())
		case locked > 0:
			t.Errorf("no lock after others have got theirs:\n%s", p.log())
		}
	}
	if locked == 0 {
		t.Errorf("no lock within %v, want some when the wait of %v is over", time.Since(began), wait)
	}
}

// A redlockd that starts goes on with the wait of masters, and does not begin it again. Where a
// majority has forgotten nobody can give them what they held.
func TestAttackRestartDoesNotLengthenTheWait(t *testing.T) {
	const passed = 4 * time.Second
	attackSettings(t, time.Minute.String())
	masters, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap", "--master-timeout", "500ms")
	for _, m := range masters[1:] {
		m.Kill()
		if err := m.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (left time.Duration) {
		until(t, "all masters are learners", func() bool {
			learners := 0
			for _, s := range membersOf(t, addrs).Seats {
				if s.State == "learner" && s.LeftMs > 0 {
					learners++
					left = time.Duration(s.LeftMs) * time.Millisecond
				}
			}
			return learners == len(masters)
		})
		return left
	}
	before := left()
	time.Sleep(passed)
	p.cmd.Process.Kill()
	listen(t, binary(t), "--masters", addrs, "--master-timeout", "500ms")
	if after := left(); after > before-passed/2 {
		t.Errorf("%v of the wait are left, and were %v before %v had passed, want less", after, before, passed)
	}
}

// Three of five masters forget at the same moment. Locks are granted again when the longest of before
// must have ended, and by nobody's help.
func TestAttackAmnesiaOfThree(t *testing.T) {
	const maxTTL = 4 * time.Second
	attackSettings(t, maxTTL.String())
	masters, addrs := startMasters(t, 5)
	p := launch(t, "--masters", addrs, "--bootstrap", "--master-timeout", "500ms")
	c := startContest(t, maxTTL)
	c.join(p)
	c.granted("at first", p)
	c.join(p) // and another one, which has to wait
	for _, m := range masters[:3] {
		m.Kill()
	}
	for _, m := range masters[:3] {
		if err := m.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	forgot := time.Now()
	c.granted("afterwards", p)
	t.Logf("max_ttl %v: the next lock came after %v", maxTTL, time.Since(forgot).Round(10*time.Millisecond))
	c.granted("afterwards", p)
	c.end()
}

// aheadBinary is the program on a machine whose wall clock is off by 1.5 s.
func aheadBinary(t *testing.T) string {
	t.Helper()
	source, err := filepath.Abs("../../redlock/clock/own.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const place = "wall := time.Duration(now.UnixNano()) - o.At(now)"
	changed := strings.Replace(string(text), place, place+" + 1500*time.Millisecond", 1)
	if changed == string(text) {
		t.Fatalf("%s has no %q to change", source, place)
	}
	dir := t.TempDir()
	writeFile(t, dir+"/own.go", changed, 0o600)
	overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{source: dir + "/own.go"}})
	writeFile(t, dir+"/overlay.json", string(overlay), 0o600)
	if out, err := exec.Command("go", "build", "-overlay", dir+"/overlay.json", "-o", dir+"/ahead", ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return dir + "/ahead"
}

// `redlockd run` on a machine whose clock is 1.5 s off gets no lock for as long as a wait, for it must
// watch the masters' clocks first. Nobody else notices.
func TestAttackClockThatIsOff(t *testing.T) {
	attackSettings(t, "3s")
	ahead := aheadBinary(t)
	_, addrs := startMasters(t, 5)
	p := launch(t, "--masters", addrs, "--bootstrap", "--master-timeout", "500ms")
	before := membersOf(t, addrs)
	under := startLoad(t, p)
	run := func(wait string) (code int, stderr string) {
		cmd := exec.Command(ahead, "run", "--masters", addrs, "--wait", wait, "elsewhere", "--", "true")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for range 2 {
		if code, stderr := run("500ms"); code != cli.ExitNoQuorum || !strings.Contains(stderr, "clock") {
			t.Errorf("exit code %d, want %d and a word about the clock:\n%s", code, cli.ExitNoQuorum, stderr)
		}
	}
	if code, stderr := run("2m"); code != cli.ExitOK {
		t.Errorf("when it has watched: exit code %d, want %d:\n%s", code, cli.ExitOK, stderr)
	}
	under.end()
	if after := membersOf(t, addrs); after.Version != before.Version || after.Lineage != before.Lineage || after.Voters != 5 {
		t.Errorf("got %+v, want the membership as it was, %+v", after, before)
	}
	for line := range strings.Lines(p.log()) {
		slow := strings.Contains(line, "no new connection has reached it for ")
		if strings.Contains(line, "master doubted") || strings.Contains(line, "clocks out of step") || strings.Contains(line, "quarantined") && !slow {
			t.Errorf("want that the other one notices nothing:\n%s", line)
		}
	}
}

package main

// Goal: a master, or somebody on its wire, cannot kill redlockd, whatever it answers and whenever: the
// connection is given up, the master gets no vote, INFO says why, the other masters grant locks, and
// memory stays within a bound. Method: the program as a process, four masters that are good, and one
// that is good until it is told to answer something else.

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/redisproc"
)

// hostile relays between redlockd and a good master, but for its play.
type hostile struct {
	t        *testing.T
	upstream *memmaster.Master

	slow int // plays in which good masters were late

	mu    sync.Mutex
	play  *play
	conns map[net.Conn]bool // true: it is for invalidations
}

// play is what a hostile master does: when it reads the trigger, it sends its answer in the place of
// what the good master would reply.
type play struct {
	stage  stage
	answer answer
	gone   chan struct{} // closed when redlockd has given up the first connection that was answered so

	// Guarded by hostile.mu.
	passed    int // triggers that were passed on
	performed int // answers
}

// stage is a moment in the life of a connection.
type stage struct {
	name          string
	trigger       string // in what redlockd sends
	skip          int    // so many triggers are passed on first
	before        string // what is answered before the hostile answer
	after         bool   // the good master's reply to the trigger goes first
	refuse        string // commands that are answered with an error until then: HELLO, so that AUTH is sent
	hang          bool   // triggers that are skipped close their connection
	lock          string // the resource that is locked and released, to have the trigger sent; after the answer nothing is answered any more
	invalidations bool   // the connection for invalidations: no vote is lost with it
}

// answer is what no Redis sends, or not in this place.
type answer struct {
	text    string
	endless bool // the last byte is sent again and again
}

func (h *hostile) serve(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		go h.relay(conn)
	}
}

// relay serves one connection.
func (h *hostile) relay(conn net.Conn) {
	up, err := h.upstream.Dial(h.t.Context(), "", "")
	if err != nil {
		conn.Close()
		return
	}
	h.mu.Lock()
	h.conns[conn] = false
	h.mu.Unlock()
	defer func() {
		conn.Close()
		up.Close()
		h.mu.Lock()
		delete(h.conns, conn)
		h.mu.Unlock()
	}()
	var stop atomic.Bool           // replies are relayed once more
	stopped := make(chan struct{}) // closed when none is any more
	go func() {
		defer close(stopped)
		for b := make([]byte, 64<<10); ; {
			n, err := up.Read(b)
			if _, failed := conn.Write(b[:n]); err != nil || failed != nil || stop.Load() {
				return
			}
		}
	}()
	seen := []byte{}
	for b := make([]byte, 64<<10); ; {
		n, err := conn.Read(b)
		if err != nil {
			return
		}
		seen = append(seen, b[:n]...)
		play, what := h.next(conn, seen)
		switch what {
		case pass:
			if _, err := up.Write(b[:n]); err != nil {
				return
			}
		case hangUp:
			return
		case refuse:
			io.WriteString(conn, "-ERR unknown command\r\n")
		case perform:
			if play.stage.after {
				stop.Store(true)
				up.Write(b[:n])
				<-stopped
			}
			h.perform(play, conn)
			return
		case silent:
			io.Copy(io.Discard, conn)
			return
		}
		if what == pass && play != nil {
			seen = seen[max(0, len(seen)-len(play.stage.trigger)+1):]
		} else {
			seen = seen[:0]
		}
	}
}

type step int

const (
	pass step = iota
	hangUp
	refuse
	perform
	silent
)

// next says what to do with what was read.
func (h *hostile) next(conn net.Conn, seen []byte) (*play, step) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytes.Contains(seen, []byte("subscribe")) {
		h.conns[conn] = true
	}
	p := h.play
	if p == nil {
		return nil, pass
	}
	times := bytes.Count(seen, []byte(p.stage.trigger)) // one batch may bring several
	triggered := times > 0
	switch {
	case p.performed > 0 && p.stage.lock != "":
		return p, silent
	case triggered && p.passed+times <= p.stage.skip:
		p.passed += times
		if p.stage.hang {
			return p, hangUp
		}
		return nil, pass
	case triggered:
		p.performed++
		return p, perform
	case p.stage.refuse != "" && bytes.Contains(seen, []byte(p.stage.refuse)):
		return p, refuse
	}
	return p, pass
}

// perform sends the answer, and waits until redlockd has had enough of it.
func (h *hostile) perform(p *play, conn net.Conn) {
	go func() {
		text := p.stage.before + p.answer.text
		if _, err := io.WriteString(conn, text); err != nil || !p.answer.endless {
			return
		}
		for more := strings.Repeat(text[len(text)-1:], 64<<10); ; {
			if _, err := io.WriteString(conn, more); err != nil {
				return
			}
		}
	}()
	io.Copy(io.Discard, conn)
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-p.gone:
	default:
		close(p.gone)
	}
}

// hostileStages are named for what the hostile answer takes the place of.
var hostileStages = []stage{
	{name: "HELLO", trigger: "hello"},
	{name: "AUTH", trigger: "\r\nauth\r\n$6\r\nsecret", refuse: "hello"},
	{name: "INFO", trigger: "info\r\n$6\r\nserver"},
	{name: "DELEX", trigger: "delex"},
	{name: "CLIENT ID", trigger: "client\r\n$2\r\nid", before: "-ERR unknown command\r\n-ERR unknown command\r\n"},
	{name: "SCRIPT LOAD", trigger: "script\r\n$4\r\nload"},
	{name: "heartbeat", trigger: "\r\nh:0\r\n"},
	{name: "INFO of the heartbeat", trigger: "\r\nh:0\r\n", before: "*2\r\n:1\r\n+x\r\n"},
	{name: "HGET of the membership", trigger: "\r\nhget\r\n$16\r\nredlockd:members"},
	{name: "CLIENT TRACKING", trigger: "tracking"},
	{name: "SUBSCRIBE", trigger: "subscribe", invalidations: true},
	{name: "invalidation", trigger: "subscribe", after: true, invalidations: true},
	{name: "keys of an invalidation", trigger: "subscribe", after: true, invalidations: true, before: "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*2\r\n"},
	{name: "SET", trigger: "hostile:set", lock: "hostile:set"},
	{name: "trailer", trigger: "hostile:set", before: "+OK\r\n", lock: "hostile:set"},
	{name: "values of the trailer", trigger: "hostile:set", before: "+OK\r\n*2\r\n", lock: "hostile:set"},
	{name: "TIME", trigger: "hostile:set", before: "+OK\r\n*2\r\n$-1\r\n$-1\r\n", lock: "hostile:set"},
	{name: "parts of TIME", trigger: "hostile:set", before: "+OK\r\n*2\r\n$-1\r\n$-1\r\n*2\r\n", lock: "hostile:set"},
	{name: "release", trigger: "hostile:release", skip: 1, lock: "hostile:release"},
	{name: "pending release", trigger: "hostile:pending", skip: 1, hang: true, lock: "hostile:pending"},
}

var hostileAnswers = []answer{
	// Lengths.
	{text: "$9223372036854775807\r\n"},
	{text: "$9223372036854775806\r\n"},
	{text: "$9223372036854775800\r\n"},
	{text: "*0\r\n:1\r\n$9223372036854775800\r\n"},
	{text: "$9223372036854775808\r\n"},
	{text: "$99999999999999999999999999\r\n"},
	{text: "$-2\r\n"},
	{text: "$100000000000\r\n"},
	{text: "$4294967296\r\n"},
	{text: "$600000000\r\nx", endless: true},
	{text: "*10000000000\r\n"},
	{text: "*9223372036854775807\r\n"},
	{text: "*1000000000\r\n:1\r\n", endless: true},
	{text: "*-9223372036854775808\r\n"},
	{text: "%1000000000\r\n"},
	{text: "%9223372036854775807\r\n"},
	{text: "~1000000000\r\n"},
	{text: ">1000000000\r\n"},
	{text: "|1000000000\r\n"},
	{text: "=100000000000\r\n"},
	{text: "!100000000000\r\n"},
	// Without an end.
	{text: "+x", endless: true},
	{text: "-x", endless: true},
	{text: ":1", endless: true},
	{text: "$1", endless: true},
	{text: "(1", endless: true},
	{text: "\n", endless: true},
	{text: "\x00", endless: true},
	{text: "\r\n"},
	// Nested.
	{text: strings.Repeat("*1\r\n", 200_000)},
	{text: strings.Repeat("*2\r\n", 200_000)},
	{text: strings.Repeat("%1\r\n+k\r\n", 100_000)},
	{text: strings.Repeat(">2\r\n+x\r\n:1\r\n", 100_000)},
	{text: strings.Repeat("|1\r\n+k\r\n+v\r\n", 100_000)},
	{text: strings.Repeat("*16000\r\n", 1000)},
	// Of the wrong type, or another protocol.
	{text: "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"},
	{text: "%1\r\n*1\r\n:1\r\n:1\r\n"},
	{text: "_\r\n"},
	{text: ",1e400\r\n"},
	{text: "$5\r\nhello????"},
	{text: "HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>"},
	{text: "\x15\x03\x01\x00\x02\x02\x0a"},
	{text: "-" + strings.Repeat("ERR a text that is much too long ", 2000) + "\r\n"},
	{text: "-ERR no\r\n" + strings.Repeat(":1\r\n", 100_000)},
}

const (
	// Of the process, over all that it is sent. It takes some 30 MB without it.
	hostileMemoryMax = 100 << 20
	// Bytes of a reason in INFO.
	hostileReasonMax = 1100
)

// hostileParts is how many servers share the answers: each waits for most of the time, for the pause
// before it reaches the master again.
const hostileParts = 8

func TestHostileMaster(t *testing.T) {
	var parts sync.WaitGroup
	for part := range hostileParts {
		// Not t.Parallel, which runs no more of them than there are processors.
		parts.Go(func() { t.Run(strconv.Itoa(part), func(t *testing.T) { playAll(t, part) }) })
	}
	parts.Wait()
}

// playAll has a master play the answers of one part to a server.
func playAll(t *testing.T, part int) {
	h, addrs := hostileMasters(t)
	file := configFile(t, hostileConfig)
	p := launch(t, "--config", file, "--masters", addrs, "--bootstrap")
	client := p.dial()
	h.wantState(client, "up")

	for i := part; i < len(hostileAnswers); i += hostileParts {
		answer, plays, slow := hostileAnswers[i], 0, h.slow
		for j, stage := range hostileStages {
			if stage.name != "INFO" && stage.name != "SET" && (i+j)%6 != 0 {
				continue // two get all answers, the others each sixth
			}
			plays++
			h.try(p, client, stage, answer)
			if t.Failed() {
				t.Fatalf("%s, %.40q: the log:\n%s", stage.name, answer.text, p.log())
			}
		}
		if h.slow-slow == plays { // a slow machine is slow now and then
			t.Errorf("%.40q: whatever it took the place of, good masters were late", answer.text)
		}
	}
	h.wantState(client, "up")
	if peak := p.peakMemory(); peak > hostileMemoryMax {
		t.Errorf("redlockd took %d MB of memory, want at most %d", peak>>20, hostileMemoryMax>>20)
	} else {
		t.Logf("redlockd took %d MB of memory at most", peak>>20)
	}
}

// The commands that are no servers end as they should with the four good masters.
func TestHostileMasterOfCommands(t *testing.T) {
	h, addrs := hostileMasters(t)
	file := configFile(t, hostileConfig)
	wantRun(t, cli.ExitOK, "admitted", "", "bootstrap", "--config", file, "--masters", addrs)
	for i, answer := range hostileAnswers {
		for _, tt := range []struct {
			args []string
			want string // in what it prints
			code int
		}{
			{[]string{"check"}, "A quorum is available: 4 of 5 masters vote", cli.ExitOK},
			{[]string{"bootstrap"}, "0 of 5 masters admitted", cli.ExitFailed},
			{[]string{"run", "--wait", "10s", "resource", "--", "echo", "done"}, "done", cli.ExitOK},
		} {
			stage := []stage{{name: "HELLO", trigger: "hello"}, {name: "INFO", trigger: "info\r\n"}}[i%2]
			args := append([]string{tt.args[0], "--config", file, "--masters", addrs}, tt.args[1:]...)
			for attempt := 1; ; attempt++ {
				h.set(&play{stage: stage, answer: answer, gone: make(chan struct{})})
				code, stdout, stderr := runBinary(t, args...)
				right := code == tt.code && strings.Contains(stdout, tt.want)
				harmless := !strings.Contains(stderr, "goroutine ") && len(stdout)+len(stderr) <= 8<<10
				if right && harmless {
					break
				}
				report := fmt.Sprintf("%s, in the place of %s %.60q: exit code %d, output\n%.4000s\nerrors\n%.4000s\nwant code %d and %q in at most 8 KB",
					tt.args[0], stage.name, answer.text, code, stdout, stderr, tt.code, tt.want)
				if !harmless || attempt == 5 {
					t.Error(report)
					break
				}
				t.Logf("once more, for on a slow machine a good master may not answer within %s: %s", hostileTimeout, report)
			}
		}
	}
}

// hostileTimeout is short, for some answers are waited for until it is over.
const hostileTimeout = "400ms"

const hostileConfig = `
[locks]
max_ttl = "10s"
[master]
password = "secret"
timeout = "` + hostileTimeout + `"
connect_timeout = "500ms"
founding_wait = "10ms"
`

// hostileMasters starts four good masters, which are relayed to without a play, and a hostile one, h.
func hostileMasters(t *testing.T) (h *hostile, addrs string) {
	t.Helper()
	redisproc.Long(t)
	var all []string
	for range 5 {
		m := memmaster.New(memmaster.Options{Password: "secret"})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, ln.Addr().String())
		relay := &hostile{t: t, upstream: m, conns: map[net.Conn]bool{}}
		h = relay
		var served sync.WaitGroup
		served.Go(func() { relay.serve(ln) })
		t.Cleanup(func() {
			ln.Close()
			m.Close()
			served.Wait()
		})
	}
	return h, strings.Join(all, ",")
}

// try has the master play once, and checks what redlockd makes of it.
func (h *hostile) try(p *program, client *wire, stage stage, answer answer) {
	h.t.Helper()
	what := fmt.Sprintf("in the place of %s: %.60q", stage.name, answer.text)
	play := &play{stage: stage, answer: answer, gone: make(chan struct{})}
	if h.set(play); stage.lock == "" {
		h.cut(stage.invalidations)
	} else {
		// Of a token that redlockd made the release is kept, too.
		got := client.ask("LOCK " + stage.lock + " 10000")
		token, _, granted := strings.Cut(strings.TrimPrefix(got, "["), " ")
		if !granted {
			h.t.Fatalf("%s: LOCK: got %s, want it granted", what, got)
		}
		h.unlock(client, what, stage.lock, token)
	}
	select {
	case <-play.gone:
	case <-time.After(patience):
		h.t.Fatalf("%s: the connection is not given up (answered so: %d)", what, play.performed)
	}
	if !stage.invalidations {
		reason := h.wantState(client, "refused|down")
		if len(reason) < 5 || len(reason) > hostileReasonMax || strings.Contains(reason, "please report") {
			h.t.Errorf("%s: the reason is %q, want 5 to %d bytes, and no panic", what, reason, hostileReasonMax)
		}
	}
	got := client.do("LOCK other 10000 TOKEN t-other")
	if machineWasSlow(got) {
		h.slow++
		got = client.ask("LOCK other 10000 TOKEN t-other")
	}
	if !strings.HasPrefix(got, "[t-other") {
		h.t.Fatalf("%s: LOCK of something else: got %s, want it granted by the other masters", what, got)
	}
	h.unlock(client, what, "other", "t-other")
	h.set(nil)
	if stage.lock != "" {
		h.cut(false)
	}
	h.wantState(client, "up")
}

// unlock releases a lock that the good masters have. Where they were slow, redlockd releases it later.
func (h *hostile) unlock(client *wire, what, resource, token string) {
	h.t.Helper()
	if got := client.do("UNLOCK " + resource + " " + token); got != "1" && !machineWasSlow(got) {
		h.t.Errorf("%s: UNLOCK %s: got %s, want 1", what, resource, got)
	}
}

// set gives the master a play; nil: it is good.
func (h *hostile) set(p *play) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.play = p
}

// cut closes the connections to the master: those for invalidations, or those for all else.
func (h *hostile) cut(invalidations bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for conn, which := range h.conns {
		if which == invalidations {
			conn.Close()
		}
	}
}

var hostileLine = regexp.MustCompile(`master4:addr=[^,]*,state=(\w+),reason=([^,]*),`)

// wantState waits until INFO says that the master is in a state, and returns the reason it gives.
func (h *hostile) wantState(client *wire, states string) string {
	h.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		info := client.do("INFO masters")
		m := hostileLine.FindStringSubmatch(info)
		if m != nil && strings.Contains(states, m[1]) && !strings.Contains(m[2], "EOF") {
			return m[2]
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("the hostile master is not %s after %v: %s", states, patience, info)
		}
	}
}

// peakMemory is the most that the process has had in memory, in bytes.
func (p *program) peakMemory() int {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				p.t.Fatal(err)
			}
			return kb << 10
		}
	}
	p.t.Fatalf("no VmHWM in %s", status)
	return 0
}

package main

// Goal: a service that copies a recipe of README has a lock, however many of its threads want it at the same time, and is told when it has
// lost it. Method: the blocks of code as they stand there, run with the client libraries that TestLibraries has: by one caller, by a hundred
// in one process, with the lock taken away during the work, and behind a relay that cuts the connection in place of the first granted reply.

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// plainRecipes are programs around the recipes of README's section "A lock in your language". SETUP stands for the lines that make the
// clients, once in a process, and CALL for those of each caller. One caller prints "held", works until a line comes on standard input, and
// prints "released". CALLERS callers work for 2 ms each; then the program prints how many did, how many did so together at most, and how many
// were told an end of their lock that is over or too far away.
var plainRecipes = map[string]holdingRecipe{
	"python": {"python", "plain.py", "BUILD/current/bin/python FILE", `import logging, redis, threading, time, uuid
here = together = done = wrong = 0
counting = threading.Lock()
def send_invoices(end):
    global here, together, done, wrong
    with counting:
        here += 1
        together = max(together, here)
        done += 1
        if not 0 < end - time.monotonic() <= 30: wrong += 1
    if CALLERS > 1: time.sleep(0.002)
    else:
        print("held", flush=True)
        input()
    with counting: here -= 1
SETUP
def call():
CALL
callers = [threading.Thread(target=call) for _ in range(CALLERS)]
for caller in callers: caller.start()
for caller in callers: caller.join()
print("released" if CALLERS == 1 else f"{done} callers, {together} at once, {wrong} with a wrong end", flush=True)
`},
	"javascript": {"node", "plain.js", "node FILE", `const Redis = require('BUILD/node_modules/ioredis6')
const crypto = require('node:crypto')
let here = 0, together = 0, done = 0, wrong = 0
async function sendInvoices (end) {
  together = Math.max(together, ++here)
  done++
  const left = end - performance.now()
  if (!(left > 0 && left <= 30_000)) wrong++
  if (CALLERS > 1) await new Promise(resolve => setTimeout(resolve, 2))
  else await new Promise(resolve => { console.log('held'); process.stdin.once('data', resolve) })
  here--
}
SETUP
async function call () {
CALL
}
(async () => {
  await Promise.all(Array.from({ length: CALLERS }, call))
  console.log(CALLERS === 1 ? 'released' : done + ' callers, ' + together + ' at once, ' + wrong + ' with a wrong end')
  process.exit(0)
})()
`},
	"java": {"java", "Plain.java", "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp BUILD/lib/* FILE", `import java.time.Duration;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.*;
import redis.clients.jedis.*;
import redis.clients.jedis.commands.*;
import redis.clients.jedis.exceptions.*;
import redis.clients.jedis.executors.*;
import redis.clients.jedis.providers.*;

class Plain {
    static final java.util.logging.Logger log = java.util.logging.Logger.getLogger("plain");
    static final AtomicInteger here = new AtomicInteger(), together = new AtomicInteger(), done = new AtomicInteger(), wrong = new AtomicInteger();
    static void sendInvoices(long end) throws Exception {
        int now = here.incrementAndGet();
        together.updateAndGet(most -> Math.max(most, now));
        done.incrementAndGet();
        long left = end - System.nanoTime();
        if (left <= 0 || left > 30_000_000_000L) wrong.incrementAndGet();
        if (CALLERS > 1) Thread.sleep(2);
        else {
            System.out.println("held");
            System.in.read();
        }
        here.decrementAndGet();
    }
    public static void main(String[] args) throws Exception {
SETUP
        Callable<Void> call = () -> {
CALL
            return null;
        };
        List<Thread> callers = new ArrayList<>();
        for (int i = 0; i < CALLERS; i++) callers.add(new Thread(() -> { try { call.call(); } catch (Exception e) { e.printStackTrace(); } }));
        for (Thread caller : callers) caller.start();
        for (Thread caller : callers) caller.join();
        System.out.println(CALLERS == 1 ? "released" : done + " callers, " + together + " at once, " + wrong + " with a wrong end");
        System.exit(0);
    }
}
`},
	"go": {"go", "plain.go", "go run FILE", `package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	counting                    sync.Mutex
	here, together, done, wrong int
)

func sendInvoices(end time.Time) {
	counting.Lock()
	here++
	together = max(together, here)
	done++
	if left := time.Until(end); left <= 0 || left > 30*time.Second {
		wrong++
	}
	counting.Unlock()
	if CALLERS > 1 {
		time.Sleep(2 * time.Millisecond)
	} else {
		fmt.Println("held")
		fmt.Scanln()
	}
	counting.Lock()
	here--
	counting.Unlock()
}

func main() {
	runtime.GOMAXPROCS(1) // go-redis has ten connections for each, if not told otherwise
	ctx := context.Background()
SETUP
	call := func() {
CALL
	}
	var callers sync.WaitGroup
	for range CALLERS {
		callers.Go(call)
	}
	callers.Wait()
	if CALLERS == 1 {
		fmt.Println("released")
	} else {
		fmt.Printf("%d callers, %d at once, %d with a wrong end\n", done, together, wrong)
	}
}
`},
}

// lostWords are in what a recipe says when UNLOCK has answered 0.
const lostWords = "the lock had ended"

// recipesOfREADME are the blocks of code, by their language.
func recipesOfREADME(t *testing.T) map[string]string {
	_, section, _ := strings.Cut(readPage(t, "README.md"), "\n## A lock in your language\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)\n```(\\w+)\n(.*?)\n```").FindAllStringSubmatch(section, -1) {
		if n := strings.Count(block[2], "\n") + 1; n > 10 {
			t.Errorf("the recipe for %s has %d lines, at most 10", block[1], n)
		}
		blocks[block[1]] = block[2]
	}
	if len(blocks) != len(plainRecipes) {
		t.Fatalf("README has %d recipes, want %d", len(blocks), len(plainRecipes))
	}
	return blocks
}

// startPlain starts the recipe of README for a language: so many callers lock resource through the redlockd at addr.
func startPlain(t *testing.T, language, addr, resource string, callers int) *player {
	t.Helper()
	_, port, _ := strings.Cut(addr, ":")
	places := []string{"6380", port, "localhost", "127.0.0.1", `"invoices"`, `"` + resource + `"`, "'invoices'", "'" + resource + "'"}
	if callers > 1 { // that a machine is too slow to serve all of them within 10 s is no fault of the recipe
		places = append(places, `"10s"`, `"1m"`, "'10s'", "'1m'")
	}
	block := strings.NewReplacer(places...).Replace(recipesOfREADME(t)[language])
	lines := strings.Split(block, "\n")
	first := slices.IndexFunc(lines, regexp.MustCompile(`\btoken\b|\b30s\b`).MatchString) // line of a caller: it makes a token, or locks
	if first < 1 {
		t.Fatalf("the recipe for %s: no line makes the clients, or none takes the lock:\n%s", language, block)
	}
	const indent = "    " // Python needs it
	recipe := plainRecipes[language]
	recipe.text = strings.NewReplacer("SETUP", strings.Join(lines[:first], "\n"), "CALLERS", fmt.Sprint(callers),
		"CALL", indent+strings.Join(lines[first:], "\n"+indent)).Replace(recipe.text)
	return recipe.start(t, addr, resource, "")
}

// Each recipe holds the lock while the work goes on, and has released it afterwards. It says so if the lock has ended before.
func TestRecipesOfREADME(t *testing.T) {
	needLibraries(t)
	_, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap")
	for language := range plainRecipes {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			player := startPlain(t, language, p.addr, language, 1)
			player.wantAnswer("held")
			if got := redisCLI(t, p.addr, "LOCK", language, "1s"); got != "" {
				t.Errorf("the lock was granted to another while the work goes on: %s", got)
			}
			player.send("")
			player.wantAnswer("released")
			if got := redisCLI(t, p.addr, "LOCK", language, "1s"); got == "" {
				t.Error("the lock is not released")
			}
			player.wantSaid(lostWords, false)

			lost := language + "-lost"
			player = startPlain(t, language, p.addr, lost, 1)
			player.wantAnswer("held")
			redisCLI(t, p.addr, "UNLOCK", lost, "FORCE", "it is taken away")
			player.send("")
			player.wantAnswer("released")
			player.wantSaid(lostWords, true)
		})
	}
}

// A hundred callers of one process hand a lock on. None of them has to give up because another one waits.
func TestRecipesOfREADMEUnderConcurrency(t *testing.T) {
	needLibraries(t)
	_, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap")
	for language := range plainRecipes {
		t.Run(language, func(t *testing.T) {
			player := startPlain(t, language, p.addr, language, 100)
			player.wantAnswer("100 callers, 1 at once, 0 with a wrong end")
			player.wantSaid(lostWords, false)
		})
	}
}

// The reply that grants the lock is lost with its connection. The lock is asked for again with the same token, so that it is granted.
func TestRecipesOfREADMEAfterALostReply(t *testing.T) {
	needLibraries(t)
	_, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap")
	for language := range plainRecipes {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			relay := startLosingRelay(t, p.addr)
			player := startPlain(t, language, relay.addr, language, 1)
			player.wantAnswer("held")
			relay.wantLost(t)
			player.send("")
			player.wantAnswer("released")
			player.wantSaid(lostWords, false)
		})
	}
}

// wantSaid is called when the program has ended its work: has it written these words to standard error?
func (p *player) wantSaid(words string, want bool) {
	p.t.Helper()
	p.stdin.Close()
	for range p.answers { // until it ends
	}
	<-p.complained
	p.mu.Lock()
	defer p.mu.Unlock()
	got := false
	for _, line := range p.lines {
		got = got || strings.HasPrefix(line, p.name+"!") && strings.Contains(line, words)
	}
	if got != want {
		p.t.Errorf("%s: %q on standard error: %v, want %v", p.name, words, got, want)
	}
}

// losingRelay passes everything on, except the first reply that grants a lock to LOCK: instead, it cuts that connection.
type losingRelay struct {
	addr string
	lost chan struct{} // closed when that reply is lost
	once sync.Once
}

func startLosingRelay(t *testing.T, to string) *losingRelay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &losingRelay{addr: listener.Addr().String(), lost: make(chan struct{})}
	var conns sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		conns.Wait()
	})
	conns.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { r.relay(t, client, to) })
		}
	})
	return r
}

func (r *losingRelay) wantLost(t *testing.T) {
	t.Helper()
	select {
	case <-r.lost:
	default:
		t.Error("no reply was lost")
	}
}

// relay ends with one of the two connections, which it closes.
func (r *losingRelay) relay(t *testing.T, client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	ended := make(chan struct{})
	defer func() {
		client.Close()
		<-ended
	}()
	var mu sync.Mutex
	asked := false // LOCK has been sent
	go func() {
		defer close(ended)
		defer server.Close()
		copyParts(server, client, func(part []byte) bool {
			mu.Lock()
			defer mu.Unlock()
			asked = asked || bytes.Contains(part, []byte("\r\nLOCK\r\n"))
			return true
		})
	}()
	copyParts(client, server, func(part []byte) (keep bool) {
		mu.Lock()
		defer mu.Unlock()
		keep = true
		if asked && bytes.Contains(part, []byte("*2\r\n$")) { // a token and a validity
			r.once.Do(func() {
				keep = false
				close(r.lost)
			})
		}
		return keep
	})
}

// copyParts copies what comes from one end to the other, until keep says no.
func copyParts(to io.Writer, from io.Reader, keep func(part []byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !keep(buffer[:n]) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

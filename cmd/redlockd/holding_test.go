package main

// Goal: the recipes of holding.md hold a lock for as long as the work takes, and end the work when it
// is lost. Method: the blocks of code as they stand there, run with the client libraries that
// TestLibraries has; the lock is deleted on the masters.

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// holdingRecipe is a program around a block of holding.md. It holds a lock for holdingTTL, says "held",
// and says "over" when it may not believe any more that it does. HOST, PORT and NAME stand for
// redlockd's address and the resource, RECIPE for the blocks.
type holdingRecipe struct {
	language string
	file     string
	command  string // BUILD is what `make libraries` has made for the language, FILE the program
	text     string
}

const holdingTTL = 6 * time.Second // a library that does not answer for a third of it has lost its connection, and its lock

const pythonPrelude = `import redis, threading, time, types
RECIPE
ttl = 6.0
conn = connect("HOST", PORT, ttl)
`

const goPrelude = `package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

RECIPE
`

var holdingRecipes = map[string]holdingRecipe{
	"python": {"python", "hold.py", "BUILD/current/bin/python FILE", pythonPrelude + `asked = time.monotonic()
token, validity = conn.execute_command("LOCK", "NAME", "6s", "TOKEN", "NAME", "HOLD")
held = types.SimpleNamespace(end=asked + validity / 1000)
threading.Thread(target=keep_alive, args=(conn, held, ttl), daemon=True).start()
print("held", flush=True)
while time.monotonic() < held.end: time.sleep(0.01)
print("over", flush=True)
`},
	// The leaders lead again and again, and say each time when they begin and end.
	"leader in python": {"python", "lead.py", "BUILD/current/bin/python FILE", pythonPrelude + `said = []
def work(held):
    if not said: print("held", flush=True); said.append(1)
    time.sleep(0.01)
while True:
    try: lead(conn, work, ttl, "NAME")
    except redis.RedisError: time.sleep(0.1)
    if said: print("over", flush=True); said.clear()
`},
	"leader in javascript": {"node", "lead.js", "node FILE", `const Redis = require('BUILD/node_modules/ioredis6')
RECIPE
;(async () => {
  const conn = new (Redis.Redis ?? Redis)(PORT, 'HOST')
  conn.on('error', () => { })
  for (;;) {
    let said = false
    await lead(conn, async () => {
      if (!said) console.log('held')
      said = true
      await new Promise(resolve => setTimeout(resolve, 10))
    }, 6000, 'NAME').catch(() => new Promise(resolve => setTimeout(resolve, 100)))
    if (said) console.log('over')
  }
})()
`},
	"leader in go": {"go", "lead.go", "FILE.program", goPrelude + `
func main() {
	client := redis.NewClient(&redis.Options{Addr: "HOST:PORT"})
	for {
		said := false
		lead(context.Background(), client, func(*atomic.Pointer[time.Time]) {
			if !said {
				fmt.Println("held")
			}
			said = true
			time.Sleep(10 * time.Millisecond)
		}, 6*time.Second, "NAME")
		if said {
			fmt.Println("over")
		}
		time.Sleep(100 * time.Millisecond)
	}
}
`},
	"javascript": {"node", "hold.js", "node FILE", `const Redis = require('BUILD/node_modules/ioredis6')
RECIPE
;(async () => {
  const conn = new (Redis.Redis ?? Redis)(PORT, 'HOST')
  const asked = performance.now()
  const [, validity] = await conn.call('LOCK', 'NAME', '6s', 'TOKEN', 'NAME', 'HOLD')
  const held = { end: asked + validity }
  keepAlive(conn, held, 6000)
  console.log('held')
  while (performance.now() < held.end) await new Promise(resolve => setTimeout(resolve, 10))
  console.log('over')
  process.exit(0)
})()
`},
	"java": {"java", "Hold.java", "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp BUILD/lib/* FILE", `import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisException;

class Hold {
RECIPE
    public static void main(String[] args) throws Exception {
        Jedis conn = new Jedis("HOST", PORT, 2000);
        long asked = System.nanoTime();
        List<?> granted = (List<?>) conn.sendCommand(() -> "LOCK".getBytes(), "NAME", "6s", "TOKEN", "NAME", "HOLD");
        AtomicLong end = new AtomicLong(asked + 1_000_000 * (Long) granted.get(1));
        Thread thread = new Thread(() -> { try { keepAlive(conn, end, 6000); } catch (InterruptedException e) { } });
        thread.setDaemon(true);
        thread.start();
        System.out.println("held");
        while (System.nanoTime() - end.get() < 0) Thread.sleep(10);
        System.out.println("over");
    }
}
`},
	"go": {"go", "hold.go", "FILE.program", goPrelude + `
func main() {
	ctx := context.Background()
	conn := redis.NewClient(&redis.Options{Addr: "HOST:PORT"}).Conn()
	asked := time.Now()
	granted, err := conn.Do(ctx, "LOCK", "NAME", "6s", "TOKEN", "NAME", "HOLD").Slice()
	if err != nil {
		panic(err)
	}
	var end atomic.Pointer[time.Time]
	until := asked.Add(time.Duration(granted[1].(int64)) * time.Millisecond)
	end.Store(&until)
	go keepAlive(ctx, conn, &end, 6*time.Second)
	fmt.Println("held")
	for time.Now().Before(*end.Load()) {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("over")
}
`},
}

func TestHoldingRecipes(t *testing.T) {
	needLibraries(t)
	text, err := os.ReadFile("holding.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := make(map[string]string)
	for _, block := range regexp.MustCompile("(?s)\n```(\\w+)\n(.*?)\n```\n").FindAllStringSubmatch(string(text), -1) {
		blocks[block[1]] += block[2] + "\n"
	}
	masters, addrs := startMasters(t, 3)
	p := launch(t, "--masters", addrs, "--bootstrap")
	for name, recipe := range holdingRecipes {
		language, leads := strings.CutPrefix(name, "leader in ")
		block, resource := blocks[language], language
		if leads {
			resource = strings.ReplaceAll(name, " ", "-")
			leader := func(t *testing.T, addr, resource string) *player {
				return recipe.start(t, addr, resource, leading(block, resource))
			}
			t.Run(name+" that stands still", func(t *testing.T) {
				t.Parallel()
				resource := resource + "-still"
				still := leader(t, p.addr, resource)
				still.wantAnswer("held")
				still.freeze() // its connection stands
				if got := redisCLI(t, p.addr, "LOCK", resource, "5s", "WAIT", "1m"); got == "" {
					t.Error("nobody else may lead while the process of the leader stands still")
				}
				still.thaw()
				still.wantAnswer("over")
			})
			// The only redlockd is killed and restarted: the leader leads again, and nobody else has the lock meanwhile.
			t.Run(name+" whose server restarts", func(t *testing.T) {
				t.Parallel()
				resource := resource + "-restart"
				only := launch(t, "--masters", addrs)
				leads := leader(t, only.addr, resource)
				leads.wantAnswer("held")
				only.signal(syscall.SIGKILL)
				only.exitCode()
				w := only.again().dial()
				w.want("LOCK "+resource+" 1s", "null")
				w.eventually("LOCKINFO "+resource, func(got string) bool {
					if strings.Contains(got, "[held 0 ") {
						t.Fatalf("nobody has the lock: %s", got)
					}
					return strings.Contains(got, "renewed") || w.info("bound") == 1
				})
				leads.wantAnswer("over")
				leads.wantAnswer("held")
			})
		}
		take := func(t *testing.T, resource string) {
			for _, m := range masters {
				redisCLI(t, m.Addr, "DEL", resource)
			}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recipe.run(t, p.addr, resource, leading(block, resource), take)
		})
		if name == "java" || name == "go" {
			continue // they report that the reply was lost
		}
		t.Run(name+" after a lost reply", func(t *testing.T) {
			t.Parallel()
			relay := startLosingRelay(t, p.addr)
			recipe.run(t, relay.addr, resource+"-lost", leading(block, resource+"-lost"), take)
			relay.wantLost(t)
		})
	}
}

// leading is a recipe with another resource to lead.
func leading(block, resource string) string {
	return strings.NewReplacer(`"leader"`, `"`+resource+`"`, "'leader'", "'"+resource+"'").Replace(block)
}

// start starts the program, around a block of a page.
func (r holdingRecipe) start(t *testing.T, addr, name, block string) *player {
	build, err := filepath.Abs(filepath.Join(librariesDir, "build", r.language))
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := strings.Cut(addr, ":")
	file := filepath.Join(t.TempDir(), r.file)
	places := strings.NewReplacer("RECIPE", block, "HOST", host, "PORT", port, "NAME", name, "BUILD", build, "FILE", file)
	writeFile(t, file, places.Replace(r.text), 0o600)
	if r.language == "go" { // not go run, which would stand between it and our signals
		output(t, ".", "go", "build", "-o", file+".program", file)
	}
	args := strings.Fields(r.command)
	for i := range args {
		args[i] = places.Replace(args[i])
	}
	talk := &dialogue{t: t}
	t.Cleanup(talk.print)
	return talk.start(name, exec.Command(args[0], args[1:]...))
}

// run runs the program, and takes its lock away when it has held it for longer than the ttl.
func (r holdingRecipe) run(t *testing.T, addr, name, block string, take func(t *testing.T, resource string)) {
	p := r.start(t, addr, name, block)
	p.wantAnswer("held")
	p.wantNoAnswer(2 * holdingTTL) // the lock is renewed
	if got := redisCLI(t, addr, "LOCK", name, "1s"); got != "" {
		t.Errorf("the lock was granted to another: %s", got)
	}
	take(t, name)
	p.wantAnswer("over")
}

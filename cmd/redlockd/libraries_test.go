package main

// Goal: lock libraries that were written for one Redis work unmodified when their address is
// redlockd's. Method: each row of the table is a program with that library (testdata/libraries, built
// by `make libraries`), driven by lines on its standard input. Two processes of it, and redlockd's own
// LOCK, contend for locks through one redlockd over five redis-servers; what they are told is compared
// with the table, and what is stored with the masters. Locks expire under their holder, scripts are
// forgotten, redlockd is killed and started again, masters are killed.
//
// REDLOCK_LIBRARIES_TARGET=host:port takes the server there instead, a plain redis-server for one: then
// redlockd, its restart and its masters are left out.

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/redisproc"
)

// library is a row: a program, and the words it answers where libraries differ
// (testdata/libraries/README.md explains them).
type library struct {
	language string
	command  string   // BUILD stands for the directory of the built programs of its language, SOURCE for that of its source
	name     string   // the last argument of the program
	keys     []string // the keys of a lock on the masters, where they are not just the name: "mutex:%s"
	later    []string // keys that the library takes after its answer

	extend   string // "ok" by default
	inspect  string // "held" by default
	released string // the answer to a release: "ok" by default
	lost     string // the answer to a release of a lock that is not held any more: "refused" by default

	// The patterns that allow_unguarded must have for the library.
	unguarded []string
	// Locks of the library can be held by several at a time, who exclude those of this one.
	excludes string
	// The library counts its holders, of whom there is one at most: its key stays, with the number 0.
	counts bool
	// The library keeps a lock in a hash or a sorted set, and fails with this word where it finds a
	// token under its key.
	atToken string
	// With the holder, the library keeps until when it holds the lock: an extension changes that.
	keepsTime bool
	// In the place of short, where the library asks for what is left of a TTL, which may be less than min_ttl by then.
	short int
	// The library renews its locks itself: such a lock expires only under a process that stands still.
	renews bool
	// The library needs what redlockd does not keep. This step, "try" by default, must fail with this
	// text in its error.
	refuses, refusal string
}

var libraries = slices.Concat(
	rows("go", "BUILD/locks",
		library{name: "redsync"},
		library{name: "redislock"},
		library{name: "rueidislock", extend: "unsupported", released: "silent", lost: "silent", renews: true,
			keys: []string{"rueidislock:0:%s", "rueidislock:1:%s"}, later: []string{"rueidislock:2:%s"}},
		library{name: "go-redis"},
		library{name: "redigo"},
	),
	rows("node", "BUILD/node BUILD/main.js",
		library{name: "redlock4", inspect: "unsupported"},
		library{name: "redlock5", inspect: "unsupported"},
		library{name: "redis-semaphore", extend: "unsupported", released: "silent", lost: "silent", renews: true,
			keys: []string{"mutex:%s"}},
		library{name: "semaphore", extend: "unsupported", released: "silent", lost: "silent", renews: true, atToken: "wrongtype",
			keys: []string{"semaphore:%s"}},
		library{name: "medusa", inspect: "unsupported", keys: []string{"medusa_lock:%s"}},
		library{name: "medusa-execute", extend: "unsupported", released: "silent", lost: "silent", renews: true,
			keys: []string{"medusa_lock:%s"}},
		library{name: "ioredis5"},
		library{name: "ioredis6"},
		library{name: "node-redis"},
	),
	rows("python", "BUILD/current/bin/python SOURCE/main.py",
		library{name: "redis-py"},
		library{name: "redis-py-asyncio"},
		library{name: "redlock-py", extend: "unsupported", inspect: "unsupported", released: "silent", lost: "silent"},
		library{name: "pottery", keys: []string{"redlock:%s"}},
		// It takes a lock with SET, but its release pushes to a list.
		library{name: "python-redis-lock", refuses: "release", refusal: "lpush"},
		library{name: "redbeat"}, // its lock alone
		library{name: "kombu", extend: "unsupported", inspect: "unsupported", released: "silent", lost: "silent"},
		library{name: "prefect", extend: "unsupported", inspect: "unsupported", released: "silent", lost: "silent", keys: []string{"lock:%s"}},
		library{name: "dramatiq", extend: "unsupported", inspect: "unsupported", released: "silent", counts: true},
	),
	rows("python", "BUILD/redis4/bin/python SOURCE/main.py",
		library{name: "redis-py-4"},
		library{name: "redis-py-4-asyncio"},
	),
	rows("java", "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp BUILD/classes:BUILD/lib/* Main",
		library{name: "jedis"},
		library{name: "lettuce"},
		library{name: "spring-integration", inspect: "unsupported", keys: []string{"registry:%s"}},
		library{name: "shedlock-safe-update", short: 1_100, inspect: "unsupported", released: "silent", keys: []string{"job-lock:default:%s"}},
		library{name: "redisson", extend: "unsupported", atToken: "wrongtype"},
		library{name: "redisson-watchdog", extend: "unsupported", atToken: "wrongtype", renews: true},
		library{name: "redisson-spin", extend: "unsupported", atToken: "wrongtype"},
		// They end with PEXPIRE for all locks together, which compares nothing.
		library{name: "redisson-multi", extend: "unsupported", inspect: "unsupported", keys: []string{"%s:1", "%s:2"}, unguarded: everyLock},
		library{name: "redisson-multi", refusal: "without comparing"},
		library{name: "redisson-redlock", extend: "unsupported", inspect: "unsupported", lost: "ok", keys: []string{"%s:1", "%s:2", "%s:3"}, unguarded: everyLock},
		library{name: "redisson-write", extend: "unsupported", atToken: "wrongtype"},
		// Each hold of a reader has a key besides, which is extended and deleted without being
		// compared.
		library{name: "redisson-read", excludes: "redisson-write", renews: true},
		// What they count or queue has no TTL.
		library{name: "redisson-fair", refusal: "lindex"},
		library{name: "redisson-fenced", refusal: "lock with fence"},
		// By default, it extends with SET XX and releases with DEL: whatever is there, its own or not.
		library{name: "shedlock", short: 1_100, extend: "unsupported", inspect: "unsupported", refuses: "release", refusal: "del "},
	),
	rows("java", "java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp BUILD/classes:BUILD/redisson3/* Main",
		library{name: "redisson-3", extend: "unsupported", atToken: "wrongtype"},
		library{name: "redisson-3-redlock", extend: "unsupported", inspect: "unsupported", lost: "ok", keys: []string{"%s:1", "%s:2", "%s:3"}, unguarded: everyLock},
		library{name: "redisson-3-read", excludes: "redisson-3-write", renews: true},
	),
	rows("rust", "BUILD/debug/locks",
		library{name: "rslock", released: "silent", lost: "silent"},
	),
	rows("php", "php SOURCE/main.php",
		library{name: "phpredis"},
		library{name: "symfony", released: "silent", lost: "silent", keepsTime: true},
		library{name: "symfony-by-digest", released: "silent", lost: "silent", keepsTime: true},
		library{name: "symfony-read", released: "silent", lost: "silent", excludes: "symfony"},
		library{name: "laravel", extend: "unsupported", inspect: "unsupported", keys: []string{"cache:%s"}},
		// No package has these two, and none has the two gems of Ruby: what they send is replayed.
		library{name: "drupal", inspect: "unsupported", released: "silent", lost: "silent", keys: []string{"drupal:lock:%s"}},
		library{name: "mediawiki", extend: "unsupported", inspect: "unsupported", atToken: "wrongtype"},
	),
	rows("ruby", "ruby SOURCE/main.rb",
		library{name: "redis-rb"},
		library{name: "redlock-rb", released: "silent", lost: "silent"},
		library{name: "mastodon", extend: "unsupported"},
	),
	rows("perl", "perl SOURCE/main.pl", library{name: "redis-pm"}),
	rows("c", "BUILD/main", library{name: "hiredis"}),
)

// everyLock has the names of all locks that the trials take.
var everyLock = []string{"*"}

// rows are libraries whose programs are started alike.
func rows(language, command string, all ...library) []library {
	for i := range all {
		all[i].language, all[i].command = language, command
	}
	return all
}

// librariesDir holds the programs: their sources, and in build what `make libraries` made of them.
const librariesDir = "testdata/libraries"

// needLibraries leaves out a test that runs these programs, those of all languages if none is named, which
// takes long, unless all tests run.
func needLibraries(t *testing.T, languages ...string) {
	t.Helper()
	redisproc.Long(t)
	if out, err := exec.Command(filepath.Join(librariesDir, "build.sh"), append([]string{"--check"}, languages...)...).CombinedOutput(); err != nil {
		redisproc.LeaveOut(t, fmt.Sprintf("the client libraries are not ready (%v): run `make libraries`\n%s", err, out))
	}
}

func TestLibraries(t *testing.T) {
	needLibraries(t)
	// To have read the stamps keeps `go test` from showing a result of other programs from its cache.
	for _, lib := range libraries {
		if _, err := os.ReadFile(filepath.Join(librariesDir, "build", lib.language, "stamp")); err != nil {
			t.Fatal(err)
		}
	}
	atOnce := 2 // some are a JVM per process: more at once would make each other slow
	if os.Getenv("REDLOCK_LIBRARIES_TARGET") != "" {
		atOnce = 1 // on one server, the locks of two trials would meet
	}
	few := make(chan struct{}, atOnce)
	for _, lib := range libraries {
		t.Run(lib.language+"/"+lib.name, func(t *testing.T) {
			t.Parallel()
			few <- struct{}{}
			defer func() { <-few }()
			tryLibrary(t, lib)
		})
	}
}

// Locks of these lengths, in milliseconds: long ones never run out within a step, and the longer can be
// told from the long by what is left of it.
const (
	long    = 20_000
	longer  = 50_000
	between = 30_000
	short   = 1_000
	renewed = 5_000 // some renew their locks when a fifth is left
	noLease = -1    // Redisson: it renews the lock, which lives for as long as it says
)

// trial is one library that is tried on one fleet.
type trial struct {
	*dialogue
	lib  library
	on   *fleet
	a, b *player
}

func tryLibrary(t *testing.T, lib library) {
	lib.extend, lib.inspect = cmp.Or(lib.extend, "ok"), cmp.Or(lib.inspect, "held")
	lib.released, lib.lost = cmp.Or(lib.released, "ok"), cmp.Or(lib.lost, "refused")
	if lib.keys == nil {
		lib.keys = []string{"%s"}
	}
	talk := &dialogue{t: t}
	on := startFleet(t, lib.unguarded)
	// Registered after the fleet, so that it runs before the fleet ends: the dialogue first, then the
	// log.
	t.Cleanup(talk.print)
	tr := &trial{dialogue: talk, lib: lib, on: on, a: talk.enter("A", lib, on.addr)}
	if lib.refusal != "" {
		if on.proxy != nil {
			tr.refusal()
		}
		return
	}
	tr.b = talk.enter("B", lib, on.addr)
	if lib.excludes != "" {
		tr.sharing()
		return
	}
	if lib.counts {
		tr.counting()
		return
	}

	tr.exclusion()
	tr.waiting()
	tr.expiry()
	if lib.renews {
		tr.renewal(renewed, tr.b)
	}
	tr.scriptsForgotten()
	if on.proxy != nil {
		tr.nativeCommands()
		tr.proxyRestarts()
		tr.mastersDie()
	}
}

// refusal is the trial of what redlockd does not keep.
func (tr *trial) refusal() {
	if tr.lib.refuses == "" {
		tr.a.wantError("try books 20000", tr.lib.refusal)
		return
	}
	tr.a.want("try books 20000", "ok")
	tr.a.want("inspect", tr.lib.inspect)
	if tr.lib.extend == "ok" {
		tr.a.want(fmt.Sprint("extend ", longer), "ok")
	}
	tr.a.wantError(tr.lib.refuses, tr.lib.refusal)
}

// untilItWaits is how long a client has from its command until it waits for the release. Redisson 4.7 misses a message that comes in the
// moment of its first subscription, also at a Redis: on a loaded machine that moment is longer than 50 ms after its command.
const untilItWaits = 500 * time.Millisecond

func (tr *trial) exclusion() {
	tr.stage("exclusion")
	tr.a.want("try books 20000", "ok")
	value := tr.wantStored("books", 1)
	tr.b.want("try books 20000", "refused")
	tr.a.want(fmt.Sprint("extend ", longer), tr.lib.extend)
	if tr.lib.extend == "ok" {
		tr.wantStored("books", between)
	}
	tr.a.want("inspect", tr.lib.inspect)
	if got := tr.wantStored("books", 1); got != value && !tr.lib.keepsTime {
		tr.t.Errorf("the value of the key changed from %q to %q while the lock was held", value, got)
	}
	tr.a.want("release", tr.lib.released)
	tr.wantGone("books")
	tr.a.want("release", tr.lib.lost)
	tr.b.want("try books 20000", "ok")
	tr.a.want("try books 20000", "refused")
	tr.b.want("release", tr.lib.released)
	tr.wantGone("books")
}

// sharing is the trial of locks that several hold at a time. W is who needs it alone.
func (tr *trial) sharing() {
	alone := tr.lib
	alone.name = tr.lib.excludes
	w := tr.enter("W", alone, tr.on.addr)
	tr.stage("readers share")
	tr.a.want("try books 20000", "ok")
	tr.b.want("try books 20000", "ok")
	w.want("try books 20000", "refused")
	tr.a.want("release", tr.lib.released)
	tr.a.want("release", tr.lib.lost)
	w.want("try books 20000", "refused")
	tr.b.want("inspect", "held")
	tr.b.want("release", tr.lib.released)
	tr.wantGone("books")
	w.want("try books 20000", "ok")
	tr.a.want("try books 20000", "refused")
	tr.a.send("acquire books 20000")
	tr.a.wantNoAnswer(untilItWaits)
	w.want("release", tr.lib.released)
	tr.a.wantAnswer("ok")
	tr.a.want("release", tr.lib.released)
	tr.wantGone("books")
	if tr.lib.renews {
		tr.renewal(noLease, w)
	}
	if tr.on.proxy == nil {
		return
	}
	tr.stage("redlockd is killed and started again")
	tr.takeEverywhere("books", tr.a, tr.b)
	tr.on.dial(tr.t).want("LOCK books 20000", "null")
	tr.on.restartProxy(tr.t)
	for _, p := range []*player{tr.a, tr.b, w} {
		p.eventually("ping", "ok")
	}
	w.want("try books 20000", "refused")
	tr.stage("two of five masters are killed")
	tr.on.masters[0].Kill()
	tr.on.masters[3].Kill()
	w.wantKnown("try books 20000", "refused")
	tr.a.want("release", tr.lib.released)
	tr.b.want("inspect", "held")
	tr.b.want("release", tr.lib.released)
	tr.wantGone("books")
	w.want("try books 20000", "ok")
	tr.a.want("try books 20000", "refused")
	w.want("release", tr.lib.released)
}

// counting is the trial of limiters that let one in at a time. An increment that finds the key changed
// since it was read is tried again.
func (tr *trial) counting() {
	wantCount := func(want string) {
		tr.t.Helper()
		tr.wantStored("limited", 1)
		tr.on.dial(tr.t).want("GET limited", want)
	}
	change := func() {
		tr.t.Helper()
		tr.b.want("try limited 20000", "refused")
		tr.b.send("acquire limited 20000")
		tr.b.wantNoAnswer(untilItWaits)
		tr.a.want("release", tr.lib.released)
		tr.b.wantAnswer("ok")
		tr.a.want("try limited 20000", "refused")
		wantCount("1")
		tr.b.want("release", tr.lib.released)
		wantCount("0")
	}
	tr.stage("one at a time")
	tr.a.want("try limited 20000", "ok")
	change()
	tr.stage("expiry")
	tr.a.want(fmt.Sprint("try late ", short), "ok")
	tr.wantGone("late")
	tr.b.want("try late 20000", "ok")
	tr.a.want("release", tr.lib.released)
	tr.a.want("try late 20000", "ok") // too early: it has counted down what B had counted up
	if tr.on.proxy == nil {
		return
	}
	tr.on.dial(tr.t).want("LOCK limited 20000", "null")
	tr.stage("redlockd is killed and started again")
	tr.a.want("try limited 20000", "ok")
	tr.on.restartProxy(tr.t)
	tr.a.eventually("ping", "ok")
	tr.b.eventually("ping", "ok")
	change()
	tr.stage("two of five masters are killed")
	tr.takeEverywhere("limited", tr.a)
	tr.on.masters[0].Kill()
	tr.on.masters[3].Kill()
	tr.b.wantKnown("try limited 20000", "refused")
	change()
}

func (tr *trial) waiting() {
	tr.stage("waiting")
	tr.a.want("try queue 20000", "ok")
	tr.b.send("acquire queue 20000")
	tr.b.wantNoAnswer(untilItWaits)
	tr.a.want("release", tr.lib.released)
	tr.b.wantAnswer("ok")
	tr.wantStored("queue", 1)
	tr.b.want("release", tr.lib.released)
	tr.wantGone("queue")
}

// expiry: the lock of A runs out and B gets it. A learns of its loss, and whatever it does leaves the
// lock of B alone.
func (tr *trial) expiry() {
	tr.stage("expiry")
	tr.a.want(fmt.Sprint("acquire expiring ", cmp.Or(tr.lib.short, short)), "ok")
	if tr.lib.renews {
		tr.a.freeze()
	}
	tr.wantGone("expiring")
	tr.b.want("try expiring 20000", "ok")
	value := tr.wantStored("expiring", 1)
	if tr.lib.renews {
		tr.a.thaw()
		tr.a.eventually("inspect", "lost")
	} else {
		if tr.lib.inspect == "held" {
			tr.a.want("inspect", "lost")
		}
		if tr.lib.extend == "ok" {
			tr.a.want("extend 20000", "refused")
		}
	}
	tr.a.want("release", tr.lib.lost)
	if tr.lib.inspect == "held" {
		tr.b.want("inspect", "held")
	}
	if got := tr.wantStored("expiring", 1); got != value {
		tr.t.Errorf("B's lock: the value of the key changed from %q to %q by what A did", value, got)
	}
	tr.b.want("release", tr.lib.released)
	tr.wantGone("expiring")
}

// renewal: the library gives its lock more time, again and again, and other does not get it.
func (tr *trial) renewal(ttl int, other *player) {
	tr.stage("renewal")
	tr.a.want(fmt.Sprint("acquire renewed ", ttl), "ok")
	key := tr.keys("renewed")[0]
	left := func() time.Duration {
		found := tr.on.stored(tr.t, key)
		if len(found) < tr.on.quorum() {
			tr.t.Fatalf("%s: want it on %d masters, got %v", key, tr.on.quorum(), found)
		}
		return found[0].left
	}
	for end := time.Now().Add(left()); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		left()
	}
	left() // longer than the TTL, which some choose themselves
	other.want("try renewed 20000", "refused")
	tr.a.want("inspect", "held")
	tr.a.want("release", tr.lib.released)
	tr.wantGone("renewed")
}

func (tr *trial) scriptsForgotten() {
	tr.stage("scripts forgotten")
	tr.a.want("try scripts 20000", "ok")
	tr.on.dial(tr.t).want("SCRIPT FLUSH", "OK")
	tr.a.want(fmt.Sprint("extend ", longer), tr.lib.extend)
	tr.on.dial(tr.t).want("SCRIPT FLUSH", "OK")
	tr.a.want("release", tr.lib.released)
	tr.wantGone("scripts")
}

// nativeCommands: the library and LOCK exclude each other.
func (tr *trial) nativeCommands() {
	tr.stage("redlockd's own commands")
	native := tr.on.dial(tr.t)
	tr.a.want("try shared 20000", "ok")
	for _, key := range tr.keys("shared") {
		native.want("LOCK "+key+" 20000", "null")
	}
	tr.a.want("release", tr.lib.released)
	tr.wantGone("shared")
	for _, key := range tr.keys("shared") {
		native.lock(key, "native")
	}
	if tr.lib.atToken != "" {
		tr.a.wantError("try shared 20000", tr.lib.atToken)
	} else {
		tr.a.want("try shared 20000", "refused")
	}
	for _, key := range tr.keys("shared") {
		native.want("UNLOCK "+key+" native", "1")
	}
	tr.a.want("acquire shared 20000", "ok")
	tr.a.want("release", tr.lib.released)
	tr.wantGone("shared")
}

// proxyRestarts: a lock outlives redlockd; the library connects again and goes on with it.
func (tr *trial) proxyRestarts() {
	tr.stage("redlockd is killed and started again")
	tr.a.want("try restart 20000", "ok")
	tr.on.restartProxy(tr.t)
	tr.wantStored("restart", 1)
	tr.a.eventually("ping", "ok")
	tr.b.eventually("ping", "ok")
	tr.b.want("try restart 20000", "refused")
	tr.a.want(fmt.Sprint("extend ", longer), tr.lib.extend)
	tr.a.want("inspect", tr.lib.inspect)
	tr.a.want("release", tr.lib.released)
	tr.wantGone("restart")
	tr.b.want("try restart 20000", "ok")
	tr.b.want("release", tr.lib.released)
	tr.wantGone("restart")
}

func (tr *trial) mastersDie() {
	tr.stage("two of five masters are killed")
	tr.takeEverywhere("masters", tr.a)
	tr.on.masters[0].Kill()
	tr.on.masters[3].Kill()
	tr.b.wantKnown("try masters 20000", "refused")
	tr.a.want(fmt.Sprint("extend ", longer), tr.lib.extend)
	tr.a.want("inspect", tr.lib.inspect)
	tr.a.want("release", tr.lib.released)
	tr.wantGone("masters")
	tr.b.want("acquire masters 20000", "ok")
	tr.wantStored("masters", 1)
	tr.a.want("try masters 20000", "refused")
	tr.b.want("release", tr.lib.released)
	tr.wantGone("masters")

	tr.stage("a third master is killed")
	tr.on.masters[1].Kill()
	if got := tr.a.ask("try masters 20000"); got == "ok" {
		tr.t.Errorf("A try masters: got %q with two of five masters", got)
	}
	tr.wantGone("masters")
}

func (tr *trial) keys(name string) []string { return named(tr.lib.keys, name) }

func named(formats []string, name string) []string {
	var all []string
	for _, format := range formats {
		all = append(all, fmt.Sprintf(format, name))
	}
	return all
}

// wantStored checks that a quorum of the masters holds one value under each key of the lock, for
// leftMin ms at least.
func (tr *trial) wantStored(name string, leftMin int64) (value string) {
	tr.t.Helper()
	for _, key := range tr.keys(name) {
		found := tr.on.stored(tr.t, key)
		votes := map[string]int{}
		for _, entry := range found {
			if entry.left.Milliseconds() >= leftMin {
				votes[entry.value]++
			}
		}
		value = ""
		for v, n := range votes {
			if n >= tr.on.quorum() {
				value = v
			}
		}
		if value == "" {
			tr.t.Fatalf("%s: want one value on %d masters for %d ms at least, got %v", key, tr.on.quorum(), leftMin, found)
		}
	}
	return value
}

// takeEverywhere has the players take the lock until all masters hold the same of it. On a busy machine
// a master can miss a change, and what is left when two others are killed is no quorum then.
func (tr *trial) takeEverywhere(name string, players ...*player) {
	tr.t.Helper()
	for range 10 {
		for _, p := range players {
			p.want("try "+name+" 20000", "ok")
		}
		for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if tr.sameEverywhere(name) {
				return
			}
		}
		for _, p := range players {
			p.want("release", tr.lib.released)
		}
		tr.wantGone(name)
	}
	tr.t.Fatalf("%s: the masters do not come to hold the same", name)
}

func (tr *trial) sameEverywhere(name string) bool {
	for _, key := range tr.keys(name) {
		found := tr.on.stored(tr.t, key)
		if len(found) != len(tr.on.masters) {
			return false
		}
		for _, entry := range found {
			if entry.value != found[0].value {
				return false
			}
		}
	}
	return true
}

// wantGone waits until no master holds a key of the lock: a quorum is enough for an answer, the others
// follow.
func (tr *trial) wantGone(name string) {
	tr.t.Helper()
	for _, key := range append(tr.keys(name), named(tr.lib.later, name)...) {
		until(tr.t, key+" is gone", func() bool { return len(tr.on.stored(tr.t, key)) == 0 })
	}
}

// fleet is redlockd over five masters, or one server without redlockd.
type fleet struct {
	addr  string
	proxy *program
	// unguarded is what allow_unguarded has.
	unguarded []string
	flags     []string // further ones, of redlockd
	masters   []*redisproc.Server
	clients   []*redis.Client // of all masters, or of the one server
}

func startFleet(t *testing.T, unguarded []string, flags ...string) *fleet {
	f := &fleet{addr: os.Getenv("REDLOCK_LIBRARIES_TARGET"), unguarded: unguarded, flags: flags}
	addrs := []string{f.addr}
	if f.addr == "" {
		f.masters, _ = startMasters(t, 5)
		addrs = redisproc.Addrs(f.masters)
		f.addr = redisproc.KeepAddr(t) // it is restarted there
		f.startProxy(t)
	}
	for _, addr := range addrs {
		client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: patience})
		t.Cleanup(func() { client.Close() })
		f.clients = append(f.clients, client)
	}
	return f
}

func (f *fleet) startProxy(t *testing.T) {
	text := fmt.Sprintf("masters = %q\n[compat]\nallow_unguarded = %q\n", redisproc.Addrs(f.masters), f.unguarded)
	text = strings.ReplaceAll(text, "\" \"", "\", \"")
	config := configFile(t, text)
	f.proxy = launch(t, append([]string{"--bootstrap", "--config", config, "--listen", f.addr}, f.flags...)...)
}

func (f *fleet) restartProxy(t *testing.T) {
	t.Helper()
	f.proxy.signal(os.Kill)
	f.proxy.exitCode()
	f.startProxy(t)
}

func (f *fleet) dial(t *testing.T) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	return newWire(t, conn)
}

func (f *fleet) quorum() int { return len(f.clients)/2 + 1 }

type entry struct {
	value string
	left  time.Duration
}

func (e entry) String() string { return fmt.Sprintf("%q for %v", e.value, e.left) }

// stored reads a key from every master that runs.
func (f *fleet) stored(t *testing.T, key string) (found []entry) {
	t.Helper()
	for i, client := range f.clients {
		if f.masters != nil && f.masters[i].Pid() == 0 {
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		pipe := client.Pipeline()
		value, left := pipe.Dump(ctx, key), pipe.PTTL(ctx, key) // of whatever type, on one server
		_, err := pipe.Exec(ctx)
		cancel()
		if err == redis.Nil {
			continue
		}
		if err != nil {
			t.Fatalf("read %s: %v", key, err)
		}
		found = append(found, entry{value.Val(), left.Val()})
	}
	return found
}

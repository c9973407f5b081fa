package redlock

// Goal: a batch does to a master exactly what its rounds would do one after the other, although releases are hoisted and
// folded. Method: the commands of directed batches, and random batches against one-by-one execution on a second master.

import (
	"cmp"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/memmaster"
	"redlockd/redlock/quorum"
	"redlockd/redlock/redisproc"
	"redlockd/redlock/resp"
)

// standing returns a lane with a vetted connection to an admitted master, and no goroutine: the test sends its batches.
func standing(t testing.TB, m *memmaster.Master) *batch {
	return standingOn(t, Master{Addr: "m", Dialer: m.Dial})
}

func standingOn(t testing.TB, m Master) *batch {
	o := Options{Masters: []Master{m}}
	patient(&o)
	o = o.withDefaults()
	if err := Bootstrap(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	c := newClient(o)
	c.own.Start(time.Now())
	t.Cleanup(c.fleet.end)
	l := newLane(&c.fleet, 0, o.Masters[0])
	s := survey.Ask(t.Context(), map[int]Master{0: o.Masters[0]}, survey.Patience{Enough: 1}, o.members())
	defer s.Close()
	c.fleet.coordinator = c.newCoordinator()
	c.fleet.set(newView([]*lane{l}, s.Prevailing(), &c.fleet))
	conn, err := l.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for !l.guard.clock.good { // its votes count when the master was told so
		if err := l.heartbeat(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
	}
	return newBatch(l, conn)
}

// exec sends the rounds and fills in the votes.
func (b *batch) exec() error {
	for _, r := range b.rounds {
		r.view = b.lane.fleet.view.Load()
	}
	b.encode()
	if err := b.send(); err != nil {
		return err
	}
	return b.readReplies()
}

func newMemMaster(t testing.TB, options ...memmaster.Options) *memmaster.Master {
	m := memmaster.New(append(options, memmaster.Options{})[0])
	t.Cleanup(m.Close)
	return m
}

func newRound(v verb, token string, ttl time.Duration, keys ...string) *round {
	return &round{verb: v, keys: keys, token: token, ttlMs: ttl.Milliseconds(), answers: make([]answer, 1)}
}

// idleClient is a client without masters.
func idleClient() *Client {
	c := newClient(DefaultOptions())
	c.fleet.coordinator = c.newCoordinator()
	c.fleet.set(newView(nil, nil, &c.fleet))
	return c
}

// nowhere is a connection to nobody.
type nowhere struct{ net.Conn }

func (nowhere) SetDeadline(time.Time) error { return nil }

// unsentBatch is a batch that can be encoded.
func unsentBatch() *batch {
	return newBatch(&lane{fleet: &idleClient().fleet}, &conn.Conn{Wire: conn.Wire{Socket: nowhere{}}})
}

// plan lists the commands that a batch makes of its rounds, as "set k T", or "release k:T k2:T2" for a folded call.
func plan(rounds ...*round) []string {
	b := unsentBatch()
	b.rounds = rounds
	b.begin()
	for i := range rounds {
		b.add(int32(i))
	}
	b.emit()
	commands := respWords(b.wire.Out)
	if len(commands) != len(b.commands) {
		return []string{fmt.Sprintf("%d commands on the wire, %d replies expected", len(commands), len(b.commands))}
	}
	var list []string
	for _, words := range commands {
		if words[0] != "evalsha" {
			list = append(list, strings.Join(words[:min(3, len(words))], " "))
			continue
		}
		name := map[string]string{lua.Release.SHA: "release", lua.Acquire.SHA: "acquire", lua.Extend.SHA: "extend", lua.Join.SHA: "join"}[words[1]]
		var keys int
		fmt.Sscan(words[2], &keys)
		line := name
		for i := range keys {
			token := words[3+keys]
			if name == "release" {
				token = words[min(3+keys+1+i, len(words)-1)] // after the time; one may be for all
			}
			line += " " + words[3+i] + ":" + token
		}
		for i := 3 + keys + 4; name == "join" && i < len(words); i += 4 {
			line += ":" + words[i]
		}
		list = append(list, line)
	}
	return list
}

// respWords takes commands apart.
func respWords(sent []byte) (commands [][]string) {
	limits := resp.Limits{Args: 1 << 20, Bulk: 1 << 20, Command: 1 << 30}
	for len(sent) > 0 {
		args, size, _ := new(resp.FrameScanner).Scan(sent, &limits, nil)
		var words []string
		for _, arg := range args {
			words = append(words, string(arg))
		}
		commands, sent = append(commands, words), sent[size:]
	}
	return commands
}

func TestBatchOrder(t *testing.T) {
	set := func(key, token string) *round { return newRound(verbSet, token, time.Minute, key) }
	release := func(token string, keys ...string) *round { return newRound(verbRelease, token, 0, keys...) }
	extend := func(key, token string) *round { return newRound(verbExtend, token, time.Minute, key) }
	acquire := func(token string, keys ...string) *round { return newRound(verbAcquire, token, time.Minute, keys...) }
	join := func(key, token string) *round { return newRound(verbJoin, token, time.Minute, key).asReader(true) }
	leave := func(key, token string) *round { return release(token, key).asReader(true) }
	own := join("a", "C")
	own.attempt = new(attempt)
	for _, tt := range []struct {
		name   string
		rounds []*round
		want   []string
	}{
		{"readers of one resource are folded, and may overtake each other", []*round{join("a", "A"), leave("a", "B"), join("a", "C"), leave("a", "D"), join("b", "E")},
			[]string{"release a:B a:D", "join a:A:C", "join b:E"}},
		{"a reader's release does not overtake its LOCK", []*round{join("a", "A"), join("a", "B"), leave("a", "A"), leave("a", "A")},
			[]string{"join a:A:B", "release a:A", "release a:A"}},
		{"nor that of a writer", []*round{set("a", "A"), join("a", "B"), leave("a", "C")},
			[]string{"set a A", "join a:B", "release a:C"}},
		{"a writer's release does not overtake readers", []*round{join("a", "A"), release("B", "a"), leave("a", "C"), release("D", "a")},
			[]string{"join a:A", "release a:B", "release a:C", "release a:D"}},
		{"readers with other commands between them", []*round{join("a", "A"), join("a", "B"), set("a", "W"), join("a", "C"), join("a", "D")},
			[]string{"join a:A:B", "set a W", "join a:C:D"}},
		{"a caller's own token goes alone", []*round{join("a", "A"), join("a", "B"), own, join("a", "D")},
			[]string{"join a:A:B", "time", "join a:C", "join a:D"}},
		{"releases are folded to the front", []*round{set("a", "A"), release("B", "b"), set("c", "C"), release("D", "d")},
			[]string{"release b:B d:D", "set a A", "set c C"}},
		{"a release does not overtake its SET", []*round{set("a", "A"), release("A", "a")},
			[]string{"set a A", "release a:A"}},
		{"a SET stays behind the release before it", []*round{release("A", "a"), set("a", "B")},
			[]string{"release a:A", "set a B"}},
		{"hand-overs in a row", []*round{release("A", "a"), set("a", "B"), release("B", "a"), set("a", "C")},
			[]string{"release a:A", "set a B", "release a:B", "set a C"}},
		{"the same key twice is two calls", []*round{release("A", "a"), release("B", "a"), release("C", "c")},
			[]string{"release a:A", "release a:B c:C"}},
		{"nor does it overtake an extension", []*round{extend("a", "A"), release("A", "a")},
			[]string{"extend a:A", "release a:A"}},
		{"several keys are not folded", []*round{set("b", "B"), release("A", "a", "c"), release("D", "d")},
			[]string{"release d:D", "set b B", "release a:A c:A"}},
		{"nor overtaken where they touch", []*round{acquire("A", "a", "c"), release("A", "a", "c"), release("A", "c")},
			[]string{"acquire a:A c:A", "release a:A c:A", "release c:A"}},
		{"one of several keys", []*round{release("A", "a", "b"), set("b", "B"), release("B", "b")},
			[]string{"release a:A b:A", "set b B", "release b:B"}},
	} {
		// The set of touched keys may see a key that is not there, and break the segment without need: try other seeds.
		var got []string
		for range 5 {
			if got = plan(tt.rounds...); slices.Equal(got, tt.want) {
				break
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFoldingIsBounded(t *testing.T) {
	for _, tt := range []struct {
		releases int
		want     []int // keys per call, when no key is taken for another by mistake
	}{
		{1, []int{1}}, {foldMax, []int{foldMax}}, {foldMax + 1, []int{foldMax, 1}}, {batchMax, []int{foldMax, foldMax, foldMax, foldMax}},
	} {
		var rounds []*round
		for i := range tt.releases {
			rounds = append(rounds, newRound(verbRelease, fmt.Sprint("T", i), 0, fmt.Sprint("k", i)))
		}
		total, calls := 0, plan(rounds...)
		for _, call := range calls {
			n := strings.Count(call, ":")
			if n > foldMax {
				t.Errorf("%d releases: %d in one call, want at most %d", tt.releases, n, foldMax)
			}
			total += n
		}
		if total != tt.releases || len(calls) < len(tt.want) {
			t.Errorf("%d releases: got %d in %d calls, want all in %d or a few more", tt.releases, total, len(calls), len(tt.want))
		}
	}
}

// Random batches, executed in one pipeline on one master and round by round on another, must leave the same keys and
// give the same votes.
func TestBatchEqualsOneByOne(t *testing.T) {
	for name, options := range map[string]memmaster.Options{"scripts": {}, "DELEX": {IFEQ: true}, "DELIFEQ": {DELIFEQ: true}} {
		t.Run(name, func(t *testing.T) { testBatchEqualsOneByOne(t, options, redisproc.SomeOf[uint64](20, 140)) })
	}
}

func testBatchEqualsOneByOne(t *testing.T, options memmaster.Options, seeds uint64) {
	synctest.Test(t, func(t *testing.T) {
		together, single := newMemMaster(t, options), newMemMaster(t, options)
		b, s := standing(t, together), standing(t, single)
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, 2))
			keys := 2 + rng.IntN(40)
			n := 1 + rng.IntN(80)
			if seed%50 == 0 {
				keys, n = 700, batchMax
			}
			var rounds []*round
			for range n {
				rounds = append(rounds, randomRound(rng, keys))
			}
			if seed%7 == 3 { // scripts are gone: half of the batch has to be sent again
				flushScripts(t, together)
			}
			b.rounds = rounds
			if err := b.exec(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			got := slices.Clone(b.votes)
			var want []quorum.Vote
			for _, r := range rounds {
				s.rounds = []*round{r}
				if err := s.exec(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				want = append(want, s.votes[0])
			}
			if seed%7 == 3 {
				// Repeated commands run behind the rest, so votes may differ; but nobody may hold what another was granted.
				checkVotes(t, seed, rounds, got, together)
				wipe(t, together)
				wipe(t, single)
				continue
			}
			for i := range rounds {
				if got[i] != want[i] {
					t.Errorf("seed %d, round %d of %d, verb %d %q %s: vote %d in the batch, %d alone", seed, i, n, rounds[i].verb, rounds[i].keys, rounds[i].token, got[i], want[i])
				}
			}
			if got, want := contents(t, together), contents(t, single); !slices.Equal(got, want) {
				t.Fatalf("seed %d: the batch leaves %q, one by one leaves %q", seed, got, want)
			}
			time.Sleep(time.Duration(rng.IntN(40)) * ms) // some keys expire
		}
	})
}

func randomRound(rng *rand.Rand, keys int) *round {
	key := func() string { return fmt.Sprint("k", rng.IntN(keys)) }
	token, ttl := fmt.Sprint("T", rng.IntN(3)), time.Duration(20+rng.IntN(100))*ms
	names := []string{key()}
	if rng.IntN(6) == 0 {
		if second := key(); second != names[0] {
			names = append(names, second)
		}
	}
	if rng.IntN(3) == 0 {
		token := fmt.Sprint("R", rng.IntN(9))
		if rng.IntN(5) > 1 {
			return newRound(verbJoin, token, ttl, fmt.Sprint("k", rng.IntN(3))).asReader(true)
		}
		return newRound(verbRelease, token, 0, fmt.Sprint("k", rng.IntN(3))).asReader(true)
	}
	switch rng.IntN(8) {
	case 0, 1:
		return newRound(verbSet, token, ttl, names[0])
	case 2:
		return newRound(verbAcquire, token, ttl, names...)
	case 3:
		return newRound(verbExtend, token, ttl, names...)
	default:
		return newRound(verbRelease, token, 0, names...)
	}
}

func contents(t *testing.T, m *memmaster.Master) (list []string) {
	for _, key := range locksOn(m) {
		value, ttl, ok := m.Get(key)
		if ok {
			list = append(list, fmt.Sprint(key, "=", value, " ", ttl))
			continue
		}
		// Readers, with the milliseconds that each has left: members, the highest first, with their scores.
		left := outside(t, m, "PTTL", key).(int64)
		members := outside(t, m, "ZREVRANGE", key, 0, 9, "WITHSCORES").([]any)
		end, _ := strconv.ParseInt(members[1].(string), 10, 64)
		var readers []string
		for i := 0; i < len(members); i += 2 {
			score, _ := strconv.ParseInt(members[i+1].(string), 10, 64)
			if left += score - end; left >= 0 { // one that has ended may still be there
				readers = append(readers, fmt.Sprint(members[i], " ", left))
			}
			left -= score - end
		}
		slices.Sort(readers)
		list = append(list, fmt.Sprint(key, "=", readers))
	}
	return list
}

// checkVotes checks the last word on each key: if the last acquisition that was granted was not followed by any other
// command on the key that was granted, the key must be there.
func checkVotes(t *testing.T, seed uint64, rounds []*round, got []quorum.Vote, m *memmaster.Master) {
	for i, r := range rounds {
		if got[i] == quorum.Unknown || got[i] == quorum.Abstained {
			t.Errorf("seed %d: round %d has no vote after NOSCRIPT: %d", seed, i, got[i])
		}
		if len(r.keys) > 1 || r.verb != verbSet && r.verb != verbAcquire || got[i] != quorum.Granted {
			continue
		}
		again := slices.ContainsFunc(rounds, func(o *round) bool { return o != r && slices.Contains(o.keys, r.keys[0]) })
		if value, _, _ := m.Get(r.keys[0]); !again && value != r.token {
			t.Errorf("seed %d: round %d was granted %s, and the master has %q", seed, i, r.keys[0], value)
		}
	}
}

func flushScripts(t *testing.T, m *memmaster.Master) { outside(t, m, "SCRIPT", "FLUSH") }

// wipe removes all locks and leaves what is ours.
func wipe(t *testing.T, m *memmaster.Master) {
	for _, key := range locksOn(m) {
		outside(t, m, "DEL", key)
	}
}

// Where the master can compare and delete by itself, no script is called for it, and a stranger's key of another type does not hold
// the token.
func TestNativeRelease(t *testing.T) {
	for _, tt := range []struct {
		options memmaster.Options
		native  conn.NativeDelete
	}{
		{memmaster.Options{}, conn.ScriptOnly},
		{memmaster.Options{IFEQ: true}, conn.Delex},
		{memmaster.Options{DELIFEQ: true}, conn.Delifeq},
		{memmaster.Options{IFEQ: true, DELIFEQ: true}, conn.Delex},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemMaster(t, tt.options)
			b := standing(t, m)
			if b.conn.CompareAndDelete != tt.native {
				t.Errorf("%+v: got %d, want %d", tt.options, b.conn.CompareAndDelete, tt.native)
			}
			outside(t, m, "ZADD", "h", "1", "A")
			b.rounds = []*round{newRound(verbSet, "A", time.Minute, "a"), newRound(verbSet, "B", time.Minute, "b")}
			if err := b.exec(); err != nil {
				t.Fatal(err)
			}
			b.rounds = nil
			for _, key := range []string{"a", "h", "none", "b"} {
				b.rounds = append(b.rounds, newRound(verbRelease, "A", 0, key))
			}
			if err := b.exec(); err != nil {
				t.Fatal(err)
			}
			granted := []bool{true, false, false, false}
			for i, vote := range b.votes {
				if (vote == quorum.Granted) != granted[i] || vote == quorum.Unknown || vote == quorum.Abstained {
					t.Errorf("%+v: release of %q: vote %d, want granted %v", tt.options, b.rounds[i].keys, vote, granted[i])
				}
			}
			if got := locksOn(m); !slices.Equal(got, []string{"b", "h"}) {
				t.Errorf("%+v: left are %q, want b and h", tt.options, got)
			}
		})
	}
}

// A release must never be dropped: where the master refuses it, the connection is given up, and the next one delivers it.
func TestRefusedReleaseBreaksTheConnection(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", time.Minute))
		s.do(4, "REPLICAOF", "elsewhere", "6379")
		p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0)
		s.wantOn("r", held.Token, "00001")
		time.Sleep(100 * ms)
		p.wantStates("uuuur")
		s.do(4, "REPLICAOF", "NO", "ONE")
		p.allUp()
		s.wantNoLocks()
	})
}

// The masters lose the scripts while they are in use.
func TestScriptFlushHeals(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		held := p.lock(one("r", time.Minute))
		waiter := p.begin(one("r", time.Minute).waits(time.Second))
		flush := func() {
			for i := range s.masters {
				s.do(i, "SCRIPT", "FLUSH")
			}
		}
		flush()
		p.extend(held.Token, time.Minute, "r").want(s, "EXTEND", "held", 0)
		flush()
		p.unlock(held.Token, "r").want(s, "UNLOCK", "held", 0)
		p.finish(waiter)
		if !waiter.Held {
			s.Errorf("the waiter: got %+v, want held", waiter.Result)
		}
		flush()
		p.lock(several(time.Minute, "a", "b").as("T")).want(s, "LOCK of several", "held", 0)
		p.wantStates("uuuuu")
		if timeouts := p.Masters()[0].Timeouts; timeouts != 0 {
			s.Errorf("timeouts: got %d, want 0", timeouts)
		}
	})
}

// What was kept for a master is released there although its scripts are gone.
func TestScriptFlushBeforeKeptReleases(t *testing.T) {
	m := newMemMaster(t)
	b := standing(t, m)
	outside(t, m, "SET", "r", "T", "PX", 60_000)
	flushScripts(t, m)
	if err := flushReleases(t.Context(), b.conn, []pendingRelease{{key: "r", token: "T"}}); err != nil {
		t.Errorf("got %v", err)
	}
	if value, _, held := m.Get("r"); held {
		t.Errorf("the key still holds %q", value)
	}
}

// Heartbeats and kept releases find the scripts gone, too: a master that has lost them is up all the time, and what was kept is delivered.
func TestScriptFlushCostsNoConnection(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		var log journal
		p := s.open(log.option)
		since := p.Masters()[0].Since
		for range 10 {
			s.doAll("SCRIPT", "FLUSH")
			time.Sleep(p.opts.Heartbeat)
			p.lockable("r")
		}
		if m := p.Masters()[0]; m.Since != since {
			s.Errorf("m1 is %s (%s) since %v, want it up since %v", m.State, m.Reason, m.Since, since)
		}
		if told := log.take("master=m"); len(told) > 5 { // five have come up
			s.Errorf("the log has\n%s, want nothing of SCRIPT FLUSH", strings.Join(told, ""))
		}
		held := p.lock(one("kept", time.Minute))
		s.freeze(0)
		var flushed sync.WaitGroup
		flushed.Go(func() { s.do(0, "SCRIPT", "FLUSH") }) // it is executed when the master thaws
		time.Sleep(ms)
		p.unlock(held.Token, "kept")
		time.Sleep(2 * giveUp)
		p.wantStates("duuuu")
		s.thaw(0)
		flushed.Wait()
		p.allUp()
		s.wantNoLocks()
	})
}

// One function calls scripts by their SHA1, and repeats the call where the master has lost them; batches, which write themselves, do it by
// hand. A bare EVALSHA elsewhere would take SCRIPT FLUSH for a failure.
func TestNoBareEvalSha(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == "conn/script.go" {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), ".EvalSha(") {
			t.Errorf("%s calls EvalSha: use conn.Call, or conn.QueueScript in conn.Pipelined", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A round that was launched under one record stands in the queue while the next one is learned. Its vote does not count: the quorum, and who
// has a vote, may be others by now.
func TestVoteOfARoundOfAnotherRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := standing(t, newMemMaster(t))
		c := b.lane.fleet.client
		of := func(change func(r *member.Record)) *view {
			return newView(c.fleet.view.Load().lanes, changed(c.fleet.view.Load().record, change), &c.fleet)
		}
		b.rounds = []*round{newRound(verbSet, "A", time.Second, "a"), newRound(verbSet, "B", time.Second, "b"), newRound(verbSet, "C", time.Second, "c")}
		b.rounds[0].view = of(func(r *member.Record) { r.Version, r.Parent = 9, strings.Repeat("5a", member.DigestLen/2) })
		b.rounds[1].view = c.fleet.view.Load()
		b.rounds[2].view = newView(c.fleet.view.Load().lanes, nil, &c.fleet)
		b.encode()
		if err := cmp.Or(b.send(), b.readReplies()); err != nil {
			t.Fatal(err)
		}
		if want := []quorum.Vote{quorum.Done, quorum.Granted, quorum.Done}; !slices.Equal(b.votes, want) {
			t.Errorf("votes of rounds under another record, the one in force, and none: got %v, want %v", b.votes, want)
		}
	})
}

// touched may say yes by mistake, and never no.
func TestTouchedNeverForgets(t *testing.T) {
	set := newBatch(nil, &conn.Conn{}).touched
	wrong := 0
	for i := range 500 {
		key := fmt.Sprint("key", i)
		if set.has(key) {
			wrong++
		}
		set.add(set.hash(key))
		if !set.has(key) {
			t.Fatalf("%s was added and is not there", key)
		}
	}
	if wrong > 100 {
		t.Errorf("yes by mistake: %d of 500, want few", wrong)
	}
	set.reset()
	if set.has("key1") {
		t.Error("key1 is there after reset")
	}
}

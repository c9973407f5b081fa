package redlock

// Goal: a release goes where it is needed, once more where it may have overtaken the grant, and is counted by what it came to. Method: the decisions alone,
// with votes made here, and what masters hold then; virtual time. virtual_round_test.go has what callers see.

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/memmaster"
	"redlockd/redlock/quorum"
)

// overtaken is a release of r that was launched so long ago, with these votes.
func (p *proxy) overtaken(token string, ago time.Duration, votes string) *round {
	r := &round{verb: verbRelease, token: token, start: time.Now().Add(-ago), view: p.fleet.view.Load()}
	r.setKeys("r")
	r.votes.Store(uint64(votesOf(votes)))
	return r
}

// What a release has not found is released once more, when no grant can come any more: of a version also where the answer is missing.
func TestReleasedOnceMore(t *testing.T) {
	version := versionOf("a", 7, "held")
	for name, tt := range map[string]struct {
		version bool
		after   time.Duration // in addition to 2 MasterTimeout
		votes   string
		left    string // where it is still held
		kept    bool   // for later
	}{
		"a token":                         {false, 1, "GADU.", "10011", false},
		"a token that was found":          {false, 1, "GGGUU", "11111", false},
		"a token, not long ago":           {false, 0, "GADU.", "11111", true},
		"a version":                       {true, 1, "GADU.", "10000", false},
		"a version, without votes":        {true, 1, "dADUd", "10001", false},
		"a version that was found":        {true, 1, "GGGGG", "11111", false},
		"a version, not long ago":         {true, 0, "GADU.", "11111", true},
		"a token that nobody says he has": {false, time.Hour, "AAAAA", "00000", false},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			token := map[bool]string{true: version, false: p.tokens.make(time.Now())}[tt.version]
			s.doAll("SET", "r", token, "PX", "60000")
			r := p.overtaken(token, 2*p.opts.MasterTimeout+tt.after, tt.votes)
			p.mu.Lock()
			p.overtaking, p.rounds.launched = []*round{r}, 100
			p.mu.Unlock()
			p.releaseAgain(&deferred{now: time.Now()})
			p.mu.Lock()
			if launched := p.rounds.launched > 100; launched != strings.Contains(tt.left, "0") {
				s.Errorf("%s: something is launched %t, want %t", name, launched, !launched)
			}
			if (p.overtaking != nil) != tt.kept {
				s.Errorf("%s: %d are to be released once more, want it kept %t", name, len(p.overtaking), tt.kept)
			}
			p.overtaking = nil
			p.mu.Unlock()
			synctest.Wait()
			s.wantOn("r", token, tt.left)
		})
	}
}

// The oldest are released once more, and the others later.
func TestReleasedOnceMoreInTime(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		token, soon := p.tokens.make(time.Now()), 2*p.opts.MasterTimeout
		first, second, third := p.overtaken(token, soon+ms, "AAAAA"), p.overtaken(token, soon+1, "AAAAA"), p.overtaken(token, soon, "AAAAA")
		p.mu.Lock()
		p.overtaking = []*round{first, second, third}
		p.mu.Unlock()
		p.releaseAgain(&deferred{now: time.Now()})
		p.mu.Lock()
		defer p.mu.Unlock()
		if !slices.Equal(p.overtaking, []*round{third}) {
			s.Errorf("%d are left, want the last", len(p.overtaking))
		}
		p.overtaking = nil
	})
}

// What a release comes to is counted and told. Of a version something may be left, so it is released once more; where too few have answered, one that is alone
// goes on.
func TestWhatAReleaseComesTo(t *testing.T) {
	version := versionOf("a", 7, "held")
	for name, tt := range map[string]struct {
		version               bool
		keys                  []string
		outcome               quorum.Outcome
		votes                 string
		want                  string
		released, not, failed uint64
		again, settled        int
	}{
		"a token is released":             {false, []string{"r"}, quorum.Yes, "GGGA.", "held", 1, 0, 0, 0, 0},
		"a version is released":           {true, []string{"r"}, quorum.Yes, "GGGA.", "held", 1, 0, 0, 1, 0},
		"a token is not held":             {false, []string{"r"}, quorum.No, "AAAD.", "no", 0, 1, 0, 0, 0},
		"a version is not held":           {true, []string{"r"}, quorum.No, "AAAD.", "no", 0, 1, 0, 0, 0},
		"no quorum for a token":           {false, []string{"r"}, quorum.NoQuorum, "GUUU.", "masters voted", 0, 0, 1, 0, 0},
		"no quorum for a version":         {true, []string{"r"}, quorum.NoQuorum, "GUUU.", "masters voted", 0, 0, 1, 0, 1},
		"no quorum for one of two locks":  {true, []string{"r", "q"}, quorum.NoQuorum, "GUUU.", "masters voted", 0, 0, 1, 0, 0},
		"two locks with one version held": {true, []string{"r", "q"}, quorum.Yes, "GGGG.", "held", 1, 0, 0, 1, 0},
	} {
		inVirtualTime(t, 5, func(s *stage) {
			p := s.open()
			c := &call{began: time.Now()}
			c.Op.to = c
			r := &round{verb: verbRelease, token: p.tokens.make(time.Now()), start: time.Now(), view: p.fleet.view.Load(), op: &c.Op}
			if tt.version {
				r.token = version
			}
			r.setKeys(tt.keys...)
			before, d := p.Stats(), &deferred{now: time.Now()}
			p.releaseDecided(r, tt.outcome, votesOf(tt.votes), d)
			p.mu.Lock()
			if len(p.overtaking) != tt.again || len(p.settling.all) != tt.settled {
				s.Errorf("%s: %d are released once more, %d go on; want %d and %d", name, len(p.overtaking), len(p.settling.all), tt.again, tt.settled)
			}
			p.overtaking, p.settling.all = nil, nil
			p.mu.Unlock()
			p.runDeferred(d)
			c.want(s, name, tt.want, 0)
			after := p.Stats()
			if released, not, failed := after.Released-before.Released, after.NotHeld-before.NotHeld, after.UnlockFail-before.UnlockFail; released != tt.released || not != tt.not || failed != tt.failed {
				s.Errorf("%s: counted as released %d, not held %d, failed %d; want %d, %d, %d", name, released, not, failed, tt.released, tt.not, tt.failed)
			}
		})
	}
}

// So many releases are kept to be sent once more, and no more.
func TestReleasesOnceMoreAreBounded(t *testing.T) {
	for _, room := range []int{0, 1} {
		inVirtualTime(t, 3, func(s *stage) {
			p := s.open()
			many := make([]*round, pendingMax-room)
			for i := range many {
				many[i] = p.overtaken("token", 0, "GGG")
			}
			for what, release := range map[string]func(){
				"granted elsewhere": func() { p.startUnlock(p.tokens.make(time.Now()), "r") },
				"a version": func() {
					c := &call{}
					c.Op.to = c
					r := p.overtaken(versionOf("a", 7, "held"), 0, "GGG")
					r.op = &c.Op
					p.releaseDecided(r, quorum.Yes, votesOf("GGG"), new(deferred))
				},
			} {
				p.mu.Lock()
				p.overtaking = slices.Clone(many)
				p.mu.Unlock()
				release()
				p.mu.Lock()
				if len(p.overtaking) != pendingMax {
					s.Errorf("%s, with room for %d: %d are kept, want %d", what, room, len(p.overtaking), pendingMax)
				}
				p.overtaking = nil
				p.mu.Unlock()
			}
		})
	}
}

// A lock that is known to be no reader's is released by one command, where masters have it; what may be a reader's by a script.
func TestCommandOfARelease(t *testing.T) {
	onMasters(t, []memmaster.Options{{IFEQ: true}, {IFEQ: true}, {IFEQ: true}}, func(s *stage) {
		p, other := s.open(), s.open()
		var sent []string
		s.masters[0].SetObserver(func(e *memmaster.Executed) {
			if name := strings.ToLower(string(e.Args[0])); name == "delex" || strings.HasPrefix(name, "eval") && slices.ContainsFunc(e.Args, func(arg []byte) bool { return string(arg) == "r" }) {
				sent = append(sent, name[:4])
			}
		})
		for name, tt := range map[string]struct {
			lock func() *call
			want string
		}{
			"a writer's":           {func() *call { return p.lock(one("r", time.Minute)) }, "dele"},
			"a reader's":           {func() *call { return p.lock(one("r", time.Minute).sharing()) }, "eval"},
			"a writer's elsewhere": {func() *call { return other.lock(one("r", time.Minute)) }, "eval"},
			"a reader's elsewhere": {func() *call { return other.lock(one("r", time.Minute).sharing()) }, "eval"},
		} {
			token := tt.lock().Token
			sent = nil
			p.unlock(token, "r").want(s, name, "held", 0)
			if len(sent) == 0 || sent[0] != tt.want {
				s.Errorf("%s: released by %q, want %s first", name, sent, tt.want)
			}
		}
		s.masters[0].SetObserver(nil)
	})
}

// A release may use twice as much memory while it waits for room; what was never granted is not taken back.
func TestWhatAReleaseIsAllowed(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		share := &Share{}
		p.crowd(share)
		p.mu.Lock()
		share.queuedBytes = p.admission.shareMax
		p.mu.Unlock()
		of{p, share}.begin(one("r", time.Minute)).want(s, "LOCK", "overloaded", 0)
		unlock := &call{Op: Op{Share: share}, began: time.Now()}
		p.StartUnlock(&unlock.Op, []string{"r"}, "token", unlock)
		unlock.want(s, "UNLOCK", "under way", 0)
		p.mu.Lock()
		share.queuedBytes -= p.admission.shareMax
		p.mu.Unlock()
		s.thaw(0, 1, 2, 3, 4)
		p.finish(unlock)
		launched := p.rounds.launched
		if p.Abandon(&unlock.Op); p.rounds.launched != launched {
			s.Error("what was never granted is taken back")
		}
	})
}

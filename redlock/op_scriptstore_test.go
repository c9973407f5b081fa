package redlock

// Goal: a script that was stored through one client is found through every other one, until a flush that is younger. Method: what is on the masters, and
// what a fetch makes of their answers; virtual time. Package proxy tests what clients see of it.

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"redlockd/redlock/quorum"
)

const stored = 10 * time.Second

// fetch asks for the texts under a name.
func (p *proxy) fetch(name string) []string {
	p.s.Helper()
	c := &call{began: time.Now()}
	p.StartFetchScript(&c.Op, name, c)
	if p.finish(c); c.Err != nil {
		p.s.Error(c.Err)
	}
	return c.Scripts
}

func (p *proxy) wantFetched(what, name string, want ...string) {
	p.s.Helper()
	if got := p.fetch(name); !slices.Equal(got, want) {
		p.s.Errorf("%s: fetched %q, want %q", what, got, want)
	}
}

func TestStoredScriptIsFoundThroughOtherClients(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p, other := s.open(), s.open()
		p.StoreScript(&Share{}, "sha", "return 1", stored)
		s.wantOn(scriptPrefix+"sha", "return 1", "11111")
		if _, left, _ := s.masters[0].Get(scriptPrefix + "sha"); left != stored {
			s.Errorf("it is kept for %v, want %v", left, stored)
		}
		other.wantFetched("through another client", "sha", "return 1")
		other.wantFetched("another name", "none")

		time.Sleep(ms)
		other.FlushScripts(nil, stored)
		other.wantFetched("behind a flush", "sha")
		p.wantFetched("behind a flush elsewhere", "sha")
		time.Sleep(ms)
		p.StoreScript(nil, "sha", "return 1", stored)
		p.wantFetched("stored behind the flush", "sha", "return 1")
		time.Sleep(stored + ms)
		p.wantFetched("behind its TTL", "sha")

		// A master that was away during the flush has the script, and it is found no more.
		p.StoreScript(nil, "sha", "return 1", stored)
		time.Sleep(ms)
		for i := range 2 {
			p.paths[i].Partition()
		}
		p.FlushScripts(nil, stored)
		p.wantFetched("behind a flush that two masters have missed", "sha")
		other.wantFetched("behind a flush that two masters have missed, elsewhere", "sha")
	})
}

// The bounds of what is stored: a name, its length, the length of the script, the TTL.
func TestBoundsOfStoredScripts(t *testing.T) {
	inVirtualTime(t, 1, func(s *stage) {
		p := s.open()
		for what, tt := range map[string]struct {
			name, script string
			ttl          time.Duration
			stored       bool
		}{
			"an empty script":     {"a", "", stored, true},
			"the shortest TTL":    {"b", "x", ms, true},
			"a TTL below 1 ms":    {"c", "x", ms - 1, false},
			"no TTL":              {"d", "x", 0, false},
			"no name":             {"", "x", stored, false},
			"the longest name":    {strings.Repeat("n", MaxResourceLen), "x", stored, true},
			"a name too long":     {strings.Repeat("n", MaxResourceLen+1), "x", stored, false},
			"the longest script":  {"e", strings.Repeat("x", ScriptMax), stored, true},
			"a script too long":   {"f", strings.Repeat("x", ScriptMax+1), stored, false},
			"a script of a blank": {"g", " ", stored, true},
		} {
			p.mu.Lock()
			before := p.rounds.launched
			p.mu.Unlock()
			p.StoreScript(nil, tt.name, tt.script, tt.ttl)
			p.mu.Lock()
			if asked := p.rounds.launched != before; asked != tt.stored {
				s.Errorf("%s: the masters are asked to store it: %t, want %t", what, asked, tt.stored)
			}
			p.mu.Unlock()
			synctest.Wait()
			if value, _, ok := s.masters[0].Get(scriptPrefix + tt.name); ok != tt.stored || ok && value != tt.script {
				s.Errorf("%s: stored: %t, want %t", what, ok, tt.stored)
			}
		}
	})
}

// While the masters are full, what is to be stored waits, in the share that it is counted in, and is dropped where that has no room.
func TestStoringWaitsForRoom(t *testing.T) {
	inVirtualTime(t, 5, func(s *stage) {
		p := s.open()
		share := &Share{}
		queued := func() (ofShare, ofNone int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return share.queuedBytes, p.admission.share.queuedBytes
		}
		p.mu.Lock()
		p.admission.shareMax = 3 * (queuedOpBytes + len("text"))
		p.mu.Unlock()
		p.crowd(&Share{})
		p.StoreScript(share, "of a share", "text", stored)
		p.StoreScript(nil, "of none", "text", stored)
		p.FlushScripts(share, stored)
		ofShare, ofNone := queued()
		if want := queuedOpBytes + len("text"); ofShare != want+queuedOpBytes+len("1") || ofNone != want {
			s.Errorf("%d bytes wait in the share, %d in none, want %d and one more, and %d", ofShare, ofNone, want, want)
		}
		p.StoreScript(share, "a third", "text", stored)
		p.StoreScript(share, "too much", "text", stored)
		if got := p.Stats().Deferred; got != 4 {
			s.Errorf("%d operations wait, want 4", got)
		}
		s.wantSet(scriptPrefix+"of a share", "00000")
		time.Sleep(ms)
		s.thaw(0, 1, 2, 3, 4)
		time.Sleep(time.Second)
		s.wantOn(scriptPrefix+"of a share", "text", "11111")
		s.wantOn(scriptPrefix+"of none", "text", "11111")
		s.wantOn(scriptPrefix+"a third", "text", "11111")
		s.wantSet(scriptsFlushedKey, "11111")
		s.wantSet(scriptPrefix+"too much", "00000")
	})
}

// Each text that a master has is fetched once, if it is younger than all flushes.
func TestTextsThatAreFetched(t *testing.T) {
	text := func(value string, ttl time.Duration, flush ...time.Duration) []answer {
		script, flushed := answer{kind: "string", value: value, found: true, ttl: ttl}, answer{kind: "none", ttl: -2 * ms}
		if len(flush) > 0 {
			flushed = answer{kind: "string", value: "1", found: true, ttl: flush[0]}
		}
		return []answer{script, flushed}
	}
	absent := func(flush ...time.Duration) []answer {
		both := text("", -2*ms, flush...)
		both[0] = answer{kind: "none", ttl: -2 * ms}
		return both
	}
	hash := text("", time.Second)
	hash[0].kind = "hash"
	gone := text("x", time.Second)
	gone[1].ttl = time.Minute // of a key that is not found nothing counts
	for name, tt := range map[string]struct {
		answers [][]answer
		want    []string
	}{
		"no master has answered":          {[][]answer{nil, nil, nil}, nil},
		"none has it":                     {[][]answer{absent(), nil, absent()}, nil},
		"one has it":                      {[][]answer{absent(), nil, text("x", 5*ms)}, []string{"x"}},
		"all have it":                     {[][]answer{text("x", 5*ms), text("x", 6*ms), text("x", 5*ms)}, []string{"x"}},
		"they have two":                   {[][]answer{text("x", 5*ms), text("y", 5*ms), text("x", 5*ms)}, []string{"x", "y"}},
		"it ends now":                     {[][]answer{text("x", 0)}, []string{"x"}},
		"it never ends":                   {[][]answer{text("x", -ms)}, []string{"x"}},
		"it is no string":                 {[][]answer{hash}, nil},
		"nothing was flushed":             {[][]answer{gone}, []string{"x"}},
		"a flush is older":                {[][]answer{text("x", 6*ms, 5*ms)}, []string{"x"}},
		"a flush is as old":               {[][]answer{text("x", 5*ms, 5*ms)}, nil},
		"a flush is younger":              {[][]answer{text("x", 5*ms, 6*ms)}, nil},
		"a flush is younger, elsewhere":   {[][]answer{nil, text("x", 5*ms), absent(6 * ms)}, nil},
		"the younger of two flushes":      {[][]answer{absent(3 * ms), text("x", 4*ms), absent(5 * ms)}, nil},
		"the younger of two comes first":  {[][]answer{absent(5 * ms), text("x", 4*ms), absent(3 * ms)}, nil},
		"one text is younger than it":     {[][]answer{text("x", 4*ms), text("y", 6*ms, 5*ms)}, []string{"y"}},
		"the flush has ended in between":  {[][]answer{text("x", 4*ms, 0)}, []string{"x"}},
		"one master knows the same flush": {[][]answer{text("x", 4*ms, 5*ms), text("x", 6*ms, 5*ms)}, []string{"x"}},
	} {
		r, d := &round{op: &Op{}}, &deferred{}
		for _, keys := range tt.answers {
			r.answers = append(r.answers, answer{keys: keys})
		}
		scriptFetched(nil, r, quorum.Yes, 0, d)
		if len(d.results) != 1 || d.results[0].op != r.op || !slices.Equal(d.results[0].result.Scripts, tt.want) {
			t.Errorf("%s: got %+v, want %q", name, d.results, tt.want)
		}
	}
}

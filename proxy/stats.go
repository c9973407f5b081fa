package proxy

import (
	"crypto/rand"
	"encoding/hex"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"redlockd/redlock/loglimit"
)

// What is counted, beyond Server.counters: errors by code, calls and refusals by command. And what
// CONFIG RESETSTAT sets back: it must not touch counters, because metrics are read as rates, so
// totalsSinceReset subtracts.

// stats is what INFO shows beyond counters, and what it has to remember from one time to the next. Make
// one with newStats.
type stats struct {
	// runID has 40 hex digits that no other run of any server has. Tools notice a restart by it.
	runID string

	mu sync.Mutex // guards the fields below; taken for each error reply, never for a good one
	// byCode counts error replies by code, since the last CONFIG RESETSTAT. It has at most
	// errorCodesMax codes; more are not counted.
	byCode map[string]uint64
	// everByCode counts error replies by the codes of errorCodes, and those with any other as codeOther.
	// It never falls, because metrics are read as rates.
	everByCode map[string]uint64
	// refused counts refusals by the command's name and the reason. Both are those of this package's
	// tables, so that their number is bounded. It never falls, because metrics are read as rates.
	refused map[refusedKind]uint64
	// refusedReset has refused as it stood at the last CONFIG RESETSTAT.
	refusedReset map[refusedKind]uint64
	// logged has by the name of the user the refusals that the log has named, so that no user takes the
	// lines of others.
	logged map[string]*loggedRefusals
	// reset has the counters as they stood at the last CONFIG RESETSTAT.
	reset totals
	// rate is how many commands per second there were when it was measured last.
	rate uint64
	// rateTime is when that was.
	rateTime time.Time
	// rateOf is how many commands there had been until then.
	rateOf uint64
}

func newStats(now time.Time) *stats {
	var id [20]byte
	rand.Read(id[:])
	return &stats{runID: hex.EncodeToString(id[:]), byCode: make(map[string]uint64), everByCode: everyCode(), rateTime: now,
		refused: make(map[refusedKind]uint64), logged: make(map[string]*loggedRefusals)}
}

// codeOther stands for the codes that scripts make up.
const codeOther = "other"

// everyCode has 0 for each code that is counted: a rate can be read from the first error on.
func everyCode() map[string]uint64 {
	counts := map[string]uint64{codeOther: 0}
	for _, c := range errorCodes {
		counts[c.code] = 0
	}
	return counts
}

// countError counts an error reply of the account's user. Any goroutine may call it.
func (srv *Server) countError(a *account, reply []byte) {
	srv.counters[countErrors].Add(1)
	srv.stats.countCode(reply)
	if a.own != nil {
		a.own.countError(reply)
	}
}

// countCode counts an error reply by its first word. One that has none of reasonable length is from a
// script, and counted as codeOther alone.
func (st *stats) countCode(reply []byte) {
	code := codeOf(reply)
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, known := st.everByCode[string(code)]; known {
		st.everByCode[string(code)]++
	} else {
		st.everByCode[codeOther]++
	}
	countCode(st.byCode, code)
}

// codes counts the error replies by code.
func (st *stats) codes() map[string]uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return maps.Clone(st.byCode)
}

// codesEver counts the error replies by the codes of errorCodes, others as codeOther, since the start.
func (st *stats) codesEver() map[string]uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return maps.Clone(st.everByCode)
}

// loggedRefusals are those of one user.
type loggedRefusals struct {
	lines loglimit.Limiter
	// words has for each of at most refusersMax the hashes of the wordings that the log has named, at most
	// wordsMax.
	words map[refuser][]uint64
}

// countRefused counts a refusal with these words (wordsOf). It returns true if the log is to name it: it
// mayLog, it is the user's first one of the library, command, reason and words, and there is room for a
// line; otherwise the next refusal may be the first one.
func (st *stats) countRefused(user string, by refuser, words string, mayLog bool, now time.Time) (dropped int64, first bool) {
	hash := fnv.New64a()
	hash.Write([]byte(words))
	st.mu.Lock()
	defer st.mu.Unlock()
	st.refused[by.refusedKind]++
	if !mayLog {
		return 0, false
	}
	logged := st.logged[user]
	if logged == nil {
		logged = &loggedRefusals{words: make(map[refuser][]uint64)}
		logged.lines.Burst = 16 // a library that comes has several at once, each logged once
		st.logged[user] = logged
	}
	named := logged.words[by]
	if slices.Contains(named, hash.Sum64()) || len(named) == wordsMax || len(named) == 0 && len(logged.words) == refusersMax {
		return 0, false
	}
	if dropped, first = logged.lines.Allow(now); first {
		logged.words[by] = append(named, hash.Sum64())
	}
	return dropped, first
}

// refusals counts the refusals by the command's name and the reason, since the start and since the last
// CONFIG RESETSTAT.
func (st *stats) refusals() (all, sinceReset map[refusedKind]uint64) {
	st.mu.Lock()
	defer st.mu.Unlock()
	all, sinceReset = maps.Clone(st.refused), make(map[refusedKind]uint64)
	for kind, n := range all {
		if n > st.refusedReset[kind] {
			sinceReset[kind] = n - st.refusedReset[kind]
		}
	}
	return all, sinceReset
}

// totals are the values of all counters at one time.
type totals [counterCount]uint64

// totals reads the counters one after the other: commands may be counted meanwhile, so two of them need
// not fit exactly.
func (srv *Server) totals() (n totals) {
	for i := range n {
		n[i] = srv.counters[i].Load()
	}
	return n
}

// totalsSinceReset are the totals less those at the last CONFIG RESETSTAT. The counters themselves go
// on, because metrics that are read as rates must never fall.
func (srv *Server) totalsSinceReset() totals {
	n := srv.totals()
	srv.stats.mu.Lock()
	defer srv.stats.mu.Unlock()
	for i := range n {
		n[i] -= srv.stats.reset[i]
	}
	return n
}

// resetStats is CONFIG RESETSTAT, for Stats, Commandstats, Errorstats and Refusedstats of INFO.
func (srv *Server) resetStats() {
	for _, row := range srv.table.rows {
		for what := range row.stats {
			row.stats[what].Store(0)
		}
	}
	for _, a := range srv.live().accounts {
		if a.own != nil {
			a.own.reset()
		}
	}
	n := srv.totals()
	srv.stats.mu.Lock()
	defer srv.stats.mu.Unlock()
	srv.stats.reset = n
	clear(srv.stats.byCode)
	srv.stats.refusedReset = maps.Clone(srv.stats.refused)
}

// commandsPerSecond is the rate between the last two measurements; it measures when a second has passed
// since the last one. There is no timer for it: if INFO is asked for every ten seconds, it shows the
// mean of ten seconds.
func (st *stats) commandsPerSecond(commands uint64, now time.Time) uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	if passed := now.Sub(st.rateTime); passed >= time.Second {
		st.rate = uint64(float64(commands-st.rateOf) / passed.Seconds())
		st.rateTime, st.rateOf = now, commands
	}
	return st.rate
}

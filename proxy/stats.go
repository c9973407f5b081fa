package proxy

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// stats is what INFO shows beyond counters, and what it has to remember from one time to the next. Make one with newStats.
type stats struct {
	runID string // 40 hex digits that no other run of any server has

	mu       sync.Mutex
	byCode   map[string]uint64 // error replies by code, since the last CONFIG RESETSTAT; at most errorCodesMax
	reset    totals            // as they stood at the last CONFIG RESETSTAT
	rate     uint64            // commands per second, when it was measured last
	rateTime time.Time         // when that was
	rateOf   uint64            // commands until then
}

// errorCodesMax bounds byCode. Handlers use a dozen codes; the bound is for a script that returns errors with codes of its own.
const errorCodesMax = 64

func newStats(now time.Time) *stats {
	var id [20]byte
	rand.Read(id[:])
	return &stats{runID: hex.EncodeToString(id[:]), byCode: make(map[string]uint64), rateTime: now}
}

// commandStats are counted for each row of the command table.
type commandStats struct {
	calls    atomic.Uint64 // executed
	rejected atomic.Uint64 // refused before they were executed: arity, login, draining
	failed   atomic.Uint64 // executed and answered with an error
}

// countError counts an error reply. Any goroutine may call it.
func (srv *Server) countError(reply []byte) {
	srv.counters[countErrors].Add(1)
	srv.stats.countCode(reply)
}

func (st *stats) countCode(reply []byte) {
	code, _, _ := bytes.Cut(reply, []byte(" "))
	if len(code) < 2 || len(code) > 32 {
		return
	}
	code = code[1:] // the minus
	st.mu.Lock()
	defer st.mu.Unlock()
	if _, known := st.byCode[string(code)]; known || len(st.byCode) < errorCodesMax {
		st.byCode[string(code)]++
	}
}

// codes counts the error replies by code.
func (st *stats) codes() map[string]uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return maps.Clone(st.byCode)
}

// totals are the values of all counters at one time.
type totals [counterCount]uint64

func (srv *Server) totals() (n totals) {
	for i := range n {
		n[i] = srv.counters[i].Load()
	}
	return n
}

// totalsSinceReset are the totals less those at the last CONFIG RESETSTAT. The counters themselves go on, because metrics that
// are read as rates must never fall.
func (srv *Server) totalsSinceReset() totals {
	n := srv.totals()
	srv.stats.mu.Lock()
	defer srv.stats.mu.Unlock()
	for i := range n {
		n[i] -= srv.stats.reset[i]
	}
	return n
}

// resetStats is CONFIG RESETSTAT.
func (srv *Server) resetStats() {
	for _, row := range srv.table.rows {
		row.stats.calls.Store(0)
		row.stats.rejected.Store(0)
		row.stats.failed.Store(0)
	}
	n := srv.totals()
	srv.stats.mu.Lock()
	defer srv.stats.mu.Unlock()
	srv.stats.reset = n
	clear(srv.stats.byCode)
}

// commandsPerSecond is the rate between the last two measurements; it measures when a second has passed since the last one. There is
// no timer for it: if INFO is asked for every ten seconds, it shows the mean of ten seconds.
func (st *stats) commandsPerSecond(commands uint64, now time.Time) uint64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	if passed := now.Sub(st.rateTime); passed >= time.Second {
		st.rate = uint64(float64(commands-st.rateOf) / passed.Seconds())
		st.rateTime, st.rateOf = now, commands
	}
	return st.rate
}

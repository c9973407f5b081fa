package proxy

import (
	"bytes"
	"maps"
	"sync"
	"sync/atomic"
)

// commandStats are counted for each row of the command table.
type commandStats [3]atomic.Uint64

// What is counted of a command.
const (
	commandCalls    = iota // executed
	commandRejected        // refused before they were executed: arity, login, draining
	commandFailed          // executed and answered with an error
)

// count counts a command in these statistics, which are the server's, and in the user's own; nil: it has
// none.
func (st *commandStats) count(own *ownStats, what int) {
	st[what].Add(1)
	if own != nil {
		own.count(st, what)
	}
}

// ownStats are the statistics of commands that a confined user sees: of what it has run itself. What others
// run tells of them. All users count in those of the server, too.
type ownStats struct {
	// commands has those of commands that the user has run, by those of the server.
	commands sync.Map // *commandStats → *commandStats

	mu sync.Mutex // guards the fields below; taken for each error reply, never for a good one
	// byCode and refused are as in stats, since the last CONFIG RESETSTAT.
	byCode  map[string]uint64
	refused map[refusedKind]uint64
}

func newOwnStats() *ownStats {
	return &ownStats{byCode: make(map[string]uint64), refused: make(map[refusedKind]uint64)}
}

// count counts a command, which the server counts in all. It allocates for the user's first one.
func (o *ownStats) count(all *commandStats, what int) {
	own := o.of(all)
	if own == nil {
		one, _ := o.commands.LoadOrStore(all, new(commandStats))
		own = one.(*commandStats)
	}
	own[what].Add(1)
}

// of returns the statistics of a command that the server counts in all; nil: the user has not run it.
func (o *ownStats) of(all *commandStats) *commandStats {
	if one, ok := o.commands.Load(all); ok {
		return one.(*commandStats)
	}
	return nil
}

// countError counts an error reply by its code.
func (o *ownStats) countError(reply []byte) {
	o.mu.Lock()
	countCode(o.byCode, codeOf(reply))
	o.mu.Unlock()
}

// countRefused counts a refusal by the command's name and the reason.
func (o *ownStats) countRefused(kind refusedKind) {
	o.mu.Lock()
	o.refused[kind]++
	o.mu.Unlock()
}

// read returns the counts of error replies by code, and of refusals by command and reason.
func (o *ownStats) read() (byCode map[string]uint64, refused map[refusedKind]uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.byCode), maps.Clone(o.refused)
}

// reset is CONFIG RESETSTAT.
func (o *ownStats) reset() {
	o.commands.Clear()
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.byCode)
	clear(o.refused)
}

// errorCodesMax bounds the codes that are counted. Handlers use a dozen; the bound is for a script that
// returns errors with codes of its own.
const errorCodesMax = 64

// codeOf is the first word of an error reply.
func codeOf(reply []byte) []byte {
	code, _, _ := bytes.Cut(reply, []byte(" "))
	return bytes.TrimPrefix(code, []byte("-"))
}

// countCode counts an error code of reasonable length, if there is room for it.
func countCode(byCode map[string]uint64, code []byte) {
	if len(code) == 0 || len(code) > 31 {
		return
	}
	if _, known := byCode[string(code)]; known || len(byCode) < errorCodesMax {
		byCode[string(code)]++
	}
}

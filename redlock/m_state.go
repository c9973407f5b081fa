package redlock

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

// What a master shows of its membership in the field v of the hash redlockd:members, in one value, so that a memory that is lost takes
// its record with it:
//
//	<memory> <generation>-<lineage>.<version> <digest>                                        settled on a record
//	<memory> <generation>-<lineage>.<version> <digest> ? <ballot> <digest of child>           … and has accepted a child of it
//	<memory> -                                                                                fresh: no record yet
//	<memory> - ? <ballot> <digest of child>                                                   … and has accepted a founding
//
// A memory is named <run_id>:<16 hex>. The name is made once and never used again.

const (
	// stateMax bounds the field v, in bytes.
	stateMax = 512
	// ballotDigits is the length of the number that a ballot begins with. Ballots are compared as strings.
	ballotDigits = 8
	ballotMax    = 99_999_999
)

// memberState is the field v.
type memberState struct {
	// memory is the name of the master's memory.
	memory string
	// fresh: the memory has no record yet.
	fresh bool
	// record is the settled one; zero where fresh.
	record recordID
	// ballot and child belong to the accepted child: its ballot and its digest. Both are "" when settled.
	ballot, child string
}

// parseState reads the field v. It accepts only what redlockd writes.
func parseState(v string) (memberState, error) {
	s, ok := readState(v)
	if !ok {
		return memberState{}, fmt.Errorf("the field v of %s is %q, which this redlockd cannot read", lua.MembersKey, conn.Sanitize(v))
	}
	return s, nil
}

// stateOf reads the field v of the process with this run_id. What has no name, or is of another process, is the empty state: the memory of before
// is lost. What names this process in a form that is unknown here is refused, because somebody may count on it: a newer redlockd.
func stateOf(v, runID string) (memberState, error) {
	s, err := parseState(v)
	switch {
	case err == nil && s.runID() == runID:
		return s, nil
	case err != nil && runID != "" && strings.Contains(v, runID): //mutant:what-cannot-be-read-is-replaced
		return memberState{}, &conn.RefusedError{Reason: err.Error() + ": if a newer redlockd uses this master, run its version here too; " +
			"else see who writes to it, and run DEL " + lua.MembersKey + " there: it votes after the wait"}
	}
	return memberState{}, nil
}

func readState(v string) (s memberState, ok bool) {
	if len(v) > stateMax {
		return s, false
	}
	settled, accepted, isAccepted := strings.Cut(v, " ? ")
	var shownRecord string
	s.memory, shownRecord, _ = strings.Cut(settled, " ")
	if !isMemory(s.memory) {
		return s, false
	}
	if s.fresh = shownRecord == "-"; !s.fresh {
		if s.record, ok = readRecordID(shownRecord); !ok {
			return s, false
		}
	}
	if isAccepted {
		s.ballot, s.child, _ = strings.Cut(accepted, " ")
		return s, isBallot(s.ballot) && isHex(s.child, digestLen)
	}
	return s, true
}

// readRecordID reads what recordID.String writes.
func readRecordID(text string) (id recordID, ok bool) {
	version, digest, _ := strings.Cut(text, " ")
	lineage, number, _ := strings.Cut(version, ".")
	if id.generation, id.lineage, ok = parseLineage(lineage); !ok {
		return id, false
	}
	id.version, ok = parseCount(number)
	id.digest = digest
	return id, ok && isHex(digest, digestLen)
}

// settled is the field v without the accepted child.
func (s memberState) settled() string {
	if s.fresh {
		return s.memory + " -"
	}
	return s.memory + " " + s.record.String()
}

func (s memberState) String() string {
	if s.ballot == "" {
		return s.settled()
	}
	return s.settled() + " ? " + s.ballot + " " + s.child
}

// runID is that of the process whose memory it is.
func (s memberState) runID() string {
	id, _, _ := strings.Cut(s.memory, ":")
	return id
}

// nonceLen is the length of a nonce in hex.
const nonceLen = 16

func nonce() string {
	var b [nonceLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// newMemory names a memory of this process.
func newMemory(runID string) string { return runID + ":" + nonce() }

func isMemory(text string) bool {
	id, rest, _ := strings.Cut(text, ":")
	return isRunID(id) && isHex(rest, nonceLen)
}

func isRunID(text string) bool {
	for i := range len(text) {
		if !isWordByte(text[i]) {
			return false
		}
	}
	return text != "" && len(text) <= runIDMax
}

// newBallot returns a ballot that is higher than the previous one, "" for none. What is no ballot counts as none. A master that shows
// the highest number there is can make ballots equal in it; then their nonces decide.
func newBallot(previous string) string {
	number := int64(0)
	if isBallot(previous) {
		number, _ = parseCount(strings.TrimLeft(previous[:ballotDigits], "0"))
	}
	return fmt.Sprintf("%0*d.%s", ballotDigits, min(number+1, ballotMax), nonce())
}

func isBallot(text string) bool {
	number, rest, _ := strings.Cut(text, ".")
	if len(number) != ballotDigits || strings.Trim(number, "0123456789") != "" {
		return false
	}
	return isHex(rest, nonceLen)
}

// settledOn tells whether the memory is the one that the seat lists, and has settled on the record.
func (s memberState) settledOn(r *record, listed *seat) bool {
	return s.memory == listed.memory && s.record == r.recordID() && s.child == ""
}

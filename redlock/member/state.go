package member

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
)

// What a master shows of its membership in the field v of the hash redlockd:members, in one value, so
// that a memory that is lost takes its record with it:
//
//	<memory> <generation>-<lineage>.<version> <digest>                                        settled on a record
//	<memory> <generation>-<lineage>.<version> <digest> ? <ballot> <digest of child>           … and has accepted a child of it
//	<memory> -                                                                                fresh: no record yet
//	<memory> - ? <ballot> <digest of child>                                                   … and has accepted a founding
//
// A memory is named <run_id>:<16 hex>. The name is made once and never used again.

const (
	// StateMax bounds the field v, in bytes.
	StateMax = 512
	// ballotDigits is the length of the number that a ballot begins with. Ballots are compared as strings.
	ballotDigits = 8
	ballotMax    = 99_999_999
)

// State is the field v.
type State struct {
	// Memory is the name of the master's memory.
	Memory string
	// Fresh: the memory has no record yet.
	Fresh bool
	// Record is the settled one; zero where fresh.
	Record RecordID
	// Ballot and Child belong to the accepted child: its ballot and its digest. Both are "" when settled.
	Ballot, Child string
}

// StateOf reads the field v of the process with this run_id. What has no name, or is of another
// process, is the empty state: the memory of before is lost. What names this process in a form that is
// unknown here is refused, because somebody may count on it: a newer redlockd.
func StateOf(v, runID string) (State, error) {
	s, ok := ParseState(v)
	switch {
	case ok && s.RunID() == runID:
		return s, nil
	case !ok && runID != "" && strings.Contains(v, runID): //mutant:what-cannot-be-read-is-replaced
		return State{}, &conn.RefusedError{Reason: fmt.Sprintf("the field v of %s is %q, which this redlockd cannot read: if a newer redlockd uses this master, "+
			"run its version here too; else see who writes to it, and run DEL %[1]s there: it votes after the wait", lua.MembersKey, conn.Sanitize(v))}
	}
	return State{}, nil
}

// ParseState reads what State.String writes: the field v of lua.MembersKey.
func ParseState(v string) (s State, ok bool) {
	if len(v) > StateMax {
		return s, false
	}
	settled, accepted, isAccepted := strings.Cut(v, " ? ")
	var shownRecord string
	s.Memory, shownRecord, _ = strings.Cut(settled, " ")
	if !isMemory(s.Memory) {
		return s, false
	}
	if s.Fresh = shownRecord == "-"; !s.Fresh {
		if s.Record, ok = readRecordID(shownRecord); !ok {
			return s, false
		}
	}
	if isAccepted {
		s.Ballot, s.Child, _ = strings.Cut(accepted, " ")
		return s, IsBallot(s.Ballot) && IsHex(s.Child, DigestLen)
	}
	return s, true
}

// readRecordID reads what RecordID.String writes.
func readRecordID(text string) (id RecordID, ok bool) {
	version, digest, _ := strings.Cut(text, " ")
	lineage, number, _ := strings.Cut(version, ".")
	if id.generation, id.lineage, ok = parseLineage(lineage); !ok {
		return id, false
	}
	id.Version, ok = parseCount(number)
	id.Digest = digest
	return id, ok && IsHex(digest, DigestLen)
}

// Settled is the field v without the accepted child.
func (s State) Settled() string {
	if s.Fresh {
		return s.Memory + " -"
	}
	return s.Memory + " " + s.Record.String()
}

func (s State) String() string {
	if s.Ballot == "" {
		return s.Settled()
	}
	return s.Settled() + " ? " + s.Ballot + " " + s.Child
}

// RunID is that of the process whose memory it is.
func (s State) RunID() string {
	id, _, _ := strings.Cut(s.Memory, ":")
	return id
}

// NonceLen is the length of a nonce in hex.
const NonceLen = 16

// Nonce is 16 random hexadecimal digits.
func Nonce() string {
	var b [NonceLen / 2]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// NewMemory names a memory of this process.
func NewMemory(runID string) string { return runID + ":" + Nonce() }

func isMemory(text string) bool {
	id, rest, _ := strings.Cut(text, ":")
	return isRunID(id) && IsHex(rest, NonceLen)
}

func isRunID(text string) bool {
	for i := range len(text) {
		if !isWordByte(text[i]) {
			return false
		}
	}
	return text != "" && len(text) <= runIDMax
}

// NewBallot returns a ballot that is higher than the previous one, "" for none. What is no ballot
// counts as none. A master that shows the highest number there is can make ballots equal in it; then
// their nonces decide.
func NewBallot(previous string) string {
	number := int64(0)
	if IsBallot(previous) {
		number, _ = parseCount(strings.TrimLeft(previous[:ballotDigits], "0"))
	}
	return fmt.Sprintf("%0*d.%s", ballotDigits, min(number+1, ballotMax), Nonce())
}

func IsBallot(text string) bool {
	number, rest, _ := strings.Cut(text, ".")
	if len(number) != ballotDigits || strings.Trim(number, "0123456789") != "" {
		return false
	}
	return IsHex(rest, NonceLen)
}

// SettledOn tells whether the memory is the one that the seat lists, and has settled on the record.
func (s State) SettledOn(r *Record, listed *Seat) bool {
	return s.Memory == listed.Memory && s.Record == r.ID() && s.Child == ""
}

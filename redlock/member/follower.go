package member

import (
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Every client notes on the masters, with each heartbeat, which record it goes by, and the longest TTL
// that it was asked for lately (lua/follow.lua). ceiling.go says what for.

// followerPrefix begins the fields of the notes; the client's id follows.
const followerPrefix = "f:"

// NoteKept is after how long the note of a client that is gone is deleted: much later than it is over.
const NoteKept = time.Hour

// FollowerText is what a client that goes by r notes, behind the master's clock.
func FollowerText(r *Record, inUse time.Duration) string {
	return fmt.Sprintf("%s %d", r.Digest, inUse.Milliseconds())
}

// noteOfNobody is for a voter that cannot be given the notes of before, because too few voters were
// read: somebody may follow a record of before.
const noteOfNobody = followerPrefix + "unknown"

// followerNote is one that was read.
type followerNote struct {
	at     string // by the master's clock, in milliseconds
	digest string // of the record
	inUse  time.Duration
}

func parseFollower(text string) (n followerNote) {
	at, rest, _ := strings.Cut(text, " ")
	digest, inUse, _ := strings.Cut(rest, " ")
	ms, _ := strconv.ParseInt(inUse, 10, 64)
	return followerNote{at, digest, min(time.Duration(max(0, ms))*time.Millisecond, recordWaitMax)}
}

// Followers are the notes as a client has read them: by memory and field, the text and since when it has
// been that.
type Followers map[[2]string]followerSeen

type followerSeen struct {
	text  string
	since time.Time
}

// Shown takes in a survey. What is not read any more is dropped: it was deleted, or its master is away.
func (all *Followers) Shown(s *Survey) {
	next := make(Followers)
	for _, f := range s.Reports {
		if !f.OK() {
			continue
		}
		for field, text := range f.Fields {
			if !strings.HasPrefix(field, followerPrefix) {
				continue
			}
			key := [2]string{f.State.Memory, field}
			seen, known := (*all)[key]
			if !known || seen.text != text {
				seen = followerSeen{text, s.Began}
			}
			next[key] = seen
		}
	}
	*all = next
}

// each goes through the notes that voters have which show r, those of own left out. over: the client is
// gone, for its note has not changed for as long as it may count. That is known by the clock of this
// process, or by the master's, where that agrees with ours and with a majority, as a wait is.
func (all Followers) each(s *Survey, r *Record, own string, o Options, note func(client string, n followerNote, over bool, left time.Duration)) {
	life := noteLife(r)
	agreeing := s.agreeing(o.ClockSkewMax)
	for _, f := range VotersOf(s, r) {
		for field, text := range f.Fields {
			client, is := strings.CutPrefix(field, followerPrefix)
			if !is || client == own {
				continue
			}
			n := parseFollower(text)
			age := time.Duration(0)
			if seen, known := all[[2]string{f.State.Memory, field}]; known {
				age = s.Began.Sub(seen.since)
			}
			if said, ok := StampAge(n.at, f.Clock, o.ClockSkewMax); ok && agreeing.Has(f.Place) {
				age = max(age, said-2*o.ClockSkewMax)
			}
			note(client, n, age >= life, life-age) //mutant:a-follower-is-over-at-once
		}
	}
}

// VotersOf are the masters that show r with a memory that is a voter there.
func VotersOf(s *Survey, r *Record) (list []*Report) {
	for _, f := range s.Reports {
		if f.Shows(r) && r.Seat(f.Place).State == Voter { //mutant:notes-of-learners-count
			list = append(list, f)
		}
	}
	return list
}

// Behind says who may still go by a record before r, and for how long; "": nobody.
func (all Followers) Behind(s *Survey, r *Record, own string, o Options) string {
	if n := len(VotersOf(s, r)); n < r.Quorum() { //mutant:notes-of-few-voters
		return fmt.Sprintf("%d of %d masters vote under it so far", n, len(r.Seats))
	}
	follows, behind := make(map[string]bool), make(map[string]time.Duration)
	all.each(s, r, own, o, func(client string, n followerNote, over bool, left time.Duration) {
		switch {
		case n.digest == r.Digest:
			follows[client] = true
		case !over:
			behind[client] = max(behind[client], left)
		}
	})
	maps.DeleteFunc(behind, func(client string, _ time.Duration) bool { return follows[client] })
	if len(behind) == 0 {
		return ""
	}
	longest := time.Duration(0)
	for _, left := range behind {
		longest = max(longest, left)
	}
	return fmt.Sprintf("%d other redlockd may go by the membership of before: they follow in a moment, or were killed, and count for %v at most",
		len(behind), longest.Round(time.Second))
}

// InUse is the longest TTL that any client but own was asked for lately, as the notes say.
func (all Followers) InUse(s *Survey, r *Record, own string, o Options) (longest time.Duration) {
	all.each(s, r, own, o, func(_ string, n followerNote, over bool, _ time.Duration) {
		if !over {
			longest = max(longest, n.inUse)
		}
	})
	return longest
}

// OlderClient tells whether some client states something of a voter's clock there, and notes nothing: it is
// of a version that reads no record whose ceiling is not its max_ttl. own names this client.
func OlderClient(s *Survey, r *Record, own string) bool {
	const lately = time.Minute // more than any heartbeat
	for _, f := range VotersOf(s, r) {
		follows := make(map[string]bool)
		for field := range f.Fields {
			if name, is := strings.CutPrefix(field, followerPrefix); is {
				id, _, _ := strings.Cut(name, "-")
				follows[id] = true
			}
		}
		ownID, _, _ := strings.Cut(own, "-")
		for field, text := range f.Fields {
			id, is := strings.CutPrefix(field, "c:")
			at, _, _ := strings.Cut(text, " ")
			if is && id != ownID && !follows[id] && f.saidWithin(at, lately) { //mutant:an-older-client-is-left-behind
				return true
			}
		}
	}
	return false
}

// Notes are what a master must be given that becomes a voter under r: of each client that is not gone the
// note that one of the voters has, as if it were written now, by the master's clock. The times of others
// would not do: which of several notes is the latest is told by no clock that all share.
func (all Followers) Notes(s *Survey, r *Record, o Options, now time.Time) map[string]string {
	notes := make(map[string]string)
	at := strconv.FormatInt(now.UnixMilli(), 10)
	all.each(s, r, "", o, func(client string, n followerNote, over bool, _ time.Duration) {
		if !over {
			notes[FollowerField(client)] = fmt.Sprintf("%s %s %d", at, cmp.Or(n.digest, "-"), n.inUse.Milliseconds()) //mutant:a-note-is-handed-over-with-its-time
		}
	})
	if len(VotersOf(s, r)) < r.Quorum() { //mutant:notes-of-before-are-forgotten
		notes[noteOfNobody] = at + " - 0"
	}
	return notes
}

// FollowerField is the field of the hash with the note of a client.
func FollowerField(client string) string { return followerPrefix + client }

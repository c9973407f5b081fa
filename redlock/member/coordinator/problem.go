package coordinator

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
)

// What an operator should know of the membership: the problem that `redlockd members` and /readyz show,
// and what the log says of settings that differ from it.

// leftOutShown is for how long people are told that a copy went on without a source.
const leftOutShown = 10 * time.Minute

// complaint is what an operator should know of masters that are no members although they answer; "":
// nothing. strays are those that showed twice what a majority does not know.
func (m *Coordinator) complaint(s *member.Survey, r *member.Record, strays []*member.Report) string {
	for _, f := range strays {
		return fmt.Sprintf("%s shows version %d of the membership, and a majority of the masters does not know it: see who writes to it; it starts anew",
			f.Master.Addr, f.State.Record.Version)
	}
	for _, f := range s.Reports {
		switch {
		case conn.IsRefused(f.Err) && r.Seat(f.Place) != nil:
			return f.Master.Addr + " gets no vote: " + strings.TrimPrefix(f.Err.Error(), conn.RefusedPrefix)
		case f.Foreign(r) && f.Known() == nil:
			return f.Master.Addr + ": " + member.BelongsElsewhere
		case f.Foreign(r):
			return f.Master.Addr + ": " + member.BelongsElsewhere + ", whose masters are " + member.SeatNames(f.Known()) +
				": if these are the masters that are meant here, give this redlockd the names and addresses that `redlockd members` prints with that fleet's settings;" +
				" else name another master here, or, if that fleet is gone, run FLUSHALL on it"
		}
	}
	for _, f := range s.Reports {
		if f.OK() && f.Unreadable != nil {
			return fmt.Sprintf("%s: %s: %v; the next change of the membership writes it anew", f.Master.Addr, survey.TextOfTheRecord, conn.Shorten(f.Unreadable))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.leftOut)) {
		if one := m.leftOut[name]; s.Began.Sub(one.At) < leftOutShown {
			return fmt.Sprintf("%s was left out when %s was given what the others remember: %v: `redlockd check` tries every command there; the next copy tries it again",
				conn.Sanitize(name), conn.Sanitize(one.Learner), one.Why)
		}
	}
	within := heardWithin * m.opts.Heartbeat
	name := s.HeardElsewhere(r, within)
	switch {
	case name == "":
		m.splitSeenSince = time.Time{}
	case m.splitSeenSince.IsZero():
		m.splitSeenSince = s.Began
	case s.Began.Sub(m.splitSeenSince) > 2*within: // a master that has just restarted was heard a moment ago //mutant:two-masters-of-one-name-are-not-told
		return s.HeardOnlyElsewhere(r, name)
	}
	return ""
}

// compareFile says what the settings say otherwise than the record in force, which counts.
func (m *Coordinator) compareFile(r, before *member.Record) {
	if text := member.FileDiffers(r, m.opts); text != "" && (before == nil || text != member.FileDiffers(before, m.opts)) {
		m.opts.Logger.Warn("the settings differ from the membership, which counts", "differences", text,
			"to_do", cmp.Or(member.CorrectsRecord(r, m.opts), "write into config.toml what `redlockd members` shows"))
	}
	var missing []string
	for s := range r.EachSeat() {
		if s.State == member.Vacant && m.opts.MasterOf(s.Name, s.Addr) != nil && (before == nil || before.SeatNamed(s.Name) == nil || before.SeatNamed(s.Name).State != member.Vacant) {
			missing = append(missing, conn.Sanitize(s.Name))
		}
	}
	if len(missing) > 0 {
		m.opts.Logger.Warn("the membership has seats without a master", "seats", strings.Join(missing, ", "),
			"to_do", "start these masters: they vote soon after; if the address of one is wrong, correct the settings, and run what `redlockd members` says then")
	}
}

// setProblem sets what Membership shows. It is over after the time left, if nothing else happens; 0: that
// is not known. The log has it once, without the time, and its end.
func (m *Coordinator) setProblem(text string, left time.Duration) {
	m.mu.Lock()
	m.problem, m.problemEnds = text, time.Time{}
	if left > 0 {
		m.problemEnds = time.Now().Add(left)
	}
	m.mu.Unlock()
	switch before := m.problemLogged; {
	case before == text:
		return
	case text == "":
		m.log.Log(m.opts.Logger, slog.LevelInfo, time.Now(), "membership problem is resolved", "problem", before)
	default:
		m.log.Log(m.opts.Logger, slog.LevelWarn, time.Now(), "membership", "problem", text,
			"to_do", "see `redlockd members` and `redlockd check`")
	}
	m.problemLogged = text
}

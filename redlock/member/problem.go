package member

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
)

// What an operator should know of the membership: the problem that `redlockd members` and /readyz show,
// and what the log says of settings that differ from it.

// leftOutShown is for how long people are told that a copy went on without a source.
const leftOutShown = 10 * time.Minute

// complaint is what an operator should know of masters that are no members although they answer; "":
// nothing. strays are those that showed twice what a majority does not know.
func (m *Coordinator) complaint(s *Survey, r *Record, strays []*Report) string {
	for _, f := range strays {
		return fmt.Sprintf("%s shows version %d of the membership, and a majority of the masters does not know it: see who writes to it; it starts anew",
			f.master.Addr, f.State.Record.version)
	}
	for _, f := range s.Reports {
		switch {
		case conn.IsRefused(f.err) && r.Seat(f.Place) != nil:
			return f.master.Addr + " gets no vote: " + strings.TrimPrefix(f.err.Error(), conn.RefusedPrefix)
		case f.foreign(r) && f.known() == nil:
			return f.master.Addr + ": " + belongsElsewhere
		case f.foreign(r):
			return f.master.Addr + ": " + belongsElsewhere + ", whose masters are " + seatNames(f.known()) +
				": if these are the masters that are meant here, give this redlockd the names and addresses that `redlockd members` prints with that fleet's settings;" +
				" else name another master here, or, if that fleet is gone, run FLUSHALL on it"
		}
	}
	for _, f := range s.Reports {
		if f.ok() && f.unreadable != nil {
			return fmt.Sprintf("%s: %s: %v; the next change of the membership writes it anew", f.master.Addr, textOfTheRecord, conn.Shorten(f.unreadable))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.leftOut)) {
		if one := m.leftOut[name]; s.Began.Sub(one.at) < leftOutShown {
			return fmt.Sprintf("%s was left out when %s was given what the others remember: %v: `redlockd check` tries every command there; the next copy tries it again",
				conn.Sanitize(name), conn.Sanitize(one.learner), one.why)
		}
	}
	within := heardWithin * m.opts.Heartbeat
	name := s.heardElsewhere(r, within)
	switch {
	case name == "":
		m.splitSeenSince = time.Time{}
	case m.splitSeenSince.IsZero():
		m.splitSeenSince = s.Began
	case s.Began.Sub(m.splitSeenSince) > 2*within: // a master that has just restarted was heard a moment ago //mutant:two-masters-of-one-name-are-not-told
		return s.heardOnlyElsewhere(r, name)
	}
	return ""
}

// heardOnlyElsewhere says why the listed memory of a seat, which others hear, was not found here: the
// way there is broken, or its address means another master.
func (s *Survey) heardOnlyElsewhere(r *Record, name string) string {
	if f := s.At(r.SeatNamed(name).Number); f == nil || f.err != nil {
		why := ""
		if f != nil {
			why = " (" + conn.Shorten(f.err).Error() + ")"
		}
		return conn.Sanitize(name) + " is heard by another redlockd and cannot be reached from here" + why + ": see the network between, and what its address means here"
	}
	return conn.Sanitize(name) + " is heard by another redlockd and shows another memory here: see what its address means on both machines"
}

// compareFile says what the settings say otherwise than the record in force, which counts.
func (m *Coordinator) compareFile(r, before *Record) {
	if text := fileDiffers(r, m.opts); text != "" && (before == nil || text != fileDiffers(before, m.opts)) {
		m.opts.Logger.Warn("the settings differ from the membership, which counts", "differences", text,
			"to_do", cmp.Or(correctsRecord(r, m.opts), "write into config.toml what `redlockd members` shows"))
	}
	var missing []string
	for s := range r.seats() {
		if s.State == Vacant && m.opts.masterOf(s.Name, s.Addr) != nil && (before == nil || before.SeatNamed(s.Name) == nil || before.SeatNamed(s.Name).State != Vacant) {
			missing = append(missing, conn.Sanitize(s.Name))
		}
	}
	if len(missing) > 0 {
		m.opts.Logger.Warn("the membership has seats without a master", "seats", strings.Join(missing, ", "),
			"to_do", "start these masters: they vote soon after; if the address of one is wrong, correct the settings, and run what `redlockd members` says then")
	}
}

func (m *Coordinator) setProblem(text string) { m.setProblemFor(0, text) }

// setProblemFor is setProblem for one that is over after that time, if nothing else happens. The log
// has it once, without the time, and its end.
func (m *Coordinator) setProblemFor(left time.Duration, text string) {
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

package member

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"redlockd/redlock/conn"
)

// What an operator should know of the membership: the problem that `redlockd members` and /readyz show, and what the log says of settings that
// differ from it.

// complaint is what an operator should know of masters that are no members although they answer; "": nothing.
// strays are those that showed twice what a majority does not know.
func (m *Coordinator) complaint(s *Survey, r *Record, strays []*Report) string {
	for _, f := range strays {
		return fmt.Sprintf("%s shows version %d of the membership, and a majority of the masters does not know it: see who writes to it; it starts anew",
			f.master.Addr, f.State.Record.version)
	}
	for _, f := range s.Reports {
		if f.foreign(r) {
			if f.record != nil {
				return f.master.Addr + ": " + otherFleet(f.record)
			}
			return f.master.Addr + ": " + belongsElsewhere
		}
	}
	for _, f := range s.Reports {
		if f.ok() && f.unreadable != nil {
			return fmt.Sprintf("%s: %s: %v; the next change of the membership writes it anew", f.master.Addr, textOfTheRecord, conn.Shorten(f.unreadable))
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
		return meansTwo(name)
	}
	return ""
}

// otherFleet says whose a master is whose record is of another fleet.
func otherFleet(r *Record) string {
	var names []string
	for i := range r.Seats {
		names = append(names, conn.Sanitize(r.Seats[i].Name))
	}
	return belongsElsewhere + ", whose masters are " + strings.Join(names, ", ") +
		": if these are the masters that are meant here, give this redlockd the names and addresses that `redlockd members` prints with that fleet's settings;" +
		" else name another master here, or, if that fleet is gone, run FLUSHALL on it"
}

// meansTwo says that the address of a seat means one master here and another one elsewhere.
func meansTwo(name string) string {
	return conn.Sanitize(name) + " is heard by another redlockd and shows another memory here: see what its address means on both machines"
}

// compareFile says what the settings say otherwise than the record in force, which counts.
func (m *Coordinator) compareFile(r, before *Record) {
	if before != nil && before.MaxTTL == r.MaxTTL && before.Roster == r.Roster && sameAddrs(before, r) {
		return
	}
	if text := fileDiffers(r, m.opts); text != "" {
		m.opts.Logger.Warn("the settings differ from the membership, which counts", "differences", text,
			"to_do", "write into config.toml what `redlockd members` shows")
	}
}

func sameAddrs(a, b *Record) bool {
	return slices.EqualFunc(a.Seats, b.Seats, func(x, y Seat) bool { return x.Number == y.Number && x.Addr == y.Addr })
}

func (m *Coordinator) setProblem(text string) { m.setProblemFor(0, text) }

// setProblemFor is setProblem for one that is over after that time, if nothing else happens. The log has it once, without the time.
func (m *Coordinator) setProblemFor(left time.Duration, text string) {
	m.Mu.Lock()
	changed := m.problem != text
	m.problem, m.problemEnds = text, time.Time{}
	if left > 0 {
		m.problemEnds = time.Now().Add(left)
	}
	m.Mu.Unlock()
	if changed && text != "" {
		m.log.Log(m.opts.Logger, slog.LevelWarn, time.Now(), "membership", "problem", text,
			"to_do", "see `redlockd members` and `redlockd check`")
	}
}

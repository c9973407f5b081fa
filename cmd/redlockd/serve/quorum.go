package serve

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"time"

	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

// awaitQuorum waits until a quorum of masters is connected, for connect_timeout at most, before the
// server accepts clients. Until then a client waits in the listener's queue; otherwise it would get
// NOQUORUM.
func (s *server) awaitQuorum(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Engine.ConnectTimeout)
	defer cancel()
	s.engine.Ready(ctx) // if there is none, watchQuorum says so
}

// toDo is the advice about masters, unless they are inside this process.
func (s *server) toDo(advice string) string {
	if s.embedded() {
		return "nothing if this machine was paused; else see its load: the masters are inside this process, and need its CPU"
	}
	return advice
}

// watchQuorum logs when the first quorum of masters is reached, and which masters are missing; before
// that, once, what is missing for a quorum. From then on it logs when the quorum is lost and when it is
// back. The engine logs the changes of each master.
func (s *server) watchQuorum(ctx context.Context, clients net.Addr) {
	total := func() int { return len(s.engine.Masters()) } // the membership may change
	needed := func() int { return redlock.Standing{Seats: total()}.Needed() }
	// A healthy master answers within connect_timeout: log what is missing after that.
	patience, cancel := context.WithTimeout(ctx, s.config.Engine.ConnectTimeout)
	defer cancel()
	if s.engine.Ready(patience) != nil && ctx.Err() == nil {
		s.log.Warn("no quorum of masters yet: commands are answered with NOQUORUM until there is one",
			"needed", needed(), "masters", total(), "missing", missing(s.engine.Masters()),
			"to_do", s.toDo("see what the log says of the membership; wait for masters that are new, in quarantine or doubted; for others, redlockd check says what is wrong"))
	}
	if s.engine.Ready(ctx) != nil {
		return // stopped before
	}
	s.log.Info("quorum reached: locks are granted", "needed", needed(), "masters", total())
	s.status.setLocks("locks are granted")
	// The slowest healthy master may still be connecting.
	awaitAll(patience, s.engine)
	if out := missing(s.engine.Masters()); out != "" && ctx.Err() == nil {
		s.log.Warn("not all masters can vote: locks are granted", "missing", out,
			"to_do", s.toDo("wait for masters that are new, in quarantine or doubted; for others, redlockd check says what is wrong"))
	}
	if s.embedded() {
		s.log.Info("type this, to try it: " + howToTry(clients))
	}
	for hasQuorum, failing := true, false; pause(ctx, quorumPause); {
		if now := redlock.Failing(s.engine); now != failing {
			failing = now
			s.logFailing(failing)
		}
		err := quorum(s.engine)
		switch {
		case (err == nil) == hasQuorum:
			continue
		case err == nil:
			s.log.Info("quorum is back: locks are granted", "needed", needed(), "masters", total())
			s.status.setLocks("locks are granted")
		default:
			s.log.Error("quorum lost: commands are answered with NOQUORUM until it is back",
				"needed", needed(), "masters", total(), "missing", missing(s.engine.Masters()),
				"to_do", s.toDo("bring back masters that are down, and restart none of the others; those in quarantine or doubted vote again by themselves, unless their reason says what to do"))
			s.status.setLocks("no quorum of masters: no locks are granted")
		}
		hasQuorum = !hasQuorum
	}
}

// logFailing logs that no lock is granted whatever is known of the masters, and when that is over.
func (s *server) logFailing(failing bool) {
	if failing {
		s.log.Error("all LOCKs end without a quorum", "missing", missing(s.engine.Masters()),
			"to_do", s.toDo("see the reasons in the replies to LOCK, and what redlockd check finds on the masters"))
		return
	}
	s.log.Info("a quorum answers LOCKs again, or nobody asks any more")
}

// howToTry is what to type next, to take a lock on this machine.
func howToTry(at net.Addr) string {
	way := "-s " + at.String()
	if tcp, ok := at.(*net.TCPAddr); ok {
		way = fmt.Sprintf("-h %s -p %d", tcp.IP, tcp.Port)
		if tcp.IP.IsUnspecified() || tcp.IP.Equal(net.IPv4(127, 0, 0, 1)) {
			way = fmt.Sprintf("-p %d", tcp.Port)
		}
	}
	command := "redis-cli " + way + " LOCK invoices 30s"
	if _, err := exec.LookPath("redis-cli"); err != nil {
		command += " (redis-cli is not installed: apt-get install redis-tools, dnf install redis or brew install redis; any other client of Redis will do)"
	}
	return command
}

// quorumPause is the pause between two checks of the quorum. The counters of INFO show shorter losses.
const quorumPause = time.Second

// pause waits, and returns false when ctx is done.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// quorum returns nil if a quorum of masters can vote now, else the error that a LOCK would get.
func quorum(engine *redlock.Client) error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	return engine.Ready(now)
}

// awaitAll waits until every master can vote, or ctx is done.
func awaitAll(ctx context.Context, engine *redlock.Client) {
	for missing(engine.Masters()) != "" && pause(ctx, 2*time.Millisecond) {
	}
}

// missing lists the masters that cannot vote, each with the reason.
func missing(masters []redlock.MasterStatus) string {
	var all []string
	for _, m := range masters {
		if m.State != redlock.MasterUp {
			why := string(m.State)
			if m.Left > 0 {
				why += " for another " + config.FormatDuration(m.Left.Round(10*time.Millisecond))
			}
			if m.Reason != "" {
				why += ": " + m.Reason
			}
			all = append(all, fmt.Sprintf("%s (%s)", m.Addr, why))
		}
	}
	return strings.Join(all, ", ")
}

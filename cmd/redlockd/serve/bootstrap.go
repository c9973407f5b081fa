package serve

import (
	"context"
	"slices"
	"strings"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/redlock"
)

// bootstrapIn bounds one attempt to bootstrap, in units of connect_timeout: it connects to all masters,
// some times where it goes on with what was founded.
const bootstrapIn = 10

// bootstrapPause is the pause before the next attempt: at first, because docker compose starts masters
// together with redlockd, and later.
const (
	bootstrapPause     = 50 * time.Millisecond
	bootstrapPauseLate = time.Second
)

// bootstrap admits the masters if all of them are new. done is false if some are missing: another
// attempt may find them.
func (s *server) bootstrap(ctx context.Context, engine redlock.Options) (missing []string, done bool) {
	ctx, cancel := context.WithTimeout(ctx, bootstrapIn*engine.ConnectTimeout)
	defer cancel()
	reports, err := redlock.BootstrapAndReport(ctx, engine, false)
	for _, r := range reports {
		if r.Missing {
			missing = append(missing, r.Addr+" ("+cli.OneLine(r.Problem)+")")
		}
	}
	// A master that votes, or holds keys, does not become new.
	final := slices.ContainsFunc(reports, func(r redlock.BootstrapReport) bool { return r.Problem != nil && !r.Missing })
	switch {
	case err == nil:
		return nil, true
	case len(missing) > 0 && !final || ctx.Err() != nil:
		return missing, false
	}
	s.log.Warn("no bootstrap: masters that have no vote yet have to be waited for", "reason", cli.OneLine(err),
		"to_do", "nothing if the masters have voted before: --bootstrap is only for their first start; else fix what the reason says, and restart redlockd or run `redlockd bootstrap`")
	return nil, true
}

// awaitMasters goes on with the bootstrap until all masters were there at once, or somebody votes. What
// the engine founds meanwhile is no obstacle.
func (s *server) awaitMasters(ctx context.Context) {
	late, logged := time.Now().Add(2*s.config.Engine.ConnectTimeout), false
	engine := s.config.Engine
	engine.Logger = s.log
	for wait := bootstrapPause; pause(ctx, wait) && s.engine.Membership().Voters() == 0; {
		missing, done := s.bootstrap(ctx, engine)
		switch {
		case done:
			return
		case logged || time.Now().Before(late) || ctx.Err() != nil:
		default:
			wait, logged = bootstrapPauseLate, true
			s.log.Warn("the bootstrap waits for masters", "missing", strings.Join(missing, ", "),
				"to_do", "start them; or correct the list of masters and restart redlockd; or run `redlockd bootstrap --anyway`, which admits the others now; else these vote after the wait")
		}
	}
}

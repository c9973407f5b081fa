package serve

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"redlockd/cmd/redlockd/config"
	"redlockd/redlock"
)

// reloadOn reads the settings again whenever hangups has a signal, until ctx ends. Nobody waits for it,
// because a read of a file that hangs cannot be ended.
func (s *server) reloadOn(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			s.reload()
		}
	}
}

// reload reads the settings again and puts those into force that can change while the server runs, or
// none of them. It logs what it has done and returns it in one line.
func (s *server) reload() (changed string, err error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	notifyReloading()
	defer notify("READY=1")
	changed, err = s.replaceSettings()
	s.status.setReload(statusOfReload(changed, err))
	if err != nil {
		for _, fault := range config.Flatten(err) {
			s.log.Warn("the settings could not be read again: those before stay in force", "reason", fault.Error(),
				"to_do", "correct it and send SIGHUP or CONFIG RELOAD again; redlockd serve --check-config with the same flags tries it without changing anything")
		}
		return "", err
	}
	s.log.Info("the settings were read again", "changed", changed)
	return changed, nil
}

// statusOfReload names what is not in force after a reload; empty: nothing.
func statusOfReload(changed string, err error) string {
	if err != nil {
		faults := config.Flatten(err)
		more := ""
		if n := len(faults) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more in the log)", n)
		}
		return "the last reload failed, the settings before it are in force: " + faults[0].Error() + more
	}
	_, late, found := strings.Cut(changed, config.NotInForce)
	if !found {
		return ""
	}
	return "settings" + strings.TrimPrefix(config.NotInForce, ";") + late
}

func (s *server) replaceSettings() (changed string, err error) {
	next, err := s.call.Load()
	if err != nil {
		return "", err
	}
	addrs := s.config.Listen
	if len(s.passed) > 0 {
		addrs = s.passed
	}
	if err := next.CheckServed(addrs, s.config.HTTPListen); err != nil {
		return "", err
	}
	names, atStart, membership, err := s.current.Load().Changes(next)
	if err != nil {
		return "", err
	}
	membership = slices.DeleteFunc(membership, func(name string) bool { return s.membershipHas(name, next) })
	next.Keep(s.config)
	closed, err := s.putIntoForce(next)
	if err != nil {
		return "", err
	}
	s.level.UnmarshalText([]byte(next.LogLevel))
	s.current.Store(next)
	for _, warning := range next.Warnings {
		s.log.Warn(warning)
	}
	warnOfFewFiles(s.log, next)
	changed = cmp.Or(strings.Join(names, ", "), "nothing")
	if closed > 0 {
		changed += fmt.Sprintf("; %d connections closed, because their user was changed or removed", closed)
	}
	for _, late := range []struct {
		names       []string
		until, toDo string
	}{
		{atStart, " before a restart", "restart redlockd, or take the change back"},
		{membership, ", because the membership of the masters has the say", "change the masters and max_ttl with redlockd members, or take the change back"},
	} {
		if len(late.names) > 0 {
			names := strings.Join(late.names, ", ")
			changed += config.NotInForce + late.until + ": " + names
			s.log.Warn("settings differ from those in force", "settings", names, "to_do", late.toDo)
		}
	}
	return changed, nil
}

// membershipHas reports whether the setting says what the membership says, and what it did not say at
// the start: redlockd members told the operator to write that.
func (s *server) membershipHas(name string, next *config.Config) bool {
	m := s.engine.Membership()
	if name == "locks.max_ttl" {
		return next.Engine.MaxTTL == m.MaxTTL
	}
	same := func(masters []redlock.Master) bool {
		return len(masters) == len(m.Seats) && !slices.ContainsFunc(masters, func(one redlock.Master) bool {
			return !slices.ContainsFunc(m.Seats, func(seat redlock.Seat) bool { return seat.Addr == one.FullAddr() })
		})
	}
	return same(next.Engine.Masters) && !same(s.config.Engine.Masters)
}

// putIntoForce changes the front and the engine to the settings of next, or neither. It returns how
// many connections it has closed. What can fail comes first, and making the file of the audit after
// everything else that can.
func (s *server) putIntoForce(next *config.Config) (closed int, err error) {
	front := next.Front
	front.HTTPHosts, front.Audit = next.HTTPHosts(), s.audit
	before := s.engine.Options()
	if err := s.engine.SetOptions(next.Engine); err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			s.engine.SetOptions(before) // they were valid
		}
	}()
	check := front
	check.Engine = s.engine
	if err := check.Validate(); err != nil {
		return 0, err
	}
	if next.AuditFile != s.current.Load().AuditFile {
		if front.Audit, err = s.openAudit(next); err != nil {
			return 0, err
		}
	}
	if closed, err = s.front.Reload(front); err == nil {
		s.audit = front.Audit
	}
	return closed, err
}

package proxy

import (
	"redlockd/redlock/resp"
)

// CLIENT TRACKING and what belongs to it. tracking.go does the work.

const (
	errCachingOff replyError = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
	errCachingYes replyError = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
	errCachingNo  replyError = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."

	errOptInOptOut  replyError = "ERR You can't specify both OPTIN mode and OPTOUT mode"
	errSwitchMode   replyError = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
	errRedirectGone replyError = "ERR The client ID you want redirect to does not exist"
	errRedirectOnce replyError = "ERR A client can only redirect to a single other client"
	errBroadcast    replyError = "ERR CLIENT TRACKING with BCAST or PREFIX is not served: redlockd does not learn of all changes of keys that nobody has read here"
	errTrackingIn2  replyError = "ERR CLIENT TRACKING needs RESP3 (HELLO 3), or REDIRECT to a connection that is subscribed to " + invalidateChannel
)

// cmdCLIENTTRACKING is CLIENT TRACKING ON | OFF [REDIRECT id] [OPTIN] [OPTOUT] [NOLOOP]. If it is on already,
// ON changes the options, but not the mode, as in Redis.
func cmdCLIENTTRACKING(s *session, c *call) {
	var (
		on       = equalFold(c.args[2], "ON")
		redirect int64
		t        = &tracker{s: s, keys: make(map[string]*trackedKey)}
		in, out  bool
	)
	for i := 3; i < len(c.args); i++ {
		switch arg := c.args[i]; {
		case equalFold(arg, "REDIRECT") && i+1 < len(c.args):
			if redirect != 0 {
				c.fail(errRedirectOnce)
				return
			}
			i++
			var ok bool
			if redirect, ok = resp.ParseInt(c.args[i]); !ok {
				c.fail(errNotInteger)
				return
			}
			if other := s.server.client(redirect); other == nil || other.session.accountOf() != s.account {
				c.fail(errRedirectGone)
				return
			}
		case equalFold(arg, "BCAST"), equalFold(arg, "PREFIX") && i+1 < len(c.args):
			c.fail(errBroadcast)
			return
		case equalFold(arg, "OPTIN"):
			in = true
		case equalFold(arg, "OPTOUT"):
			out = true
		case equalFold(arg, "NOLOOP"):
			t.noLoop = true
		default:
			c.fail(errSyntax)
			return
		}
	}
	switch {
	case in:
		t.mode = trackOptIn
	case out:
		t.mode = trackOptOut
	}
	switch {
	case !on && !equalFold(c.args[2], "OFF"):
		c.fail(errSyntax)
		return
	case !on:
		s.server.tracking.forget(s)
		c.ok()
		return
	case in && out:
		c.fail(errOptInOptOut)
		return
	case s.tracker != nil && (s.tracker.mode == trackOptIn && out || s.tracker.mode == trackOptOut && in):
		c.fail(errSwitchMode)
		return
	case s.proto < 3 && redirect == 0:
		c.fail(errTrackingIn2)
		return
	}
	if redirect != s.conn.id { // to itself is as without
		t.redirect = redirect
	}
	all := &s.server.tracking
	all.mu.Lock()
	if s.tracker != nil { // what it tracks goes on, under the new options
		s.tracker.redirect, s.tracker.mode, s.tracker.noLoop, s.tracker.broken = t.redirect, t.mode, t.noLoop, false
	} else {
		s.tracker = t
		all.clients.Add(1)
	}
	all.mu.Unlock()
	c.ok()
}

// accountOf is for any goroutine that does not hold the connection's mu.
func (s *session) accountOf() *account {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	return s.account
}

// cmdCLIENTCACHING is CLIENT CACHING YES | NO, about the next command or transaction.
func cmdCLIENTCACHING(s *session, c *call) {
	yes := equalFold(c.args[2], "YES")
	switch t := s.tracker; {
	case t == nil:
		c.fail(errCachingOff)
	case !yes && !equalFold(c.args[2], "NO"):
		c.fail(errSyntax)
	case yes && t.mode != trackOptIn:
		c.fail(errCachingYes)
	case !yes && t.mode != trackOptOut:
		c.fail(errCachingNo)
	default:
		s.caching = true
		c.ok()
	}
}

// cmdCLIENTTRACKINGINFO answers with the fields of Redis's.
func cmdCLIENTTRACKINGINFO(s *session, c *call) {
	all := &s.server.tracking
	flags := set{"off"}
	all.mu.Lock()
	if t := s.tracker; t != nil {
		flags = set{"on"}
		switch t.mode {
		case trackOptIn:
			flags = append(flags, "optin")
			if s.caching {
				flags = append(flags, "caching-yes")
			}
		case trackOptOut:
			flags = append(flags, "optout")
			if s.caching {
				flags = append(flags, "caching-no")
			}
		}
		if t.noLoop {
			flags = append(flags, "noloop")
		}
		if t.broken {
			flags = append(flags, "broken_redirect")
		}
	}
	all.mu.Unlock()
	c.reply(fields{"flags", flags, "redirect", s.redirectID(), "prefixes", array{}})
}

// cmdCLIENTGETREDIR answers with the id of the connection that gets the invalidations.
func cmdCLIENTGETREDIR(s *session, c *call) { c.out = resp.AppendInt(c.out, s.redirectID()) }

// redirectID is the id of the connection that gets the invalidations; 0: the session's own; -1: tracking
// is off. The connection's mu may be held.
func (s *session) redirectID() int64 {
	all := &s.server.tracking
	all.mu.Lock()
	defer all.mu.Unlock()
	if s.tracker == nil {
		return -1
	}
	return s.tracker.redirect
}

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

// cmdCLIENTTRACKING is CLIENT TRACKING ON | OFF [REDIRECT id] [OPTIN] [OPTOUT] [NOLOOP]. If it is on
// already, ON changes the options, but not the mode, as in Redis.
func cmdCLIENTTRACKING(s *session, c *call) error {
	t, refusal := s.parseTracking(equalFold(c.args[2], "ON"), c.args[2:])
	if refusal != nil {
		return refusal
	}
	c.ok()
	if t == nil {
		s.server.tracking.forget(s)
		return nil
	}
	all := &s.server.tracking
	all.mu.Lock()
	defer all.mu.Unlock()
	if s.tracker != nil { // what it tracks goes on, under the new options
		s.tracker.redirect, s.tracker.mode, s.tracker.noLoop, s.tracker.broken = t.redirect, t.mode, t.noLoop, false
	} else {
		s.tracker = t
		all.clients.Add(1)
	}
	return nil
}

// parseTracking reads the options. It returns nil if tracking is to be off.
func (s *session) parseTracking(on bool, args [][]byte) (t *tracker, refusal error) {
	t = &tracker{s: s, keys: make(map[string]*trackedKey)}
	var in, out, ok bool
	for i := 1; i < len(args); i++ {
		switch arg := args[i]; {
		case equalFold(arg, "REDIRECT") && i+1 < len(args):
			if t.redirect != 0 {
				return nil, errRedirectOnce
			}
			i++
			if t.redirect, ok = resp.ParseInt(args[i]); !ok {
				return nil, errNotInteger
			}
			if other := s.server.client(t.redirect); other == nil || other.session.account() != s.account() {
				return nil, errRedirectGone
			}
		case equalFold(arg, "BCAST"), equalFold(arg, "PREFIX") && i+1 < len(args):
			return nil, errBroadcast
		case equalFold(arg, "OPTIN"):
			in, t.mode = true, trackOptIn
		case equalFold(arg, "OPTOUT"):
			out, t.mode = true, trackOptOut
		case equalFold(arg, "NOLOOP"):
			t.noLoop = true
		default:
			return nil, errSyntax
		}
	}
	switch {
	case !on && !equalFold(args[0], "OFF"):
		return nil, errSyntax
	case !on:
		return nil, nil
	case in && out:
		return nil, errOptInOptOut
	case s.tracker != nil && (s.tracker.mode == trackOptIn && out || s.tracker.mode == trackOptOut && in):
		return nil, errSwitchMode
	case s.proto < 3 && t.redirect == 0:
		return nil, errTrackingIn2
	case t.redirect == s.conn.id: // to itself is as without
		t.redirect = 0
	}
	return t, nil
}

// cmdCLIENTCACHING is CLIENT CACHING YES | NO, about the next command or transaction.
func cmdCLIENTCACHING(s *session, c *call) error {
	yes := equalFold(c.args[2], "YES")
	switch t := s.tracker; {
	case t == nil:
		return errCachingOff
	case !yes && !equalFold(c.args[2], "NO"):
		return errSyntax
	case yes && t.mode != trackOptIn:
		return errCachingYes
	case !yes && t.mode != trackOptOut:
		return errCachingNo
	default:
		s.caching = true
		return c.ok()
	}
}

// cmdCLIENTTRACKINGINFO answers with the fields of Redis's.
func cmdCLIENTTRACKINGINFO(s *session, c *call) error {
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
	return c.reply(fields{"flags", flags, "redirect", s.redirectID(), "prefixes", array{}})
}

// cmdCLIENTGETREDIR answers with the id of the connection that gets the invalidations.
func cmdCLIENTGETREDIR(s *session, c *call) error { return c.reply(s.redirectID()) }

// redirectID is the id of the connection that gets the invalidations; 0: the session's own; -1:
// tracking is off. The connection's mu may be held.
func (s *session) redirectID() int64 {
	all := &s.server.tracking
	all.mu.Lock()
	defer all.mu.Unlock()
	if s.tracker == nil {
		return -1
	}
	return s.tracker.redirect
}

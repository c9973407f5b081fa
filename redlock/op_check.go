package redlock

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What callers ask for is checked here, before it costs a master anything. All these errors are ErrBadRequest,
// and name the setting that bounds the value.

// checkLock validates a LockRequest against the limits, and fills in nothing.
func (c *Client) checkLock(op *Op, req *LockRequest) error {
	if err := checkResources(req.Resources, MaxResources); err != nil {
		return err
	}
	var err error
	if req.Slots != 0 {
		err = checkSlots(req)
	}
	if err == nil && req.Shared {
		err = checkShared(req)
	}
	if err != nil {
		return err
	}
	if req.Token != "" {
		if err := checkToken(req.Token); err != nil {
			return err
		}
	}
	if most := c.limits.Load().maxWait; req.Wait < 0 || req.Wait > most {
		return badRequest("WAIT of %s is outside 0 … %s ms (max_wait)", inMs(req.Wait), inMs(most))
	}
	switch {
	case req.Release && req.Holder == nil:
		return badRequest("RELEASE needs HOLD")
	case req.Release && req.Token != "":
		return badRequest("RELEASE needs a token that is made here: leave TOKEN out")
	case req.Holder != nil && madeHere(req.Token): //mutant:a-made-token-is-bound-twice
		// It may be bound to another connection, whose end releases it.
		return badRequest("the token was made by redlockd: take the lock over with HOLD resource token ttl")
	}
	if err := c.checkTTL(req.TTL, op.delay()); err != nil || req.Holder == nil {
		return err
	}
	return c.checkHoldTTL(req.TTL)
}

// checkShared validates LockRequest.Shared.
func checkShared(req *LockRequest) error {
	switch {
	case !req.Shared:
		return nil
	case len(req.Resources) != 1:
		return badRequest("SHARED is for one resource, and %d are named", len(req.Resources))
	case req.Slots != 0:
		return badRequest("SHARED and SLOTS do not go together: a slot has one holder")
	case req.Fence:
		return badRequest("SHARED and FENCE do not go together: readers write nothing that a fence would keep in order")
	}
	return nil
}

// checkHoldTTL bounds the TTL of a held lock from below: it is renewed after a third of it, and two attempts must fit into the rest.
func (c *Client) checkHoldTTL(ttl time.Duration) error {
	if least := 3 * c.opts.MasterTimeout; ttl < least {
		return badTTL("%s ms is too short for a lock that is held: at least %s ms are needed, three times master.timeout", inMs(ttl), inMs(least))
	}
	return nil
}

// checkHolder validates what UNLOCK and EXTEND name.
func (c *Client) checkHolder(resources []string, token string) error {
	if err := checkResources(resources, MaxResources); err != nil {
		return err
	}
	return checkToken(token)
}

// checkTTL bounds what a caller may ask for. MaxTTL is about the length of a quarantine, so no lock may live
// longer, its delay included.
func (c *Client) checkTTL(ttl, delay time.Duration) error {
	most := c.view.Load().maxTTL
	switch {
	case ttl < c.opts.MinTTL:
		return badTTL("%s ms is below the least, %s ms (min_ttl)", inMs(ttl), inMs(c.opts.MinTTL))
	case ttl > most:
		more := ""
		if ttl.Milliseconds() == math.MaxInt64/int64(time.Millisecond) { // what callers make of a longer one
			more = " or more"
		}
		return badTTL("%s ms%s is above the most, %s ms (max_ttl): ask for less, or raise it with redlockd members set max_ttl", inMs(ttl), more, inMs(most))
	case ttl+delay > most: //mutant:a-delay-outlives-max_ttl
		return badTTL("%s ms is above the most, %s ms, because the lock has a delay of %s ms, and both together may take %s ms (max_ttl): ask for less, or raise it with redlockd members set max_ttl",
			inMs(ttl), inMs(most-delay), inMs(delay), inMs(most))
	}
	return nil
}

// MinTTL is the shortest TTL that a caller may ask for, as Options.MinTTL.
func (c *Client) MinTTL() time.Duration { return c.opts.MinTTL }

// checkHold bounds how long a lock that was born then may be extended: "the number of lock reacquisition
// attempts should be limited, otherwise one of the liveness properties is violated" ("Making the algorithm more
// reliable: Extending the lock").
func (c *Client) checkHold(op *Op, born time.Time, ttl time.Duration, now time.Time) error {
	most, name := c.maxHoldOf(op)
	if now.Add(ttl).Sub(born) <= most { //mutant:max_hold-not-checked
		return nil
	}
	of := "max_hold"
	if name != "" {
		of += " of " + name
	}
	return &RequestError{Terms: name, Reason: fmt.Sprintf("the lock was first granted %v ago and may be held for %v in all (%s): release it, or ask for a shorter ttl",
		now.Sub(born).Round(time.Second), most, of)}
}

// inMs is a duration as the commands take it.
func inMs(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// checkToken bounds a caller's token. Any bytes will do.
func checkToken(token string) error {
	switch {
	case token == "":
		return badRequest("the token is empty: 1 to %d bytes are needed", MaxTokenLen)
	case len(token) > MaxTokenLen:
		return badRequest("the token has %d bytes, at most %d are possible", len(token), MaxTokenLen)
	}
	return nil
}

// checkResources bounds the names. No name may stand twice, because scripts change each key once.
func checkResources(resources []string, most int) error {
	if len(resources) == 0 {
		return badRequest("no resource is named")
	}
	if len(resources) > most {
		return badRequest("%d resources are named, at most %d are possible", len(resources), most)
	}
	for i, resource := range resources {
		switch {
		case resource == "":
			return badRequest("a resource name is empty: 1 to %d bytes are needed", MaxResourceLen)
		case len(resource) > MaxResourceLen:
			return badRequest("a resource name has %d bytes, at most %d are possible", len(resource), MaxResourceLen)
		case strings.HasPrefix(resource, ReservedPrefix):
			return badRequest("resource names that begin with %s are kept for redlockd itself", ReservedPrefix)
		}
		if slices.Contains(resources[:i], resource) {
			return badRequest("resource %q is named twice", resource)
		}
	}
	return nil
}

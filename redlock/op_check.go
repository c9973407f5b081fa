package redlock

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// What callers ask for is checked here, before it costs a master anything. All these errors are ErrBadRequest,
// and name the setting that bounds the value.

// checkLock validates a LockRequest against the limits, and fills in nothing.
func (c *Client) checkLock(req *LockRequest) error {
	if err := checkResources(req.Resources); err != nil {
		return err
	}
	if req.Token != "" {
		if err := checkToken(req.Token); err != nil {
			return err
		}
	}
	if req.Wait < 0 || req.Wait > c.opts.MaxWait {
		return badRequest("WAIT of %s is outside 0 … %s ms (max_wait)", inMs(req.Wait), inMs(c.opts.MaxWait))
	}
	return c.checkTTL(req.TTL)
}

// checkHolder validates what UNLOCK and EXTEND name.
func (c *Client) checkHolder(resources []string, token string) error {
	if err := checkResources(resources); err != nil {
		return err
	}
	return checkToken(token)
}

// checkTTL bounds what a caller may ask for. MaxTTL is about the length of a quarantine, so no lock may live
// longer.
func (c *Client) checkTTL(ttl time.Duration) error {
	switch {
	case ttl < c.opts.MinTTL:
		return badRequest("ttl of %s ms is below the least, %s ms (min_ttl)", inMs(ttl), inMs(c.opts.MinTTL))
	case ttl > c.opts.MaxTTL:
		return badRequest("ttl of %s ms is above the most, %s ms (max_ttl)", inMs(ttl), inMs(c.opts.MaxTTL))
	}
	return nil
}

// checkHold bounds how long a lock that was born then may be extended: "the number of lock reacquisition
// attempts should be limited, otherwise one of the liveness properties is violated" ("Making the algorithm more
// reliable: Extending the lock").
func (c *Client) checkHold(born time.Time, ttl time.Duration, now time.Time) error {
	if now.Add(ttl).Sub(born) <= c.opts.MaxHold { //mutant:max_hold-not-checked
		return nil
	}
	return badRequest("the lock was first granted %v ago and may be held for %v in all (max_hold): release it, or ask for a shorter ttl",
		now.Sub(born).Round(time.Second), c.opts.MaxHold)
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
func checkResources(resources []string) error {
	if len(resources) == 0 {
		return badRequest("no resource is named")
	}
	if len(resources) > MaxResources {
		return badRequest("%d resources are named, at most %d are possible", len(resources), MaxResources)
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

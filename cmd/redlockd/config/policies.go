package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/BurntSushi/toml"

	"redlockd/proxy"
)

func policySettings(p *proxy.Policy) []*Setting {
	return []*Setting{
		{Name: "prefix", place: &p.Prefix},
		{Name: "max_ttl", place: &p.MaxTTL},
		{Name: "max_wait", place: &p.MaxWait},
		{Name: "max_waiters", place: &p.MaxWaiters},
		{Name: "max_hold", place: &p.MaxHold},
		{Name: "lock_delay", place: &p.LockDelay},
		{Name: "fence", place: &p.Fence, Words: []string{proxy.FenceAlways}},
	}
}

// policyList is the value of the setting policy.
type policyList []proxy.Policy

func (l *policyList) setTOML(v any) error {
	return setTables((*[]proxy.Policy)(l), v, policySettings, "one [[policy]] for each", "prefix and limits")
}

func (l *policyList) String() string { return tablesText(*l, policySettings) }

// setText takes what stands in the file behind policy =.
func (l *policyList) setText(text string) error {
	var document map[string]any
	_, err := toml.Decode("policy = "+text, &document)
	if err != nil || len(document) != 1 {
		return errors.New(`a list of tables is needed, as in config.toml: [{prefix = "billing:*", max_ttl = "30s"}]`)
	}
	return l.setTOML(document["policy"])
}

// PolicyText is a policy as config.toml writes it on one line.
func PolicyText(p proxy.Policy) string { return tableText(&p, policySettings) }

// checkPolicies checks the policies against [locks]: a policy is stricter, or it has no effect. The
// other checks are those of proxy.Options.Validate.
func (c *Config) checkPolicies() error {
	var errs []error
	locks := &c.Engine
	for i := range c.Front.Policies {
		p := &c.Front.Policies[i]
		bad := func(setting, format string, args ...any) {
			for i, arg := range args {
				if d, ok := arg.(time.Duration); ok {
					args[i] = FormatDuration(d)
				}
			}
			errs = append(errs, c.errorAt(fmt.Sprintf("policy[%d].%s", i, setting), fmt.Errorf(format, args...)))
		}
		above := func(setting string, value, most time.Duration) {
			if value > most {
				bad(setting, "%s of the policy of %.128q is above %s = %s in [locks], which counts for all: lower it, or raise that of [locks]", value, p.Prefix, setting, most)
			}
		}
		above("max_ttl", p.MaxTTL, locks.MaxTTL)
		above("max_wait", p.MaxWait, locks.MaxWait)
		above("max_hold", p.MaxHold, locks.MaxHold)
		if p.MaxWaiters > locks.MaxWaiters {
			bad("max_waiters", "%d of the policy of %.128q is above max_waiters = %d in [locks], which counts for all: lower it, or raise that of [locks]", p.MaxWaiters, p.Prefix, locks.MaxWaiters)
		}
		if p.MaxTTL > 0 && p.MaxTTL < locks.MinTTL {
			bad("max_ttl", "%s of the policy of %.128q is below min_ttl = %s in [locks]: no lock would be possible", p.MaxTTL, p.Prefix, locks.MinTTL)
		}
		longest := locks.MaxTTL - max(0, p.LockDelay)
		switch {
		case p.MaxTTL > longest && p.MaxTTL <= locks.MaxTTL:
			bad("lock_delay", "%s of the policy of %.128q and its max_ttl = %s are together above max_ttl = %s in [locks], for the masters keep a lock that long: shorten one of them, or raise that of [locks]",
				p.LockDelay, p.Prefix, p.MaxTTL, locks.MaxTTL)
		case p.LockDelay > 0 && longest < locks.MinTTL:
			bad("lock_delay", "%s of the policy of %.128q leaves no TTL: it and min_ttl = %s are together above max_ttl = %s in [locks]: shorten it, or raise max_ttl",
				p.LockDelay, p.Prefix, locks.MinTTL, locks.MaxTTL)
		}
		if p.MaxTTL > 0 {
			longest = p.MaxTTL
		}
		if p.MaxHold > 0 && p.MaxHold < longest {
			bad("max_hold", "%s of the policy of %.128q is below the longest TTL there, %s: give the policy a max_ttl that is not longer", p.MaxHold, p.Prefix, longest)
		}
	}
	return errors.Join(errs...)
}

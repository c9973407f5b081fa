package access

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Goal: a policy that cannot be is refused by the name of its setting. Method: a table.
func TestPoliciesThatAreRefused(t *testing.T) {
	many := make([]Policy, PoliciesMax+1)
	for i := range many {
		many[i] = Policy{Prefix: fmt.Sprint(i), MaxTTL: time.Second}
	}
	for _, tt := range []struct {
		policies []Policy
		want     string
	}{
		{[]Policy{{MaxTTL: time.Second}}, "Policies[0].prefix: the pattern has 0 bytes, it must have 1 … 1024"},
		{[]Policy{{Prefix: strings.Repeat("x", 1025), MaxTTL: time.Second}}, "Policies[0].prefix: the pattern has 1025 bytes"},
		{[]Policy{{Prefix: "a", MaxTTL: time.Second}, {Prefix: "a", MaxTTL: 2}}, "Policies[1].prefix: \"a\" is that of an earlier policy"},
		{[]Policy{{Prefix: "a"}}, "Policies[0].prefix: the policy of \"a\" limits nothing"},
		{[]Policy{{Prefix: "a", MaxTTL: 25 * time.Hour}}, "Policies[0].max_ttl: 25h0m0s of the policy of \"a\" is outside 1ms … 24h0m0s"},
		{[]Policy{{Prefix: "a", MaxWait: -1}}, "Policies[0].max_wait: "},
		{[]Policy{{Prefix: "a", MaxHold: 90000 * time.Hour}}, "Policies[0].max_hold: "},
		{[]Policy{{Prefix: "a", LockDelay: time.Microsecond}}, "Policies[0].lock_delay: "},
		{[]Policy{{Prefix: "a", MaxWaiters: -1}}, "Policies[0].max_waiters: "},
		{[]Policy{{Prefix: "a", Fence: "never"}}, "Policies[0].fence: \"never\" of the policy of \"a\" is not \"always\""},
		{many, "Policies: there are 65 policies, at most 64 are possible"},
	} {
		err := ValidatePolicies(tt.policies)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
	if err := ValidatePolicies(many[1:]); err != nil {
		t.Error(err)
	}
}

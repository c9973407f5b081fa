package access

import "testing"

func TestOriginOf(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3:1":               "10.1.2.3/32",
		"[::ffff:10.1.2.3]:2":      "10.1.2.3/32",
		"[2001:db8:1:2:3:4:5:6]:3": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:4":         "fe80::/64",
		"/run/redlockd.sock:0":     "invalid Prefix",
	} {
		if got := OriginOf(addr).String(); got != want {
			t.Errorf("%v: got %s, want %s", addr, got, want)
		}
	}
}

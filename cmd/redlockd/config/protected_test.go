package config

import "testing"

func TestProtectedAddresses(t *testing.T) {
	for _, c := range []struct {
		environ []string
		refused bool
	}{
		{nil, false},
		{[]string{"REDLOCKD_SERVER_LISTEN=:6380"}, true},
		{[]string{"REDLOCKD_SERVER_LISTEN=[::]:6380"}, true},
		{[]string{"REDLOCKD_SERVER_LISTEN=10.0.0.1:6380"}, true},
		{[]string{"REDLOCKD_SERVER_LISTEN=locks.example:6380"}, true},
		{[]string{"REDLOCKD_SERVER_LISTEN=127.0.0.2:6380"}, false},
		{[]string{"REDLOCKD_SERVER_LISTEN=[::1]:6380"}, false},
		{[]string{"REDLOCKD_SERVER_LISTEN=localhost:6380"}, false},
		{[]string{"REDLOCKD_SERVER_LISTEN=127.0.0.1:6380,unix:/run/s,[::1]:6380"}, false},
		{[]string{"REDLOCKD_SERVER_LISTEN=127.0.0.1:6380,unix:/run/s,:6380"}, true},
		{[]string{"REDLOCKD_SERVER_LISTEN=:6380", "REDLOCKD_AUTH_USERS=a:b"}, false},
		{[]string{"REDLOCKD_SERVER_LISTEN=:6380", "REDLOCKD_SERVER_PROTECTED_MODE=false"}, false},
	} {
		loaded := mustLoad(t, nil, c.environ...)
		if err := loaded.CheckProtected(loaded.Listen); (err != nil) != c.refused {
			t.Errorf("%q: got %v, want it refused: %v", c.environ, err, c.refused)
		}
	}
	for clientCA, refused := range map[string]bool{"": true, "ca.pem": false} {
		c := mustLoad(t, nil, "REDLOCKD_SERVER_LISTEN=:6380")
		c.tls.clientCA = clientCA
		if err := c.CheckProtected(c.Listen); (err != nil) != refused {
			t.Errorf("tls_client_ca %q: got %v, want it refused: %v", clientCA, err, refused)
		}
	}
	if !onlyHere("/run/redlockd.sock") {
		t.Error("a unix socket can be reached from this machine alone")
	}
}

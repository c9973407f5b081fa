package config

import (
	"os"
	"strings"
	"testing"
)

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
		loaded := mustLoad(t, nil, append(c.environ, "REDLOCKD_MASTERS=a:1")...)
		if err := loaded.CheckServed(loaded.Listen, ""); (err != nil) != c.refused {
			t.Errorf("%q: got %v, want it refused: %v", c.environ, err, c.refused)
		}
	}
	for clientCA, refused := range map[string]bool{"": true, "ca.pem": false} {
		c := mustLoad(t, nil, "REDLOCKD_SERVER_LISTEN=:6380", "REDLOCKD_MASTERS=a:1")
		c.tls.clientCA = clientCA
		if err := c.CheckServed(c.Listen, ""); (err != nil) != refused {
			t.Errorf("tls_client_ca %q: got %v, want it refused: %v", clientCA, err, refused)
		}
	}
	for _, c := range []struct {
		flags   map[string]string
		environ []string
		want    string // "": it is served
	}{
		{nil, nil, ""},
		{nil, []string{"PATH=/bin", "REDLOCKD_LOG_LEVEL="}, ""},
		{map[string]string{"listen": "127.0.0.1:6399"}, nil, "masters: none are named"},
		{map[string]string{"bootstrap": "true"}, nil, "masters: none are named"},
		{map[string]string{"config": os.DevNull}, nil, "masters: none are named"},
		{nil, []string{"REDLOCKD_LOG_LEVEL=info"}, "masters: none are named"},
		{nil, []string{"REDLOCKD_MASTERS=embedded", "REDLOCKD_SERVER_PROTECTED_MODE=false"}, ""},
		{map[string]string{"masters": "embedded", "listen": "127.0.0.1:1,unix:/run/s", "http-listen": "[::1]:2"}, nil, ""},
		{map[string]string{"masters": "embedded", "listen": "127.0.0.1:1,10.0.0.1:1"}, nil, "--listen: embedded masters are for trying, and other machines can reach 10.0.0.1:1"},
		{map[string]string{"masters": "embedded", "http-listen": ":2"}, []string{"REDLOCKD_AUTH_USERS=a:b"}, "--http-listen: embedded masters are for trying, and other machines can reach :2"},
	} {
		loaded := mustLoad(t, c.flags, c.environ...)
		if err := loaded.CheckServed(loaded.Listen, loaded.HTTPListen); (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v, %v: got %v, want %q", c.flags, c.environ, err, c.want)
		}
	}
	if !onlyHere("/run/redlockd.sock") {
		t.Error("a unix socket can be reached from this machine alone")
	}
}

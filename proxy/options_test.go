package proxy

// Goal: wrong options are refused by the names of their fields, with what would be right.
// Method: a table; each case changes one thing in options that are right.

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock"
)

func TestValidate(t *testing.T) {
	right := DefaultOptions()
	right.Engine = new(redlock.Client)
	if err := right.Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	if err := (Options{Engine: right.Engine}).Validate(); err != nil {
		t.Fatalf("zero values are refused: %v", err)
	}
	for _, test := range []struct {
		change func(*Options)
		want   string
	}{
		{func(o *Options) { o.Engine = nil }, "Engine: none is given"},
		{func(o *Options) { o.Users = []access.User{{Password: "x"}} }, "Users: user 1 has no name"},
		{func(o *Options) { o.Users = []access.User{{Name: "a"}} }, `user "a" has no password`},
		{func(o *Options) { o.Users = []access.User{{Name: "a", Password: "x"}, {Name: "a", Password: "y"}} }, `user "a" is named twice`},
		{func(o *Options) {
			o.Users = []access.User{{Name: "a", Password: "x", Resources: make([]string, 65)}}
		}, `user "a" has 65 patterns in resources, at most 64 are possible`},
		{func(o *Options) { o.Users = []access.User{{Name: "a", Password: "x", Resources: []string{"b", ""}}} }, `user "a": a pattern in resources has 0 bytes, it must have 1 …`},
		{func(o *Options) { o.Users = []access.User{{Name: "a", Password: strings.Repeat("x", 4096)}} }, `the name and the password of user "a" have 4097 bytes: AUTH takes 4096`},
		{func(o *Options) { o.AllowUnguarded = []string{"a", ""} }, "AllowUnguarded: a pattern has 0 bytes, it must have 1 …"},
		{func(o *Options) { o.AllowUnguarded = make([]string, 65) }, "AllowUnguarded: there are 65 patterns, at most 64 are possible"},
		{func(o *Options) { o.MaxClients = -1 }, "MaxClients: -1 is outside 1 … 10000000"},
		{func(o *Options) { o.IdleTimeout = -1 }, "IdleTimeout: -1ns is outside 0s …"},
		{func(o *Options) { o.OutputTotal = 1 }, "OutputTotal: 1 is outside 2097152 …"},
		{func(o *Options) { o.bounds.outputMax, o.OutputTotal = 1<<22, 1<<21 }, "OutputTotal: 2097152 is outside 4194304 …"},
		{func(o *Options) { o.Users = []access.User{{Name: "a", Password: "x", MaxConnections: -1}} }, `user "a": max_connections = -1 is outside 0 …`},
		{func(o *Options) { o.Users = []access.User{{Name: "a", Password: "x", MaxLocks: -1}} }, `user "a": max_locks = -1 is outside 0 …`},
		{func(o *Options) { o.Users = []access.User{{Name: "a", Password: "x", MaxWaiters: -1}} }, `user "a": max_waiters = -1 is outside 0 …`},
		{func(o *Options) { o.Users = []access.User{{Name: "a", Password: "x", MaxTTL: 25 * time.Hour}} }, `user "a": max_ttl = 25h0m0s is outside 0s …`},
	} {
		opts := right
		test.change(&opts)
		if err := opts.Validate(); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
		if _, err := New(opts); err == nil {
			t.Errorf("New accepts what Validate refuses with %q", test.want)
		}
	}
}

// What clients may take is lowered to what fits into the memory, and left alone if it does.
func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct {
		limit           int64
		tls             bool
		clients, output int
	}{
		{0, false, 10_000, 64 << 20},
		{1 << 40, true, 10_000, 64 << 20},
		{921 << 20, true, 10_000, 64 << 20},
		{64 << 20, false, 2048, 8 << 20},
		{64 << 20, true, 1024, 8 << 20},
		{4 << 20, false, 128, 2 << 20},
		{1, false, 1, 2 << 20},
	} {
		var log testLog
		o := Options{MemoryLimit: c.limit}
		log.keep(&o)
		if c.tls {
			o.TLSConfig = new(tls.Config)
		}
		live := newLiveOptions(o.withDefaults(), nil)
		if live.MaxClients != c.clients || live.OutputTotal != c.output {
			t.Errorf("%d bytes, TLS %v: got %d clients and %d bytes of output, want %d and %d", c.limit, c.tls, live.MaxClients, live.OutputTotal, c.clients, c.output)
		}
		if warned := strings.Contains(log.String(), "the limit of memory lowers what clients may take"); warned != (c.clients < 10_000) {
			t.Errorf("%d bytes: warned: %v\n%s", c.limit, warned, log.String())
		}
	}
}

// The codes of errors are a contract: clients branch on them, and some retry in silence on codes that we must not use.
func TestErrorCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{&redlock.NoQuorumError{Voted: 2, Needed: 3, Masters: 5}, "NOQUORUM 2 of 5 masters voted, 3 needed"},
		{redlock.ErrDraining, "LEAVING draining: no new work is taken"},
		{fmt.Errorf("lock r: %w", redlock.ErrTooManyWaiters), "BUSYWAIT lock r: too many waiters"},
		{errUnblocked, "UNBLOCKED client unblocked via CLIENT UNBLOCK"},
		{&redlock.RequestError{Reason: "ttl is wrong"}, "ERR ttl is wrong"},
		{errors.New("something else"), "ERR something else"},
	} {
		if got := replyErrorOf(test.err); string(got) != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
	known := make(map[string]bool)
	page := readFile(t, "commands.md")
	for _, e := range errorCodes {
		known[e.code] = true
		if strings.Contains("LOADING CLUSTERDOWN MOVED ASK READONLY MASTERDOWN NOREPLICAS", e.code) {
			t.Errorf("%s is a code on which clients retry in silence", e.code)
		}
		if want := "| `" + e.code + "` | " + e.meaning + " |\n"; !strings.Contains(page, want) {
			t.Errorf("commands.md does not say: %s", want)
		}
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	literals := regexp.MustCompile(`(?:replyError\(|replyError += |errorf\(|failf\()"(\w*)`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, found := range literals.FindAllStringSubmatch(readFile(t, name), -1) {
			if code := found[1]; code != "" && !known[code] { // "": errorf("%s …", code)
				t.Errorf("%s: %s is not in errorCodes", name, code)
			}
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// An error reply is one line, whatever a client has put into it.
func TestErrorsAreOneLine(t *testing.T) {
	c := serve(t).dial()
	c.do("NO\r\nSUCH", "a\nb", "\x00\x1b[31m").is("-ERR unknown command 'NO  SUCH', with args beginning with: 'a b' '' ")
	c.do("LOCK", "a", "1\r\n+OK").is("-ERR ttl '1  +OK' is no time: whole milliseconds are needed, or a whole number with a unit, as 500ms, 30s, 5m or 1h")
	c.do("LOCK", "a\r\n+OK", "1").matches(`-ERR [^\r\n]*`)
	c.do("CLIENT", "\r\n+OK").matches(`-ERR unknown subcommand '  \+OK'. Try CLIENT HELP.`)
	c.do("PING").is("+PONG")
}

func TestAddrText(t *testing.T) {
	for _, test := range []struct {
		addr, other net.Addr
		want        string
	}{
		{&net.TCPAddr{IP: net.IPv6loopback, Port: 6379}, nil, "[::1]:6379"},
		{&net.UnixAddr{Name: "/run/redlockd.sock"}, nil, "/run/redlockd.sock:0"},
		{&net.UnixAddr{Name: "@"}, &net.UnixAddr{Name: "/run/redlockd.sock"}, "/run/redlockd.sock:0"},
		{&net.UnixAddr{}, &net.UnixAddr{Name: "/run/redlockd.sock"}, "/run/redlockd.sock:0"},
	} {
		if got := addrText(test.addr, test.other); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}

package proxy

import (
	"testing"
	"time"
)

// Goal: CONFIG GET shows our settings, and behind them those for which clients of Redis ask; ours win.
func TestCONFIGGET(t *testing.T) {
	srv := serve(t, func(opts *Options) {
		opts.IdleTimeout = 90*time.Second + time.Millisecond
		opts.MaxClients = 77
		opts.Settings = func() []Setting {
			return []Setting{{"max_ttl", "60s"}, {"master_timeout", "50ms"}, {"save", "never"}}
		}
	})
	c := srv.dial()
	c.do("CONFIG", "GET", "max*").is(`["max_ttl" "60s" "maxclients" "77" "maxmemory" "0" "maxmemory-policy" "noeviction"]`)
	c.do("CONFIG", "GET", "MAX_TTL", "TimeOut", "timeout").is(`["max_ttl" "60s" "timeout" "91"]`)
	c.do("CONFIG", "GET", "save").is(`["save" "never"]`)
	c.do("CONFIG", "GET", "*").matches(`\["max_ttl" .*"databases" "16" .*"timeout" "91"\]`)
	c.do("CONFIG", "GET", "requirepass").is("[]")
	c.do("CONFIG", "GET", "m[a]ster_*").is(`["master_timeout" "50ms"]`)
	c.do("HELLO", "3")
	c.do("CONFIG", "GET", "databases", "appendonly").is(`{"appendonly": "no" "databases": "16"}`)
	// A client that reads this sends SELECT for each of so many databases, and for no other.
	c.do("SELECT", "15").is("+OK")
	c.do("SELECT", "16").err("ERR DB index is out of range")
}

// Goal: a client that tries to change a setting learns where settings are.
func TestCONFIGSET(t *testing.T) {
	c := serve(t).dial()
	c.do("CONFIG", "SET", "max_ttl", "1").is("-ERR CONFIG SET max_ttl is not served: change the configuration file, then send CONFIG RELOAD or SIGHUP")
	c.do("CONFIG", "REWRITE").err("ERR CONFIG REWRITE is not served: config.toml")
}

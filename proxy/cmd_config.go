package proxy

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/resp"
)

// CONFIG. Settings are shown and never changed: what runs is always what config.toml, the environment
// and the flags say, so that a restart changes nothing. Secrets are left out by the caller who lists
// the settings (Options.Settings).

// configPatternsMax bounds the patterns of one CONFIG GET: each setting is compared with all of them.
const configPatternsMax = 64

// cmdCONFIGGET is CONFIG GET pattern …. A setting that matches several patterns is answered once. Names
// are compared without case, as in Redis.
func cmdCONFIGGET(s *session, c *call) {
	patterns := c.args[2:]
	if len(patterns) > configPatternsMax {
		c.failf("ERR CONFIG GET has %d patterns, at most %d are possible", len(patterns), configPatternsMax)
		return
	}
	// patterns is a part of c.args, which nothing reads after the handler: so it may be changed.
	for i := range patterns {
		if refusal := patternRefusal(patterns[i]); refusal != nil {
			c.fail(refusal)
			return
		}
		patterns[i] = bytes.ToLower(patterns[i])
	}
	var found []Setting
	for _, setting := range s.server.settings() {
		matches := func(pattern []byte) bool {
			return globMatch(string(pattern), strings.ToLower(setting.Name))
		}
		if slices.ContainsFunc(patterns, matches) {
			found = append(found, setting)
		}
	}
	c.out = resp.AppendMap(c.out, c.proto, len(found))
	for _, setting := range found {
		c.out = resp.AppendBulkString(c.out, setting.Name)
		c.out = resp.AppendBulkString(c.out, setting.Value)
	}
}

// settings are our own settings, and behind them those of Redis for which clients and tools ask. Where
// both have one of the same name, it is ours. redis-benchmark, for one, asks for save and appendonly
// before it starts.
func (srv *Server) settings() []Setting {
	var all []Setting
	if srv.opts.Settings != nil {
		all = srv.opts.Settings()
	}
	// Limits have their true values. The others are those of a Redis that keeps nothing on disk and evicts nothing.
	for _, asRedis := range []Setting{
		{"appendonly", "no"},
		{"databases", "1"},
		{"maxclients", strconv.Itoa(srv.opts.MaxClients)},
		{"maxmemory", "0"},
		{"maxmemory-policy", "noeviction"},
		{"proto-max-bulk-len", strconv.Itoa(srv.opts.BulkMax)},
		{"replica-read-only", "yes"},
		{"save", ""},
		{"slave-read-only", "yes"},
		{"timeout", strconv.FormatInt(int64((srv.opts.IdleTimeout+time.Second-1)/time.Second), 10)}, // 0: never
	} {
		if !slices.ContainsFunc(all, func(ours Setting) bool { return ours.Name == asRedis.Name }) {
			all = append(all, asRedis)
		}
	}
	return all
}

// cmdCONFIGSET refuses. The error says where settings come from, because the operator who sent it wants
// to change one.
func cmdCONFIGSET(_ *session, c *call) {
	c.failf("ERR CONFIG SET %s is not served: settings are read from config.toml, from REDLOCKD_* variables and from flags "+
		"when redlockd starts", clipped(c.args[2], 128))
}

// cmdCONFIGRESETSTAT is for people who measure by INFO. Metrics go on as they were.
func cmdCONFIGRESETSTAT(s *session, c *call) {
	s.server.resetStats()
	c.ok()
}

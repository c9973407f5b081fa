package proxy

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/proxy/access"
	"redlockd/redlock/resp"
)

// CONFIG. Settings are shown, and read again as a whole, but never changed one by one: what runs is
// what config.toml, the environment and the flags say, so that a restart changes nothing. Secrets are
// left out by the caller who lists the settings (Options.Settings).

// configPatternsMax bounds the patterns of one CONFIG GET: each setting is compared with all of them.
const configPatternsMax = 64

// cmdCONFIGGET is CONFIG GET pattern …. A setting that matches several patterns is answered once. Names
// are compared without case, as in Redis.
func cmdCONFIGGET(s *session, c *call) error {
	patterns := c.args[2:]
	if len(patterns) > configPatternsMax {
		return errorf("ERR CONFIG GET has %d patterns, at most %d are possible", len(patterns), configPatternsMax)
	}
	// patterns is a part of c.args, which nothing reads after the handler: so it may be changed.
	for i := range patterns {
		if refusal := patternRefusal(patterns[i]); refusal != nil {
			return refusal
		}
		patterns[i] = bytes.ToLower(patterns[i])
	}
	var found []Setting
	for _, setting := range s.server.settings() {
		matches := func(pattern []byte) bool {
			return access.Match(string(pattern), strings.ToLower(setting.Name))
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
	return nil
}

// settings are our own settings, and behind them those of Redis for which clients and tools ask. Where
// both have one of the same name, it is ours. redis-benchmark, for one, asks for save and appendonly
// before it starts.
func (srv *Server) settings() []Setting {
	var all []Setting
	if srv.opts.Settings != nil {
		all = srv.opts.Settings()
	}
	// Limits have their true values. The others are those of a Redis without disk and eviction.
	for _, asRedis := range []Setting{
		{"appendonly", "no"},
		{"databases", strconv.Itoa(databases)},
		{"maxclients", strconv.Itoa(srv.live().MaxClients)},
		{"maxmemory", "0"},
		{"maxmemory-policy", "noeviction"},
		{"proto-max-bulk-len", strconv.Itoa(srv.bounds.command.Bulk)},
		{"replica-read-only", "yes"},
		{"save", ""},
		{"slave-read-only", "yes"},
		{"timeout", strconv.FormatInt(int64((srv.live().IdleTimeout+time.Second-1)/time.Second), 10)}, // 0: never
	} {
		if !slices.ContainsFunc(all, func(ours Setting) bool { return ours.Name == asRedis.Name }) {
			all = append(all, asRedis)
		}
	}
	return all
}

// cmdCONFIGSET refuses. The error says where settings come from, because the operator who sent it wants
// to change one.
func cmdCONFIGSET(_ *session, c *call) error {
	return errorf("ERR CONFIG SET %s is not served: change the configuration file, then send CONFIG RELOAD or SIGHUP", clipped(c.args[2], 128))
}

// cmdCONFIGRELOAD has the settings read again, and answers in one line what has changed, or why nothing
// has. The caller gets the answer also if its own user has lost something. Then it is closed.
//
// It blocks the reader of its own connection as long as it reads files.
func cmdCONFIGRELOAD(s *session, c *call) error {
	if s.server.opts.Reload == nil {
		return errorf("ERR CONFIG RELOAD is not served: this server has no configuration that could be read again")
	}
	s.asksForReload.Store(true)
	changed, err := s.server.opts.Reload()
	if err != nil {
		err = errorf("ERR nothing was changed: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
	} else {
		c.out = resp.AppendVerbatim(c.out, c.proto, "txt", changed)
	}
	// Another reload may come behind this one: it has to close the connection by itself, so the look is
	// behind the flag.
	s.asksForReload.Store(false)
	live := s.server.live()
	if known := live.knows(s.account()); !known && (s.account() != s.server.anonymous || len(live.Users) > 0) {
		s.conn.closeAfterReply = true
	}
	return err
}

// cmdCONFIGRESETSTAT is for people who measure by INFO. Metrics go on as they were.
func cmdCONFIGRESETSTAT(s *session, c *call) error {
	s.server.resetStats()
	return c.ok()
}

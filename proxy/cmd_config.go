package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"redlockd/redlock/resp"
)

var configCommands = []command{{
	name: "config", arity: -2, flags: flagNoScript,
	docs: commandDocs{group: "server", since: "2.0.0", complexity: "Depends on subcommand.",
		summary: "Commands about the configuration"},
	subs: []command{
		{
			name: "get", arity: -3, flags: flagAdmin | flagNoScript | flagLoading | flagStale, handler: cmdCONFIGGET,
			docs: commandDocs{group: "server", since: "2.0.0", complexity: "O(N) where N is the number of settings",
				summary: "Return the settings whose names match a glob", arguments: syntax("parameter...")},
		},
		{
			name: "set", arity: -4, flags: flagAdmin | flagNoScript | flagLoading | flagStale, handler: cmdCONFIGSET,
			docs: commandDocs{group: "server", since: "2.0.0", complexity: "O(1)",
				summary: "Refused: settings are read when redlockd starts", arguments: syntax("<parameter value>...")},
		},
		{
			name: "resetstat", arity: 2, flags: flagAdmin | flagNoScript | flagLoading | flagStale, handler: cmdCONFIGRESETSTAT,
			docs: commandDocs{group: "server", since: "2.0.0", complexity: "O(N) where N is the number of commands",
				summary: "Count the commands and errors of INFO from zero again"},
		},
		{
			name: "rewrite", arity: 2, flags: flagAdmin | flagNoScript | flagLoading | flagStale, handler: cmdCONFIGREWRITE,
			docs: commandDocs{group: "server", since: "2.8.0", complexity: "O(1)",
				summary: "Refused: nothing changes while redlockd runs"},
		},
		{
			name: "help", arity: 2, flags: flagLoading | flagStale, handler: cmdHELP,
			docs: commandDocs{group: "server", since: "5.0.0", complexity: "O(1)",
				summary: "Print this help"},
		},
	},
}}

// configPatternsMax bounds the patterns of one CONFIG GET: each setting is compared with all of them.
const configPatternsMax = 64

// cmdCONFIGGET answers each setting that matches some pattern once.
func cmdCONFIGGET(s *session, c *call) {
	patterns := c.args[2:]
	if len(patterns) > configPatternsMax {
		c.fail(fmt.Sprintf("ERR CONFIG GET has %d patterns, at most %d are possible", len(patterns), configPatternsMax))
		return
	}
	for i := range patterns {
		if refusal := patternRefusal(patterns[i]); refusal != "" {
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

// settings are our own settings, and behind them those of Redis for which clients and tools ask. Where both have one
// of the same name, it is ours.
func (srv *Server) settings() []Setting {
	var all []Setting
	if srv.opts.Settings != nil {
		all = srv.opts.Settings()
	}
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

func cmdCONFIGSET(_ *session, c *call) {
	c.fail(fmt.Sprintf("ERR CONFIG SET %s is not served: settings are read from config.toml, from REDLOCKD_* variables and from flags "+
		"when redlockd starts", clipped(c.args[2], 128)))
}

func cmdCONFIGRESETSTAT(s *session, c *call) {
	s.server.resetStats()
	c.ok()
}

func cmdCONFIGREWRITE(_ *session, c *call) {
	c.fail("ERR CONFIG REWRITE is not served: config.toml is written by people, and nothing changes a setting while redlockd runs")
}

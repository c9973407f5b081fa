package proxy

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"redlockd/proxy/access"
)

// info asks for sections and returns their fields, after it has checked the form that clients parse: "# Section" lines
// with a blank line before each but the first, name:value lines, CR LF throughout, and no name twice.
func (c *client) info(sections ...string) map[string]string {
	c.t.Helper()
	text, err := strconv.Unquote(c.do(append([]string{"INFO"}, sections...)...).text)
	if err != nil {
		c.t.Fatalf("INFO: got no string: %v", err)
	}
	text = strings.TrimPrefix(text, "txt:")
	fields := make(map[string]string)
	blank := true
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\r\n"), "\r\n") {
		name, value, isField := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, "# ") && blank:
			fields[line] = ""
		case isField && fields[name] == "" && !strings.ContainsAny(line, "\r\n"):
			fields[name] = value
		case line != "":
			c.t.Fatalf("INFO: got the line %q, want a section behind a blank line, or name:value with a new name", line)
		}
		blank = line == ""
	}
	return fields
}

// Goal: INFO has the fields for which clients and exporters ask, with values that make sense.
func TestINFO(t *testing.T) {
	srv := serve(t, func(opts *Options) { opts.Version = "9.8.7" })
	c, other := srv.dial(), srv.dial()
	token := c.do("LOCK", "a", "60000").granted(1, 60000)
	c.do("LOCK", "a", "60000").is("*nil")
	other.send("LOCK", "a", "60000", "WAIT", "60000")
	srv.waiting(1)

	eventually(t, "all masters are up", func() bool { return c.info("masters")["masters_up"] == "5" })

	got := c.info("all")
	_, port, _ := strings.Cut(srv.addr, ":")
	for name, want := range map[string]string{
		"redis_version": "7.4.0", "redlockd_version": "9.8.7", "redis_mode": "standalone", "tcp_port": port, "arch_bits": "64",
		"connected_clients": "2", "maxclients": "10000", "blocked_clients": "1", "pubsub_clients": "0",
		"loading": "0", "role": "master", "connected_slaves": "0", "cluster_enabled": "0", "maxmemory": "0",
		"total_connections_received": "2", "rejected_connections": "0", "total_error_replies": "0",
		"masters": "5", "masters_up": "5", "quorum": "3",
		"locks_granted": "1", "locks_denied": "1", "locks_noquorum": "0", "leases": "1", "waiters": "1", "deferred": "0", "handovers": "0",
		"cmdstat_lock": "calls=3,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0",
	} {
		if got[name] != want {
			t.Errorf("INFO: %s: got %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"process_id", "used_memory", "used_memory_rss", "total_net_input_bytes", "total_net_output_bytes", "total_commands_processed"} {
		if n, err := strconv.Atoi(got[name]); err != nil || n <= 0 {
			t.Errorf("INFO: %s: got %q, want a number above 0", name, got[name])
		}
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		if _, err := strconv.ParseFloat(got[name], 64); err != nil {
			t.Errorf("INFO: %s: got %q, want a number", name, got[name])
		}
	}
	if len(got["run_id"]) != 40 {
		t.Errorf("INFO: run_id: got %q, want 40 hex digits", got["run_id"])
	}
	if master := got["master0"]; !strings.HasPrefix(master, "addr=master-1:6379,state=up,reason=,since_s=") || !strings.Contains(master, ",pending_releases=0") {
		t.Errorf("INFO: master0: got %q", master)
	}

	for name, want := range map[string]string{"membership_voters": "5", "membership_learners": "0", "membership_max_ttl_ms": "300000", "membership_ceiling_ms": "60000", "membership_ceiling_raised_by": "", "membership_wait_left_s": "0",
		"membership_problem": "", "membership_differences": ""} {
		if value, there := got[name]; !there || value != want {
			t.Errorf("INFO: %s: got %q (there: %v), want %q", name, value, there, want)
		}
	}

	other.conn.Close()
	eventually(t, "the wait ends", func() bool { return c.info("locks")["waiters"] == "0" })
	c.do("UNLOCK", "a", token).is(":1")
	c.do("UNLOCK", "a", token).is(":0")
	if got := c.info("locks"); got["unlocks_released"] != "1" || got["unlocks_not_held"] != "1" || got["leases"] != "0" {
		t.Errorf("INFO locks: got %v", got)
	}
}

// Goal: the names behind INFO choose its sections as in Redis.
func TestINFOSections(t *testing.T) {
	c := serve(t).dial()
	sectionsOf := func(args ...string) string {
		var found []string
		fields := c.info(args...)
		for _, section := range infoSections {
			if _, ok := fields["# "+section.name]; ok {
				found = append(found, section.name)
			}
		}
		return strings.Join(found, " ")
	}
	const byDefault = "Server Clients Memory Persistence Stats Replication CPU Masters Locks Users Errorstats Refusedstats Cluster Keyspace"
	const all = "Server Clients Memory Persistence Stats Replication CPU Masters Locks Users Commandstats Errorstats Refusedstats Cluster Keyspace"
	for args, want := range map[string]string{
		"":                           byDefault,
		"default":                    byDefault,
		"DEFAULT commandstats":       all,
		"all":                        all,
		"everything":                 all,
		"server":                     "Server",
		"Locks SERVER":               "Server Locks",
		"replication nosuch cluster": "Replication Cluster",
		"nosuch":                     "",
	} {
		if got := sectionsOf(strings.Fields(args)...); got != want {
			t.Errorf("INFO %s: got the sections %q, want %q", args, got, want)
		}
	}
	c.do("HELLO", "3")
	if got := sectionsOf("keyspace"); got != "Keyspace" {
		t.Errorf("INFO keyspace in RESP3: got %q", got)
	}
	c.do("INFO", "cluster").is(`"txt:# Cluster\r\ncluster_enabled:0\r\n"`)
}

// A user with a list of resources sees what it has run itself, on all of its connections; administrators see all.
func TestStatisticsOfAConfinedUser(t *testing.T) {
	srv := serve(t, func(o *Options) {
		o.Users = []access.User{{Name: "root", Password: "r"}, {Name: "billing", Password: "b", Resources: []string{"billing:*"}},
			{Name: "orders", Password: "o", Resources: []string{"orders:*"}}}
	})
	root, billing, orders := srv.dialAs("root"), srv.dialAs("billing"), srv.dialAs("orders")
	root.do("ECHO", "x").is(`"x"`)
	root.do("EVAL", "return redis.error_reply('SECRET of root')", "0").err("SECRET")
	root.do("RENAME", "a", "b").err("ERR")
	orders.do("PTTL", "orders:1").is(":-2")
	srv.dialAs("billing").do("TTL", "billing:1").is(":-2")
	billing.do("TTL", "orders:1").err("NOPERM")
	billing.do("GET").err("ERR wrong number of arguments")
	billing.do("UNLOCK", "billing:1").err("ERR")
	billing.do("DEL", "billing:1").is(":0")
	billing.do("RENAME", "a", "b").err("ERR")
	names := func(c *client) string {
		var all []string
		for field, value := range c.info("commandstats", "errorstats", "refusedstats") {
			if value != "" { // a field, no heading
				all = append(all, field+" "+value)
			}
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	const want = `cmdstat_del calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0
cmdstat_get calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0
cmdstat_info calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0
cmdstat_ttl calls=1,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0
cmdstat_unlock calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0
errorstat_ERR count=3
errorstat_NOPERM count=1
refusedstat_rename count=1,data=1`
	// AUTH itself counts for the user who sent it, here for none.
	if got := names(billing); got != want {
		t.Errorf("billing sees\n%s\nwant\n%s", got, want)
	}
	for _, want := range []string{"cmdstat_echo calls=1,", "cmdstat_pttl calls=1,", "cmdstat_ttl calls=1,", "cmdstat_auth calls=4,", "errorstat_NOPERM count=1", "errorstat_SECRET count=1", "refusedstat_rename count=2,data=2"} {
		if got := names(root); !strings.Contains(got, want) {
			t.Errorf("root sees\n%s\nwant %s in it", got, want)
		}
	}
	// A reload that takes nothing from the user leaves its counts; CONFIG RESETSTAT does not.
	srv.reload(Options{Users: slices.Clone(srv.live().Users)})
	if got := names(billing); !strings.Contains(got, "cmdstat_del calls=1") {
		t.Errorf("after a reload billing sees\n%s", got)
	}
	root.do("CONFIG", "RESETSTAT").is("+OK")
	if got, want := names(billing), "cmdstat_info calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=0"; got != want {
		t.Errorf("after CONFIG RESETSTAT billing sees\n%s\nwant\n%s", got, want)
	}
}

// Goal: errors are counted by code, commands by name, and CONFIG RESETSTAT begins anew, without touching what metrics read.
func TestErrorstats(t *testing.T) {
	srv := serve(t)
	c := srv.dial()
	c.do("NOSUCH").err("ERR")
	c.do("HELLO", "9").err("NOPROTO")
	c.do("AUTH", "nobody", "x").err("WRONGPASS")
	c.do("GET").err("ERR")
	c.do("UNLOCK", "a").err("ERR wrong number")
	c.do("LOCK", "a", "1").err("ERR")      // refused by the handler
	c.do("LOCK", "a", "999999").err("ERR") // refused by the engine: an error that comes later
	got := c.info("errorstats", "commandstats", "stats")
	for name, want := range map[string]string{
		"errorstat_ERR": "count=5", "errorstat_NOPROTO": "count=1", "errorstat_WRONGPASS": "count=1", "total_error_replies": "7",
		"cmdstat_unlock": "calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0",
		"cmdstat_lock":   "calls=2,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=2",
	} {
		if got[name] != want {
			t.Errorf("INFO: %s: got %q, want %q", name, got[name], want)
		}
	}
	commands := srv.counters[countCommands].Load()
	c.do("CONFIG", "RESETSTAT").is("+OK")
	got = c.info("errorstats", "commandstats", "stats")
	if got["errorstat_ERR"] != "" || got["cmdstat_lock"] != "" || got["total_error_replies"] != "0" || got["total_connections_received"] != "0" {
		t.Errorf("INFO after CONFIG RESETSTAT: got %v", got)
	}
	if now := srv.counters[countCommands].Load(); now < commands {
		t.Errorf("the counter of commands fell from %d to %d", commands, now)
	}
}

// Goal: errors cannot fill the memory, whatever their codes are.
func TestErrorCodesAreBounded(t *testing.T) {
	st := newStats(time.Now())
	for i := range 1000 {
		st.countCode([]byte("-CODE" + strconv.Itoa(i) + " text\r\n"))
	}
	st.countCode([]byte("-" + strings.Repeat("X", 100)))
	st.countCode([]byte("-\r\n"))
	if got := len(st.codes()); got != errorCodesMax {
		t.Errorf("got %d codes, want %d", got, errorCodesMax)
	}
}

// Goal: the rate is the mean since it was measured before, and is not measured twice within a second.
func TestCommandsPerSecond(t *testing.T) {
	start := time.Now()
	st := newStats(start)
	for _, step := range []struct {
		at       time.Duration
		commands uint64
		want     uint64
	}{
		{500 * time.Millisecond, 1000, 0},
		{2 * time.Second, 1000, 500},
		{2500 * time.Millisecond, 9000, 500},
		{4 * time.Second, 3000, 1000},
		{14 * time.Second, 3000, 0},
	} {
		if got := st.commandsPerSecond(step.commands, start.Add(step.at)); got != step.want {
			t.Errorf("after %v: got %d, want %d", step.at, got, step.want)
		}
	}
}

// Goal: a master that is out stands in INFO with its reason, in a form that clients can split at commas.
func TestINFOMasterDown(t *testing.T) {
	srv := serve(t)
	srv.masters[1].Close()
	c := srv.dial()
	eventually(t, "the master is down", func() bool {
		c.do("LOCK", "a", "100")
		return c.info("masters")["masters_up"] == "4"
	})
	line := c.info("masters")["master1"]
	for i, pair := range strings.Split(line, ",") {
		if strings.Count(pair, "=") != 1 {
			t.Errorf("master1: field %d is %q, want name=value, in %q", i, pair, line)
		}
	}
	if !strings.HasPrefix(line, "addr=master-2:6379,state=down,reason=") || strings.Contains(line, "reason=,") {
		t.Errorf("master1: got %q, want it down with a reason", line)
	}
	if got, want := infoWord("dial: a=b, c\r\n"), "dial: a~b; c  "; got != want {
		t.Errorf("infoWord: got %q, want %q", got, want)
	}
}

func TestHumanBytes(t *testing.T) {
	for n, want := range map[uint64]string{0: "0B", 1023: "1023B", 1536: "1.50K", 9 << 19: "4.50M", 3 << 30: "3.00G"} {
		if got := humanBytes(n); got != want {
			t.Errorf("humanBytes(%d): got %s, want %s", n, got, want)
		}
	}
}

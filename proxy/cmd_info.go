package proxy

import (
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"syscall"
	"time"

	"redlockd/proxy/status"
	"redlockd/redlock"
	"redlockd/redlock/resp"
)

// INFO. It follows "INFO" of Redis's command reference: the same sections and the same form of lines.
// This file only reads and prints: the numbers are counted where things happen, see stats.go and
// redlock.Stats.

// infoSections are the sections of INFO, in the order in which they are shown. The fields that Redis
// has too bear its names, because exporters and client libraries read them; those of the sections
// Masters, Locks, Users and Refusedstats are our own.
//
// To add a field: print it in its section. Its name must be unique over all sections, because clients
// put all of them in one map. A field that Redis has and that makes no sense here is left out, unless a
// client is known to need it.
//
// Users who may not administer the server may send INFO. What they must not learn is left out by the
// section's own function: infoMasters names masters to administrators only, and infoUsers shows a user
// with a list of resources itself alone, as Commandstats and the like show it what it has run itself.
var infoSections = []struct {
	name      string
	onRequest bool // shown only when it is named, or with all and everything
	// print writes the fields that are not in metricTable, behind those that are; nil: there are none.
	// It runs on the reader goroutine of the session that asks.
	print func(*reading, *infoText, *session)
}{
	{name: "Server", print: infoServer},
	{name: "Clients", print: infoClients},
	{name: "Memory", print: infoMemory},
	// Nothing is loading, for which clients wait before they send their first command, and nothing is kept
	// on disk.
	{name: "Persistence", print: same("loading:0", "async_loading:0", "aof_enabled:0")},
	{name: "Stats"},
	// Clients take this server for a master without replicas, to which they may write.
	{name: "Replication", print: same("role:master", "connected_slaves:0", "master_repl_offset:0")},
	{name: "CPU", print: infoCPU},
	{name: "Masters", print: infoMasters},
	{name: "Locks"},
	{name: "Users", print: infoUsers},
	{name: "Commandstats", print: infoCommandstats, onRequest: true},
	{name: "Errorstats", print: infoErrorstats},
	{name: "Refusedstats", print: infoRefusedstats},
	// Clients use this endpoint as a single server.
	{name: "Cluster", print: same("cluster_enabled:0")},
	// The masters have the keys, and nobody counts them. Redis too shows the heading when there is no key.
	{name: "Keyspace"},
}

// cmdINFO is INFO [section …]. It shows the sections that are named, in any case; without a name, or
// with default, all that are not onRequest. A name that is no section is passed over, as Redis does it.
func cmdINFO(s *session, c *call) error {
	// The sections are few, and so are the names: a loop in a loop is less than a map.
	named := func(name string) bool {
		return slices.ContainsFunc(c.args[1:], func(arg []byte) bool { return equalFold(arg, name) })
	}
	all := named("all") || named("everything")
	byDefault := len(c.args) == 1 || named("default")

	r := s.server.reading()
	r.front = s.server.totalsSinceReset()
	var text infoText
	for _, section := range infoSections {
		if !(all || byDefault && !section.onRequest || named(section.name)) {
			continue
		}
		text.section(section.name)
		text.numbers(section.name, r)
		if section.print != nil {
			section.print(r, &text, s)
		}
	}
	c.out = resp.AppendVerbatim(c.out, c.proto, "txt", text.String())
	return nil
}

// infoText is the text of INFO while it is written. Lines end in CR LF, as Redis's do.
type infoText struct{ strings.Builder }

// section begins a section. An empty line stands between two.
func (t *infoText) section(name string) {
	if t.Len() > 0 {
		t.WriteString("\r\n")
	}
	fmt.Fprintf(t, "# %s\r\n", name)
}

// field writes one line. The value must have no line end: text from elsewhere goes through infoWord
// first.
func (t *infoText) field(name string, value any) { fmt.Fprintf(t, "%s:%v\r\n", name, value) }

// numbers writes the rows of metricTable that belong to a section. Those of Stats count from CONFIG
// RESETSTAT on, those of Locks, which redlock.Stats documents, from the start.
func (t *infoText) numbers(section string, r *reading) {
	for i := range metricTable {
		switch m := &metricTable[i]; {
		case m.section != section:
		case m.text != nil:
			t.field(m.field, m.text(r))
		default:
			m.read(r, func(value float64, labels ...string) { t.field(m.field+strings.Join(labels, ""), int64(value)) })
		}
	}
}

// same prints lines that are always the same.
func same(lines ...string) func(*reading, *infoText, *session) {
	return func(_ *reading, t *infoText, _ *session) { t.WriteString(strings.Join(lines, "\r\n") + "\r\n") }
}

// infoServer is about this process. redis_version is the version whose behaviour is shown, because
// clients choose their commands by it.
func infoServer(r *reading, t *infoText, s *session) {
	up := time.Since(r.srv.started)
	t.field("redis_version", redisVersion)
	t.field("redlockd_version", r.srv.opts.Version)
	if r.Embedded {
		t.field("embedded_masters", status.ForTrying)
	}
	t.field("redis_mode", "standalone") // with another mode clients would look for cluster nodes or sentinels
	t.field("os", runtime.GOOS+" "+runtime.GOARCH)
	t.field("arch_bits", 32<<(^uint(0)>>63))
	t.field("go_version", runtime.Version())
	t.field("process_id", os.Getpid())
	t.field("run_id", r.srv.stats.runID) // another one after a restart, when the counters begin at 0 again
	t.field("tcp_port", portOf(s.conn.laddr))
	t.field("server_time_usec", time.Now().UnixMicro())
	t.field("uptime_in_seconds", seconds(up))
	t.field("uptime_in_days", int(up/(24*time.Hour)))
}

// portOf is the port to which this client is connected: a server may listen on several. It is 0 for a
// unix socket.
func portOf(laddr string) string {
	if strings.HasPrefix(laddr, "/") {
		return "0"
	}
	_, port, err := net.SplitHostPort(laddr)
	if err != nil {
		return "0"
	}
	return port
}

// infoClients counts the connections, those that have not logged in among them. blocked_clients have a
// command that waits, mostly a LOCK with WAIT.
func infoClients(r *reading, t *infoText, _ *session) {
	// One mu at a time: a client may change between two looks, so the numbers need not be of one moment.
	var waiting, subscribed int
	clients := r.srv.clients()
	for _, conn := range clients {
		if conn.order.waits() {
			waiting++
		}
		if conn.session.isOfType("pubsub") {
			subscribed++
		}
	}
	t.field("connected_clients", len(clients))
	t.field("cluster_connections", 0)
	t.field("maxclients", r.srv.live().MaxClients)
	t.field("blocked_clients", waiting)
	t.field("tracking_clients", r.srv.tracking.clients.Load())
	t.field("pubsub_clients", subscribed)
	t.field("output_bytes", r.srv.output.Load())
	t.field("output_total", r.srv.live().OutputTotal)
}

// infoMemory reads the runtime's own counters, which does not stop the program. used_memory is what
// objects and stacks take, used_memory_rss all that the runtime holds of the system's memory.
func infoMemory(r *reading, t *infoText, _ *session) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	used := samples[0].Value.Uint64() + samples[1].Value.Uint64()
	held := samples[2].Value.Uint64() - samples[3].Value.Uint64()
	t.field("used_memory", used)
	t.field("used_memory_human", humanBytes(used))
	t.field("used_memory_rss", held)
	t.field("used_memory_rss_human", humanBytes(held))
	// 0 is "no limit" in Redis. What clients can take is bounded piece by piece, see Options. memory_limit
	// is that of the process; 0: none is known.
	t.field("maxmemory", 0)
	t.field("maxmemory_human", "0B")
	t.field("memory_limit", r.srv.opts.MemoryLimit)
	t.field("memory_limit_human", humanBytes(uint64(r.srv.opts.MemoryLimit)))
	t.field("maxmemory_policy", "noeviction")
	t.field("number_of_cached_scripts", r.srv.scripts.count())
	t.field("mem_allocator", "go")
	t.field("goroutines", runtime.NumGoroutine())
}

// humanBytes writes a size as Redis does: 512B, 1.50K, 2.25M, 1.00G.
func humanBytes(n uint64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.2fK", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.2fM", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2fG", float64(n)/(1<<30))
}

// infoCPU is the processor time of the whole process, with the masters in it if they are embedded.
// Where the system does not say, the section stays empty: a zero would look like an answer.
func infoCPU(_ *reading, t *infoText, _ *session) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return
	}
	t.field("used_cpu_sys", fmt.Sprintf("%d.%06d", usage.Stime.Sec, usage.Stime.Usec))
	t.field("used_cpu_user", fmt.Sprintf("%d.%06d", usage.Utime.Sec, usage.Utime.Usec))
}

// infoMasters has one line per master and per learner, in the order of the seats, for users who may
// administer the server. since_s is the age of the state, left_s what is left of a quarantine or doubt.
func infoMasters(r *reading, t *infoText, s *session) {
	if !s.user().SeesMasters() { // it learns how many masters are out, but not their names
		return
	}
	t.field("membership_problem", infoWord(r.Membership.Problem))
	t.field("membership_differences", infoWord(r.Membership.Differences))
	t.field("membership_ceiling_raised_by", infoWord(r.Membership.RaisedBy))
	// One field for each master, in the form of Redis's slave0: … in the section Replication: exporters
	// split it at commas.
	for i, m := range r.Masters {
		fmt.Fprintf(t, "master%d:addr=%s,state=%s,reason=%s,since_s=%s,left_s=%s,version=%s,rtt_us=%d,batches=%d,ops=%d,timeouts=%d,shed=%d,queued=%d,pending_releases=%d,used_memory=%d,maxmemory=%d\r\n",
			i, infoWord(m.Addr), m.State, infoWord(m.Reason), seconds(time.Since(m.Since)), seconds(m.Left), infoWord(m.Version),
			m.RTT.Microseconds(), m.Batches, m.Ops, m.Timeouts, m.Shed, m.Queued, m.PendingReleases, m.UsedMemory, m.MaxMemory)
	}
	for i, s := range status.Learners(r.Membership) {
		t.field(fmt.Sprint("learner", i), infoLearner(s))
	}
}

// infoLearner is the line of a learner. left_s is how long it waits at most, problem why nothing is
// copied to it meanwhile. from has semicolons between the seats.
func infoLearner(s redlock.Seat) string {
	c := status.CopyingOf(s)
	return fmt.Sprintf("seat=%s,addr=%s,left_s=%s,copied_locks=%d,copied_percent=%d,from=%s,problem=%s",
		infoWord(s.Name), infoWord(s.Addr), seconds(s.Left), c.Given, c.Percent, infoWord(c.From), infoWord(c.Problem))
}

// infoWord makes a text fit between the commas of a line of INFO, which clients split at "," and "=".
// Names of masters and users, and reasons, come from the configuration and from masters: they may have
// anything in them.
func infoWord(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ',':
			return ';'
		case r == '=':
			return '~'
		case r < ' ':
			return ' '
		}
		return r
	}, text)
}

// infoUsers has a line for each user, in the order of the configuration; for a user with a list of
// resources, its own. refused counts what the user's own limits refused; a limit of 0 is none.
func infoUsers(r *reading, t *infoText, s *session) {
	shown := r.srv.live().accounts
	if s.user().Confined() {
		shown = []*account{s.account()}
	}
	t.field("users", len(shown))
	for i, a := range shown {
		u := a.user()
		used := r.srv.opts.Engine.Usage(a.share)
		fmt.Fprintf(t, "user%d:name=%s,connections=%d,max_connections=%d,locks=%d,max_locks=%d,memory=%d,max_memory=%d,waiters=%d,max_waiters=%d,max_ttl_ms=%d,output_bytes=%d,"+
			"refused_connections=%d,refused_locks=%d,refused_memory=%d,refused_waiters=%d,refused_ttls=%d\r\n",
			i, infoWord(u.Name), a.connections.Load(), r.srv.live().maxConnections(u), used.Locks, u.MaxLocks, used.Memory, r.srv.maxMemory(u), used.Waiters, u.MaxWaiters,
			u.MaxTTL.Milliseconds(), a.output.Load(),
			a.refused.connections.Load(), a.refused.locks.Load(), a.refused.memory.Load(), a.refused.waiters.Load(), a.refused.ttls.Load())
	}
}

// infoCommandstats has a line for each command that was called, with Redis's fields. No time is
// measured: what a lock takes is the time of the masters (metric redlockd_lock_round_seconds) and of
// waiting, not that of its handler. A user with a list of resources sees what it has run itself, here and
// in the sections that follow.
func infoCommandstats(r *reading, t *infoText, s *session) {
	own := s.ownStats()
	for _, row := range r.srv.table.rows {
		stats := row.stats
		if own != nil {
			if stats = own.of(row.stats); stats == nil {
				continue
			}
		}
		calls, rejected, failed := stats[commandCalls].Load(), stats[commandRejected].Load(), stats[commandFailed].Load()
		if calls+rejected == 0 {
			continue
		}
		fmt.Fprintf(t, "cmdstat_%s:calls=%d,usec=0,usec_per_call=0.00,rejected_calls=%d,failed_calls=%d\r\n",
			row.fullName(), calls, rejected, failed)
	}
}

// infoErrorstats has a line for each code of error replies that was sent, by name. The number of codes
// is bounded (errorCodesMax), because scripts can return errors with codes of their own.
func infoErrorstats(r *reading, t *infoText, s *session) {
	counts := r.srv.stats.codes()
	if own := s.ownStats(); own != nil {
		counts, _ = own.read()
	}
	for _, code := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(t, "errorstat_%s:count=%d\r\n", code, counts[code])
	}
}

// infoRefusedstats has a line for each command that was refused because this endpoint does not do what
// it asks, or because its TTL is beyond a limit, by name, and for each that made a script be refused. Behind
// the count stand the reasons (refused_table.go) with theirs.
func infoRefusedstats(r *reading, t *infoText, s *session) {
	_, counts := r.srv.stats.refusals()
	if own := s.ownStats(); own != nil {
		_, counts = own.read()
	}
	all, reasons := make(map[string]uint64), make(map[string]string)
	for _, kind := range slices.SortedFunc(maps.Keys(counts), func(a, b refusedKind) int { return strings.Compare(string(a.reason), string(b.reason)) }) {
		all[kind.command] += counts[kind]
		reasons[kind.command] += fmt.Sprintf(",%s=%d", kind.reason, counts[kind])
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(t, "refusedstat_%s:count=%d%s\r\n", name, all[name], reasons[name])
	}
}

// ownStats are the statistics that the user sees; nil: those of the server.
func (s *session) ownStats() *ownStats {
	if !s.user().Confined() { // it may have been, until a reload
		return nil
	}
	return s.account().own
}

package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/fence"
	"redlockd/redlock/lua"
)

// A probe asks one master everything that decides whether it can vote, and says what is wrong in
// words that name the remedy. It is what `redlockd check` shows. It opens a connection of its own
// and leaves nothing behind but a word in the cache of scripts: the one key it writes lives under
// lua.ReservedPrefix, is removed again, and would expire by itself after probeKeyTTL.
//
// A new demand on the masters is added in three places: what is read (fill), what is wrong with it
// (judge; it must find at least what refusal does), and, when it needs another command,
// commandsNeeded.

// Severity says what a problem of a master means for its vote.
type Severity string

// The severities, the gravest first.
const (
	NoVote  Severity = "no vote" // it cannot vote until this is mended
	Warning Severity = "warning" // it votes, and something else suffers
	Note    Severity = "note"    // worth knowing, nothing to fix
)

// Problem is one thing that a probe found.
type Problem struct {
	Severity Severity
	// Reason says what is wrong and why it matters; Fix, when not empty, what to do.
	Reason, Fix string
}

// MasterReport is what a probe learned of one master. Fields that could not be read are zero, and a
// Problem says why.
type MasterReport struct {
	Addr string
	// Reachable: something that speaks Redis's protocol answered, if only with an error.
	Reachable bool

	RTT       time.Duration // shortest of probeSamples round trips
	ClockDiff time.Duration // the master's clock less this machine's, true within ± ClockErr
	ClockErr  time.Duration // half the round trip in which the clock was read

	Version     string // redis_version
	OS          string
	RunID       string // names the process: a restart changes it
	Role        string // "master", "slave"; "sentinel" for a Sentinel
	Replicas    int    // connected to it
	ClusterNode bool
	Loading     bool // it is still reading its data from the disk

	MaxMemory       int64  // bytes, 0 is no limit
	MaxMemoryPolicy string // what happens at the limit

	AOF         bool
	AppendFsync string // "always", "everysec", "no"; empty when CONFIG GET is not allowed
	Save        string // when snapshots are written, as in redis.conf; empty: never, or CONFIG GET is not allowed

	// Seat is the name of the master's seat in the membership; "": it has none, or no membership was found.
	Seat string
	// Member says what the master is in the membership: "voter", "learner"; "forgotten" where it has lost its memory since, or was never
	// listed; "new" where nothing on it says that it ever was a member; "foreign" where it belongs to another fleet; "behind" where it shows
	// another version of the membership than the one in force; "alone" where it shows a membership that a majority of its masters does not
	// show; "none" where the settings name it and the membership has no seat for it.
	Member string
	// New: nobody can have been granted a lock by it as a member, so a bootstrap may admit it.
	New bool
	// MembersVersion is the version of the membership that it shows.
	MembersVersion int64

	state  State   // what it shows
	copied string  // how far a copy to it is, for people
	record *Record // that it has settled on, or that the memory before it had

	// floor and marks say how high its fences are; nil: they were not read.
	floor *redis.StringCmd
	marks *redis.ZSliceCmd

	// Problems in the order in which they are best mended.
	Problems []Problem
}

// Votes reports whether nothing was found that keeps the master from voting.
func (r *MasterReport) Votes() bool {
	for _, p := range r.Problems {
		if p.Severity == NoVote {
			return false
		}
	}
	return true
}

func (r *MasterReport) add(s Severity, fix, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{Severity: s, Reason: conn.Printable(fmt.Sprintf(format, args...), conn.ErrorTextMax), Fix: fix})
}

const (
	// probeSamples round trips are made and the shortest is kept: the others waited for something.
	probeSamples = 5
	probeKeyTTL  = time.Second
)

// CommandsNeeded are tried on a key of the probe's own, in this order, to learn whether the user
// may run them. All are commands that the engine sends itself or from a script; Redis checks the
// permissions of both alike.
var CommandsNeeded = [][]any{
	{"SET", probeKey, "0", "NX", "PX", probeKeyTTL.Milliseconds()},
	{"GET", probeKey},
	{"MGET", probeKey},
	{"EXISTS", probeKey},
	{"TYPE", probeKey},
	{"INCR", probeKey},
	{"PEXPIRE", probeKey, probeKeyTTL.Milliseconds()},
	{"PTTL", probeKey},
	// The key is a string: these answer WRONGTYPE when they are allowed, and make no hash that nobody removes.
	{"HGET", probeKey, "x"},
	{"HKEYS", probeKey},
	{"HSET", probeKey, "x", "0"},
	{"HSETNX", probeKey, "x", "0"},
	{"HINCRBY", probeKey, "x", "1"},
	{"HDEL", probeKey, "x"},
	{"UNLINK", probeKey},
	{"ZADD", probeKey, "XX", "1", "x"}, // XX: makes no key
	{"ZCARD", probeKey},
	{"ZSCORE", probeKey, "x"},
	{"ZREVRANGE", probeKey, "0", "0"},
	{"ZPOPMIN", probeKey},
	{"ZREM", probeKey, "x"},
	{"ZREMRANGEBYSCORE", probeKey, "-inf", "0"},
	{"SCAN", "0"}, // after a clock was set back
	{"SCRIPT", "LOAD", "return 1"},
	{"EVALSHA", strings.Repeat("0", 40), "0"}, // answers NOSCRIPT when it is allowed
	{"CLIENT", "ID"},
	{"CLIENT", "KILL", "ID", "9223372036854775807"}, // no client has this id
}

// probeKey stands in commandsNeeded for the key of one probe.
var probeKey = new(struct{ _ int })

// ProbeAll is redlock.ProbeAll, with options that are complete.
func ProbeAll(ctx context.Context, o Options, timeout time.Duration) ([]MasterReport, Membership) {
	asked := make(map[string]MasterReport) // by full address
	probe := func(masters []conn.Master) (reports []MasterReport) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		unasked := slices.DeleteFunc(slices.Clone(masters), func(m conn.Master) bool { _, known := asked[m.FullAddr()]; return known })
		for _, m := range unasked {
			wg.Go(func() {
				r := Probe(ctx, m, timeout)
				mu.Lock()
				defer mu.Unlock()
				asked[m.FullAddr()] = r
			})
		}
		wg.Wait()
		for _, m := range masters {
			reports = append(reports, asked[m.FullAddr()])
		}
		return reports
	}
	named := probe(o.Masters)
	all, force := named, reportedBy(named).Prevailing()
	for i := 0; force == nil && i < len(named); i++ {
		if r := named[i].record; r != nil && !named[i].state.fresh { // the options may name too few of its masters
			force = reportedBy(probe(mastersOf(r, o))).Prevailing()
		}
	}
	var membership Membership
	if force != nil {
		membership = force.membership(o)
		masters := mastersOf(force, o)
		all = probe(masters)
		for i := range force.Seats {
			all[i].Seat = force.Seats[i].Name
			membership.Seats[i].Reached = all[i].Reachable
		}
		for i, m := range o.Masters {
			if !slices.ContainsFunc(masters, func(seated conn.Master) bool { return seated.FullAddr() == m.FullAddr() }) {
				named[i].Member = "none"
				all = append(all, named[i])
			}
		}
	}
	Compare(all, force, o)
	return all, membership
}

// mastersOf are the masters of the seats.
func mastersOf(r *Record, o Options) (masters []conn.Master) {
	for i := range r.Seats {
		masters = append(masters, o.MasterAt(r.Seats[i].Name, r.Seats[i].Addr))
	}
	return masters
}

// reportedBy has what the reports tell of the membership.
func reportedBy(reports []MasterReport) *Survey {
	s := &Survey{}
	for i := range reports {
		if r := &reports[i]; r.state.Memory != "" {
			s.Reports = append(s.Reports, &Report{Place: i, master: conn.Master{Addr: r.Addr}, runID: r.RunID, State: r.state, record: r.record})
		}
	}
	return s
}

// Compare finds what no master can tell by itself: that it is another's twin, or not what these
// options expect.
func Compare(reports []MasterReport, force *Record, o Options) {
	findTwins(reports)
	compareMembership(reports, force)
	if force != nil {
		if text := o.otherDB(force); text != "" {
			for i := range reports {
				reports[i].add(NoVote, "", "%s", text)
			}
		}
	}
	for i := range reports {
		r := &reports[i]
		if r.floor != nil {
			if _, untrue, _ := fence.ReadHighWater(r.floor, r.marks, time.Now(), o.ClockSkewMax); untrue != "" {
				r.add(NoVote, "", "%s", untrue)
			}
		}
		if r.ClockDiff.Abs()-r.ClockErr > o.ClockSkewMax {
			r.add(Warning, "let NTP keep both clocks, or raise clock_skew_max",
				"its clock is %v from this machine's (± %v), further than clock_skew_max = %v: a server that has just started does not count its votes for about max_ttl, because its clock may have stepped",
				r.ClockDiff.Round(time.Millisecond), r.ClockErr.Round(time.Microsecond), o.ClockSkewMax)
		}
	}
}

// findTwins withdraws the vote of every master that is the same process as one named before it: it
// would vote twice.
func findTwins(reports []MasterReport) {
	first := make(map[string]string)
	for i := range reports {
		r := &reports[i]
		if r.RunID == "" {
			continue
		}
		if addr, twin := first[r.RunID]; twin {
			r.add(NoVote, "name five masters that are five processes, each on a machine of its own",
				"is the same Redis as %s (same run_id): one process would vote twice", addr)
			continue
		}
		first[r.RunID] = r.Addr
	}
}

// Probe asks one master what decides over its vote. It answers within timeout, or earlier when ctx
// is done.
func Probe(ctx context.Context, m conn.Master, timeout time.Duration) MasterReport {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := MasterReport{Addr: m.Addr}
	l, err := conn.Dial(ctx, m, timeout)
	if err != nil {
		r.Unreachable(ctx, err, timeout)
		return r
	}
	defer l.Close()
	// go-redis obeys a deadline while it reads, but not a cancellation: closing the client under
	// the connection ends that read. (The connection itself may be closed only by who uses it.)
	defer context.AfterFunc(ctx, func() { l.Client.Close() })()

	if err := conn.RecoverPanic(func() error { r.ask(ctx, m, l, timeout); return nil }); err != nil {
		r.Unreachable(ctx, err, timeout)
	}
	return r
}

// ask fills the report.
func (r *MasterReport) ask(ctx context.Context, m conn.Master, l *conn.Conn, timeout time.Duration) {
	text, err := l.Redis.Info(ctx).Result()
	if !conn.Replied(err) {
		r.Unreachable(ctx, err, timeout)
		return
	}
	r.Reachable = true
	if err != nil && !r.refused("INFO", m.Explain(err)) {
		return // who is not let in would hear the same of every command
	}
	info := conn.ParseInfo(text)
	if conn.IsRedlockd(info) {
		r.Role = "redlockd"
		r.add(NoVote, "name the Redis masters behind it", "is a redlockd, not a Redis")
		return // it would refuse every command
	}
	r.Fill(info)
	r.readClock(ctx, l, timeout)
	r.readPersistence(ctx, l)
	r.Judge()
	if err == nil && r.Role == "master" && !r.ClusterNode && !r.Loading {
		r.tryCommands(ctx, l)
		r.readMembership(ctx, l)
		if r.New {
			if text := fleetInOtherDB(ctx, l, m, timeout); text != "" {
				r.add(NoVote, "", "%s", text)
			}
		}
		r.floor, r.marks = fence.HighWaterCommands(ctx)
		pipe := l.Redis.Pipeline()
		pipe.BatchProcess(ctx, r.floor, r.marks)
		pipe.Exec(ctx) // errors are those of the commands, which have been tried before
	}
}

// Unreachable fills in why nothing was learned.
func (r *MasterReport) Unreachable(ctx context.Context, err error, timeout time.Duration) {
	if ctx.Err() != nil {
		err = ctx.Err() // what broke then, broke because we closed it
	}
	var dns *net.DNSError
	refused, _ := errors.AsType[*conn.RefusedError](err)
	switch {
	case refused != nil:
		r.add(NoVote, "", "%s", refused.Reason)
	case errors.As(err, &dns):
		r.add(NoVote, "correct the name in the list of masters, or the name service of this machine", "its name cannot be resolved: %v", dns)
	case conn.IsTimeout(err):
		r.add(NoVote, "see whether it hangs, or a firewall swallows the packets", "gives no answer within %v", timeout)
	default:
		r.add(NoVote, "see whether it runs and listens on this address", "cannot be reached: %v", err)
	}
}

// refused records that the master answered a command with an error, and tells whether it is only
// about this command.
func (r *MasterReport) refused(command string, err error) (only bool) {
	text := err.Error()
	switch code, _, _ := strings.Cut(text, " "); {
	case code == "NOAUTH" || code == "WRONGPASS" || strings.Contains(text, "invalid password"):
		r.add(NoVote, "set username and password of this master", "does not let us in: %s", text)
	case code == "NOPERM":
		r.add(NoVote, "give the user this permission: redis-cli ACL SETUSER <user> +"+strings.ToLower(strings.ReplaceAll(command, " ", "|")),
			"its ACL does not allow %s: %s", command, text)
		return true
	case strings.HasPrefix(text, "ERR unknown command"):
		r.add(NoVote, "take the rename-command line out of its redis.conf, or name a Redis instead of what answers there",
			"does not know the command %s", command)
		return true
	case code == "LOADING":
		r.add(NoVote, "wait", "is still loading its data from the disk")
	default:
		r.add(NoVote, "see that a Redis answers on this address, and that it takes this command from redis-cli", "refuses %s: %s", command, text)
	}
	return false
}

// Fill takes from INFO what judge looks at.
func (r *MasterReport) Fill(info map[string]string) {
	r.Version, r.OS, r.RunID = info["redis_version"], info["os"], info["run_id"]
	r.Role = info["role"]
	if info["redis_mode"] == "sentinel" {
		r.Role = "sentinel"
	}
	r.Replicas, _ = strconv.Atoi(info["connected_slaves"])
	r.ClusterNode = info["cluster_enabled"] == "1"
	r.Loading = info["loading"] == "1"
	r.MaxMemory, _ = strconv.ParseInt(info["maxmemory"], 10, 64)
	r.MaxMemoryPolicy = info["maxmemory_policy"]
	r.AOF = info["aof_enabled"] == "1"
}

// readClock measures the round trip, and the difference of the clocks in the shortest one: half of
// it is how far the difference may be wrong.
func (r *MasterReport) readClock(ctx context.Context, l *conn.Conn, timeout time.Duration) {
	for range probeSamples {
		sent := time.Now()
		there, err := l.Redis.Time(ctx).Result()
		rtt := time.Since(sent)
		if err != nil {
			if conn.Replied(err) {
				r.refused("TIME", err)
			} else {
				r.Unreachable(ctx, err, timeout)
			}
			return
		}
		if r.RTT == 0 || rtt < r.RTT {
			r.RTT, r.ClockErr = rtt, rtt/2
			r.ClockDiff = ClockDiff(sent, there, rtt)
		}
	}
}

// ClockDiff is the clock there less the clock here, when the question was sent at sent and there
// was answered after rtt: the master read its clock at some moment of the round trip, most likely
// halfway.
func ClockDiff(sent, there time.Time, rtt time.Duration) time.Duration {
	return there.Sub(sent.Add(rtt / 2))
}

// readPersistence asks for the two settings that INFO does not tell. Hosted masters often keep
// CONFIG to themselves; that is no problem, we only know less.
func (r *MasterReport) readPersistence(ctx context.Context, l *conn.Conn) {
	if v, err := l.Redis.ConfigGet(ctx, "appendfsync").Result(); err == nil && r.AOF {
		r.AppendFsync = conn.Sanitize(v["appendfsync"])
	}
	if v, err := l.Redis.ConfigGet(ctx, "save").Result(); err == nil {
		r.Save = conn.Sanitize(v["save"])
	}
}

// Judge turns what was read into problems. It needs no connection.
func (r *MasterReport) Judge() {
	if r.Version != "" && conn.TooOld(r.Version) {
		r.add(NoVote, "upgrade it", "Redis %s is too old: %d.%d is the first with all commands that are needed", r.Version, conn.OldestVersion[0], conn.OldestVersion[1])
	}
	switch r.Role {
	case "master", "": // none: INFO was refused, and that has been said
	case "slave":
		r.add(NoVote, "name a master here, or run REPLICAOF NO ONE on it if it is to be one",
			"is a replica: it takes no writes, and its data belong to another master")
	case "sentinel":
		r.add(NoVote, "name the port of the Redis server itself, 6379 by default", "is a Sentinel: it keeps no data")
	default:
		r.add(NoVote, "name a master here", "has the role %q", r.Role)
	}
	if r.ClusterNode {
		r.add(NoVote, "run it with cluster-enabled no", "is a node of a Redis Cluster: it holds only a part of the keys, and a failover forgets locks")
	}
	if r.Loading {
		r.add(NoVote, "wait", "is still loading its data from the disk")
	}
	if policy := r.MaxMemoryPolicy; policy != "" && policy != "noeviction" {
		const fix = "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in its redis.conf"
		if r.MaxMemory > 0 {
			r.add(NoVote, fix, "maxmemory-policy is %s: at the limit of memory it would throw away locks that are held", policy)
		} else {
			r.add(Warning, fix, "maxmemory-policy is %s: it loses its vote as soon as maxmemory is set", policy)
		}
	}
	if r.Replicas > 0 {
		r.add(Warning, "do not promote a replica of a master of locks: restart the master instead",
			"has %d replicas: a replica that takes its place may not know the newest locks", r.Replicas)
	}
	if r.AOF && r.AppendFsync != "" && r.AppendFsync != "always" {
		r.add(Note, "", "appendfsync %s can lose acknowledged locks when it is killed: it counts as no persistence", r.AppendFsync)
	}
	if r.Save != "" {
		r.add(Note, "save \"\" in its redis.conf spares the work", "writes snapshots (save %s): a snapshot is always older than the newest locks, so it helps no lock", r.Save)
	}
}

// copyNoteShown is for how long a note counts that a learner has of a copy. Another redlockd may have a longer heartbeat than this one.
const copyNoteShown = 10 * time.Second

// readMembership reads what the master shows of the membership.
func (r *MasterReport) readMembership(ctx context.Context, l *conn.Conn) {
	fields := l.Redis.HMGet(ctx, lua.MembersKey, "v", "r", "copy")
	if refused, _ := errors.AsType[*conn.RefusedError](AsMembersError(fields.Err())); refused != nil {
		r.add(NoVote, "", "%s", refused.Reason)
	}
	if fields.Err() != nil || len(fields.Val()) != 3 {
		return // HMGET has been tried before: it has been told
	}
	v, _ := fields.Val()[0].(string)
	text, _ := fields.Val()[1].(string)
	copied, _ := fields.Val()[2].(string)
	r.record, _ = ParseRecord(text)
	state, err := StateOf(v, r.RunID)
	if refused, _ := errors.AsType[*conn.RefusedError](err); refused != nil {
		r.add(NoVote, "", "%s", refused.Reason)
		return
	}
	if state.Memory == "" {
		state = State{Memory: r.RunID + ":", fresh: true}
	}
	r.state = state
	if n, ok := parseCopyNote(copied); ok && time.Since(time.UnixMilli(n.at))+r.ClockDiff < copyNoteShown {
		r.copied = fmt.Sprintf(" (%d locks so far, %d %%, from %s)", n.given, n.done, strings.ReplaceAll(n.from, ",", ", "))
	}
	if !state.fresh {
		r.MembersVersion = state.Record.version
	}
	r.New = state.fresh && r.record == nil
}

// compareMembership says of each master what it is in the record in force; nil: none was found.
func compareMembership(reports []MasterReport, force *Record) {
	s := reportedBy(reports)
	for i := range reports {
		r := &reports[i]
		if r.Member == "none" {
			r.add(Warning, "take it out of the settings, or run redlockd members add", "the settings name it, and the membership has no seat for it: it has no vote")
			continue
		}
		if r.state.Memory == "" {
			continue
		}
		r.Member = "forgotten"
		if r.New {
			r.Member = "new"
		}
		switch {
		case force == nil && !r.state.fresh && r.record != nil:
			r.Member = "alone"
			r.add(Warning, "nothing if the others have restarted without their data, a redlockd founds the membership anew; if their machines are lost for good, see redlockd members --help",
				"it is a member, and a majority of the members does not show that, or cannot be reached: %s", seatNames(r.record))
		case force == nil:
		case !r.state.fresh && !r.state.Record.sameFleet(force.ID()):
			r.Member = "foreign"
			r.add(NoVote, "name another master, or run FLUSHALL on it if that fleet is gone", "belongs to another fleet")
		case force.Lists(r.state.Memory) != nil && !r.state.fresh:
			r.Member = force.Lists(r.state.Memory).State.String()
			r.New = force.isNew()
			if r.state.Record != force.ID() || r.state.Child != "" { //mutant:check-counts-who-is-behind
				r.Member = "behind"
				r.add(Note, "", "shows another version of the membership than the one in force: it votes when a redlockd that runs has told it")
			}
			if r.Member == "learner" && !r.New {
				r.add(Note, "", "is a learner: it may have forgotten locks, and votes when a redlockd has given it what the others remember%s, or %s after it was listed",
					r.copied, clock.Text(force.Wait.Round(time.Millisecond)))
			}
		default:
			r.add(Note, "", "the membership does not list its memory: it has restarted or was flushed, and votes when a redlockd has found it and given it what the others remember, or %s later", clock.Text(force.Wait))
		}
		if force != nil && slices.ContainsFunc(s.strays(force), func(f *Report) bool { return f.master.Addr == r.Addr }) {
			r.add(Warning, "see who writes to it; a redlockd has it start anew", "shows version %d of the membership, and a majority of the masters does not know it", r.MembersVersion)
		}
	}
}

// tryCommands finds the permissions that are missing by using them: ACL DRYRUN would ask for one
// permission more, and is unknown to Redis 6.
func (r *MasterReport) tryCommands(ctx context.Context, l *conn.Conn) {
	key := lua.ReservedPrefix + "probe:" + Nonce()
	for _, template := range CommandsNeeded {
		args := make([]any, len(template))
		for i, a := range template {
			if a == any(probeKey) {
				a = key
			}
			args[i] = a
		}
		err := l.Redis.Process(ctx, redis.NewCmd(ctx, args...))
		if err == nil || errors.Is(err, redis.Nil) || conn.IsNoScript(err) || strings.HasPrefix(err.Error(), "WRONGTYPE") {
			continue
		}
		if !conn.Replied(err) {
			r.add(NoVote, "see its log, and what lies between it and this machine", "broke off while its permissions were tried: %v", err)
			return
		}
		r.refused(commandName(args), err)
	}
}

// commandName is the command as ACL rules write it, with its subcommand.
func commandName(args []any) string {
	switch name := args[0].(string); name {
	case "CLIENT", "SCRIPT":
		return name + " " + args[1].(string)
	default:
		return name
	}
}

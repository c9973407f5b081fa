package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redlockd/redlock/clock"
	"redlockd/redlock/conn"
	"redlockd/redlock/lua"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
	"redlockd/redlock/quorum"
)

// A probe asks one master everything that decides whether it can vote, and says what is wrong in words
// that name the remedy. It is what `redlockd check` shows. It reads what a survey reads (Report), and
// three things more: how far the clocks are apart, persistence, and which commands the user may run. It
// goes on where a survey has reason enough to refuse the master.
//
// It leaves nothing behind but a word in the cache of scripts: the one key it writes lives under
// lua.ReservedPrefix, is removed again, and would expire by itself after ProbeKeyTTL.
//
// A new demand on the masters is added in three places: what is read (fill), what is wrong with it
// (judge; it must find at least what conn.Refusal does), and, when it needs another command,
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
	RTTWorst  time.Duration // longest of them
	ClockDiff time.Duration // the master's clock less this machine's, true within ± ClockErr
	ClockErr  time.Duration // half the round trip in which the clock was read

	Version     string // as conn.ServerVersion has it
	OS          string
	RunID       string // names the process: a restart changes it
	Role        string // "master", "slave"; "sentinel" for a Sentinel
	Replicas    int    // connected to it
	ClusterNode bool
	Loading     bool // it is still reading its data from the disk

	UsedMemory      int64  // bytes
	MaxMemory       int64  // bytes, 0 is no limit
	MaxMemoryPolicy string // what happens at the limit

	AOF         bool
	AppendFsync string // "always", "everysec", "no"; empty when CONFIG GET is not allowed
	Save        string // when snapshots are written, as in redis.conf; empty: never, or CONFIG GET is not allowed

	// Seat is the name of the master's seat in the membership; "": it has none, or no membership was
	// found.
	Seat string
	// Member says what the master is in the membership: "voter", "learner"; "forgotten" where it has lost
	// its memory since, or was never listed; "new" where nothing on it says that it ever was a member;
	// "foreign" where it belongs to another fleet; "behind" where it shows another version of the
	// membership than the one in force; "alone" where it shows a membership that a majority of its masters
	// does not show; "none" where the settings name it and the membership has no seat for it.
	Member string
	// New: nobody can have been granted a lock by it as a member, so a bootstrap may admit it.
	New bool
	// MembersVersion is the version of the membership that it shows.
	MembersVersion int64

	// shown is what a survey reads, too.
	shown member.Report

	// Lacks are the commands that the user may not run there, as ACL rules write them.
	Lacks []string
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
	p := Problem{Severity: s, Reason: conn.Printable(fmt.Sprintf(format, args...), conn.ErrorTextMax), Fix: fix}
	if !slices.Contains(r.Problems, p) { // a full memory refuses many commands
		r.Problems = append(r.Problems, p)
	}
}

const (
	// probeSamples round trips are made, with a pause before each. The shortest shows the clock. The
	// longest shows a master that is slow now and then.
	probeSamples = 5
	probePause   = 200 * time.Millisecond
)

// commandsNeeded are tried on a key of the probe's own, in this order, to learn whether the user
// may run them. All are commands that the engine sends itself or from a script; Redis checks the
// permissions of both alike.
var commandsNeeded = [][]any{
	{"SET", probeKey, "0", "NX", "PX", survey.ProbeKeyTTL.Milliseconds()},
	{"GET", probeKey},
	{"MGET", probeKey},
	{"EXISTS", probeKey},
	{"TYPE", probeKey},
	{"INCR", probeKey},
	{"PEXPIRE", probeKey, survey.ProbeKeyTTL.Milliseconds()},
	{"PTTL", probeKey},
	// The key is a string: these answer WRONGTYPE when they are allowed, and make no hash that nobody
	// removes.
	{"HGET", probeKey, "x"},
	{"HMGET", probeKey, "x"},
	{"HGETALL", probeKey},
	{"HKEYS", probeKey},
	{"HSET", probeKey, "x", "0"},
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
	{"DBSIZE"},
	{"SCAN", "0"}, // after a clock was set back
	{"TIME"},
	{"SCRIPT", "LOAD", "return 1"},
	{"EVAL", "return 1", "0"},
	{"EVALSHA", strings.Repeat("0", 40), "0"}, // answers NOSCRIPT when it is allowed
	{"CLIENT", "ID"},
	{"CLIENT", "KILL", "ID", "9223372036854775807"}, // no client has this id
}

// commandsForOthers are tried, too: those who wait, and other redlockds, are told late without them. The
// last one makes the connection one that gets messages.
var commandsForOthers = [][]any{
	{"CLIENT", "TRACKING", "OFF"},
	{"CLIENT", "CACHING", "YES"}, // is refused where there is no tracking, or not known
	{"PUBLISH", lua.ReservedPrefix + "probe", ""},
	{"SUBSCRIBE", "__redis__:invalidate"},
}

// probeKey stands in commandsNeeded for the key of one probe.
var probeKey = new(struct{ _ int })

// ProbeAll is redlock.ProbeAll, with options that are complete.
func ProbeAll(ctx context.Context, o member.Options, timeout time.Duration) ([]MasterReport, member.Membership) {
	o.ConnectTimeout, o.ReadOnly = timeout, true
	asked := make(map[string]MasterReport) // by full address
	probeAll := func(masters []conn.Master) (reports []MasterReport) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		unasked := slices.DeleteFunc(slices.Clone(masters), func(m conn.Master) bool { _, known := asked[m.FullAddr()]; return known })
		for _, m := range unasked {
			wg.Go(func() {
				r := probe(ctx, m, o)
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
	named := probeAll(o.Masters)
	fleet, nowhere := shownBy(named).Fleet(o)
	inForce := func(reports []MasterReport) *member.Record {
		if r := shownBy(reports).Prevailing(); r != nil && r.Fleet() == fleet {
			return r
		}
		return nil
	}
	all, force := named, inForce(named)
	for i := 0; force == nil && i < len(named); i++ {
		if f := &named[i].shown; f.Record != nil { // the options may name too few of its masters
			force = inForce(probeAll(mastersOf(f.Record, o)))
		}
	}
	var membership member.Membership
	base := force
	for i := range named { // not in force: its seats are what it would need
		if r := named[i].shown.Known(); force == nil && r != nil && r.Fleet() == fleet && (base == nil || r.NewerThan(base.ID())) {
			base = r
		}
	}
	if base != nil {
		masters := mastersOf(base, o)
		all = probeAll(masters)
		for i := range base.Seats {
			all[i].Seat = base.Seats[i].Name
		}
		for i, m := range o.Masters {
			if !slices.ContainsFunc(masters, func(seated conn.Master) bool { return seated.FullAddr() == m.FullAddr() }) {
				named[i].Member = "none"
				all = append(all, named[i])
			}
		}
	}
	compare(all, force, base, nowhere, o)
	if force != nil {
		membership = force.Membership(o)
		for i := range membership.Seats {
			s := &membership.Seats[i]
			s.Reached, s.Votes = all[i].Reachable, all[i].Member == string(member.Voter) && all[i].Votes()
		}
	}
	return all, membership
}

// mastersOf are the masters of the seats.
func mastersOf(r *member.Record, o member.Options) (masters []conn.Master) {
	for s := range r.EachSeat() {
		masters = append(masters, o.MasterAt(s.Name, s.Addr))
	}
	return masters
}

// shownBy is a survey of what the reports have shown. Unlike one of the coordinator it believes masters
// that are refused for another reason.
func shownBy(reports []MasterReport) *member.Survey {
	s := &member.Survey{Began: time.Now()}
	for i := range reports {
		f := reports[i].shown
		f.Place = i
		if f.State.Memory == "" {
			f.Err = errNothingShown
		}
		s.Reports = append(s.Reports, &f)
	}
	return s
}

var errNothingShown = errors.New("it has shown nothing of the membership")

// compare finds what no master can tell by itself: that it is another's twin, or not what these options
// expect. base is the record in force or, where force is nil, the newest one of the fleet; nil: none is
// known. nowhere is why the options lead to no fleet.
func compare(reports []MasterReport, force, base *member.Record, nowhere string, o member.Options) {
	s := shownBy(reports)
	for i := range s.Reports {
		s.Reports[i].Place = quorum.MaxMasters + i // no seat
		if base != nil && i < len(base.Seats) {
			s.Reports[i].Place = base.Seats[i].Number
		}
	}
	wrong := nowhere
	if force != nil {
		wrong = o.OtherDB(force)
	}
	for i := range reports {
		r := &reports[i]
		if twin := s.TwinOf(s.Reports[i]); twin != nil {
			r.add(NoVote, "name five masters that are five processes, each on a machine of its own",
				"is the same Redis as %s (same run_id): one process would vote twice", twin.Master.Addr)
		}
		if nowhere == "" {
			r.compareMembership(s, s.Reports[i], force, base)
		}
		if wrong != "" {
			r.add(NoVote, "", "%s", wrong)
		}
		if r.ClockDiff.Abs()-r.ClockErr > o.ClockSkewMax {
			r.add(Warning, "let NTP keep both clocks, or raise clock_skew_max",
				"its clock is %v from this machine's (± %v), further than clock_skew_max = %v: a server that has just started does not count its votes for about max_ttl, because its clock may have stepped",
				r.ClockDiff.Round(time.Millisecond), r.ClockErr.Round(time.Microsecond), o.ClockSkewMax)
		}
	}
}

// probe asks one master what decides over its vote. It answers within ConnectTimeout, or earlier when
// ctx is done.
func probe(ctx context.Context, m conn.Master, o member.Options) MasterReport {
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	r := MasterReport{Addr: m.Addr, shown: member.Report{Master: m}}
	err := conn.RecoverPanic(func() error { return r.ask(ctx, o) })
	if err != nil {
		r.unreachable(ctx, err, o.ConnectTimeout)
	}
	return r
}

// ask fills the report. An error is why nothing was learned.
func (r *MasterReport) ask(ctx context.Context, o member.Options) error {
	f := &r.shown
	l, err := conn.Dial(ctx, f.Master, o.ConnectTimeout)
	if err != nil {
		return err
	}
	defer l.Close()
	// go-redis obeys a deadline while it reads, but not a cancellation: closing the client under
	// the connection ends that read. (The connection itself may be closed only by who uses it.)
	defer context.AfterFunc(ctx, func() { l.Client.Close() })()
	f.Conn = l
	defer func() { f.Conn = nil }()

	info, err := survey.Identify(ctx, f, "persistence")
	if info == nil && !conn.Replied(err) && !conn.IsRefused(err) {
		return err
	}
	r.Reachable = true
	if info == nil && !r.refused("INFO", err) {
		return nil // who is not let in would hear the same of every command
	}
	if conn.IsRedlockd(info) {
		r.Role = "redlockd"
		r.add(NoVote, "name the Redis masters behind it", "is a redlockd, not a Redis")
		return nil // it would refuse every command
	}
	r.fill(info)
	if err := r.readClock(ctx, min(probePause, o.ConnectTimeout/(4*probeSamples))); err != nil {
		return err
	}
	r.readPersistence(ctx)
	r.judge()
	if r.Role == "master" && !r.ClusterNode && !r.Loading {
		r.tryCommands(ctx, o)
		r.readMembership(ctx, o)
		r.tryCommandsForOthers(ctx, o)
	}
	return nil
}

// unreachable fills in why nothing was learned.
func (r *MasterReport) unreachable(ctx context.Context, err error, timeout time.Duration) {
	refused, _ := errors.AsType[*conn.RefusedError](err)
	switch fix := conn.FixOf(err); {
	case refused != nil:
		r.add(NoVote, "", "%s", refused.Reason)
	case fix != "":
		r.add(NoVote, fix, "%v", err)
	case ctx.Err() != nil || conn.IsTimeout(err): // what broke then, broke because we closed it
		r.add(NoVote, "see whether it hangs", "gives no answer within %v", timeout)
	default:
		r.add(NoVote, "see whether it runs and listens on this address", "cannot be reached: %v", err)
	}
}

// refused records that the master answered a command with an error, and tells whether it is only
// about this command.
func (r *MasterReport) refused(command string, err error) (only bool) {
	text := err.Error()
	reason, fix := conn.CommandRefused(err)
	switch code, _, _ := strings.Cut(text, " "); {
	case conn.IsRefused(err):
		r.add(NoVote, "", "%s", strings.TrimPrefix(text, conn.RefusedPrefix))
	case code == "NOPERM":
		r.Lacks = append(r.Lacks, command)
		r.add(NoVote, permit(command), "its ACL does not allow %s: %s", command, text)
		return true
	case strings.HasPrefix(text, "ERR unknown command"):
		r.add(NoVote, "take the rename-command line out of its redis.conf, or name a Redis instead of what answers there",
			"does not know the command %s", command)
		return true
	case reason != "":
		r.add(NoVote, fix, "%s", reason)
	case code == "LOADING":
		r.add(NoVote, "wait", "is still loading its data from the disk")
	default:
		r.add(NoVote, "see that a Redis answers on this address, and that it takes this command from redis-cli", "refuses %s: %s", command, text)
	}
	return false
}

// fill takes from INFO what judge looks at.
func (r *MasterReport) fill(info map[string]string) {
	r.Version, r.OS, r.RunID = conn.ServerVersion(info), info["os"], info["run_id"]
	r.Role = info["role"]
	if conn.IsSentinel(info) {
		r.Role = "sentinel"
	}
	r.Replicas, _ = strconv.Atoi(info["connected_slaves"])
	r.ClusterNode = info["cluster_enabled"] == "1"
	r.Loading = info["loading"] == "1"
	r.MaxMemory, _ = strconv.ParseInt(info["maxmemory"], 10, 64)
	r.UsedMemory, _ = strconv.ParseInt(info["used_memory"], 10, 64)
	r.MaxMemoryPolicy = info["maxmemory_policy"]
	r.AOF = info["aof_enabled"] == "1"
}

// readClock measures the round trip, with a pause before each, and the difference of the clocks in the
// shortest one: half of it is how far the difference may be wrong.
func (r *MasterReport) readClock(ctx context.Context, pause time.Duration) error {
	for range probeSamples {
		time.Sleep(pause)
		sent := time.Now()
		there, err := r.shown.Conn.Redis.Time(ctx).Result()
		rtt := time.Since(sent)
		switch {
		case err != nil && conn.Replied(err):
			r.refused("TIME", err)
			return nil
		case err != nil:
			return err
		}
		r.RTTWorst = max(r.RTTWorst, rtt)
		if r.RTT == 0 || rtt < r.RTT {
			r.RTT, r.ClockErr = rtt, rtt/2
			r.ClockDiff = clockDiff(sent, there, rtt)
		}
	}
	return nil
}

// clockDiff is the clock there less the clock here, when the question was sent at sent and there
// was answered after rtt: the master read its clock at some moment of the round trip, most likely
// halfway.
func clockDiff(sent, there time.Time, rtt time.Duration) time.Duration {
	return there.Sub(sent.Add(rtt / 2))
}

// readPersistence asks for the two settings that INFO does not tell. Hosted masters often keep
// CONFIG to themselves; that is no problem, we only know less.
func (r *MasterReport) readPersistence(ctx context.Context) {
	l := r.shown.Conn
	if v, err := l.Redis.ConfigGet(ctx, "appendfsync").Result(); err == nil && r.AOF {
		r.AppendFsync = conn.Sanitize(v["appendfsync"])
	}
	if v, err := l.Redis.ConfigGet(ctx, "save").Result(); err == nil {
		r.Save = conn.Sanitize(v["save"])
	}
}

// judge turns what was read into problems. It needs no connection.
func (r *MasterReport) judge() {
	if conn.TooOld(r.Version) {
		r.add(NoVote, "upgrade it", "%s is too old: %d.%d is the first with all commands that are needed", r.Version, conn.OldestVersion[0], conn.OldestVersion[1])
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
	if conn.MemoryIsLow(r.UsedMemory, r.MaxMemory) && r.UsedMemory < r.MaxMemory {
		r.add(Warning, "raise maxmemory there, or see what fills it: redis-cli --bigkeys", "uses %d %% of its maxmemory: when it is full, it takes no new locks", 100*r.UsedMemory/r.MaxMemory)
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

// copyNoteShown is for how long a note counts that a learner has of a copy. Another redlockd may have a
// longer heartbeat than this one.
const copyNoteShown = 10 * time.Second

// readMembership reads what the master shows of the membership.
func (r *MasterReport) readMembership(ctx context.Context, o member.Options) {
	f := &r.shown
	err := survey.Look(ctx, f, o)
	refused, _ := errors.AsType[*conn.RefusedError](err)
	switch {
	case refused != nil:
		r.add(NoVote, "", "%s", refused.Reason)
	case err != nil && r.Votes(): // else the reason was found when the commands were tried
		r.broken(ctx, err, o, "its membership could not be read")
	}
	if !f.State.Fresh {
		r.MembersVersion = f.State.Record.Version
	}
	r.New = f.State.Fresh && f.Before == nil
}

// compareMembership says what the master is in base, which is the record in force where force is not
// nil.
func (r *MasterReport) compareMembership(s *member.Survey, f *member.Report, force, base *member.Record) {
	if r.Member == "none" {
		if base != nil && f.Foreign(base) {
			why, fix := base.WhyNoVote(nil, f.State)
			r.add(Warning, fix, "%s, and the membership has no seat for it: it has no vote", why)
			return
		}
		r.add(Warning, "take it out of the settings, or run redlockd members add", "the settings name it, and the membership has no seat for it: it has no vote")
		return
	}
	if f.State.Memory == "" {
		return
	}
	r.Member = "forgotten"
	if r.New {
		r.Member = "new"
	}
	if base == nil {
		return
	}
	seat := base.SeatNamed(r.Seat)
	why, fix := base.WhyNoVote(seat, f.State)
	switch {
	case seat.State == member.Leaving:
		r.Member = "leaving"
		r.add(Note, fix, "%s", why)
	case f.Foreign(base):
		r.Member = "foreign"
		r.add(NoVote, fix, "%s", why)
	case force == nil && f.Record != nil:
		r.Member = "alone"
		r.addAlone(s, f.Record)
	case force == nil:
	case force.Lists(f.State.Memory) != nil && !f.State.Fresh:
		r.Member = string(force.Lists(f.State.Memory).State)
		r.New = force.IsNew()
		if f.State.Record != force.ID() || f.State.Child != "" { //mutant:check-counts-who-is-behind
			r.Member = "behind"
			r.add(Note, "", "shows another version of the membership than the one in force: it votes when a redlockd that runs has told it")
		}
		if r.Member == "learner" && !r.New {
			copied := ""
			if n, ok := f.Copying(copyNoteShown); ok {
				copied = fmt.Sprintf(" (%d locks so far, %d %%, from %s)", n.Given, n.Done, strings.ReplaceAll(n.From, ",", ", "))
			}
			if why == "" {
				why = "is a learner: it may have forgotten locks"
			}
			r.add(Note, "", "%s; it votes when a redlockd has given it what the others remember%s, or %s after it was listed",
				why, copied, clock.Text(force.Wait.Round(time.Millisecond)))
		}
	default:
		r.add(Note, "", "%s; it votes when a redlockd has found it and given it what the others remember, or %s later", why, clock.Text(force.Wait))
	}
	if force != nil && !s.Unfinished(force) && slices.Contains(s.Strays(force), f) {
		r.add(Warning, "see who writes to it; a redlockd has it start anew", "shows version %d of the membership, and a majority of the masters does not know it", r.MembersVersion)
	}
}

// addAlone says of a master that shows a record which is not in force what became of the others, and
// whether a founding helps.
func (r *MasterReport) addAlone(s *member.Survey, shows *member.Record) {
	same, reached := 0, 0
	for _, f := range s.Reports {
		if f.State.Memory != "" && shows.SeatOf(f.Master) != nil && !f.Foreign(shows) {
			reached++
			if f.Shows(shows) || f.Record != nil && shows.Lists(f.State.Memory) != nil {
				same++
			}
		}
	}
	severity, fix := Warning, "nothing: a redlockd that runs founds the membership anew"
	heard := make(member.HeardAt)
	heard.Shown(s, shows)
	if left, who := heard.MayComeBack(s, shows, false, shows.Wait); left > 0 {
		fix = fmt.Sprintf("nothing, if %s may come back: a redlockd that runs waits for that, for up to %v, and founds the membership anew then; else redlockd members refound", who, left.Round(time.Second))
	}
	if reached < shows.Quorum() {
		severity, fix = NoVote, "start the masters that cannot be reached; if their machines are lost for good, see redlockd members --help; if that fleet is given up, run FLUSHALL on this master"
	}
	r.add(severity, fix, "its membership is not in force: %d of its %d masters can be reached, %d of them remember it, and %d are needed (%s)",
		reached, len(shows.Seats), same, shows.Quorum(), member.SeatNames(shows))
}

// tryCommands finds the permissions that are missing by using them: ACL DRYRUN would ask for one
// permission more, and is unknown to Redis 6.
func (r *MasterReport) tryCommands(ctx context.Context, o member.Options) {
	key := lua.ReservedPrefix + "probe:" + member.Nonce()
	for _, template := range commandsNeeded {
		args := make([]any, len(template))
		for i, a := range template {
			if a == any(probeKey) {
				a = key
			}
			args[i] = a
		}
		err := r.shown.Conn.Redis.Process(ctx, redis.NewCmd(ctx, args...))
		if err == nil || errors.Is(err, redis.Nil) || conn.IsNoScript(err) || conn.IsWrongType(err) {
			continue
		}
		if !conn.Replied(err) {
			r.broken(ctx, err, o, "broke off while its permissions were tried")
			return
		}
		r.refused(commandName(args), err)
	}
}

// broken says what became of a question that was not answered.
func (r *MasterReport) broken(ctx context.Context, err error, o member.Options, what string) {
	if ctx.Err() != nil {
		r.unreachable(ctx, err, o.ConnectTimeout)
		return
	}
	r.add(NoVote, "see its log, and what lies between it and this machine", "%s: %v", what, err)
}

func (r *MasterReport) tryCommandsForOthers(ctx context.Context, o member.Options) {
	for _, args := range commandsForOthers {
		err := r.shown.Conn.Redis.Process(ctx, redis.NewCmd(ctx, args...))
		switch {
		case err != nil && !conn.Replied(err):
			if r.Votes() { // else that has been said
				r.broken(ctx, err, o, "broke off while its permissions were tried")
			}
			return
		case err == nil || !conn.HasCode(err, "NOPERM"): // an older server does not know them
			continue
		}
		command := commandName(args)
		r.add(Warning, permit(command), "its ACL does not allow %s, so who waits for a lock, and other redlockds, are told late: %s", command, err)
		r.Lacks = append(r.Lacks, command)
	}
}

// permit is how to give the user the right to a command.
func permit(command string) string {
	fix := "give the user this permission: redis-cli ACL SETUSER <user> +" + strings.ToLower(strings.ReplaceAll(command, " ", "|"))
	if command == "PUBLISH" || command == "SUBSCRIBE" {
		fix += " allchannels"
	}
	return fix
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

package admin

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"redlockd/redlock/conn"
	"redlockd/redlock/member"
	"redlockd/redlock/member/survey"
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
// commandsNeeded (permission.go).

const (
	// probeSamples round trips are made, with a pause before each. The shortest shows the clock. The
	// longest shows a master that is slow now and then.
	probeSamples = 5
	probePause   = 200 * time.Millisecond
)

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

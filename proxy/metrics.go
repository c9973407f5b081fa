package proxy

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"redlockd/proxy/status"
	"redlockd/redlock"
)

// The metrics that Prometheus scrapes from /metrics (package status). Nothing is counted for them: a
// scrape reads the counters that INFO shows, so that a server which nobody scrapes does no work for it.
//
// No metric has a label that clients could multiply: no resource, no token, no address of a client.
// Labels are masters, users and prefixes of resources, of which the configuration has a number,
// commands and codes of this package's tables, and words of this file.
//
// To add a metric: give it a row in metricTable, which INFO reads, too. Names follow Prometheus's
// "Metric and label naming": a counter ends in _total, a unit (seconds, bytes) stands in the name. A
// name is never changed without docker/helm/alerts.yaml and the dashboard; a test compares the names
// there with the table.
//
// Rejected: counters of the Prometheus library in place of our own. INFO shows the same numbers, and a
// program cannot simply read such a counter back.

// reading is what one scrape has read, so that all its metrics are of one time.
type reading struct {
	*status.Reading
	srv *Server
	// front has the server's own counters, since its start.
	front totals
}

// emit gives the value of a metric, for these values of its labels, in the order of its description.
type emit func(value float64, labels ...string)

// metric is one row of the table below.
type metric struct {
	desc *prometheus.Desc // nil: it is in INFO alone
	kind prometheus.ValueType
	// section and field are the names of the number in INFO; empty: it is not there. Where the metric has
	// a label, each of its values has a field, the name of which begins with field.
	section, field string
	// text is the value of a field that is no number, and has no metric; nil: it is one.
	text func(r *reading) string
	// read calls emit once for each combination of labels. Scrapes run at the same time: read must not
	// change anything.
	read func(r *reading, emit emit)
}

// newMetric makes a row. name is what stands behind redlockd_ in the metric's name. The functions below
// make the common kinds of rows, those without labels first.
func newMetric(kind prometheus.ValueType, name, help string, labels []string, read func(r *reading, emit emit)) metric {
	return metric{desc: prometheus.NewDesc("redlockd_"+name, help, labels, nil), kind: kind, read: read}
}

// in gives a row its names in INFO.
func (m metric) in(section, field string) metric {
	m.section, m.field = section, field
	return m
}

// fieldOnly is a row of INFO alone.
func fieldOnly(section, field string, read func(r *reading) uint64) metric {
	return metric{section: section, field: field, read: func(r *reading, emit emit) { emit(float64(read(r))) }}
}

// counter is a number that only grows while the process runs.
func counter(name, help string, read func(r *reading) uint64) metric {
	return newMetric(prometheus.CounterValue, name, help, nil, func(r *reading, emit emit) { emit(float64(read(r))) })
}

// counted is a counter of the server itself, by its counterID.
func counted(name, help string, id counterID) metric {
	return counter(name, help, func(r *reading) uint64 { return r.front[id] })
}

// gauge is a number that rises and falls.
func gauge[N int | int64 | float64](name, help string, read func(r *reading) N) metric {
	return newMetric(prometheus.GaugeValue, name, help, nil, func(r *reading, emit emit) { emit(float64(read(r))) })
}

// ofOutcomes is the counter of all outcomes of one name.
func ofOutcomes(name, help string) metric {
	return newMetric(prometheus.CounterValue, name+"_total", help, []string{"outcome"}, func(r *reading, emit emit) {
		for _, o := range status.Outcomes {
			if o.Name == name {
				emit(float64(o.Count(&r.Locks)), o.Label)
			}
		}
	}).in("Locks", name+"_")
}

// ofMasters has a value for each master, with its address as the label.
func ofMasters(kind prometheus.ValueType, name, help string, read func(m *redlock.MasterStatus) float64) metric {
	return newMetric(kind, "master_"+name, help, []string{"master"}, func(r *reading, emit emit) {
		for i := range r.Masters {
			emit(read(&r.Masters[i]), r.Masters[i].Addr)
		}
	})
}

// ofConnected is ofMasters for those that are connected: the last value of others would look new.
func ofConnected(name, help string, read func(m *redlock.MasterStatus) float64) metric {
	return newMetric(prometheus.GaugeValue, "master_"+name, help, []string{"master"}, func(r *reading, emit emit) {
		for i := range r.Masters {
			if m := &r.Masters[i]; m.Connected {
				emit(read(m), m.Addr)
			}
		}
	})
}

// ofLearners has a value for each master that gets every command and has no vote yet, with its address
// as the label. Where there is none, the metric is there and has no value.
func ofLearners(name, help string, read func(c redlock.Copying) float64) metric {
	return newMetric(prometheus.GaugeValue, "learner_"+name, help, []string{"master"}, func(r *reading, emit emit) {
		for _, s := range status.Learners(r.Membership) {
			emit(read(status.CopyingOf(s)), status.MasterOf(s))
		}
	})
}

// masterStates are the states of a master, the good one first.
var masterStates = []redlock.MasterState{redlock.MasterUp, redlock.MasterQuarantined, redlock.MasterDoubted, redlock.MasterRefused, redlock.MasterDown}

// metricTable has all metrics but the histograms, which are not one number (histogramTable).
var metricTable = []metric{
	// The server as a whole.
	newMetric(prometheus.GaugeValue, "build_info", "1, with the version of this redlockd, the compiler, and the revision of the source where the compiler knew it.",
		[]string{"version", "goversion", "revision"}, func(r *reading, emit emit) { emit(1, r.Version, runtime.Version(), revision()) }),
	gauge("ready", "1 if a quorum of masters has a vote, not all LOCKs of the last 5 s and more have ended without a quorum, and this server is not draining, else 0.",
		func(r *reading) int64 { return oneIf(r.Ready() == nil) }),
	gauge("draining", "1 while this server is stopping: it grants no new locks, or will not in a moment (drain_delay).",
		func(r *reading) int64 { return oneIf(r.Leaving || r.Draining) }),

	newMetric(prometheus.GaugeValue, "certificate_expiration_timestamp_seconds", "When a TLS certificate in use ends, in seconds since 1970.", []string{"file"},
		func(r *reading, emit emit) {
			for _, c := range r.Certificates {
				emit(float64(c.NotAfter.Unix()), c.File)
			}
		}),

	// Masters. The rows in INFO are in its order.
	gauge("masters", "Masters of the membership, or of the configuration as long as none is known.",
		func(r *reading) int { return len(r.Masters) }).in("Masters", "masters"),
	gauge("masters_voting", "Masters that are up, so that their votes count.",
		func(r *reading) int { return status.Voting(r.Masters) }).in("Masters", "masters_up"),
	{section: "Masters", field: "masters_", read: func(r *reading, emit emit) {
		for _, state := range masterStates[1:] {
			emit(float64(status.CountState(r.Masters, state)), string(state))
		}
	}},
	gauge("quorum", "Votes that a lock needs.", func(r *reading) int { return status.Quorum(r.Masters) }).in("Masters", "quorum"),
	gauge("membership_version", "Version of the membership: it grows with each change.",
		func(r *reading) int64 { return r.Membership.Version }).in("Masters", "membership_version"),
	{section: "Masters", field: "membership_lineage", text: func(r *reading) string { return r.Membership.Lineage }},
	gauge("membership_voters", "Masters that have a vote in the membership, whether they can be reached or not.",
		func(r *reading) int { return r.Membership.Voters() }).in("Masters", "membership_voters"),
	gauge("membership_learners", "Masters that get every command and have no vote yet.",
		func(r *reading) int { return len(status.Learners(r.Membership)) }).in("Masters", "membership_learners"),
	fieldOnly("Masters", "membership_max_ttl_ms", func(r *reading) uint64 { return uint64(r.Membership.MaxTTL.Milliseconds()) }),
	fieldOnly("Masters", "membership_ceiling_ms", func(r *reading) uint64 { return uint64(r.Membership.Ceiling.Milliseconds()) }),
	gauge("membership_wait_seconds", "How long a master has no vote that may have forgotten locks.",
		func(r *reading) float64 { return r.Membership.Wait.Seconds() }).in("Masters", "membership_wait_s"),
	gauge("membership_wait_left_seconds", "What is left until the wait falls to what the ceiling needs; 0: it has.",
		func(r *reading) float64 { return r.Membership.WaitLeft.Seconds() }).in("Masters", "membership_wait_left_s"),
	ofLearners("copying", "1 if the master is being given what the others remember, so that it votes when that is done. 0: it votes when its wait is over, and INFO masters says why.",
		func(c redlock.Copying) float64 { return float64(oneIf(c.From != "")) }),
	ofLearners("copied_locks", "Locks that the master was given so far.", func(c redlock.Copying) float64 { return float64(c.Given) }),
	ofLearners("copied_ratio", "How much was looked at of what the others remember, from 0 to 1.", func(c redlock.Copying) float64 { return float64(c.Percent) / 100 }),
	gauge("membership_ceiling_seconds", "The longest TTL that may run: a lock above it raises it, up to max_ttl.",
		func(r *reading) float64 { return r.Membership.Ceiling.Seconds() }),
	gauge("membership_max_ttl_seconds", "The longest TTL that may be asked for.", func(r *reading) float64 { return r.Membership.MaxTTL.Seconds() }),
	gauge("membership_problem", "1 if something is known against the membership, else 0: INFO masters and redlockd members say what.",
		func(r *reading) int64 { return oneIf(r.Membership.Problem != "") }),
	gauge("membership_differs", "1 if masters or max_ttl of the settings differ from the membership, else 0.",
		func(r *reading) int64 { return oneIf(r.Membership.Differences != "") }),
	newMetric(prometheus.GaugeValue, "master_state", "1 for the state that the master is in: up, quarantined, doubted, refused or down.", []string{"master", "state"},
		func(r *reading, emit emit) {
			for _, m := range r.Masters { // with 0 or 1 for each state, so that an alert sees a state end
				for _, state := range masterStates {
					emit(float64(oneIf(m.State == state)), m.Addr, string(state))
				}
			}
		}),
	ofMasters(prometheus.GaugeValue, "quarantine_left_seconds", "What is left of the wait until the master votes, or of the doubt of its clock.",
		func(m *redlock.MasterStatus) float64 { return m.Left.Seconds() }),
	ofConnected("round_trip_seconds", "Round trip of the last batch of commands, of masters that are connected.",
		func(m *redlock.MasterStatus) float64 { return m.RTT.Seconds() }),
	ofConnected("clock_offset_seconds", "How far the clock of the master was ahead of this machine's at the last heartbeat (negative: behind), of masters that are connected.",
		func(m *redlock.MasterStatus) float64 { return m.ClockOffset.Seconds() }),
	ofConnected("memory_used_bytes", "Memory that the master used at the last heartbeat, of masters that are connected.",
		func(m *redlock.MasterStatus) float64 { return float64(m.UsedMemory) }),
	ofConnected("memory_max_bytes", "maxmemory of the master; 0: nothing limits it. At the limit it takes no new locks.",
		func(m *redlock.MasterStatus) float64 { return float64(m.MaxMemory) }),
	ofMasters(prometheus.GaugeValue, "queued", "Operations that wait for the next batch.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Queued) }),
	ofMasters(prometheus.GaugeValue, "pending_releases", "Releases to deliver when the master is back.",
		func(m *redlock.MasterStatus) float64 { return float64(m.PendingReleases) }),
	ofMasters(prometheus.CounterValue, "batches_total", "Batches of commands that were sent.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Batches) }),
	ofMasters(prometheus.CounterValue, "operations_total", "Operations in these batches.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Ops) }),
	ofMasters(prometheus.CounterValue, "timeouts_total", "Batches without an answer within master.timeout.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Timeouts) }),
	ofMasters(prometheus.CounterValue, "shed_total", "Acquisitions that were not sent because 16384 were waiting.",
		func(m *redlock.MasterStatus) float64 { return float64(m.Shed) }),

	// Locks. "Their like" are the Redis commands and scripts by which libraries lock (dropin.go). The
	// rows are in the order of INFO.
	ofOutcomes("locks", "LOCKs and their like by outcome; one that waited counts once."),
	counter("lock_attempts_total", "Acquisition rounds, retries of waiters included.", func(r *reading) uint64 { return r.Locks.Attempts }).in("Locks", "locks_attempts"),
	counter("locks_undelivered_total", "Locks that were released again because their client had gone before the reply.",
		func(r *reading) uint64 { return r.srv.counters[countRepliesLost].Load() }).in("Locks", "locks_undelivered"),
	ofOutcomes("unlocks", "UNLOCKs and their like by outcome."),
	counter("forced_total", "Resources that were released by UNLOCK … FORCE through this redlockd.", func(r *reading) uint64 { return r.Locks.Forced }).in("Locks", "unlocks_forced"),
	ofOutcomes("extends", "EXTENDs and their like by outcome."),
	counter("handovers_total", "Releases that were passed on to the next waiter in the same batch.", func(r *reading) uint64 { return r.Locks.Handovers }).in("Locks", "handovers"),
	counter("wakeups_total", "Pauses of waiters that ended because the masters sent invalidations: another client may have released the resource.",
		func(r *reading) uint64 { return r.Locks.Wakeups }).in("Locks", "wakeups"),
	gauge("leases", "Locks granted here that still run.", func(r *reading) int { return r.Locks.Leases }).in("Locks", "leases"),
	gauge("longest_hold_seconds", "How long ago the lock was first granted that is held for longest, of those granted here that still run; 0: none.",
		func(r *reading) float64 { return r.Locks.LongestHold.Seconds() }),
	gauge("max_hold_seconds", "How long locks.max_hold allows a lock to be extended.",
		func(r *reading) float64 { return r.srv.opts.Engine.Options().MaxHold.Seconds() }),
	counter("leases_lost_total", "Leases that so many masters had forgotten before their validity ended that no majority had them. Not those that were released or taken over elsewhere.",
		func(r *reading) uint64 { return r.Locks.Lost }).in("Locks", "leases_lost"),
	gauge("bound", "Locks that are renewed for connections (HOLD).", func(r *reading) int { return r.Locks.Bound }).in("Locks", "bound"),
	gauge("bound_max", "Locks that locks.max_bound allows to be renewed for connections.", func(r *reading) int { return r.srv.opts.Engine.Options().MaxBound }),
	counter("bound_lost_total", "Locks under HOLD that were lost.", func(r *reading) uint64 { return r.Locks.HeldLost }).in("Locks", "bound_lost"),
	gauge("waiters", "LOCKs that wait.", func(r *reading) int { return r.Locks.Waiters }).in("Locks", "waiters"),
	gauge("waiters_max", "LOCKs that locks.max_waiters allows to wait.", func(r *reading) int { return r.MaxWaiters }),
	gauge("longest_wait_seconds", "For how long the LOCK waits that waits for longest; 0: none waits.",
		func(r *reading) float64 { return redlock.LongestWait(r.srv.opts.Engine).Seconds() }),
	gauge("max_wait_seconds", "How long locks.max_wait allows a LOCK to wait.",
		func(r *reading) float64 { return r.srv.opts.Engine.Options().MaxWait.Seconds() }),
	gauge("deferred", "Operations that have not begun because the masters have as much to do as they can answer in time.",
		func(r *reading) int { return r.Locks.Deferred }).in("Locks", "deferred"),

	// What INFO counts from CONFIG RESETSTAT on, in its order.
	counted("connections_total", "Connections that were accepted.", countConnections).in("Stats", "total_connections_received"),
	counted("commands_total", "Commands that were executed.", countCommands).in("Stats", "total_commands_processed"),
	fieldOnly("Stats", "instantaneous_ops_per_sec", func(r *reading) uint64 {
		return r.srv.stats.commandsPerSecond(r.srv.counters[countCommands].Load(), time.Now())
	}),
	counted("received_bytes_total", "Bytes from clients.", countBytesIn).in("Stats", "total_net_input_bytes"),
	counted("sent_bytes_total", "Bytes to clients.", countBytesOut).in("Stats", "total_net_output_bytes"),
	counted("connections_rejected_total", "Connections that were refused because of server.max_clients.", countRejected).in("Stats", "rejected_connections"),
	fieldOnly("Stats", "evicted_clients", func(r *reading) uint64 { return r.front[countEvicted] }),
	fieldOnly("Stats", "client_output_buffer_limit_disconnections", func(r *reading) uint64 { return r.front[countOutputLimited] }),
	newMetric(prometheus.CounterValue, "slow_clients_closed_total", "Clients that were closed because they read too slowly, by the setting that bounds what waits for them.", []string{"limit"},
		func(r *reading, emit emit) {
			emit(float64(r.front[countOutputLimited]), "output_max")
			emit(float64(r.front[countEvicted]), "output_total")
		}),
	counted("protocol_errors_total", "Connections that were ended because what came was no command.", countProtocolErrors).in("Stats", "protocol_errors"),
	counted("logins_failed_total", "AUTH and HELLO with a wrong name or password.", countLoginsFailed).in("Stats", "acl_access_denied_auth"),
	fieldOnly("Stats", "total_error_replies", func(r *reading) uint64 { return r.front[countErrors] }),
	counter("audit_records_total", "Records of the audit that were written.", func(r *reading) uint64 { n, _ := r.srv.audit.counts(); return n }).in("Stats", "audit_records"),
	counter("audit_dropped_total", "Records of the audit that were dropped because they could not be written in time.",
		func(r *reading) uint64 { _, n := r.srv.audit.counts(); return n }).in("Stats", "audit_dropped"),

	// Clients. A gauge stands beside its bound, so that an alert needs no number of its own.
	gauge("clients", "Connections of clients.", func(r *reading) int { return r.Clients }),
	gauge("clients_max", "Connections that server.max_clients allows.", func(r *reading) int { return r.MaxClients }),
	gauge("output_bytes", "What is kept for clients: replies and messages that wait, commands in flight or in part, transactions, subscriptions.", func(r *reading) int64 { return r.srv.output.Load() }),
	gauge("output_bytes_max", "What server.output_total allows of it.", func(r *reading) int { return r.srv.live().OutputTotal }),
	newMetric(prometheus.CounterValue, "error_replies_total", "Commands that were answered with an error, by its code; other: a code that a script has made up.", []string{"code"},
		func(r *reading, emit emit) {
			for code, n := range r.srv.stats.codesEver() {
				emit(float64(n), code)
			}
		}),
	newMetric(prometheus.CounterValue, "refused_commands_total", "Commands that were refused because this endpoint does not do what they ask or because of the limits of a TTL, and those that made a script be refused, by name and by what they asked for or lacked.", []string{"command", "reason"},
		func(r *reading, emit emit) {
			counts, _ := r.srv.stats.refusals()
			for kind, n := range counts {
				emit(float64(n), kind.command, string(kind.reason))
			}
		}),
	counted("tls_handshakes_failed_total", "TLS handshakes that were begun and failed.", countHandshakesFailed),
	// Users, where any are configured.
	ofUsers("user_clients", "Connections that are logged in as the user.",
		func(_ *reading, a *account) int64 { return a.connections.Load() }),
	ofUsers("user_clients_max", "Connections that the user may have; 0: as many as the server takes.",
		func(r *reading, a *account) int { return r.srv.live().maxConnections(a.user()) }),
	ofUsers("user_output_bytes", "What is kept for the user's clients, as in redlockd_output_bytes.",
		func(_ *reading, a *account) int64 { return a.output.Load() }),
	ofUsers("user_locks", "Resources that the user has locked through this server.",
		func(r *reading, a *account) int { return r.srv.opts.Engine.Usage(a.share).Locks }),
	ofUsers("user_memory_bytes", "Memory of each master that these locks take, an estimate.",
		func(r *reading, a *account) int { return r.srv.opts.Engine.Usage(a.share).Memory }),
	ofUsers("user_memory_max_bytes", "How much of it they may take; 0: there is no limit.",
		func(r *reading, a *account) int { return r.srv.maxMemory(a.user()) }),
	ofUsers("user_waiters", "LOCKs of the user that wait.",
		func(r *reading, a *account) int { return r.srv.opts.Engine.Usage(a.share).Waiters }),
	newMetric(prometheus.CounterValue, "user_refused_total", "What was refused because of a limit of the user, by the setting.", []string{"user", "limit"},
		func(r *reading, emit emit) {
			for _, a := range r.srv.live().accounts {
				emit(float64(a.refused.connections.Load()), a.user().Name, "max_connections")
				emit(float64(a.refused.locks.Load()), a.user().Name, "max_locks")
				emit(float64(a.refused.memory.Load()), a.user().Name, "max_memory")
				emit(float64(a.refused.waiters.Load()), a.user().Name, "max_waiters")
				emit(float64(a.refused.ttls.Load()), a.user().Name, "max_ttl")
			}
		}),
	newMetric(prometheus.CounterValue, "policy_refused_total", "What was refused because of a policy, by the setting.", []string{"prefix", "limit"},
		func(r *reading, emit emit) {
			for _, p := range r.srv.live().policies {
				emit(float64(p.refused.ttls.Load()), p.Prefix, "max_ttl")
				emit(float64(p.refused.waits.Load()), p.Prefix, "max_wait")
				emit(float64(p.refused.waiters.Load()), p.Prefix, "max_waiters")
				emit(float64(p.refused.holds.Load()), p.Prefix, "max_hold")
				emit(float64(p.refused.fences.Load()), p.Prefix, "fence")
			}
		}),
	newMetric(prometheus.GaugeValue, "policy_waiters", "LOCKs that wait for resources of the policy.", []string{"prefix"},
		func(r *reading, emit emit) {
			for _, p := range r.srv.live().policies {
				emit(float64(r.srv.opts.Engine.Usage(p.waiters()).Waiters), p.Prefix)
			}
		}),
}

// ofUsers has a value for each user, with its name as the label. Without users the metric is there and
// has no value.
func ofUsers[N int | int64](name, help string, read func(r *reading, a *account) N) metric {
	return newMetric(prometheus.GaugeValue, name, help, []string{"user"}, func(r *reading, emit emit) {
		for _, a := range r.srv.live().accounts {
			emit(float64(read(r, a)), a.user().Name)
		}
	})
}

// histogram is one row of histogramTable.
type histogram struct {
	desc *prometheus.Desc
	// read calls emit once for each value of the label, if there is one.
	read func(n *redlock.Stats, emit func(h buckets, label ...string))
}

// buckets is what the engine has counted: how many were at most max(i), and above max(i-1). The last
// bucket has no bound.
type buckets struct {
	counts []uint64
	max    func(i int) float64
	sum    float64
}

func bucketsOfTimes(t *redlock.Times) buckets {
	return buckets{t.Buckets[:], func(i int) float64 { return t.BucketMax(i).Seconds() }, t.Sum.Seconds()}
}

func bucketsOfCounts(c *redlock.Counts) buckets {
	return buckets{c.Buckets[:], func(i int) float64 { return float64(c.BucketMax(i)) }, float64(c.Sum)}
}

// ofPrefixes is a histogram for each prefix of metrics.prefixes, and for other.
func ofPrefixes(name, help string, read func(p *redlock.PrefixStats) buckets) histogram {
	return histogram{prometheus.NewDesc("redlockd_"+name, help, []string{"prefix"}, nil), func(n *redlock.Stats, emit func(h buckets, label ...string)) {
		for i := range n.ByPrefix {
			emit(read(&n.ByPrefix[i]), n.ByPrefix[i].Prefix)
		}
	}}
}

// histogramTable has the histograms. Their buckets are the engine's own, but where two of these are
// one.
var histogramTable = []histogram{
	{prometheus.NewDesc("redlockd_lock_round_seconds", "How long acquisition rounds took, from the first byte to the decision.", nil, nil),
		func(n *redlock.Stats, emit func(h buckets, label ...string)) {
			emit(bucketsOfTimes(&n.Rounds).upTo(roundsBuckets))
		}},
	ofPrefixes("lock_wait_seconds", "How long LOCKs and their like took that were granted, waits included, by prefix of the resource (metrics.prefixes).",
		func(p *redlock.PrefixStats) buckets { return bucketsOfTimes(&p.Wait).halved() }),
	ofPrefixes("lock_hold_seconds", "How long locks were held whose end this server has seen, by prefix of the resource (metrics.prefixes).",
		func(p *redlock.PrefixStats) buckets { return bucketsOfTimes(&p.Hold).halved() }),
	ofPrefixes("lock_rounds", "Rounds of acquisition per lock that was granted, by prefix of the resource (metrics.prefixes).",
		func(p *redlock.PrefixStats) buckets { return bucketsOfCounts(&p.Rounds) }),
}

// roundTrips is the one native histogram: a Prometheus that takes these has one series for each master, and
// any other gets the sum and the count. Its name differs from that of the gauge of the last round trip,
// which is older.
var roundTrips = prometheus.NewDesc("redlockd_master_batch_seconds",
	"How long the master took to answer batches of commands and heartbeats: a native histogram, of which the text format has the sum and the count alone.", []string{"master"}, nil)

// nativeHistogram makes a native histogram of Prometheus of the round trips. The first bucket is its zero
// bucket, because how fast the fastest were is all the same.
func nativeHistogram(t *redlock.RoundTrips, since time.Time) prometheus.Metric {
	counts := make(map[int]int64)
	for i, n := range t.Buckets[1:] {
		if n > 0 {
			counts[i+1+redlock.RoundTripsFirst] = int64(n)
		}
	}
	return prometheus.MustNewConstNativeHistogram(roundTrips, t.Count, t.Sum.Seconds(), counts, nil, t.Buckets[0],
		redlock.RoundTripsSchema, t.BucketMax(0), since, t.Addr)
}

// roundsBuckets is how many buckets the histogram of rounds has: up to 4 s. A round takes
// master.timeout at most, mostly.
const roundsBuckets = 18

// upTo puts all from the n-th bucket on into the n-th one.
func (b buckets) upTo(n int) buckets {
	counts := slices.Clone(b.counts[:n])
	for _, more := range b.counts[n:] {
		counts[n-1] += more
	}
	b.counts = counts
	return b
}

// halved makes one bucket of each two, so that the bounds are four times as far apart: each prefix has
// two such histograms.
func (b buckets) halved() buckets {
	var counts []uint64
	for i := 0; i < len(b.counts); i += 2 {
		counts = append(counts, b.counts[i]+b.counts[i+1])
	}
	whole := b.max
	b.counts, b.max = counts, func(i int) float64 { return whole(2*i + 1) }
	return b
}

// metric makes a histogram of Prometheus, which counts everything up to each bound.
func (b buckets) metric(desc *prometheus.Desc, label ...string) prometheus.Metric {
	upTo, count := make(map[float64]uint64), uint64(0)
	for i, n := range b.counts {
		count += n
		if i < len(b.counts)-1 {
			upTo[b.max(i)] = count
		}
	}
	return prometheus.MustNewConstHistogram(desc, count, b.sum, upTo, label...)
}

// revision is the commit that this program was built from, + if files differed; "": not known.
var revision = sync.OnceValue(func() string {
	var commit, changed string
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				changed = "+"
			}
		}
	}
	return commit + changed
})

// reading reads all that one scrape shows. It takes each mutex once, and never waits for a master.
func (srv *Server) reading() *reading {
	engine, n := srv.opts.Engine, srv.totals()
	var certificates []Certificate
	if list := srv.opts.Certificates; list != nil {
		certificates = list()
	}
	written, dropped := srv.audit.counts()
	return &reading{srv: srv, front: n, Reading: &status.Reading{
		Version: srv.opts.Version, Embedded: srv.opts.Embedded, Name: srv.fleet.Name(), Certificates: certificates,
		Audit: status.Audit{On: srv.audit.on.Load(), Locks: srv.audit.locks.Load(), Written: written, Dropped: dropped},
		Up:    time.Since(srv.started), Leaving: srv.leaving.Load(), Draining: srv.draining.Load(),
		Masters: engine.Masters(), Membership: engine.Membership(), Locks: engine.Stats(),
		MaxWaiters: engine.Options().MaxWaiters, Clients: srv.Clients(), MaxClients: srv.live().MaxClients,
		RepliesLost: n[countRepliesLost], Commands: n[countCommands], Errors: n[countErrors],
	}}
}

// Describe implements prometheus.Collector. It is called once, when the registry is made.
func (srv *Server) Describe(descs chan<- *prometheus.Desc) {
	for i := range metricTable {
		if metricTable[i].desc != nil {
			descs <- metricTable[i].desc
		}
	}
	for i := range histogramTable {
		descs <- histogramTable[i].desc
	}
	descs <- roundTrips
}

// Collect implements prometheus.Collector. It is called for each scrape, up to scrapesMax at the same
// time.
func (srv *Server) Collect(out chan<- prometheus.Metric) {
	r := srv.reading()
	for i := range metricTable {
		if m := &metricTable[i]; m.desc != nil {
			m.read(r, func(value float64, labels ...string) {
				out <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
			})
		}
	}
	for _, h := range histogramTable {
		h.read(&r.Locks, func(b buckets, label ...string) { out <- b.metric(h.desc, label...) })
	}
	for _, t := range redlock.RoundTripsOf(srv.opts.Engine) {
		out <- nativeHistogram(&t, srv.started)
	}
}

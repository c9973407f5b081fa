package memmaster

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"redlockd/redlock/resp"
)

// version decides which commands redlockd tries; see Options.IFEQ.
func (m *Master) version() string {
	if m.options.IFEQ {
		return "8.4.0"
	}
	return "7.0.15"
}

// cmdTIME tells the time at which the command, or the script around it, began.
func cmdTIME(c *client, args [][]byte) {
	us := c.m.unixNano / 1000
	c.array(2)
	c.texts(strconv.FormatInt(us/1e6, 10), strconv.FormatInt(us%1e6, 10))
}

// cmdREPLICAOF makes the master a replica whose link never comes up: it keeps its data and refuses
// writes, until REPLICAOF NO ONE.
func cmdREPLICAOF(c *client, args [][]byte) {
	if is(args[1], "NO") && is(args[2], "ONE") {
		c.m.replicaOf = nil
		c.ok()
		return
	}
	if _, ok := resp.ParseInt(args[2]); !ok {
		c.fail(errNotInt)
		return
	}
	c.m.replicaOf = []string{string(args[1]), string(args[2])}
	c.ok()
}

// infoSections are the sections of INFO in their order.
var infoSections = []struct {
	name  string
	write func(m *Master, b *strings.Builder)
}{
	{"Server", infoServer},
	{"Memory", infoMemory},
	{"Stats", func(m *Master, b *strings.Builder) { fmt.Fprintf(b, "evicted_keys:%d\r\n", m.evicted) }},
	{"Replication", infoReplication},
	{"Cluster", func(m *Master, b *strings.Builder) { b.WriteString("cluster_enabled:0\r\n") }},
	{"Keyspace", infoKeyspace},
}

func cmdINFO(c *client, args [][]byte) {
	var b strings.Builder
	for _, s := range infoSections {
		wanted := len(args) == 1
		for _, arg := range args[1:] {
			wanted = wanted || is(arg, s.name) || is(arg, "all") || is(arg, "default") || is(arg, "everything")
		}
		if !wanted {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		fmt.Fprintf(&b, "# %s\r\n", s.name)
		s.write(c.m, &b)
	}
	c.texts(b.String())
}

func infoServer(m *Master, b *strings.Builder) {
	fmt.Fprintf(b, "redis_version:%s\r\nredis_mode:standalone\r\nrun_id:%s\r\n", m.version(), m.runID)
}

// infoMemory is what redlockd refuses a master for that may evict keys.
func infoMemory(m *Master, b *strings.Builder) {
	fmt.Fprintf(b, "maxmemory:%s\r\nmaxmemory_policy:%s\r\n", m.config["maxmemory"], m.config["maxmemory-policy"])
}

// infoReplication is what redlockd refuses a replica for.
func infoReplication(m *Master, b *strings.Builder) {
	if to := m.replicaOf; to != nil {
		fmt.Fprintf(b, "role:slave\r\nmaster_host:%s\r\nmaster_port:%s\r\nmaster_link_status:down\r\nslave_read_only:1\r\n", to[0], to[1])
	} else {
		b.WriteString("role:master\r\nconnected_slaves:0\r\n")
	}
}

// infoKeyspace names the databases that have keys.
func infoKeyspace(m *Master, b *strings.Builder) {
	keys := [2]int{}
	keys[m.data.db], keys[1-m.data.db] = len(m.data.entries), len(m.data.other)
	for db, n := range keys {
		if n > 0 {
			fmt.Fprintf(b, "db%d:keys=%d,expires=0,avg_ttl=0\r\n", db, n)
		}
	}
}

// policies are the values of maxmemory-policy. Nothing is evicted but by Evict: CONFIG SET changes only
// what INFO says, and whether Evict may.
var policies = []string{"volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction"}

// cmdCONFIGSET knows maxmemory, without a unit, and maxmemory-policy. It sets all or none.
func cmdCONFIGSET(c *client, args [][]byte) {
	if len(args)%2 != 0 {
		c.failArity("config|set")
		return
	}
	config := maps.Clone(c.m.config)
	for i := 2; i < len(args); i += 2 {
		name, value, known := strings.ToLower(string(args[i])), strings.ToLower(string(args[i+1])), false
		switch name {
		case "maxmemory":
			_, known = resp.ParseInt(value)
		case "maxmemory-policy":
			known = slices.Contains(policies, value)
		}
		if !known {
			c.fail(fmt.Sprintf("ERR CONFIG SET failed (possibly related to argument '%s')", args[i]))
			return
		}
		config[name] = value
	}
	c.m.config = config
	c.ok()
}

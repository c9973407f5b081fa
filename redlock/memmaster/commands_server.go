package memmaster

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

func (m *Master) version() string {
	if m.options.IFEQ {
		return "8.4.0"
	}
	return "7.0.15"
}

func cmdTIME(c *client, args [][]byte) {
	us := c.m.unixNano / 1000
	c.array(2)
	c.bulkString(strconv.FormatInt(us/1e6, 10))
	c.bulkString(strconv.FormatInt(us%1e6, 10))
}

func cmdROLE(c *client, args [][]byte) {
	if to := c.m.replicaOf; to != nil {
		c.array(5)
		c.texts("slave", to[0])
		port, _ := strconv.ParseInt(to[1], 10, 64)
		c.integer(port)
		c.bulkString("connect")
		c.integer(-1)
		return
	}
	c.array(3)
	c.bulkString("master")
	c.integer(0)
	c.array(0)
}

// cmdREPLICAOF makes the master a replica whose link never comes up: it keeps its data and refuses writes, until
// REPLICAOF NO ONE.
func cmdREPLICAOF(c *client, args [][]byte) {
	if is(args[1], "NO") && is(args[2], "ONE") {
		c.m.replicaOf = nil
		c.ok()
		return
	}
	if _, ok := parseInt(args[2]); !ok {
		c.fail(errNotInt)
		return
	}
	c.m.replicaOf = []string{string(args[1]), string(args[2])}
	c.ok()
}

// cmdWAIT never waits: there are no replicas.
func cmdWAIT(c *client, args [][]byte) {
	_, ok1 := parseInt(args[1])
	timeout, ok2 := parseInt(args[2])
	switch {
	case !ok1:
		c.fail(errNotInt)
	case !ok2:
		c.fail("ERR timeout is not an integer or out of range")
	case timeout < 0:
		c.fail("ERR timeout is negative")
	default:
		c.integer(0)
	}
}

func cmdCLUSTER(c *client, args [][]byte) {
	c.fail("ERR This instance has cluster support disabled")
}

func cmdCOMMAND(c *client, args [][]byte) {
	names := slices.Sorted(maps.Keys(commands))
	c.array(len(names))
	for _, name := range names {
		c.describe(commands[name])
	}
}

func cmdCOMMANDCOUNT(c *client, args [][]byte) { c.integer(int64(len(commands))) }

func cmdCOMMANDDOCS(c *client, args [][]byte) { c.mapping(0) }

func cmdCOMMANDINFO(c *client, args [][]byte) {
	c.array(len(args) - 2)
	for _, name := range args[2:] {
		if cmd := find(commands, name); cmd != nil {
			c.describe(cmd)
		} else {
			c.nullArray()
		}
	}
}

// describe answers the first six fields of COMMAND INFO.
func (c *client) describe(cmd *command) {
	c.array(6)
	c.bulkString(cmd.name)
	c.integer(int64(cmd.arity))
	var flags []string
	for _, f := range []struct {
		flag commandFlags
		name string
	}{{flagWrite, "write"}, {flagRead, "readonly"}, {flagNoScript, "noscript"}, {flagNoAuth, "no_auth"}} {
		if cmd.flags&f.flag != 0 {
			flags = append(flags, f.name)
		}
	}
	c.array(len(flags))
	for _, f := range flags {
		c.status(f)
	}
	c.integer(int64(cmd.keys.first))
	c.integer(int64(cmd.keys.last))
	c.integer(int64(cmd.keys.step))
}

// infoSections are the sections of INFO in their order.
var infoSections = []struct {
	name  string
	write func(m *Master, b *strings.Builder)
}{
	{"Server", infoServer},
	{"Clients", infoClients},
	{"Memory", infoMemory},
	{"Persistence", infoPersistence},
	{"Stats", infoStats},
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
	c.bulkString(b.String())
}

func infoServer(m *Master, b *strings.Builder) {
	// Redis subtracts wall clocks too: after a step of the clock the uptime is wrong.
	uptime := (m.data.now - m.startedAt) / 1000
	fmt.Fprintf(b, "redis_version:%s\r\nredis_mode:standalone\r\nrun_id:%s\r\ntcp_port:%d\r\nuptime_in_seconds:%d\r\nuptime_in_days:%d\r\n",
		m.version(), m.runID, m.port(), uptime, uptime/(24*3600))
}

// port is that of a listener that Serve answers, 0 if there is none.
func (m *Master) port() int {
	for c := range m.served {
		if ln, ok := c.(net.Listener); ok {
			if addr, ok := ln.Addr().(*net.TCPAddr); ok {
				return addr.Port
			}
		}
	}
	return 0
}

func infoClients(m *Master, b *strings.Builder) {
	fmt.Fprintf(b, "connected_clients:%d\r\nblocked_clients:0\r\ntracking_clients:%d\r\n", len(m.clients), m.trackingClients())
}

func (m *Master) trackingClients() (n int) {
	for _, c := range m.clients {
		if c.tracking.on {
			n++
		}
	}
	return n
}

func infoMemory(m *Master, b *strings.Builder) {
	fmt.Fprintf(b, "maxmemory:%s\r\nmaxmemory_policy:%s\r\n", m.config["maxmemory"], m.config["maxmemory-policy"])
}

func infoPersistence(m *Master, b *strings.Builder) {
	enabled := 0
	if m.config["appendonly"] == "yes" {
		enabled = 1
	}
	fmt.Fprintf(b, "loading:0\r\naof_enabled:%d\r\n", enabled)
}

func infoStats(m *Master, b *strings.Builder) {
	fmt.Fprintf(b, "total_connections_received:%d\r\ntotal_commands_processed:%d\r\ntracking_total_keys:%d\r\n",
		m.lastID, m.executed, len(m.tracked))
}

func infoReplication(m *Master, b *strings.Builder) {
	if to := m.replicaOf; to != nil {
		fmt.Fprintf(b, "role:slave\r\nmaster_host:%s\r\nmaster_port:%s\r\nmaster_link_status:down\r\nslave_read_only:1\r\n", to[0], to[1])
	} else {
		b.WriteString("role:master\r\nconnected_slaves:0\r\n")
	}
}

func infoKeyspace(m *Master, b *strings.Builder) {
	for i, d := range m.data.dbs {
		expires := 0
		for _, e := range d.entries {
			if e.expireAt != 0 {
				expires++
			}
		}
		if len(d.entries) > 0 {
			fmt.Fprintf(b, "db%d:keys=%d,expires=%d,avg_ttl=0\r\n", i, len(d.entries), expires)
		}
	}
}

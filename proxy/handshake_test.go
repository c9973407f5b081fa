package proxy

// Goal: client libraries get through their handshakes, in the order in which they send them and as they spell them.
// Method: what each was seen to send, replayed byte by byte, against what it must read to go on. What a library tolerates as
// an error is written as one: it must not become something else unnoticed. Those of Go are in clients_test.go, themselves.

import (
	"strings"
	"testing"

	"redlockd/proxy/access"
)

const (
	hello3 = `\{"server": "redis" "version": "7\.4\.0" "proto": :3 "id": :\d+ "mode": "standalone" "role": "master" "modules": \[\]\}`
	hello2 = `\["server" "redis" "version" "7\.4\.0" "proto" :2 "id" :\d+ "mode" "standalone" "role" "master" "modules" \[\]\]`
	okay   = `\+OK`
	// libraries that know Redis 8 ask for this; those in use take any error for "no"
	noMaintNotifications = `-ERR unknown subcommand '(?i:MAINT_NOTIFICATIONS)'\. Try CLIENT HELP\.`
)

var handshakes = map[string][][2]string{
	"ioredis 6": {
		{"hello 3 AUTH alice wonder", hello3},
		{"select 0", okay},
		{"client setname app", okay},
		{"client SETINFO LIB-VER 6.0.0", okay},
		{"client SETINFO LIB-NAME ioredis", okay},
		{"info", `"txt:# Server\\r\\nredis_version:7\.4\.0\\r\\n.*loading:0\\r\\n.*"`}, // an error here would end the connection
		{"quit", okay},
	},
	"ioredis 5": {
		{"auth alice wonder", okay},
		{"client SETINFO LIB-VER 5.11.0", okay},
		{"client SETINFO LIB-NAME ioredis", okay},
		{"info", `"# Server\\r\\nredis_version:7\.4\.0\\r\\n.*loading:0\\r\\n.*"`},
		{"subscribe x", `\["subscribe" "x" :1\]`},
		{"quit", okay},
	},
	"node-redis 6": {
		{"HELLO 3 AUTH alice wonder SETNAME app", hello3},
		{"SELECT 0", okay},
		{"CLIENT SETINFO LIB-VER 6.3.1", okay},
		{"CLIENT SETINFO LIB-NAME node-redis", okay},
		{"CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type external-ip", noMaintNotifications},
		{"PING", `\+PONG`},
	},
	"redis-py 8": {
		{"HELLO 3 AUTH alice wonder", hello3}, // must be a map
		{"CLIENT MAINT_NOTIFICATIONS ON moving-endpoint-type internal-ip", noMaintNotifications},
		{"CLIENT SETNAME app", okay},
		{"CLIENT SETINFO LIB-NAME redis-py", okay},
		{"CLIENT SETINFO LIB-VER 8.0.0", okay},
		{"SELECT 0", okay},
	},
	"redis-py 8 with its cache": { // which it keeps from version 7.4 on
		{"HELLO 3 AUTH alice wonder", hello3},
		{"CLIENT TRACKING ON", okay},
		{"GET a", "_nil"},
	},
	"redis-py 4": {
		{"AUTH alice wonder", okay},
		{"CLIENT SETNAME app", okay},
		{"SELECT 0", okay},
		{"PING", `\+PONG`},
	},
	"redis-client 0.30 (redlock-rb 2)": {
		{"HELLO 3 AUTH alice wonder", hello3},
		{"SELECT 0", okay},
	},
	"ruby-redis 4": {
		{"auth alice wonder", okay},
		{"select 0", okay},
		{"client setname app", okay},
	},
	"StackExchange.Redis 3": {
		{"AUTH alice wonder", okay},
		{"HELLO 3", hello3},
		{"CLIENT SETNAME app", okay},
		{"CLIENT SETINFO lib-name SE.Redis", okay},
		{"CLIENT SETINFO lib-ver 3.0.0", okay},
		{"CLIENT ID", `:\d+`},
		{"CONFIG GET timeout", `\{"timeout": "0"\}`},
		{"CONFIG GET replica-read-only", `\{"replica-read-only": "yes"\}`},
		{"CONFIG GET databases", `\{"databases": "16"\}`},
		{"SENTINEL MASTERS", `-ERR unknown command 'SENTINEL', with args beginning with: 'MASTERS' `},
		{"INFO replication", `"txt:# Replication\\r\\nrole:master\\r\\n.*"`},
		{"INFO server", `"txt:# Server\\r\\nredis_version:7\.4\.0\\r\\n.*redis_mode:standalone\\r\\n.*"`},
		{"CLUSTER NODES", `-ERR This instance has cluster support disabled`},
		{"GET __Booksleeve_TieBreak", `_nil`},
		{"ECHO \xb2\x1c\x00\xff\x7f012345678\xfe\xfd", `"\\xb2\\x1c\\x00\\xff\\x7f012345678\\xfe\\xfd"`}, // its trace of the handshake
		{"SUBSCRIBE __Booksleeve_MasterChanged", `>\["subscribe" "__Booksleeve_MasterChanged" :1\]`},
		{"PING", `\+PONG`},
	},
	"StackExchange.Redis 2": {
		{"AUTH alice wonder", okay},
		{"CLIENT SETNAME app", okay},
		{"CONFIG GET timeout", `\["timeout" "0"\]`},
		{"CONFIG GET slave-read-only", `\["slave-read-only" "yes"\]`},
		{"CONFIG GET databases", `\["databases" "16"\]`},
		{"ECHO 0123456789abcdef", `"0123456789abcdef"`},
		{"SUBSCRIBE __Booksleeve_MasterChanged", `\["subscribe" "__Booksleeve_MasterChanged" :1\]`},
		{"PING", `\["pong" ""\]`},
	},
	"Jedis": {
		{"HELLO 3 AUTH alice wonder", hello3},
		{"CLIENT SETNAME app", okay},
		{"CLIENT SETINFO LIB-NAME jedis", okay},
		{"CLIENT SETINFO LIB-VER 7.0.0", okay},
		{"SELECT 0", okay},
	},
	"Lettuce": {
		{"HELLO 3 AUTH alice wonder SETNAME app", hello3},
		{"SELECT 0", okay},
		{"CLIENT SETINFO lib-name Lettuce", okay},
		{"CLIENT SETINFO lib-ver 7.0.0", okay},
		{"CLIENT MAINT_NOTIFICATIONS on moving-endpoint-type internal-ip", noMaintNotifications},
	},
	"Redisson": {
		{"AUTH alice wonder", okay},
		{"SELECT 0", okay},
		{"CLIENT SETNAME app", okay},
		{"PING", `\+PONG`},
		{"SUBSCRIBE redisson_lock__channel:{a}", `\["subscribe" "redisson_lock__channel:\{a\}" :1\]`},
		{"UNSUBSCRIBE redisson_lock__channel:{a}", `\["unsubscribe" "redisson_lock__channel:\{a\}" :0\]`},
	},
	"predis 3": {
		{"HELLO 2 AUTH alice wonder SETNAME predis", hello2},
		{"CLIENT SETINFO LIB-NAME predis", okay},
		{"CLIENT SETINFO LIB-VER 3.0.0", okay},
		{"SELECT 0", okay},
	},
	"phpredis 5": {
		{"AUTH alice wonder", okay},
		{"SELECT 0", okay},
		{"CLIENT setname app", okay},
	},
	"Redis::DistLock": {
		{"AUTH alice wonder", okay},
		{"INFO", `".*redis_version:\d+\.\d+\.\d+\\r\\n.*"`}, // strictly three numbers
	},
	"redis_exporter": {
		{"AUTH alice wonder", okay},
		{"CLIENT SETNAME redis_exporter", okay},
		{"CONFIG GET *", `\[.*"maxclients" "10000" .*\]`},
		{"INFO ALL", `".*connected_clients:1\\r\\n.*cmdstat_auth:calls=1,usec=0,.*"`},
		{"CLIENT LIST", `"id=.*"`},
		{"LATENCY LATEST", `-ERR LATENCY is not served: .*`},
		{"SLOWLOG LEN", `-ERR SLOWLOG is not served: .*`},
	},
	"redis-cli": {
		{"HELLO 3 AUTH alice wonder", hello3},
		{"COMMAND DOCS", `\{"asking": .*"lock": \{"summary": .*\}.*\}`},
	},
}

// Each handshake is sent in one packet, as those that pipeline it do, and again one command at a time.
func TestHandshakes(t *testing.T) {
	for name, steps := range handshakes {
		t.Run(name, func(t *testing.T) {
			srv := serve(t, func(opts *Options) { opts.Users = []access.User{{Name: "alice", Password: "wonder"}} })
			c := srv.dial()
			var all strings.Builder
			for _, step := range steps {
				all.WriteString(frameOf(strings.Split(step[0], " ")...))
			}
			c.raw(all.String())
			for _, step := range steps {
				c.read().matches("(?s:" + step[1] + ")")
			}
			c.conn.Close()
			eventually(t, "the client is gone", func() bool { return len(srv.clients()) == 0 })
			srv.resetStats()

			c = srv.dial()
			for _, step := range steps {
				c.do(strings.Split(step[0], " ")...).matches("(?s:" + step[1] + ")")
			}
		})
	}
}

package config

// Goal: whatever is wrong in a configuration is told with its place, its name and what would be right,
// in one reading, and without giving a password away. Method: one file for each mistake, and the exact
// messages.

import (
	"strings"
	"testing"
)

// secret stands for every password in this file.
const secret = "hunter2"

func messages(err error) string {
	var all []string
	for _, e := range Flatten(err) {
		all = append(all, e.Error())
	}
	return strings.Join(all, "\n")
}

func TestMistakesInTheFile(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"[server]\n\tlisten = 12:00\n",
			"config.toml:2: server.listen: a string (in quotes) or a list of strings is needed, not a date"},
		{"listen = \"x:1\"\n",
			"config.toml:1: unknown setting listen: listen belongs to [server]"},
		{"[locks]\nlisten = \"x:1\"\nmasters = []\n",
			"config.toml:2: unknown setting locks.listen: listen belongs to [server]" + "\n" +
				"config.toml:3: unknown setting locks.masters: masters stands above the first [group]"},
		{"[serverr]\nlisten = \"x:1\"\n",
			"config.toml:1: unknown group [serverr] (did you mean server?)"},
		{"[qwertz]\na = 1\nb = 2\n",
			"config.toml:1: unknown group [qwertz]"},
		{"qwertz = 5\n",
			"config.toml:1: unknown setting qwertz"},
		{"server = 5\n",
			"config.toml:1: server is a group: write [server], and its settings below"},
		{"[[server]]\n",
			"config.toml:1: server is a group: write [server], and its settings below"},
		{"[[master]]\naddr = \"a:1\"\n",
			`config.toml:1: [[master]] is no list: write one [[masters]] for each master, or masters = ["host:port", …]; [master] holds what all of them share`},
		{"master = [\"a:1\", \"redis://:hunter2@b:1\", \"c:1\"]\n",
			`config.toml:1: master is a group, which holds what all masters share: write masters = ["a:1", {addr = "b:1", password = (hidden)}, "c:1"]`},
		{"master = \"a:1, b:1\"\n",
			`config.toml:1: master is a group, which holds what all masters share: write masters = ["a:1", "b:1"]`},
		{"master = 6379\n",
			`config.toml:1: master is a group, which holds what all masters share: write masters = ["host:port", …]`},
		{"masters = \"a:1 b:1;c:1\"\n",
			`config.toml:1: masters: a list is needed, not a string: masters = ["a:1", "b:1", "c:1"], or one [[masters]] for each`},
		{"masters = [\"unix:/p\", \"::1:6379\", \"2001:db8::7\", \"localhost\", \"6379\"]\n",
			`config.toml:1: masters[0]: "unix:/p" is no address: host:port is needed, or the path of a unix socket (did you mean "/p"?)` + "\n" +
				`config.toml:1: masters[1]: "::1:6379" is no address: host:port is needed, or the path of a unix socket (did you mean "[::1]:6379"?)` + "\n" +
				`config.toml:1: masters[2]: "2001:db8::7" is no address: host:port is needed, or the path of a unix socket (did you mean "[2001:db8::7]:6379"?)` + "\n" +
				`config.toml:1: masters[3]: "localhost" is no address: host:port is needed, or the path of a unix socket (did you mean "localhost:6379"?)` + "\n" +
				`config.toml:1: masters[4]: "6379" is no address: host:port is needed, or the path of a unix socket (did you mean "127.0.0.1:6379"?)`},
		{"[server]\nlisten = [\"::1:6380\", \"::\"]\n[http]\nlisten = \"unix:/p\"\n",
			`config.toml:2: server.listen: "::1:6380" is no address: host:port is needed, or :port for all addresses of this machine, or unix:/path of a socket (did you mean "[::1]:6380"?)` + "\n" +
				`config.toml:2: server.listen: "::" is no address: host:port is needed, or :port for all addresses of this machine, or unix:/path of a socket (did you mean "[::]:6380"?)` + "\n" +
				`config.toml:4: http.listen: "unix:/p" is no address: host:port is needed, or :port for all addresses of this machine, and no unix socket`},
		{"[server]\nlisten = 6380\n[http]\nlisten = 9121\n",
			`config.toml:2: server.listen: an address is a string (in quotes), not a bare number: listen = "127.0.0.1:6380" for this machine, listen = ":6380" for others too` + "\n" +
				`config.toml:4: http.listen: an address is a string (in quotes), not a bare number: listen = "127.0.0.1:9121" for this machine, listen = ":9121" for others too`},
		{"[audit]\nlocks = \"true\"\n",
			"config.toml:2: audit.locks: true or false, without quotes, is needed, not a string"},
		{"[masters]\naddr = \"a:1\"\n",
			`config.toml:1: masters: a list is needed, not a table: masters = ["host:port", …], or one [[masters]] for each`},
		{"LISTEN = \"a:1\"\n[server]\nLISTEN = \"a:1\"\n",
			"config.toml:1: unknown setting LISTEN (did you mean listen?)" + "\n" +
				"config.toml:3: unknown setting server.LISTEN (did you mean listen?)"},
		{"[locks]\nmax_ttl = 60\n",
			`config.toml:2: locks.max_ttl: a duration is a string with a unit, such as "50ms", "30s" or "1h30m", not a bare number`},
		{"[locks]\nmax_ttl = \"60\"\n",
			`config.toml:2: locks.max_ttl: "60" is no duration: a number with a unit is needed, such as 50ms, 30s or 1h30m`},
		{"[locks]\nmax_ttl = \"0\"\n",
			`config.toml:2: locks.max_ttl: "0" is no duration: a number with a unit is needed, such as 50ms, 30s or 1h30m`},
		{"[locks]\nmax_ttl = \"0s\"\n",
			"config.toml:2: locks.max_ttl: zero is not possible here"},
		{"[locks]\nmax_ttl = true\n",
			`config.toml:2: locks.max_ttl: a duration is a string with a unit, such as "50ms", "30s" or "1h30m", not a boolean`},
		{"[locks]\nmax_ttl = []\n",
			`config.toml:2: locks.max_ttl: a duration is a string with a unit, such as "50ms", "30s" or "1h30m", not a list`},
		{"[locks]\nmax_ttl = \"-5s\"\n",
			"config.toml:2: locks.max_ttl: -5s is outside 10ms … 24h" + "\n" +
				"locks.min_ttl: 1s is above locks.max_ttl = -5s (locks.max_ttl: config.toml:2)" + "\n" +
				"master.timeout: 50ms is not small against locks.max_ttl = -5s: a master that hangs would use up the lock (locks.max_ttl: config.toml:2)"},
		{"[http]\nlisten = \"9121\"\n",
			`config.toml:2: http.listen: "9121" is no address: host:port is needed, or :port for all addresses of this machine (did you mean ":9121"?)`},
		{"[server]\nmax_clients = \"many\"\n",
			"config.toml:2: server.max_clients: a whole number is needed, not a string"},
		{"[server]\nmax_clients = 0\n",
			"config.toml:2: server.max_clients: zero is not possible here"},
		{"[server]\nmax_clients = 1.5\n",
			"config.toml:2: server.max_clients: a whole number is needed, not a number with a decimal point"},
		{"[locks]\ndrift_factor = 0\n",
			"config.toml:2: locks.drift_factor: zero is not possible here"},
		{"[locks]\ndrift_factor = nan\n",
			"config.toml:2: locks.drift_factor: NaN is outside 0 … 0.5: it is the part of a TTL by which clocks may drift"},
		{"[locks]\ndrift_factor = 0.6\n",
			"config.toml:2: locks.drift_factor: 0.6 is outside 0 … 0.5: it is the part of a TTL by which clocks may drift"},
		{"[log]\nlevel = \"loud\"\nformat = \"jsn\"\n",
			`config.toml:2: log.level: "loud" is none of debug, info, warn, error` + "\n" +
				`config.toml:3: log.format: "jsn" is none of text, json (did you mean json?)`},
		{"[server]\nlisten = \"6380\"\n",
			`config.toml:2: server.listen: "6380" is no address: host:port is needed, or :port for all addresses of this machine, or unix:/path of a socket (did you mean ":6380"?)`},
		{"[server]\nlisten = \":99999\"\n",
			`config.toml:2: server.listen: "99999" is no port: a number up to 65535 is needed`},
		{"[server]\nlisten = \"localhost:http\"\n",
			`config.toml:2: server.listen: "http" is no port: a number up to 65535 is needed`},
		{"masters = [\"a:1\",\n  \"b:1\",\n  \"a:1\"]\n",
			"config.toml:1: masters[2]: a:1 is named twice, as number 1 and 3: each vote must come from a master of its own"},
		{"masters = [\"a:1\", \"b:1\"]\n",
			"config.toml:1: masters: 2 masters tolerate no more failures than 1: name an odd number (5 is usual)"},
		{"masters = [\"a:1\",\n\"b\",\n\"c:1\"]\n",
			`config.toml:1: masters[1]: "b" is no address: host:port is needed, or the path of a unix socket (did you mean "b:6379"?)`},
		{"masters = \"a:1\"\n",
			`config.toml:1: masters: a list is needed, not a string: masters = ["a:1"], or one [[masters]] for each`},
		{"masters = [1]\n",
			"config.toml:1: masters[0]: an address or a table is needed, not a bare number"},
		{"masters = [\"a:1\", {addr = \"b:1\", pasword = \"hunter2\"}, {db = 1}]\n",
			"config.toml:1: masters[1].pasword: unknown setting (did you mean password?); those of a table here are addr, name, username, password, password_file, db, tls, tls_ca, tls_cert, tls_key, tls_server_name" + "\n" +
				"config.toml:1: masters[2]: addr is missing"},
		{"[[masters]]\naddr = \"a:1\"\ntimeout = \"1s\"\n",
			"config.toml:3: masters[0].timeout: unknown setting; those of a table here are addr, name, username, password, password_file, db, tls, tls_ca, tls_cert, tls_key, tls_server_name"},
		{"[[masters]]\naddr = \"a:1\"\ndb = \"x\"\n[[masters]]\nname=\"x\"\n",
			"config.toml:3: masters[0].db: a whole number is needed, not a string" + "\n" +
				"config.toml:4: masters[1]: addr is missing"},
		{"[[masters]]\naddr = \"a:1\"\npassword = \"p\"\npassword_file = \"q\"\n",
			"config.toml:4: masters[0].password_file: password is given too: one of them is enough"},
		{"masters = [\"a:1\"]\n[master]\npassword = \"hunter2\"\npassword_file = \"q\"\n",
			"config.toml:4: master.password_file: master.password is given too: one of them is enough"},
		{"masters = [\"a:1\",\"b:1\",\"c:1\"]\n[master]\npassword_file = \"q\"\ntls=true\ntls_ca=\"nope\"\ntls_cert=\"only\"\n",
			"config.toml:3: master.password_file: q cannot be read: no such file or directory: correct its path" + "\n" +
				"config.toml:5: master.tls_ca: nope cannot be read: no such file or directory: correct its path" + "\n" +
				"config.toml:6: master.tls_cert: tls_key is missing: they belong together"},
		{"masters = [\"a:1\"]\n[master]\nusername = \"u\"\n",
			`config.toml:3: master.username: user "u" has no password`},
		{"masters = [\"a:1\"]\n[master]\ntls_ca = \"u\"\n",
			"config.toml:3: master.tls_ca: tls is not true: the connections would not be encrypted"},
		{"masters = [\"/s\"]\n[master]\ntls = true\n",
			"config.toml:3: master.tls: tls_server_name is needed: an address that is a path names no host to compare the certificate with"},
		{"[[masters]]\naddr=\"a:1\"\nname=\"x\"\n[[masters]]\naddr=\"b:1\"\nname=\"x\"\n[[masters]]\naddr=\"c:1\"\n",
			"config.toml:1: masters: masters 1 and 2 have the same name, x"},
		{"[master]\npassword = 5\n",
			"config.toml:2: master.password: a string (in quotes) is needed, not a bare number"},
		{"[locks]\nmin_ttl = \"50s\"\nmax_ttl = \"40s\"\n",
			"config.toml:2: locks.min_ttl: 50s is above locks.max_ttl = 40s (locks.max_ttl: config.toml:3)"},
		{"[locks]\nmin_ttl = \"10m\"\n",
			"config.toml:2: locks.min_ttl: 10m is above locks.max_ttl = 5m (locks.max_ttl: default)"},
		{"[compat]\ndefault_ttl = \"10m\"\n",
			"config.toml:2: compat.default_ttl: 10m is not from min_ttl = 1s to max_ttl = 5m"},
		{"[server]\nlisten = [\"a:1\", \"b\", \"unix:run/s\", \"a:1\"]\n",
			"config.toml:2: server.listen: \"b\" is no address: host:port is needed, or :port for all addresses of this machine, or unix:/path of a socket (did you mean \"b:6380\"?)\n" +
				"config.toml:2: server.listen: unix:run/s is no absolute path: unix:/run/redlockd/redlockd.sock is the form\n" +
				"config.toml:2: server.listen: a:1 is named twice"},
		{"[server]\nlisten = []\nsocket_mode = \"0170\"\n",
			"config.toml:2: server.listen: there are 0 addresses, 1 … 16 are possible\n" +
				"config.toml:3: server.socket_mode: \"0170\" is no mode from \"0600\" to \"0777\""},
		{"[server]\nlisten = \"unix:/" + strings.Repeat("x", 107) + "\"\nsocket_mode = \"rw\"\n",
			"config.toml:2: server.listen: the path of the unix socket has 108 bytes, at most 107 are possible\n" +
				"config.toml:3: server.socket_mode: \"rw\" is no mode from \"0600\" to \"0777\""},
		{"[server]\ntls_cert = \"/nope\"\n",
			"config.toml:2: server.tls_cert: tls_key is missing: they belong together"},
		{"[http]\ntls_key = \"/nope\"\n",
			"config.toml:2: http.tls_key: tls_cert is missing: they belong together"},
		{"[server]\ntls_cert = \"/nope\"\ntls_key = \"/nope\"\n",
			"config.toml:2: server.tls_cert: /nope cannot be read: no such file or directory: correct its path"},
		{"[server]\ntls_client_ca = \"/nope\"\n",
			"config.toml:2: server.tls_client_ca: tls_cert and tls_key are needed too: without them the server speaks no TLS"},
		{"[server]\noutput_total = 65536\n[master]\ntimeout = \"1h\"\n",
			"config.toml:4: master.timeout: 1h is outside 1ms … 10s" + "\n" +
				"config.toml:4: master.timeout: 1h is not small against locks.max_ttl = 5m: a master that hangs would use up the lock (locks.max_ttl: default)" + "\n" +
				"config.toml:2: server.output_total: 65536 is outside 2097152 … 1073741824"},
		{"[locks]\nmax_handovers = 16\n[master]\nheartbeat = \"1h\"\n",
			"config.toml:2: locks.max_handovers is no setting any more: locks.handover_time (a time, 250ms by default) has taken its place; delete it" + "\n" +
				"config.toml:4: master.heartbeat is no setting any more: redlockd checks each master every 250ms; delete it"},
		{"[auth]\nusers = [{name = \"a\"}]\n",
			`config.toml:2: auth.users: user "a" has no password`},
		{"[auth]\nusers = [{password = \"hunter2\"}]\n",
			`config.toml:2: auth.users: user 1 has no name (the user of AUTH with a password alone is "default")`},
		{"[auth]\nusers = [\"a:hunter2\"]\n",
			"config.toml:2: auth.users[0]: a table with name and password is needed, not a string"},
		{"[auth]\nusers = \"a\"\n",
			"config.toml:2: auth.users: a list is needed, not a string: one [[auth.users]] for each"},
		{"[auth]\nusers = [{name=\"a\",password=\"hunter2\"},{name=\"a\",password=\"hunter2\"}]\n",
			`config.toml:2: auth.users: user "a" is named twice`},
		{"[auth]\nusers = [{name=\"a\",password_file=\"nope\"}]\n",
			"config.toml:2: auth.users[0]: password_file: nope cannot be read: no such file or directory: correct its path"},
		{"[auth]\nusers = [{name=\"a\",password_file=\"nope\",password=\"hunter2\"}]\n",
			"config.toml:2: auth.users[0]: password and password_file are both given: one of them is enough"},
		{"[auth]\nusers = [{name=\"a\",password=\"x\",resources=[]}]\n",
			"config.toml:2: auth.users[0]: resources is empty: leave it out for a user who may use everything, and name no user for one who may use nothing"},
		{"[auth]\nusers = [{name=\"a\",password=\"x\",channels=[]}, {name=\"b\",password=\"x\",commands=[]}, {name=\"c\",cert_cn=\"c\"}]\n",
			"config.toml:2: auth.users[0]: channels is empty: leave it out for the patterns of resources\n" +
				"config.toml:2: auth.users[1]: commands is empty: leave it out for those that a user of this kind has, or name some of lock, read, admin and all\n" +
				"config.toml:2: auth.users[2]: cert_cn needs tls_client_ca in [server]: without it, clients show no certificates"},
		{"[auth]\nusers = [{name=\"a\",password=\"x\",commands=[\"write\"]}, {name=\"b\",password=\"sha256:hunter2\"}]\n",
			"config.toml:2: auth.users: user \"a\": commands has \"write\": its words are lock, read, admin and all\n" +
				"config.toml:2: auth.users: the password of user \"b\": behind sha256:, 64 hexadecimal digits are needed: printf %s 'the password' | sha256sum"},
		{"[auth]\nusers = [{name=\"a\",password=\"x\",resources=\"a*\"}]\n",
			"config.toml:2: auth.users[0].resources: a list is needed, not a string: one string for each"},
		{"[auth]\nusers = [{name=\"a\",password=\"x\",resources=[\"a*\", 7]}]\n",
			"config.toml:2: auth.users[0].resources[1]: a string (in quotes) is needed, not a bare number"},
		{"[auth]\nusers = [{name=\"a\",password=\"x\",resources=[\"\"]}]\n",
			"config.toml:2: auth.users[0].resources[0]: it is empty"},
		{"[auth]\nusers = [{name=\"a\",password=\"x\",max_connections=-1}]\n",
			`config.toml:2: auth.users: user "a": max_connections = -1 is outside 0 … 10000000`},
		{"[auth]\nusers = [{name=\"a\",password=\"x\",max_ttl=\"10m\"}]\n",
			`config.toml:2: auth.users[0]: max_ttl = 10m of user "a" is not from min_ttl = 1s to max_ttl = 5m in [locks]`},
		{"[[policy]]\nprefix = \"a\"\nmax_tll = \"1s\"\n",
			"config.toml:3: policy[0].max_tll: unknown setting (did you mean max_ttl?); those of a table here are prefix, max_ttl, max_wait, max_waiters, max_hold, lock_delay, fence"},
		{"[[policy]]\nprefix = \"a\"\nmax_ttl = 30\nfence = \"allways\"\n[policy]\n",
			"config.toml:5: Key 'policy' has already been defined."},
		{"[[policy]]\nprefix = \"a\"\nmax_ttl = 30\nfence = \"allways\"\n",
			"config.toml:3: policy[0].max_ttl: a duration is a string with a unit, such as \"50ms\", \"30s\" or \"1h30m\", not a bare number\n" +
				"config.toml:4: policy[0].fence: \"allways\" is none of always (did you mean always?)"},
		{"policy = [\"a\"]\n",
			"config.toml:1: policy[0]: a table with prefix and limits is needed, not a string"},
		{"[[policy]]\nmax_ttl = \"1s\"\n\n[[policy]]\nprefix = \"b\"\n\n[[policy]]\nprefix = \"b\"\nmax_waiters = -1\n",
			"config.toml:1: policy[0].prefix: the pattern has 0 bytes, it must have 1 … 1024\n" +
				"config.toml:5: policy[1].prefix: the policy of \"b\" limits nothing: give it max_ttl, max_wait, max_waiters, max_hold, lock_delay or fence\n" +
				"config.toml:8: policy[2].prefix: \"b\" is that of an earlier policy, and the first one that matches counts: put the limits of both into one\n" +
				"config.toml:9: policy[2].max_waiters: -1 of the policy of \"b\" is outside 0 … 10000000"},
		{"[[policy]]\nprefix = \"b\"\nmax_ttl = \"10m\"\nmax_wait = \"2h\"\nmax_waiters = 200000\nmax_hold = \"48h\"\n",
			"config.toml:3: policy[0].max_ttl: 10m of the policy of \"b\" is above max_ttl = 5m in [locks], which counts for all: lower it, or raise that of [locks]\n" +
				"config.toml:4: policy[0].max_wait: 2h of the policy of \"b\" is above max_wait = 1h in [locks], which counts for all: lower it, or raise that of [locks]\n" +
				"config.toml:6: policy[0].max_hold: 48h of the policy of \"b\" is above max_hold = 24h in [locks], which counts for all: lower it, or raise that of [locks]\n" +
				"config.toml:5: policy[0].max_waiters: 200000 of the policy of \"b\" is above max_waiters = 100000 in [locks], which counts for all: lower it, or raise that of [locks]"},
		{"[[policy]]\nprefix = \"b\"\nmax_ttl = \"10ms\"\nlock_delay = \"5m\"\n\n[[policy]]\nprefix = \"c\"\nmax_ttl = \"290s\"\nlock_delay = \"11s\"\n\n" +
			"[[policy]]\nprefix = \"d\"\nmax_hold = \"299s\"\n\n[[policy]]\nprefix = \"e\"\nmax_hold = \"30s\"\nmax_ttl = \"30s\"\n\n[[policy]]\nprefix = \"f\"\nlock_delay = \"10s\"\nmax_hold = \"290s\"\n\n" +
			"[[policy]]\nprefix = \"g\"\nlock_delay = \"300s\"\n\n[[policy]]\nprefix = \"h\"\nlock_delay = \"10s\"\nmax_ttl = \"290s\"\n",
			"config.toml:3: policy[0].max_ttl: 10ms of the policy of \"b\" is below min_ttl = 1s in [locks]: no lock would be possible\n" +
				"config.toml:4: policy[0].lock_delay: 5m of the policy of \"b\" and its max_ttl = 10ms are together above max_ttl = 5m in [locks], for the masters keep a lock that long: shorten one of them, or raise that of [locks]\n" +
				"config.toml:9: policy[1].lock_delay: 11s of the policy of \"c\" and its max_ttl = 4m50s are together above max_ttl = 5m in [locks], for the masters keep a lock that long: shorten one of them, or raise that of [locks]\n" +
				"config.toml:13: policy[2].max_hold: 4m59s of the policy of \"d\" is below the longest TTL there, 5m: give the policy a max_ttl that is not longer\n" +
				"config.toml:27: policy[5].lock_delay: 5m of the policy of \"g\" leaves no TTL: it and min_ttl = 1s are together above max_ttl = 5m in [locks]: shorten it, or raise max_ttl"},
		{"[auth]\nusers = [{name=\"a\",pasword=\"hunter2\"}]\n",
			"config.toml:2: auth.users[0].pasword: unknown setting (did you mean password?); those of a table here are name, password, password_file, cert_cn, resources, admin, channels, commands, max_connections, max_locks, max_memory, max_waiters, max_ttl"},

		// What was probably meant by a line that is no TOML is told, if no password may stand in it.
		{"masters = [10.0.0.1:6379]\n",
			`config.toml:1: masters = [10.0.0.1:6379] cannot be read: write masters = ["10.0.0.1:6379"]`},
		{"# my masters\nmasters = [a:1 \"b:1\", 'c:1',] # three\n",
			`config.toml:2: masters = [a:1 "b:1", 'c:1',] # three cannot be read: write masters = ["a:1", "b:1", 'c:1',] # three`},
		{"masters = [\n  a:1,\n  b:1\n]\n",
			`config.toml:2: a:1, cannot be read: write "a:1",`},
		{"masters = [{addr = a:1, db = 3}]\n",
			`config.toml:1: masters = [{addr = a:1, db = 3}] cannot be read: write masters = [{addr = "a:1", db = 3}]`},
		{"master = a:1\n",
			`config.toml:1: master = a:1 cannot be read: write masters = ["a:1"]`},
		{"[server]\nlisten = :6380\n",
			`config.toml:2: listen = :6380 cannot be read: write listen = ":6380"`},
		{"[server]\r\nlisten = :6380\r\n",
			`config.toml:2: listen = :6380 cannot be read: write listen = ":6380"`},
		{"[server]\nlisten = “:6380”\n",
			`config.toml:2: listen = “:6380” cannot be read: write listen = ":6380"`},
		{"[locks]\nmax_ttl = 5m\n",
			`config.toml:2: max_ttl = 5m cannot be read: write max_ttl = "5m"`},
		{"[locks]\nmax_ttl: 5m\n",
			`config.toml:2: max_ttl: 5m cannot be read: write max_ttl = "5m"`},
		{"[log]\nlevel = debug\n[fence]\nalways = Yes\n",
			`config.toml:2: level = debug cannot be read: write level = "debug"`},
		{"[fence]\nalways = Yes\n",
			"config.toml:2: always = Yes cannot be read: write always = true"},
		{"masters = [[::1]:6379]\n",
			"config.toml:1: expected value but found ':' instead"},
		{"masters = [\"a:1, \"b:1\"]\n",
			"config.toml:1: expected a comma (',') or array terminator (']'), but got 'b'"},
		{"[auth]\nusers = [\n  a:hunter2\n]\n",
			`config.toml:3: expected value but found "a" instead`},
		{"masters = [u:hunter2@a:1]\n",
			`config.toml:1: expected value but found "u" instead`},

		// What else is not TOML is told with its line, and without the line itself: a password may stand
		// there.
		{"[server\nlisten = \"x\"",
			"config.toml:1: expected '.' or ']' to end table name, but got '\\n' instead"},
		{"[server]\nlisten = \"unterminated\n",
			"config.toml:2: strings cannot contain newlines"},
		{"a = 1\na = 2\n",
			"config.toml:2: Key 'a' has already been defined."},
		{`"é" = = 1`,
			"config.toml:1: expected value but found '=' instead"},
		{"[master]\npassword = hunter2\n",
			`config.toml:2: a password cannot be read: write it in quotes, \ and " in it as \\ and \", and only once`},
		{"[master]\npassword = \"hunter\"2\"\n",
			`config.toml:2: a password cannot be read: write it in quotes, \ and " in it as \\ and \", and only once`},
		{"[auth]\nusers = [{name = \"a\", password = 'hunter2}]\n",
			`config.toml:2: a password cannot be read: write it in quotes, \ and " in it as \\ and \", and only once`},
		{"[master]\npassword = \"\"\"\nhunter2\nfoo",
			`config.toml:4: a password cannot be read: write it in quotes, \ and " in it as \\ and \", and only once`},
		{"[master]\npassword = 'a'\npassword = 'hunter2'\n",
			`config.toml:3: a password cannot be read: write it in quotes, \ and " in it as \\ and \", and only once`},
		{"x = \x01",
			"config.toml:1: TOML files cannot contain control characters: '0x01'"},
	} {
		t.Run(c.file, func(t *testing.T) {
			_, err := loadText(t, c.file, nil)
			if got := messages(err); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, c.want)
			}
			if strings.Contains(messages(err), secret) {
				t.Errorf("%s gives the password away", messages(err))
			}
		})
	}
}

// Warnings do not keep redlockd from running, but an operator should read them.
func TestWarnings(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "open.toml", "masters = [\"a:1\"]\n[master]\npassword = \""+secret+"\"\n", 0o644)
	writeFile(t, "closed.toml", "masters = [\"a:1\"]\n[master]\npassword = \""+secret+"\"\n", 0o600)
	writeFile(t, "group.toml", "masters = [\"a:1\"]\n[master]\npassword = \""+secret+"\"\n", 0o640)
	writeFile(t, "users.toml", "[auth]\nusers = [{name = \"a\", password = \""+secret+"\"}]\n", 0o604)
	writeFile(t, "tables.toml", "[[masters]]\naddr = \"a:1\"\npassword = \""+secret+"\"\n", 0o644)
	writeFile(t, "none.toml", "masters = [\"a:1\"]\n", 0o644)
	writeFile(t, "password", secret, 0o644)
	writeFile(t, "file.toml", "masters = [\"a:1\", \"b:1\", \"c:1\"]\n[master]\npassword_file = \"password\"\n", 0o644)
	readable := func(name string) string {
		return name + " holds a password, and everybody on this machine can read or change it: chmod go= " + name
	}
	for _, c := range []struct {
		file    string
		environ []string
		want    string
	}{
		{"open.toml", nil, readable("open.toml") + ", or name a password_file"},
		{"users.toml", nil, readable("users.toml") + ", or name a password_file"},
		{"tables.toml", nil, readable("tables.toml") + ", or name a password_file"},
		{"closed.toml", nil, ""},
		{"group.toml", nil, "group.toml holds a password, and its group can read or change it: chmod g= group.toml, or name a password_file"},
		{"none.toml", nil, ""},
		{"file.toml", nil, readable("password")},
	} {
		cfg, err := Load(map[string]string{"config": c.file}, c.environ)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(cfg.Warnings, "\n"); got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.file, c.environ, got, c.want)
		}
	}
}

// A variable whose name is misspelt is an error, and those that Kubernetes sets for services are none: for the service redlockd, and for others
// whose names begin so.
func TestUnknownVariables(t *testing.T) {
	for pair, want := range map[string]string{
		"REDLOCKD_LOCKS_MAX_TLL=5s":                                "REDLOCKD_LOCKS_MAX_TLL names no setting (did you mean REDLOCKD_LOCKS_MAX_TTL?): correct it or unset it; redlockd help settings lists them",
		"REDLOCKD_MASTER=a:1":                                      "REDLOCKD_MASTER names no setting (did you mean REDLOCKD_MASTERS?): correct it or unset it; redlockd help settings lists them",
		"REDLOCKD_SERVER_PORT=6380":                                "REDLOCKD_SERVER_PORT names no setting (did you mean REDLOCKD_SERVER_LISTEN?): correct it or unset it; redlockd help settings lists them",
		"REDLOCKD_MAX_TTL=5m":                                      "REDLOCKD_MAX_TTL names no setting (did you mean REDLOCKD_LOCKS_MAX_TTL?): correct it or unset it; redlockd help settings lists them",
		"REDLOCKD_LISTEN=:6380":                                    "REDLOCKD_LISTEN names no setting (did you mean REDLOCKD_SERVER_LISTEN or REDLOCKD_HTTP_LISTEN?): correct it or unset it; redlockd help settings lists them",
		"REDLOCKD_=1":                                              "REDLOCKD_ names no setting: correct it or unset it; redlockd help settings lists them",
		"REDLOCKD_LOCKS_MAX_TLL=":                                  "",
		"REDLOCKD=1":                                               "",
		"REDLOCKD_SERVICE_HOST=10.0.0.1":                           "",
		"REDLOCKD_SERVICE_PORT=6380":                               "",
		"REDLOCKD_SERVICE_PORT_LOCKS=6380":                         "",
		"REDLOCKD_PORT=tcp://10.0.0.1:6380":                        "",
		"REDLOCKD_PORT_6380_TCP=tcp://10.0.0.1:6380":               "",
		"REDLOCKD_PORT_6380_TCP_ADDR=10.0.0.1":                     "",
		"REDLOCKD_PORT_6380_UDP_PROTO=udp":                         "",
		"REDLOCKD_METRICS_PORT_9121_TCP_PORT=9121":                 "",
		"REDLOCKD_MASTER_3_SERVICE_HOST=10.0.0.1":                  "",
		"REDLOCKD_MASTERS_PORT=tcp://10.0.0.1:6379":                "",
		"REDLOCKD_SERVER_LISTEN_SERVICE_PORT_SERVICE_HOST=1.2.3.4": "",
	} {
		c, err := Load(nil, []string{pair})
		if got := messages(err); got != want {
			t.Errorf("%s: got %q, want %q", pair, got, want)
		}
		if err == nil && (len(c.Warnings) > 0 || c.CheckServed(c.Listen, "") != nil) {
			t.Errorf("%s: got warnings %q, or it counts as a setting", pair, c.Warnings)
		}
	}
	for _, s := range Default().Settings {
		if serviceLink.MatchString(s.Environment() + "=tcp://a:1") {
			t.Errorf("%s is taken for a variable of Kubernetes", s.Environment())
		}
	}
}

// The same for masters that are named in one word, where a password may stand.
func TestMistakesInMastersOfOneWord(t *testing.T) {
	for _, c := range []struct{ masters, want string }{
		{"redis://:" + secret + "@a:1,,b:1", "--masters: an address is missing between two commas"},
		{"redis://:" + secret + "#@a:1", "--masters: a URL cannot be read: " + urlForm},
		{"redis://u:" + secret + "@a:1/x", "--masters: the database in a URL is no number: " + urlForm},
		{"redis://u:" + secret + "@a:1/-1", "--masters: the database in a URL is no number: " + urlForm},
		{"redis://u:" + secret + "@a:1?timeout=1s", "--masters: a URL has something behind ? or #, which redlockd does not know: " + urlForm},
		{"redis://u:" + secret + "@/1", "--masters: a URL names no host: " + urlForm},
		{"http://u:" + secret + "@a:1", `--masters: "http" is no scheme of a master: ` + urlForm},
		{"redis://u:x," + secret + "@a:1", "--masters: a URL cannot be read: " + urlForm},
		{"b:1,u:" + secret + "@a:1", "--masters: an address has no @; of a URL, " + urlForm + ", and a comma %2C"},
	} {
		_, err := Load(map[string]string{"masters": c.masters}, nil)
		if got := messages(err); got != c.want || strings.Contains(got, secret) {
			t.Errorf("%s: got %q, want %q", c.masters, got, c.want)
		}
	}
}

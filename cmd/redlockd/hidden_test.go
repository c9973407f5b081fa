package main

// Goal: what clients hide from their users, libraries.md and redlockd's own output tell: prefixes of keys, of which LOCK has none, and
// refusals that look like a lock that another holds. Method: the client libraries that TestLibraries has, in programs of a few lines.

import (
	"regexp"
	"strings"
	"testing"
)

// With a prefix, SET and scripts lock another name than LOCK, so that both are granted.
func TestKeyPrefixes(t *testing.T) {
	needLibraries(t, "node", "php")
	p := launch(t)
	const ioredis = `const Redis = require('BUILD/node_modules/VERSION'), client = new Redis({ host: 'HOST', port: PORT, keyPrefix: 'app:' })
;(async () => {
  const byLOCK = await client.call('LOCK', 'NAME', '30s')
  console.log(byLOCK ? 'LOCK' : 'no LOCK', await client.set('NAME', 'token', 'PX', 30000, 'NX'), await client.eval("return redis.call('get', KEYS[1])", 1, 'NAME'))
  process.exit()
})()`
	for name, program := range map[string]holdingRecipe{
		"ioredis5": {"node", "prefix.js", "BUILD/node FILE", strings.ReplaceAll(ioredis, "VERSION", "ioredis5")},
		"ioredis6": {"node", "prefix.js", "BUILD/node FILE", strings.ReplaceAll(ioredis, "VERSION", "ioredis6")},
		"phpredis": {"php", "prefix.php", "php FILE", `<?php
$client = new Redis();
$client->connect('HOST', PORT);
$client->setOption(Redis::OPT_PREFIX, 'app:');
echo $client->rawCommand('LOCK', 'NAME', '30s') ? 'LOCK' : 'no LOCK', $client->set('NAME', 'token', ['nx', 'px' => 30000]) ? ' OK ' : ' null ',
	$client->eval("return redis.call('get', KEYS[1])", ['NAME'], 1), "\n";`},
	} {
		t.Run(name, func(t *testing.T) {
			program.start(t, p.addr, name, "").wantAnswer("LOCK OK token")
			c := p.dial()
			if byLOCK, bySET := c.do("GET "+name), c.do("GET app:"+name); byLOCK == "token" || byLOCK == "null" || bySET != "token" {
				t.Errorf("%s is held by %s, app:%s by %s; want LOCK's token under the one name and SET's under the other", name, byLOCK, name, bySET)
			}
		})
	}
	for _, library := range []string{"ioredis", "phpredis", "predis", "laravel", "redlock"} {
		_, text, _ := runCommand(nil, "check", "--library", library)
		if !strings.Contains(text, "# Warning: where ") || !strings.Contains(text, "and LOCK, UNLOCK and EXTEND the name without it: these do not exclude each other.") {
			t.Errorf("check --library %s does not warn of key prefixes:\n%s", library, text)
		}
	}
	if _, text, _ := runCommand(nil, "check", "--library", "redis-py"); strings.Contains(text, "Warning") {
		t.Errorf("check --library redis-py warns, and it has no prefixes:\n%s", text)
	}
}

// A library that takes a refusal for a lock that is held tells its user nothing. The log and INFO tell the operator, once for each reason.
func TestRefusalsThatLibrariesHide(t *testing.T) {
	needLibraries(t, "python", "php")
	p := launch(t)
	// pottery asks for half a second, and is told that min_ttl is a second.
	holdingRecipe{"python", "short.py", "BUILD/current/bin/python FILE", `import logging, pottery, redis
logging.disable(logging.CRITICAL)
lock = pottery.Redlock(key='NAME', masters={redis.Redis('HOST', PORT)}, auto_release_time=.5)
print([lock.acquire(blocking=False) for attempt in range(3)])`}.start(t, p.addr, "pottery", "").wantAnswer("[False, False, False]")
	// As Nextcloud: locks for a day, counted without a TTL, on phpredis.
	holdingRecipe{"php", "false.php", "php FILE", `<?php
$client = new Redis();
$client->connect('HOST', PORT);
foreach (range(1, 2) as $attempt) {
	$answers[] = $client->set('NAME', '1', ['nx', 'ex' => 86400]);
	$answers[] = $client->incrBy('NAME', 1);
	$answers[] = $client->eval("return redis.call('set', KEYS[1], ARGV[1])", ['NAME', '1'], 1);
	$answers[] = $client->lPush('NAME', 'job');
}
echo json_encode($answers), "\n";`}.start(t, p.addr, "php", "").wantAnswer("[" + strings.Repeat("false,", 7) + "false]")
	c := p.dial()
	// npm's redis-lock takes each error for a lock that is held. It runs with node-redis 4 only, so these are its commands.
	c.do("CLIENT SETINFO LIB-NAME node-redis")
	for range 3 {
		if got := c.do("SET lock.job 1 PX 500 NX"); !strings.HasPrefix(got, "ERR ttl of 500 ms is below the least, 1000 ms (min_ttl)") {
			t.Errorf("SET for 500 ms: got %s", got)
		}
	}
	if got := c.do("SET lock.job 1 PX 5000 NX"); got != "OK" {
		t.Errorf("SET for 5 s: got %s", got)
	}
	if got := c.do("DEL lock.job"); !strings.HasPrefix(got, "ERR DEL is refused, for it does not compare the token") {
		t.Errorf("DEL: got %s", got)
	}
	p.waitLog(`"command":"del"`)   // the last line
	for _, want := range []string{ // phpredis gives no name
		`"command":"set","counted_as":"ttl_too_short","library":"redis-py"`, `"command":"set","counted_as":"ttl_too_long","library":""`, `"command":"incrby","counted_as":"counter","library":""`,
		`"command":"eval","counted_as":"counter","library":""`, `"command":"lpush","counted_as":"queue","library":""`,
		`"command":"set","counted_as":"ttl_too_short","library":"node-redis"`, `"command":"del","counted_as":"unguarded","library":"node-redis"`,
	} {
		if got := strings.Count(p.log(), want); got != 1 {
			t.Errorf("the log has %d lines with %s, want 1:\n%s", got, want, p.log())
		}
	}
	info := c.do("INFO refusedstats")
	for _, want := range []string{`refusedstat_set:count=\d+,ttl_too_long=2,ttl_too_short=\d+`, `refusedstat_incrby:count=2,counter=2`, `refusedstat_lpush:count=2,queue=2`, `refusedstat_del:count=1,unguarded=1`} {
		if !regexp.MustCompile(`(?m)^` + want + `\r$`).MatchString(info) {
			t.Errorf("INFO refusedstats has no line %s:\n%s", want, info)
		}
	}
}

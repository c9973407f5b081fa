package main

// Goal: what redlockd check --library prints is enough for the library, is TOML, and tells what is in
// force; what libraries.md quotes is what redlockd answers. Method: a redlockd without and one with the
// lines of each library, and the commands of the library; masters with another max_ttl; the document.

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/masters"
)

// knownLibraries are the libraries that check --library knows.
func knownLibraries() []string {
	at := slices.IndexFunc(masters.Check.Flags, func(f cli.Flag) bool { return f.Name == "library" })
	return masters.Check.Flags[at].Words
}

// Every library that the tests run has a row, under its name or that of the package.
func TestLibrariesAreInTheTable(t *testing.T) {
	for _, lib := range libraries {
		known := slices.ContainsFunc(knownLibraries(), func(name string) bool {
			return lib.name == name || strings.HasPrefix(lib.name, name+"-") || strings.TrimRight(lib.name, "0123456789") == name
		})
		if !known && lib.name != "semaphore" { // of redis-semaphore
			t.Errorf("%s has no row in libraryTable", lib.name)
		}
	}
}

// libraryCommands are commands of the libraries that redlockd refuses without the settings of the
// library.
var libraryCommands = map[string][]string{
	"celery-once":      {"SET qo_tasks.add t PX 3600000 NX", "DEL qo_tasks.add"},
	"celery-singleton": {"SETNX SINGLETONLOCK_a id", "SET SINGLETONLOCK_b id NX EX 3600", "DEL SINGLETONLOCK_a"},
	"chatwoot":         {"DEL alfred:FB_MESSAGE_CREATE_LOCK::1::2"},
	"craft":            {"SET mutex-console t NX PX 900000"},
	"django-redis":     {"SET :1:report t NX", "SET :1:feed-lock-1 t NX PX 600000", "DEL :1:feed-lock-1"},
	"dramatiq":         {"SET limiter 1 PX 900000 NX"},
	"drupal":           {"SET drupal:lock:cron t NX PX 900000"},
	"flask-caching":    {"SETNX flask_cache_report t", "EXPIRE flask_cache_report 300"},
	"gitlab":           {"SET gitlab:exclusive_lease:throttle t NX EX 3600"},
	"huey":             {"SET huey.r.locks.locks.lock.report 1 NX", "DEL huey.r.locks.locks.lock.report"},
	"laravel": {"SET laravel-database-laravel-cache-report t EX 600 NX", "SETNX laravel-database-laravel-cache-report2 t",
		"SET laravel-database-laravel-cache-framework/schedule-1f1200 t EX 3600 NX", "SET laravel-database-laravel-cache-framework/schedule-1f t EX 86400 NX",
		"DEL laravel-database-laravel-cache-framework/schedule-1f", "DEL laravel-database-laravel-cache-framework/command-send",
		"SETNX laravel-database-laravel-cache-laravel_unique_job:Job: t", "DEL laravel-database-laravel-cache-laravel_unique_job:Job:"},
	"mastodon": {"SET lock:process:1 t NX EX 900"},
	"mediawiki": {"EVAL \"for _, member in ipairs(redis.call('hkeys', ARGV[1])) do if redis.call('hget', ARGV[1], member) >= ARGV[3] then return 1 end end " +
		"redis.call('hset', ARGV[1], 'EX:' .. ARGV[2], ARGV[3]) redis.call('expire', ARGV[1], ARGV[4]) return 0\" 1 RedisLockManager:locks:EX:1f 1f session 1700000000 7200"},
	"medusa":           {"EVAL \"return redis.call('set', KEYS[1], ARGV[1], 'NX') and 1 or 0\" 1 medusa_lock:report * 0 false"},
	"n8n":              {"EXPIRE n8n:main_instance_leader 10", "DEL n8n:main_instance_leader"},
	"prefect":          {"SET lock:report holder NX"},
	"quartz":           {"DEL lock"},
	"redbeat":          {"SET redbeat::lock t NX PX 1500000"},
	"redis-lock":       {"DEL lock.report"},
	"redis-py":         {"SET report t NX"},
	"resque-scheduler": {"DEL resque:resque_scheduler_master_lock"},
	"rq":               {"EXPIRE rq:scheduler-lock:default 61", "DEL rq:scheduler-lock:default"},
	"shedlock":         {"SET job-lock:default:report t NX PX 600000", "SET job-lock:default:report t XX PX 60000", "DEL job-lock:default:report"},
}

// release and renew are the scripts that everybody writes, for the last key of a dialogue.
const (
	releaseWords = `EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0" 1 `
	renewWords   = `EVAL "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('expire', KEYS[1], ARGV[2]) end return 0" 1 `
)

// servedByDefault are commands of libraries and applications, each with the answer that redlockd gives with the defaults. Of those that
// the tests run, it has only what these runs have not.
var servedByDefault = map[string][][2]string{
	"bullmq": {{"SET bull:jobs:1:lock t NX PX 30000", "OK"}, {"EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] and redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) then " +
		"redis.call('srem', KEYS[2], ARGV[3]) return 1 end return 0\" 2 bull:jobs:1:lock bull:jobs:stalled t 30000 1", "1"}, {releaseWords + "bull:jobs:1:lock t", "1"}},
	"chatwoot": {{"SET alfred:SLACK_MESSAGE_LOCK::1 1700000000.5 NX EX 1", "OK"}},
	"craft":    {{"SET mutex-web t NX PX 30000", "OK"}, {releaseWords + "mutex-web t", "1"}},
	"dapr":     {{"SET lock||report t EX 60 NX", "OK"}, {releaseWords + "lock||report t", "1"}},
	"discourse": {{"EVAL \"local now = redis.call('time')[1] local ends = redis.call('get', KEYS[1]) if ends and tonumber(now) <= tonumber(ends) then return nil end " +
		"redis.call('setex', KEYS[1], ARGV[1] + 1, tostring(now + ARGV[1])) return 1\" 1 default:mutex 60", "1"}},
	"django-redis": {{"SET :1:report t NX PX 30000", "OK"}, {releaseWords + ":1:report t", "1"}, {"SET :1:report t NX PX 300000", "OK"}},
	"gitlab": {{"SET gitlab:exclusive_lease:report t NX EX 60", "OK"}, {renewWords + "gitlab:exclusive_lease:report t 60", "1"}, {"EXISTS gitlab:exclusive_lease:report", "1"},
		{releaseWords + "gitlab:exclusive_lease:report t", "1"}, {"TTL gitlab:exclusive_lease:report", "-2"}},
	"hangfire": {{"SET {hangfire}:report t PX 60000 NX", "OK"}, {"WATCH {hangfire}:report", "OK"}, {"GET {hangfire}:report", "t"}, {"MULTI", "OK"}, {"PEXPIRE {hangfire}:report 60000", "QUEUED"}, {"EXEC", "[1]"},
		{"WATCH {hangfire}:report", "OK"}, {"GET {hangfire}:report", "t"}, {"MULTI", "OK"}, {"DEL {hangfire}:report", "QUEUED"}, {"EXEC", "[1]"}},
	"huey":          {{"SET huey.r.locks.locks.lock.report 1 NX EX 30", "OK"}},
	"laravel":       {{"SET laravel-cache-report t EX 60 NX", "OK"}, {releaseWords + "laravel-cache-report t", "1"}, {"SET laravel-cache-report t EX 300 NX", "OK"}},
	"malkusch-lock": {{"SET php-malkusch-lock:report t NX PX 30001", "OK"}, {releaseWords + "php-malkusch-lock:report t", "1"}, {"SET lock_report t NX EX 4", "OK"}},
	"n8n":           {{"SET n8n:lock:report t EX 10 NX", "OK"}, {releaseWords + "n8n:lock:report t", "1"}, {"SET n8n:main_instance_leader main-1 EX 10 NX", "OK"}, {renewWords + "n8n:main_instance_leader main-1 10", "1"}},
	"predis":        {{"SET report-predis t EX 30 NX", "OK"}, {releaseWords + "report-predis t", "1"}},
	"quartz":        {{"SET lock t NX PX 30000", "OK"}, {"GET lock", "t"}},
	"redis-lock":    {{"SET lock.report 1700000000000 PX 5000 NX", "OK"}},
	"resque-scheduler": {{"EVAL \"if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then redis.call('expire', KEYS[1], 180) return 1 end return 0\" 1 resque:resque_scheduler_master_lock host:1", "1"},
		{renewWords + "resque:resque_scheduler_master_lock host:1 180", "1"}},
	"rq":       {{"EVAL \"if redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2]) then return 1 end return 0\" 1 rq:scheduler-lock:3 t 61", "1"}, {"SET rq:scheduler-lock:default 1 NX EX 61", "OK"}},
	"sentry":   {{"SET l:report t EX 60 NX", "OK"}, {"GET l:report", "t"}, {releaseWords + "l:report t", "1"}},
	"sherlock": {{`EVAL "if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then redis.call('expire', KEYS[1], ARGV[2]) return 1 end return 0" 1 sherlock t 60`, "1"}, {releaseWords + "sherlock t", "1"}},
	"tooz":     {{"PSETEX _tooz_beats:1 30000 alive", "OK"}, {"PSETEX _tooz_beats:1 30000 alive", "OK"}, {"SET lock-tooz t NX PX 30000", "OK"}, {"EVAL \"if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('pexpire', KEYS[1], ARGV[2]) return 1 end return 0\" 1 lock-tooz t 30000", "1"}, {releaseWords + "lock-tooz t", "1"}},
	"walrus":   {{"EVAL \"local taken = redis.call('setnx', KEYS[1], ARGV[1]) if taken == 1 then redis.call('pexpire', KEYS[1], ARGV[2]) end return taken\" 1 lock:walrus t 30000", "1"}},
	"yii":      {{"SET mutex-yii t NX PX 30000", "OK"}, {releaseWords + "mutex-yii t", "1"}},
}

// What no test runs is served with the defaults.
func TestCommandsServedByDefault(t *testing.T) {
	p := launch(t)
	for name, commands := range servedByDefault {
		client := p.dial()
		for _, c := range commands {
			if got := client.do(c[0]); got != c[1] {
				t.Errorf("%s: %s: got %s, want %s", name, c[0], got, c[1])
			}
		}
	}
}

// refusedAnyway are commands of the uses for which no setting of a library helps, with what redlockd says that they ask for: its reason.
var refusedAnyway = map[string][][2]string{
	"bullmq":            {{"EVAL \"redis.call('hset', KEYS[1], 'name', 'n') redis.call('LPUSH', KEYS[2], 1)\" 2 bull:jobs:1 bull:jobs:wait", "queue"}, {"XADD bull:jobs:events * event added", "stream"}, {"LPUSH bull:jobs:wait 1", "queue"}},
	"celery-singleton":  {{"SCAN 0", "keys"}},
	"chatwoot":          {{"LPUSH alfred:ROUND_ROBIN_AGENTS:1 2", "queue"}, {"HSET alfred:ONLINE_STATUS::1 2 online", "no_ttl"}},
	"dramatiq":          {{"RPUSH barrier x", "queue"}, {"BRPOPLPUSH barrier barrier 1", "queue"}},
	"drupal":            {{"EVAL \"redis.call('hmset', KEYS[1], 'cid', '1') redis.call('expire', KEYS[1], 31536000)\" 1 drupal:page:1", "ttl_too_long"}},
	"flask-caching":     {{"SETEX flask_cache_view 300 " + strings.Repeat("x", 1025), "cache"}},
	"gitlab":            {{"SCAN 0 MATCH gitlab:exclusive_lease:*", "keys"}},
	"hangfire":          {{"LPUSH {hangfire}:queue:default 1", "queue"}, {"SADD {hangfire}:queues default", "no_ttl"}},
	"huey":              {{"RPUSH huey.r.locks job", "queue"}},
	"kombu":             {{"LPUSH celery job", "queue"}, {"BRPOP celery 1", "queue"}, {"ZADD unacked_index 1 tag", "no_ttl"}},
	"malkusch-lock":     {{"SET php-malkusch-lock:report t NX PX 31557600000000", "ttl_too_long"}},
	"mastodon":          {{"ZADD feed:home:1 1 1", "no_ttl"}, {"LPUSH queue:default job", "queue"}},
	"mediawiki":         {{"SETEX wiki:page 300 " + strings.Repeat("x", 1025), "cache"}},
	"medusa":            {{"SCAN 0 MATCH medusa_lock:* COUNT 100", "keys"}},
	"moodle":            {{"SET session.lock t NX EX 7200", "ttl_too_long"}},
	"n8n":               {{"BRPOPLPUSH bull:jobs:wait bull:jobs:active 1", "queue"}},
	"nextcloud":         {{"SET files/1f 1 NX EX 86400", "ttl_too_long"}, {"INCRBY files/2f 1", "counter"}, {"EVAL \"return redis.call('set', KEYS[1], ARGV[1])\" 1 files/3f exclusive", "cache"}},
	"portalocker":       {{"PUBSUB NUMSUB report", "pubsub"}},
	"prefect":           {{"XADD prefect:events * body x", "stream"}, {"HSET prefect:leases 1 x", "no_ttl"}},
	"python-redis-lock": {{"EVAL \"return redis.call('lpush', KEYS[1], 1)\" 1 k", "queue"}},
	"quartz":            {{"HSET job:report class Job", "no_ttl"}, {"SADD jobs job:report", "no_ttl"}},
	"redbeat":           {{"ZADD redbeat::schedule 1 redbeat:report", "no_ttl"}, {"HSET redbeat:report definition 1", "no_ttl"}},
	"redisson":          {{"EVAL \"return redis.call('lindex', KEYS[1], 0)\" 1 k", "list"}, {"EVAL \"return redis.call('incr', KEYS[1])\" 1 k", "counter"}},
	"resque-scheduler":  {{"RPUSH resque:queue:default job", "queue"}, {"ZADD resque:delayed_queue_schedule 1 1", "no_ttl"}},
	"rq":                {{"RPUSH rq:queue:default job", "queue"}},
	"sidekiq-unique-jobs": {{"EVAL \"redis.call('zadd', KEYS[1], 1, ARGV[1])\" 1 uniquejobs:digests d", "no_ttl"}, {"EVAL \"redis.call('lrem', KEYS[1], -1, ARGV[1])\" 1 uniquejobs:queued d", "list"},
		{"EVAL \"redis.call('hset', KEYS[1], ARGV[1], 1) redis.call('lpush', KEYS[2], ARGV[1])\" 2 uniquejobs:locked uniquejobs:queued d", "queue"}},
	"tooz":   {{"HSET _tooz_group:1 member 1", "no_ttl"}},
	"walrus": {{"EVAL \"redis.call('lpush', KEYS[2], 1) redis.call('ltrim', KEYS[2], 0, 0) return redis.call('del', KEYS[1])\" 2 lock:report lock.event:report", "queue"}, {"BLPOP lock.event:report 1", "queue"}},
}

// What libraryTable says to be refused is refused with the defaults, and counted for what it asks for.
func TestUsesThatAreRefused(t *testing.T) {
	p := launch(t)
	for _, name := range knownLibraries() {
		_, text, _ := runCommand(nil, "check", "--library", name)
		if commands := refusedAnyway[name]; strings.Contains(text, "#   refused: ") != (len(commands) > 0) {
			t.Errorf("%s: %d commands in refusedAnyway, and check says\n%s", name, len(commands), text)
		}
		for _, c := range refusedAnyway[name] {
			client := p.dial()
			client.do("CONFIG RESETSTAT")
			got, info := client.do(c[0]), client.do("INFO refusedstats")
			if !strings.HasPrefix(got, "ERR ") || !strings.Contains(info, ","+c[1]+"=1\r\n") {
				t.Errorf("%s: %s: got %s, counted as\n%s\nwant it refused, and counted as %s", name, c[0], got, info, c[1])
			}
		}
	}
}

// Every library and application is tried: run, or by a dialogue of its commands.
func TestLibrariesAreTried(t *testing.T) {
	for _, name := range knownLibraries() {
		run := slices.ContainsFunc(libraries, func(lib library) bool {
			return lib.name == name || strings.HasPrefix(lib.name, name+"-") || strings.TrimRight(lib.name, "0123456789") == name
		})
		if !run && len(libraryCommands[name])+len(servedByDefault[name])+len(refusedAnyway[name]) == 0 {
			t.Errorf("nothing tries %s", name)
		}
	}
}

func TestLinesForALibraryAreEnough(t *testing.T) {
	bare := launch(t)
	without := bare.dial()
	for _, name := range knownLibraries() {
		t.Run(name, func(t *testing.T) {
			commands := libraryCommands[name]
			code, lines, stderr := runCommand(nil, "check", "--library", name)
			wantCode := cli.ExitOK
			if len(commands) > 0 {
				wantCode = cli.ExitFailed
			}
			if code != wantCode || stderr != "" {
				t.Fatalf("exit code %d, errors %q, and %d commands to try; want code %d. A library that needs settings has commands in libraryCommands", code, stderr, len(commands), wantCode)
			}
			t.Chdir(t.TempDir())
			writeFile(t, "config.toml", lines, 0o600)
			file := []string{"--config", "config.toml"}
			if code, again, stderr := runCommand(nil, append([]string{"check", "--library", name}, file...)...); code != cli.ExitOK || stderr != "" || strings.Contains(again, "#   needs ") || strings.Contains(again, "Lines for config.toml") {
				t.Errorf("with the lines: exit code %d, errors %q, got\n%s\nwant nothing needed", code, stderr, again)
			}
			if len(commands) == 0 {
				return
			}
			p := launch(t, append(file, "--masters", "embedded")...)
			with := p.dial()
			for _, command := range commands {
				if words := strings.Fields(command); slices.Contains([]string{"DEL", "EXPIRE"}, words[0]) || slices.Contains(words, "XX") {
					for _, client := range []*wire{without, with} { // what it would change somebody must hold
						client.do("LOCK " + words[1] + " 50s")
					}
				}
				if got := without.do(command); !strings.HasPrefix(got, "ERR ") {
					t.Errorf("without the lines, %s: got %s, want it refused", command, got)
				}
				if got := with.do(command); strings.HasPrefix(got, "ERR ") || got == "null" {
					t.Errorf("with the lines, %s: got %s, want it served. The lines:\n%s", command, got, lines)
				}
			}
		})
	}
}

func TestCheckLibrary(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "some.toml", "[locks]\nmax_ttl = \"30s\"\n[compat]\nallow_unguarded = [\"job-lock:*\", \"latch:*\"]\nscripts = false\n", 0o600)
	writeFile(t, "all.toml", "[locks]\nmax_ttl = \"10m\"\n[compat]\nallow_unguarded = true\n", 0o600)
	price := "The price: if a majority of them forgets, no lock is granted for so long.\n"
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--library Symfony --max-ttl 1m", cli.ExitFailed, `# symfony, with a max_ttl of 1m (of the settings):
#   works: ` + "`new RedisStore($redis, 30)` and `createLock($name, 30)`" + `: 30 s
#   needs max_ttl = "5m": ` + "`createLock($name)`, with a store from `redis://…`" + `: 300 s
#     Without: ` + "`acquire()`" + ` throws LockAcquiringException.
# Warning: where phpredis' ` + "`OPT_PREFIX`, or Predis' `prefix`" + ` is set, SET and scripts lock the name with the prefix, and LOCK, UNLOCK and EXTEND the name without it: these do not exclude each other. Write the prefix into the names of LOCK, or use one kind only.
# At the library: both the store and ` + "`createLock`" + ` ask for 300 s by default; a shorter TTL for one of them is not enough.
#
# Lines for config.toml, for all these uses. Under each group, each of them takes the place of the line that is there.

[locks]
# 5m for ` + "`createLock($name)`, with a store from `redis://…`" + `
max_ttl = "5m"

# Masters that serve already need: redlockd members set max_ttl 5m. ` + price},
		{"--library go-redis --max-ttl 1m", cli.ExitOK, "# go-redis, with a max_ttl of 1m (of the settings):\n#   works: any lock with a TTL up to max_ttl\n"},
		{"--library huey --config some.toml", cli.ExitFailed, `
# Warning: scripts = false is in force: most libraries release with a script, and then cannot.
`},
		// A default_ttl above max_ttl would not load.
		{"--library redis-py --config some.toml", cli.ExitFailed, "\n[compat]\n# for `lock(name)`\ndefault_ttl = \"30s\"\n"},
		{"--library rq --config some.toml", cli.ExitFailed, `
[compat]
# rq:scheduler-lock:* for the scheduler's lock, versions 1 and 2
allow_unguarded = ["job-lock:*", "latch:*", "rq:scheduler-lock:*"]
`},
		{"--library shedlock --config all.toml", cli.ExitOK, "#   works: `lockAtMostFor = \"10m\"` without `safeUpdate`: 10 min, deleted and extended without comparing\n# At the library: use"},
		{"--library malkusch-lock", cli.ExitOK, "\n#   refused: `new RedisMutex($redis, $name)`, version 3\n#     it asks for a TTL of 1000 years"},
		{"--library redsync --max-ttl 1m --json", cli.ExitOK, `{
  "library": "redsync",
  "max_ttl_ms": 60000,
  "max_ttl_of": "the settings",
  "uses": [
    {
      "use": "` + "`NewMutex(name)`" + `: 8 s",
      "works": true
    }
  ]
}
`},
	} {
		code, stdout, stderr := runCommand(nil, append([]string{"check"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(stdout, c.want) || stderr != "" {
			t.Errorf("check %s: exit code %d, errors %q, got\n%s\nwant code %d and in it\n%s", c.args, code, stderr, stdout, c.code, c.want)
		}
	}
}

// The max_ttl of the membership counts, not that of the settings.
func TestCheckLibraryAsksTheMembership(t *testing.T) {
	servers, addrs := startMasters(t, 3)
	t.Setenv("REDLOCKD_MASTERS", addrs)
	if code, _, stderr := runCommand(os.Environ(), "bootstrap", "--max-ttl", "2m"); code != cli.ExitOK {
		t.Fatalf("bootstrap: exit code %d, %s", code, stderr)
	}
	check := func(wantCode int, want string, args ...string) {
		t.Helper()
		code, stdout, stderr := runCommand(os.Environ(), append([]string{"check", "--library", "symfony"}, args...)...)
		if code != wantCode || !strings.Contains(stdout, want) || stderr != "" {
			t.Errorf("check %q: exit code %d, errors %q, got\n%s\nwant code %d and in it\n%s", args, code, stderr, stdout, wantCode, want)
		}
	}
	check(cli.ExitFailed, "max_ttl of 2m (of the membership)", "--max-ttl", "5m")
	check(cli.ExitFailed, "redlockd members set max_ttl 5m", "--max-ttl", "5m")
	if code, _, stderr := runCommand(os.Environ(), "members", "set", "max_ttl", "5m"); code != cli.ExitOK {
		t.Fatalf("members set: exit code %d, %s", code, stderr)
	}
	// What is too short in the file only is no obstacle, but the file counts when all masters forget.
	check(cli.ExitOK, "max_ttl of 5m (of the membership)")
	check(cli.ExitOK, "\nmax_ttl = \"5m\"\n", "--max-ttl", "1m")
	for _, s := range servers {
		s.Kill()
	}
	check(cli.ExitFailed, "max_ttl of 1m (of the settings, for the membership cannot be read)", "--max-ttl", "1m")
}

// libraries.md quotes each refusal behind the commands that get it. Other quotations are among these.
func TestRefusalsInTheDocument(t *testing.T) {
	text, err := os.ReadFile("libraries.md")
	if err != nil {
		t.Fatal(err)
	}
	_, addrs := startMasters(t, 3) // embedded ones have other advice
	p := launch(t, "--masters", addrs, "--bootstrap")
	quoted := regexp.MustCompile("`([^`]+)`")
	answers, rest := []string{}, ""
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || !strings.HasPrefix(cells[1], "`ERR ") {
			rest += line
			continue
		}
		client, got := p.dial(), ""
		client.do("LOCK held 20s")
		for _, command := range quoted.FindAllStringSubmatch(cells[0], -1) {
			got = client.do(command[1])
		}
		if want := strings.Trim(cells[1], "`"); got != want {
			t.Errorf("libraries.md has %s\ngot  %s\nwant %s", cells[0], got, want)
		}
		answers = append(answers, got)
	}
	if len(answers) < 5 {
		t.Errorf("%d refusals are quoted in a table; want more", len(answers))
	}
	for _, quotation := range quoted.FindAllStringSubmatch(rest, -1) {
		if begin := strings.TrimSuffix(quotation[1], "…"); strings.HasPrefix(begin, "ERR ") &&
			!slices.ContainsFunc(answers, func(answer string) bool { return strings.HasPrefix(answer, begin) }) {
			t.Errorf("libraries.md quotes %q, which its table of refusals does not have", begin)
		}
	}
}

package masters

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
	"redlockd/proxy"
)

// libraryNeeds is what one lock library needs so that its usual uses work unmodified. libraries.md shows
// the same to a reader.
//
// To add one: a row in libraryTable, the text that TestLibrariesInTheDocument prints, in libraries.md,
// and its commands in libraryCommands (check_library_test.go).
type libraryNeeds struct {
	// name is what --library takes.
	name string
	// uses are what programs usually do with it. None: it needs no settings, and the caller chooses each TTL.
	uses []libraryUse
	// client is what to do at the library itself; may be empty.
	client string
	// prefix is the setting of the client by which it puts a prefix before the names of keys; may be empty.
	// It knows no key in LOCK.
	prefix string
}

// libraryUse is one usual use of a library, and the settings that it needs.
type libraryUse struct {
	call       string        // as a program writes it
	does       string        // which lock that takes, and how it releases it; may be empty
	maxTTL     time.Duration // max_ttl must be no less; 0: the caller chooses the TTL
	unguarded  []string      // allow_unguarded must have these patterns
	defaultTTL time.Duration // default_ttl must be set, for example to this; 0: it need not
	without    string        // what happens without the settings
	refused    string        // why no setting helps; empty: the settings are enough
}

var libraryTable = []libraryNeeds{
	{name: "bullmq", uses: []libraryUse{{call: "`Queue`, `Worker`, and those of Bull", refused: "they are a queue of lists, streams and sorted sets"}},
		client: "keep BullMQ at a Redis of its own, and take locks over a connection of their own"},
	{name: "celery-once", uses: []libraryUse{
		{call: "`QueueOnce`", does: "1 h, deleted without comparing", maxTTL: time.Hour, unguarded: []string{"qo_*"},
			without: "`apply_async` raises ResponseError, and the task is not queued; without allow_unguarded alone, the worker raises it when the task is done, " +
				"and the task is not queued again until the hour is over"},
	}, client: "`default_timeout` in `ONCE['settings']`, in seconds, makes the locks shorter, and max_ttl with them"},
	{name: "celery-singleton", uses: []libraryUse{
		{call: "`Singleton`", does: "no TTL, deleted without comparing; it counts from when the task is queued until it is done", maxTTL: time.Hour,
			unguarded: []string{"SINGLETONLOCK_*"}, defaultTTL: time.Hour,
			without: "`apply_async` raises ResponseError, and the task is not queued; without allow_unguarded alone, the worker raises it when the task is done, " +
				"and the task is not queued again until the TTL is over"},
		{call: "`clear_locks(app)`", refused: "it needs SCAN"},
	}, client: "set `singleton_backend_url` to redlockd, and `lock_expiry` to what a task may take, queue included; then default_ttl is not needed"},
	{name: "chatwoot", uses: []libraryUse{
		{call: "`Redis::LockManager`, `MutexApplicationJob`", does: "1 s, deleted without comparing", maxTTL: time.Second, unguarded: []string{"alfred:*LOCK::*"},
			without: "the lock is granted, `unlock` raises Redis::CommandError, and the lock stays until its TTL is over"},
		{call: "the rest of `Redis::Alfred`", refused: "it is lists, hashes and cache entries"},
	}, client: "`Redis::Alfred` uses one pool for locks and all else: only a lock manager with a pool of its own can use redlockd"},
	{name: "craft", uses: []libraryUse{
		{call: "`craft\\mutex\\Mutex` over `yii\\redis\\Mutex`, of web requests", does: "30 s", maxTTL: 30 * time.Second, without: "`acquire` throws yii\\db\\Exception"},
		{call: "the same of the console, with `expire` as Craft's documentation sets it", does: "900 s", maxTTL: 15 * time.Minute, without: "`acquire` throws yii\\db\\Exception"},
	}, client: "give the mutex a `redis` component of its own: the cache and the session are refused"},
	{name: "dapr", uses: []libraryUse{{call: "`lock.redis`, with the `expiryInSeconds` of the caller"}}, client: "only the component `lock.redis` goes to redlockd: state and pub/sub are refused"},
	{name: "discourse", uses: []libraryUse{{call: "`DistributedMutex.synchronize(key, redis: …)`", does: "61 s", maxTTL: 61 * time.Second, without: "it raises Redis::CommandError"}},
		client: "give it a `redis:` of its own: `Discourse.redis` has caches and Sidekiq's queues, too"},
	{name: "django-redis", uses: []libraryUse{
		{call: "`cache.lock(name, timeout=30)`"},
		{call: "`cache.lock(name)`", does: "no TTL", defaultTTL: time.Minute, without: "`acquire` raises ResponseError; with default_ttl the lock ends after that time, and nobody renews it"},
		{call: "`cache.add(name, value)`, of at most 16 KB", does: "300 s", maxTTL: 5 * time.Minute, without: "it raises ResponseError; with `IGNORE_EXCEPTIONS` it answers None, as if another held the lock"},
		{call: "`cache.add(id, oid, 600)` and `cache.delete(id)`, Celery's cookbook", does: "600 s, deleted without comparing", maxTTL: 10 * time.Minute, unguarded: []string{":1:*-lock-*"},
			without: "`add` raises ResponseError; without allow_unguarded alone, `delete` raises it, and the lock stays for 600 s"},
	}, client: "give locks a timeout, and a cache of their own at redlockd: it stores no other data. Django's own Redis cache behaves alike, and has no `lock`"},
	{name: "dramatiq", uses: []libraryUse{
		{call: "`ConcurrentRateLimiter(backend, name, ttl=60000)`"},
		{call: "`ConcurrentRateLimiter(backend, name)`", does: "15 min", maxTTL: 15 * time.Minute, without: "`acquire` raises ResponseError"},
		{call: "`RedisBroker`, `Barrier`", refused: "they are lists"},
	}, client: "give the limiter a `RedisBackend` of its own with redlockd's address, and a `ttl`, in ms, that an operation is sure to end in: to end one later lets another one in too early, as with a Redis. " +
		"The key stays for so long with the number 0, so `LOCK` of its name is denied. Keep the broker at a Redis of its own"},
	{name: "drupal", uses: []libraryUse{
		{call: "`\\Drupal::lock()->acquire($name)`", does: "30 s", maxTTL: 30 * time.Second, without: silentInPHP},
		{call: "`acquire('cron', 900)`, when cron runs", does: "15 min", maxTTL: 15 * time.Minute, without: "cron does not run, and says that it is already running: phpredis turns the error into false"},
		{call: "the cache", refused: "it is data, which it keeps for a year"},
	}, client: "the redis module has one connection for all that it is used for: take from its services.yml only the lock. " +
		"And set `default_socket_timeout` of PHP, 60 s, to a few seconds: phpredis 5.3 waits for so long if `EXEC` fails (NOQUORUM)"},
	{name: "flask-caching", uses: []libraryUse{
		{call: "`cache.add(key, value)`", does: "no TTL at first, then 300 s, without comparing", maxTTL: 5 * time.Minute, unguarded: []string{"flask_cache_*"}, defaultTTL: 5 * time.Minute,
			without: "it raises ResponseError; without allow_unguarded alone, the lock is granted for default_ttl, and it raises ResponseError"},
		{call: "`cache.set`, `cache.cached`", refused: "they are cache entries"},
	}, client: "give it a `Cache` of its own for locks"},
	{name: "gitlab", uses: []libraryUse{
		{call: "`Gitlab::ExclusiveLease.new(key, timeout: 60)`"},
		{call: "`Gitlab::ExclusiveLease.throttle(key)`", does: "1 h", maxTTL: time.Hour, without: "it raises Redis::CommandError"},
		{call: "`Gitlab::ExclusiveLease.reset_all!`", refused: "it needs SCAN"},
	}, client: "leases are in the shared state: keep `redis.shared_state` at a Redis of its own, unless it has nothing but leases"},
	{name: "go-redis"},
	{name: "hangfire", uses: []libraryUse{
		{call: "`AcquireDistributedLock` of Hangfire.Redis", does: "extended and released behind WATCH, which compares"},
		{call: "jobs", refused: "they are lists, sets and hashes without a TTL, over the same connection"},
	}, client: "keep the storage at a Redis of its own"},
	{name: "hiredis"},
	{name: "huey", uses: []libraryUse{
		{call: "`lock_task(name, ttl=30)` of a `RedisExpireHuey`", does: "deleted without comparing", unguarded: []string{"huey.r.*"},
			without: "the lock is granted, its release raises ResponseError, and it stays until its TTL is over"},
		{call: "`lock_task(name)` of a `RedisExpireHuey`", does: "no TTL, deleted without comparing", unguarded: []string{"huey.r.*"}, defaultTTL: time.Minute,
			without: "the task raises ResponseError"},
		{call: "the queue", refused: "it is a list"},
	}, client: "give the locks a Huey of their own, `locks = RedisExpireHuey('locks', url=…)` with redlockd's address, and use `locks.lock_task(name)` at the tasks of the other one. " +
		"Not `RedisHuey`: it keeps all its locks in one hash, which ends as a whole"},
	{name: "ioredis", prefix: "`keyPrefix`"},
	{name: "jedis"},
	{name: "kombu", uses: []libraryUse{
		{call: "`Mutex(client, name, 30)`", does: "30 s", maxTTL: 30 * time.Second, without: "it raises ResponseError"},
		{call: "the transport, and so Celery's broker", refused: "its queues are lists, and its own mutex is beside them"},
	}, client: "keep Celery's broker at a Redis of its own"},
	{name: "laravel", uses: []libraryUse{
		{call: "`Cache::lock($name, 60)`"},
		{call: "`Cache::lock($name, 600)`", maxTTL: 10 * time.Minute, without: silentInPHP},
		{call: "`Cache::lock($name)`, and `new WithoutOverlapping($key)` of jobs", does: "no TTL", defaultTTL: time.Minute, without: silentInPHP + "; the job goes back to the queue, again and again"},
		{call: "`ShouldBeUnique` without `uniqueFor`", does: "no TTL; before Laravel 13.24 deleted without comparing", unguarded: []string{"*laravel_unique_job:*"}, defaultTTL: time.Minute,
			without: "the job is never dispatched, and nothing is logged; without allow_unguarded alone, it is not dispatched again until default_ttl is over"},
		{call: "`onOneServer()`", does: "1 h", maxTTL: time.Hour, without: "the task never runs: on each server, `schedule:run` says that it already ran on another one"},
		{call: "`Isolatable` commands", does: "1 h, deleted without comparing", maxTTL: time.Hour, unguarded: []string{"*framework/command-*"},
			without: "the command never runs, and says that it is already running; without allow_unguarded alone, it runs once an hour"},
		{call: "`withoutOverlapping()`", does: "24 h, deleted without comparing", maxTTL: 24 * time.Hour, unguarded: []string{"*framework/schedule-*"},
			without: "the task never runs, and nothing is logged; without allow_unguarded alone, it runs once a day"},
	}, client: "only locks go to redlockd: give them a Redis connection of their own, and name it in REDIS_CACHE_LOCK_CONNECTION (`lock_connection` in config/cache.php). " +
		"`withoutOverlapping(60)` locks for 60 minutes; then `max_ttl = \"1h\"` is enough. `forceRelease` needs the names of its locks, with all prefixes, in allow_unguarded", prefix: "`REDIS_PREFIX`, which is set by default,"},
	{name: "lettuce"},
	{name: "malkusch-lock", uses: []libraryUse{
		{call: "`new RedisMutex($redis, $name, 3, 30)`, version 3", does: "30 s", maxTTL: 30 * time.Second, without: "`synchronized` throws LockAcquireTimeoutException after 3 s"},
		{call: "`new RedisMutex($redis, $name)`, version 3", refused: "it asks for a TTL of 1000 years, and max_ttl is at most 24h; `synchronized` throws LockAcquireTimeoutException after 3 s"},
		{call: "`new PHPRedisMutex([$redis], $name)`, version 2", does: "4 s", maxTTL: 4 * time.Second, without: "`synchronized` throws TimeoutException after 3 s"},
	}, client: "give version 3 its fourth argument, `$expireTimeout` in seconds, below max_ttl: it adds a millisecond. `DistributedMutex` has it as its third", prefix: "phpredis' `OPT_PREFIX`"},
	{name: "mastodon", uses: []libraryUse{
		{call: "`with_redis_lock(name, autorelease: 30.seconds)`"},
		{call: "`with_redis_lock(name)`", does: "15 min", maxTTL: 15 * time.Minute, without: "it raises Redis::CommandError"},
		{call: "feeds, Sidekiq", refused: "they are sorted sets, lists and cache entries, over the same connections"},
	}, client: "only a `Lockable` whose locks have a pool of their own can use redlockd"},
	{name: "mediawiki", uses: []libraryUse{
		{call: "`RedisLockManager`", does: "2 h", maxTTL: 2 * time.Hour, without: "the lock fails (lockmanager-fail-acquirelock), as if another held it: phpredis turns the error into false"},
		{call: "`lock` of a `RedisBagOStuff`", refused: "it is beside the cached data"},
	}, client: "redlockd is the only one of `lockServers`: it asks a majority of masters itself. Object caches stay at another Redis"},
	{name: "medusa", uses: []libraryUse{
		{call: "`execute(keys, job)`", does: "60 s, renewed", maxTTL: time.Minute, without: "`execute` throws ReplyError"},
		{call: "`acquire(keys, { expire: 30 })`"},
		{call: "`acquire(keys)`", does: "no TTL", defaultTTL: time.Minute, without: "`acquire` throws ReplyError; with default_ttl the lock ends after that time, and nobody renews it"},
		{call: "`releaseAll()`", refused: "it needs SCAN"},
	}, client: "give the module a `redisUrl` of its own, each `acquire` an `expire`, and an `ownerId` of its own: a lock without one can be released by every caller"},
	{name: "moodle", uses: []libraryUse{{call: "sessions in Redis", refused: "they are data; their locks are taken over the same connection, for 2 h"}},
		client: "keep the sessions at a Redis of their own"},
	{name: "n8n", uses: []libraryUse{
		{call: "the lock service"},
		{call: "the leader of several mains", does: "10 s; some versions extend and delete it without comparing", maxTTL: 10 * time.Second, unguarded: []string{"n8n:main_instance_leader"},
			without: "the leader cannot renew its key, or, where only the release does not compare, the next leader waits for 10 s"},
		{call: "the queue mode", refused: "Bull is a queue"},
	}, client: "n8n has one setting for the Redis of all of these, and Bull needs a Redis of its own"},
	{name: "nextcloud", uses: []libraryUse{{call: "`memcache.locking`", refused: "its shared locks are counters without a TTL, and exclusive ones are set without one; others ask for 24 h. phpredis makes false of each refusal, so that every file \"is locked\""}},
		client: "keep `memcache.locking` at a Redis of its own, or leave it out: Nextcloud locks in its database then"},
	{name: "node-redis"},
	{name: "phpredis", prefix: "`OPT_PREFIX`",
		client: "it answers false to a refusal, as to a lock that is held: `getLastError()` has the text, and must be cleared before the next command"},
	{name: "portalocker", uses: []libraryUse{{call: "`RedisLock`", refused: "it is a subscription, which it counts with PUBSUB; it keeps no key"}}},
	{name: "pottery", uses: []libraryUse{{call: "`Redlock(key=…, masters=…)`", does: "10 s", maxTTL: 10 * time.Second, without: "`acquire` answers False, as if another held the lock, and logs ResponseError"}},
		client: "an `auto_release_time` below min_ttl (1 s) is refused: `acquire` answers False then, as if another held the lock, and logs ResponseError"},
	{name: "predis", prefix: "`prefix`"},
	{name: "prefect", uses: []libraryUse{
		{call: "`acquire_lock(key, holder, hold_timeout=30)` of a `RedisLockManager`"},
		{call: "`acquire_lock` without `hold_timeout`, as a cache policy with a `RedisLockManager` does", does: "no TTL", defaultTTL: time.Minute, without: "it raises ResponseError, and the task fails; with default_ttl the lock ends after that time, and nobody renews it"},
		{call: "leases and messages of the server", refused: "they are streams, and data without a TTL"},
	}},
	{name: "python-redis-lock", uses: []libraryUse{{call: "`Lock.release()`", refused: "it pushes to a list; the lock is granted, and stays until its TTL is over"}}},
	{name: "quartz", uses: []libraryUse{
		{call: "the lock of quartz-redis-jobstore", does: "30 s, deleted without comparing", maxTTL: 30 * time.Second, unguarded: []string{"lock"},
			without: "the lock is granted, its release throws, and it stays until its TTL is over"},
		{call: "jobs and triggers", refused: "they are hashes and sets without a TTL, over the same connection"},
	}, client: "keep the job store at a Redis of its own. `keyPrefix` comes before `lock`, also in allow_unguarded"},
	{name: "redbeat", uses: []libraryUse{
		{call: "the scheduler's lock", does: "25 min, extended at each tick", maxTTL: 25 * time.Minute, without: "the scheduler starts without a lock, and fails when it would extend it"},
		{call: "the schedule", refused: "it is hashes and a sorted set without a TTL, over the same connection"},
	}, client: "keep `redbeat_redis_url` at a Redis of its own, set `redbeat_lock_key = None`, and start it with `redlockd run beat -- celery …`. " +
		"`redbeat_lock_timeout`, in seconds, makes the lock shorter; it must be longer than `beat_max_loop_interval`"},
	{name: "redigo"},
	{name: "redis-lock", uses: []libraryUse{
		{call: "`lock(name, 5000)`, npm's redis-lock", does: "5 s, deleted without comparing", maxTTL: 5 * time.Second, unguarded: []string{"lock.*"},
			without: "the lock is granted, its release rejects with an error, and it stays until its TTL is over"},
	}, client: "it takes each error for a lock that is held, tries again for ever, and says nothing: give it TTLs between min_ttl (1 s) and max_ttl"},
	{name: "redis-pm"},
	{name: "redis-py", uses: []libraryUse{
		{call: "`lock(name, timeout=30)`"},
		{call: "`lock(name)`", does: "no TTL", defaultTTL: time.Minute, without: "`acquire` raises ResponseError; with default_ttl the lock ends after that time, and nobody renews it"},
	}},
	{name: "redis-rb"},
	{name: "redis-semaphore", uses: []libraryUse{{call: "`Mutex`, `Semaphore`", does: "10 s", maxTTL: 10 * time.Second, without: "taking the lock fails"}}, prefix: "ioredis' `keyPrefix`"},
	{name: "redislock"},
	{name: "redisson", uses: []libraryUse{
		{call: "`getLock`, `getReadWriteLock`, `getSpinLock`", does: "30 s, renewed", maxTTL: 30 * time.Second, without: "taking the lock fails"},
		{call: "`getMultiLock`, `RedissonRedLock` without a lease", does: "30 s, renewed", maxTTL: 30 * time.Second, without: "taking the lock fails"},
		{call: "`getFairLock`", refused: "it queues in a list"},
		{call: "`getFencedLock`, semaphores, latches", refused: "their counters have no TTL. With a default_ttl they are served, and each counter begins anew after that time: fences fall back, permits come back. Use LOCK with FENCE or SLOTS"},
	}, client: "a multi-lock with a lease extends its locks without comparing, and is refused by `lock()` until their names are in allow_unguarded. " +
		"Users with `resources` need those of the keys beside a lock, too: `{report}:*` and `redisson_unlock_latch:{report}:*`. " +
		"Where a process holds more than 40 read locks at a time: `setLockWatchdogBatchSize(40)`"},
	{name: "redlock", prefix: "ioredis' `keyPrefix`"},
	{name: "redlock-py"},
	{name: "redlock-rb"},
	{name: "redsync", uses: []libraryUse{{call: "`NewMutex(name)`", does: "8 s", maxTTL: 8 * time.Second, without: "taking the lock fails"}}},
	{name: "resque-scheduler", uses: []libraryUse{
		{call: "the master's lock", does: "180 s, deleted without comparing", maxTTL: 3 * time.Minute, unguarded: []string{"resque:*resque_scheduler_master_lock"},
			without: "the lock is granted, its release raises Redis::CommandError, and another scheduler takes over after up to 180 s"},
		{call: "the queues and the schedule", refused: "they are lists, hashes and sorted sets without a TTL, over the same connection"},
	}, client: "keep `Resque.redis` at a Redis of its own"},
	{name: "rq", uses: []libraryUse{
		{call: "the scheduler's lock, version 3", does: "61 s", maxTTL: 61 * time.Second, without: "taking the lock fails"},
		{call: "the scheduler's lock, versions 1 and 2", does: "61 s, extended and deleted without comparing", maxTTL: 61 * time.Second, unguarded: []string{"rq:scheduler-lock:*"},
			without: "taking the lock fails; without allow_unguarded alone, the lock is granted, and cannot be extended"},
		{call: "the queue", refused: "it is a list"},
	}, client: "RQ keeps its jobs in the same Redis: this is only for a scheduler whose lock has a connection of its own"},
	{name: "rslock"},
	{name: "rueidislock", uses: []libraryUse{{call: "`WithContext(ctx, name)`", does: "5 s, renewed", maxTTL: 5 * time.Second, without: "taking the lock fails"}}},
	{name: "sentry", uses: []libraryUse{{call: "`locks.get(key, duration=…)` with the backend `RedisLockBackend`"}},
		client: "give the lock backend a cluster of its own in `redis.clusters`: Sentry's other Redis data is refused"},
	{name: "shedlock", uses: []libraryUse{
		{call: "`lockAtMostFor = \"10m\"` with `safeUpdate(true)`", does: "10 min", maxTTL: 10 * time.Minute, without: "the Redis client throws, and the task does not run"},
		{call: "`lockAtMostFor = \"10m\"` without `safeUpdate`", does: "10 min, deleted and extended without comparing", maxTTL: 10 * time.Minute, unguarded: []string{"job-lock:*"},
			without: "the Redis client throws, and the task does not run; without allow_unguarded alone, it runs, ShedLock throws LockException (Can not remove node), and the lock stays for lockAtMostFor"},
	}, client: "use `safeUpdate(true)`. max_ttl must be no less than the longest `lockAtMostFor`"},
	{name: "sherlock", uses: []libraryUse{{call: "`RedisLock(name)`", does: "60 s", maxTTL: time.Minute, without: "`acquire` raises ResponseError"}},
		client: "give locks no `expire=None`: version 0.4 then answers True and locks nothing, on a Redis neither"},
	{name: "sidekiq-unique-jobs", uses: []libraryUse{{call: "all its locks", refused: "they are lists, hashes and a sorted set of digests without a TTL, over Sidekiq's own connection"}},
		client: "keep Sidekiq at a Redis of its own, and take a lock in `perform`"},
	{name: "spring-integration", uses: []libraryUse{{call: "`RedisLockRegistry`", does: "60 s", maxTTL: time.Minute, without: "taking the lock fails"}}},
	{name: "symfony", uses: []libraryUse{
		{call: "`new RedisStore($redis, 30)` and `createLock($name, 30)`", does: "30 s", maxTTL: 30 * time.Second, without: "`acquire()` throws LockAcquiringException"},
		{call: "`createLock($name)`, with a store from `redis://…`", does: "300 s", maxTTL: 5 * time.Minute, without: "`acquire()` throws LockAcquiringException"},
	}, client: "both the store and `createLock` ask for 300 s by default; a shorter TTL for one of them is not enough", prefix: "phpredis' `OPT_PREFIX`, or Predis' `prefix`,"},
	{name: "tooz", uses: []libraryUse{
		{call: "`get_lock(name)`", does: "30 s, renewed with the heartbeat", maxTTL: 30 * time.Second, without: "`start` and `acquire` raise ToozError"},
		{call: "groups and leaders", refused: "they are hashes without a TTL. With a default_ttl they are served, and end after that time"},
	}},
	{name: "walrus", uses: []libraryUse{{call: "`db.lock(name, ttl=…)`", refused: "its release pushes to a list, from which waiters pop; the lock is granted, and stays until its TTL is over"}}},
	{name: "yii", uses: []libraryUse{{call: "`yii\\redis\\Mutex`", does: "30 s", maxTTL: 30 * time.Second, without: "`acquire` throws yii\\db\\Exception"}},
		client: "give the mutex a `redis` component of its own: the cache and the session are refused"},
}

// silentInPHP is what becomes of an error behind the phpredis extension.
const silentInPHP = "it answers false, as if another held the lock, and nothing is logged: phpredis turns the error into false (Predis throws it)"

// findLibrary returns the row of a library. The error names the nearest ones, and all.
func findLibrary(name string) (*libraryNeeds, error) {
	names, lower := libraryNames(), strings.ToLower(name)
	if at := slices.Index(names, lower); at >= 0 {
		return &libraryTable[at], nil
	}
	hint := config.DidYouMean(name, names)
	if longer := slices.DeleteFunc(libraryNames(), func(n string) bool { return lower == "" || !strings.HasPrefix(n, lower) }); len(longer) > 0 {
		hint = " (did you mean " + strings.Join(longer, " or ") + "?)"
	}
	return nil, fmt.Errorf("no library %q is known%s; known are %s", name, hint, strings.Join(names, ", "))
}

func libraryNames() (names []string) {
	for _, l := range libraryTable {
		names = append(names, l.name)
	}
	return names
}

// libraryFinding compares the needs of a library with what is in force, in the shape of its JSON.
type libraryFinding struct {
	Library  string `json:"library"`
	MaxTTLMs int64  `json:"max_ttl_ms"` // in force
	// MaxTTLOf says where that is from: the membership counts, if it can be read.
	MaxTTLOf string       `json:"max_ttl_of"`
	Uses     []useFinding `json:"uses,omitempty"`
	// Lines are those that config.toml lacks. They are TOML.
	Lines string `json:"lines_for_config_toml,omitempty"`
	// KeyPrefix warns of a setting of the client.
	KeyPrefix string `json:"key_prefix,omitempty"`
	// SetMaxTTL is what the membership needs; empty: nothing.
	SetMaxTTL    string `json:"members_set_max_ttl,omitempty"`
	AtTheLibrary string `json:"at_the_library,omitempty"`
	Warning      string `json:"warning,omitempty"`
}

// useFinding is one usual use. Without is given with Needs.
type useFinding struct {
	Use     string   `json:"use"`
	Works   bool     `json:"works"`
	Needs   []string `json:"needs,omitempty"`
	Without string   `json:"without,omitempty"`
	Refused string   `json:"refused,omitempty"`
}

// checkLibrary prints which usual uses of a library work with what is in force, and what others need.
func checkLibrary(call *cli.Call, name string) error {
	library, err := findLibrary(name)
	if err != nil {
		return cli.Usage(err)
	}
	c := call.Settings
	f := libraryFinding{Library: library.name, MaxTTLOf: "the settings", Lines: library.lines(c), AtTheLibrary: library.client, KeyPrefix: library.warnOfPrefix()}
	if c.Front.NoScripts {
		f.Warning = "scripts = false is in force: most libraries release with a script, and then cannot"
	}
	maxTTL := c.Engine.MaxTTL
	if len(c.Engine.Masters) > 0 {
		f.MaxTTLOf = "the settings, for the membership cannot be read"
		if _, membership := probe(c); membership.Known {
			maxTTL, f.MaxTTLOf = membership.MaxTTL, "the membership"
		}
	}
	f.MaxTTLMs = maxTTL.Milliseconds()
	missing, longest := false, maxTTL
	for _, u := range library.uses {
		use := useFinding{Use: u.title(), Needs: u.lacks(maxTTL, c.Front), Refused: u.refused}
		if use.Works = len(use.Needs) == 0 && u.refused == ""; len(use.Needs) > 0 {
			missing, use.Without = true, u.without
		}
		longest = max(longest, u.maxTTL)
		f.Uses = append(f.Uses, use)
	}
	if longest > maxTTL {
		f.SetMaxTTL = config.FormatDuration(longest)
	}
	if call.On("json") {
		err = cli.PrintJSON(call.Stdout, f)
	} else {
		err = f.print(call.Stdout)
	}
	if err == nil && missing {
		err = cli.ExitCode(cli.ExitFailed)
	}
	return err
}

// print writes the finding as TOML: all but the lines for config.toml are comments.
func (f *libraryFinding) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, with a max_ttl of %s (of %s):\n", f.Library, config.FormatDuration(time.Duration(f.MaxTTLMs)*time.Millisecond), f.MaxTTLOf)
	if len(f.Uses) == 0 {
		b.WriteString("#   works: any lock with a TTL up to max_ttl\n")
	}
	for _, u := range f.Uses {
		switch {
		case u.Refused != "":
			fmt.Fprintf(&b, "#   refused: %s\n#     %s.\n", u.Use, u.Refused)
		case u.Works:
			fmt.Fprintf(&b, "#   works: %s\n", u.Use)
		default:
			fmt.Fprintf(&b, "#   needs %s: %s\n#     Without: %s.\n", strings.Join(u.Needs, ", "), u.Use, u.Without)
		}
	}
	if f.Warning != "" {
		fmt.Fprintf(&b, "# Warning: %s.\n", f.Warning)
	}
	if f.KeyPrefix != "" {
		fmt.Fprintf(&b, "# Warning: %s.\n", f.KeyPrefix)
	}
	if f.AtTheLibrary != "" {
		fmt.Fprintf(&b, "# At the library: %s.\n", f.AtTheLibrary)
	}
	if f.Lines != "" {
		fmt.Fprintf(&b, "#\n# Lines for config.toml, for all these uses. Under each group, each of them takes the place of the line that is there.\n%s", f.Lines)
	}
	if f.SetMaxTTL != "" {
		fmt.Fprintf(&b, "\n# Masters that serve already need: redlockd members set max_ttl %s. The price: if a majority of them forgets, no lock is granted for so long.\n", f.SetMaxTTL)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// warnOfPrefix says what a prefix of the client does to locks; empty: it has none.
func (l *libraryNeeds) warnOfPrefix() string {
	if l.prefix == "" {
		return ""
	}
	return "where " + strings.TrimSuffix(l.prefix, ",") + " is set, SET and scripts lock the name with the prefix, and LOCK, UNLOCK and EXTEND the name without it: these do not exclude each other. " +
		"Write the prefix into the names of LOCK, or use one kind only"
}

func (u *libraryUse) title() string { return u.call + strings.TrimSuffix(": "+u.does, ": ") }

// lacks returns the settings that the use needs and that are not in force.
func (u *libraryUse) lacks(maxTTL time.Duration, front proxy.Options) (needs []string) {
	if u.maxTTL > maxTTL {
		needs = append(needs, "max_ttl = "+config.TOML(config.FormatDuration(u.maxTTL)))
	}
	if patterns := u.unlisted(front.AllowUnguarded); len(patterns) > 0 {
		needs = append(needs, "allow_unguarded = "+config.TOML(patterns))
	}
	if u.defaultTTL > 0 && front.DefaultTTL == 0 {
		needs = append(needs, "default_ttl = "+config.TOML(config.FormatDuration(u.defaultTTL)))
	}
	return needs
}

// unlisted returns the patterns of the use that a list lacks.
func (u *libraryUse) unlisted(patterns []string) []string {
	return slices.DeleteFunc(slices.Clone(u.unguarded), func(p string) bool { return slices.Contains(patterns, "*") || slices.Contains(patterns, p) })
}

// lines returns the lines that config.toml lacks so that all uses work, by their order in it, with the
// uses that need each. A list has also what the configuration has in it.
func (l *libraryNeeds) lines(c *config.Config) string {
	maxTTL, defaultTTL, patterns := c.Engine.MaxTTL, c.Front.DefaultTTL, slices.Clone(c.Front.AllowUnguarded)
	var forMaxTTL, forUnguarded, forDefaultTTL string // comments
	for _, u := range l.uses {
		if u.maxTTL > c.Engine.MaxTTL {
			maxTTL = max(maxTTL, u.maxTTL)
			forMaxTTL += fmt.Sprintf("# %s for %s\n", config.FormatDuration(u.maxTTL), u.call)
		}
		if more := u.unlisted(c.Front.AllowUnguarded); len(more) > 0 {
			patterns = append(patterns, u.unlisted(patterns)...)
			forUnguarded += fmt.Sprintf("# %s for %s\n", strings.Join(more, ", "), u.call)
		}
		if u.defaultTTL > 0 && c.Front.DefaultTTL == 0 {
			defaultTTL = max(defaultTTL, u.defaultTTL)
			forDefaultTTL += fmt.Sprintf("# for %s\n", u.call)
		}
	}
	text := ""
	if forMaxTTL != "" {
		text += "\n[locks]\n" + forMaxTTL + "max_ttl = " + config.TOML(config.FormatDuration(maxTTL)) + "\n"
	}
	if forUnguarded+forDefaultTTL != "" {
		text += "\n[compat]\n"
	}
	if forUnguarded != "" {
		text += forUnguarded + "allow_unguarded = " + config.TOML(patterns) + "\n"
	}
	if forDefaultTTL != "" { // above max_ttl, it would not load
		text += forDefaultTTL + "default_ttl = " + config.TOML(config.FormatDuration(min(defaultTTL, maxTTL))) + "\n"
	}
	return text
}

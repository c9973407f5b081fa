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
	{name: "django-redis", uses: []libraryUse{
		{call: "`cache.lock(name, timeout=30)`"},
		{call: "`cache.lock(name)`", does: "no TTL", defaultTTL: time.Minute, without: "`acquire` raises ResponseError; with default_ttl the lock ends after that time, and nobody renews it"},
		{call: "`cache.add(name, value)`", does: "300 s", maxTTL: 5 * time.Minute, without: "it raises ResponseError; with `IGNORE_EXCEPTIONS` it answers None, as if another held the lock"},
		{call: "`cache.add(id, oid, 600)` and `cache.delete(id)`, Celery's cookbook", does: "600 s, deleted without comparing", maxTTL: 10 * time.Minute, unguarded: []string{":1:*-lock-*"},
			without: "`add` raises ResponseError; without allow_unguarded alone, `delete` raises it, and the lock stays for 600 s"},
	}, client: "give locks a timeout, and a cache of their own at redlockd: it stores no other data. Django's own Redis cache behaves alike, and has no `lock`"},
	{name: "go-redis"},
	{name: "hiredis"},
	{name: "huey", uses: []libraryUse{
		{call: "`lock_task(name, ttl=30)` of a `RedisExpireHuey`", does: "deleted without comparing", unguarded: []string{"huey.r.*"},
			without: "the lock is granted, its release raises ResponseError, and it stays until its TTL is over"},
		{call: "`lock_task(name)` of a `RedisExpireHuey`", does: "no TTL, deleted without comparing", unguarded: []string{"huey.r.*"}, defaultTTL: time.Minute,
			without: "the task raises ResponseError"},
		{call: "the queue", refused: "it is a list"},
	}, client: "give the locks a Huey of their own, `locks = RedisExpireHuey('locks', url=…)` with redlockd's address, and use `locks.lock_task(name)` at the tasks of the other one. " +
		"Not `RedisHuey`: it keeps all its locks in one hash, which ends as a whole"},
	{name: "ioredis"},
	{name: "jedis"},
	{name: "laravel", uses: []libraryUse{
		{call: "`Cache::lock($name, 60)`"},
		{call: "`Cache::lock($name, 120)`", maxTTL: 2 * time.Minute, without: silentInPHP},
		{call: "`Cache::lock($name)`, and `new WithoutOverlapping($key)` of jobs", does: "no TTL", defaultTTL: time.Minute, without: silentInPHP + "; the job goes back to the queue, again and again"},
		{call: "`ShouldBeUnique` without `uniqueFor`", does: "no TTL; before Laravel 13.24 deleted without comparing", unguarded: []string{"*laravel_unique_job:*"}, defaultTTL: time.Minute,
			without: "the job is never dispatched, and nothing is logged; without allow_unguarded alone, it is not dispatched again until default_ttl is over"},
		{call: "`onOneServer()`", does: "1 h", maxTTL: time.Hour, without: "the task never runs: on each server, `schedule:run` says that it already ran on another one"},
		{call: "`Isolatable` commands", does: "1 h, deleted without comparing", maxTTL: time.Hour, unguarded: []string{"*framework/command-*"},
			without: "the command never runs, and says that it is already running; without allow_unguarded alone, it runs once an hour"},
		{call: "`withoutOverlapping()`", does: "24 h, deleted without comparing", maxTTL: 24 * time.Hour, unguarded: []string{"*framework/schedule-*"},
			without: "the task never runs, and nothing is logged; without allow_unguarded alone, it runs once a day"},
	}, client: "only locks go to redlockd: give them a Redis connection of their own, and name it in REDIS_CACHE_LOCK_CONNECTION (`lock_connection` in config/cache.php). " +
		"`withoutOverlapping(60)` locks for 60 minutes; then `max_ttl = \"1h\"` is enough. `forceRelease` needs the names of its locks, with all prefixes, in allow_unguarded"},
	{name: "lettuce"},
	{name: "malkusch-lock", uses: []libraryUse{
		{call: "`new RedisMutex($redis, $name, 3, 30)`, version 3", does: "30 s", maxTTL: 30 * time.Second, without: "`synchronized` throws LockAcquireTimeoutException after 3 s"},
		{call: "`new RedisMutex($redis, $name)`, version 3", refused: "it asks for a TTL of 1000 years, and max_ttl is at most 24h; `synchronized` throws LockAcquireTimeoutException after 3 s"},
		{call: "`new PHPRedisMutex([$redis], $name)`, version 2", does: "4 s", maxTTL: 4 * time.Second, without: "`synchronized` throws TimeoutException after 3 s"},
	}, client: "give version 3 its fourth argument, `$expireTimeout` in seconds, below max_ttl: it adds a millisecond. `DistributedMutex` has it as its third"},
	{name: "node-redis"},
	{name: "phpredis"},
	{name: "pottery", uses: []libraryUse{{call: "`Redlock(key=…, masters=…)`", does: "10 s", maxTTL: 10 * time.Second, without: "taking the lock fails"}}},
	{name: "python-redis-lock", uses: []libraryUse{{call: "`Lock.release()`", refused: "it pushes to a list; the lock is granted, and stays until its TTL is over"}}},
	{name: "redigo"},
	{name: "redis-pm"},
	{name: "redis-py", uses: []libraryUse{
		{call: "`lock(name, timeout=30)`"},
		{call: "`lock(name)`", does: "no TTL", defaultTTL: time.Minute, without: "`acquire` raises ResponseError; with default_ttl the lock ends after that time, and nobody renews it"},
	}},
	{name: "redis-rb"},
	{name: "redis-semaphore", uses: []libraryUse{{call: "`Mutex`, `Semaphore`", does: "10 s", maxTTL: 10 * time.Second, without: "taking the lock fails"}}},
	{name: "redislock"},
	{name: "redisson", uses: []libraryUse{
		{call: "`getLock`, `getReadWriteLock`, `getSpinLock`", does: "30 s, renewed", maxTTL: 30 * time.Second, without: "taking the lock fails"},
		{call: "`getMultiLock`, `RedissonRedLock` without a lease", does: "30 s, renewed", maxTTL: 30 * time.Second, without: "taking the lock fails"},
		{call: "`getFairLock`", refused: "it queues in a list"},
		{call: "`getFencedLock`, semaphores, latches", refused: "their counters have no TTL. With a default_ttl they are served, and each counter begins anew after that time: fences fall back, permits come back. Use LOCK with FENCE or SLOTS"},
	}, client: "a multi-lock with a lease extends its locks without comparing, and is refused by `lock()` until their names are in allow_unguarded. " +
		"Users with `resources` need those of the keys beside a lock, too: `{report}:*` and `redisson_unlock_latch:{report}:*`. " +
		"Where a process holds more than 40 read locks at a time: `setLockWatchdogBatchSize(40)`"},
	{name: "redlock"},
	{name: "redlock-py"},
	{name: "redsync", uses: []libraryUse{{call: "`NewMutex(name)`", does: "8 s", maxTTL: 8 * time.Second, without: "taking the lock fails"}}},
	{name: "rq", uses: []libraryUse{
		{call: "the scheduler's lock, version 3", does: "61 s", maxTTL: 61 * time.Second, without: "taking the lock fails"},
		{call: "the scheduler's lock, versions 1 and 2", does: "61 s, extended and deleted without comparing", maxTTL: 61 * time.Second, unguarded: []string{"rq:scheduler-lock:*"},
			without: "taking the lock fails; without allow_unguarded alone, the lock is granted, and cannot be extended"},
		{call: "the queue", refused: "it is a list"},
	}, client: "RQ keeps its jobs in the same Redis: this is only for a scheduler whose lock has a connection of its own"},
	{name: "rslock"},
	{name: "rueidislock", uses: []libraryUse{{call: "`WithContext(ctx, name)`", does: "5 s, renewed", maxTTL: 5 * time.Second, without: "taking the lock fails"}}},
	{name: "shedlock", uses: []libraryUse{
		{call: "`lockAtMostFor = \"10m\"` with `safeUpdate(true)`", does: "10 min", maxTTL: 10 * time.Minute, without: "the Redis client throws, and the task does not run"},
		{call: "`lockAtMostFor = \"10m\"` without `safeUpdate`", does: "10 min, deleted and extended without comparing", maxTTL: 10 * time.Minute, unguarded: []string{"job-lock:*"},
			without: "the Redis client throws, and the task does not run; without allow_unguarded alone, it runs, ShedLock throws LockException (Can not remove node), and the lock stays for lockAtMostFor"},
	}, client: "use `safeUpdate(true)`. max_ttl must be no less than the longest `lockAtMostFor`"},
	{name: "sherlock", uses: []libraryUse{{call: "`RedisLock(name)`", does: "60 s", maxTTL: time.Minute, without: "`acquire` raises ResponseError"}},
		client: "give locks no `expire=None`: version 0.4 then answers True and locks nothing, on a Redis neither"},
	{name: "spring-integration", uses: []libraryUse{{call: "`RedisLockRegistry`", does: "60 s", maxTTL: time.Minute, without: "taking the lock fails"}}},
	{name: "symfony", uses: []libraryUse{
		{call: "`new RedisStore($redis, 30)` and `createLock($name, 30)`", does: "30 s", maxTTL: 30 * time.Second, without: "`acquire()` throws LockAcquiringException"},
		{call: "`createLock($name)`, with a store from `redis://…`", does: "300 s", maxTTL: 5 * time.Minute, without: "`acquire()` throws LockAcquiringException"},
	}, client: "both the store and `createLock` ask for 300 s by default; a shorter TTL for one of them is not enough"},
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
	f := libraryFinding{Library: library.name, MaxTTLOf: "the settings", Lines: library.lines(c), AtTheLibrary: library.client}
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

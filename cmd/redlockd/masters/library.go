package masters

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"redlockd/cmd/redlockd/cli"
	"redlockd/cmd/redlockd/config"
)

// libraryNeeds is what one lock library needs so that it works unmodified, with its own defaults.
// libraries.md shows the same to a reader.
//
// To add one: a row in libraryTable, and the table that TestLibrariesInTheDocument prints, in
// libraries.md.
type libraryNeeds struct {
	// name is what --library takes.
	name string
	// settings are those that differ from the defaults.
	settings []libraryNeed
	// client is what to do at the library itself, or what of it is refused; may be empty.
	client string
}

// libraryNeed is one setting. One of the three values is given.
type libraryNeed struct {
	maxTTL     time.Duration // at least
	defaultTTL time.Duration // any, if one is set
	unguarded  []string      // patterns for allow_unguarded
	why        string
}

var libraryTable = []libraryNeeds{
	{name: "celery-once", settings: []libraryNeed{
		{maxTTL: time.Hour, why: "a task is locked for 1 h, or for its own timeout"},
		{unguarded: []string{"qo_*"}, why: "the worker deletes the lock without comparing"},
	}},
	{name: "celery-singleton", settings: []libraryNeed{
		{maxTTL: time.Hour, why: "a task is locked from when it is queued until it is done: as long as that may take"},
		{defaultTTL: time.Hour, why: "it locks without a TTL, unless lock_expiry is set"},
		{unguarded: []string{"SINGLETONLOCK_*"}, why: "the worker deletes the lock without comparing"},
	}, client: "set `singleton_backend_url` to redlockd; `clear_locks` is refused, for it needs SCAN"},
	{name: "django", settings: []libraryNeed{
		{defaultTTL: time.Minute, why: "`cache.lock(…)` without a timeout has no TTL; it then ends after this time, and nobody renews it"},
	}, client: "give locks a timeout, and a cache of their own at redlockd"},
	{name: "go-redis"},
	{name: "hiredis"},
	{name: "ioredis"},
	{name: "jedis"},
	{name: "laravel", settings: []libraryNeed{
		{defaultTTL: time.Minute, why: "`Cache::lock($name)` without seconds has no TTL"},
	}, client: "`forceRelease` deletes without comparing: it needs the names of its locks, with all prefixes, in allow_unguarded"},
	{name: "lettuce"},
	{name: "node-redis"},
	{name: "phpredis"},
	{name: "pottery"},
	{name: "redigo"},
	{name: "redis-pm"},
	{name: "redis-py", settings: []libraryNeed{
		{defaultTTL: time.Minute, why: "`Lock` without a timeout has no TTL; it then ends after this time, and nobody renews it"},
	}, client: "give locks a timeout: then it needs nothing"},
	{name: "redis-rb"},
	{name: "redis-semaphore"},
	{name: "redislock"},
	{name: "redisson", client: "a multi-lock with a lease extends its locks without comparing, and is refused by `lock()` until their names are in allow_unguarded; without a lease it needs nothing. " +
		"Users with `resources` need those of the keys beside a lock, too: `{report}:*` and `redisson_unlock_latch:{report}:*`. " +
		"Where a process holds more than 40 read locks at a time: `setLockWatchdogBatchSize(40)`"},
	{name: "redlock"},
	{name: "redlock-py"},
	{name: "redsync"},
	{name: "rq", settings: []libraryNeed{
		{maxTTL: 61 * time.Second, why: "the scheduler's lock lives for 60 s and its interval"},
		{unguarded: []string{"rq:scheduler-lock:*"}, why: "the lock is extended and deleted without comparing"},
	}, client: "RQ keeps its jobs in the same Redis, which redlockd refuses: only for a scheduler whose lock has a connection of its own. " +
		"With a longer max_ttl alone, the lock is granted, and then cannot be extended"},
	{name: "rslock"},
	{name: "rueidislock"},
	{name: "shedlock", settings: []libraryNeed{
		{unguarded: []string{"job-lock:*"}, why: "without `safeUpdate` it releases with DEL and extends with SET XX. The lock itself is granted without this, " +
			"for it is taken as with `safeUpdate`; its release and extension are refused, and it ends after `lockAtMostFor`"},
	}, client: "better use `safeUpdate(true)`: then it needs nothing. `lockAtMostFor` must not be above max_ttl"},
	{name: "spring-integration"},
	{name: "symfony", settings: []libraryNeed{
		{maxTTL: 5 * time.Minute, why: "its store takes a lock for 300 s first, and for the lock's own TTL behind that"},
	}, client: "or give the store a shorter time: `new RedisStore($redis, 30)`; then it needs nothing"},
}

// findLibrary returns the row of a library. The error names those that there are.
func findLibrary(name string) (*libraryNeeds, error) {
	for i := range libraryTable {
		if strings.EqualFold(libraryTable[i].name, name) {
			return &libraryTable[i], nil
		}
	}
	return nil, fmt.Errorf("no library %q is known%s; known are %s", name, config.DidYouMean(name, libraryNames()), strings.Join(libraryNames(), ", "))
}

func libraryNames() (names []string) {
	for _, l := range libraryTable {
		names = append(names, l.name)
	}
	return names
}

// checkLibrary prints what the configuration lacks for a library.
func checkLibrary(w io.Writer, c *config.Config, name string) error {
	library, err := findLibrary(name)
	if err != nil {
		return cli.Usage(err)
	}
	return library.print(w, c)
}

// print writes the lines for config.toml that the configuration lacks. They are TOML: all other lines
// are comments.
func (l *libraryNeeds) print(w io.Writer, c *config.Config) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", l.name)
	missing := l.missing(c)
	switch {
	case len(l.settings) == 0:
		b.WriteString("# It needs no settings.\n")
	case len(missing) == 0:
		b.WriteString("# The settings in effect are enough for it.\n")
	default:
		b.WriteString("# Lines for config.toml. Under each group, each of them takes the place of the line that is there.\n")
	}
	group := ""
	for _, line := range missing {
		of, key, _ := strings.Cut(line.name, ".")
		if of != group {
			group = of
			fmt.Fprintf(&b, "\n[%s]\n", group)
		}
		for _, why := range line.why {
			fmt.Fprintf(&b, "# %s.\n", why)
		}
		fmt.Fprintf(&b, "%s = %s\n", key, line.value)
		if line.name == maxTTLName {
			fmt.Fprintf(&b, "# Masters that serve already need besides: redlockd members set max_ttl %s. If a majority of them forgets, no lock is granted for so long.\n",
				strings.Trim(line.value, `"`))
		}
	}
	if l.client != "" {
		fmt.Fprintf(&b, "\n# At the library: %s.\n", l.client)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// missingLine is a line of config.toml, and the reasons for it.
type missingLine struct {
	name, value string
	why         []string
}

const maxTTLName = "locks.max_ttl"

// missing returns the lines that the configuration lacks, by their order in config.toml. A list has
// also what the configuration has in it.
func (l *libraryNeeds) missing(c *config.Config) []missingLine {
	maxTTL, unguarded, defaultTTL := missingLine{name: maxTTLName}, missingLine{name: "compat.allow_unguarded"}, missingLine{name: "compat.default_ttl"}
	patterns := slices.Clone(c.Front.AllowUnguarded)
	for _, need := range l.settings {
		if need.maxTTL > c.Engine.MaxTTL {
			maxTTL.set(config.FormatDuration(need.maxTTL), need.why)
		}
		if need.defaultTTL > 0 && c.Front.DefaultTTL == 0 {
			defaultTTL.set(config.FormatDuration(need.defaultTTL), need.why)
		}
		for _, pattern := range need.unguarded {
			if !slices.Contains(patterns, "*") && !slices.Contains(patterns, pattern) {
				patterns = append(patterns, pattern)
				unguarded.set(patterns, need.why)
			}
		}
	}
	return slices.DeleteFunc([]missingLine{maxTTL, unguarded, defaultTTL}, func(line missingLine) bool { return line.value == "" })
}

func (line *missingLine) set(value any, why string) {
	line.value, line.why = config.TOML(value), append(line.why, why)
}

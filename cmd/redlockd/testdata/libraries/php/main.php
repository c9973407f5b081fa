<?php
// Drives a lock library of PHP by lines on standard input, see ../README.md.

use Illuminate\Cache\RedisStore as LaravelStore;
use Illuminate\Redis\RedisManager;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\LockInterface;
use Symfony\Component\Lock\Store\RedisStore;

const RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end';
const EXTEND = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end';

/** The usual lock by hand on phpredis. */
final class ByHand
{
    private string $name = '';
    private string $token = '';

    public function __construct(private Redis $redis)
    {
    }

    public function acquire(string $name, int $ttl, bool $wait): string
    {
        $token = bin2hex(random_bytes(16));
        for ($end = microtime(true) + 10; ; usleep(50000)) {
            if ($this->checked($this->redis->set($name, $token, ['nx', 'px' => $ttl]))) {
                $this->name = $name;
                $this->token = $token;
                return 'ok';
            }
            if (!$wait || microtime(true) > $end) {
                return 'refused';
            }
        }
    }

    public function extend(int $ttl): string
    {
        return $this->run(EXTEND, [$this->name, $this->token, $ttl]);
    }

    public function inspect(): string
    {
        return $this->checked($this->redis->get($this->name)) === $this->token ? 'held' : 'lost';
    }

    public function release(): string
    {
        return $this->run(RELEASE, [$this->name, $this->token]);
    }

    public function ping(): string
    {
        $this->redis->ping();
        return 'ok';
    }

    private function run(string $script, array $args): string
    {
        $this->redis->clearLastError();
        $reply = $this->redis->evalSha(sha1($script), $args, 1);
        if ($reply === false && str_starts_with((string) $this->redis->getLastError(), 'NOSCRIPT')) {
            $this->redis->clearLastError();
            $reply = $this->redis->eval($script, $args, 1);
        }
        return $this->checked($reply) === 1 ? 'ok' : 'refused';
    }

    // phpredis answers false both to null and to an error.
    private function checked(mixed $reply): mixed
    {
        $error = $this->redis->getLastError();
        $this->redis->clearLastError();
        if ($reply === false && $error !== null) {
            throw new RuntimeException($error);
        }
        return $reply;
    }
}

/** Symfony Lock, which keeps all holders of a lock in a sorted set. */
final class Symfony
{
    private LockFactory $factory;
    private ?LockInterface $lock = null;

    /** A reader shares the lock with other readers. */
    public function __construct(private Redis $redis, private bool $reads)
    {
        // The store takes every lock for its 300 s first, and then sets the TTL of the lock.
        $this->factory = new LockFactory(new RedisStore($redis));
    }

    public function acquire(string $name, int $ttl, bool $wait): string
    {
        $next = $this->factory->createLock($name, $ttl / 1000, false);
        if (!($this->reads ? $next->acquireRead($wait) : $next->acquire($wait))) {
            return 'refused';
        }
        $this->lock = $next;
        return 'ok';
    }

    public function extend(int $ttl): string
    {
        try {
            $this->lock->refresh($ttl / 1000);
            return 'ok';
        } catch (LockConflictedException) {
            return 'refused';
        }
    }

    public function inspect(): string
    {
        return $this->lock->isAcquired() ? 'held' : 'lost';
    }

    public function release(): string
    {
        $this->lock->release();
        return 'silent';
    }

    public function ping(): string
    {
        try {
            $this->redis->ping();
        } catch (RedisException) { // it does not connect again by itself
            $this->redis->connect(...$GLOBALS['address']);
        }
        return 'ok';
    }
}

/**
 * Sends a script as the store of Symfony Lock 7 does: by its digest, and if the server does not know that, it loads the script first. The scripts
 * themselves are those of Symfony Lock 5.4, which Debian has and which sends them with EVAL.
 */
final class ByDigest extends Redis
{
    public function eval($script, $args = [], $keys = 0): mixed
    {
        $result = $this->evalSha(sha1($script), $args, $keys);
        if (str_starts_with((string) $this->getLastError(), 'NOSCRIPT')) {
            $this->clearLastError();
            $this->script('LOAD', $script);
            if ($this->getLastError() === null) {
                $result = $this->evalSha(sha1($script), $args, $keys);
            }
        }
        return $result;
    }
}

/** The locks of Laravel's cache. The keys are cache:NAME, and TTLs whole seconds. */
final class Laravel
{
    private LaravelStore $store;
    private Illuminate\Contracts\Cache\Lock $lock;

    public function __construct(array $address)
    {
        $manager = new RedisManager(null, 'phpredis', ['default' => ['host' => $address[0], 'port' => $address[1], 'database' => 0]]);
        $this->store = new LaravelStore($manager, 'cache');
    }

    public function acquire(string $name, int $ttl, bool $wait): string
    {
        $next = $this->store->lock($name, intdiv($ttl, 1000));
        for ($end = microtime(true) + 10; !$next->get(); usleep(50000)) {
            if (!$wait || microtime(true) > $end) {
                return 'refused';
            }
        }
        $this->lock = $next;
        return 'ok';
    }

    public function extend(int $ttl): string
    {
        return 'unsupported';
    }

    public function inspect(): string
    {
        return 'unsupported';
    }

    public function release(): string
    {
        return $this->lock->release() ? 'ok' : 'refused';
    }

    public function ping(): string
    {
        $this->store->connection()->ping();
        return 'ok';
    }
}

/** Sends what the lock backend of Drupal's redis module sends: a transaction for each change of a lock that it has. */
final class LikeDrupal
{
    private string $id;
    private string $key;

    public function __construct(private Redis $redis)
    {
        $this->id = uniqid('', true);
    }

    public function acquire(string $name, int $ttl, bool $wait): string
    {
        for ($end = microtime(true) + 10; !$this->redis->set("drupal:lock:$name", $this->id, ['nx', 'px' => $ttl]); usleep(50000)) {
            if (!$wait || microtime(true) > $end) {
                return 'refused';
            }
        }
        $this->key = "drupal:lock:$name";
        return 'ok';
    }

    public function extend(int $ttl): string
    {
        return $this->ifMine(fn () => $this->redis->psetex($this->key, $ttl, $this->id)) ? 'ok' : 'refused';
    }

    public function inspect(): string
    {
        return 'unsupported';
    }

    public function release(): string
    {
        $this->ifMine(fn () => $this->redis->del($this->key));
        return 'silent';
    }

    private function ifMine(callable $change): bool
    {
        $this->redis->watch($this->key);
        if ($this->redis->get($this->key) !== $this->id) {
            $this->redis->unwatch();
            return false;
        }
        $this->redis->multi();
        $change();
        return $this->redis->exec() !== false;
    }

    public function ping(): string
    {
        $this->redis->ping();
        return 'ok';
    }
}

/**
 * Sends scripts that do what those of MediaWiki's RedisLockManager do: a hash has a field for each session that holds the lock, with the second at
 * which that hold ends, and outlives them all. A script finds its key in that of the request.
 */
final class LikeMediaWiki
{
    private const LOCK = <<<'LUA'
        local session, ends, keep, now = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
        local kind, key = string.match(KEYS[1], '(%w+):(%w+)$')
        for _, field in ipairs(redis.call('HKEYS', key)) do
            local theirs, holder = string.match(field, '(%w+):(%w+)')
            if holder ~= session then
                if tonumber(redis.call('HGET', key, field)) < now then
                    redis.call('HDEL', key, field)
                elseif kind == 'EX' or theirs == 'EX' then
                    return {KEYS[1]}
                end
            end
        end
        redis.call('HSET', key, kind .. ':' .. session, ends)
        redis.call('EXPIRE', key, keep)
        return {}
        LUA;
    private const UNLOCK = <<<'LUA'
        local kind, key = string.match(KEYS[1], '(%w+):(%w+)$')
        if redis.call('HDEL', key, kind .. ':' .. ARGV[1]) == 0 then return {KEYS[1]} end
        if redis.call('HLEN', key) == 0 then redis.call('DEL', key) end
        return {}
        LUA;

    private string $session;
    private string $request;

    public function __construct(private Redis $redis)
    {
        $this->session = bin2hex(random_bytes(16));
    }

    /** The hash lives here for as long as the lock. MediaWiki keeps it for two hours. */
    public function acquire(string $name, int $ttl, bool $wait): string
    {
        $request = "RedisLockManager:locks:EX:$name";
        $seconds = intdiv($ttl, 1000);
        for ($end = microtime(true) + 10; $this->run(self::LOCK, [$request, $this->session, time() + $seconds, $seconds, time()]) !== []; usleep(50000)) {
            if (!$wait || microtime(true) > $end) {
                return 'refused';
            }
        }
        $this->request = $request;
        return 'ok';
    }

    public function extend(int $ttl): string
    {
        return 'unsupported';
    }

    public function inspect(): string
    {
        return 'unsupported';
    }

    public function release(): string
    {
        return $this->run(self::UNLOCK, [$this->request, $this->session]) === [] ? 'ok' : 'refused';
    }

    /** By its digest, and with its text if the server does not know that. */
    private function run(string $script, array $args): array
    {
        $this->redis->clearLastError();
        $reply = $this->redis->evalSha(sha1($script), $args, 1);
        if (str_starts_with((string) $this->redis->getLastError(), 'NOSCRIPT')) {
            $this->redis->clearLastError();
            $reply = $this->redis->eval($script, $args, 1);
        }
        return $reply === false ? throw new RuntimeException((string) $this->redis->getLastError()) : $reply;
    }

    public function ping(): string
    {
        $this->redis->ping();
        return 'ok';
    }
}

/** The version of a package of Debian. */
function installed(string $package): string
{
    preg_match('/^Version: ([\d.]+)/m', (string) shell_exec("dpkg-query --status $package"), $found);
    return $found[1] ?? 'of this machine';
}

$address = [$argv[1], (int) $argv[2]];
$redis = $argv[3] === 'symfony-by-digest' ? new ByDigest() : new Redis();
$redis->connect(...$address);
$versions = ['phpredis ' . phpversion('redis')];
switch ($argv[3]) {
    case 'phpredis':
        $lock = new ByHand($redis);
        break;
    case 'drupal':
        $lock = new LikeDrupal($redis);
        break;
    case 'mediawiki':
        $lock = new LikeMediaWiki($redis);
        break;
    case 'laravel':
        require 'Illuminate/Redis/autoload.php';
        require 'Illuminate/Cache/autoload.php';
        $lock = new Laravel($address);
        array_unshift($versions, 'illuminate/cache ' . installed('php-illuminate-cache'));
        break;
    default:
        require 'Symfony/Component/Lock/autoload.php';
        $lock = new Symfony($redis, $argv[3] === 'symfony-read');
        array_unshift($versions, 'symfony/lock ' . installed('php-symfony-lock'));
}
echo 'ready ', implode(', ', $versions), "\n";
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', trim($line));
    try {
        $answer = match ($words[0]) {
            'acquire' => $lock->acquire($words[1], (int) $words[2], true),
            'try' => $lock->acquire($words[1], (int) $words[2], false),
            'extend' => $lock->extend((int) $words[1]),
            'inspect' => $lock->inspect(),
            'release' => $lock->release(),
            'ping' => $lock->ping(),
        };
    } catch (Throwable $err) {
        while ($err->getPrevious()) { // what the server said is there
            $err = $err->getPrevious();
        }
        $answer = 'error ' . preg_replace('/\s+/', ' ', $err->getMessage());
    }
    echo $answer, "\n";
}

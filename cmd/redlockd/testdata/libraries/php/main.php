<?php
// Drives a lock library of PHP by lines on standard input, see ../README.md.

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
        // The store takes every lock for this time first: 300 s by default, which is above redlockd's max_ttl.
        $this->factory = new LockFactory(new RedisStore($redis, 20.0));
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

$address = [$argv[1], (int) $argv[2]];
$redis = $argv[3] === 'symfony-by-digest' ? new ByDigest() : new Redis();
$redis->connect(...$address);
$versions = 'phpredis ' . phpversion('redis');
if ($argv[3] === 'phpredis') {
    $lock = new ByHand($redis);
} else {
    require 'Symfony/Component/Lock/autoload.php';
    $lock = new Symfony($redis, $argv[3] === 'symfony-read');
    preg_match('/^Version: ([\d.]+)/m', (string) shell_exec('dpkg-query --status php-symfony-lock'), $found);
    $versions = 'symfony/lock ' . ($found[1] ?? 'of this machine') . ', ' . $versions;
}
echo 'ready ', $versions, "\n";
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

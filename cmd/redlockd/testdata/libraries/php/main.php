<?php
// Drives the usual lock by hand on phpredis by lines on standard input, see ../README.md.

const RELEASE = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) else return 0 end';
const EXTEND = 'if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) else return 0 end';

final class Lock
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

$redis = new Redis();
$redis->connect($argv[1], (int) $argv[2]);
$lock = new Lock($redis);
echo 'ready phpredis ', phpversion('redis'), "\n";
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
        $answer = 'error ' . preg_replace('/\s+/', ' ', $err->getMessage());
    }
    echo $answer, "\n";
}

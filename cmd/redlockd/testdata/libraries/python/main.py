"""Drives one lock library of Python by lines on standard input, see ../README.md."""

import importlib.metadata
import logging
import sys

# Libraries report to logging what they also raise.
logging.disable(logging.CRITICAL)

WAIT_MAX = 10  # seconds


class RedisPy:
    packages = ["redis"]

    def __init__(self, host, port):
        import redis

        self.client = redis.Redis(host=host, port=port)
        self.errors = redis.exceptions
        self.lock = None

    def acquire(self, name, ttl, wait):
        lock = self.client.lock(name, timeout=ttl / 1000)
        if not lock.acquire(blocking=wait, blocking_timeout=WAIT_MAX if wait else None):
            return "refused"
        self.lock = lock
        return "ok"

    def extend(self, ttl):
        return self.unless_lost(lambda: self.lock.extend(ttl / 1000, replace_ttl=True))

    def inspect(self):
        return "held" if self.lock.owned() else "lost"

    def release(self):
        return self.unless_lost(self.lock.release)

    def unless_lost(self, action):
        try:
            action()
            return "ok"
        except self.errors.LockError:
            return "refused"

    def ping(self):
        self.client.ping()


class RedisPyAsyncio:
    packages = ["redis"]

    def __init__(self, host, port):
        import asyncio

        import redis.asyncio

        self.loop = asyncio.new_event_loop()
        self.client = redis.asyncio.Redis(host=host, port=port)
        self.errors = redis.exceptions
        self.lock = None

    def acquire(self, name, ttl, wait):
        lock = self.client.lock(name, timeout=ttl / 1000)
        if not self.run(lock.acquire(blocking=wait, blocking_timeout=WAIT_MAX if wait else None)):
            return "refused"
        self.lock = lock
        return "ok"

    def extend(self, ttl):
        return self.unless_lost(lambda: self.lock.extend(ttl / 1000, replace_ttl=True))

    def inspect(self):
        return "held" if self.run(self.lock.owned()) else "lost"

    def release(self):
        return self.unless_lost(self.lock.release)

    def unless_lost(self, action):
        async def act():
            await action()

        try:
            self.run(act())
            return "ok"
        except self.errors.LockError:
            return "refused"

    def ping(self):
        self.run(self.client.ping())

    def run(self, awaitable):
        return self.loop.run_until_complete(awaitable)


class RedlockPy:
    packages = ["redlock-py", "redis"]

    def __init__(self, host, port):
        import redlock

        where = [{"host": host, "port": port, "db": 0}]
        self.once = redlock.Redlock(where, retry_count=1)
        self.patient = redlock.Redlock(where, retry_count=50)
        self.lock = None

    def acquire(self, name, ttl, wait):
        lock = (self.patient if wait else self.once).lock(name, ttl)
        if not lock:
            return "refused"
        self.lock = lock
        return "ok"

    def release(self):
        self.once.unlock(self.lock)
        return "silent"

    def ping(self):
        for manager in (self.once, self.patient):
            manager.servers[0].ping()


class Pottery:
    packages = ["pottery", "redis"]

    def __init__(self, host, port):
        import pottery
        import redis

        self.pottery = pottery
        self.client = redis.Redis(host=host, port=port)
        self.lock = None

    def acquire(self, name, ttl, wait):
        # Without raise_on_redis_errors, an error looks like a refusal.
        lock = self.pottery.Redlock(key=name, masters={self.client}, auto_release_time=ttl / 1000, raise_on_redis_errors=True)
        if not lock.acquire(blocking=wait, timeout=WAIT_MAX if wait else -1):
            return "refused"
        self.lock = lock
        return "ok"

    def extend(self, ttl):
        self.lock.auto_release_time = ttl / 1000
        try:
            self.lock.extend()
            return "ok"
        except self.pottery.ExtendUnlockedLock:
            return "refused"

    def inspect(self):
        return "held" if self.lock.locked() else "lost"

    def release(self):
        try:
            self.lock.release()
            return "ok"
        except self.pottery.ReleaseUnlockedLock:
            return "refused"

    def ping(self):
        self.client.ping()


class PythonRedisLock:
    packages = ["python-redis-lock", "redis"]

    def __init__(self, host, port):
        import redis
        import redis_lock

        self.client = redis.Redis(host=host, port=port)
        self.redis_lock = redis_lock
        self.lock = None

    def acquire(self, name, ttl, wait):
        lock = self.redis_lock.Lock(self.client, name, expire=ttl // 1000)
        if not lock.acquire(blocking=wait):
            return "refused"
        self.lock = lock
        return "ok"

    def extend(self, ttl):
        return self.unless_lost(lambda: self.lock.extend(ttl // 1000))

    def inspect(self):
        return "held" if self.lock.get_owner_id() == self.lock.id else "lost"

    def release(self):
        return self.unless_lost(self.lock.release)

    def unless_lost(self, action):
        try:
            action()
            return "ok"
        except self.redis_lock.NotAcquired:
            return "refused"

    def ping(self):
        self.client.ping()


LIBRARIES = {
    "redis-py": RedisPy,
    "redis-py-asyncio": RedisPyAsyncio,
    "redis-py-4": RedisPy,  # in an environment of its own
    "redis-py-4-asyncio": RedisPyAsyncio,
    "redlock-py": RedlockPy,
    "pottery": Pottery,
    "python-redis-lock": PythonRedisLock,
}


def step(lock, command, *words):
    if command in ("acquire", "try"):
        return lock.acquire(words[0], int(words[1]), command == "acquire")
    if command == "extend":
        return lock.extend(int(words[0])) if hasattr(lock, "extend") else "unsupported"
    if command == "inspect":
        return lock.inspect() if hasattr(lock, "inspect") else "unsupported"
    if command == "release":
        return lock.release()
    if command == "ping":
        lock.ping()
        return "ok"
    raise ValueError("no such command: " + command)


def main():
    host, port, library = sys.argv[1:]
    lock = LIBRARIES[library](host, int(port))
    names = {"redis": "redis-py"}
    print("ready", ", ".join(names.get(p, p) + " " + importlib.metadata.version(p) for p in lock.packages), flush=True)
    for line in sys.stdin:
        try:
            answer = step(lock, *line.split())
        except Exception as err:
            answer = "error " + " ".join(f"{type(err).__name__}: {err}".split())
        print(answer, flush=True)


if __name__ == "__main__":
    main()

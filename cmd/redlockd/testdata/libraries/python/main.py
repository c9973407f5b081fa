"""Drives one lock library of Python by lines on standard input, see ../README.md."""

import importlib.metadata
import logging
import sys
import time
import types
import uuid

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


class RedBeat:
    """The lock of Celery's scheduler, which extends it at each tick. Its schedule is data, which redlockd keeps none of."""

    packages = ["celery-redbeat", "celery", "redis"]

    def __init__(self, host, port):
        import celery
        import redbeat.schedulers
        import redis

        # The interval is what it sleeps between two attempts.
        self.app = celery.Celery(set_as_current=False)
        self.app.conf.update(redbeat_redis_url=f"redis://{host}:{port}", beat_max_loop_interval=0.05)
        self.redbeat = redbeat.schedulers
        self.errors = redis.exceptions
        self.redbeat.ensure_conf(self.app)
        self.lock = None

    def acquire(self, name, ttl, wait):
        if not wait and self.redbeat.get_redis(self.app).exists(name):
            return "refused"  # it always waits
        scheduler = self.redbeat.RedBeatScheduler(self.app, lock_key=name, lock_timeout=ttl / 1000, lazy=True)
        self.redbeat.acquire_distributed_beat_lock(types.SimpleNamespace(scheduler=scheduler))
        self.lock = scheduler.lock
        return "ok"

    def extend(self, ttl):
        return self.unless_lost(lambda: self.lock.extend(ttl // 1000))

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
        self.redbeat.get_redis(self.app).ping()


class Kombu:
    """The mutex of kombu's transport over Redis, which is a broker otherwise."""

    packages = ["kombu", "redis"]

    def __init__(self, host, port):
        import kombu.transport.redis
        import redis

        self.kombu = kombu.transport.redis
        self.client = redis.Redis(host=host, port=port)
        self.mutex = None

    def acquire(self, name, ttl, wait):
        end = time.monotonic() + WAIT_MAX
        while True:
            mutex = self.kombu.Mutex(self.client, name, ttl / 1000)
            try:
                mutex.__enter__()
                self.mutex = mutex
                return "ok"
            except self.kombu.MutexHeld:
                if not wait or time.monotonic() > end:
                    return "refused"
            time.sleep(0.05)

    def release(self):
        mutex, self.mutex = self.mutex, None
        if mutex is not None:
            mutex.__exit__(None, None, None)
        return "silent"

    def ping(self):
        self.client.ping()


class Prefect:
    """The lock manager of prefect-redis. Prefect itself is not there: of it, that needs the name of a base class."""

    packages = ["prefect-redis", "redis"]

    def __init__(self, host, port):
        for name in ("prefect", "prefect.locking", "prefect.locking.protocol", "prefect_redis"):
            sys.modules[name] = types.ModuleType(name)
        sys.modules["prefect.locking.protocol"].LockManager = object
        sys.modules["prefect_redis"].__path__ = [str(importlib.metadata.distribution("prefect-redis").locate_file("prefect_redis"))]
        import prefect_redis.locking
        import redis

        self.manager = prefect_redis.locking.RedisLockManager(host=host, port=port)
        self.errors = redis.exceptions
        self.key = self.holder = None

    def acquire(self, name, ttl, wait):
        holder = uuid.uuid4().hex
        if not self.manager.acquire_lock(name, holder, acquire_timeout=WAIT_MAX if wait else 0, hold_timeout=ttl / 1000):
            return "refused"
        self.key, self.holder = name, holder
        return "ok"

    def release(self):
        try:
            self.manager.release_lock(self.key, self.holder)
        except self.errors.LockError:
            pass  # somebody else has it; if nobody has, there is no error
        return "silent"

    def ping(self):
        self.manager.client.ping()


class Dramatiq:
    """The limiter that is a mutex where one operation may run at a time. It waits for nobody."""

    packages = ["dramatiq", "redis"]

    def __init__(self, host, port):
        import dramatiq.rate_limits
        import dramatiq.rate_limits.backends

        self.limits = dramatiq.rate_limits
        self.backend = dramatiq.rate_limits.backends.RedisBackend(host=host, port=port)
        self.running = None

    def acquire(self, name, ttl, wait):
        limiter = self.limits.ConcurrentRateLimiter(self.backend, name, ttl=ttl)
        end = time.monotonic() + WAIT_MAX
        while True:
            running = limiter.acquire(raise_on_failure=False)
            if running.__enter__():
                self.running = running
                return "ok"
            running.__exit__(None, None, None)
            if not wait or time.monotonic() > end:
                return "refused"
            time.sleep(0.05)

    def release(self):
        self.running.__exit__(None, None, None)
        return "silent"

    def ping(self):
        self.backend.client.ping()


LIBRARIES = {
    "redis-py": RedisPy,
    "redis-py-asyncio": RedisPyAsyncio,
    "redis-py-4": RedisPy,  # in an environment of its own
    "redis-py-4-asyncio": RedisPyAsyncio,
    "redlock-py": RedlockPy,
    "pottery": Pottery,
    "python-redis-lock": PythonRedisLock,
    "redbeat": RedBeat,
    "kombu": Kombu,
    "prefect": Prefect,
    "dramatiq": Dramatiq,
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

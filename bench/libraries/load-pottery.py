"""Loads pottery as its README shows it, as a load generator of the bench: ../load.go says what parent and child say to each other."""

import importlib.metadata
import json
import logging
import math
import platform
import sys
import threading
import time

import pottery
import redis

logging.disable(logging.CRITICAL)  # what a library reports to logging it also raises
FAILURE_TEXTS_MAX = 3


def main():
    spec = json.loads(next_word())
    masters = {redis.Redis(host=host, port=int(port)) for host, port in (addr.split(":") for addr in spec["masters"])}
    Run(masters, spec["callers"], spec["prefix"] + "warm:", spec["warmup_ns"])
    print("ready", flush=True)
    next_word()
    cpu = time.process_time_ns()
    run = Run(masters, spec["callers"], spec["prefix"], spec["duration_ns"])
    cpu = time.process_time_ns() - cpu
    print("done", flush=True)
    versions = {name: importlib.metadata.version(package) for name, package in {"pottery": "pottery", "redis-py": "redis"}.items()}
    figures = {
        "pairs": len(run.locks),
        "pairs_per_sec": sum(run.shares) / spec["duration_ns"] * 1e9,
        "lock_us": percentiles(run.locks),
        "pair_us": percentiles(run.pairs),
        "cpu_ns": cpu,
        "failures": run.failures,
        "versions": versions | {"python": platform.python_version()},
    }
    print(json.dumps(figures), flush=True)


def next_word():
    """The parent's next line; its end is ours."""
    return sys.stdin.readline() or sys.exit(1)


class Run:
    """All callers acquire and release, a new resource for every pair, until the time is over; pairs that run then are finished."""

    def __init__(self, masters, callers, prefix, duration_ns):
        self.masters = masters
        self.shares, self.locks, self.pairs, self.failures = [], [], [], {"count": 0, "texts": []}
        threads = [threading.Thread(target=self.call, args=(f"{prefix}{i}:",), daemon=True) for i in range(callers)]
        self.end = time.perf_counter_ns() + duration_ns
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def call(self, prefix):
        n = 0
        while True:
            began = time.perf_counter_ns()
            if began >= self.end:
                return
            n += 1
            try:
                lock = pottery.Redlock(key=f"{prefix}{n}", masters=self.masters)
                if not lock.acquire():
                    raise RuntimeError("gave up: held by another all the time")
                locked = time.perf_counter_ns()
                lock.release()
                released = time.perf_counter_ns()
            except Exception as err:
                self.fail(err)
                time.sleep(0.001)
                continue
            self.locks.append((locked - began) / 1e3)
            self.pairs.append((released - began) / 1e3)
            self.shares.append(min(1, (self.end - began) / (released - began)))  # what outlasts the time counts in part

    def fail(self, err):
        self.failures["count"] += 1
        texts, text = self.failures["texts"], " ".join(f"{type(err).__name__}: {err}".split())
        if len(texts) < FAILURE_TEXTS_MAX and text not in texts:
            texts.append(text)


def percentiles(us):
    if not us:
        return {}
    us.sort()
    at = lambda p: round(us[min(len(us), math.ceil(len(us) * p)) - 1])
    return {"p50": at(0.5), "p99": at(0.99), "p999": at(0.999), "mean": sum(us) / len(us), "max": at(1)}


if __name__ == "__main__":
    main()

"""A client program of the torture, see client.go: redis-py, a thread and connections of its own for each session."""

import json
import queue
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

addresses = sys.argv[1].split(",")
timeout = int(sys.argv[2]) / 1000
out = threading.Lock()


class Session(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.calls, self.connections, self.locks = queue.SimpleQueue(), {}, {}
        self.start()

    def run(self):
        while True:
            call = self.calls.get()
            answer = {"id": call["id"], "start": time.monotonic_ns()}
            try:
                answer["reply"] = self.do(call, call["args"])
            except redis.exceptions.LockNotOwnedError:
                answer["reply"] = 0
            except Exception as e:
                answer["error"] = f"{type(e).__name__}: {e}"
            answer["end"] = time.monotonic_ns()
            with out:
                print(json.dumps(answer), flush=True)

    def do(self, call, args):
        to = call["to"]
        if call["op"] == "close":
            if to in self.connections:
                self.connections.pop(to).close()
            return 1
        if to not in self.connections:
            host, port = addresses[to].rsplit(":", 1)
            # Nothing is sent twice: the torture decides about that.
            self.connections[to] = redis.Redis(host=host, port=int(port), protocol=2, decode_responses=True, single_connection_client=True,
                                               socket_timeout=timeout, socket_connect_timeout=timeout, retry=Retry(NoBackoff(), 0))
        conn = self.connections[to]
        if call["op"] == "do":
            return conn.execute_command(*args)
        if call["op"] == "obtain":
            lock = conn.lock(args[0], timeout=int(args[1]) / 1000, blocking=False, thread_local=False)
            if not lock.acquire():
                return None
            self.locks[args[0]] = lock
            return [lock.local.token.decode(), int(args[1])]
        if call["op"] == "extend":
            return int(args[1]) if self.locks[args[0]].extend(int(args[1]) / 1000, replace_ttl=True) else 0
        if call["op"] == "release":
            self.locks.pop(args[0]).release()
            return 1
        raise ValueError(call["op"])


sessions = {}
print(json.dumps({"ready": f"redis-py {redis.__version__}, Python {sys.version.split()[0]}"}), flush=True)
for line in sys.stdin:
    call = json.loads(line)
    if call["session"] not in sessions:
        sessions[call["session"]] = Session()
    sessions[call["session"]].calls.put(call)

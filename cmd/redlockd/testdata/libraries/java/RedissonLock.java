import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.redisnode.RedisNodes;
import org.redisson.config.Config;

/** The locks of Redisson, which count in a hash how often their owner has taken them. */
final class RedissonLock implements Main.Lock {
    /** The lease of a lock that Redisson renews itself, three times in this time. By default it is 30 s. */
    private static final long WATCHDOG_MS = 6_000;

    private final RedissonClient redisson;
    private final String address;
    private final String kind;
    private RLock lock;

    /** kind is the part of the library's name behind "redisson" or "redisson-3", see make. */
    RedissonLock(String host, int port, String kind) {
        address = "redis://" + host + ":" + port;
        redisson = Redisson.create(config(WATCHDOG_MS));
        this.kind = kind;
        make("ready");
    }

    private Config config(long watchdogMs) {
        Config config = new Config();
        config.setLockWatchdogTimeout(watchdogMs);
        config.setThreads(4).setNettyThreads(4);
        config.useSingleServer().setAddress(address).setConnectionMinimumIdleSize(1).setConnectionPoolSize(8);
        return config;
    }

    private RLock make(String name) {
        return make(redisson, name);
    }

    private RLock make(RedissonClient redisson, String name) {
        return switch (kind) {
            case "", "-watchdog" -> redisson.getLock(name);
            case "-spin" -> redisson.getSpinLock(name);
            case "-fair" -> redisson.getFairLock(name);
            case "-fenced" -> redisson.getFencedLock(name);
            case "-read" -> redisson.getReadWriteLock(name).readLock();
            case "-write" -> redisson.getReadWriteLock(name).writeLock();
            case "-multi" -> redisson.getMultiLock(redisson.getLock(name + ":1"), redisson.getLock(name + ":2"));
            case "-redlock" -> new RedissonRedLock(redisson.getLock(name + ":1"), redisson.getLock(name + ":2"), redisson.getLock(name + ":3"));
            default -> throw new IllegalArgumentException("no such lock: " + kind);
        };
    }

    @Override
    public String acquire(String name, long ttlMs, boolean wait) throws InterruptedException {
        RLock next = make(name);
        if (!next.tryLock(wait ? Main.WAIT_MAX_MS : 0, kind.equals("-watchdog") ? -1 : ttlMs, TimeUnit.MILLISECONDS)) {
            return "refused";
        }
        lock = next;
        return "ok";
    }

    @Override
    public String inspect() {
        if (kind.equals("-multi") || kind.equals("-redlock")) {
            return "unsupported";
        }
        return lock.isHeldByCurrentThread() ? "held" : "lost";
    }

    @Override
    public String release() {
        try {
            lock.unlock();
            return "ok";
        } catch (IllegalMonitorStateException e) {
            return "refused";
        }
    }

    /** Each client has a Redisson of its own, with the watchdog's default of 30 s. A read-write lock has six readers of eight. */
    @Override
    public String contend(String name, long forMs, int clients) throws InterruptedException {
        Contention all = new Contention(System.nanoTime() + forMs * 1_000_000);
        Thread[] threads = new Thread[clients];
        for (int i = 0; i < clients; i++) {
            boolean shares = kind.equals("-read") && i % 4 != 0;
            threads[i] = new Thread(() -> {
                RedissonClient own = Redisson.create(config(30_000));
                all.run(kind.equals("-read") && !shares ? own.getReadWriteLock(name).writeLock() : make(own, name), shares);
                own.shutdown();
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        return all.report();
    }

    @Override
    public void ping() {
        redisson.getRedisNodes(RedisNodes.SINGLE).pingAll();
    }

    @Override
    public Class<?>[] libraries() {
        return new Class<?>[] {Redisson.class};
    }
}

import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.api.redisnode.RedisNodes;
import org.redisson.config.Config;

/** RLock, which counts in a hash how often its owner has taken it. */
final class RedissonLock implements Main.Lock {
    private final RedissonClient redisson;
    private RLock lock;

    RedissonLock(String host, int port) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + host + ":" + port);
        redisson = Redisson.create(config);
    }

    @Override
    public String acquire(String name, long ttlMs, boolean wait) throws InterruptedException {
        RLock next = redisson.getLock(name);
        if (!next.tryLock(wait ? Main.WAIT_MAX_MS : 0, ttlMs, TimeUnit.MILLISECONDS)) {
            return "refused";
        }
        lock = next;
        return "ok";
    }

    @Override
    public String inspect() {
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

    @Override
    public void ping() {
        redisson.getRedisNodes(RedisNodes.SINGLE).pingAll();
    }

    @Override
    public Class<?>[] libraries() {
        return new Class<?>[] {Redisson.class};
    }
}

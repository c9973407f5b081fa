import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.support.locks.DistributedLock;

/** RedisLockRegistry on Lettuce. The keys are registry:NAME. */
final class SpringIntegration implements Main.Lock {
    private final LettuceConnectionFactory factory;
    private final RedisLockRegistry registry;
    private String name;
    private DistributedLock lock;

    SpringIntegration(String host, int port) {
        factory = connect(host, port);
        registry = new RedisLockRegistry(factory, "registry");
    }

    static LettuceConnectionFactory connect(String host, int port) {
        LettuceConnectionFactory factory = new LettuceConnectionFactory(new RedisStandaloneConfiguration(host, port));
        factory.afterPropertiesSet();
        factory.start();
        return factory;
    }

    @Override
    public String acquire(String wanted, long ttlMs, boolean wait) throws InterruptedException {
        DistributedLock next = registry.obtain(wanted);
        if (!next.tryLock(wait ? Duration.ofMillis(Main.WAIT_MAX_MS) : Duration.ZERO, Duration.ofMillis(ttlMs))) {
            return "refused";
        }
        name = wanted;
        lock = next;
        return "ok";
    }

    @Override
    public String extend(long ttlMs) {
        try {
            registry.renewLock(name, Duration.ofMillis(ttlMs));
            return "ok";
        } catch (IllegalStateException e) {
            return lostOrThrow(e);
        }
    }

    @Override
    public String release() {
        try {
            lock.unlock();
            return "ok";
        } catch (ConcurrentModificationException | IllegalStateException | IllegalMonitorStateException e) {
            return lostOrThrow(e);
        }
    }

    private static String lostOrThrow(RuntimeException e) {
        if (e.getCause() != null) {
            throw e;
        }
        return "refused";
    }

    @Override
    public void ping() {
        factory.getConnection().ping();
    }

    @Override
    public Class<?>[] libraries() {
        return new Class<?>[] {RedisLockRegistry.class, LettuceConnectionFactory.class, RedisClient.class};
    }
}

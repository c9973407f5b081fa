import io.lettuce.core.RedisClient;
import java.time.Duration;
import java.time.Instant;
import java.util.Optional;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

/** ShedLock's provider on Spring Data Redis. The keys are job-lock:default:NAME. */
final class ShedLock implements Main.Lock {
    private final LettuceConnectionFactory factory;
    private final RedisLockProvider provider;
    private SimpleLock lock;

    /** With safeUpdate, it releases and extends its own locks only; without, whatever is there. */
    ShedLock(String host, int port, boolean safeUpdate) {
        factory = SpringIntegration.connect(host, port);
        provider = new RedisLockProvider.Builder(factory).environment("default").safeUpdate(safeUpdate).build();
    }

    /** ShedLock never waits: another run of the job is as good. So the program asks again. */
    @Override
    public String acquire(String name, long ttlMs, boolean wait) throws InterruptedException {
        for (long end = System.currentTimeMillis() + Main.WAIT_MAX_MS;; Thread.sleep(50)) {
            Optional<SimpleLock> next =
                provider.lock(new LockConfiguration(Instant.now(), name, Duration.ofMillis(ttlMs), Duration.ZERO));
            if (next.isPresent()) {
                lock = next.get();
                return "ok";
            }
            if (!wait || System.currentTimeMillis() > end) {
                return "refused";
            }
        }
    }

    @Override
    public String extend(long ttlMs) {
        Optional<SimpleLock> extended = lock.extend(Duration.ofMillis(ttlMs), Duration.ZERO);
        extended.ifPresent(next -> lock = next);
        return extended.isPresent() ? "ok" : "refused";
    }

    @Override
    public String release() {
        try {
            lock.unlock();
            return "silent";
        } catch (IllegalStateException e) {
            if (e.getCause() != null) {
                throw e;
            }
            return "refused"; // it was unlocked before, or an extension found it lost
        }
    }

    @Override
    public void ping() {
        factory.getConnection().ping();
    }

    @Override
    public Class<?>[] libraries() {
        return new Class<?>[] {RedisLockProvider.class, LettuceConnectionFactory.class, RedisClient.class};
    }
}

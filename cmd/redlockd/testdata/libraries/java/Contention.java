import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** Clients that take one lock by turns, and what came of it. */
final class Contention {
    /** How long each holds the lock. */
    private static final long HOLD_MS = 3;

    private final long end;
    private long last = System.nanoTime();
    private long longestGap;
    private int grants;
    private int overlaps;
    private int alone;
    private int sharing;
    private final TreeMap<String, Integer> errors = new TreeMap<>();

    Contention(long end) {
        this.end = end;
    }

    void run(RLock lock, boolean shares) {
        while (System.nanoTime() < end) {
            try {
                if (!lock.tryLock(10, TimeUnit.SECONDS)) {
                    continue;
                }
                entered(shares);
                Thread.sleep(HOLD_MS);
                left(shares);
                lock.unlock();
            } catch (Exception e) {
                failed(e);
            }
        }
    }

    private synchronized void entered(boolean shares) {
        if (alone > 0 || !shares && sharing > 0) {
            overlaps++;
        }
        if (shares) {
            sharing++;
        } else {
            alone++;
        }
        grants++;
        long now = System.nanoTime();
        longestGap = Math.max(longestGap, now - last);
        last = now;
    }

    private synchronized void left(boolean shares) {
        if (shares) {
            sharing--;
        } else {
            alone--;
        }
    }

    /** What the server said, up to the first colon, or the exception. */
    private synchronized void failed(Exception e) {
        Throwable cause = e;
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        String text = String.valueOf(cause.getMessage());
        errors.merge(text.matches("[A-Z]+ .*") ? text.substring(0, text.indexOf(' ')) : cause.getClass().getSimpleName(), 1, Integer::sum);
    }

    /** Ends with the gap until now: nobody may have been granted it again. */
    synchronized String report() {
        longestGap = Math.max(longestGap, Math.min(System.nanoTime(), end) - last);
        StringBuilder text = new StringBuilder("ok grants " + grants + " overlaps " + overlaps + " gap " + longestGap / 1_000_000);
        errors.forEach((code, n) -> text.append(" ").append(code).append(" ").append(n));
        return text.toString();
    }
}

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Loads Redisson as its documentation shows it, as a load generator of the bench: ../load.go says what parent and child say to each other. One
 * address gets an RLock, several get a RedissonRedLock of an RLock on each. Each caller is a thread, and all settings are the defaults.
 */
public final class LoadRedisson {
    /** A JVM compiles while it warms up, so it warms up for this long at least. */
    private static final double WARMUP_SECONDS_MIN = 4;
    private static final int FAILURE_TEXTS_MAX = 3;

    private static final BufferedReader words = new BufferedReader(new InputStreamReader(System.in));
    private static List<RedissonClient> clients;

    private static final class Spec {
        List<String> masters;
        int callers;
        long warmup_ns;
        long duration_ns;
        String prefix;
    }

    public static void main(String[] args) throws Exception {
        Spec spec = new Gson().fromJson(next(), Spec.class);
        clients = spec.masters.stream().map(LoadRedisson::connect).toList();
        new Run(spec.callers, spec.prefix + "warm:", Math.max(spec.warmup_ns, (long) (WARMUP_SECONDS_MIN * 1e9)));
        System.out.println("ready");
        next();
        long cpu = cpu();
        Run run = new Run(spec.callers, spec.prefix, spec.duration_ns);
        cpu = cpu() - cpu;
        System.out.println("done");
        JsonObject failures = new JsonObject();
        failures.addProperty("count", run.failures);
        failures.add("texts", new Gson().toJsonTree(run.texts));
        JsonObject figures = new JsonObject();
        figures.addProperty("pairs", run.locks.size());
        figures.addProperty("pairs_per_sec", run.inTime / spec.duration_ns * 1e9);
        figures.add("lock_us", percentiles(run.locks));
        figures.add("pair_us", percentiles(run.pairs));
        figures.addProperty("cpu_ns", cpu);
        figures.add("failures", failures);
        figures.add("versions", new Gson().toJsonTree(Map.of("Redisson", version(Redisson.class), "java", System.getProperty("java.version"))));
        System.out.println(figures);
        System.exit(0); // the clients would keep the process
    }

    /** The parent's next line; its end is ours. */
    private static String next() throws Exception {
        String line = words.readLine();
        if (line == null) {
            System.exit(1);
        }
        return line;
    }

    private static RedissonClient connect(String addr) {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + addr);
        return Redisson.create(config);
    }

    @SuppressWarnings("deprecation") // RedissonRedLock is what the others here are compared with
    private static RLock lock(String name) {
        if (clients.size() == 1) {
            return clients.get(0).getLock(name);
        }
        return new RedissonRedLock(clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new));
    }

    /** All callers acquire and release, a new resource for every pair, until the time is over; pairs that run then are finished. */
    private static final class Run {
        double inTime;
        final List<Double> locks = new ArrayList<>();
        final List<Double> pairs = new ArrayList<>();
        int failures;
        final Set<String> texts = new LinkedHashSet<>();
        private final long end;

        Run(int callers, String prefix, long durationNs) throws InterruptedException {
            end = System.nanoTime() + durationNs;
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < callers; i++) {
                String own = prefix + i + ":";
                threads.add(new Thread(() -> call(own)));
            }
            threads.forEach(Thread::start);
            for (Thread thread : threads) {
                thread.join();
            }
        }

        private void call(String prefix) {
            for (int n = 0;; n++) {
                long began = System.nanoTime();
                if (began - end >= 0) {
                    return;
                }
                try {
                    RLock lock = lock(prefix + n);
                    lock.lock();
                    long locked = System.nanoTime();
                    lock.unlock();
                    add(began, locked, System.nanoTime());
                } catch (RuntimeException e) {
                    fail(e);
                }
            }
        }

        private synchronized void add(long began, long locked, long released) {
            locks.add((locked - began) / 1e3);
            pairs.add((released - began) / 1e3);
            inTime += Math.min(1, (double) (end - began) / (released - began)); // what outlasts the time counts in part
        }

        private synchronized void fail(RuntimeException e) {
            failures++;
            if (texts.size() < FAILURE_TEXTS_MAX) {
                texts.add(e.toString().replaceAll("\\s+", " "));
            }
        }
    }

    private static JsonObject percentiles(List<Double> us) {
        JsonObject all = new JsonObject();
        if (us.isEmpty()) {
            return all;
        }
        double[] sorted = us.stream().mapToDouble(Double::doubleValue).sorted().toArray();
        Map.of("p50", 0.5, "p99", 0.99, "p999", 0.999, "max", 1.0)
                .forEach((name, p) -> all.addProperty(name, Math.round(sorted[(int) Math.ceil(sorted.length * p) - 1])));
        all.addProperty("mean", Arrays.stream(sorted).average().getAsDouble());
        return all;
    }

    private static long cpu() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    /** The file of a library is named name-version.jar. */
    private static String version(Class<?> library) {
        String jar = Path.of(library.getProtectionDomain().getCodeSource().getLocation().getPath()).getFileName().toString();
        return jar.replaceFirst("^.*?-(?=\\d)", "").replaceFirst("\\.jar$", "");
    }
}

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.Collectors;

/** Drives one lock library of Java by lines on standard input, see ../README.md. */
public final class Main {
    static final long WAIT_MAX_MS = 10_000;

    /** One lock of one library. The answers are the words of the protocol. */
    interface Lock {
        /** Takes the lock; without wait, it asks once. */
        String acquire(String name, long ttlMs, boolean wait) throws Exception;

        default String extend(long ttlMs) {
            return "unsupported";
        }

        default String inspect() {
            return "unsupported";
        }

        String release();

        /** Has several clients take the lock by turns for a time, and tells what came of it. */
        default String contend(String name, long forMs, int clients) throws Exception {
            return "unsupported";
        }

        void ping();

        /** A class of each library, for their versions. */
        Class<?>[] libraries();
    }

    public static void main(String[] args) throws Exception {
        String host = args[0];
        int port = Integer.parseInt(args[1]);
        Lock lock = switch (args[2]) {
            case "jedis" -> new ByHand(new ByHand.JedisVerbs(host, port));
            case "lettuce" -> new ByHand(new ByHand.LettuceVerbs(host, port));
            case "spring-integration" -> new SpringIntegration(host, port);
            case "shedlock-safe-update" -> new ShedLock(host, port, true);
            case "shedlock" -> new ShedLock(host, port, false);
            default -> {
                if (args[2].startsWith("redisson")) {
                    yield new RedissonLock(host, port, args[2].replaceFirst("^redisson(-3)?", ""));
                }
                throw new IllegalArgumentException("no such library: " + args[2]);
            }
        };
        lock.ping();
        System.out.println("ready " + Arrays.stream(lock.libraries()).map(Main::version).collect(Collectors.joining(", ")));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null;) {
            String answer;
            try {
                answer = step(lock, line.split(" "));
            } catch (Exception e) {
                answer = "error " + oneLine(e);
            }
            System.out.println(answer);
        }
        System.exit(0); // the clients would keep the process
    }

    private static String step(Lock lock, String[] words) throws Exception {
        switch (words[0]) {
            case "acquire":
            case "try":
                return lock.acquire(words[1], Long.parseLong(words[2]), words[0].equals("acquire"));
            case "extend":
                return lock.extend(Long.parseLong(words[1]));
            case "inspect":
                return lock.inspect();
            case "release":
                return lock.release();
            case "contend":
                return lock.contend(words[1], Long.parseLong(words[2]), Integer.parseInt(words[3]));
            case "ping":
                lock.ping();
                return "ok";
            default:
                throw new IllegalArgumentException("no such command: " + words[0]);
        }
    }

    /** The message of the deepest cause: what the server said is there. */
    private static String oneLine(Throwable e) {
        while (e.getCause() != null) {
            e = e.getCause();
        }
        return e.toString().replaceAll("\\s+", " ");
    }

    /** The file of a library is named name-version.jar. */
    private static String version(Class<?> library) {
        String jar = Path.of(library.getProtectionDomain().getCodeSource().getLocation().getPath()).getFileName().toString();
        return jar.replaceFirst("-(?=\\d)", " ").replaceFirst("(\\.RELEASE)?\\.jar$", "");
    }
}

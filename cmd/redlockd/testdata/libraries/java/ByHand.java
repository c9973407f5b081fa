import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.api.sync.RedisCommands;
import java.util.List;
import java.util.UUID;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.util.SafeEncoder;

/** The usual lock by hand: SET NX PX, and scripts by EVALSHA, or EVAL after NOSCRIPT. */
final class ByHand implements Main.Lock {
    private static final String RELEASE =
        "if redis.call(\"GET\", KEYS[1]) == ARGV[1] then return redis.call(\"DEL\", KEYS[1]) else return 0 end";
    private static final String EXTEND =
        "if redis.call(\"GET\", KEYS[1]) == ARGV[1] then return redis.call(\"PEXPIRE\", KEYS[1], ARGV[2]) else return 0 end";

    /** What a lock by hand needs of a client. */
    interface Verbs {
        boolean set(String name, String token, long ttlMs);

        String get(String name);

        long run(String script, String name, String... args);

        void ping();

        Class<?> library();
    }

    private final Verbs verbs;
    private String name;
    private String token;

    ByHand(Verbs verbs) {
        this.verbs = verbs;
    }

    @Override
    public String acquire(String wanted, long ttlMs, boolean wait) throws InterruptedException {
        String secret = UUID.randomUUID().toString();
        for (long end = System.currentTimeMillis() + Main.WAIT_MAX_MS;; Thread.sleep(50)) {
            if (verbs.set(wanted, secret, ttlMs)) {
                name = wanted;
                token = secret;
                return "ok";
            }
            if (!wait || System.currentTimeMillis() > end) {
                return "refused";
            }
        }
    }

    @Override
    public String extend(long ttlMs) {
        return verbs.run(EXTEND, name, token, Long.toString(ttlMs)) == 1 ? "ok" : "refused";
    }

    @Override
    public String inspect() {
        return token.equals(verbs.get(name)) ? "held" : "lost";
    }

    @Override
    public String release() {
        return verbs.run(RELEASE, name, token) == 1 ? "ok" : "refused";
    }

    @Override
    public void ping() {
        verbs.ping();
    }

    @Override
    public Class<?>[] libraries() {
        return new Class<?>[] {verbs.library()};
    }

    static final class JedisVerbs implements Verbs {
        private final RedisClient jedis;

        JedisVerbs(String host, int port) {
            jedis = RedisClient.create(host, port);
        }

        @Override
        public boolean set(String name, String token, long ttlMs) {
            return "OK".equals(jedis.set(name, token, SetParams.setParams().nx().px(ttlMs)));
        }

        @Override
        public String get(String name) {
            return jedis.get(name);
        }

        @Override
        public long run(String script, String name, String... args) {
            try {
                return (Long) jedis.evalsha(sha1(script), List.of(name), List.of(args));
            } catch (JedisNoScriptException e) {
                return (Long) jedis.eval(script, List.of(name), List.of(args));
            }
        }

        private static String sha1(String text) {
            try {
                byte[] sum = java.security.MessageDigest.getInstance("SHA-1").digest(SafeEncoder.encode(text));
                return java.util.HexFormat.of().formatHex(sum);
            } catch (java.security.NoSuchAlgorithmException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void ping() {
            jedis.ping();
        }

        @Override
        public Class<?> library() {
            return RedisClient.class;
        }
    }

    static final class LettuceVerbs implements Verbs {
        private final RedisCommands<String, String> redis;

        LettuceVerbs(String host, int port) {
            redis = io.lettuce.core.RedisClient.create(RedisURI.create(host, port)).connect().sync();
        }

        @Override
        public boolean set(String name, String token, long ttlMs) {
            return "OK".equals(redis.set(name, token, SetArgs.Builder.nx().px(ttlMs)));
        }

        @Override
        public String get(String name) {
            return redis.get(name);
        }

        @Override
        public long run(String script, String name, String... args) {
            String[] keys = {name};
            try {
                return redis.<Long>evalsha(redis.digest(script), ScriptOutputType.INTEGER, keys, args);
            } catch (RedisNoScriptException e) {
                return redis.<Long>eval(script, ScriptOutputType.INTEGER, keys, args);
            }
        }

        @Override
        public void ping() {
            redis.ping();
        }

        @Override
        public Class<?> library() {
            return RedisCommands.class;
        }
    }
}

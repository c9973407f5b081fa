import com.google.gson.Gson;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.redisson.Redisson;
import org.redisson.api.RFuture;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.Connection;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.commands.ProtocolCommand;
import redis.clients.jedis.exceptions.JedisDataException;

/**
 * A client program of the torture, see client.go: Jedis, and Redisson's RLock for locks of a library. A session is a thread with connections of
 * its own; the Redisson for a redlockd is shared, as an application would. System.nanoTime is CLOCK_MONOTONIC.
 */
public final class Client {
    private static final Gson gson = new Gson();
    private static final Map<Integer, RedissonClient> redissons = new ConcurrentHashMap<>();
    private static final AtomicLong owners = new AtomicLong();
    private static String[] addresses;
    private static int timeoutMs;

    private static final class Call {
        long id;
        int session;
        int to;
        String op;
        String[] args;
    }

    /** An RLock has an owner of its own each time: an unlock that a server executes late must not end the next lock of the same thread. */
    private static final class Held {
        RLock lock;
        long owner = owners.incrementAndGet();
        int times = 1; // it counts how often its owner has taken it
    }

    public static void main(String[] args) throws Exception {
        addresses = args[0].split(",");
        timeoutMs = Integer.parseInt(args[1]);
        JsonObject ready = new JsonObject();
        ready.addProperty("ready", "Jedis " + version(Connection.class) + ", Redisson " + version(Redisson.class) + ", Java " + System.getProperty("java.version"));
        print(ready);
        Map<Integer, Client> sessions = new HashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Call call = gson.fromJson(line, Call.class);
            Client session = sessions.computeIfAbsent(call.session, n -> new Client());
            session.thread.execute(() -> session.perform(call));
        }
        System.exit(0); // threads of Redisson would keep the process
    }

    private final ExecutorService thread = Executors.newSingleThreadExecutor();
    private final Map<Integer, Connection> connections = new HashMap<>();
    private final Map<String, Held> locks = new HashMap<>();

    private void perform(Call call) {
        JsonObject answer = new JsonObject();
        answer.addProperty("id", call.id);
        answer.addProperty("start", System.nanoTime());
        try {
            answer.add("reply", run(call));
        } catch (Exception e) {
            Throwable cause = e instanceof ExecutionException || e instanceof CompletionException ? e.getCause() : e;
            if (cause instanceof IllegalMonitorStateException) {
                answer.addProperty("reply", 0); // not held any more
            } else {
                answer.addProperty("error", String.valueOf(cause));
            }
            if (call.op.equals("do") && !(cause instanceof JedisDataException)) {
                close(call.to); // nothing may come of what is under way
            }
        }
        answer.addProperty("end", System.nanoTime());
        print(answer);
    }

    private JsonElement run(Call call) throws Exception {
        String name = call.args.length == 0 ? "" : call.args[0];
        switch (call.op) {
            case "close":
                close(call.to);
                return new JsonPrimitive(1);
            case "do":
                return json(connection(call.to).executeCommand(command(call.args)));
            case "obtain": {
                Held held = new Held();
                held.lock = redisson(call.to).getLock(name);
                if (!take(held, call.args[1])) {
                    return JsonNull.INSTANCE;
                }
                locks.put(name, held);
                JsonArray granted = new JsonArray();
                granted.add("RLock");
                granted.add(Long.parseLong(call.args[1]));
                return granted;
            }
            case "extend": { // its owner takes it once more: the way to a longer lease that Redisson has
                Held held = locks.get(name);
                if (!take(held, call.args[1])) {
                    return new JsonPrimitive(0);
                }
                held.times++;
                return new JsonPrimitive(Long.parseLong(call.args[1]));
            }
            case "release": {
                Held held = locks.remove(name);
                for (int i = 0; i < held.times; i++) {
                    await(held.lock.unlockAsync(held.owner));
                }
                return new JsonPrimitive(1);
            }
            default:
                throw new IllegalArgumentException(call.op);
        }
    }

    private static boolean take(Held held, String ttlMs) throws Exception {
        return await(held.lock.tryLockAsync(0, Long.parseLong(ttlMs), TimeUnit.MILLISECONDS, held.owner));
    }

    private static <T> T await(RFuture<T> future) throws Exception {
        return future.toCompletableFuture().get(timeoutMs, TimeUnit.MILLISECONDS);
    }

    /** Nothing is sent twice: the torture decides about that. */
    private static RedissonClient redisson(int to) {
        return redissons.computeIfAbsent(to, n -> {
            Config config = new Config();
            config.setThreads(4).setNettyThreads(4);
            config.useSingleServer().setAddress("redis://" + addresses[n]).setConnectionMinimumIdleSize(1).setConnectionPoolSize(32)
                    .setSubscriptionConnectionMinimumIdleSize(1).setSubscriptionConnectionPoolSize(4)
                    .setTimeout(timeoutMs).setConnectTimeout(timeoutMs).setRetryAttempts(0);
            return Redisson.create(config);
        });
    }

    private Connection connection(int to) {
        return connections.computeIfAbsent(to, n -> {
            String[] parts = addresses[n].split(":");
            return new Connection(new HostAndPort(parts[0], Integer.parseInt(parts[1])),
                    DefaultJedisClientConfig.builder().timeoutMillis(timeoutMs).protocol(RedisProtocol.RESP2).build());
        });
    }

    private void close(int to) {
        Connection connection = connections.remove(to);
        if (connection != null) {
            try {
                connection.close();
            } catch (RuntimeException e) {
                // it was broken
            }
        }
    }

    private static CommandArguments command(String[] words) {
        ProtocolCommand name = () -> words[0].getBytes(StandardCharsets.UTF_8);
        CommandArguments all = new CommandArguments(name);
        Arrays.stream(words).skip(1).forEach(all::add);
        return all;
    }

    private static JsonElement json(Object reply) {
        if (reply instanceof byte[] text) {
            return new JsonPrimitive(new String(text, StandardCharsets.UTF_8));
        }
        if (reply instanceof Number number) {
            return new JsonPrimitive(number);
        }
        if (reply instanceof List<?> parts) {
            JsonArray all = new JsonArray();
            parts.forEach(part -> all.add(json(part)));
            return all;
        }
        return JsonNull.INSTANCE;
    }

    private static synchronized void print(JsonObject line) {
        System.out.println(gson.toJson(line));
    }

    /** The file of a library is named name-version.jar. */
    private static String version(Class<?> library) {
        String jar = Path.of(library.getProtectionDomain().getCodeSource().getLocation().getPath()).getFileName().toString();
        return jar.replaceFirst("^.*?-(?=\\d)", "").replaceFirst("\\.jar$", "");
    }
}

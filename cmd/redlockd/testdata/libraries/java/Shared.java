import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.IntegerOutput;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;

/** Shared host port callers connections: the callers hand one lock on, over so many connections of Lettuce, see ../README.md. */
class Shared {
    static final ProtocolKeyword LOCK = keyword("LOCK"), UNLOCK = keyword("UNLOCK");

    static ProtocolKeyword keyword(String name) {
        return new ProtocolKeyword() {
            @Override public byte[] getBytes() { return name.getBytes(); }
            @Override public String toString() { return name; }
        };
    }

    public static void main(String[] args) {
        int callers = Integer.parseInt(args[2]), connections = Integer.parseInt(args[3]);
        RedisClient client = RedisClient.create(RedisURI.create(args[0], Integer.parseInt(args[1])));
        List<RedisAsyncCommands<String, String>> all = new ArrayList<>();
        for (int i = 0; i < connections; i++) all.add(client.connect().async());
        AtomicInteger here = new AtomicInteger(), together = new AtomicInteger(), done = new AtomicInteger();
        long began = System.nanoTime();
        CompletableFuture<?>[] calls = new CompletableFuture<?>[callers];
        for (int i = 0; i < callers; i++) {
            RedisAsyncCommands<String, String> commands = all.get(i % connections);
            String token = UUID.randomUUID().toString();
            CompletionStage<List<Object>> lock = commands.dispatch(LOCK, new NestedMultiOutput<>(StringCodec.UTF8),
                new CommandArgs<>(StringCodec.UTF8).add("shared").add("30s").add("TOKEN").add(token).add("WAIT").add("1m"));
            calls[i] = lock.thenCompose(granted -> {
                if (granted == null || granted.size() < 2) return CompletableFuture.completedFuture(0L); // a denial is [null] or []
                together.accumulateAndGet(here.incrementAndGet(), Math::max);
                here.decrementAndGet();
                return commands.dispatch(UNLOCK, new IntegerOutput<>(StringCodec.UTF8), new CommandArgs<>(StringCodec.UTF8).add("shared").add(token));
            }).thenAccept(released -> done.addAndGet((int) (long) released)).toCompletableFuture();
        }
        CompletableFuture.allOf(calls).join();
        System.out.println(done + " callers, " + together + " at once");
        System.out.println((System.nanoTime() - began) / 1_000_000);
        System.exit(0);
    }
}
